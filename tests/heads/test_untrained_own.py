"""A metric of the user's own beside untrained heads: a long text has its null at all queries."""

import numpy as np
from support import your_own
from support.drawn_transformers import built, text
from support.own_code import DOCUMENT, ECHO
from support.own_code import write as write

import headway
from headway.base.files import json_text
from headway.config.lm.model import Gpt2
from headway.config.plugins import load
from headway.train.lm.study import open_study

SQUARE = """
import torch
from headway import own

@own.head_metric(sentence="mean of p_ij p_ji", high="pairs look at each other", unit="0 to 1", null=0.0)
def mutual(of):
    patterns = of.attention.patterns()
    return (patterns * patterns.mT).mean((0, 2, 3))
"""
LAYERS = {"n_layers": 2, "n_heads": 4, "windows": (16, None), "init_std": 0.2}
UNTRAINED = Gpt2(family="gpt-2", d_model=32, n_positions=128, **LAYERS)


def untrained_beside(write, code):
    """Return the scores of an untrained model on a text of which draws are measured at some positions."""
    write(code)
    load("mine.py")
    return headway.xray(built(UNTRAINED), tokens=text(128, 16), draws=4).scores


def test_the_docs_metric_of_an_untrained_model_is_within_its_null(write):
    found = untrained_beside(write, your_own.files()["heads.py"])["own_weight"]
    for name, draws in found.draws.items():
        assert np.all(np.abs(found.values[name] - draws.mean(0)) < 5 * draws.std(ddof=1)), name


def test_a_metric_of_square_patterns_has_draws_on_a_long_text(write):
    found = untrained_beside(write, SQUARE)["mutual"]
    assert {draws.shape for draws in found.draws.values()} == {(4, 4)}
    seen = headway.look(built(UNTRAINED), tokens=text(128, 16), draws=4)
    assert seen.found.scores["mutual"].draws.keys() == found.draws.keys()


def test_a_plugin_changes_no_draw_of_headways_metrics(write):
    plain = headway.xray(built(UNTRAINED), tokens=text(128, 16), draws=4).scores["sink_score"].draws
    beside = untrained_beside(write, SQUARE)["sink_score"].draws
    assert all(np.array_equal(beside[name], draws) for name, draws in plain.items())


def test_a_metric_of_square_patterns_is_a_probe(write):
    write(ECHO + SQUARE)
    experiment = headway.load({**DOCUMENT, "probes": {"metrics": ["mutual"]}})
    study = open_study(experiment.arms[-1].spec(0), compile=False, device="cpu")
    assert any("mutual" in json_text(measure.take()) for measure in study.measures)
