"""Laws of the examples of tasks: Headway's own keep them, and a plugin's task that breaks one is refused."""

import json
import os
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
from support.own_code import DOCUMENT, ECHO
from support.own_code import write as write

import headway
from headway import api
from headway.config.lm.run import TASKS
from headway.config.plugins import load
from headway.config.spec import parse
from headway.data.batch import Batch, open_examples
from headway.data.synthetic import OwnTask, examples_of
from headway.data.task_laws import broken
from headway.errors import UserError
from headway.execute.costs import costs, preflight

OWN = "import numpy as np\nfrom headway import own\n"
KNOWN = {
    "parity": {"n_bits": 4},
    "endpoint": {"vertices": 4},
    "retrieval": {"targets": 3, "length": 5},
    "hops": {"letters": 4, "length": 20, "hops": 3},
    "recall": {"pairs": 3, "length": 16, "vocabulary": 20},
    "induction": {"letters": 5, "length": 20},
}


@pytest.mark.parametrize("kind", KNOWN)
def test_headways_own_tasks_keep_the_laws(kind):
    task = parse(TASKS[kind], {"kind": kind, **KNOWN[kind]})
    assert broken(task, open_examples(task)) == ""


def echo(before, after):
    assert before in ECHO
    return ECHO.replace(before, after)


def said_of(code, write):
    """The error with which a plugin's task is refused; empty if it is not."""
    write(code)
    try:
        (entry,) = [entry for entry in load("mine.py").entries if entry.kind == "task"]
        open_examples(parse(entry.value, {"kind": entry.name}))
    except UserError as error:
        return str(error)
    return ""


TASKS_THAT_BREAK = [
    (echo("random.integers(5", "np.random.randint(0, 5"), "changed a global random generator"),
    (
        echo("random.integers(5", "np.random.default_rng().integers(5"),
        "two draws of one seed and step gave different",
    ),
    (
        echo("random.integers(5", "np.random.default_rng(0).integers(5"),
        "another seed and step gave the same examples",
    ),
    (echo("random.integers(5", "random.integers(9"), "but vocab_size is 5; use values from 0 to 4"),
    (echo("size=(n, self.length)", "size=(n, 4)"), "inputs have the shape (512, 4), and (n, n_ctx) is (512, 6)"),
    (echo("targets[:, 0] = own.MASKED", "targets = targets[:, 1:]"), "targets have the shape (512, 5)"),
    (echo("targets[:, 0]", "targets[:]"), "no position has an answer: every target is -1; give at least one answer"),
    (
        echo("return own.Batch(inputs=inputs, targets=targets)", "return inputs"),
        "draw gave a ndarray; give a Batch(",
    ),
    (echo("inputs=inputs,", "inputs=inputs.astype('int32'),"), "inputs are int32; give a numpy array of int64"),
    (
        echo("targets=targets", "targets=targets.astype('float32')"),
        "targets are float32, but the loss is loss_nats",
    ),
    (echo("= random", "= nothing"), "raised NameError: name 'nothing' is not defined; let draw(random, n)"),
    (
        echo("length: int = 6", "length: int"),
        "length: missing; give it a value",
    ),
    (echo("return 5", "return 'five'"), "vocab_size is 'five'; make it a whole number of 1 or more"),
    (
        echo("length: int = 6", "length: int = 6\n    primary = 'acuracy'"),
        "primary is 'acuracy', which cannot rank arms; did you mean accuracy",
    ),
    (echo("length: int = 6", "length: int = 6\n    loss = 'mae'"), "loss is 'mae'; did you mean mse?"),
    (echo("def draw", "def drew"), "it has no examples; give its type a method draw(random, n), or every()"),
]


def own_task(body, sizes=(6, 5, 5)):
    """A task in a few lines: positions, tokens and answers, and its other members."""
    n_ctx, vocab_size, n_answers = sizes
    return OWN + (
        "from functools import cached_property\nfrom typing import Any, ClassVar, Literal\n"
        "from pydantic import ConfigDict, PrivateAttr\n"
        "@own.task\nclass Mine(own.Task):\n    kind: Literal['mine']\n"
        f"    n_ctx = property(lambda self: {n_ctx})\n    vocab_size = property(lambda self: {vocab_size})\n"
        f"    n_answers = property(lambda self: {n_answers})\n{body}"
    )


