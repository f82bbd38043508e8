"""A corpus of one document: its end is held out, cut where a text may be cut."""

import numpy as np
import pytest
from support.stored import data

from headway.config.lm.text import TextTask
from headway.data import documents as reading
from headway.data.corpus import between, cut_of, find_corpus, nearest_break
from headway.data.token_store import open_corpus
from headway.errors import UserError


def task(**fields):
    return TextTask(kind="text", **{"n_ctx": 8, **fields})


def written(path, text):
    path.write_text(text)
    return str(path)


def test_the_end_of_the_only_document_is_held_out(tmp_path):
    book = "\n\n".join(f"Paragraph {n} is here,\nin two lines." for n in range(100))
    tokens = open_corpus(task(corpus=written(tmp_path / "book.txt", f"  {book}\n"), held_out=0.1))
    train, held = (tokens.tokenizer.decode(part) for part in (tokens.train, tokens.held_out))
    assert train.endswith("lines.<|endoftext|>")
    assert held.startswith("Paragraph 9")
    assert train.removesuffix("<|endoftext|>") + "\n\n" + held.removesuffix("<|endoftext|>") == book
    assert 0.08 < len(held) / len(book) < 0.12
    assert (len(tokens.train_ends), len(tokens.held_out_ends)) == (1, 1)
    assert tokens.note.startswith(f"task.corpus {tmp_path / 'book.txt'} is one document, which is split by position")
    assert f"of its {len(book):,} characters are held out" in tokens.note


def test_the_tokens_do_not_depend_on_the_pieces(tmp_path, monkeypatch):
    book = written(tmp_path / "book.txt", "\n".join(f"Line {n} of the book." for n in range(3_000)))
    whole = open_corpus(task(corpus=book, tokenizer="bpe-280"))
    monkeypatch.setattr(reading.pieces, "__defaults__", (100,))
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "other"))
    in_pieces = open_corpus(task(corpus=book, tokenizer="bpe-280"))
    assert in_pieces.digest == whole.digest


@pytest.mark.parametrize(
    ("text", "at", "near", "place"),
    [
        ("one two\nthree\n\nfour five", 15, 5, "\n\n"),
        ("one two\nthree\n\nfour five", 8, 2, "\n"),
        ("one two\nthree\n\nfour five", 19, 2, " "),
        ("nothing", 3, 3, ""),
        ("  edges  ", 3, 3, ""),
    ],
)
def test_a_paragraph_is_better_than_a_line_and_a_line_than_a_space(text, at, near, place):
    start, end = nearest_break(text, at, near)
    assert text[start:end] == place
    assert start == at or place


def test_without_any_space_it_is_cut_where_the_share_is(tmp_path):
    corpus = find_corpus(written(tmp_path / "dna.txt", "ACGT" * 1_000), limit=None, asked="")
    cut = cut_of(corpus, 0.1)
    assert (cut.end_of_training, cut.start_of_held_out, cut.length) == (3_600, 3_600, 4_000)
    assert "".join(between(corpus.pieces(), 3_600, 4_000)) == "ACGT" * 100


def test_what_cannot_be_split(tmp_path):
    one = written(tmp_path / "one.txt", "All in one.\n\nNo end anywhere.")
    with pytest.raises(
        UserError,
        match=r"one.txt: it has 1 document, and with published padding a .* cannot be split by position",
    ):
        open_corpus(task(corpus=one, padding="published"))
    assert open_corpus(task(corpus=one)).note
    with pytest.raises(UserError, match=r"with published padding"):  # though the tokens are in the cache
        open_corpus(task(corpus=one, padding="published"))
    with pytest.raises(UserError, match=r"one.txt: it has 1 document, since task.stories is 1; raise it, or leave"):
        open_corpus(task(corpus=one, stories=1))
    with pytest.raises(UserError, match=r"a.txt: it has fewer than 2 characters, so none can be held out"):
        open_corpus(task(corpus=written(tmp_path / "a.txt", "a")))
    two = written(tmp_path / "two.txt", "one<|endoftext|>two")
    with pytest.raises(UserError, match=r"it has 2 documents, and 2 of them would be held out; lower task.held_out"):
        open_corpus(task(corpus=two, held_out=0.9))


def test_one_document_beside_a_validation_text_is_trained_on_whole(tmp_path):
    one, other = written(tmp_path / "one.txt", "All of this one."), written(tmp_path / "other.txt", "And of this.")
    tokens = open_corpus(task(corpus=one, validation=other))
    assert tokens.tokenizer.decode(tokens.train) == "All of this one.<|endoftext|>"
    assert tokens.note == ""


@pytest.mark.slow
def test_shakespeare_is_a_corpus_as_it_is():
    path = data("shakespeare/input.txt")
    tokens = open_corpus(task(corpus=str(path), held_out=0.1))
    text = path.read_text().strip()
    held = tokens.tokenizer.decode(tokens.held_out).removesuffix("<|endoftext|>")
    assert text.endswith(f"\n\n{held}")
    assert len(held) == pytest.approx(0.1 * len(text), rel=0.01)
    assert np.array_equal(tokens.train_ends, [len(tokens.train)])
