"""`headway ablate` and `headway patch` of decoders that others wrote, and what no head can be taken of."""

import json

import numpy as np
import pytest
import torch
from support.small_text import STORIES
from support.tolerance import nearly
from support.typed import verb

import headway
from headway.analysis.patch import patch_texts
from headway.base.text import capital
from headway.causal.effects import KINDS
from headway.errors import UserError

transformers = pytest.importorskip("transformers")
SIZES = {"vocab_size": 257, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
READ = {"tokenizer": "bytes", "sequences": 3, "length": 24}


@pytest.fixture(scope="module")
def neox(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "neox"
    torch.manual_seed(0)
    config = transformers.GPTNeoXConfig(
        **SIZES, intermediate_size=32, max_position_embeddings=64, initializer_range=0.3
    )
    transformers.GPTNeoXForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text(STORIES)
    return path


def test_effects_are_losses_of_the_model_without_rows_of_its_projection(neox, text):
    found = headway.ablate(neox, text=text, pairs=True, **READ)
    model = transformers.AutoModelForCausalLM.from_pretrained(neox).eval()
    tokens = torch.tensor(
        headway.open_model(neox, "bytes").sequences(STORIES.split("<|endoftext|>")[:9], n=3, length=25)
    )

    def loss():
        with torch.no_grad():
            logits = model(input_ids=tokens[:, :-1]).logits
        return float(torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()))

    whole = loss()
    with torch.no_grad():
        model.gpt_neox.layers[1].attention.dense.weight[:, 4:8] = 0
    assert found.loss_nats == nearly(whole, dtype=np.float32)
    assert found.exact.single["zero"].mean[1][1] == nearly(loss() - whole, dtype=np.float32, scale=whole)
    assert [len(effects) for effects in found.exact.single["mean"].mean] == [4, 4]
    assert all(np.isfinite(found.exact.single[kind].flat()).all() for kind in KINDS)
    assert found.pairs is not None
    assert [attention.n_heads for attention in found.attentions] == [4, 4]


def test_a_model_is_the_same_by_its_path_in_memory_and_open(neox, text):
    """And an x-ray takes tokens as its text, as an ablation does."""
    module = transformers.AutoModelForCausalLM.from_pretrained(neox).eval()
    opened = headway.open_model(module, "bytes", for_="intervene")
    assert opened.decoder.n_heads == (4, 4)
    by_path, *others = (headway.ablate(model, text=text, **READ) for model in (neox, module, opened))
    for found in others:
        np.testing.assert_array_equal(found.exact.single["mean"].flat(), by_path.exact.single["mean"].flat())
    tokens = np.random.default_rng(0).integers(0, 257, (6, 20))
    one, other = headway.xray(neox, text=tokens, draws=0), headway.xray(opened, tokens=tokens, draws=0)
    assert (one.text, other.text) == ("the given tokens", "the given tokens")
    assert one.loss_nats == other.loss_nats
    with pytest.raises(UserError, match=r"the model is a GPTNeoXForCausalLM: .*, but not yet removed; "):
        headway.prune(module, by="taylor", keep=4, text=tokens)


@pytest.mark.slow
def test_the_verb_gives_json(neox, text, tmp_path):
    words = ("--text", text, "--tokenizer", "bytes", "--sequences", 2, "--length", 16)
    done = verb("ablate", neox, *words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["model"]["architecture"] == "GPTNeoXForCausalLM"
    assert content["text"]["n_tokens"] == 32
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_decoder_is_not_yet_ablated(text, tmp_path):
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=257, d_model=16, d_kv=4, num_heads=4, num_layers=2, d_ff=32)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    said = "t5 is a T5ForConditionalGeneration, an encoder and a decoder over it. .* they need a decoder"
    with pytest.raises(UserError, match=said):
        headway.ablate(tmp_path / "t5", text=text)


@pytest.mark.parametrize("kind", ["GPT2", "Llama"])
def test_their_models_in_memory_are_pruned_where_headway_has_the_architecture(kind):
    torch.manual_seed(0)
    more = {} if kind == "GPT2" else {"intermediate_size": 32}
    config = getattr(transformers, f"{kind}Config")(**SIZES, **more, bos_token_id=0, eos_token_id=0)
    module = getattr(transformers, f"{kind}LMHeadModel" if kind == "GPT2" else f"{kind}ForCausalLM")(config).eval()
    before = {name: array.clone() for name, array in module.state_dict().items()}
    tokens = np.random.default_rng(0).integers(0, 257, (6, 20))
    found = headway.prune(module, by="magnitude", keep=5, text=tokens)
    assert found.layouts[0].startswith("4")
    assert len(found.kept) == 5
    logits = module(torch.from_numpy(tokens)).logits.log_softmax(2)[:, :-1]
    loss = -logits.gather(2, torch.from_numpy(tokens)[:, 1:, None]).mean()
    assert found.losses["text"].before == nearly(float(loss.detach()), dtype=np.float32)
    assert all(torch.equal(array, before[name]) for name, array in module.state_dict().items())


def test_token_ids_and_targets_through_every_door(neox, tmp_path):
    """From files of numbers and of arrays, and on the command line, as from arrays."""
    tokens = np.random.default_rng(0).integers(0, 257, (8, 20))
    targets = np.where(np.arange(20) > 10, np.roll(tokens, -1, 1), -1)
    for name, array in (("tokens", tokens), ("targets", targets)):
        np.save(tmp_path / f"{name}.npy", array)
    files = {"text": tmp_path / "tokens.npy", "targets": tmp_path / "targets.npy"}
    by_file = headway.ablate(neox, **files)
    by_array = headway.ablate(neox, text=tokens[:4], targets=targets[:4], reference=tokens[4:])
    assert by_file.exact.tokens.tolist() == [9] * 4
    np.testing.assert_array_equal(by_file.exact.joint["mean"], by_array.exact.joint["mean"])
    with pytest.raises(UserError, match="it has 2 sequences, but without a reference 3 are needed"):
        headway.ablate(neox, text=tokens[:2], targets=targets[:2])
    (tmp_path / "broken.npy").write_text("5 7")
    with pytest.raises(UserError, match=r"it is not a numpy file of tokens .*; write one with numpy.save"):
        headway.ablate(neox, text=tmp_path / "broken.npy")
    (tmp_path / "ids.txt").write_text("\n".join(" ".join(map(str, row)) for row in tokens))
    read = {"text": tmp_path / "ids.txt", "tokenizer": "ids", "length": 19, "sequences": 4}
    np.testing.assert_array_equal(headway.ablate(neox, **read).exact.loss, headway.ablate(neox, text=tokens).exact.loss)
    (tmp_path / "words.txt").write_text("5 seven")
    with pytest.raises(UserError, match="tokenizer ids: 'seven' is not a token id; write whole numbers with spaces"):
        headway.ablate(neox, **{**read, "text": tmp_path / "words.txt"})
    assert (
        headway.xray(neox, text=files["text"], draws=0).loss_nats == headway.xray(neox, text=tokens, draws=0).loss_nats
    )


def test_texts_of_token_ids_are_patched(neox):
    given = {"clean": "5 17 3", "corrupted": "5 18 3", "sites": ("z",), "paths": False, "tokenizer": "ids"}
    found = patch_texts(neox, answer=" 4", wrong=" 200", **given)
    metric = lambda logits: logits[:, -1, 4] - logits[:, -1, 200]  # noqa: E731
    same = headway.patch(neox, [[5, 17, 3]], [[5, 18, 3]], metric=metric, sites=("z",), paths=False)
    np.testing.assert_array_equal(found.patching.effects["z"], same.effects["z"])
    assert found.metric == "the logit of [ 4] at the end of the text minus the logit of [ 200]"


def test_targets_of_a_pruned_models_text():
    module = transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES, bos_token_id=0, eos_token_id=0)).eval()
    tokens = np.random.default_rng(0).integers(0, 257, (6, 20))
    targets = np.where(np.arange(20) > 10, tokens, -1)
    found = headway.prune(module, by="taylor", keep=4, text=tokens, targets=targets)
    logits = module(torch.from_numpy(tokens)).logits.log_softmax(2)
    loss = -logits.gather(2, torch.from_numpy(tokens)[:, :, None])[:, 11:].mean()
    assert found.losses["text"].before == nearly(float(loss.detach()), dtype=np.float32)


