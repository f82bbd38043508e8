"""Tokenizers: bytes, a trained BPE, GPT-2 and folders."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tokenizers
from support.stored import data

from headway.data.corpus import STORIES_KEY
from headway.data.grammar import story
from headway.data.tokenizer import Tokenizer, bytes_tokenizer, open_tokenizer, trained_bpe
from headway.errors import UserError

TEXT = 'Once upon a time, "Ölaf" said:\n\n\thello  wörld 🙂!'


def some_stories(n=300):
    return [story(STORIES_KEY, index).text for index in range(n)]


def test_bytes_are_the_bytes():
    tokenizer = bytes_tokenizer()
    assert tokenizer.encode(TEXT) == list(TEXT.encode())
    assert tokenizer.decode(range(256)) == bytes(range(256)).decode("utf-8", errors="replace")
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (257, 256)


def test_bytes_that_tokens_stand_for_are_those_of_the_text_wherever_it_is_cut():
    spaced = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<|endoftext|>": 0, "a": 1, "ö": 2}, unk_token="[UNK]"))
    spaced.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    for tokenizer, text in (
        (bytes_tokenizer(), TEXT),
        (trained_bpe(some_stories(), 500), TEXT),
        (Tokenizer.of(spaced, "words"), "a ö a"),
    ):
        tokens = np.array(tokenizer.encode(text))
        assert tokenizer.n_bytes(tokens) == len(text.encode())
        assert tokenizer.n_bytes(np.append(tokens, tokenizer.end_of_text)) == len(text.encode())
        assert tokenizer.n_bytes(tokens[:0]) == 0
    for tokenizer in (bytes_tokenizer(), trained_bpe(some_stories(), 500)):
        tokens = np.array(tokenizer.encode(TEXT))
        parts = [tokenizer.n_bytes(tokens[at : at + 1]) for at in range(len(tokens))]
        assert sum(parts) == len(TEXT.encode())


@pytest.mark.parametrize("n", [300, 1024])
def test_a_trained_bpe_has_the_size_that_was_asked_for(n, tmp_path):
    tokenizer = open_tokenizer(f"bpe-{n}", some_stories)
    assert tokenizer.vocab_size == n
    assert tokenizer.encode("<|endoftext|>") == [tokenizer.end_of_text]
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    assert max(tokenizer.encode(some_stories()[0])) < n
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.digest == tokenizer.digest
    assert again.encode(TEXT + "<|endoftext|>") == tokenizer.encode(TEXT + "<|endoftext|>")


def test_a_trained_bpe_is_the_same_in_every_process():
    code = (
        "from headway.data.tokenizer import trained_bpe; from headway.data.grammar import story;"
        "print(trained_bpe((story(1, i).text for i in range(200)), 700).digest)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "RAYON_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, threads in (("1", "1"), ("2", "2"))
    }
    assert len(found) == 1


def test_too_few_documents_for_a_bpe_say_how_many_merges_there_are():
    with pytest.raises(
        UserError, match=r"bpe-1000: the training documents have 4 merges, so 261 tokens at most; ask for"
    ):
        trained_bpe(["hello hello"], 1000)


def test_gpt2_from_its_vocabulary_and_merges(tmp_path):
    tokenizer = Tokenizer.load(data("gpt2-bpe"))
    assert (tokenizer.vocab_size, tokenizer.end_of_text) == (50257, 50256)
    assert tokenizer.encode("Hello world<|endoftext|>") == [15496, 995, 50256]
    assert tokenizer.decode(tokenizer.encode(TEXT)) == TEXT
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).encode(TEXT) == tokenizer.encode(TEXT)


def test_a_tokenizer_json_neither_cuts_nor_pads_nor_adds(tmp_path):
    inner = trained_bpe(some_stories(), 400).inner
    inner.enable_truncation(4)
    inner.enable_padding(length=6)
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|endoftext|> $A", special_tokens=[("<|endoftext|>", 0)]
    )
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.encode("Once upon a time") == tokenizer.encode_many(["Once upon a time"])[0]
    assert tokenizer.decode(tokenizer.encode("Once upon a time, there was")) == "Once upon a time, there was"


def test_another_end_of_text_is_found_and_none_is_an_error(tmp_path):
    characters = {c: i for i, c in enumerate(sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()))}
    (tmp_path / "merges.txt").write_text("")
    (tmp_path / "vocab.json").write_text(json.dumps(characters | {"</s>": 256}))
    assert Tokenizer.load(tmp_path).end_of_text == 256
    (tmp_path / "vocab.json").write_text(json.dumps(characters))
    with pytest.raises(UserError, match=r"no token for the end of a text \(<\|endoftext\|>, </s>, .*\); add one to it"):
        Tokenizer.load(tmp_path)


def test_a_folder_that_is_no_tokenizer_is_an_error(tmp_path):
    with pytest.raises(
        UserError, match=r"neither bytes, bpe-N, gpt2, nor a folder with a vocab\.json and a merges\.txt"
    ):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"its files are not those of a tokenizer \(.*\); give others"):
        Tokenizer.load(tmp_path)


def kept(folder, model, pre_tokenizer=None):
    inner = tokenizers.Tokenizer(model)
    if pre_tokenizer is not None:
        inner.pre_tokenizer = pre_tokenizer
    inner.save(str(folder / "tokenizer.json"))
    return str(folder)


BYTES = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
BYTE_LEVEL = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
FALLBACK = [f"<0x{byte:02X}>" for byte in range(256)]


def vocabulary(*tokens):
    return {token: at for at, token in enumerate(("</s>", *tokens))}


LOSSY = {
    "words": ("WordLevel", "'<unk>'", lambda: tokenizers.models.WordLevel(vocabulary("a"), unk_token="<unk>")),
    "pieces": ("WordPiece", r"'\[UNK\]'", lambda: tokenizers.models.WordPiece(vocabulary("a"), unk_token="[UNK]")),
    "unigrams": ("Unigram", None, lambda: tokenizers.models.Unigram([("</s>", 0.0), ("a", -1.0)])),
    "characters": ("BPE", None, lambda: tokenizers.models.BPE(vocabulary("a"), [])),
    "some bytes": ("BPE", None, lambda: tokenizers.models.BPE(vocabulary("a", *FALLBACK[1:]), [], byte_fallback=True)),
}


@pytest.mark.parametrize(("kind", "unknown", "model"), LOSSY.values(), ids=LOSSY)
def test_a_tokenizer_that_could_lose_text_is_refused_before_anything_is_encoded(kind, unknown, model, tmp_path):
    lacks = "it names no unknown token" if unknown is None else f"its unk_token {unknown} is not in its vocabulary"
    message = rf"its {kind} model could lose parts of a text \({lacks}, .*; add a token such as <unk>"
    with pytest.raises(UserError, match=message):
        open_tokenizer(kept(tmp_path, model()), list)
    # One that a stored run was trained with is still read, and what it cannot encode is a user's error.
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.encode("a") == [1]
    if kind != "BPE":
        for encode in (tokenizer.encode, tokenizer.encode_as_written, lambda text: tokenizer.encode_many([text])):
            with pytest.raises(UserError, match=r"the tokenizer has no token for a part of the text \(.*\); give a"):
                encode("b")


@pytest.mark.parametrize(
    "model",
    [
        lambda: tokenizers.models.BPE(vocabulary(*BYTES), []),
        lambda: tokenizers.models.Unigram([(token, -1.0) for token in vocabulary(*BYTES)]),
        lambda: tokenizers.models.BPE(vocabulary("<unk>"), [], unk_token="<unk>"),
        lambda: tokenizers.models.BPE(vocabulary(*FALLBACK), [], byte_fallback=True),
        lambda: tokenizers.models.Unigram([("</s>", 0.0), ("<unk>", -1.0)], unk_id=1),
    ],
)
def test_a_tokenizer_that_has_a_token_for_everything_is_taken(model, tmp_path):
    byte_level = model().token_to_id("Ġ") is not None
    tokenizer = open_tokenizer(kept(tmp_path, model(), BYTE_LEVEL if byte_level else None), list)
    assert len(tokenizer.encode("ꙮ 𓀀")) in (1, 8, 3)


def test_every_byte_without_a_byte_level_step_does_not_save_a_text(tmp_path):
    with pytest.raises(UserError, match="not every byte has a token"):
        open_tokenizer(kept(tmp_path, tokenizers.models.BPE(vocabulary(*BYTES), [])), list)


def test_gpt2_without_a_network_says_what_to_give(monkeypatch):
    class Unreachable:
        @staticmethod
        def from_pretrained(name):
            raise OSError(f"no route to {name}")

    monkeypatch.setattr(tokenizers, "Tokenizer", Unreachable)
    with pytest.raises(
        UserError, match=r"gpt2: openai-community/gpt2 cannot be read from the hub \(OSError\); with no"
    ):
        open_tokenizer("gpt2", list)
