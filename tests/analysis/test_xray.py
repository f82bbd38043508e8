"""`headway xray`: finished models of Headway and of others, on a text, and everything that cannot be measured."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support import planted
from support.stored import data
from support.stories import tokenizer as stories_tokenizer
from support.tolerance import assert_same
from support.typed import verb

import headway
from headway.analysis.open import open_model
from headway.config.lm.model import GptNeo
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.heads.scores import from_arrays
from headway.hf.write import export
from headway.models.weights import initial_weights
from headway.report.models.xray import heads, layers

RAGGED = GptNeo(family="gpt-neo", d_model=16, n_layers=3, n_heads="4-2-1", n_positions=64, windows=(None, 8))
STORY = "Once upon a time there was a heron. It stood in the reeds and waited for a fish that never came.\n"


def python(*words, cwd):
    command = [sys.executable, *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False, env=environment)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text(f"{STORY * 3}<|endoftext|>\n" * 4)
    return path


def folder(path, model=RAGGED, weights=None, tokenizer=True, vocab_size=257):
    weights = weights or initial_weights(model, vocab_size, seed=0)
    export(model, vocab_size, weights, path, bytes_tokenizer() if tokenizer else None)
    return path


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    return folder(tmp_path_factory.mktemp("models") / "ragged")


@pytest.fixture(scope="module")
def found(ragged, text):
    return headway.xray(ragged, text=text, sequences=3, length=48)


def test_it_says_what_it_read_and_what_the_model_is(found):
    assert (found.name, found.n_sequences, found.length, found.n_tokens) == ("ragged", 3, 48, 144)
    assert [(a.n_heads, a.d_head) for a in found.attentions] == [(4, 4), (2, 8), (1, 16)]
    assert list(found.labels.values()) == ["L0", "L1", "L2"]
    assert found.model["heads"] == "4-2-1"
    assert {"copying_score", "qk_effective_rank", "induction_score", "duplicate_token_score"} <= set(found.scores)
    assert len(found.composition.heads) == 7


def test_the_text_is_one_ring_of_documents_with_the_end_of_text_between(ragged, text):
    opened = open_model(ragged)
    tokens = opened.sequences(iter(["ab", "cd"]), n=2, length=3)
    assert tokens.tolist() == [[97, 98, 256], [99, 100, 256]]
    short = opened.sequences(iter(["abcd"]), n=2, length=64)
    assert short.tolist() == [[97, 98, 99, 100, 256]]


def test_shares_are_a_metric_with_the_even_split_as_their_null(found):
    score = found.scores["output_share"]
    assert {name: float(null) for name, null in score.null.items()} == {
        "layers.0.attention": 0.25,
        "layers.1.attention": 0.5,
        "layers.2.attention": 1.0,
    }
    assert list(found.scores)[-1] == heads(found).columns[-1].replace(" ", "_") == "output_share"
    assert found.to_json()["output_share"]["layers.0.attention"] == pytest.approx(
        score.values["layers.0.attention"], rel=1e-4
    )
    assert sum(found.to_json()["metrics"]["output_share"]["values"]["layers.1.attention"]) == pytest.approx(1, rel=1e-4)


def test_a_layer_with_one_head_needs_two(found):
    assert found.notes == (
        "induction and duplicate-token heads are not measured on repeats within the text. Only 88 of 144 tokens (3 "
        "sequences) occurred earlier in their sequence. At least 100, from 2 sequences, are needed",
        "1 of 3 attentions have one head: a metric of pairs needs two heads",
        "scores have no intervals over 3 sequences, so findings hold for this text only; 8 sequences give intervals",
    )
    *_, last = layers(found).rows
    assert last.cells[:4] == ("L2", "1x16", "one head only", "one head only")
    assert np.isnan(found.scores["query_cka"].per_head()["layers.2.attention"]).all()


def test_json_is_plain_and_whole(found):
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["schema"] == 1
    assert content["text"]["n_tokens"] == 144
    assert np.shape(content["metrics"]["query_cka"]["values"]["layers.0.attention"]) == (4, 4)
    assert content["metrics"]["query_cka"]["per_head"]["layers.2.attention"] == [None]
    assert content["metrics"]["sink_score"]["values"]["layers.1.attention"] == pytest.approx(
        found.scores["sink_score"].values["layers.1.attention"], rel=1e-4
    )
    assert [attention["label"] for attention in content["attentions"]] == ["L0", "L1", "L2"]
    assert content["composition"]["heads"][0] == "L0H0"
    assert content["findings"] == json.loads(json.dumps([finding.to_json() for finding in found.findings]))
    assert all({"about", "sentence", "p", "found", "heads", "named"} <= set(each) for each in content["findings"])


XRAY = """
import sys
sys.argv = ["headway", "xray", *sys.argv[1:]]
from headway.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
loaded = [name for name in sys.modules if name.startswith("headway.report.")]
print(*sorted({name.split(".")[2] for name in loaded}), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def written(ragged, text, tmp_path_factory):
    out = tmp_path_factory.mktemp("written")
    words = [ragged, "--text", text, "--sequences", 3, "--length", 48]
    done = python("-c", XRAY, *words, cwd=out)
    assert done.returncode == 0, done.stderr
    return out, done


def test_the_verb_prints_what_stands_out_a_table_and_where_the_page_is(written):
    """Of a model with the weights that it started with, nothing does."""
    out, done = written
    assert done.stdout.startswith(
        "* No head clearly differs in any metric from 16 random copies of its layer on this text.\n- Induction heads "
    )
    assert "one head only" in done.stdout
    assert "measured on 3 sequences of 48 tokens, 144 tokens in all, from " in done.stdout
    assert done.stdout.endswith("page: results/xray-ragged/xray.html\n")
    folder = out / "results/xray-ragged"
    assert {path.name for path in folder.iterdir()} == {"xray.html", "xray.json", "heads.safetensors", "figures"}
    names = {path.name for path in (folder / "figures").iterdir()}
    assert {f"atlas.{kind}" for kind in ("png", "svg", "pdf")} <= names
    assert {"pairs-output-dissimilarity.png", "composition.svg"} <= names


def few(page):
    """The same with two figures, of which one is drawn where heads compose."""
    return dataclasses.replace(
        page, figures=[f for f in page.figures if f.name in ("composition", page.figures[0].name)]
    )


def test_no_figure_of_a_report_is_loaded(written):
    _, done = written
    assert done.stderr.splitlines()[-1] == "charts models terminal"


@pytest.mark.slow
def test_a_page_leads_to_the_look_at_the_same_heads_or_says_how_to_have_it(ragged, found, tmp_path):
    from headway.report.models.xray import xray_page

    page, folder = few(xray_page(found, "headway look ragged")), tmp_path / "xray-ragged"
    html = page.write(folder, ragged, "headway xray").read_text()
    assert "<code>headway look ragged</code> writes a page that shows the heads" in html
    assert "look-ragged.html" not in html
    (tmp_path / "look-ragged.html").write_text("")
    assert '<a href="../look-ragged.html">Look at the heads</a>' in page.write(folder, ragged, "x").read_text()
    (folder / "look.html").write_text("")
    assert '<a href="look.html">Look at the heads</a>' in page.write(folder, ragged, "x").read_text()
    assert "look.html" not in xray_page(found).html("headway xray")


@pytest.mark.slow
def test_the_numbers_in_a_folder_name_the_figures_of_their_model_alone(ragged, text, found, tmp_path):
    from headway.report.models.xray import xray_page

    few(xray_page(found)).write(tmp_path, ragged, "headway xray")
    assert (tmp_path / "figures/composition.svg").is_file()
    other = dataclasses.replace(found, composition=None)
    few(xray_page(other)).write(tmp_path, ragged, "headway xray")
    listed = json.loads((tmp_path / "xray.json").read_text())["figures"]
    assert all((tmp_path / name).is_file() for name in listed)
    assert not any("composition" in name for name in listed)


def test_models_of_one_name_are_not_written_over_each_other(found, tmp_path, monkeypatch):
    from headway.report.models.page import folder_of

    monkeypatch.chdir(tmp_path)
    first, second = tmp_path / "a/seed-0", tmp_path / "b/seed-0"
    place = folder_of("xray", found, first)
    assert place == Path(f"results/xray-{found.name}")
    place.mkdir(parents=True)
    (place / "xray.json").write_text(json.dumps({"checkpoint": str(first)}))
    assert folder_of("xray", found, first) == place
    assert folder_of("xray", found, second) == Path(f"results/xray-{found.name}-2")


def test_out_is_looked_at_before_anything_is_measured(ragged, text, tmp_path):
    (tmp_path / "file").write_text("")
    done = verb("xray", ragged, "--text", tmp_path / "nowhere.txt", "--out", tmp_path / "file", cwd=tmp_path)
    assert done.returncode == 2
    assert "this is a file; give a folder" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_page_is_one_file_that_fetches_nothing(written):
    page = (written[0] / "results/xray-ragged/xray.html").read_text()
    body = page[: page.index('<script type="application/json"')]
    assert "://" not in body
    assert "<title>Attention heads: ragged · Headway</title>" in body
    assert 'data-chart="atlas"' in body
    assert "headway xray " in body
    assert "default-src 'none'" in body


def test_untrained_heads_are_drawn_as_often_as_asked_for(ragged, text):
    few = headway.xray(ragged, text=text, sequences=2, length=32, draws=5)
    drawn = few.scores["sink_score"].draws["layers.0.attention"]
    assert drawn.shape == (5, 4)
    assert few.scores["query_cka"].draws["layers.0.attention"].shape == (5, 4, 4)
    assert few.scores["copying_score"].draws["layers.0.attention"].shape == (5, 4)
    content = few.to_json()["metrics"]["sink_score"]
    np.testing.assert_allclose(content["untrained"]["layers.0.attention"], drawn.mean(0), rtol=1e-3)
    np.testing.assert_allclose(content["untrained_spread"]["layers.0.attention"], drawn.std(0, ddof=1), rtol=1e-2)
    none = headway.xray(ragged, text=text, sequences=2, length=32, draws=0)
    assert not none.scores["sink_score"].draws
    assert any("no random heads were drawn (draws 0)" in note for note in none.notes)
    with pytest.raises(UserError, match="draws -1: give a number from 0"):
        headway.xray(ragged, text=text, draws=-1)


def test_the_files_hold_every_metric(written, found):
    from safetensors.numpy import load_file

    arrays = load_file(written[0] / "results/xray-ragged/heads.safetensors")
    read = from_arrays(arrays, [attention.name for attention in found.attentions])
    assert list(read) == list(found.scores)
    assert_same(
        read["query_cka"].values["layers.0.attention"],
        found.scores["query_cka"].values["layers.0.attention"],
        dtype=np.float32,
    )


def foreign(path, kind, config):
    torch.manual_seed(0)
    kind(config).save_pretrained(path)
    return path


SMALL = {"vocab_size": 257, "max_position_embeddings": 64}


def gpt_neox():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    return transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig(**SMALL, **sizes)


def bert():
    transformers = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}
    return transformers.BertForMaskedLM, transformers.BertConfig(**SMALL, **sizes)


