"""`headway xray --decoder-text`: an encoder reads the lines of one file, and its decoder the lines of another."""

import gzip
import json

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from support import zoo
from support.measuring import measure
from support.tolerance import assert_same
from support.typed import verb

import headway
from headway.analysis.inputs import text_input
from headway.analysis.open import open_model
from headway.analysis.xray import read_pairs
from headway.errors import UserError
from headway.hf import recorder

LENGTHS = ((12, 7), (5, 11), (9, 4), (3, 15), (20, 13), (6, 2))
"""The tokens of the source and of the target of each pair."""


def model_of(name):
    if name != "marian":
        return zoo.model_of(name, attn_implementation="eager")
    config = {**zoo._bart, "pad_token_id": 1, "decoder_start_token_id": 1, "eos_token_id": 2}
    # Sources and targets have a vocabulary each.
    config |= {"vocab_size": 130, "decoder_vocab_size": 97, "share_encoder_decoder_embeddings": False}
    torch.manual_seed(0)
    made = transformers.MarianMTModel(transformers.MarianConfig(**config, attn_implementation="eager"))
    return zoo.stirred(made).eval()


def pairs_of(lengths=LENGTHS):
    return [(zoo.tokens_of((1, n), seed), zoo.tokens_of((1, m), 100 + seed)) for seed, (n, m) in enumerate(lengths)]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The pairs in two files of token ids."""
    folder = tmp_path_factory.mktemp("pairs")
    paths = folder / "source.txt", folder / "target.txt"
    for path, side in zip(paths, zip(*pairs_of(), strict=True), strict=True):
        path.write_text("".join(" ".join(map(str, ids[0].tolist())) + "\n" for ids in side))
    return paths


def of_files(model, files, **options):
    return headway.xray(model, text=files[0], decoder_text=files[1], tokenizer="ids", **{"draws": 2} | options)


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_every_pattern_is_that_of_a_pass_of_its_pair_alone(name, files):
    model = model_of(name)
    opened = open_model(model, "ids", for_="trace")
    read = read_pairs(text_input(files[0]), files[1], opened, None, 64)
    assert read.sides == tuple(map(sum, zip(*LENGTHS, strict=True)))
    found = opened.reading(read.tokens).trace
    for at, (source, target) in enumerate(pairs_of()):
        with torch.no_grad():
            theirs = model(input_ids=source, labels=target, output_attentions=True)
        alone = {
            "encoder": theirs.encoder_attentions, "self": theirs.decoder_attentions, "cross": theirs.cross_attentions
        }  # fmt: skip
        for attention in found.attentions:
            expected = alone[attention.kind][attention.layer][0]
            n_queries, n_keys = expected.shape[1:]
            pattern = attention.patterns()[at, :, :n_queries]
            assert_same(pattern[..., :n_keys], expected, what=f"{at} {attention.name}")
            assert not pattern[..., n_keys:].any()


def rounding(metric):
    """A variance is a difference of mean squares of weights, which reach 0.02."""
    return {"dtype": np.float32, "scale": 0.02 if "variance" in metric else None}


@pytest.mark.parametrize("name", ["t5", "bart", "marian"])
def test_scores_and_loss_are_those_of_passes_of_each_pair_alone(name, files, monkeypatch):
    model = model_of(name)
    found = of_files(model, files)
    passes = [{"input_ids": source, "labels": target} for source, target in pairs_of()]
    alone = measure([recorder.trace(model, each) for each in passes])
    assert {"sink_score", "attention_entropy_nats", "query_cka", "output_dissimilarity"} <= alone.keys()
    for metric, score in alone.items():
        assert_same(found.scores[metric].values, score.values, what=metric, **rounding(metric))
    with torch.no_grad():
        losses = [model(**each).loss.item() * each["labels"].numel() for each in passes]
    n_source, n_target = map(sum, zip(*LENGTHS, strict=True))
    assert_same(found.loss_nats, sum(losses) / n_target, dtype=np.float32)
    assert (found.n_sequences, found.n_tokens, found.n_target_tokens) == (6, n_source + n_target, n_target)
    monkeypatch.setattr("headway.analysis.xray._BATCH", 1)
    monkeypatch.setattr("headway.analysis.xray._TRACE_BYTES", 1)
    for metric, score in of_files(model, files).scores.items():
        assert_same(found.scores[metric].values, score.values, what=metric, **rounding(metric))
        assert_same(found.scores[metric].draws, score.draws, what=f"drawn {metric}", **rounding(metric))


def test_the_page_says_how_many_pairs_were_read_and_what_was_cut(files):
    model = model_of("t5")
    names = f"from {files[0]} and {files[1]}"
    found = of_files(model, files, sequences=4, length=9, draws=0)
    read = (
        f"4 pairs, 26 source tokens and 29 target tokens in all, {names} (at most 9 tokens of a line); the model's "
        "loss on this text"
    )
    assert found.read.startswith(read)
    assert found.read.endswith(" nats per token")
    assert found.to_json()["text"]["n_target_tokens"] == 29


def test_without_a_text_of_its_own_the_decoder_reads_that_of_the_encoder(files):
    found = headway.xray(model_of("t5"), text=files[0], tokenizer="ids", sequences=1, length=24, draws=0)
    assert found.n_target_tokens == 0
    assert any(
        "its decoder reads the text that its encoder has read; `headway xray --decoder-text` gives" in note
        for note in found.notes
    )


def words(folder):
    """A tokenizer of words that ends a source with one token and a target with another, as that of Marian switches."""
    known = ["<pad>", "</s>", "</t>", "?", *"abcdefgh"]
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: at for at, word in enumerate(known)}, "?"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    found = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="</s>")
    found.save_pretrained(folder)
    return found


class Switching(transformers.PreTrainedTokenizerFast):
    """It ends targets with another token."""

    def _end(self, token):
        processor = tokenizers.processors.TemplateProcessing(
            f"$A {token}", special_tokens=[(token, 2 - (token[2] == "s"))]
        )
        self.backend_tokenizer.post_processor = processor

    def _switch_to_target_mode(self):
        self._end("</t>")

    def _switch_to_input_mode(self):
        self._end("</s>")


def test_targets_are_written_by_the_tokenizer_of_targets_and_cut_before_its_last_token(tmp_path):
    (tmp_path / "source.txt").write_text("a b c d\nb\nc c\n")
    (tmp_path / "target.txt").write_text("h g f e d\na<|endoftext|>\nb c\n")
    inner = words(tmp_path / "words").backend_tokenizer
    switching = Switching(tokenizer_object=inner, eos_token="</s>")
    opened = open_model(model_of("bart"), switching)
    read = read_pairs(text_input(tmp_path / "source.txt"), tmp_path / "target.txt", opened, None, 4)
    no = -100
    assert read.tokens[..., 0].tolist() == [[4, 5, 6, 1], [5, 1, no, no], [6, 6, 1, no]]
    assert read.targets.tolist() == [[11, 10, 9, 2], [4, 2, no, no], [5, 6, 2, no]]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("1 2\n3\n4\n", "5\n6\n", "target.txt has no text on line 3; .* give as many lines in both, and no empty"),
        ("", "", "a line has no tokens, or a file is empty; give a source and a target per line"),
        ("1 2\n" * 4000, "5\n" * 3999, "target.txt has no text on line 4000; "),
        ("1\nno\n", "5\n6\n", "tokenizer ids: 'no' is not a token id"),
        ("500\n" * 40, "5 6\n" * 40, "input_ids: token 500 is outside the vocabulary"),
        ("1 2\n" * 40, "5 600\n" * 40, "labels: token 600 is outside the vocabulary"),
        ("1\0\n", "5\n", "source.txt is not a text: a NUL byte"),
        (None, "5\n", "source.txt: there is no such file or folder"),
    ],
)
def test_files_that_are_no_pairs(source, target, message, tmp_path):
    paths = tmp_path / "source.txt", tmp_path / "target.txt"
    for path, text in zip(paths, (source, target), strict=True):
        if text is not None:
            path.write_text(text)
    with pytest.raises(UserError, match=message):
        of_files(model_of("t5"), paths)


@pytest.mark.parametrize("name", ["gpt-2", "bert", "opt"])
def test_a_model_without_an_encoder_and_a_decoder_takes_no_second_text(name, files):
    with pytest.raises(UserError, match=r"decoder_text .*target.txt: only a T5, BART or Marian .* is a .* Leave"):
        of_files(zoo.model_of(name), files)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "give either text= or tokens="),
        (
            {"tokens": np.ones((2, 9), int)},
            r"decoder_text .*target.txt: only a T5, .* a text file .*tokens.* Leave",
        ),
    ],
)
def test_a_text_of_the_decoder_needs_one_of_the_encoder(given, message, files):
    with pytest.raises(UserError, match=message):
        headway.xray(model_of("t5"), decoder_text=files[1], **given)


def test_the_verb_reads_two_files(tmp_path):
    model = model_of("t5")
    model.save_pretrained(tmp_path / "small")
    words(tmp_path / "small")
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice([*"abcdefgh"], n)) for n in random.integers(2, 12, 48)]
    with gzip.open(tmp_path / "source.txt.gz", "wt") as file:
        file.write("\n".join(texts[:24]))
    lines = [json.dumps({"text": text}) + "\n" for text in texts[24:]]
    (tmp_path / "target.jsonl").write_text("".join(lines))
    files = ["--text", "source.txt.gz", "--decoder-text", "target.jsonl"]
    done = verb("xray", "small", *files, "--null-draws", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    n_source, n_target = (sum(len(text.split()) + 1 for text in side) for side in (texts[:24], texts[24:]))
    read = (
        f"24 pairs, {n_source} source tokens and {n_target} target tokens in all, from source.txt.gz and target.jsonl"
    )
    assert f"measured on {read} (at most 512 tokens of a line); the model's loss on this text is " in done.stdout
    page = (tmp_path / "results/xray-small/xray.html").read_text()
    assert read in page
    assert "--decoder-text target.jsonl" in page