CLEAN, CORRUPTED = "Tim went out and", "Sue went out and"


@pytest.mark.slow
def test_theirs_is_patched_with_paths(neox):
    tokens = [[list(text.encode())] for text in (CLEAN, CORRUPTED)]
    found = headway.patch(neox, *tokens, metric=lambda logits: logits[:, -1, 97], by_position=True, paths=True)
    assert found.effects["pattern"].shape == (8, 16, 1)
    assert found.no_paths is None
    assert found.paths is not None
    assert np.isfinite(found.paths.through["k"][0, 4:]).all()
    model = transformers.AutoModelForCausalLM.from_pretrained(neox).eval()
    with torch.no_grad():
        clean = model(torch.tensor(tokens[0])).logits[0, -1, 97]
    assert found.clean[0] == nearly(float(clean), dtype=np.float32)


@pytest.mark.slow
def test_what_is_not_measured_is_told(tmp_path):
    torch.manual_seed(0)
    config = transformers.OPTConfig(
        **SIZES, word_embed_proj_dim=16, ffn_dim=32, max_position_embeddings=64, init_std=0.3,
        do_layer_norm_before=False, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    transformers.OPTForCausalLM(config).save_pretrained(tmp_path / "opt")
    given = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--answer", "a", "--tokenizer", "bytes")
    done = verb("patch", tmp_path / "opt", *given, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = "paths between heads are not measured: in this model, head outputs do not reach later heads unchanged"
    page = (tmp_path / "results/patch-opt/patch.html").read_text()
    assert capital(said) in page
    content = json.loads((tmp_path / "results/patch-opt/patch.json").read_text())
    assert content["patching"]["paths"] is None
    assert content["patching"]["no_paths"] == content["notes"][0]
    assert content["notes"][0].startswith(said)
    assert len(content["patching"]["effects"]["v"]) == 8


def test_an_encoder_is_not_patched(tmp_path):
    torch.manual_seed(0)
    transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, intermediate_size=32)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"is a BertForMaskedLM, an encoder. .* Ablation and patching measure "):
        headway.patch(tmp_path, [[1, 2]], [[3, 4]], metric=lambda x: x[:, -1, 0])
