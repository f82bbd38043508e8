"""What an x-ray takes: models that Headway's own cannot be, in memory too, tokenizers without an end, long texts."""

import json

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from support import zoo
from support.tolerance import nearly

import headway
from headway.analysis.model import _beginnings
from headway.analysis.open import open_model
from headway.cli.options import check_out
from headway.config.lm.model import GptNeo
from headway.data import documents
from headway.data.corpus import joined
from headway.errors import UserError
from headway.hf.write import export
from headway.models.weights import initial_weights

SMALL = {"sequences": 3, "length": 24, "draws": 4}
STORY = "Once upon a time there was a heron. It stood in the reeds and waited for a fish. "


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text(STORY * 12)
    return path


def characters(folder, eos=None, **config):
    """A tokenizer of characters without a token for the end of a text; or with one that tokenizer_config.json names."""
    known = sorted({*STORY, "?"} | ({eos} if eos else set()))
    inner = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({token: at for at, token in enumerate(known)}, unk_token="?")
    )
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    if eos:
        inner.add_special_tokens([eos])
    inner.save(str(folder / "tokenizer.json"))
    said = {"tokenizer_class": "PreTrainedTokenizerFast", **({"eos_token": eos} if eos else {}), **config}
    (folder / "tokenizer_config.json").write_text(json.dumps(said))
    return len(known)


def saved(kind, config, folder, eos=None):
    torch.manual_seed(0)
    kind(config).save_pretrained(folder)
    characters(folder, eos)
    return folder


LLAMA_3 = {
    "rope_type": "llama3", "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
    "original_max_position_embeddings": 32, "rope_theta": 10_000.0,
}  # fmt: skip
_gpt2 = {**zoo._plain, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
OTHERS = {
    "scaled turns": lambda: (
        transformers.LlamaForCausalLM, transformers.LlamaConfig(**zoo._llama, rope_scaling=LLAMA_3),
    ),
    "classifier": lambda: (
        transformers.GPT2ForSequenceClassification, transformers.GPT2Config(**_gpt2, num_labels=3),
    ),
    "cross-attention": lambda: (
        transformers.GPT2LMHeadModel, transformers.GPT2Config(**_gpt2, add_cross_attention=True),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_headways_own_model_cannot_be_goes_to_transformers(name, text, tmp_path):
    folder = saved(*OTHERS[name](), tmp_path / "model")
    assert open_model(folder).ours is None
    found = headway.xray(folder, text=text, **SMALL)
    assert found.model["architecture"] == OTHERS[name]()[0].__name__
    assert found.scores["query_cka"].draws
    assert np.isfinite(np.concatenate(list(found.scores["ov_effective_rank"].values.values()))).all()
    assert any(note.startswith("circuits are measured from W_Q, W_K, W_V and W_O") for note in found.notes)
    if name == "classifier":
        assert "its loss on the text is not known: it gives no logits of the next token" in found.notes
    else:
        assert 2 < found.loss_nats < 8
        assert found.to_json()["loss_nats"] == found.loss_nats
        assert f"the model's loss on this text is {found.loss_nats:.4g} nats per token" in found.read


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("scaled turns", "rope_type 'llama3' is not supported"),
        ("classifier", "is a GPT2ForSequenceClassification, which Headway cannot load as its own model"),
        ("cross-attention", "add_cross_attention is True, which Headway's model does not have"),
    ],
)
def test_to_write_it_must_be_headways_own(name, said, tmp_path):
    with pytest.raises(UserError, match=said):
        open_model(saved(*OTHERS[name](), tmp_path / "model"), for_="write")


def test_the_loss_is_that_of_transformers_and_of_headway(text, tmp_path):
    kind, config = OTHERS["scaled turns"]()
    opened = open_model(saved(kind, config, tmp_path / "model"))
    tokens = opened.sequences([text.read_text()], n=3, length=24)
    given = torch.from_numpy(tokens)
    with torch.no_grad():
        expected = float(opened.module(given, labels=given).loss)
    assert headway.xray(tmp_path / "model", text=text, **SMALL).loss_nats == nearly(expected, dtype=np.float32)
    own = GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads=2, n_positions=64)
    export(own, zoo.VOCAB_SIZE, initial_weights(own, zoo.VOCAB_SIZE, 0), tmp_path / "own", None)
    module = headway.hf.load(tmp_path / "own")
    with torch.no_grad():
        expected = float(module.loss(given[:, :-1], given[:, 1:]))
    assert headway.xray(module, tokens=tokens, draws=0).loss_nats == nearly(expected, dtype=np.float32)
    assert headway.xray(tmp_path / "own", tokens=tokens, draws=0).loss_nats == nearly(expected, dtype=np.float32)


