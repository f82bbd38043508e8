"""results.json of language models: groups, references, schemes, learning rates and plain models of a size."""

from dataclasses import replace

import pytest
from support.fabricate_text import LOSSES, data_lane, fabricate_text, head_progression

from headway.config.load import load
from headway.stats import results
from headway.stats.answer import answer
from headway.stats.cells import matches_of, title
from headway.stats.learning_rates import rate_controls
from headway.stats.lm.plain_curve import Sized, against_plain
from headway.stats.lm.scaling import arms_on_curves, layout_of
from headway.store.directory import Store


@pytest.fixture(scope="module")
def progression(tmp_path_factory):
    chosen = head_progression().select(controls=["learning-rates-half", "learning-rates-double"])
    return Store.open(fabricate_text(tmp_path_factory.mktemp("text") / "hp", chosen))


@pytest.fixture(scope="module")
def content(progression):
    return results.build(progression)


def primary(content, control=None):
    return [c for c in content.comparisons if c.metric == "eval_loss_nats" and c.control == control]


def test_arms_are_compared_in_groups_and_the_groups_baselines_across(content):
    pairs = [(c.arm, c.baseline, c.group) for c in primary(content)]
    assert pairs == [
        *(
            (f"{scheme}-{g}", f"constant-{g}", g)
            for g in ("low", "medium", "high")
            for scheme in ("ascending", "descending")
        ),
        ("constant-medium", "constant-low", None),
        ("constant-high", "constant-low", None),
    ]


def test_with_a_baseline_for_all_the_tenth_arm_is_compared_too():
    pairs = [
        (m.arm.name, m.baseline.name) for m in matches_of(head_progression(baseline="constant-low")) if not m.control
    ]
    assert ("uniform-64", "constant-low") in pairs
    assert ("ascending-high", "constant-low") in pairs
    assert len(pairs) == 6 + 7


def test_controls_that_are_run_later_leave_the_answer_as_it_was(content, tmp_path):
    alone = results.build(Store.open(fabricate_text(tmp_path / "alone", head_progression())))
    assert [c.p_family for c in primary(alone)] == [c.p_family for c in primary(content)]


def test_sentences_name_the_arm_beside_its_layout(content, progression):
    (first, *_) = primary(content)
    assert first.verdict.startswith(
        "ascending-low (3-6-12-24) vs constant-low (12-12-12-12): worse, evaluation loss +7."
    )
    named = [title(arm, progression.experiment) for arm in progression.experiment.arms if arm.name == "uniform-64"]
    assert named[:2] == ["uniform-64 (16-16-16-16)", "uniform-64 (16-16-16-16), scaled logits"]


def test_references_are_what_the_runs_of_a_task_report(content, tmp_path):
    assert content.baselines == {"unigram": {"loss_nats": 5.74}, "bigram": {"loss_nats": 3.42}}
    (task,) = content.tasks.values()
    assert task.baselines == content.baselines
    grammar = data_lane(task={"kind": "text", "corpus": "stories", "n_ctx": 512}).select(arms=["plain-96"], seeds=1)
    built = results.build(Store.open(fabricate_text(tmp_path / "grammar", grammar)))
    assert built.tasks[built.runs[0].task].baselines["entropy"] == {"loss_nats": 1.21}


def test_fits_are_of_the_arms_in_groups_and_of_each_control(content):
    fits = [fit for fit in content.fits if fit.control is None]
    assert [(fit.form, fit.scheme) for fit in fits] == [
        (form, scheme)
        for form in ("exp(-b n) + c", "a exp(-b n) + c")
        for scheme in ("ascending", "constant", "descending")
    ]
    assert fits[1].arms == ("constant-low", "constant-medium", "constant-high")
    assert {fit.at for fit in fits} == {180}
    assert "at 180 heads, no clear difference between descending and constant: −0.30 %, " in fits[2].sentence
    assert {fit.control for fit in content.fits} == {None, "learning-rates-half", "learning-rates-double"}


def test_arms_that_differ_in_more_than_heads_are_on_no_curve():
    arms = [arm for arm in data_lane().arms if arm.control is None]
    assert {layout_of(arm).total for arm in arms} == {64}
    assert arms_on_curves(data_lane(), arms) == ()
    experiment = head_progression()
    plain = [arm for arm in experiment.arms if arm.control is None]
    assert len(arms_on_curves(experiment, plain)) == 9
    wider = head_progression(
        arms={"a": {"model": {"n_heads": 12}}, "b": {"model": {"n_heads": 24, "d_mlp": 64}}}, groups={}
    )
    assert arms_on_curves(wider, [arm for arm in wider.arms if arm.control is None]) == ()


