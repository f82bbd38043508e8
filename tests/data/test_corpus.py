"""Corpora: files, folders, stories and the hub become documents, or a clear error."""

import json
import sys

import pytest

from headway.data import corpus
from headway.data.corpus import find_corpus, joined
from headway.data.documents import pieces
from headway.data.grammar import LANGUAGE
from headway.errors import UserError


def documents(name, limit=None):
    return list(find_corpus(str(name), limit=limit, asked="task.corpus").documents())


def test_documents_end_at_the_mark_wherever_it_stands():
    lines = [
        "one\n",
        "<|endoftext|>\n",
        "\n",
        "two <|endoftext|>three\n",
        "more\n",
        "<|endoftext|><|endoftext|>\n",
        " ",
    ]
    assert list(joined(pieces(lines))) == ["one", "two", "three\nmore"]
    assert list(joined(pieces(["last one is not ended"]))) == ["last one is not ended"]


def test_a_text_file_is_read_as_documents_whatever_its_newlines(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffÄpfel\r\nund\r\n<|endoftext|>\r\nBirnen\r\n".encode())
    assert documents(tmp_path / "a.txt") == ["Äpfel\nund", "Birnen"]


def test_json_lines_have_a_text_or_else_a_story(tmp_path):
    lines = [{"text": "one", "story": "not this"}, {"story": "two\nlines", "id": 3}, {"text": "  "}]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    assert documents(tmp_path / "a.jsonl") == ["one", "two\nlines"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"txt": "one", "id": 2}',
            "line 2: an object with txt, id, but Headway reads the fields text and",
        ),
        ('{"text": 3}', "line 2: an object with text, but Headway reads"),
        ('["one"]', "line 2: no object, but Headway reads"),
        ("one", r"line 2: not JSON \(.*\); give one JSON object per line"),
    ],
)
def test_a_wrong_json_line_is_named(tmp_path, line, message):
    (tmp_path / "a.json").write_text('{"text": "one"}\n' + line)
    with pytest.raises(UserError, match=message):
        documents(tmp_path / "a.json")


def test_a_folder_is_read_in_the_order_of_its_names(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "b.txt").write_text("two")
    (tmp_path / "a.jsonl").write_text('{"text": "one"}')
    (tmp_path / "sub" / "c.txt").write_text("three")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "picture.png").write_bytes(b"\0")
    assert documents(tmp_path) == ["one", "two", "three"]


def test_a_corpus_that_is_missing_empty_or_binary_is_an_error(tmp_path):
    with pytest.raises(
        UserError, match=r"task.corpus .*none.txt: there is no such file or folder .*choose from: stories"
    ):
        documents(tmp_path / "none.txt")
    (tmp_path / "empty.txt").write_text(" \n<|endoftext|>\n")
    with pytest.raises(UserError, match=r"empty.txt: there is no text in it; give another corpus"):
        documents(tmp_path / "empty.txt")
    (tmp_path / "nul.txt").write_bytes(b"some text\nand a \0 in it")
    with pytest.raises(UserError, match=r"nul.txt is not a text: a NUL byte at offset 16 \(line 2\); give UTF-8 text"):
        documents(tmp_path / "nul.txt")
    (tmp_path / "latin.txt").write_bytes(b"line\n" * 1_000 + "Äpfel".encode("latin-1"))
    with pytest.raises(UserError, match=r"latin.txt is not a text: .* not UTF-8 at offset 5,000 \(line 1,001\)"):
        documents(tmp_path / "latin.txt")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"the folder has no .txt, .jsonl or .json file"):
        documents(tmp_path / "folder")
    (tmp_path / "folder/run.json").write_text("{}")
    with pytest.raises(UserError, match="folder: it is a results directory, not a text; name a text"):
        documents(tmp_path / "folder")


def test_the_first_documents_are_taken_and_too_few_are_an_error(tmp_path):
    (tmp_path / "a.txt").write_text("<|endoftext|>".join(["one", "two", "three"]))
    assert documents(tmp_path / "a.txt", 2) == ["one", "two"]
    with pytest.raises(UserError, match=r"it has 3 documents, but task.stories asks for 1,000; lower task.stories"):
        documents(tmp_path / "a.txt", 1_000)


def test_a_file_is_known_by_its_content(tmp_path):
    for name, text in (("a.txt", "one"), ("b.txt", "one"), ("c.txt", "two")):
        (tmp_path / name).write_text(text)
    a, b, c = (find_corpus(str(tmp_path / f"{n}.txt"), limit=None, asked="") for n in "abc")
    assert a.digest == b.digest != c.digest
    (tmp_path / "a.txt").write_text("two")
    assert find_corpus(str(tmp_path / "a.txt"), limit=None, asked="").digest == c.digest


def test_headways_own_stories_know_their_probability():
    own = find_corpus("stories", limit=30, asked="task.corpus")
    assert len(list(own.documents())) == 30
    assert own.nats(3) == LANGUAGE.draw(corpus.STORIES_KEY, 3).nats
    assert list(own.documents()) == documents("stories", 40)[:30]


def test_stories_come_from_the_hub_once(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"story": f"\n\nStory {n}.", "source": "GPT-4"}) + "\n" for n in range(50)))
    load, asked = datasets.load_dataset, []

    def local(name, split, streaming):
        asked.append((name, split, streaming))
        return load("json", data_files=str(rows), split=split, streaming=streaming)

    monkeypatch.setattr(datasets, "load_dataset", local)
    assert documents("tinystories", 20) == [f"Story {n}." for n in range(20)]
    assert documents("tinystories", 20)[-1] == "Story 19."
    assert asked == [("skeskinen/TinyStories-GPT4", "train", True)]
    assert len(documents("tinystories")) == 50


def test_no_network_and_no_datasets_are_clear_errors(monkeypatch):
    datasets = pytest.importorskip("datasets")

    def unreachable(*args, **options):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(
        UserError, match=r"cannot be read from the hub \(ConnectionError: no route\); check the network, or give"
    ):
        documents("tinystories", 5)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"not installed; pip install '\.\[hf\]', or give the path of a text file"):
        documents("tinystories", 5)
    assert corpus.TINYSTORIES == "skeskinen/TinyStories-GPT4"
