"""`headway plan`: parameters, time and memory, with and without a trial."""

import io
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console
from support.typed import typed

from headway import api
from headway.config.load import load
from headway.config.yaml import shipped
from headway.execute import costs as module
from headway.execute.costs import costs, preflight, remarks
from headway.report.plan import PlannedCosts
from headway.store.environment import slots


def plan(experiment, *, trial=True):
    return PlannedCosts(experiment=experiment, costs=costs(experiment, trial=trial))


def printed(*renderables, width=80):
    console = Console(width=width, color_system=None, record=True, file=io.StringIO())
    for renderable in renderables:
        console.print(renderable)
    return console.export_text()


def test_the_published_experiment_is_planned_without_a_model():
    planned = plan(load("head-progression", scale="paper"), trial=False)
    assert {cost.budget.n_parameters for cost in planned.costs} == {68_514_048}
    sentences = list(planned.sentences())
    assert "matched in parameters: all 10 arms" in sentences
    assert "matched in FLOPs: all 10 arms" in sentences
    assert list(planned.picture.counts) == ["all 10 arms"]
    assert "not timed: every arm; no trial was asked for" in sentences
    # 247,500 stories of about 206 tokens, 512 a step.
    assert planned.costs[0].steps == int(247_500 * 206 / 512)
    assert planned.costs[0].seconds is None
    assert not any("cores" in sentence for sentence in sentences)
    controlled = load("head-progression", scale="paper").select(controls=["padding-as-published"], arms="constant-low")
    assert plan(controlled, trial=False).costs[1].steps == 123_750, "the published number for padded batches"


def test_what_starts_from_what_is_drawn():
    planned = plan(load("pruned-or-scratch"), trial=False)
    drawn = printed(*planned.starts(), width=120)
    assert "dense: trained for 1,000 steps\n" in drawn
    assert "    ├── pruned: pruned by taylor to 50 %, then not trained\n" in drawn
    assert "    │   └── regrown: lost heads re-initialised, then trained for 250 steps\n" in drawn
    assert "layouts and costs of pruned arms are estimates until their runs begin" in [*planned.sentences()]
    pruned = {cost.arm.name: cost for cost in planned.costs}["pruned"]
    assert (str(pruned.run.model.layout), pruned.seconds, pruned.untimed) == (
        "4x8-4x8-4x8-4x8",
        0.0,
        "it is not trained",
    )
    assert plan(load("gqa"), trial=False).starts() == ()


def test_what_kept_weights_take_is_said():
    experiment = load("x-ray").select(arms=["heads-2", "heads-4"], seeds=3)
    planned = plan(experiment, trial=False)
    per_run = [4 * 6 * cost.budget.n_parameters / 1e6 for cost in planned.costs]
    said = f"each run stores its weights at 6 steps: {3 * sum(per_run):,.0f} MB in all (float32)"
    assert said in list(planned.sentences())
    nothing = load("x-ray", settings="logging.weights=[]").select(arms="heads-2", seeds=1)
    assert not any("stores its weights" in sentence for sentence in plan(nothing, trial=False).sentences())


def test_a_heavy_model_is_not_tried():
    planned = plan(load("head-scaling", scale="paper").select(arms=["uniform"]))
    assert planned.costs[0].steps_per_s is None
    assert "too many for a trial on a processor's core" in planned.costs[0].untimed


def test_an_epoch_of_an_unread_corpus_has_no_length():
    settings = ["training.tokens=null", "training.epochs=1", "task.corpus=nowhere.txt"]
    planned = plan(load("head-progression", settings=settings).select(arms=["constant-low"]), trial=False)
    assert planned.costs[0].steps is None
    said = "FLOPs and time are left out, since the epoch length is unknown until the corpus is read"
    assert said in list(planned.sentences())
    assert "–" in printed(*planned.tables())


