"""`headway ablate` and `headway patch` of decoders that others wrote, and what no head can be taken of."""

import json

import numpy as np
import pytest
import torch
from analysis.test_ablate import STORIES, verb
from support.tolerance import nearly

import headway
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


@pytest.mark.slow
def test_the_verb_gives_json(neox, text, tmp_path):
    words = ("--text", text, "--tokenizer", "bytes", "--sequences", 2, "--length", 16)
    done = verb("ablate", neox, *words, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["model"]["architecture"] == "GPTNeoXForCausalLM"


def test_a_circuit_of_theirs(neox):
    tokens = np.random.default_rng(0).integers(0, 257, (6, 20))
    found = headway.circuit(neox, ["L0H1", "L1H3"], text=tokens[:3], reference=tokens[3:], draws=4)
    assert found.none != found.whole
    assert len(found.random_shares) == 4
    with pytest.raises(UserError, match=r"L1H4 is none of them; give some of the heads of the model \(4-4\)"):
        headway.circuit(neox, ["L1H4"], text=tokens[:3], reference=tokens[3:])


def test_what_is_no_decoder_is_not_yet_ablated(text, tmp_path):
    torch.manual_seed(0)
    config = transformers.T5Config(vocab_size=257, d_model=16, d_kv=4, num_heads=4, num_layers=2, d_ff=32)
    transformers.T5ForConditionalGeneration(config).save_pretrained(tmp_path / "t5")
    said = "t5 is a T5ForConditionalGeneration, an encoder and a decoder over it: .*, but not yet taken away"
    with pytest.raises(UserError, match=said):
        headway.ablate(tmp_path / "t5", text=text)


def test_only_our_own_are_pruned(neox, text):
    said = "neox is a GPTNeoXForCausalLM: its heads can be measured .*, masked .* and patched .*, but not yet removed; "
    with pytest.raises(UserError, match=said):
        headway.prune(neox, by="taylor", keep=4, text=text)


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
    said = "paths between heads are not measured: what a head of this model writes does not reach later heads as it is"
    page = (tmp_path / "results/patch-opt/patch.html").read_text()
    assert said in page
    content = json.loads((tmp_path / "results/patch-opt/patch.json").read_text())
    assert content["patching"]["paths"] is None
    assert content["patching"]["no_paths"] == content["notes"][0]
    assert content["notes"][0].startswith(said)
    assert len(content["patching"]["effects"]["v"]) == 8


def test_an_encoder_is_not_patched(tmp_path):
    torch.manual_seed(0)
    transformers.BertForMaskedLM(transformers.BertConfig(**SIZES, intermediate_size=32)).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"is a BertForMaskedLM, an encoder: .*, but not yet taken away or patched, "):
        headway.patch(tmp_path, [[1, 2]], [[3, 4]], metric=lambda x: x[:, -1, 0])
