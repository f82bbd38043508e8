"""Laws of what plugins register: Headway's own things keep them, and each way to break one gets its sentence."""

import json
import os
import subprocess
import sys
from typing import ClassVar

import numpy as np
import pytest
import torch
from support.own_code import DOCUMENT, ECHO
from support.own_code import write as write

import headway
from headway import api, check
from headway.check import check as check_check
from headway.config.head_metrics import HEAD_METRICS, REPEATED
from headway.config.lm.model import OWN_ATTENTIONS
from headway.config.lm.tasks import TASKS
from headway.config.metrics import METRICS
from headway.config.spec import parse
from headway.data.batch import Batch, open_examples
from headway.data.synthetic import OwnTask, examples_of
from headway.data.task_laws import broken
from headway.errors import UserError
from headway.execute.costs import costs, foreseen
from headway.heads.measure import measure
from headway.heads.regularizers import TERMS

OWN = "import random as r\nimport numpy as np, torch\nfrom headway import own\n"
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
    assert list(broken(task, open_examples(task))) == []


def test_headways_own_metrics_of_heads_keep_the_laws():
    trace = check.traced()
    for name, declared in HEAD_METRICS.items():
        if declared.family != "circuits" and name not in REPEATED:
            if not name.endswith("_published"):  # which has no heads
                assert [*check.of_other_order(name, trace)] == [], name
            scores = measure(trace, [name])[name]
            assert [*check.out_of_range(declared, scores)] == [], name


@pytest.mark.parametrize("name", TERMS)
def test_headways_own_regularisers_keep_the_laws(name):
    term = TERMS[name]
    assert list(check.regularizer(lambda of: term.measure(of.attention))) == []


def test_the_usual_attention_keeps_the_laws(monkeypatch):
    monkeypatch.setitem(OWN_ATTENTIONS, "usual", lambda scores: scores)
    assert list(check.attention("usual")) == []


def test_rounding_of_sharp_weights_breaks_no_law(monkeypatch):
    def sharp(scores):
        seen = torch.isfinite(scores)
        kept = scores.masked_fill(~seen, 0)
        return torch.where(seen, kept * kept.sum(-1, keepdim=True), -torch.inf)

    monkeypatch.setitem(OWN_ATTENTIONS, "sharp", sharp)
    assert list(check.attention("sharp")) == []


def sentences(write, code):
    write(code)
    return [said for held in check_check("mine.py") for said in held.broken]


def echo(before, after):
    assert before in ECHO
    return ECHO.replace(before, after)


def test_what_keeps_the_laws_says_so(write):
    write(ECHO + "\n@own.callback\ndef log(run, line): pass\n@own.figure(title='T')\ndef mine(material): pass\n")
    held = check_check("mine.py")
    assert [each.sentence.partition(";")[0] for each in held] == [
        "task echo: all laws hold",
        "callback log: all laws hold",
        "figure mine: not tried",
    ]
    assert "echo" not in TASKS


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
    (echo("random.integers(5", "random.integers(9"), "and vocab_size is 5: they are 0 to 4; make them fit"),
    (echo("size=(n, self.length)", "size=(n, 4)"), "inputs have the shape (512, 4), and (n, n_ctx) is (512, 6)"),
    (echo("targets[:, 0] = own.MASKED", "targets = targets[:, 1:]"), "targets have the shape (512, 5)"),
    (echo("targets[:, 0]", "targets[:]"), "nothing is asked: every target is -1; put answers where they are asked"),
    (
        echo("return own.Batch(inputs=inputs, targets=targets)", "return inputs"),
        "draw gave a ndarray; give a Batch(",
    ),
    (echo("inputs=inputs,", "inputs=inputs.astype('int32'),"), "inputs are int32; give a numpy array of int64"),
    (
        echo("targets=targets", "targets=targets.astype('float32')"),
        "targets are float32, and its loss is loss_nats",
    ),
    (echo("    copies = True\n", ""), "at position 1 follows from the input at position 0 alone, and so do the"),
    (echo("np.roll(inputs, 1, axis=1)", "inputs.copy()"), "follows from the input there alone, whatever else"),
    (
        echo("np.roll(inputs, 1, axis=1)", "np.where(random.random(inputs.shape) < 0.9, inputs, (inputs + 1) % 5)"),
        "follows from the input there alone in 9",
    ),
    (echo("= random", "= nothing"), "raised NameError: name 'nothing' is not defined; let draw(random, n)"),
    (
        echo("length: int = 6", "length: int"),
        "(length: missing; give it a value); give each of its fields a default",
    ),
    (echo("return 5", "return 'five'"), "vocab_size is 'five'; make it a whole number of 1 or more"),
    (echo("copies = True", "copies = True\n    primary = 'acuracy'"), "not measured of it; did you mean accuracy"),
    (echo("copies = True", "copies = True\n    loss = 'mae'"), "loss is 'mae'; did you mean mse?"),
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
        drawing("t = x[:, ::-1].copy(); t[:, :2] = own.MASKED; x[:, 3:] = t[:, 2:5]", "    copies = True\n"),
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
    assert sentences(write, code) == []