def drawing(lines, more="", sizes=(6, 5, 5)):
    """One that draws tokens `x` and answers `t`."""
    made = f"    def draw(self, random, n):\n        x = random.integers({sizes[1]}, size=(n, {sizes[0]}))\n"
    return own_task(f"{more}{made}        {lines}\n        return own.Batch(inputs=x, targets=t)\n", sizes)


LAST = "t = np.full(x.shape, own.MASKED); t[:, -1] = x.sum(1) % 5"


def listing(lines="", last="x.sum(1) % 2", more=""):
    return own_task(
        f"{more}    def every(self):\n        x = (np.arange(16)[:, None] >> np.arange(4)) & 1\n"
        f"        t = np.full((16, 4), own.MASKED); t[:, -1] = {last}\n        {lines}\n"
        "        return own.Batch(inputs=x, targets=t)\n",
        (4, 2, 2),
    )


DRAWN = (
    "    def draw(self, random, n):\n        x = random.integers(2, size=(n, 4)); t = np.full((n, 4), own.MASKED)\n"
    "        t[:, -1] = {answers}\n        return own.Batch(inputs=x, targets=t)\n"
)


@pytest.mark.parametrize(
    "code",
    [
        listing(more=DRAWN.format(answers="x.sum(1) % 2")),
        drawing("t = np.cumsum(1 - 2 * x, axis=1) + 6", sizes=(6, 2, 13)),
        drawing("x[:, 0] = 2; t = np.cumsum(1 - 2 * (x % 2), axis=1) + 6", sizes=(6, 3, 13)),
        drawing("t = np.maximum.accumulate(x, axis=1)"),
        drawing("t = np.cumsum(x, 1) % 5"),
        drawing("t = x[:, ::-1].copy(); t[:, :2] = own.MASKED; x[:, 3:] = t[:, 2:5]"),
        drawing(
            "t = np.full(x.shape, own.MASKED); t[:, -1] = np.where(random.random(n) < .1, 0, x.sum(1) % 5)",
            "    def best_possible(self, model): return {'accuracy': 0.95}\n    def by_chance(self): return 0.28\n",
        ),
        listing(),
        listing("x[3], t[3] = x[2], t[2]"),
        drawing(
            LAST.replace("x.sum(1) % 5", "self.table[x.sum(1) % 5]"),
            "    @cached_property\n    def table(self): return np.arange(5)[::-1]\n",
        ),
        drawing(
            LAST.replace("x.sum(1) % 5", "self._table[x.sum(1) % 5]"),
            "    _table: Any = PrivateAttr(default=None)\n"
            "    def model_post_init(self, context): self._table = np.arange(5)\n",
        ),
    ],
    ids=[
        "both agree",
        "depth",
        "depth after a mark",
        "largest so far",
        "sum",
        "reverse",
        "noise",
        "all",
        "twice",
        "table",
        "private",
    ],
)
def test_a_right_task_keeps_the_laws(code, write):
    assert said_of(code, write) == ""


PROMISES = "    def best_possible(self, model): return {best}\n    def by_chance(self): return {chance}\n"
WRONG_TASKS = [
    *(
        (
            drawing(LAST, PROMISES.format(best=best, chance=None)),
            f"best_possible gave {best}; let it give measured met",
        )
        for best in ("0.7", "{'acuracy': 1}", "{'accuracy': 75}", "{'accuracy': '1'}")
    ),
    (
        drawing(LAST, PROMISES.format(best="model.heads", chance=None)),
        "best_possible raised AttributeError: 'Gpt2' obj",
    ),
    (
        drawing(LAST, PROMISES.format(best="{}", chance=2)),
        "by_chance gave {'accuracy': 2}; let it give a share fr",
    ),
    (listing("raise ValueError('no table')"), "every() raised ValueError: no table; let every() give a Batch("),
    (listing("return x"), "every() gave a ndarray; let every() give a Batch(inputs=..., targets=...) of all inputs"),
    (listing("x, t = x[:0], t[:0]"), "every() gave no input; let every() give a Batch(inputs=..., targets=...) of all"),
    (listing("x = x.astype('int32')"), "inputs are int32; give a numpy array of int64"),
    (
        listing("x = np.random.default_rng().permutation(x)"),
        "every() gave other inputs the second time; list the same ones in the same order, without random numbers",
    ),
    (
        listing(
            more="    def draw(self, random, n):\n        self.listed.inputs[:] = random.integers(2, size=(16, 4))\n"
            "        return self.listed.rows(random.integers(16, size=n))\n"
        ),
        "draw changed the arrays that every() gave; let draw make arrays of its own",
    ),
    (
        listing(more="    def draw(self, random, n): return 7\n"),
        "draw gave a int; give a Batch(inputs=..., targets=...)",
    ),
    (drawing("self.table = t = x"), "raised ValidationError: table: Instance is frozen; let draw(random, n) give n of"),
    (drawing(LAST, "    by_chance = 0.5\n"), "make anything else a method, a property or a cached_property"),
    (
        drawing(LAST, "    model_config = ConfigDict(arbitrary_types_allowed=True)\n    table: np.ndarray = None\n"),
        "a YAML file cannot hold its field table; make a list a tuple[int, ...], and an array or a set a cached",
    ),
    (
        drawing(LAST, "    table: list[int] = [1]\n"),
        "a YAML file cannot hold its field table; make a list",
    ),
]