def t5():
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": 16, "d_kv": 4, "num_heads": 4, "num_layers": 2, "d_ff": 32}
    return transformers.T5ForConditionalGeneration, transformers.T5Config(
        vocab_size=257, decoder_start_token_id=0, **sizes
    )


@pytest.mark.parametrize(
    ("model", "labels", "induction"),
    [
        (gpt_neox, ["L0", "L1"], True),
        (bert, ["L0", "L1"], False),
        (t5, [f"{kind} L{layer}" for kind in ("encoder", "decoder", "cross") for layer in (0, 1)], False),
    ],
)
def test_folders_of_other_models(model, labels, induction, text, tmp_path):
    path = foreign(tmp_path / "foreign", *model())
    found = headway.xray(path, text=text, tokenizer="bytes", sequences=2, length=32)
    assert list(found.labels.values()) == labels
    assert [attention.n_heads for attention in found.attentions] == [4] * len(labels)
    assert set(found.scores["output_dissimilarity"].values) == set(found.labels)
    assert ("induction_score" in found.scores) == induction
    assert any("this model is not causal" in note for note in found.notes) != induction
    assert " are measured from W_Q, W_K, W_V and W_O, which read the normed stream" in " ".join(found.notes)
    rows = [row.cells[0] for row in layers(found).rows]
    assert rows == labels


