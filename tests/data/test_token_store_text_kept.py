"""How much of a text its tokens give back, and bytes that are counted of nothing else."""

import numpy as np
import pytest
import tokenizers

from headway.config.lm.text import TextTask
from headway.config.spec import parse
from headway.data.token_store import open_corpus
from headway.data.tokenizer import Tokenizer

TALE = "the man saw the old dog"


def words(folder, *, known=TALE, normalizer=None):
    vocabulary = {word: at for at, word in enumerate(["</s>", "[UNK]", *dict.fromkeys(known.split())])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    if normalizer is not None:
        inner.normalizer = normalizer
    folder.mkdir()
    inner.save(str(folder / "tokenizer.json"))
    return str(folder)


def kept(tmp_path, tokenizer, text=TALE):
    (tmp_path / "text.txt").write_text("\n<|endoftext|>\n".join([text] * 40))
    task = {"kind": "text", "corpus": f"{tmp_path}/text.txt", "tokenizer": tokenizer, "n_ctx": 4, "held_out": 0.2}
    return open_corpus(parse(TextTask, task)).text_kept


def test_bytes_and_merges_of_them_keep_everything(tmp_path):
    assert kept(tmp_path, "bytes", "Ein Ä, ein 𓀀 .\n\n 3") == 1
    assert kept(tmp_path, "bpe-262") == 1


def test_what_is_unknown_is_not_kept(tmp_path):
    assert kept(tmp_path, words(tmp_path / "all")) == 1
    one = kept(tmp_path, words(tmp_path / "one", known="the"))
    assert one == pytest.approx(len("the the") / len(TALE))


def test_neither_are_capitals_or_spaces_that_the_text_does_not_have(tmp_path):
    lower = words(tmp_path / "lower", normalizer=tokenizers.normalizers.Lowercase())
    assert kept(tmp_path, lower, TALE.upper()) == pytest.approx(5 / len(TALE))
    spaced = words(tmp_path / "spaced", known="a , b")
    assert kept(tmp_path, spaced, "a,b,a,b") == pytest.approx(7 / 13)


def test_ids_without_a_text_have_none_and_those_of_a_tokenizer_have_its(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(400) % 90)
    for tokenizer, share in (("ids-100", 0), ("bytes", 1)):
        task = {"kind": "text", "corpus": f"{tmp_path}/a.npy", "tokenizer": tokenizer, "n_ctx": 4, "held_out": 0.2}
        assert open_corpus(parse(TextTask, task)).text_kept == share


def test_bytes_are_those_of_what_is_known(tmp_path):
    tokenizer = Tokenizer.load(tmp_path / words(tmp_path / "words", known="the dog"))
    assert tokenizer.unknown == 1
    assert tokenizer.n_bytes(np.array(tokenizer.encode("the big dog</s>"))) == len("the dog")
