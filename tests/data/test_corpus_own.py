"""Corpora of one's own: arrays of token ids from numpy, a folder of datasets, or a function."""

import numpy as np
import pytest
from support.own_code import write as write

from headway.config.lm.text import OWN_CORPORA, TextTask
from headway.config.plugins import load
from headway.config.spec import parse
from headway.data.corpus import find_ids
from headway.data.token_store import Sources
from headway.errors import DeclarationError, UserError

CODE = """
import numpy as np
from headway import own

@own.corpus
def from_numpy():
    return np.load("ids.npy")

@own.corpus
def from_datasets():
    import datasets
    return (row["input_ids"] for row in datasets.load_from_disk("folder"))

@own.corpus
def counted():
    for number in range(4):
        yield np.arange(number + 1)
"""
DOCUMENTS = [[0, 1, 2], [3, 4, 5], [2, 2, 2], [5, 0, 1]]


def found(name, vocab_size=7):
    return find_ids(name, limit=None, asked="task.corpus", vocab_size=vocab_size, end_of_text=vocab_size - 1)


def test_documents_come_from_numpy_from_datasets_and_from_functions(write):
    datasets = pytest.importorskip("datasets")
    np.save("ids.npy", np.array(DOCUMENTS, np.uint16))
    datasets.Dataset.from_dict({"input_ids": DOCUMENTS}).save_to_disk("folder")
    write(CODE, "corpora.py")
    load("corpora.py")
    for name in ("from_numpy", "from_datasets"):
        assert [ids.tolist() for ids in found(name).documents()] == DOCUMENTS
    assert found("from_numpy").digest == found("from_datasets").digest
    assert found("counted").count() == 4
    assert [len(ids) for ids in found("counted").documents()] == [1, 2, 3, 4]
    task = parse(TextTask, {"kind": "text", "corpus": "counted", "tokenizer": "ids-7", "n_ctx": 4})
    assert Sources.of(task).corpus.name == "counted"
    with pytest.raises(DeclarationError, match="corpus 'cuonted' is not known; did you mean counted"):
        parse(TextTask, {"kind": "text", "corpus": "cuonted", "tokenizer": "ids-7", "n_ctx": 4})


@pytest.mark.parametrize(
    ("documents", "match"),
    [
        ([np.zeros((2, 2), int)], r"document 0 is int64 of shape \(2, 2\), not a row of whole numbers"),
        (
            [np.array([1]), np.array([0.5])],
            r"document 1 is float64 of shape \(1,\), not a row of whole numbers",
        ),
        ([np.array([6])], r"document 0 holds id 6, but task.tokenizer has the ids 0 to 5 and an end of document"),
        ([np.array([-1])], "document 0 holds id -1"),
    ],
)
def test_what_is_no_document_is_told(documents, match, monkeypatch):
    monkeypatch.setitem(OWN_CORPORA, "wrong", lambda: documents)
    with pytest.raises(UserError, match=match):
        list(found("wrong").documents())


def test_a_corpus_that_changes_between_two_looks_is_told(monkeypatch):
    looks = iter([[np.array([1])], [np.array([2])]])
    monkeypatch.setitem(OWN_CORPORA, "changing", lambda: next(looks))
    with pytest.raises(UserError, match=r"task.corpus changing: it gave different documents when it was read again"):
        found("changing")
