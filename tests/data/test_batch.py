"""What is seen of a corpus before a run: the same refusals, and no more work than needed."""

import json

import numpy as np
import pytest
import tokenizers

from headway.config.kinds import parse_run
from headway.data import corpus, token_store, tokenizer
from headway.data.batch import preflight, prepare
from headway.data.corpus import DEFAULT_STORIES
from headway.errors import UserError


def run(*, batch_size=2, **task):
    return parse_run(
        {
            "task": {"kind": "text", "n_ctx": 8, "tokenizer": "bytes", **task},
            "model": {"family": "gpt-neo", "d_model": 8, "n_layers": 1, "n_heads": 2},
            "training": {"optimizer": "adamw", "learning_rate": 0.1, "batch_size": batch_size, "steps": 2},
            "samples": None,
            "seed": 0,
        }
    )


@pytest.fixture
def texts(tmp_path):
    """Corpora of all kinds."""
    tales = [f"Tale {n} of a man who was {n} years old." for n in range(400)]
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "many.txt").write_text("\n<|endoftext|>\n".join(tales))
    (folder / "one.txt").write_text("\n\n".join(tales))
    (folder / "few.txt").write_text("\n<|endoftext|>\n".join(tales[:4]))
    (folder / "lines.jsonl").write_text("".join(json.dumps({"text": tale}) + "\n" for tale in tales[:6]) + "{}\n")
    (folder / "empty.txt").touch()
    (folder / "words").mkdir()
    tokenizers.Tokenizer(tokenizers.models.WordLevel({"</s>": 0, "Tale": 1}, unk_token="?")).save(
        str(folder / "words/tokenizer.json")
    )
    np.save(folder / "ids.npy", np.arange(4_000) % 99)
    np.save(folder / "floats.npy", np.arange(4_000.0))
    return folder


def looked(look, asked):
    assert asked.budget  # at which a run looks first
    return look(asked)


REFUSED = [
    ({"corpus": "none.txt"}, "there is no such file or folder"),
    ({"corpus": "empty.txt"}, "there is no text in it"),
    ({"corpus": "lines.jsonl"}, "lines.jsonl, line 7: an object with nothing"),
    ({"corpus": "lines.jsonl:body"}, "line 1: an object with text, but Headway reads the field body"),
    ({"corpus": "floats.npy", "tokenizer": "ids-100"}, "holds float64"),
    ({"corpus": "ids.npy", "tokenizer": "ids-90"}, "id 90 at position 90"),
    ({"corpus": "many.txt", "tokenizer": "./nothing"}, "is neither bytes, bpe-N, gpt2, nor a folder"),
    ({"corpus": "many.txt", "tokenizer": "./words"}, "its WordLevel model could lose parts of a text"),
    ({"corpus": "many.txt", "tokenizer": "bpe-9000"}, "the training documents have .* merges"),
    ({"corpus": "many.txt", "stories": 1_000}, "it has 400 documents, but task.stories asks for 1,000"),
    ({"corpus": "many.txt", "batch_size": 4_000}, "the training text has .* but training.batch_size is 4000"),
    (
        {"corpus": "many.txt", "batch_size": 397, "padding": "published"},
        r"has 396 documents .* but training.batch_size is 397",
    ),
    ({"corpus": "many.txt", "n_ctx": 1, "padding": "published"}, "leaves no token to predict"),
    ({"corpus": "many.txt", "n_ctx": 200}, "the held-out text has .* tokens, fewer than one sequence"),
    ({"corpus": "many.txt", "validation": "none.txt"}, "task.validation .*none.txt: there is no such file"),
    ({"corpus": "many.txt", "validation": "many.txt"}, "it is the corpus itself"),
    ({"corpus": "few.txt", "held_out": 0.9}, "it has 4 documents, and 4 of them would be held out"),
    ({"corpus": "one.txt", "padding": "published"}, "cannot be split by position"),
    ({"corpus": "one.txt", "held_out": 0.0001}, "the held-out text has .* tokens, fewer than one sequence"),
]