@pytest.mark.slow
def test_a_model_that_others_trained_has_previous_token_heads(tmp_path):
    weights, tokens = data("stories260K/weights.npz"), data("stories260K/tok512.bin")
    valid = data("tinystories/valid.txt")
    from support import stories as published

    export(
        published.MODEL, published.VOCAB_SIZE, published.load(weights), tmp_path / "stories", stories_tokenizer(tokens)
    )
    story = "Once upon a time, Tim and Sue ran.\n"
    assert stories_tokenizer(tokens).encode(story) == published.Tokenizer(tokens).encode(story)
    opened = open_model(tmp_path / "stories")
    sequences = opened.sequences(iter([story * 20]), n=2, length=64)
    assert sequences[:, 0].tolist() == [published.BOS] * 2  # a Llama's text begins with one
    found = headway.xray(tmp_path / "stories", text=valid, sequences=4, length=256)
    previous = found.scores["previous_token_score"]
    best = {name: value.max() / previous.null[name].item() for name, value in previous.values.items()}
    assert max(best.values()) > 10
    assert any(finding.about == "previous_token_score" for finding in found.findings)


def spoiled(path, name, value):
    weights = initial_weights(RAGGED, 257, seed=0)
    weights[name] = np.full_like(weights[name], value)
    return folder(path, weights=weights)


