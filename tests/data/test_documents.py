"""Files of text and of JSON lines, zipped or not, read in pieces."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.corpus import find_corpus
from headway.data.corpus import joined as documents_in
from headway.data.documents import pieces
from headway.data.tokenizer import END_OF_TEXT, trained_bpe
from headway.errors import UserError


def documents(name):
    return list(find_corpus(str(name), limit=None, asked="task.corpus").documents())


TEXT = st.lists(st.sampled_from(["a", "bc", " ", "\n", "  \n\n", END_OF_TEXT, "Äpfel", "\t", "é" * 9]), max_size=40)


@given(TEXT, st.integers(1, 12))
def test_pieces_of_any_size_join_to_the_documents(parts, size):
    lines = "".join(parts).splitlines(keepends=True)
    whole = [text.strip() for text in "".join(parts).split(END_OF_TEXT)]
    found = list(pieces(lines, size))
    joined, document = [], ""
    for text, ended in found:
        document += text
        if ended:
            joined.append(document)
            document = ""
    assert document == ""
    assert joined == [text for text in whole if text] == list(documents_in(pieces(lines)))


def test_a_long_document_comes_in_pieces_whose_tokens_are_its_own():
    text = "\n".join(f"Story {n}: it's a long one,  isn't it?\n" for n in range(200)).strip()
    parts = [piece for piece, _ in pieces(text.splitlines(keepends=True), 100)]
    assert max(map(len, parts)) <= 100
    assert len(parts) > 60
    assert all(part[0].isspace() for part in parts[1:])
    tokenizer = trained_bpe([text], 290)
    assert [token for part in parts for token in tokenizer.encode(part)] == tokenizer.encode(text)


def test_a_field_is_named_after_the_file(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "one", "body": "another"}\n{"text": "two", "body": "more"}\n')
    assert documents(path) == ["one", "two"]
    assert documents(f"{path}:body") == ["another", "more"]
    corpora = [find_corpus(name, limit=None, asked="") for name in (str(path), f"{path}:body", f"{path}:text")]
    assert len({corpus.digest for corpus in corpora}) == 3
    path.with_name("b.jsonl").write_text('{"text": "one", "body": "x"}\n' * 6 + '{"text": "seven"}\n')
    with pytest.raises(
        UserError, match=r"b.jsonl, line 7: an object with text, but Headway reads the field body; give one"
    ):
        documents(f"{path.with_name('b.jsonl')}:body")
    with pytest.raises(UserError, match=r"none.jsonl: there is no such file or folder"):
        documents(tmp_path / "none.jsonl:body")


def test_a_file_whose_name_has_a_colon_is_meant_first(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"b": "field"}')
    (tmp_path / "a.jsonl:b").write_text("the text of a file of its own")
    assert documents(tmp_path / "a.jsonl:b") == ["the text of a file of its own"]


def test_zipped_files_are_read_as_they_were(tmp_path):
    text = "one\n<|endoftext|>\ntwo\nlines"
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(text)
    with gzip.open(tmp_path / "b.jsonl.gz", "wt") as file:
        file.write(json.dumps({"story": "three"}) + "\n" + json.dumps({"story": "four"}))
    assert documents(tmp_path / "a.txt.gz") == ["one", "two\nlines"]
    assert documents(tmp_path / "b.jsonl.gz:story") == ["three", "four"]
    assert documents(tmp_path) == ["one", "two\nlines", "three", "four"]
    (tmp_path / "a.txt").write_text(text)  # beside it, the zipped ones are copies
    assert documents(tmp_path) == ["one", "two\nlines"]


@pytest.mark.parametrize("damage", ["not zipped", "cut off", "bits"])
def test_a_damaged_zipped_file_is_named(tmp_path, damage):
    path = tmp_path / "a.txt.gz"
    content = bytearray(gzip.compress(b"some text that is long enough " * 40))
    if damage == "not zipped":
        content = bytearray(b"plain text")
    elif damage == "cut off":
        del content[-12:]
    else:
        content[14] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(
        UserError, match=r"a.txt.gz is not a complete gzip file \(.*\); zip it again, or give it unzipped"
    ):
        documents(path)
