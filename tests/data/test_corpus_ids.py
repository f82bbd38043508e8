"""Corpora that are tokens already: parted, split and not mistaken for text."""

import numpy as np
import pytest

from headway.config.lm.text import TextTask
from headway.config.spec import parse
from headway.data import corpus as ids
from headway.data.corpus import find_corpus
from headway.data.token_store import open_corpus
from headway.data.tokenizer import bytes_tokenizer, ids_tokenizer
from headway.errors import DeclarationError, UserError


def task(**fields):
    return parse(TextTask, {"kind": "text", "n_ctx": 4, "tokenizer": "ids-10", "held_out": 0.25, **fields})


def saved(path, values, dtype=np.uint16):
    np.save(path, np.array(values, dtype))
    return str(path)


def test_the_end_of_a_text_parts_documents(tmp_path, monkeypatch):
    monkeypatch.setattr(ids, "AT_ONCE", 3)  # every place of a border between blocks
    corpus = saved(tmp_path / "a.npy", [9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 7, 9, 8, 8, 8, 8])
    tokens = open_corpus(task(corpus=corpus))
    parts = np.split(tokens.train, tokens.train_ends)[:-1] + np.split(tokens.held_out, tokens.held_out_ends)[:-1]
    assert sorted(part.tolist() for part in parts) == [[1, 2, 3, 9], [4, 5, 6, 9], [7, 9], [8, 8, 8, 8, 9]]
    assert (len(tokens.train_ends), len(tokens.held_out_ends)) == (3, 1)
    assert (tokens.tokenizer.vocab_size, tokens.end_of_text, tokens.note) == (10, 9, "")
    assert tokens.counts.sum() == len(tokens.train)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_row_without_ends_is_split_by_position(tmp_path, dtype, monkeypatch):
    monkeypatch.setattr(ids, "AT_ONCE", 7)
    tokens = open_corpus(task(corpus=saved(tmp_path / "a.npy", [n % 9 for n in range(40)], dtype)))
    assert tokens.train.tolist() == [n % 9 for n in range(30)] + [9]
    assert tokens.held_out.tolist() == [n % 9 for n in range(30, 40)] + [9]
    assert tokens.train_ends.tolist() == [31]
    assert "the last 10 of its 40 ids are held out" in tokens.note


def test_ids_may_be_those_of_a_tokenizer(tmp_path):
    text = "Once upon a time<|endoftext|>there was a test<|endoftext|>that passed"
    (tmp_path / "a.txt").write_text(text)
    corpus = saved(tmp_path / "a.npy", bytes_tokenizer().encode(text))
    settings = {"tokenizer": "bytes", "held_out": 0.4}
    from_ids, from_text = (open_corpus(task(corpus=name, **settings)) for name in (corpus, str(tmp_path / "a.txt")))
    assert from_ids.digest == from_text.digest


def test_ids_are_written_as_numbers_and_read_again():
    tokenizer = ids_tokenizer(300)
    assert tokenizer.decode([17, 298, 299]) == "17 298 <|endoftext|>"
    assert tokenizer.encode("17 298<|endoftext|>4") == [17, 298, 299, 4]
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (300, 299)
    assert tokenizer.encode("hello 17 a4 299 3000 03 -1 2.5\n0") == [17, 0]


@pytest.mark.parametrize("n", [2, 3, 11, 12, 101, 1_001, 1_307])
def test_every_id_but_the_last_is_read_as_itself(n):
    tokenizer = ids_tokenizer(n)
    assert tokenizer.encode(" ".join(map(str, range(n + 30)))) == list(range(n - 1))
    assert tokenizer.decode(range(n)).split()[:-1] == [str(number) for number in range(n - 1)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (np.array([1.0, 2.0]), r"holds float64 of shape \(2,\), but token ids are a one-dimensional array"),
        (np.zeros((2, 3), int), r"holds int64 of shape \(2, 3\), but token ids are a one-dimensional array"),
        (np.array([1, 2, 10, 3]), "id 10 at position 2, but task.tokenizer has the ids 0 to 9; name the tokenizer"),
        (np.array([1, -1]), "id -1 at position 1, but task.tokenizer"),
        (np.array([], int), "there is no text in it; give another corpus"),
        (np.array(["a", {}], object), r"not a numpy file of numbers \(.*\); write one with numpy.save"),
        (b"no numpy at all", r"a.npy: not a numpy file of numbers \("),
    ],
)
def test_wrong_files_get_errors_that_teach(tmp_path, content, message):
    path = tmp_path / "a.npy"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    with pytest.raises(UserError, match=message):
        open_corpus(task(corpus=str(path)))


def test_ids_and_text_are_not_mistaken_for_each_other(tmp_path):
    with pytest.raises(UserError, match=r"task.corpus .*none.npy: there is no such file"):
        open_corpus(task(corpus=str(tmp_path / "none.npy")))
    with pytest.raises(UserError, match=r"--text a.npy: it holds token ids, but a text is needed"):
        find_corpus("a.npy", limit=None, asked="--text")
    for fields, message in (
        ({"corpus": "a.txt"}, r"tokenizer ids-10 is for token ids, and corpus a.txt is text; give a .npy file"),
        ({"corpus": "a.npy", "validation": "stories", "held_out": 0.01}, r"validation stories is text"),
        ({"corpus": "a.npy", "tokenizer": "bpe-300"}, r"bpe-300 is trained on text, and corpus a.npy holds ids"),
        ({"corpus": "a.npy", "tokenizer": "ids-1"}, r"ids-1: give 2 ids or more"),
        ({"corpus": "a.npy", "tokenizer": "ids-many"}, r"'ids-many' is not known; did you mean ids-N"),
    ):
        with pytest.raises(DeclarationError, match=message):
            task(**fields)
