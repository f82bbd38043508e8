"""`headway patch`: two texts that one writes, the page that is drawn of them, and what is refused."""

import json

import numpy as np
import pytest
from support.small_text import RAGGED
from support.tolerance import TERMS, assert_same, nearly
from support.typed import verb

import headway
from headway.analysis.patch import patch_texts
from headway.analysis.text_pairs import text_or_lines
from headway.causal.patch_result import strongest_path
from headway.data.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.hf.write import export
from headway.models.weights import initial_weights
from headway.report.models.patching import patch_page

CLEAN, CORRUPTED = "A heron stood in", "A stork waded at"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ragged"
    export(RAGGED, 257, initial_weights(RAGGED, 257, seed=0), path, bytes_tokenizer())
    return path


@pytest.fixture(scope="module")
def found(folder):
    return patch_texts(folder, clean=CLEAN, corrupted=CORRUPTED, answer="b", wrong="a", paths=True)


def test_it_is_what_patch_gives(found, folder):
    a, b = ord("a"), ord("b")
    tokens = [[list(text.encode())] for text in (CLEAN, CORRUPTED)]
    same = headway.patch(folder, *tokens, metric=lambda logits: logits[:, -1, b] - logits[:, -1, a], paths=True)
    assert_same(found.patching.effects["z"], same.effects["z"], dtype=np.float32)
    assert found.patching.difference == nearly(same.difference, dtype=np.float32)
    assert found.metric == "the logit of [b] at the end of the text minus the logit of [a]"
    assert found.clean == tuple(CLEAN)


def test_the_path_that_changes_most_and_its_patterns(found):
    path = strongest_path(found.patching)
    assert path is not None
    assert (path.writer[0], path.reader[0]) == (0, 2)
    assert abs(path.change) == max(np.nanmax(np.abs(each)) for each in found.patching.paths.through.values())
    assert [each.head for each in found.patterns] == [path.writer, path.reader]
    for each in found.patterns:
        for weights in (each.clean, each.corrupted):
            assert_same(weights.sum(1), 1, dtype=np.float32)
            assert not np.triu(weights, 1).any()
    assert found.findings[-1].sentence.startswith("The strongest path, L0H")


def test_json_is_plain_and_whole(found):
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["tokens"]["corrupted"] == list(CORRUPTED)
    assert content["patching"]["heads"] == ["L0H0", "L0H1", "L0H2", "L0H3", "L2H0", "L2H1"]
    assert len(content["patterns"][0]["clean"]) == len(CLEAN)
    assert content["notes"][-1].startswith("one pair of texts is too few for intervals")


def test_a_probability_and_the_head_that_restores_most(folder):
    found = patch_texts(folder, clean=CLEAN, corrupted=CORRUPTED, answer="ab", sites=("v",), paths=False)
    assert found.metric == "the logarithm of the probability of [a] at the end of the text, in nats"
    assert found.patching.clean[0] < 0
    best = found.patching.heads[int(np.abs(found.patching.effects["v"][:, 0]).argmax())]
    assert [each.head for each in found.patterns] == [best]
    assert found.notes[0] == "the answer has 2 tokens, and only the first counts: [a]"


