"""Experiments: how a file, a scale, settings, arms and controls become runs."""

import pytest

from headway.config.document import ignored_by_controls, parse_seeds
from headway.config.load import load, read_resolved, resolve
from headway.config.yaml import read_file, shipped, write_yaml
from headway.errors import DeclarationError
from headway.stats.lm.claims import CLAIMS

BASE = {
    "name": "small",
    "task": {"kind": "regression", "d_x": 2, "n_pairs": 4},
    "model": {"family": "icl", "n_heads": 2},
    "training": {"optimizer": "sgd", "learning_rate": 0.1, "batch_size": 4, "steps": 10},
    "arms": {"one": {"model": {"n_heads": 1}}, "two": None},
    "controls": {"noisy": {"task": {"noise_variance": 0.5}}, "long": {"training": {"steps": 99}}},
    "scales": {
        "laptop": {"training": {"steps": 5}, "arms": {"one": {"training": {"steps": 7}}}},
        "paper": {"training": {"steps": 50}},
    },
    "baseline": "two",
    "seeds": 2,
}


def changed(**changes):
    return {**BASE, **changes}


def test_a_published_text_of_an_older_directory_is_a_claim():
    published = resolve(changed(published="better by 1 %")).document.published
    assert [(claim.claim, claim.compares) for claim in published] == [("better by 1 %", None)]
    assert resolve(changed(published="")).document.published == ()


@pytest.mark.parametrize("name", shipped())
def test_every_shipped_experiment_has_claims_on_comparisons_that_it_makes(name):
    document = load(name).document
    assert document.published
    for published in document.published:
        asked = published.compares
        if published.says is None:
            assert asked is None or asked in {statement.name for statement in CLAIMS}, asked
        else:
            assert asked in document.contrasts or set(asked.split(" - ")) <= set(document.arms), asked


def steps(experiment, arm):
    return experiment.arm(arm).resolved_spec.training.steps


def test_the_document_of_a_results_directory_is_an_experiment_like_any_other(tmp_path):
    path = tmp_path / "experiment.yaml"
    stored = {**load("icl-heads").plain(), "headway": {"versions": {"headway": "0.1.0"}}}
    path.write_text(write_yaml(stored))
    assert load(path).dump() == load("icl-heads").dump()


@pytest.mark.parametrize(
    ("name", "scale"), [(name, scale) for name in shipped() for scale in read_file(shipped()[name]).get("scales", ())]
)
def test_every_shipped_experiment_resolves_at_every_scale(name, scale):
    experiment = load(name, scale=scale)
    assert experiment.scale == scale
    assert len({arm.resolved_spec.id for arm in experiment.selected}) == len(experiment.selected)
    labels = [arm.label for arm in experiment.arms]
    assert len(set(labels)) == len(labels)
    assert experiment.baseline in experiment.document.arms


@pytest.mark.parametrize("scale", ["laptop", "paper"])
@pytest.mark.parametrize("name", ["head-progression", "data-lane", "low-rank", "head-scaling", "gqa", "regularized"])
def test_learning_rates_are_half_and_twice_those_of_each_arm(name, scale):
    experiment = load(name, scale=scale).select(controls=["learning-rates"])
    assert {arm.control for arm in experiment.selected} == {None, "learning-rates-half", "learning-rates-double"}
    for arm in experiment.selected:
        own = experiment.arm(arm.name).resolved_spec.training
        factor = {None: 1, "learning-rates-half": 0.5, "learning-rates-double": 2}[arm.control]
        for key in ("learning_rate", "adamw_learning_rate"):
            assert getattr(arm.resolved_spec.training, key, None) == (
                factor * getattr(own, key) if hasattr(own, key) else None
            )