def test_a_small_language_model_is_timed():
    planned = plan(load("head-progression").select(arms=["constant-low"], seeds=2))
    cost = planned.costs[0]
    assert cost.steps == 1464
    assert cost.tokens_per_s > 0
    assert cost.seconds == pytest.approx(1464 * 8 * 128 / cost.tokens_per_s)
    assert [*planned.sentences()][-2].startswith("2 runs (2 seeds) on ")
    assert [*planned.sentences()][-1].startswith("training.tokens (1,500,000 here) sets the length of a run")
    one = plan(load("icl-heads", settings=["training.steps=20"]).select(arms=["h2"], seeds=1))
    assert [*one.sentences()][-2].startswith("1 run (1 seed) on ")


def test_positions_that_are_never_trained_are_told_once_for_all_arms():
    experiment = load("head-progression", scale="paper")
    assert remarks(experiment) == (
        "1,536 of 2,048 learned positions are never trained, since task.n_ctx is 512; "
        "model.n_positions 512 would leave them out",
    )
    some = [f"arms.constant-{group}.model.n_positions=192" for group in ("low", "high")]
    assert remarks(load("head-progression", settings=some)) == (
        "constant-low and constant-high: 64 of 192 learned positions are never trained, since task.n_ctx is 128; "
        "model.n_positions 128 would leave them out",
    )
    assert remarks(load("head-progression")) == remarks(load("icl-heads")) == remarks(load("head-scaling")) == ()
    assert preflight(experiment) == (
        "not checked, and fetched from the hub when runs are made: task.corpus tinystories and task.tokenizer gpt2",
    )


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADWAY_CACHE", str(tmp_path / "cache"))


@pytest.mark.slow
def test_plan_refuses_what_run_refuses(tmp_path, cache):
    (tmp_path / "short.txt").write_text("Too short.<|endoftext|>Far too short.<|endoftext|>And this.")
    short = f"task.corpus={tmp_path}/short.txt --set task.tokenizer=bytes"
    refused = (
        ("task.corpus=nowhere.txt", "error: task.corpus nowhere.txt: there is no such file or folder"),
        (short, "error: the training text has 0 sequences of n_"),
    )
    for setting, message in refused:
        said = []
        for verb, *options in (["plan", "--no-timing"], ["run", "--out", str(tmp_path / "out")]):
            options += ["--arms", "constant-low", "--set", *setting.split(), "--set", "samples=null"]
            done = typed(verb, "head-progression", *options)
            assert done.returncode == 2
            said.append(done.stderr.splitlines()[-1])
        assert said[0].startswith(message)
        assert said[0] == said[1]
    assert not (tmp_path / "out").exists()


def test_a_book_is_planned_with_a_note_and_a_warning(tmp_path, cache):
    book = tmp_path / "book.txt"
    book.write_text("\n".join(f"This is line {n} of a book that has no end." for n in range(3_000)))
    settings = ["--set", f"task.corpus={book}", "--set", "model.n_positions=256", "--set", "task.tokenizer=bytes"]
    done = typed("plan", "head-progression", "--no-timing", "--arms", "constant-low,descending-low", *settings)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [
        "warning: 128 of 256 learned positions are never trained, since task.n_ctx is 128; "
        "model.n_positions 128 would leave them out",
        "Headway leaves out contrasts ascending-constant and descending-ascending, because some of the arms are "
        "missing, and compares the other arms",
    ]
    (note,) = (line for line in done.stdout.splitlines() if line.startswith("task.corpus"))
    assert "is one document, which is split by position: the last " in note
    settings = [setting for setting in settings if setting != "--set"]
    experiment = load("head-progression", settings=settings).select(arms=["constant-low", "descending-low"])
    told = []
    api.prepare(experiment, tmp_path / "results", slots("cpu", workers=1, runs=1), tell=told.append)
    assert told == [note]


def test_tables_and_picture_at_80_columns():
    planned, parts = plan(load("data-lane", scale="paper"), trial=False), plan(load("head-progression"), trial=False)
    parts, text = parts.tables(), printed(*planned.tables(), planned.picture)
    assert "…" not in text
    assert "plain-three-quarters" in text
    assert "46,077,120" in text
    assert re.search(r"constant-low +65\.5K +8,192 +49\.2K .* 273,024\n", printed(*parts, width=120))
    assert max(map(len, text.splitlines())) <= 80
    text = printed(*plan(load("x-ray"), trial=False).tables())
    assert "\nheads-16-dropout 16 × 6 layers " in text