def within(texts, task):
    return {
        k: str(texts / v) if (k in ("corpus", "validation") and "/" not in v) or v == "./words" else v
        for k, v in task.items()
    }


@pytest.mark.parametrize(("task", "message"), REFUSED)
def test_what_a_run_would_refuse_is_refused_with_the_same_words(texts, task, message):
    said = []
    for look in (preflight, prepare):
        with pytest.raises(UserError, match=message) as error:
            looked(look, run(**within(texts, task)))
        said.append(str(error.value))
    assert said[0] == said[1]


TAKEN = [
    {"corpus": "many.txt", "tokenizer": "bpe-300"},
    {"corpus": "many.txt", "padding": "published"},
    {"corpus": "one.txt", "held_out": 0.1},
    {"corpus": "few.txt", "validation": "many.txt"},
    {"corpus": "ids.npy", "tokenizer": "ids-100", "held_out": 0.1},
    {"corpus": "stories", "stories": 500},
]


@pytest.mark.slow
@pytest.mark.parametrize("task", TAKEN)
def test_what_a_run_would_take_is_taken_with_the_same_words(texts, task):
    task = task if task["corpus"] == "stories" else within(texts, task)
    foreseen = preflight(run(**task))
    assert foreseen == prepare(run(**task))
    assert foreseen == preflight(run(**task))  # from the cache
    assert bool(foreseen) == (task["corpus"].endswith(("one.txt", "ids.npy")))


@pytest.mark.slow
@pytest.mark.parametrize("task", [{"tokenizer": "bpe-300"}, {"padding": "published"}])
def test_where_there_is_plainly_enough_no_tokens_are_made(monkeypatch, task):
    def never(*arguments):
        raise AssertionError("tokens were made")

    monkeypatch.setattr(token_store.Sources, "write", never)
    read = []
    pieces = token_store.find_corpus("stories", limit=None, asked="").pieces

    def counted():
        for piece in pieces():
            read.append(piece)
            yield piece

    monkeypatch.setattr(token_store.Corpus, "pieces", property(lambda _: counted, lambda *_: None), raising=False)
    assert preflight(run(corpus="stories", **task)) == ()
    assert 0 < len(read) < 3_000 < DEFAULT_STORIES


def test_a_large_book_is_not_made_into_tokens(tmp_path, monkeypatch):
    book = tmp_path / "book.txt"
    book.write_text("\n".join(f"Line {n} of a long book." for n in range(20_000)))
    monkeypatch.setattr(token_store.Sources, "write", None)
    (note,) = preflight(run(corpus=str(book)))
    monkeypatch.undo()
    assert "of its " in note
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))
    assert (note,) == prepare(run(corpus=str(book)))


def test_nothing_is_fetched(tmp_path, texts, monkeypatch):
    def never(*arguments):
        raise AssertionError("fetched")

    monkeypatch.setattr(corpus, "_streamed", never)
    assert preflight(run(corpus="tinystories", tokenizer="gpt2")) == (
        "not checked, and fetched from the hub when runs are made: task.corpus tinystories and task.tokenizer gpt2",
    )
    assert preflight(run(corpus=str(texts / "many.txt"), tokenizer="gpt2")) == (
        "not checked, and fetched from the hub when runs are made: task.tokenizer gpt2",
    )
    monkeypatch.setattr(tokenizer, "_gpt2", never)
    ids = {"corpus": str(texts / "ids.npy"), "tokenizer": "gpt2"}
    assert preflight(run(**ids)) == preflight(run(corpus=str(texts / "many.txt"), tokenizer="gpt2"))
    with pytest.raises(UserError, match=r"task.corpus none.npy: there is no such file"):
        preflight(run(corpus="none.npy", tokenizer="gpt2"))
    with pytest.raises(UserError, match=r"task.validation none.txt: there is no such file"):
        preflight(run(corpus="tinystories", validation="none.txt"))
