"""The text task: tokenizers, corpora, and what training it takes."""

import json

import pytest
from support.stored import data

from headway.config.lm.text import TextTask
from headway.config.lm.training import Muon, TokensAdamW
from headway.config.spec import parse
from headway.errors import DeclarationError


def task(**changes):
    return parse(TextTask, {"kind": "text", "corpus": "stories", "n_ctx": 8, **changes})


@pytest.mark.parametrize(("tokenizer", "size"), [("bytes", 257), ("gpt2", 50257), ("bpe-4096", 4096), ("bpe-258", 258)])
def test_known_tokenizers_have_known_sizes(tokenizer, size):
    assert task(tokenizer=tokenizer).vocab_size == size


def test_gpt2s_own_files():
    assert task(tokenizer=str(data("gpt2-bpe"))).vocab_size == 50257


def test_a_folder_with_either_kind_of_files(tmp_path):
    (tmp_path / "vocab.json").write_text(json.dumps({"a": 0, "b": 7}))
    assert task(tokenizer=str(tmp_path)).vocab_size == 8
    whole = {"model": {"vocab": {"a": 0, "b": 1}}, "added_tokens": [{"id": 2, "content": "<|endoftext|>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(whole))
    assert task(tokenizer=str(tmp_path)).vocab_size == 3


@pytest.mark.parametrize("content", ["{", "[]", '{"model": {}}', '{"model": {"vocab": {}}}'])
def test_a_folder_that_is_no_tokenizer(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(DeclarationError, match=r"task\.tokenizer: '.*' is neither bytes, bpe-N, gpt2, nor a folder"):
        task(tokenizer=str(tmp_path)).vocab_size  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tokenizer": "gpt3"}, r"'gpt3' is not known; did you mean gpt2\? .* a path with a slash, such as \./gpt3"),
        ({"tokenizer": "bpe-4k"}, "did you mean bpe-N"),
        ({"tokenizer": ""}, "tokenizer '' is not known; choose from: bpe-N, bytes, gpt2"),
        ({"tokenizer": "bpe-257"}, "a byte-level BPE needs 258 tokens or more .* `bytes` takes 257"),
        ({"corpus": "story"}, r"corpus 'story' is not known; did you mean stories.* such as \./story"),
        ({"validation": "held-out"}, "validation 'held-out' is not known; choose from: stories, tinystories"),
        ({"validation": "other.txt", "held_out": 0.2}, "held_out 0.2 would change nothing, since validation other.txt"),
        ({"held_out": 1}, "held_out: 1 was given; give a number less than 1"),
        ({"padding": "publish"}, "padding: 'publish' is not known; did you mean published"),
    ],
)
def test_wrong_tasks_get_errors_that_teach(changes, message):
    with pytest.raises(DeclarationError, match=message):
        task(**changes)


ADAMW = {"optimizer": "adamw", "batch_size": 8, "learning_rate": 1e-3}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "given by one of steps, tokens and epochs; none was given"),
        ({"steps": 3, "tokens": 3}, "steps and tokens were given"),
        (
            {"steps": 3, "grad_accumulation": 3},
            "grad_accumulation 3 does not divide batch_size 8; the parts of a batch are equal",
        ),
        ({"steps": 3, "betas": [0.9, 1]}, r"betas \[0.9, 1.0\] must lie in \[0, 1\)"),
        ({"steps": 3, "learning_rate": 0}, "learning_rate: 0 was given"),
        ({"steps": 3, "momentum": 0.9}, "momentum: there is no such key"),
    ],
)
def test_wrong_trainings_get_errors_that_teach(changes, message):
    with pytest.raises(DeclarationError, match=message):
        parse(TokensAdamW, {**ADAMW, **changes})


def test_muon_needs_the_rate_of_what_adamw_trains():
    with pytest.raises(DeclarationError, match="adamw_learning_rate: missing"):
        parse(Muon, {**ADAMW, "optimizer": "muon", "steps": 3})