def test_logits_that_overflow_leave_the_heads_and_no_loss(text, tmp_path):
    found = headway.xray(spoiled(tmp_path / "loud", "norm.weight", 3e38), text=text, sequences=2, length=32)
    assert found.loss_nats is None
    assert (
        "its loss on the text is not finite, since its logits overflow; the outputs of its heads are finite"
    ) in found.notes
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_no_numbers_are_named_by_layer(value, text, tmp_path):
    path = spoiled(tmp_path / "broken", "layers.1.attention.q.weight", value)
    message = r"broken: weights are NaN or infinite, so its heads cannot be measured \(layers.1: attention.q.weight\)"
    with pytest.raises(UserError, match=message):
        headway.xray(path, text=text)


def test_no_tokenizer(text, tmp_path):
    path = folder(tmp_path / "mute", tokenizer=False)
    with pytest.raises(
        UserError, match="mute has no tokenizer; tokenizer: give the model's tokenizer, as a folder, bytes or gpt2"
    ):
        headway.xray(path, text=text)
    assert headway.xray(path, text=text, tokenizer="bytes", sequences=1, length=16).n_tokens == 16


def test_tokens_outside_of_the_vocabulary(tmp_path):
    # The folder of another model's tokenizer: its size would fit, its tokens do not.
    opened = open_model(folder(tmp_path / "ours"))
    smaller = dataclasses.replace(opened, vocab_size=110)
    with pytest.raises(UserError, match="token 110 was given, but the model ours has tokens 0 to 109; tokenizer: give"):
        smaller.sequences(iter(["no"]), n=1, length=8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no such file or folder"),
        (b"", "there is no text in it"),
        (b"<|endoftext|>\n\n<|endoftext|>", "there is no text in it"),
        (b"ab\0c", "is not a text: a NUL byte at offset 2"),
        (b"ab\xff\xfe", "is not a text: bytes that are not UTF-8 at offset 2"),
    ],
)
def test_texts_that_cannot_be_read(content, message, ragged, tmp_path):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        headway.xray(ragged, text=path)


