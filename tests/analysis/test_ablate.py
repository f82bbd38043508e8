"""`headway ablate`: finished models without each of their heads, and everything that cannot be measured."""

import json
import re

import numpy as np
import pytest
import torch
from support.planted import planted, texts
from support.small_text import RAGGED, STORIES
from support.tolerance import nearly
from support.typed import verb

import headway
from headway.analysis.inputs import two_inputs
from headway.causal.effects import KINDS
from headway.config.head_metrics import HEAD_CAUSES
from headway.config.lm.model import GptNeo
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.hf.write import export
from headway.models.attention import Attention
from headway.models.transformer import Transformer
from headway.models.weights import initial_weights
from headway.report.models.ablation import headline


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "stories.txt"
    path.write_text(STORIES)
    return path


@pytest.fixture(scope="module")
def ragged(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ragged"
    export(RAGGED, 257, initial_weights(RAGGED, 257, seed=0), path, bytes_tokenizer())
    return path


@pytest.fixture(scope="module")
def found(ragged, text):
    return headway.ablate(ragged, text=text, sequences=5, length=32, pairs=True)


def test_it_says_what_it_read_and_what_stood_in(found):
    assert (found.name, found.n_sequences, found.length, found.n_tokens) == ("ragged", 5, 32, 160)
    assert found.other.startswith("5 further sequences of ")
    assert found.mean_over == "positions"
    assert list(found.labels.values()) == ["L0", "L2"]
    assert found.exact.tokens.tolist() == [32] * 5


def test_effects_are_losses_with_and_without(found, ragged, text):
    from headway.analysis.open import open_model
    from headway.models.transformer import mean_nll

    opened = open_model(ragged)
    tokens = torch.from_numpy(opened.sequences(iter(STORIES.split("\n<|endoftext|>\n")), n=5, length=33))
    gates = [torch.ones(4), torch.ones(0), torch.tensor([1.0, 0.0])]
    with torch.no_grad():
        whole, masked = (mean_nll(opened.own(tokens[:, :-1], gates=g)[0], tokens[:, 1:]) for g in (None, gates))
    assert found.loss_nats == nearly(float(whole), dtype=np.float32)
    assert found.exact.single["zero"].mean[2][1] == nearly(float(masked - whole), dtype=np.float32, scale=whole)


def test_pieces_of_a_document_are_one_unit(ragged, tmp_path):
    """Long documents give their beginnings where there are many, and pieces that count as one where there are few."""
    long = [chr(97 + n % 26) * (n // 26 + 1) + "".join(chr(97 + n * at % 26) for at in range(90)) for n in range(70)]
    text = tmp_path / "long.txt"
    text.write_text("\n<|endoftext|>\n".join(long) + "\n<|endoftext|>\n")
    opened = headway.open_model(ragged, for_="intervene")
    own, _ = two_inputs(opened, text, None, sequences=32, length=32)
    assert own.documents.tolist() == list(range(32))
    assert ["".join(map(chr, row[:9])) for row in own.tokens.tolist()] == [each[:9] for each in long[:32]]
    found = headway.ablate(ragged, text=text, sequences=30, length=32)
    assert found.n_sequences == 30
    assert 8 <= len(found.exact.tokens) < 20
    assert found.exact.tokens.sum() == 30 * 32
    assert all(np.shape(found.exact.single[kind].per_sequence[0])[1] == len(found.exact.tokens) for kind in KINDS)
    (tmp_path / "one.txt").write_text("".join(long[1:12]))
    one = headway.ablate(ragged, text=tmp_path / "one.txt", sequences=12, length=32)
    assert "the text has only 1 document: intervals are over its 12 sequences, and hold for this text only" in one.notes
    assert len(one.exact.tokens) == 12


def test_every_effect_is_a_metric_of_the_atlas(found):
    assert list(found.scores) == list(HEAD_CAUSES)
    for name, score in found.scores.items():
        assert [len(value) for value in score.values.values()] == [4, 2], name
        assert score.declared.unit.startswith("nats per token")
    np.testing.assert_array_equal(
        found.scores["mean_ablation_nats"].values["layers.2.attention"], found.exact.single["mean"].mean[2]
    )


def test_json_is_plain_sorted_and_whole(found):
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["schema"] == 1
    effects = [head["mean"]["effect_nats"] for head in content["heads"]]
    assert len(effects) == 6
    assert effects == sorted(effects, reverse=True)
    for head in content["heads"]:
        for kind in KINDS:
            own = head[kind]["interval"]
            assert own[0] < head[kind]["effect_nats"] < own[1]
            assert head[kind]["corrected_interval"] == [None, None]  # of five sequences
    assert set(content["rank_correlation_with_exact"]["zero"]) == {"michel", "first-order", "integrated"}
    assert [one["sentence"] for one in content["findings"]] == [finding.sentence for finding in found.findings]
    assert content["findings"][0]["sentence"].startswith(headline(found)), "the terminal leads as the page does"
    assert {pair["why"] for pair in content["pairs"]} == {"alike", "important", "searched"}
    assert content["text"]["n_sequences"] == 5


@pytest.mark.slow
def test_the_verb_writes_a_page(ragged, text, tmp_path):
    words = ("--text", text, "--sequences", 3, "--length", 24, "--pairs", "--circuit", "L0H0, L2H1")
    done = verb("ablate", ragged, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("* Heads (mean ablation): ")
    assert done.stdout.endswith("page: results/ablate-ragged/ablate.html\n")
    folder = tmp_path / "results/ablate-ragged"
    assert {path.name for path in folder.iterdir()} == {"ablate.html", "ablate.json", "heads.safetensors", "figures"}
    there = {path.stem for path in (folder / "figures").glob("*.svg")}
    assert there == {"effects", "effects-atlas", "estimates", "interactions", "circuit"}
    page = (folder / "ablate.html").read_text()
    assert "<title>Ablation of heads: ragged · Headway</title>" in page
    assert "headway ablate " in page
    assert "--pairs --circuit" in page
    assert "Loss with L0H0 and L2H1 alone" in page
    assert "note: intervals are over 3 sequences, too few to detect skewed effects." in done.stdout
    content = json.loads((folder / "ablate.json").read_text())
    assert content["findings"][-1]["about"] == "circuit"
    assert f"* {content['findings'][-1]['sentence']}\n" in done.stdout
    assert set(content["circuit"]) == set(KINDS)
    for found in content["circuit"].values():
        assert found["heads"] == ["L0H0", "L2H1"]
        assert found["all_other_circuits"] is True
        assert len(found["random_shares"]) == 14
        low, high = found["loss_nats"]["circuit_interval"]
        assert low < found["loss_nats"]["circuit"] < high


@pytest.mark.slow
def test_a_planted_circuit_is_faithful_in_all_three_ways_and_random_ones_are_not():
    model, heads = planted(3)
    inputs, _, other = texts(3)
    found = headway.ablate(model, text=inputs, reference=other, circuit=[f"L{layer}H{head}" for layer, head in heads])
    for kind in KINDS:
        assert found.circuit[kind].interval[0] > 0.9
        assert found.circuit[kind].as_faithful == 0
    assert found.findings[-1].sentence.endswith("; 0 are no less faithful than this circuit.")
    reset, _ = planted(3, reset=True)
    nothing = headway.ablate(reset, text=inputs, reference=other, circuit=["L0H0", "L1H0"])
    assert {each.kind for each in nothing.findings[-1].statements} == {"no_worth"}


def test_what_is_no_circuit_is_refused_before_anything_is_measured(ragged, text):
    told = []
    for circuit, said in (
        (["L1H0"], r"L1H0 is not a head of the model; give some of the heads of the model \(4-0-2\), each once"),
        (["L0H0", "L0H0"], "L0H0 is named twice"),
        ([], "none was given"),
        (["L0H0", "L0H1", "L0H2", "L0H3", "L2H0", "L2H1"], "all 6 were given, so no head is left to ablate"),
        (["head"], "heads: 'head' is not a head; write L0H3, layer and head from 0"),
    ):
        refused(said, ragged, text=text, circuit=circuit, tell=told.append)
    assert told == []


def test_a_second_text_and_means_of_positions(ragged, text, tmp_path):
    (tmp_path / "other.txt").write_text("A fish swam up, and down, and up again, for it was bored of the reeds. " * 9)
    given = {"text": text, "reference": tmp_path / "other.txt", "sequences": 4, "length": 32}
    by_text, by_position = (headway.ablate(ragged, mean=mean, **given) for mean in ("positions", "per-position"))
    assert by_text.other == f"4 sequences of {tmp_path / 'other.txt'}"
    zero, mean = ([found.exact.single[kind].flat() for found in (by_text, by_position)] for kind in ("zero", "mean"))
    np.testing.assert_array_equal(*zero)
    assert np.abs(mean[0] - mean[1]).max() > 1e-4


def test_planted_heads_are_named_and_no_others():
    model, heads = planted(3)
    inputs, _, other = texts(3)
    found = headway.ablate(model, text=inputs, reference=other)
    for finding in found.findings[:3]:
        for layer, head in heads:
            assert f"L{layer}H{head} " in finding.sentence
        assert len(re.findall(r"L\d+H\d+", finding.sentence)) == 2


def test_nothing_is_named_where_nothing_is():
    model, _ = planted(3, reset=True)
    inputs, _, other = texts(3)
    found = headway.ablate(model, text=inputs, reference=other)
    for finding in found.findings[:3]:
        assert finding.statements[0].kind == "no_change"


def refused(said, *arguments, **options):
    with pytest.raises(UserError, match=said):
        headway.ablate(*arguments, **options)


def test_a_model_that_fails_a_check_is_refused_by_its_name(ragged, text, monkeypatch):
    forward = Attention.forward

    def without_mask(self, x, rotary=None, gate=None, cache=None, record=False, edits=None, last=None):
        return forward(self, x, rotary, None, cache, record, edits, last)

    monkeypatch.setattr(Attention, "forward", without_mask)
    refused("the check that failed: gates of 0 change the logits", ragged, text=text, sequences=2, length=16)


def test_texts_that_are_too_short(ragged, text, tmp_path):
    (tmp_path / "tiny.txt").write_text("A heron stood in the reeds.")
    refused(
        "it has only 28 tokens, fewer than one sequence of 64 and the token after it; give a longer text",
        ragged,
        text=tmp_path / "tiny.txt",
    )
    refused(
        "it gives 2 sequences of 12 tokens, but ablation needs 3: two for an interval and one as replacement",
        ragged, text=tmp_path / "tiny.txt", length=12,
    )  # fmt: skip
    refused(
        "it gives one sequence of 20 tokens, but intervals are over sequences",
        ragged, text=tmp_path / "tiny.txt", reference=text, length=20,
    )  # fmt: skip
    refused("reference .*tiny.txt: it has only 28 tokens", ragged, text=text, reference=tmp_path / "tiny.txt")
    refused("sequences 1: intervals are over sequences; give 2 or more", ragged, text=text, sequences=1)
    refused("length 65: ragged reads 64 tokens at most", ragged, text=text, length=65)
    refused("text nowhere.txt: there is no such file", ragged, text="nowhere.txt")
    refused("reference nowhere.txt: there is no such file", ragged, text=text, reference="nowhere.txt")


def test_the_text_itself_cannot_stand_in(ragged, text):
    refused(
        "reference: it is the text itself, so no output of a head would change", ragged, text=text, reference=str(text)
    )
    refused("mean 'position' is not a kind of mean; did you mean positions", ragged, text=text, mean="position")


def test_what_is_no_model_of_ours(text):
    said = "give a path, a Headway model or a transformers model; a Linear was given, and its"
    refused(said, torch.nn.Linear(2, 2), text=text)
    headless = GptNeo(family="gpt-neo", d_model=16, n_layers=1, n_heads="0", n_positions=64)
    module = Transformer(headless, 257, initial_weights(headless, 257, 0)).eval()
    refused("the model has no attention heads: there is nothing to measure", module, text=text, tokenizer="bytes")
    refused(
        "the model has no tokenizer",
        Transformer(RAGGED, 257, initial_weights(RAGGED, 257, 0)).eval(), text=text,
    )  # fmt: skip


def test_targets_that_do_not_fit():
    model, _ = planted(0)
    inputs, targets, other = texts(0)
    refused(
        r"targets of \[24, 22\] were given for tokens of \[24, 23\]",
        model,
        text=inputs,
        targets=targets[:, 1:],
        reference=other,
    )
    alone = headway.ablate(model, text=inputs, targets=targets)
    halves = headway.ablate(model, text=inputs[:12], targets=targets[:12], reference=inputs[12:])
    assert alone.loss_nats == halves.loss_nats, "without a reference the second half stands in"
    refused("token 16 was given", model, text=inputs, targets=targets + (targets == 15), reference=other)
    whole = headway.ablate(model, text=torch.cat([inputs, targets[:, -1:]], 1), reference=other, sequences=24)
    same = headway.ablate(model, text=inputs, targets=targets, reference=other[:, :-1])
    assert whole.loss_nats == nearly(same.loss_nats, dtype=np.float32)