@pytest.mark.parametrize("name", ["gpt-2", "gpt-neox", "llama", "bert"])
def test_models_of_transformers_in_memory_have_circuits_where_they_are_plain(name):
    model = zoo.model_of(name)
    modes = model.training
    found = headway.xray(model, tokens=zoo.tokens_of((4, 24)), draws=4)
    assert set(found.scores["qk_effective_rank"].values) == {attention.name for attention in found.attentions}
    assert (found.loss_nats is None) == (name == "bert")
    assert model.training == modes


def test_normed_queries_have_no_circuits():
    found = headway.xray(zoo.model_of("qwen-3"), tokens=zoo.tokens_of((4, 24)), draws=0)
    assert "qk_effective_rank" not in found.scores
    assert any(note.startswith("circuits are not measured: the queries, keys and values") for note in found.notes)


@pytest.mark.parametrize("eos", [None, "~"])
def test_tokenizers_without_the_usual_end_of_a_text(eos, tmp_path):
    model = GptNeo(family="gpt-neo", d_model=16, n_layers=1, n_heads=2, n_positions=64)
    folder = tmp_path / "model"
    folder.mkdir()
    vocab_size = characters(folder, eos)
    export(model, vocab_size, initial_weights(model, vocab_size, 0), tmp_path / "written", None)
    for file in (tmp_path / "written").iterdir():
        if not file.name.startswith("tokenizer"):
            file.rename(folder / file.name)
    opened = open_model(folder)
    tokens = opened.sequences(["a time", "a fish"], n=1, length=14)[0].tolist()
    ends = [at for at, token in enumerate(tokens) if token == opened.encoder.end]
    assert ends == ([] if eos is None else [6, 13])
    if eos is None:
        with pytest.raises(UserError, match="it has no token for the end of a text"):
            open_model(folder, for_="write")
    else:
        assert open_model(folder, for_="write").encoder.end == opened.encoder.end


def test_two_towers_get_a_sentence(tmp_path):
    wide = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config={**wide, "vocab_size": 50}, vision_config={**wide, "image_size": 8, "patch_size": 4}
    )
    transformers.CLIPModel(config).save_pretrained(tmp_path / "clip")
    with pytest.raises(UserError, match=r"CLIPModel has two towers, one for text and one for pictures.*text_model"):
        headway.xray(tmp_path / "clip", tokens=[[1, 2, 3]])


def test_of_a_long_document_no_more_is_read_than_is_needed():
    taken = []

    def pieces():
        for at in range(1000):
            taken.append(at)
            yield "abcd", at == 999

    assert next(_beginnings(pieces(), 10)) == "abcdabcdab"
    assert len(taken) == 3
    assert list(_beginnings(["abcdef", "x"], 4)) == ["abcd", "x"]
    assert list(_beginnings(iter([("ab", False), ("c", True), ("x", True)]), 9)) == ["abc", "x"]


def test_a_long_line_is_read_in_parts_that_say_the_same(tmp_path, monkeypatch):
    path = tmp_path / "long.txt"
    path.write_text("ä heron wäits<|endoftext|> by the wäter \r\nfor\n" * 40, encoding="utf-8")
    whole = list(joined(documents.read(path)))
    monkeypatch.setattr(documents, "_LONGEST_LINE", 7)
    assert list(joined(documents.read(path))) == whole
    assert max(len(line) for _, line in documents._parts(path.open("rb"), 7)) < 30
    path.write_bytes(b"one two three\nfour five \xff six")
    with pytest.raises(UserError, match=r"bytes that are not UTF-8 at offset 24 \(line 2\)"):
        list(documents.read(path))


def test_the_output_folder_is_tried_first(tmp_path, monkeypatch):
    check_out(tmp_path / "new" / "deep")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"--out .*file: this is a file; give a folder"):
        check_out(tmp_path / "file")
    with pytest.raises(UserError, match="file is a file; name another folder with --out"):
        check_out(tmp_path / "file" / "inside")

    def refuses(dir):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuses)
    with pytest.raises(UserError, match=r"Headway cannot write to .* \(Permission denied\); name another folder"):
        check_out(tmp_path / "new")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"the page would go to results/, and: Headway cannot write"):
        check_out(None)
