"""Seeds are added to a language-model experiment until its question is settled: real training, from file to page."""

import json

import pytest
from support import small_text

import headway
from headway.stats.results import read
from headway.store.look_plans import stored_plan


@pytest.mark.slow
def test_a_text_experiment_is_run_until_it_is_told(tmp_path, capsys):
    of = small_text.experiment(
        arms={"short": {"training": {"steps": 2}}, "long": {"training": {"steps": 30}}},
        baseline="short",
        contrasts={"training": {"better": ["long"], "than": ["short"]}},
        samples=None,
    )
    out = tmp_path / "d"
    store = headway.run(of, out, until="1%", at_most=4, figures=False, timing=False, workers=1, progress=True)
    # Thirty steps make so much of a difference that the first look tells.
    assert {(run.arm, run.seed, run.status) for run in store.runs()} == {
        (arm, seed, "done") for arm in ("short", "long") for seed in range(3)
    }
    plan = stored_plan(out)
    assert (plan.looks, plan.margin, plan.metric, plan.are_declared) == ((3, 4), 1.0, "eval_loss_nats", True)
    assert [(look.n_seeds, look.outcomes) for look in plan.history] == [(3, {"training": "apart"})]
    (contrast,) = read(out).contrasts
    assert (contrast.outcome, contrast.n_pairs) == ("apart", 3)
    assert contrast.interval == pytest.approx(plan.history[0].intervals["training"])
    page = (out / "report.html").read_text().replace("\xa0%", " %")
    # The contrast is the arm against its baseline too, and stands once.
    assert page.count(f"<li>{contrast.sentence}.</li>") == 1
    assert page.count("better, in doubt</span>") == 1
    assert "at interim analysis 1 of 2" in page
    assert json.loads((out / "results.json").read_text())["families"][0]["plan"]["looks"] == [3, 4]
    said = capsys.readouterr().err
    assert "1 contrast of evaluation loss: add seeds until each has an answer within 1 %; interim analyses at" in said
    assert "interim analysis 1 of 2, 3 seeds:" in said