@pytest.mark.parametrize("scale", ["laptop", "paper"])
def test_x_rays_defects_are_chosen_alone_and_all_together(scale):
    experiment = load("x-ray", scale=scale)
    controls = experiment.document.controls
    singles = [name for name in controls if name != "as-published"]
    assert {f"as-published-{name}" for name in ("mask", "scale", "norm", "embeddings", "training", "metrics")} == set(
        singles
    )
    together = {part: {} for part in ("model", "training", "probes")}
    for name in singles:
        for part, values in controls[name].items():
            if part != "label":
                together[part] |= values
        chosen = experiment.select(arms=["heads-8"], controls=[name])
        assert [arm.control for arm in chosen.selected] == [None, name]
    assert together == {part: values for part, values in controls["as-published"].items() if part != "label"}
    chosen = experiment.select(arms=["heads-8"], controls=["as-*"])
    assert [arm.control for arm in chosen.selected] == [None, *controls]


TEXT = {
    "name": "small-text",
    "task": {"kind": "text", "corpus": "stories", "n_ctx": 8},
    "model": {"family": "gpt-neo", "d_model": 8, "n_layers": 1, "n_heads": 2},
    "training": {"optimizer": "adamw", "learning_rate": 0.1, "batch_size": 4, "steps": 10},
    "arms": {"plain": None, "quiet": {"samples": None}},
    "controls": {
        "rates-half": {"training": {"learning_rate": "x0.5"}},
        "rates-more": {"training": {"learning_rate": "x2"}},
        "silent": {"samples": None},
        "heads": {"model": {"n_heads": "x2"}},
    },
}


def test_no_samples_reach_the_run():
    experiment = resolve(TEXT)
    assert experiment.arm("plain").resolved_spec.samples is not None
    assert experiment.arm("quiet").resolved_spec.samples is None
    assert experiment.arm("plain+silent").resolved_spec.samples is None
    for nowhere in (resolve({**TEXT, "samples": None}), resolve(TEXT, settings=["samples=null"])):
        assert nowhere.arm("plain").resolved_spec.samples is None
        assert resolve(nowhere.plain()).arm("plain").resolved_spec.id == nowhere.arm("plain").resolved_spec.id
    shorter = resolve(TEXT, settings=["samples.tokens=7", "arms.quiet.samples.tokens=7"])
    assert shorter.arm("plain").resolved_spec.samples.tokens == 7


def test_parts_of_another_kind_of_task_are_errors():
    with pytest.raises(DeclarationError, match=r"probes.diversity: there is no such key"):
        resolve({**BASE, "probes": {"diversity": True}})
    with pytest.raises(DeclarationError, match=r"probes.circuits: \[1, 1000\] was given; give true or false"):
        resolve({**TEXT, "probes": {"circuits": [1, 1000]}})
    with pytest.raises(DeclarationError, match=r"samples: there is no such key"):
        resolve({**BASE, "samples": None})


def rate(experiment, arm):
    return experiment.arm(arm).resolved_spec.training.learning_rate


def test_factors_of_a_number():
    experiment = resolve(TEXT)
    assert rate(experiment, "plain+rates-half") == 0.05
    assert rate(experiment, "quiet+rates-more") == 0.2
    assert experiment.arm("plain+heads").resolved_spec.model.n_heads == 4
    assert rate(resolve(TEXT, settings=["training.learning_rate=x3"]), "plain+rates-half") == pytest.approx(0.15)
    scaled = resolve({**TEXT, "scales": {"laptop": {"training": {"steps": "x0.5"}}}})
    assert scaled.arm("plain").resolved_spec.training.steps == 5
    shortened = resolve(TEXT, settings=["training.steps=5"])
    assert scaled.arm("plain").resolved_spec.id == shortened.arm("plain").resolved_spec.id
    arms = {"plain": None, "slow": {"training": {"learning_rate": "x.1"}}}
    assert rate(resolve({**TEXT, "arms": arms}), "slow+rates-half") == pytest.approx(0.005)


