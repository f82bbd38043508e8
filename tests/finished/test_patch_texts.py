"""`headway patch`: two texts that one writes, the page that is drawn of them, and what is refused."""

import json

import numpy as np
import pytest
from test_ablate import RAGGED, verb

import headway
from headway.data.tokens.tokenizer import bytes_tokenizer
from headway.errors import UserError
from headway.finished.patch_texts import patch_texts
from headway.heads.causes.patched_model import strongest_path
from headway.hf.export import export
from headway.model.weights import initial_weights

CLEAN, CORRUPTED = "A heron stood in", "A stork waded at"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "ragged"
    export(RAGGED, 257, initial_weights(RAGGED, 257, seed=0), path, bytes_tokenizer())
    return path


@pytest.fixture(scope="module")
def found(folder):
    return patch_texts(folder, clean=CLEAN, corrupted=CORRUPTED, answer="a", wrong="b", paths=True)


def test_it_is_what_patch_gives(found, folder):
    a, b = ord("a"), ord("b")
    tokens = [[list(text.encode())] for text in (CLEAN, CORRUPTED)]
    same = headway.patch(folder, *tokens, metric=lambda logits: logits[:, -1, a] - logits[:, -1, b], paths=True)
    np.testing.assert_allclose(found.patching.effects["z"], same.effects["z"], atol=1e-6)
    assert found.patching.difference == pytest.approx(same.difference)
    assert found.metric == "the logit of [a] after the text less that of [b]"
    assert found.clean == tuple(CLEAN)


def test_the_path_that_changes_most_and_its_patterns(found):
    path = strongest_path(found.patching)
    assert path is not None
    assert (path.writer[0], path.reader[0]) == (0, 2)
    assert abs(path.change) == max(np.nanmax(np.abs(each)) for each in found.patching.paths.through.values())
    assert [each.head for each in found.patterns] == [path.writer, path.reader]
    for each in found.patterns:
        for weights in (each.clean, each.corrupted):
            np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)
            assert not np.triu(weights, 1).any()
    assert found.findings[-1].sentence.startswith("the strongest direct path between heads: L0H")


def test_json_is_plain_and_whole(found):
    content = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert content["tokens"]["corrupted"] == list(CORRUPTED)
    assert content["patching"]["heads"] == ["L0H0", "L0H1", "L0H2", "L0H3", "L2H0", "L2H1"]
    assert len(content["patterns"][0]["clean"]) == len(CLEAN)
    assert content["notes"][-1].startswith("one pair of texts says what happens on these texts")


def test_a_probability_and_the_head_that_restores_most(folder):
    found = patch_texts(folder, clean=CLEAN, corrupted=CORRUPTED, answer="ab", sites=("v",))
    assert found.metric == "the logarithm of the probability of [a] after the text, in nats"
    assert found.patching.clean[0] < 0
    best = found.patching.heads[int(np.abs(found.patching.effects["v"][:, 0]).argmax())]
    assert [each.head for each in found.patterns] == [best]
    assert found.notes[0] == "answer has 2 tokens; its first, [a], is asked about"


def test_the_verb_draws_a_page(folder, tmp_path):
    words = ("--clean", CLEAN, "--corrupted", CORRUPTED, "--answer", "a", "--by-position", "--sites", "z,k")
    done = verb("patch", folder, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("* the metric is −")
    assert done.stdout.endswith("page: results/patch-ragged/patch.html\n")
    drawn = {path.stem for path in (tmp_path / "results/patch-ragged/figures").glob("*.svg")}
    assert drawn == {"patched", "patched-z-by-position", "patched-k-by-position", "paths", "patterns"}
    page = (tmp_path / "results/patch-ragged/patch.html").read_text()
    assert "--by-position --clean &#39;A heron stood in&#39;" in page
    assert "What is measured" not in page


def refused(said, folder, **given):
    with pytest.raises(UserError, match=said):
        patch_texts(folder, **{"clean": CLEAN, "corrupted": CORRUPTED, "answer": "a", **given})


def test_what_is_refused_is_said(folder):
    refused(
        r"the clean text has 16 tokens and the corrupted one 3; give two .*Clean: \[A\] \[ \] \[h\].*\[i\] \[b\] \[i\]",
        folder,
        corrupted="ibi",
    )
    refused("answer '': it adds no token of its own to the clean text", folder, answer="")
    refused("answer 'a' and wrong 'ab' begin with the same token", folder, wrong="ab")
    refused("sites: 'y' is nothing of a head that can be patched", folder, sites=("y",))
    refused("sites: none was given; choose from", folder, sites=())
    refused("the clean and the corrupted text are the same, so there is nothing", folder, corrupted=CLEAN)
    refused("at least 2", folder, clean="a", corrupted="b")
