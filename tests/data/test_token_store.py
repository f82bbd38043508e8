"""The tokens of a text: split, made once, and held to what is known of them."""

import json
import math
import shutil

import numpy as np
import pytest
from support.stored import data
from support.tolerance import nearly

from headway.config.lm.text import TextTask
from headway.data import cache as token_cache
from headway.data import corpus, token_store
from headway.data.corpus import STORIES_KEY
from headway.data.grammar import story
from headway.data.text import TextExamples
from headway.data.token_store import held_out_documents, open_corpus
from headway.errors import UserError


def task(**fields):
    return TextTask(kind="text", **{"corpus": "stories", "n_ctx": 32, **fields})


def decoded(tokens):
    return [tokens.tokenizer.decode(part) for part in np.split(tokens.train, tokens.train_ends)[:-1]]


@pytest.fixture
def numbered(tmp_path):
    path = tmp_path / "numbered.txt"
    path.write_text("\n<|endoftext|>\n".join(f"This is story {n:03}." for n in range(200)))
    return str(path)


def test_documents_become_tokens_each_ended(numbered):
    tokens = open_corpus(task(corpus=numbered, held_out=0.1))
    assert (len(tokens.train_ends), len(tokens.held_out_ends)) == (180, 20)
    held = held_out_documents(200, 0.1)
    texts = [f"This is story {n:03}.<|endoftext|>" for n in range(200)]
    assert decoded(tokens) == [t for t, out in zip(texts, held, strict=True) if not out]
    assert tokens.tokenizer.decode(tokens.held_out) == "".join(t for t, out in zip(texts, held, strict=True) if out)
    assert np.array_equal(np.flatnonzero(tokens.train == tokens.end_of_text) + 1, tokens.train_ends)
    assert np.array_equal(np.bincount(tokens.train, minlength=257), tokens.counts)
    assert np.array_equal(tokens.unused, tokens.counts == 0)
    assert tokens.train.dtype == np.uint16
    assert isinstance(tokens.train, np.memmap)
    assert tokens.entropy_nats is None


def test_the_split_is_that_of_the_published_experiments():
    datasets = pytest.importorskip("datasets")
    for n, share in ((1_000, 0.01), (333, 0.1), (7, 0.5)):
        split = datasets.Dataset.from_dict({"n": list(range(n))}).train_test_split(test_size=share, seed=42)
        assert np.flatnonzero(held_out_documents(n, share)).tolist() == sorted(split["test"]["n"])


def test_a_second_corpus_is_held_out_whole(numbered, tmp_path):
    (tmp_path / "other.txt").write_text("Another story that is long enough for a window.<|endoftext|>And one more.")
    tokens = open_corpus(task(corpus=numbered, validation=str(tmp_path / "other.txt")))
    assert (len(tokens.train_ends), len(tokens.held_out_ends)) == (200, 2)
    assert tokens.tokenizer.decode(tokens.held_out).startswith("Another story")
    shutil.copy(numbered, tmp_path / "copy.txt")
    with pytest.raises(
        UserError, match=r"task.validation .*copy.txt: it is the corpus itself; name another, or leave it"
    ):
        open_corpus(task(corpus=numbered, validation=str(tmp_path / "copy.txt")))


@pytest.mark.slow
def test_the_floor_is_what_the_grammar_says_of_the_held_out_stories():
    tokens = open_corpus(task(stories=300, held_out=0.2, tokenizer="bpe-400"))
    held = np.flatnonzero(held_out_documents(300, 0.2))
    nats = math.fsum(story(STORIES_KEY, int(index)).nats for index in held)
    assert tokens.entropy_nats == nearly(nats / len(tokens.held_out))
    assert tokens.entropy_nats < tokens.bigram_loss_nats < tokens.unigram_loss_nats < math.log(400)
    assert open_corpus(task(stories=300, held_out=0.2, tokenizer="bpe-400", padding="published")).entropy_nats is None


@pytest.mark.slow
def test_a_corpus_is_held_to_the_floor_of_a_grammar_that_judges_it(numbered, monkeypatch):
    monkeypatch.setattr(corpus, "DEFAULT_STORIES", 300)
    tokens = open_corpus(task(corpus=numbered, validation="stories"))
    assert len(tokens.held_out_ends) == 300
    assert 0.05 < tokens.entropy_nats < 0.1  # per byte