@pytest.mark.slow
def test_a_text_that_is_too_short(ragged, tmp_path):
    mute = folder(tmp_path / "one", tokenizer=False)
    opened = open_model(mute, "bytes")
    with pytest.raises(UserError, match="a sequence of 1 token, and metrics of attention need at least 2; give"):
        opened.sequences(iter(["a"]), n=1, length=1)
    (tmp_path / "tiny.txt").write_text("abc")
    with pytest.raises(UserError, match="the text gives 4 tokens, on which all heads of width 8 look similar"):
        headway.xray(ragged, text=tmp_path / "tiny.txt", length=32)
    (tmp_path / "short.txt").write_text("a story, an")
    found = headway.xray(ragged, text=tmp_path / "short.txt", length=32)
    assert found.notes[0] == "the text has only 12 tokens: one sequence that is shorter than 32"
    assert "on 12 positions, heads of width 8 look similar even if they are unrelated: give more text" in found.notes
    (tmp_path / "two.txt").write_text("a" * 50)
    found = headway.xray(ragged, text=tmp_path / "two.txt", length=20)
    assert found.notes[0] == "the text gives only 2 of 204 sequences of 20 tokens"


def test_a_length_that_the_model_cannot_read(ragged, text):
    with pytest.raises(UserError, match="length 65: ragged reads 64 tokens at most; give fewer"):
        headway.xray(ragged, text=text, length=65)
    for option in ("sequences", "length"):
        with pytest.raises(UserError, match=f"{option} 0: at least 1 is needed"):
            headway.xray(ragged, text=text, **{option: 0})


@pytest.mark.slow
def test_a_length_too_short_for_repeated_tokens(ragged, text):
    found = headway.xray(ragged, text=text, length=3)
    assert "induction_score" not in found.scores
    assert "a length of 3 is too short to repeat tokens, so there is no induction score" in found.notes


def test_a_model_whose_attention_cannot_be_traced_is_refused_before_it_runs(text, tmp_path, monkeypatch):
    transformers = pytest.importorskip("transformers")
    config = transformers.MambaConfig(vocab_size=257, hidden_size=16, num_hidden_layers=2, state_size=4)
    path = foreign(tmp_path / "mamba", transformers.MambaForCausalLM, config)
    monkeypatch.setattr(transformers.MambaForCausalLM, "forward", None)
    with pytest.raises(UserError, match="MambaForCausalLM cannot be traced: it has no attention"):
        headway.xray(path, text=text, tokenizer="bytes")


def test_a_model_without_heads_has_nothing_to_measure(text, tmp_path):
    path = folder(tmp_path / "none", GptNeo(family="gpt-neo", d_model=16, n_layers=2, n_heads="0-0", n_positions=64))
    with pytest.raises(UserError, match="none has no attention heads: there is nothing to measure"):
        headway.xray(path, text=text)


@pytest.mark.parametrize("reset", [False, True])
def test_induction_heads_are_named_on_drawn_repeats_and_on_the_text(reset):
    """Of a model that follows a token by what followed it before; of one with random weights instead, none is."""
    model, ((_, _), (layer, head)) = planted.planted(3, reset=reset)
    text = np.random.default_rng(0).integers(planted.VOCAB, size=(16, 30))
    found = headway.xray(model, tokens=text)
    sentences = {finding.about: finding for finding in found.looked_for}
    said = sentences["induction_score"]
    assert said.found is not reset
    roles = [each for each in said.statements if "role" in each.values]
    assert [each.values["role"] for each in roles] == [
        "Induction heads on repeated random tokens", "Induction heads on repeats within the text",
    ]  # fmt: skip
    assert {each.kind for each in roles} == {"no_special" if reset else "special"}
    if not reset:
        assert all(f"(1): L{layer}H{head}. " in each.sentence for each in roles)
        assert {"interval", "by_place"} <= {each.kind for each in said.statements}
    assert not any("no intervals" in note or "own repeats" in note for note in found.notes)
    content = found.to_json()["metrics"]["text_induction_score"]
    assert np.shape(content["interval"]["layers.1.attention"]) == (2, len(content["values"]["layers.1.attention"]))