PROMISES = "    def best_possible(self, model): return {best}\n    def by_chance(self): return {chance}\n"
WRONG_TASKS = [
    (drawing("t = np.cumsum(x, 1) % 5; t[:, 3] = x[:, 3]"), "position 3 follows from the input there alone, whatever"),
    (drawing("t = x * 2 % 5"), "leave it out of the input, or ask nothing there (own.MASKED)"),
    (drawing("t = np.sort(x, 1); x[:, 3:] = t[:, 3:]; t[:, :3] = own.MASKED"), "position 3 follows from the input the"),
    (drawing("t = np.full(x.shape, 1)"), "at each position the answer is the same in every example, so nothing can be"),
    (
        drawing(LAST, PROMISES.format(best="0.7", chance=None)),
        "best_possible gave 0.7; let it give a mapping such as",
    ),
    (drawing(LAST, PROMISES.format(best="{'acuracy': 1}", chance=None)), "not measured; did you mean accuracy?"),
    (drawing(LAST, PROMISES.format(best="{'accuracy': 75}", chance=None)), "best_possible gave an accuracy of 75; let"),
    (drawing(LAST, PROMISES.format(best="{'accuracy': '1'}", chance=None)), "best_possible gave '1' for accuracy; let"),
    (
        drawing(LAST, PROMISES.format(best="{'accuracy': .05}", chance=None)),
        "best_possible gave an accuracy of 0.05, and whoever says the most frequent answer at each position is righ",
    ),
    (
        drawing(LAST, PROMISES.format(best="model.heads", chance=None)),
        "best_possible raised AttributeError: 'Gpt2' obj",
    ),
    (
        drawing(LAST, PROMISES.format(best="{}", chance=2)),
        "by_chance gave an accuracy of 2; let it give a share fr",
    ),
    (drawing(LAST, PROMISES.format(best="{'accuracy': .8}", chance=0.9)), "by_chance gave 0.90, and best_possible an"),
    (listing("raise ValueError('no table')"), "every() raised ValueError: no table; let every() give a Batch("),
    (listing("return x"), "every() gave a ndarray; let every() give a Batch(inputs=..., targets=...) of all inputs"),
    (listing("x, t = x[:0], t[:0]"), "every() gave no input; let every() give a Batch(inputs=..., targets=...) of all"),
    (listing("x = x.astype('int32')"), "inputs are int32; give a numpy array of int64"),
    (
        listing("np.random.shuffle(x)"),
        "every() changed a global random generator (numpy.random or torch), which others",
    ),
    (
        listing("x = np.random.default_rng().permutation(x)"),
        "every() gave other inputs the second time; list the same ones in the same order, without random numbers",
    ),
    (listing("x[3] = x[2]"), "every() lists one input with two different answers; give each input one answer"),
    (
        listing(
            more="    def draw(self, random, n):\n        self.listed.inputs[:] = random.integers(2, size=(16, 4))\n"
            "        return self.listed.rows(slice(n))\n"
        ),
        "draw changed the arrays that every() gave; let draw make arrays of its own",
    ),
    (
        listing(more=DRAWN.format(answers="1 - x.sum(1) % 2")),
        "Training draws, and evaluation takes every(); let both give one answer",
    ),
    (
        listing(more="    def draw(self, random, n): return 7\n"),
        "draw gave a int; give a Batch(inputs=..., targets=...)",
    ),
    (listing(more=DRAWN.format(answers="np.where(x.sum(1) == 4, own.MASKED, x.sum(1) % 2)")), "the answer none at"),
    (
        listing("x, t = x[:9], t[:9]", more=DRAWN.format(answers="x.sum(1) % 2")),
        "and every() does not list that input. Training draws, and evaluation takes every(); list all inputs in",
    ),
    (
        listing("x, t = (np.repeat(each, 32, 0) for each in (x, t))", more=DRAWN.format(answers="1 - x.sum(1) % 2")),
        "draw() gives the input [",
    ),
    (drawing("self.table = t = x"), "raised ValidationError: table: Instance is frozen; let draw(random, n) give n of"),
    (drawing(LAST, "    by_chance = 0.5\n"), "make anything else a method, a property or a cached_property"),
    (
        drawing(LAST, "    model_config = ConfigDict(arbitrary_types_allowed=True)\n    table: np.ndarray = None\n"),
        "cannot stand in a YAML file as it is; make a list a tuple[int, ...], and an array or a set a cached_property",
    ),
    (
        drawing(LAST, "    table: list[int] = [1]\n"),
        "its field table cannot stand in a YAML file as it is; make a list",
    ),
]


