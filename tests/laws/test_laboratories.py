"""Laws of the laboratories: each kind of task has every slice, and nobody else asks which kind a run is."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.house import modules

import headway.report.experiment.laboratory
import headway.stats.laboratory
import headway.train.loop
from headway.config.kinds import LABORATORY_PARTS, part_of, run_kinds
from headway.config.lm.run import TASKS
from headway.config.run import RunSpec, Task, imported
from headway.train.lm.evaluate import Judge

WITH_A_LABORATORY = {
    "train": headway.train.loop.TrainingPart,
    "findings": headway.stats.laboratory.FindingsPart,
    "report": headway.report.experiment.laboratory.ReportPart,
}


@pytest.mark.parametrize("kind", run_kinds())
@pytest.mark.parametrize("room", WITH_A_LABORATORY)
def test_every_kind_of_task_has_its_part_in_every_room(kind, room):
    assert isinstance(part_of(run_kinds()[kind], room), WITH_A_LABORATORY[room])


def test_the_table_of_parts_lists_every_laboratory_and_no_other():
    assert {run.traits.laboratory for run in run_kinds().values()} == set(LABORATORY_PARTS)


@pytest.mark.parametrize("kind", TASKS)
def test_every_task_on_tokens_names_its_parts(kind):
    task = TASKS[kind]
    assert task.model_fields["kind"].annotation.__args__ == (kind,)
    assert callable(imported(task.examples))
    assert issubclass(imported(task.judge), Judge)
    assert callable(imported(task.baselines))
    assert bool(task.preflight) == (kind == "text")
    assert not task.preflight or callable(imported(task.preflight))


@pytest.mark.slow
def test_nobody_outside_the_slices_asks_which_kind_a_run_is():
    asking = {
        module.place
        for module in modules()
        if not module.in_slice and module.place != "config/kinds.py" and any(questions(module.tree))
    }
    assert not asking


def kinds_of_runs() -> set[str]:
    """The names of the types that tell kinds of runs and tasks apart."""
    types = [RunSpec, Task]
    for each in types:
        types.extend(each.__subclasses__())
    own = {each.__name__ for each in types if each.__module__.startswith("headway.")}
    return {*own, "AnyTask"} - {"RunSpec", "Task"}


def questions(tree: ast.AST) -> Iterator[str]:
    """What asks for the kind of a run: by type, by the key or the member `kind`, by the laboratory's name."""
    types = kinds_of_runs()
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("isinstance" | "issubclass"), args=[_, asked]):
                if types & {named(part) for part in ast.walk(asked)}:
                    yield ast.unparse(node)
            case ast.MatchClass(cls=asked) if named(asked) in types:
                yield ast.unparse(node)
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(type_of(side) or laboratory_or_kind(side) for side in sides):
                    yield ast.unparse(node)
            case ast.Match(subject=subject) if laboratory_or_kind(subject):
                yield ast.unparse(node)
            case ast.Subscript(slice=ast.Constant("kind"), ctx=ast.Load()):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant("kind"), *_]):
                yield ast.unparse(node)


def named(node: ast.AST) -> str:
    """The last word of a name such as `run.TokensRun`."""
    return ast.unparse(node).rpartition(".")[2] if isinstance(node, ast.Name | ast.Attribute) else ""


def type_of(node: ast.AST) -> bool:
    """Whether it is `type(run)` or the like."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "type" and "run" in ast.unparse(node.args[0])


def laboratory_or_kind(node: ast.AST) -> bool:
    """Whether it is `run.traits.laboratory` or `run.task.kind`."""
    match node:
        case ast.Attribute(attr="laboratory"):
            return True
        case ast.Attribute(attr="kind", value=ast.Name("task") | ast.Attribute(attr="task")):
            return True
    return False


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(run.spec, TokensRun)",
        "isinstance(task, RegressionTask | TextTask)",
        "isinstance(run, (int, IclRun))",
        "isinstance(run, declared.TokensRun)",
        "run.task.kind == 'text'",
        "if spec.traits.laboratory in ('icl',): pass",
        "config['task']['kind']",
        "config.get('kind') is None",
        "type(run) is other",
        "match run:\n    case TokensRun(): pass",
        "match run.task.kind:\n    case 'text': pass",
    ],
)
def test_such_questions_are_seen_and_no_others(code):
    others = "isinstance(value, str); attention.kind == 'self'; run.task.primary == 'mse'; {'kind': 1}; run.uses_gpu"
    assert len([*questions(ast.parse(f"{others}\n{code}"))]) == 1


@pytest.mark.slow
def test_a_kind_of_task_is_added_by_its_slices_and_an_entry_in_the_table(tmp_path):
    script = Path(__file__).parents[1] / "support" / "made_up_kind.py"
    out = tmp_path / "echo"
    done = subprocess.run([sys.executable, script, out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((out / "results.json").read_text())
    losses = {run["arm"]: run["metrics"]["eval_loss_nats"] for run in results["runs"]}
    # Of eight tokens, without a head nothing is known of the token before; with one, much.
    assert losses["no-head"] == pytest.approx(results["baselines"]["guess"]["loss_nats"], rel=0.05)
    assert losses["h1"] < losses["no-head"] / 2
    assert (out / "report.html").read_text().count("nats") > 1
    assert (out / "figures" / "learning.svg").exists()