def test_a_factor_of_a_whole_number_is_rounded():
    """In settings, scales and arms alike; a number that need not be whole stays as it is."""
    settings = ["training.steps=x0.5", "training.batch_size=x0.001", "training.learning_rate=x0.5"]
    training = load("icl-heads", settings=settings).arm("h2").resolved_spec.training
    assert training.steps in (250_000, 250_001)
    assert training.batch_size == 1
    assert training.learning_rate == 0.0005
    arms = {"plain": None, "short": {"training": {"steps": "x0.33"}}}
    assert resolve({**TEXT, "arms": arms}).arm("short").resolved_spec.training.steps == 3


@pytest.mark.parametrize("factor", ["x2", "x0.5", "x1e9", "x" + "9" * 500])
@pytest.mark.parametrize("base", [10**400, float("inf"), float("nan"), 1e308])
@pytest.mark.parametrize("key", ["steps", "learning_rate"])
def test_factors_of_huge_numbers_are_refused_in_words(key, base, factor):
    """Of a whole number and of another; models and tasks of regression have other keys."""
    content = changed(scales={})
    with pytest.raises(DeclarationError, match=f"training.{key}"):
        resolve({**content, "training": {**content["training"], key: base}}, settings=[f"training.{key}={factor}"])


@pytest.mark.parametrize("label", [{"x": {}}, ["x"], 3])
def test_labels_that_are_no_text_are_refused_in_words(label):
    with pytest.raises(DeclarationError, match="label"):
        resolve(changed(scales={}, arms={"one": {"label": label}, "two": {}}))


def test_factors_of_what_is_no_number():
    with pytest.raises(
        DeclarationError, match=r"training\.warmup_steps: 'x2' was given; give a whole number, such as 8"
    ):
        resolve({**TEXT, "controls": {"c": {"training": {"warmup_steps": "x2"}}}})


def test_only_learning_rates_stands_for_the_controls_that_begin_with_it():
    assert load("gqa").select(controls="learning-rates").crossed == ("learning-rates-half", "learning-rates-double")
    for name, advice in (("learning", r"did you mean learning-\*"), ("all", r"did you mean all-\*\?")):
        with pytest.raises(DeclarationError, match=rf"^there is no control '{name}'; {advice}"):
            load("head-progression").select(controls=name)
    experiment = resolve(TEXT)
    with pytest.raises(DeclarationError, match=r"^there is no control 'rates'; did you mean rates-\*"):
        experiment.select(controls=["rates"])
    chosen = experiment.select(controls=["rates-*"], arms="plain")
    assert [arm.full_name for arm in chosen.selected] == ["plain", "plain+rates-half", "plain+rates-more"]
    assert [a.full_name for a in experiment.select(controls=["rates-half"], arms=["plain"]).selected] == [
        "plain", "plain+rates-half",
    ]  # fmt: skip
    with pytest.raises(DeclarationError, match=r"no control 'rates-hal'; did you mean rates-half"):
        experiment.select(controls=["rates-hal"])


def test_a_star_stands_for_whatever_fits():
    experiment = load("head-progression")
    assert experiment.select(controls=["learning-*", "all-global"]).crossed == (
        "all-global", "learning-rates-half", "learning-rates-double",
    )  # fmt: skip
    assert experiment.select(controls="*").crossed == tuple(experiment.document.controls)
    with pytest.raises(DeclarationError, match=r"there is no control 'rates\*'; "):
        experiment.select(controls=["rates*"])


def test_arms_in_which_a_control_changes_nothing_are_not_run_under_it():
    experiment = load("data-lane").select(arms=["plain-half", "plain-full", "lane-half"])
    chosen = experiment.select(controls=["positions-outside-lane"])
    assert [arm.full_name for arm in chosen.selected] == [
        "plain-half", "plain-full", "lane-half", "lane-half+positions-outside-lane",
    ]  # fmt: skip
    assert chosen.no_op_controls == [
        "control positions-outside-lane changes nothing in plain-half, plain-full, so nothing is run under it there"
    ]
    assert experiment.no_op_controls == []
    alone = chosen.select(arms=["plain-half"])
    assert [arm.full_name for arm in alone.selected] == ["plain-half"]
    assert len(chosen.select(arms=["lane-half"]).selected) == 2, "the control is still asked for"
    assert alone.no_op_controls == [
        "control positions-outside-lane changes nothing in plain-half, so nothing is run under it there"
    ]
    assert [arm.name for arm in load("low-rank").arms if arm.is_no_op] == ["full"]