@pytest.mark.slow
def test_the_verb_draws_a_page(folder, tmp_path):
    words = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--answer", "b", "--by-position", "--sites", "z,k")
    done = verb("patch", folder, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("* The answer's mean probability is ")
    assert "\n* The metric is −" in done.stdout
    assert done.stdout.endswith("page: results/patch-ragged/patch.html\n")
    drawn = {path.stem for path in (tmp_path / "results/patch-ragged/figures").glob("*.svg")}
    assert drawn == {"patched", "patched-z-by-position", "patched-k-by-position", "paths", "patterns"}
    page = (tmp_path / "results/patch-ragged/patch.html").read_text()
    assert "--clean &#39;A heron stood in&#39;" in page
    assert "--by-position --sites z,k" in page
    assert "What is measured" not in page


def refused(said, folder, **given):
    with pytest.raises(UserError, match=said):
        patch_texts(folder, **{"clean": CLEAN, "corrupted": CORRUPTED, "answer": "a", **given})


def test_what_is_refused_is_said(folder):
    refused(
        r"the clean text has 16 tokens and the corrupted text 3; .*Clean: \[A\] \[ \] \[h\].*\[i\] \[b\] \[i\]",
        folder,
        corrupted="ibi",
    )
    refused("answer '': it adds no token to the clean text", folder, answer="")
    refused("answer 'a' and wrong 'ab' begin with the same token", folder, wrong="ab")
    refused("sites: a head has no site 'y'", folder, sites=("y",))
    refused("sites: none was given; choose from", folder, sites=())
    refused("the clean and the corrupted text are the same, so there is nothing", folder, corrupted=CLEAN)
    refused("at least 2", folder, clean="a", corrupted="b")
    refused("1 clean text and 2 corrupted ones were given; give pairs", folder, corrupted=[CORRUPTED, CLEAN])
    refused("answer: 2 were given for 1 pair of texts; give one for all", folder, answer=["a", "b"])
    two = {"clean": [CLEAN, "abc"], "corrupted": [CORRUPTED, "abd"]}
    refused(r"the same \(pair 2\), so there is nothing", folder, clean=two["clean"], corrupted=[CORRUPTED, "abc"])
    refused(r"same token \(pair 2\); give two that differ", folder, **two, answer=["a", "b"], wrong="b")
    refused(
        "pair 1 has texts of 16 tokens and pair 2 of 3, but each position is patched", folder, **two, by_position=True
    )


def test_it_says_first_whether_the_model_knows_the_answer(folder, found):
    first, second = (finding.sentence for finding in found.findings[:2])
    assert first == "The model knows the answer on the clean text."
    assert second.startswith("The clean logit difference is ")
    assert second.endswith(", for one pair of texts.")
    assert found.to_json()["patching"]["knows_answer"] is True
    wrong = patch_texts(folder, clean=CLEAN, corrupted=CORRUPTED, answer="a", wrong="b", sites=("z",), paths=False)
    assert [finding.statements[0].kind for finding in wrong.findings] == [
        "does_not_know", "logit_of_one", "metric", "one_pair", "unknown_answer",
    ]  # fmt: skip
    assert wrong.findings[2].sentence == "The metric is −0.813 on the clean text and 2.93 on the corrupted text."
    assert wrong.to_json()["patching"]["restored"]["z"]["share"] == [None] * 6
    page = patch_page(wrong)
    assert {figure.name for figure in page.figures} == {"patterns"}
    assert all("%" not in cell for table in (page.overview, page.heads) for row in table.rows for cell in row.cells)
    assert "The model does not know the answer on the clean text. The clean logit difference is " in page.html(
        "headway patch"
    )
    likelier = patch_texts(folder, clean=CLEAN, corrupted=CORRUPTED, answer="a", sites=("z",), paths=False)
    assert likelier.findings[-1].statements[0].kind == "favours_corrupted"


PAIRS = [("A heron stood in", "A stork waded at"), ("One day a heron", "Two men a stork"), ("a bc d", "e bc f")]


@pytest.mark.slow
def test_pairs_of_different_lengths_are_each_as_alone(folder):
    clean, corrupted = zip(*PAIRS, strict=True)
    given = {"answer": ["a", "b", "c"], "wrong": "d", "sites": ("z", "k")}
    found = patch_texts(folder, clean=clean, corrupted=corrupted, **given)
    for at, (one, other) in enumerate(PAIRS):
        alone = patch_texts(folder, clean=one, corrupted=other, **{**given, "answer": given["answer"][at]})
        for site in ("z", "k"):
            for name in ("effects", "estimates"):
                of_both = [getattr(each.patching, name)[site] for each in (found, alone)]
                # An estimate is a sum whose terms are some ten times as large as what they leave.
                assert_same(of_both[0][:, at], of_both[1][:, 0], terms=100 * TERMS, dtype=np.float32)
        assert found.patching.clean[at] == nearly(alone.patching.clean[0], dtype=np.float32)
    assert found.metric == "the logit of the answer at the end of the text minus the logit of [d]"
    assert (found.n_sequences, found.n_tokens, found.length) == (6, 2 * (16 + 15 + 6), 16)
    assert [each.clean.shape for each in found.patterns] == [(16, 16)] * 2
    assert "intervals from 3 pairs are wide; give more pairs" in found.notes
    assert found.positions[0] == "(1)"


@pytest.mark.slow
def test_the_verb_takes_files_of_pairs(folder, tmp_path):
    for name, texts in zip(("clean.txt", "corrupted.txt"), zip(*PAIRS, strict=True), strict=True):
        (tmp_path / name).write_text("\n".join(texts) + "\n")
    words = ("--clean", "clean.txt", "--corrupted", "corrupted.txt", "--answer", "a", "--sites", "z", "--no-paths")
    done = verb("patch", folder, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "\n* The mean difference over 3 pairs is " in done.stdout
    assert "measured on 3 pairs of texts of at most 16 tokens, 74 tokens in all: the first pair 'A heron" in done.stdout
    content = json.loads((tmp_path / "results/patch-ragged/patch.json").read_text())
    assert len(content["patching"]["restored"]["z"]["interval"]) == 6


def test_files_that_are_no_texts(tmp_path):
    def said(content, match):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(UserError, match=match):
            text_or_lines(str(tmp_path / "file"), "--clean")

    said(b"", "--clean .*file: the file is empty; give one text per line")
    said(b"a\n\nb\n", "file: line 2 is empty; give one text per line, without empty lines")
    said(b"\xff\xfe", "file: this file is not UTF-8 text")
    said(b"a\n" * 1025, "file: it has 1,025 lines, but at most 1,024 pairs are read; give fewer")
    assert text_or_lines("once upon a time", "--clean") == "once upon a time"
    assert text_or_lines("x" * 9999, "--clean") == "x" * 9999