def test_the_best_learning_rate_of_each_arm_and_the_verdicts_there(content):
    entries = {entry.arm: entry for entry in content.learning_rates}
    assert len(entries) == 10
    entry = entries["descending-high"]
    assert [rate.factor for rate in entry.rates] == [0.5, 1.0, 2.0]
    assert entry.best == min(entry.rates, key=lambda rate: rate.mean).factor
    assert entry.sentence.startswith("descending-high (96-48-24-12) is best at ")
    (compared,) = entry.comparisons
    assert compared.baseline == "constant-high"
    assert "descending-high (96-48-24-12) at x" in compared.verdict
    assert compared.outcome in ("apart", "small", "same", "open")
    former = next(c for c in primary(content) if c.arm == "descending-high")
    assert compared.changed == (compared.is_told != former.is_told)


def test_one_seed_changes_no_verdict_at_the_best_rates(tmp_path):
    chosen = head_progression().select(controls=["learning-rates-half", "learning-rates-double"], seeds=1)
    built = results.build(Store.open(fabricate_text(tmp_path / "one", chosen)))
    compared = [c for entry in built.learning_rates for c in entry.comparisons]
    assert compared
    assert {(c.outcome, c.changed) for c in compared} == {("few", False)}
    assert all(": too few seeds, " in c.verdict for c in compared)
    assert rate_controls(head_progression()) == ("learning-rates-half", "learning-rates-double")


def test_a_lane_is_compared_with_plain_models_of_its_size(tmp_path):
    content = results.build(Store.open(fabricate_text(tmp_path / "lane", data_lane())))
    entries = {entry.arm: entry for entry in content.plain_curve}
    assert {entry.control for entry in entries.values()} == {None}
    assert set(answer(content)) >= {entry.sentence for entry in entries.values()}
    assert list(entries) == ["lane-384", "lane-192", "lane-96", "switched-192"]
    assert entries["lane-96"].relative > 0
    assert entries["lane-96"].sentence.startswith("DL-768-96-35M lies 4.6 % ")
    assert "above plain models of its size (fitted curve), simultaneous 95 % interval" in entries["lane-96"].sentence
    assert content.fits == ()
    assert LOSSES["lane-96"] > LOSSES["plain-384"]


def test_sizes_beyond_the_plain_models_and_single_seeds():
    plain = [
        Sized(name=str(n), title=str(n), plain=True, n_parameters=n, losses={0: 3 - n / 1000}) for n in (1000, 2000)
    ]
    lane = Sized(name="l", title="lane", plain=False, n_parameters=1414, losses={0: 1.2})
    (entry,) = against_plain([*plain, lane])
    assert (entry.interval, entry.n_pairs) == (None, 1)
    assert entry.sentence == ("lane cannot be compared with plain models of its size: one seed (1.20 and 1.41 nats)")
    several = [replace(one, losses={**one.losses, 1: one.losses[0] + 0.01}) for one in (*plain, lane)]
    (two,) = against_plain(several)
    assert (two.interval, two.p, two.n_pairs) == (None, None, 2)
    assert two.sentence == (
        "lane: too few seeds to say (2); so far it lies 15.1 % below plain models of its size (fitted curve)"
    )
    assert against_plain([*plain, replace(lane, n_parameters=2500)]) == []
    assert against_plain([plain[0], lane]) == []
    assert "no seed gave a result" in against_plain([*plain, replace(lane, losses={7: 1.0})])[0].sentence


def test_a_model_that_sees_the_answer_is_not_called_better():
    experiment = load("x-ray").select(arms=["heads-8", "heads-4"], controls=["as-published-mask", "as-published-norm"])
    said = {(m.arm.full_name, m.baseline.full_name): m.no_merit("eval_loss_nats") for m in matches_of(experiment)}
    seen = "one of them sees the token that it is to predict"
    assert said["heads-8+as-published-mask", "heads-8"] == seen
    assert said["heads-8+as-published-norm", "heads-8"] == ""
    assert said["heads-4+as-published-mask", "heads-8+as-published-mask"] == ""