def test_many_runs_by_controls_are_told():
    experiment = load("gqa").select(arms=["kv-8", "kv-1"], seeds=3)
    assert experiment.select(controls=["learning-rates-half"]).control_runs_note == ""
    assert experiment.select(controls=["learning-rates"]).control_runs_note == (
        "18 runs are asked for: 6 without a control and 12 under learning-rates-half and learning-rates-double"
    )


def test_order_is_scale_then_set_then_arm_then_control():
    assert steps(resolve(BASE), "two") == 5
    assert steps(resolve(BASE), "one") == 7
    assert steps(resolve(BASE, scale="paper"), "one") == 50
    assert steps(resolve(BASE, scale="paper", settings=["training.steps=60"]), "one") == 60
    assert steps(resolve(BASE, scale="paper", settings=["training.steps=60"]), "one+long") == 99
    assert steps(resolve(BASE, settings=["arms.one.training.steps=8"]), "one") == 8


def test_a_setting_has_to_reach_the_arms_that_are_run_and_no_others():
    # Arm one has its own steps at this scale.
    experiment = resolve(BASE, settings=["training.steps=6"])
    chosen = experiment.select(arms=["two"])
    assert [(arm.name, arm.resolved_spec.training.steps) for arm, _ in chosen.runs] == [("two", 6), ("two", 6)]
    assert len(chosen.select(seeds=3).runs) == 3
    assert experiment.select(seeds=3).select(arms=["two"]).runs == chosen.select(seeds=3).runs
    for arms in (["one"], ["one", "two"]):
        with pytest.raises(DeclarationError, match=r"setting training.steps: arm one sets it itself, or its section"):
            experiment.select(arms=arms)
    with pytest.raises(DeclarationError, match=r"arm one sets it itself"):
        experiment.select(seeds=1).check_settings()
    with pytest.raises(DeclarationError, match=r"arm one sets it itself"):
        chosen.select(arms=["one"])
    both = resolve(BASE, settings=["training.steps=6", "arms.one.training.steps=6"])
    assert both.select(arms=["one"]).runs[0][0].resolved_spec.training.steps == 6


def test_a_setting_that_changes_nothing_is_an_error():
    with pytest.raises(
        DeclarationError, match=r"setting probes=\{\}: an empty mapping changes nothing; set a key in it"
    ):
        load("x-ray", settings=["probes={}"])


def test_a_setting_within_a_list_names_the_whole_list_which_can_be_set():
    with pytest.raises(
        DeclarationError, match=r"\n.*orthogonality.*, set .*arms\.orthogonality\.training\.regularizers=\.\.\."
    ):
        load("regularized", settings=["training.regularizers.weight=2"])


def test_a_setting_takes_effect_in_every_arm_or_is_an_error():
    arms = {"one": {"training": {"optimizer": "adam", "learning_rate": 0.1, "batch_size": 4, "steps": 10}}, "two": None}
    content = changed(scales={}, arms=arms)
    with pytest.raises(
        DeclarationError, match=r"arm one sets it itself, or its section.*arms\.one\.training\.momentum"
    ):
        resolve(content, settings=["training.momentum=0.5"]).check_settings()
    both = resolve(content, settings=["training.steps=5", "arms.one.training.steps=6"])
    assert (steps(both, "one"), steps(both, "two")) == (6, 5)
    with pytest.raises(DeclarationError, match=r"there is no arm 'onee'; did you mean one"):
        resolve(content, settings=["arms.onee.training.steps=6"])
    with pytest.raises(DeclarationError, match=r"scales\.laptop\.arms\.tow: there is no arm 'tow'; did you mean two"):
        resolve(changed(scales={"laptop": {"arms": {"tow": {}}}}))


