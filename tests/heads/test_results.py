"""What an x-ray found, as JSON; read without torch."""

from pathlib import Path

import numpy as np
from safetensors.numpy import load_file
from support.fabricate_scores import composition, names, scores

from headway.heads.results import AttentionHeads, XRay
from headway.heads.scores import from_arrays


def test_json_of_many_heads_says_what_it_leaves_out():
    found = XRay(
        name="wide",
        model={},
        text="a.txt",
        n_tokens=64,
        n_sequences=1,
        length=64,
        attentions=tuple(
            AttentionHeads(name=name, kind="self", kv_of=tuple(range(n)), d_head=2)
            for name, n in zip(names((300, 300)), (300, 2), strict=True)
        ),
        scores=scores((300, 2), ["query_cka", "sink_score"]),
        composition=composition(n_heads=(300, 300), strong=(0, 400)),
    )
    content = found.to_json()
    assert content["metrics"]["query_cka"]["values"]["layers.0.attention"] is None
    assert np.shape(content["metrics"]["query_cka"]["values"]["layers.1.attention"]) == (2, 2)
    assert len(content["metrics"]["query_cka"]["per_head"]["layers.0.attention"]) == 300
    assert content["composition"] is None
    assert content["notes"] == [
        "metrics of pairs of layers.0.attention are in heads.safetensors only, since layers.0.attention has many heads",
        "composition of 600 heads is not in the JSON: there are too many pairs",
    ]


def test_without_the_metric_there_are_no_output_shares():
    found = XRay(name="old", model={}, text="a.txt", n_tokens=4, n_sequences=1, length=4, attentions=(), scores={})
    assert found.to_json()["output_share"] == {}


def test_files_that_were_written_before_there_was_a_share_are_read():
    file = Path(__file__).parents[1] / "before/text/runs/few/seed-0/heads/000000030.safetensors"
    arrays = load_file(file)
    attentions = sorted({name.split("/")[1] for name in arrays if "layers" in name})
    read = from_arrays(arrays, attentions)
    assert read
    assert "output_share" not in read
    assert {f"{metric}/n_rows" for metric in read} == {name for name in arrays if name.endswith("/n_rows")}