OF_HEADS = "@own.head_metric(sentence='s', high='h', unit='0 to 1', null={null})\ndef mine(of): return {value}\n"
TERM = "@own.regularizer(better='low')\ndef mine(of): return {value}\n"
OF_RUNS = "@own.run_metric(sentence='s')\ndef mine(model, batches): {value}\n"
ATTENTION = "@own.attention\ndef mine(scores): return {value}\n"


OTHERS_THAT_BREAK = [
    (
        OF_HEADS.format(value="torch.ones(3)", null=0),
        "of 2 heads it gave (3,), and a metric of='head' gives a tensor",
    ),
    (OF_HEADS.format(value="3.0", null=0), "it gave float, and a metric of='head' gives a tensor of shape (3,)"),
    (
        OF_HEADS.format(value="torch.zeros(of.n_heads)", null=2.0),
        "its null reach from 2 to 2, and its unit says 0 to",
    ),
    (
        OF_HEADS.format(value="2 * torch.ones(of.n_heads)", null=0),
        "its values reach from 2 to 2, and its unit says",
    ),
    (OF_HEADS.format(value="torch.ones(of.n_heads) / 0", null=0), "its values are not finite"),
    (
        OF_HEADS.format(value="torch.rand(of.n_heads)", null=0),
        "measuring an attention changed a global random gen",
    ),
    (
        OF_HEADS.format(value="torch.arange(of.n_heads) / 9", null=0),
        "heads in another order did not have their scor",
    ),
    (
        OF_HEADS.format(value="of.nothing", null=0),
        "AttributeError: 'MaskedAttention' object has no attribute 'nothing'",
    ),
    (TERM.format(value="of.attention.z.mean(0)"), "it gave a tensor of shape (3, 12, 8); give one number"),
    (TERM.format(value="of.attention.z.mean().item()"), "of an attention it gave float; give one number"),
    (
        TERM.format(value="of.attention.z.mean().detach()"),
        "no gradient comes back from it to queries, keys, values",
    ),
    (TERM.format(value="(of.attention.z * 0).sum().sqrt()"), "its gradient is not finite"),
    (TERM.format(value="of.attention.z.mean() / 0"), "it is not finite; see that nothing is divided by 0"),
    (OF_RUNS.format(value="return 'much'"), "ValueError: could not convert string to float"),
    (OF_RUNS.format(value="return r.random()"), "gave something else the second time; make it a function"),
    (OF_RUNS.format(value="return float('nan')"), "it gave nan; give a finite number"),
    (
        OF_RUNS.format(value="next(model.parameters()).mul_(0); return 1.0"),
        "it changed the model's weights; leave the model as it is",
    ),
    (
        ATTENTION.format(value="torch.nan_to_num(scores, neginf=0.0)"),
        "keys that a query does not see must keep -inf",
    ),
    (
        ATTENTION.format(value="scores.mean(3)"),
        "of scores (2, 3, 6, 6) it gave (2, 3, 6); give one for each query",
    ),
    (ATTENTION.format(value="scores.detach()"), "no gradient comes back to layers.0.attention.q.weight"),
    (
        ATTENTION.format(value="scores - scores.masked_fill(scores == -torch.inf, 0).roll(-1, 2)"),
        "later tokens change what is said before them",
    ),
    (
        "@own.callback\ndef mine(line): pass\n",
        "it cannot be called with a run and a line (too many positional arg",
    ),
    (
        "@own.corpus\ndef mine(): return [np.array([r.randint(0, 5) for _ in range(40)])]\n",
        "gave something else the second time",
    ),
    (
        "@own.corpus\ndef mine(): return [np.array([0.5])]\n",
        "document 0 is float64 of shape (1,), where it is a row of",
    ),
    ("@own.corpus\ndef mine(): return []\n", "it gave no document; give an array of token ids for each"),
    (
        "own.family('mine', base='gpt-2', mlp='many')\n",
        "with two layers of two heads it is no model: mlp: 'many' is",
    ),
]
BREAKING = [*TASKS_THAT_BREAK, *WRONG_TASKS, *OTHERS_THAT_BREAK]
SCRIPT = """
import json, pathlib, sys
from headway.check import check
print(json.dumps([[said for held in check(file) for said in held.broken] for file in sys.argv[1:]]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What is said of each, in a process in which no shapes are checked, as users have it."""
    folder = tmp_path_factory.mktemp("breaking")
    files = [folder / f"own{number}.py" for number in range(len(BREAKING))]
    for file, (code, _) in zip(files, BREAKING, strict=True):
        file.write_text(code if "import own" in code else OWN + code)
    environment = {**os.environ, "HEADWAY_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, files)], capture_output=True, text=True, check=True, env=environment
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("number", range(len(BREAKING)), ids=lambda number: BREAKING[number][1][:40])
def test_what_breaks_a_law_is_told(number, found):
    assert any(BREAKING[number][1] in sentence for sentence in found[number]), found[number]


def test_what_cannot_be_loaded_is_a_sentence_too(write):
    assert sentences(write, "1 / 0\n") == [
        "plugin mine.py: it cannot be imported: ZeroDivisionError in line 1: division by zero; put that right"
    ]


def test_what_an_error_of_headways_says_stands_alone(write):
    code = "from headway.errors import UserError\nraise UserError('no file x.npy; give its path')\n"
    assert sentences(write, code) == ["plugin mine.py: no file x.npy; give its path (line 2)"]


def test_a_task_of_numbers_that_gives_the_answer_away(write):
    code = OWN + (
        "from typing import Literal\n"
        "@own.task\nclass Sum(own.Task):\n    kind: Literal['sum']\n    loss = 'mse'\n    primary = 'nmse'\n"
        "    n_ctx = property(lambda self: 5)\n    vocab_size = property(lambda self: 2)\n"
        "    n_answers = property(lambda self: 1)\n"
        "    def draw(self, random, n):\n        x = random.standard_normal((n, 4, 2), dtype='float32')\n"
        "        y = np.full((n, 5, 1), np.nan, 'float32')\n        y[:, -1, 0] = x[:, 2, 1]\n"
        "        return own.Batch(inputs=x, targets=y)\n"
    )
    assert sentences(write, code) == [
        "a number of the input is the answer in every example: it leaks; leave it out of the input"
    ]
    assert sentences(write, code.replace("x[:, 2, 1]", "x.sum((1, 2))")) == []
    often = code.replace("x[:, 2, 1]", "np.where(random.random(n) < 0.9, x[:, 2, 1], 0)")
    (said,) = sentences(write, often)
    assert said.startswith("a number of the input is the answer in 9")


def test_primary_may_be_a_metric_of_the_same_plugin(write):
    code = echo("copies = True", "copies = True\n    primary = 'mine'") + OF_RUNS.format(value="return 1.0")
    assert any("of which nobody knows where it is better" in said for said in sentences(write, code))
    better = code.replace("run_metric(", "run_metric(better='higher', ")
    assert sentences(write, better) == []
    assert "mine" not in METRICS


def test_tasks_are_tried_with_all_inputs_too(write):
    code = echo(
        "    def draw",
        "    def every(self):\n        inputs = np.ascontiguousarray(np.indices((5,) * 6).reshape(6, -1).T)\n"
        "        targets = np.roll(inputs, 1, axis=1)\n        targets[:, 0] = own.MASKED\n"
        "        return own.Batch(inputs=inputs, targets=targets)\n\n    def draw",
    )
    write(code)
    assert [each.broken for each in check_check("mine.py")] == [()]


def test_the_laws_of_a_task_are_held_before_it_is_trained_on(write):
    class Silent(OwnTask):
        kind: str = "silent"
        n_ctx: ClassVar[int] = 3
        vocab_size: ClassVar[int] = 3

        def draw(self, random, n):
            inputs = random.integers(3, size=(n, 3))
            return Batch(inputs=inputs, targets=np.full((n, 3), -1))

    assert examples_of(Silent()).vocab_size == 3
    with pytest.raises(UserError, match=r"task.kind silent: nothing is asked: every target is -1"):
        open_examples(Silent())


def test_a_task_that_breaks_a_law_is_refused_before_anything_is_made(write, tmp_path):
    write(echo("np.roll(inputs, 1, axis=1)", "inputs.copy()"))
    with pytest.raises(UserError, match=r"task.kind echo: the answer that is asked at position 1 follows from"):
        api.prepare(headway.load(DOCUMENT), tmp_path / "results", ())
    assert not (tmp_path / "results").exists()


def test_arms_of_a_task_with_arrays_of_its_own_are_prepared_and_planned_side_by_side(write, tmp_path):
    more = "    names: dict[str, int] = {'a': 1}\n    @cached_property\n    def table(self): return np.arange(2)\n"
    write(listing(last="self.table[x.sum(1) % 2]", more=more))
    experiment = headway.load({**DOCUMENT, "task": {"kind": "mine"}})
    first, other = (arm.template.task for arm in experiment.arms)
    assert (first.listed.inputs == other.listed.inputs).all()
    assert first.table is not other.table
    assert first == other
    assert hash(first) == hash(other)
    assert [run.status for run in api.prepare(experiment, tmp_path / "results", ())[1]] == ["waiting", "waiting"]
    assert len(costs(experiment, trial=False)) == 2
    assert foreseen(experiment) == ()