def test_the_default_scale_is_laptop_and_names_the_directory():
    assert str(resolve(BASE).directory) == "results/small-laptop"
    assert str(resolve(changed(scales={})).directory) == "results/small"


def test_controls_cross_the_arms_only_when_asked_for():
    experiment = resolve(BASE)
    assert [a.full_name for a in experiment.selected] == ["one", "two"]
    chosen = experiment.select(controls=["noisy"])
    assert [a.full_name for a in chosen.selected] == ["one", "one+noisy", "two", "two+noisy"]
    two = experiment.select(arms=["two"])
    assert [a.full_name for a in two.selected] == ["two"]
    assert [a.full_name for a in two.select(seeds=5).selected] == ["two"]
    assert [a.full_name for a in two.select(controls=["noisy"]).select(seeds=5).selected] == ["two", "two+noisy"]


def test_a_single_text_is_one_setting_and_one_arm():
    experiment = resolve(BASE, settings="training.steps=6")
    assert experiment.settings == ("training.steps=6",)
    assert [arm.name for arm in experiment.select(arms="two").selected] == ["two"]
    with pytest.raises(DeclarationError, match=r"^there is no arm 'one,two'; did you mean "):
        experiment.select(arms="one,two")
    with pytest.raises(DeclarationError, match=r"^setting training\.steps: write it as PATH=VALUE, such as training"):
        resolve(BASE, settings="training.steps")


def test_an_arm_with_another_optimizer_is_told_what_it_has_to_say_itself():
    arms = {"one": None, "four": {"training": {"optimizer": "adam", "learning_rate": 0.1, "steps": 10}}}
    where = (
        r"^s\.yaml: arms\.four\.training\.batch_size \(with another optimizer, nothing of training is taken over\): "
    )
    for settings in ((), ["training.steps=5"], ["training.momentum=0.3"]):
        with pytest.raises(DeclarationError, match=where + r"missing; give it a value$"):
            resolve(changed(scales={}, baseline="one", arms=arms), settings=settings, source="s.yaml")


def test_a_setting_that_an_optimizer_lacks_blames_no_arm():
    adam = {"optimizer": "adam", "learning_rate": 0.1, "batch_size": 4, "steps": 10}
    for sgd in (BASE["training"], {**BASE["training"], "momentum": 0.1}):
        content = changed(scales={}, baseline="one", training=adam, arms={"one": None, "four": {"training": sgd}})
        with pytest.raises(DeclarationError, match=r"^--set training\.momentum: there is no such key; .*") as error:
            resolve(content, settings=["training.momentum=0.3"])
        said = "\nto change four, set arms.four.training.momentum=..."
        assert str(error.value).endswith(said) == ("momentum" in sgd)
        assert ("four" in str(error.value)) == ("momentum" in sgd)


def test_seeds_are_named_by_their_numbers():
    assert [parse_seeds(text) for text in ("2", "0,2,", "1-3, 7,7")] == [(2,), (0, 2), (1, 2, 3, 7)]
    for text in ("", "x", "-1", "3-1", "1-", "0.5", "0-99999999"):
        with pytest.raises(
            DeclarationError, match=r"^seeds .*: give the seeds by their numbers, such as 2, 0,2 or 0-2"
        ):
            parse_seeds(text)


def test_seeds_add_and_never_renumber():
    experiment = resolve(BASE)
    assert experiment.seeds == (0, 1)
    assert experiment.select(seeds=4).seeds == (0, 1, 2, 3)
    assert experiment.select(seeds=[3, 5]).seeds == (3, 5)
    two, four = (
        dict.fromkeys((a.full_name, s, a.spec(s).id) for a, s in experiment.select(seeds=n).runs) for n in (2, 4)
    )
    assert set(two) <= set(four)