def test_bpe_is_trained_on_training_documents_alone(numbered, tmp_path):
    # The held-out corpus is full of pairs that the training text has not.
    (tmp_path / "other.txt").write_text("\n<|endoftext|>\n".join(["zzqq zzqq zzqq xxkk"] * 300))
    tokens = open_corpus(task(corpus=numbered, validation=str(tmp_path / "other.txt"), tokenizer="bpe-280"))
    assert not any("zz" in tokens.tokenizer.decode([token]) for token in range(280))
    assert tokens.tokenizer.vocab_size == task(tokenizer="bpe-280").vocab_size == 280


def test_made_once_and_by_content(numbered, tmp_path, cache, monkeypatch):
    first = open_corpus(task(corpus=numbered))
    shutil.copy(numbered, tmp_path / "copy.txt")

    def never(*arguments):
        raise AssertionError("made again")

    monkeypatch.setattr(token_store.Sources, "write", never)
    open_corpus(task(corpus=str(tmp_path / "copy.txt"), n_ctx=64))
    assert open_corpus(task(corpus=numbered)).digest == first.digest
    (tmp_path / "copy.txt").write_text("changed")
    for other in ({"corpus": str(tmp_path / "copy.txt")}, {"held_out": 0.2}, {"tokenizer": "bpe-270"}, {"stories": 50}):
        with pytest.raises(AssertionError, match="made again"):
            open_corpus(task(**{"corpus": numbered, **other}))


def test_what_rotted_on_the_disk_is_seen_before_anything_is_trained_on_it(numbered, cache, monkeypatch):
    before = open_corpus(task(corpus=numbered))
    (path,) = cache.glob("tokens-*/train.bin")
    content = path.read_bytes()
    known = token_cache.content_hash(path)
    path.write_bytes(content[:-2] + b"\0\0")
    stale = token_cache.content_hash
    monkeypatch.setattr(token_cache, "content_hash", lambda file: known if file == path else stale(file))
    assert token_cache.cached(path.parent.name, pytest.fail) == path.parent  # its size and times are as they were
    assert open_corpus(task(corpus=numbered)).digest == before.digest
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", ["shorter", "same size", "missing", "manifest"])
def test_a_damaged_cache_is_made_again(numbered, cache, damage):
    before = open_corpus(task(corpus=numbered))
    (path,) = (p for p in cache.glob("tokens-*/train.bin"))
    content = path.read_bytes()
    if damage == "shorter":
        path.write_bytes(content[:-2])
    elif damage == "same size":
        path.write_bytes(content[:-2] + b"\0\0")
    elif damage == "missing":
        path.unlink()
    else:
        (path.parent / "manifest.json").write_text('{"train.bin": 3}')
    after = open_corpus(task(corpus=numbered))
    assert after.digest == before.digest
    assert path.read_bytes() == content


def test_large_vocabularies_have_wide_tokens(tmp_path, numbered):
    folder = tmp_path / "wide"
    folder.mkdir()
    characters = token_store.open_tokenizer("bytes", list).inner.get_vocab()
    (folder / "vocab.json").write_text(json.dumps({**characters, "last": 65_536}))
    (folder / "merges.txt").write_text("")
    tokens = open_corpus(task(corpus=numbered, tokenizer=str(folder)))
    assert (tokens.tokenizer.vocab_size, tokens.train.dtype) == (65_537, np.uint32)
    assert task(tokenizer=str(folder)).vocab_size == 65_537
    assert decoded(tokens)[0] == "This is story 000.<|endoftext|>"


@pytest.mark.slow
def test_real_stories_have_the_known_baselines():
    files = {"corpus": str(data("tinystories/train.txt")), "validation": str(data("tinystories/valid.txt"))}
    tokens = open_corpus(task(**files, tokenizer="bpe-1024"))
    assert (len(tokens.train_ends), len(tokens.held_out_ends)) == (7_817, 1_558)
    assert tokens.unigram_loss_nats == pytest.approx(5.743, abs=0.005)
    assert tokens.bigram_loss_nats == pytest.approx(3.372, abs=0.005)
    gpt2 = open_corpus(task(**files, tokenizer=str(data("gpt2-bpe"))))
    assert len(gpt2.train) == 1_596_080
    assert gpt2.bigram_loss_nats < gpt2.unigram_loss_nats
    examples = TextExamples(task(**files), gpt2)
    held = sum(int((batch.targets >= 0).sum()) for batch in examples.evaluation_batches(None, 8))
    assert held == len(gpt2.held_out) - 1
    batch = examples.training_batch(0, 5, 4)
    assert np.array_equal(batch.inputs[:, 1:], batch.targets[:, :-1])
