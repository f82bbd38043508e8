"""What can be measured in heads while they train, and what can be done to make them differ."""

import pytest

from headway.config.head_metrics import HEAD_METRICS
from headway.config.kinds import parse_run
from headway.config.lm.measurement import HeadProbes
from headway.config.spec import parse
from headway.errors import DeclarationError

RUN = {
    "task": {"kind": "text", "corpus": "stories", "n_ctx": 16},
    "model": {"family": "gpt-2", "d_model": 48, "n_layers": 2, "n_heads": 4},
    "training": {"optimizer": "adamw", "batch_size": 8, "learning_rate": 1e-3, "steps": 9},
    "samples": None,
    "seed": 0,
}


def run(**parts):
    changed = {
        part: {**(RUN.get(part) or {}), **value} if isinstance(value, dict) else value for part, value in parts.items()
    }
    return parse_run({**RUN, **changed})


@pytest.mark.parametrize("family", ["diversity", "patterns", "circuits", "published", "outputs"])
def test_a_family_is_all_its_metrics(family):
    chosen = parse(HeadProbes, {family: True}).chosen
    assert set(chosen) == {metric.name for metric in HEAD_METRICS.values() if metric.family == family}
    assert chosen


def test_single_metrics_stand_beside_families_in_their_declared_order():
    probes = parse(
        HeadProbes, {"published": True, "metrics": ["sink_score", "query_cka", "attention_variance_published"]}
    )
    assert probes.chosen == (
        "query_cka",
        "sink_score",
        "output_dissimilarity_published",
        "attention_variance_published",
    )


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"probes": {"diversty": True}}, "probes.diversty: there is no such key; did you mean diversity"),
        (
            {"probes": {"metrics": ["qurey_cka"]}},
            r"probes.metrics.0: 'qurey_cka' is not a metric of heads; did you mean query_cka",
        ),
        ({"probes": {"metrics": ["sink_score", "sink_score"]}}, "probes.metrics: sink_score appears twice; keep one"),
        (
            {"probes": {"patterns": True}, "task": {"n_ctx": 3}},
            "probes: duplicate_token_score repeats random tokens, and task.n_ctx 3 has no room for two repeated "
            "tokens; raise task.n_ctx to 4 or more, or leave the metric out",
        ),
        (
            {"probes": {"diversity": True}, "model": {"n_heads": "0-0"}},
            "probes: query_orthogonality_raw measures heads, but the model has none; leave probes out",
        ),
        (
            {"training": {"regularizers": [{"metric": "disagrement_output"}]}},
            "training.regularizers.0.metric: 'disagrement_output' is not known; did you mean disagreement_output",
        ),
        (
            {"training": {"regularizers": [{"metric": "orthogonality"}, {"metric": "orthogonality", "weight": 2.0}]}},
            "training.regularizers: orthogonality appears twice; keep one",
        ),
        (
            {"training": {"regularizers": [{"metric": "query_cka"}]}, "model": {"n_heads": "1-0"}},
            "training.regularizers: query_cka needs a layer with two heads or more, but the heads are 1-0; raise "
            "model.n_heads, or leave it out",
        ),
        (
            {"training": {"drophead": {}}, "model": {"n_heads": 1}},
            "training.drophead needs a layer with two heads or more, but the heads are 1-1",
        ),
        (
            {"training": {"drophead": {"start": 0, "end": 0}}},
            "training.drophead: start and end are 0, so no head would ever be dropped; raise one, or leave",
        ),
        ({"training": {"drophead": {"start": 1}}}, "training.drophead.start: 1 was given; give a number less than 1"),
        (
            {"model": {"mask": "future"}, "samples": {}},
            "model.mask is future, and such a model cannot generate text; set samples to null",
        ),
        (
            {"model": {"mask": "future", "windows": [7, None]}},
            r"windows \[7, None\] reach back from a query, but mask is future; give windows \[null\]",
        ),
    ],
)
def test_what_is_wrong_gets_an_error_that_teaches(parts, message):
    with pytest.raises(DeclarationError, match=message):
        run(**parts)