def test_differences_name_the_keys_that_results_depend_on():
    experiment = resolve(BASE)
    other = resolve(BASE, settings=["task.d_x=3", "question=Why?", "seeds=9", "logging.every=5"])
    assert other.differences(experiment) == ["task.d_x"]
    assert experiment.differences(other) == ["task.d_x"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"arm": {}}, "arm: there is no such key; did you mean arms"),
        ({"arms": {}}, "an experiment needs at least one arm"),
        ({"baseline": "tow"}, "baseline: there is no arm 'tow'; did you mean two"),
        ({"arms": {"a b": {}}}, "name 'a b' becomes part of a path"),
        ({"arms": {"one": {"modle": {}}, "two": {}}}, "arms.one.modle: there is no such key; did you mean model"),
        (
            {"arms": {"one": {"model": {"n_haeds": 2}}, "two": {}}},
            r"arms\.one\.model\.n_haeds: .* did you mean n_heads",
        ),
        ({"controls": {"c": {"task": {"d_x": 0}}}}, r"controls\.c\.task\.d_x: 0 was given"),
        ({"task": {"kind": "regresion"}}, "task.kind: 'regresion' is not known; did you mean regression"),
        ({"training": {"optimizer": "sgd"}}, "arm one: training.batch_size: missing"),
        ({"seeds": 10**20}, "seeds: 100000000000000000000 was given; give a number of at most 10000"),
        ({"arms": {"one": {"label": "x"}, "two": {"label": "x"}}}, "two arms have the label 'x'"),
        (
            {"groups": {"g": {"arms": ["one"], "baseline": "two"}}},
            "groups.g.baseline: 'two' is not an arm of the group",
        ),
        ({"seeds": [1, 1]}, "must be one or more different numbers"),
        ({"published": [{"claim": "a", "says": "better"}]}, "says needs compares"),
        ({"published": [{"claim": "a", "says": "beter"}]}, "says: 'beter' is not known; did you mean better"),
        ({"groups": {"g": {"arms": ["one"], "baseline": "onee"}}}, "groups.g.baseline: there is no arm 'onee'"),
        (
            {"model": {"family": "icl", "n_heads": "two"}},
            "model.n_heads: 'two' was given; give a whole number, such as 8",
        ),
    ],
)
def test_wrong_documents_get_errors_that_teach(changes, message):
    with pytest.raises(DeclarationError, match=message):
        resolve({**BASE, "scales": {}, **changes})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("name=other", "cannot be set"),
        ("training.steps=0", "training.steps: 0 was given; give a number greater than 0"),
        ("task.covariance={kind: power, rho: 1}", "covariance of x singular"),
        ("task.covariance={kind: matrix, rows: [[1, 1], [1, 1]]}", "singular or indefinite"),
        ("task.covariance={kind: matrix, rows: [[1, 2], [0, 1]]}", "not symmetric"),
        ("task.covariance={kind: matrix, rows: [[1]]}", "covariance has 1 rows but d_x is 2"),
        ("task.reads=[[0, 5]]", "must name one or more different coordinates"),
        ("model.init=oppo_small_id", "n_heads is 1, which is odd; take 2 heads"),
        ("model.n_out=3", "model.n_out is 3 but task.d_y is 1"),
        ("training.learning_rate=.nan", "finite number"),
    ],
)
def test_wrong_settings_get_errors_that_teach(settings, message):
    with pytest.raises(DeclarationError, match=message):
        resolve(changed(scales={}), settings=[settings])


def test_unknown_names_are_answered_with_near_ones(tmp_path):
    with pytest.raises(DeclarationError, match=r"no experiment 'icl-hed'; did you mean icl-heads"):
        load("icl-hed")
    with pytest.raises(DeclarationError, match="no such file"):
        load(tmp_path / "mine.yaml")
    with pytest.raises(DeclarationError, match=r"no scale 'lap'; did you mean laptop"):
        resolve(BASE, scale="lap")
    with pytest.raises(DeclarationError, match=r"no arm 'on'; did you mean one"):
        resolve(BASE).select(arms=["on"])
    with pytest.raises(DeclarationError, match="no arm was chosen"):
        resolve(BASE).select(arms=[])
    for seeds in ("2", 1.5, [], [-1], [0, 0], 10**20, [2**64]):
        with pytest.raises(DeclarationError, match="give how many"):
            resolve(BASE).select(seeds=seeds)
    with pytest.raises(DeclarationError, match="None is neither"):
        load(None)
    with pytest.raises(DeclarationError, match=r"no control 'noise'; did you mean noisy"):
        resolve(BASE).select(controls=["noise"])