BREAKING = [*TASKS_THAT_BREAK, *WRONG_TASKS]
SCRIPT = """
import json, sys
from headway.config import plugins
from headway.config.spec import parse
from headway.data.batch import open_examples
from headway.errors import UserError
said = []
for file in sys.argv[1:]:
    try:
        plugin = plugins.load(file)
        open_examples(parse(plugin.entries[0].value, {"kind": plugin.entries[0].name}))
    except UserError as error:
        said.append(str(error))
    else:
        said.append("")
    for loaded in tuple(plugins._loaded.values()):
        plugins._take_back(plugins._loaded.pop(loaded.name).entries)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What is said of each, in a process in which no shapes are checked, as users have it."""
    folder = tmp_path_factory.mktemp("breaking")
    files = [folder / f"own{number}.py" for number in range(len(BREAKING))]
    for file, (code, _) in zip(files, BREAKING, strict=True):
        file.write_text(code)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, files)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HEADWAY_CACHE": str(folder / "cache")},
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(BREAKING)), ids=lambda number: BREAKING[number][1][:40])
def test_what_breaks_a_law_is_told(number, found):
    assert BREAKING[number][1] in found[number]


def test_tasks_are_tried_with_all_inputs_too(write):
    code = echo(
        "    def draw",
        "    def every(self):\n        inputs = np.ascontiguousarray(np.indices((5,) * 6).reshape(6, -1).T)\n"
        "        targets = np.roll(inputs, 1, axis=1)\n        targets[:, 0] = own.MASKED\n"
        "        return own.Batch(inputs=inputs, targets=targets)\n\n    def draw",
    )
    assert said_of(code, write) == ""


def test_the_laws_of_a_task_are_held_before_it_is_trained_on(write):
    class Silent(OwnTask):
        kind: str = "silent"
        n_ctx: ClassVar[int] = 3
        vocab_size: ClassVar[int] = 3

        def draw(self, random, n):
            inputs = random.integers(3, size=(n, 3))
            return Batch(inputs=inputs, targets=np.full((n, 3), -1))

    assert examples_of(Silent()).vocab_size == 3
    with pytest.raises(UserError, match=r"task.kind silent: no position has an answer: every target is -1"):
        open_examples(Silent())


def test_a_task_that_breaks_a_law_is_refused_before_anything_is_made(write, tmp_path):
    write(echo("targets[:, 0]", "targets[:]"))
    with pytest.raises(UserError, match=r"^mine\.py:19: task\.kind echo: no position has an answer"):
        api.prepare(headway.load(DOCUMENT), tmp_path / "results", ())
    assert not (tmp_path / "results").exists()


def test_arms_of_a_task_with_arrays_of_its_own_are_prepared_and_planned_side_by_side(write, tmp_path):
    more = "    names: dict[str, int] = {'a': 1}\n    @cached_property\n    def table(self): return np.arange(2)\n"
    write(listing(last="self.table[x.sum(1) % 2]", more=more))
    experiment = headway.load({**DOCUMENT, "task": {"kind": "mine"}})
    first, other = (arm.resolved_spec.task for arm in experiment.arms)
    assert (first.listed.inputs == other.listed.inputs).all()
    assert first.table is not other.table
    assert first == other
    assert hash(first) == hash(other)
    assert [run.status for run in api.prepare(experiment, tmp_path / "results", ())[1]] == ["waiting", "waiting"]
    assert len(costs(experiment, trial=False)) == 2
    assert preflight(experiment) == ()
