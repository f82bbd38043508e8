"""`headway look`: finished models of Headway and of others, head by head, and everything that cannot be looked at."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers
import torch
from support.typed import verb

import headway
from headway.analysis.look import models_in
from headway.analysis.look_tokens import token_words, visible
from headway.analysis.model import Encoder
from headway.analysis.open import open_model
from headway.config.lm.model import GptNeo
from headway.data.tokenizer import Tokenizer, bytes_tokenizer
from headway.errors import UserError
from headway.heads.results import STEPS
from headway.hf.write import export
from headway.models.weights import initial_weights

RAGGED = GptNeo(family="gpt-neo", d_model=16, n_layers=3, n_heads="4-2-1", n_positions=64, windows=(None, 8))
STORY = "Once upon a time there was a heron. It stood in the reeds and waited for a fish that never came.\n"
SMALL = {"vocab_size": 257, "max_position_embeddings": 64}
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 32}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_text(f"{STORY * 3}<|endoftext|>\n" * 4)
    return path


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ragged"
    export(RAGGED, 257, initial_weights(RAGGED, 257, seed=0), path, bytes_tokenizer())
    return path


@pytest.fixture(scope="module")
def seen(ragged, text):
    return headway.look(ragged, text=text, sequences=2, length=32, draws=2)


def test_patterns_are_those_of_the_model(ragged, seen):
    assert [sequence.kind for sequence in seen.sequences] == ["text", "repeated", "text", "repeated"]
    assert len(seen.patterns) == 3 * 4
    opened = open_model(ragged)
    for number, sequence in enumerate(seen.sequences):
        with torch.inference_mode():
            for attention in opened.trace(list(sequence.tokens)).attentions:
                packed = seen.patterns[attention.name, number]
                assert packed.lower
                assert np.abs(packed.steps() / STEPS - attention.patterns()[0].numpy()).max() < 0.51 / STEPS


def test_the_text_is_the_text_and_what_is_repeated_stands_twice(seen):
    words = "".join(seen.words[token] for token in seen.sequences[0].tokens)
    assert STORY.startswith(words)
    repeated = seen.sequences[1]
    again = repeated.tokens[repeated.begins : repeated.begins + repeated.period]
    assert repeated.tokens[-repeated.period :] == again


def test_numbers_are_those_of_the_x_ray_with_untrained_heads(ragged, text, seen):
    found = headway.xray(ragged, text=text, draws=2)
    for metric, score in found.scores.items():
        for name, values in score.values.items():
            np.testing.assert_array_equal(seen.found.scores[metric].values[name], values)
    assert seen.found.scores["sink_score"].draws
    assert len(seen.found.composition.heads) == 7


def test_every_head_has_pairs_and_circuits_and_every_token_a_word(seen):
    heads = {(name, head) for name, n in zip(seen.found.labels, (4, 2, 1), strict=True) for head in range(n)}
    assert seen.pairs.keys() == seen.circuits.of.keys() == heads
    assert seen.circuits.all
    named = {token for pairs in seen.pairs.values() for pair in pairs for token in (pair.query, pair.key)}
    assert named | set(seen.sequences[1].tokens) <= seen.words.keys()


def test_only_the_heads_that_are_asked_for_keep_their_patterns(ragged, text):
    few = headway.look(ragged, text=text, sequences=1, length=16, draws=0, heads="L0H2, L1,")
    assert {name: packed.heads for (name, number), packed in few.patterns.items() if number == 0} == {
        "layers.0.attention": (2,),
        "layers.1.attention": (0, 1),
    }
    assert "patterns are kept of 3 of 7 heads, as asked (--heads)" in few.notes
    assert len(few.pairs) == 7


@pytest.mark.slow
def test_what_would_be_too_large_is_cut_and_said(tmp_path, text):
    wide = GptNeo(family="gpt-neo", d_model=64, n_layers=2, n_heads="32", n_positions=256)
    weights = {
        name: 40 * weight if ".q." in name or ".k." in name else weight
        for name, weight in initial_weights(wide, 257, seed=0).items()
    }
    export(wide, 257, weights, tmp_path / "wide", bytes_tokenizer())
    options = {"text": text, "length": 128, "draws": 0, "sequences": 8}
    cut = headway.look(tmp_path / "wide", largest=800_000, **options)
    n = len(cut.sequences)
    assert 2 <= n < 16
    more = "to keep more, give fewer heads (--heads), a shorter --length or a larger --largest"
    assert f"patterns of {n} of 16 sequences are kept, so that the page stays below 0.8 MB; {more}" in cut.notes
    short = headway.look(tmp_path / "wide", largest=600_000, **{**options, "length": 256})
    assert any(note.startswith("sequences are cut to ") for note in short.notes)
    assert {len(sequence.tokens) for sequence in short.sequences} < {128, 64, 32, 16}
    with pytest.raises(UserError, match="largest 1,000 bytes: a page without any patterns needs 600,000; give more"):
        headway.look(tmp_path / "wide", largest=1000, **options)


def test_a_short_text_is_shown_and_not_judged(ragged, tmp_path):
    (tmp_path / "short.txt").write_text("A cat.")
    seen = headway.look(ragged, text=tmp_path / "short.txt")
    assert [len(sequence.tokens) for sequence in seen.sequences] == [7, 6]
    assert "the text gives 7 tokens, too few to compare these heads with random heads" in seen.found.notes[0]
    assert "sink_score" in seen.found.scores
    assert "query_cka" not in seen.found.scores
    assert seen.found.findings == ()
    (tmp_path / "shorter.txt").write_text("")
    with pytest.raises(UserError, match="text"):
        headway.look(ragged, text=tmp_path / "shorter.txt")


def foreign(path, kind, config):
    torch.manual_seed(0)
    kind(config).save_pretrained(path)
    return path


def test_an_encoder_is_looked_at_whole(tmp_path, text):
    transformers = pytest.importorskip("transformers")
    path = foreign(tmp_path / "bert", transformers.BertForMaskedLM, transformers.BertConfig(**SMALL, **SIZES))
    seen = headway.look(path, text=text, tokenizer="bytes", sequences=1, length=16, draws=0)
    assert not any(packed.lower for packed in seen.patterns.values())
    steps = seen.patterns[next(iter(seen.found.labels)), 0].steps()
    assert np.abs(steps.sum(2, dtype=int) - STEPS).max() <= 8
    assert seen.circuits is None


def test_a_decoder_over_an_encoder_has_three_kinds_of_patterns(tmp_path, text):
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": 16, "d_kv": 4, "num_heads": 4, "num_layers": 2, "d_ff": 32}
    config = transformers.T5Config(vocab_size=257, decoder_start_token_id=0, **sizes)
    path = foreign(tmp_path / "t5", transformers.T5ForConditionalGeneration, config)
    seen = headway.look(path, text=text, tokenizer="bytes", sequences=1, length=16, draws=0)
    assert seen.decodes
    cross = next(each.name for each in seen.found.attentions if each.kind == "cross")
    assert all(pair.query in seen.words for pair in seen.pairs[cross, 0])
    kinds = {each.kind: each.name for each in seen.found.attentions}
    assert {kind: seen.patterns[name, 0].lower for kind, name in kinds.items()} == {
        "encoder": False, "self": True, "cross": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"heads": "L9H9"}, "heads 'L9H9': there is no such layer; the model has L0, L1, L2"),
        ({"text": "nowhere.txt"}, "text nowhere.txt: there is no such file or folder"),
        ({"draws": -1}, "draws -1"),
    ],
)
def test_what_is_asked_wrongly_is_said(ragged, text, options, said):
    with pytest.raises(UserError, match=said):
        headway.look(ragged, **{"text": text, "length": 16, "sequences": 1, **options})


def test_what_is_no_model_is_said(tmp_path, text):
    with pytest.raises(UserError, match="there is no such folder"):
        headway.look(tmp_path / "nowhere", text=text)
    with pytest.raises(UserError, match="it is a file"):
        headway.look(text, text=text)
    with pytest.raises(UserError, match="17 models were asked for, and a page holds 16 at most"):
        models_in([tmp_path / str(at) for at in range(17)])


@pytest.mark.slow
def test_runs_without_tokens_and_directories_without_models_are_said(tmp_path):
    small = ["training.steps=20", "evaluation.prompts=50", "evaluation.curve=null"]
    experiment = headway.load("icl-heads", settings=small).select(arms=["h1"])
    store = headway.run(experiment, tmp_path / "icl", seeds=1, figures=False, progress=False)
    with pytest.raises(UserError, match="it is a run of the in-context laboratory, which has no tokens"):
        headway.look(store.run("h1", 0).path)
    with pytest.raises(UserError, match="it has no finished run of a language model"):
        models_in([tmp_path / "icl"])


@pytest.mark.slow
def test_a_directory_is_looked_at_by_its_arms_on_its_own_text(tmp_path, text):
    document = {
        "name": "tiny",
        "task": {"kind": "text", "corpus": str(text), "tokenizer": "bytes", "n_ctx": 16, "held_out": 0.3},
        "model": {"family": "gpt-2", "d_model": 8, "n_layers": 2, "n_heads": 2, "n_positions": 16},
        "training": {"optimizer": "adamw", "learning_rate": 1e-3, "batch_size": 2, "steps": 4},
        "probes": {"every": 2, "patterns": True},
        "arms": {"even": {}, "ragged": {"model": {"n_heads": "1-2"}}},
    }
    (tmp_path / "tiny.yaml").write_text(json.dumps(document))
    store = headway.run(tmp_path / "tiny.yaml", tmp_path / "runs", seeds=1, figures=False, progress=False)
    assert [path.parent.name for path in models_in([store.path])] == ["even", "ragged"]
    done = verb("look", store.path, "--null-draws", 0, "--sequences", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"page: {store.path / 'look.html'}" in done.stdout
    assert f"linked from {store.path / 'report.html'}" in done.stdout
    html = (store.path / "look.html").read_text()
    models = json.loads(html.partition('id="look-data">')[2].partition("</script>")[0])["models"]
    assert [model["name"] for model in models] == ["even, seed 0", "ragged, seed 0"]
    assert [model["steps"] for model in models] == [[0, 2, 4]] * 2
    assert [[row["n"] for row in model["rows"]] for model in models] == [[2, 2], [1, 2]]
    assert '<a href="look.html">' in (store.path / "report.html").read_text()
    run = store.run("even", 0).path
    assert headway.xray(run, draws=0, sequences=2).text == str(text)
    assert headway.ablate(run, sequences=2).text == str(text)


@pytest.mark.slow
def test_the_verb_writes_one_page(ragged, text, tmp_path):
    done = verb("look", ragged, "--text", text, "--length", 16, "--null-draws", 0, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("page: results/look-ragged.html (0.")
    html = (tmp_path / "results/look-ragged.html").read_text()
    data = json.loads(html.partition('id="look-data">')[2].partition("</script>")[0])
    assert [row["label"] for row in data["models"][0]["rows"]] == ["L0", "L1", "L2"]
    two = verb(
        "look", ragged, ragged, "--text", text, "--length", 16, "--null-draws", 0, "--heads", "L0", "--out", "two.html",
        cwd=tmp_path,
    )  # fmt: skip
    assert two.returncode == 0, two.stderr
    assert "note: ragged: patterns are kept of 4 of 7 heads, as asked (--heads)" in two.stdout
    assert "page: two.html" in two.stdout


@pytest.mark.slow
def test_the_verb_says_what_is_wrong_before_it_measures(ragged, text, tmp_path):
    (tmp_path / "there").mkdir()
    for words, said in (
        (["--text", text, "--out", "there"], "--out there: it is a folder; give a file, such as there/look.html"),
        (["--text", text, "--heads", "L9H9"], "heads 'L9H9': there is no such layer"),
        ([], "which text should it read? Give one with --text"),
    ):
        done = verb("look", ragged, *words, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr
        assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_words_of_tokens_are_seen(ragged):
    words = token_words(open_model(ragged), [104, 10, 32, 0xE2, 0, 256])
    assert words == {0: "⟨U+0000⟩", 10: "↵", 32: " ", 104: "h", 0xE2: "⟨E2⟩", 256: "<|endoftext|>"}
    assert visible("\u202eabc\u200d") == "⟨U+202E⟩abc⟨U+200D⟩"
    assert visible("\u0301") == "◌\u0301"
    assert visible("\xa0") == "⟨U+00A0⟩"
    odd = token_words(open_model(ragged), [300])
    assert list(odd) == [300]
    assert odd[300].startswith("⟨")
    assert token_words(SimpleNamespace(tokenizer=None), [7, 12]) == {7: " 7", 12: " 12"}
    assert visible("y" * 10_000) == "y" * 32 + "… (10,000 characters)"


def test_tokenizers_without_an_end_or_of_few_words_are_looked_at(tmp_path):
    """A vocabulary of digits has no token for a letter, which is no fault of the text."""
    for number, ends in enumerate([{}, {"<|endoftext|>": 3}]):
        folder = tmp_path / f"digits-{number}"
        n = 3 + len(ends)
        export(RAGGED, n, initial_weights(RAGGED, n, seed=0), folder, None)
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"0": 0, "1": 1, "2": 2, **ends}))
        words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        words.save(str(folder / "tokenizer.json"))
        (tmp_path / "digits.txt").write_text("0 1 2 2 1 0 " * 60)
        view = headway.look(folder, text=tmp_path / "digits.txt", length=12, sequences=2, draws=0)
        assert {view.words[token].strip() for token in range(3)} == {"0", "1", "2"}
        (tmp_path / "letters.txt").write_text("0 1 a " * 60)
        with pytest.raises(UserError, match="the tokenizer has no token for a part of the text"):
            headway.look(folder, text=tmp_path / "letters.txt", length=12, draws=0)


def test_a_tokenizer_of_another_library_may_have_few_words_too():
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"0": 0, "1": 1, "<s>": 2}))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.post_processor = tokenizers.processors.TemplateProcessing("<s> $A", special_tokens=[("<s>", 2)])
    encoder = Encoder.of(pytest.importorskip("transformers").PreTrainedTokenizerFast(tokenizer_object=words))
    assert (encoder.before, encoder.some, encoder.after) == ((2,), (0,), ())
    with pytest.raises(UserError, match="the tokenizer has no token for a part of the text"):
        encoder.encode("a")


def test_the_space_between_tokens_is_not_counted_to_a_token():
    long, spaced = "y" * 10_000, "▁" + "y" * 9_999
    words = {"<eos>": 0, "a": 1, long: 2, "b": 3}
    split = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<eos>"))
    joined = tokenizers.Tokenizer(tokenizers.models.WordLevel({**words, spaced: 4}, unk_token="<eos>"))
    joined.decoder = tokenizers.decoders.Metaspace()
    for inner, token, said in (
        (split, 2, " " + "y" * 32 + "… (10,000 characters)"),
        (split, 3, " b"),
        (joined, 2, "y" * 32 + "… (10,000 characters)"),
        (joined, 4, " " + "y" * 31 + "… (10,000 characters)"),  # the space is the token's own
    ):
        tokenizer = Tokenizer.of(inner, "planted")
        opened = SimpleNamespace(tokenizer=tokenizer, encoder=Encoder.of(tokenizer))
        assert token_words(opened, [token]) == {token: said}