def test_a_file_that_is_no_experiment(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("- 1\n- 2\n")
    with pytest.raises(DeclarationError, match="holds list, not a mapping"):
        load(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DeclarationError, match="cannot be read as a text file"):
        load(path)


def test_the_length_given_last_replaces_the_others():
    for unit, value in (("steps", 30), ("epochs", 0.5), ("tokens", 2_000)):
        training = load("head-progression", settings=[f"training.{unit}={value}"]).arms[0].resolved_spec.training
        lengths = {"steps": training.steps, "tokens": training.tokens, "epochs": training.epochs}
        assert {key: length for key, length in lengths.items() if length is not None} == {unit: value}


def test_a_setting_that_a_later_one_replaces_is_refused():
    with pytest.raises(DeclarationError, match=r"training.steps: a later setting replaces it, or its whole section"):
        load("head-progression", settings=["training.steps=30", "training.optimizer=adamw"])
    with pytest.raises(DeclarationError, match=r"setting training.steps: a later setting replaces it"):
        load("head-progression", settings=["training.steps=30", "training.tokens=2000"])


def test_controls_that_a_setting_does_not_reach_are_named():
    parts = {"training": {"optimizer": "muon", "learning_rate": 0.02, "steps": 10}, "model": {"d_model": 64}}
    controls = {
        "half": {"training": {"learning_rate": "x0.5"}},
        "adam": {"training": {"optimizer": "adamw", "learning_rate": 0.1}},
        "wide": {"model": {"d_model": 128}},
    }
    said = list(
        ignored_by_controls(["training.learning_rate=0.02", "training.steps=10", "model.d_model=64"], parts, controls)
    )
    assert said == [
        "setting training.learning_rate does not reach control adam, which has 0.1; "
        "set controls.adam.training.learning_rate=... too",
        "setting training.steps does not reach control adam, which sets the section that it is a part of; "
        "set controls.adam.training.steps=... too",
        "setting model.d_model does not reach control wide, which has 128; set controls.wide.model.d_model=... too",
    ]
    asked = load("x-ray", settings=["training.steps=10"])
    assert asked.ignored_settings == []
    assert asked.select(controls="as-published-training").ignored_settings == [
        "setting training.steps does not reach control as-published-training, which has 3000; "
        "set controls.as-published-training.training.steps=... too"
    ]
    assert not list(
        ignored_by_controls(["model.d_model=64", "controls.wide.model.d_model=64"], parts, {"wide": controls["wide"]})
    )


@pytest.mark.parametrize("key", ["arms", "task", "model", "training", "evaluation"])
@pytest.mark.parametrize("base", [BASE, TEXT], ids=["regression", "text"])
def test_mappings_that_a_scale_makes_something_else_are_refused_in_words(base, key):
    for value in (3, None, "h1", ["h1"], [], 0.5, True):
        with pytest.raises(DeclarationError, match=rf"scales\.laptop\.{key}: .* was given; write a mapping"):
            resolve({**base, "scales": {"laptop": {key: value}}})


@pytest.mark.parametrize("name", shipped())
def test_documents_of_before_ask_for_the_statements_of_the_shipped_experiment(name, tmp_path):
    shown = {key: value for key, value in load(name).plain().items() if key != "statements"}
    (tmp_path / "experiment.yaml").write_text(write_yaml(shown))
    asked = bool(read_file(shipped()[name]).get("statements", False))
    again, experiment = read_resolved(tmp_path / "experiment.yaml"), load(name)
    assert again.statements == experiment.statements == asked
    assert experiment.name == name
    assert experiment.question.endswith("?")
    assert again.differences(experiment) == []
    assert [a.resolved_spec.id for a in again.arms] == [a.resolved_spec.id for a in experiment.arms]


def test_many_arms_that_set_it_themselves_are_listed_once():
    with pytest.raises(DeclarationError) as found:
        load("heads-for-parity", settings=["task.n_bits=20"]).check_settings()
    assert str(found.value).count("n3-h2") == 1
    assert str(found.value).endswith("set arms.ARM.task.n_bits=... for each of these arms too")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"arms": {"ONE": {"label": "a"}, "one": {"label": "b"}}, "baseline": None},
            "arms.one: arms ONE and one",
        ),
        ({"controls": {"Fast": {}, "fAST": {}}}, "controls.fAST: controls Fast and fAST"),
    ],
)
def test_names_that_share_a_folder_where_case_is_ignored_are_refused(changed, said):
    content = {**load("icl-heads").plain(), **changed}
    with pytest.raises(DeclarationError, match=f"{said} differ only in capital letters, and share a folder on file"):
        resolve(content)