@pytest.mark.slow
def test_no_trial_needs_no_torch():
    script = (
        "import sys; sys.argv = ['headway', 'plan', 'low-rank', '--no-timing']\n"
        "from headway.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "None False", done.stderr


def many(n_rates, **changed):
    """An experiment whose arms are two shapes, each at so many learning rates."""
    content = load("icl-heads", settings=["training.steps=30"]).plain()
    arms = {
        f"h{n}-r{number}": {"model": {"n_heads": n}, "training": {"learning_rate": 0.001 * (number + 1)}}
        for n in (1, 2)
        for number in range(n_rates)
    }
    return load({**content, "arms": arms, "baseline": "h1-r0", **changed})


def test_each_shape_is_timed_once(monkeypatch):
    timed, followed = [], []
    part = SimpleNamespace(trial_steps_per_s=lambda *runs: timed.append(runs[0].model.n_heads) or (6.0, 8.0))
    monkeypatch.setattr(module, "training_part_of", lambda _: part)

    def follow(arms):
        followed.extend(arms)
        return arms

    found = costs(many(5), follow=follow)
    assert timed == [1, 2]
    assert followed == ["h1-r0", "h2-r0"]
    assert {cost.steps_per_s for cost in found} == {7.0}
    assert [cost.run.training.learning_rate for cost in found[:2]] == [0.001, 0.002]


@pytest.mark.parametrize("name", [*shipped()])
def test_arms_of_one_shape_have_as_much_to_do_in_a_step(name):
    alike = {}
    for cost in costs(load(name), trial=False):
        done = cost.batch_size, dict(cost.budget.parameters), cost.budget.flops_per_example, cost.together
        assert alike.setdefault(module._timed_as(cost), done) == done


def test_choices_that_change_the_time_of_a_step_make_another_shape():
    def timed_as(*settings):
        (cost,) = costs(load("head-progression", settings=settings).select(arms="constant-low"), trial=False)
        return module._timed_as(cost)

    plain = timed_as()
    same = ["training.learning_rate=0.1", "training.tokens=50_000", "training.warmup_steps=7"]
    assert timed_as(*same) == plain
    for other in ("model.dropout=0.1", "training.batch_size=2", "training.clip=null", "task.n_ctx=64"):
        assert timed_as(other) != plain, other


def test_many_arms_share_rows_and_names():
    planned = plan(many(40), trial=False)
    text = printed(*planned.tables(), width=100)
    assert text.count("h1-r0 and 39 others") == text.count("h2-r0 and 39 others") == 2
    assert "matched in FLOPs: h1-r0 = h1-r1 = ... (40 arms); h2-r0 = h2-r1 = ... (40 arms)" in [*planned.sentences()]
    assert text.count("h1-r7") == 0
    assert "h1-r7" in printed(*plan(many(20), trial=False).tables())


def test_what_does_not_fit_into_memory_is_said_before_anything_is_run(monkeypatch):
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=23e9, available=20e9))
    large = load("head-progression", settings=["training.batch_size=100_000"]).select(arms=["constant-low"])
    found = costs(large, trial=True)
    (said,) = module.too_large(found)
    needs = r"a run of constant-low needs about \d+ GB, which do not fit into this machine's 23 GB; "
    assert re.fullmatch(rf"{needs}training.batch_size [1-9]\d+ would fit", said)
    assert re.fullmatch(r"a run needs more memory \(\d+ GB\) than is free \(20 GB\)", found[0].untimed)
    assert module.too_large(costs(many(2), trial=False)) == ()


def test_ctrl_c_says_what_there_is_to_say_of_a_plan(tmp_path):
    code = (
        "import sys; from headway import cli; from headway.execute import costs\n"
        "def interrupted(*_, **__): raise KeyboardInterrupt\n"
        "costs.training_part_of = interrupted\nsys.argv = ['headway', 'plan', 'icl-heads']\ncli.main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 130
    said = "interrupted; nothing was written, and --no-timing leaves out the longest part"
    assert done.stderr.splitlines()[-1] == said