@pytest.mark.parametrize("name", ["one.", "one ", "é", "e\u0301", "ONE/one", "..", "con:"])
def test_other_names_that_a_file_system_may_change_are_no_names(name):
    with pytest.raises(DeclarationError, match="becomes part of a path; use letters, digits, dashes and underscores"):
        resolve({**load("icl-heads").plain(), "arms": {name: {}}, "baseline": None})


def test_a_directory_that_has_such_names_is_still_read(tmp_path):
    content = {**load("icl-heads").plain(), "arms": {"ONE": {"label": "a"}, "one": {"label": "b"}}, "baseline": None}
    (tmp_path / "experiment.yaml").write_text(write_yaml(content))
    assert {arm.name for arm in read_resolved(tmp_path / "experiment.yaml").arms} == {"ONE", "one"}


@pytest.mark.parametrize(("key", "value"), [("verdicts", "paired"), ("prior", "results/earlier")])
def test_a_key_that_is_gone_is_an_error_in_a_file_and_a_note_in_a_stored_document(tmp_path, key, value):
    with pytest.raises(DeclarationError, match=rf"^{key}: there is no such key any more; leave it out: [^\n]+$"):
        load(changed(**{key: value}))
    with pytest.raises(DeclarationError, match=rf"^--set {key}: there is no such key any more; leave it out: [^\n]+$"):
        load(BASE, settings=f"{key}={value}")
    path = tmp_path / "experiment.yaml"
    path.write_text(load(BASE).dump() + f"{key}: {value}\n")
    assert read_resolved(path).dump() == load(BASE).dump()
    assert read_resolved(path).removed_keys == (key,)
    path.write_text(load(BASE).dump() + f"{key}: []\n")
    assert read_resolved(path).removed_keys == ()


ON_TEXT = [name for name in shipped() if read_file(shipped()[name])["task"].get("kind") == "text"]


@pytest.mark.parametrize("name", ON_TEXT)
def test_every_experiment_on_text_has_a_quick_scale(name):
    """It is the laptop scale with a short training: the same arms, each of them trained for fewer steps."""
    quick, laptop = load(name, scale="quick"), load(name)
    assert quick.directory.name == f"{name}-quick"
    for mine, theirs in zip(quick.selected, laptop.selected, strict=True):
        steps = mine.resolved_spec.declared_steps, theirs.resolved_spec.declared_steps
        assert mine.full_name == theirs.full_name
        assert steps[0] == steps[1] == 0 or steps[0] < 0.65 * steps[1], mine.full_name
        assert mine.resolved_spec.model == theirs.resolved_spec.model


def test_lengths_of_a_curve_differ_and_the_tasks_own_is_among_them():
    run = load("icl-heads").arm("h8").spec(4)
    lengths = run.evaluation.curve.grid(run.task.n_pairs)
    assert (lengths[0], lengths[-1], run.task.n_pairs in lengths) == (1, 500, True)
    assert 38 <= len(set(lengths)) == len(lengths) <= 42
