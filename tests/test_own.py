"""What plugins register is checked when it is first used, and an error names its file and line."""

import pytest
from support.measuring import measure
from support.own_code import DOCUMENT, ECHO
from support.own_code import write as write
from support.traces import traced

import headway
from headway.config.plugins import load
from headway.errors import UserError
from headway.train.lm.study import open_study

OF_HEADS = "@own.head_metric(sentence='s', high='h', unit='0 to 1', null=0)\ndef mine(of):\n    return {value}\n"
TERM = "@own.regularizer(better='low')\ndef mine(of):\n    return {value}\n"
OF_RUNS = "@own.run_metric(sentence='s')\ndef mine(model, batches):\n    return {value}\n"
ATTENTION = "@own.attention\ndef mine(scores):\n    return {value}\n"
LINE = 1 + len((ECHO + "import random as r, torch\n").splitlines())


def of_run(write, code, changes, compile=False):
    """Train the plugin's task for a step, and judge it."""
    write(ECHO + "import random as r, torch\n" + code)
    experiment = headway.load({**DOCUMENT, **changes})
    study = open_study(experiment.arms[-1].spec(0), compile=compile, device="cpu")
    study.trainer.advance(1)
    return study.conclude()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("torch.ones(3)", "head metric mine gave (3,) of 2 heads; give a tensor of shape (2,), since it is of='head'"),
        ("3.0", "head metric mine gave float of 3 heads; give a tensor of shape (3,)"),
        ("torch.ones(of.n_heads) / 0", "head metric mine gave values that are not finite; avoid division by 0"),
        ("torch.rand(of.n_heads)", "mine changed a global random generator; take random numbers from a gen"),
        ("r.random() * torch.ones(of.n_heads)", "head metric mine gave another result the second time"),
        ("of.nothing", "head metric mine raised AttributeError: 'MaskedAttention' object has no attribute 'nothing'"),
    ],
)
def test_a_metric_of_heads(value, said, write):
    write(ECHO + "import random as r, torch\n" + OF_HEADS.format(value=value))
    load("mine.py")
    with pytest.raises(UserError) as error:
        measure(traced(), ["mine"])
    assert str(error.value).startswith(f"mine.py:{LINE + 2 if 'raised' in said else LINE}: ")
    assert said in str(error.value)


@pytest.mark.slow
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("of.attention.z.mean(0)", "regularizer mine gave (2, 6, 4); give one number as a tensor"),
        ("of.attention.z.mean().item()", "regularizer mine gave float; give one number as a tensor"),
        ("of.attention.z.mean().detach()", "no gradient comes back from regularizer mine, so it would change nothing"),
    ],
)
def test_a_regularizer(value, said, compile, write):
    regularized = {"training": {"regularizers": [{"metric": "mine"}]}, "model": {"n_heads": 2}}
    changes = {"arms": {"plain": {"model": {"n_heads": 1}}, "regularized": regularized}}
    with pytest.raises(UserError) as error:
        of_run(write, TERM.format(value=value), changes, compile)
    assert str(error.value).startswith(f"mine.py:{LINE}: {said}")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("torch.nan_to_num(scores, neginf=0.0)", "changed what a query sees; keep -inf where a score is -inf"),
        ("scores.mean(3)", "gave (1, 1, 6) of scores (1, 1, 6, 6); give one for each query and key"),
        ("scores + torch.rand(())", "changed a global random generator"),
        ("scores.nothing", "raised AttributeError: 'Tensor' object has no attribute 'nothing'; fix this error"),
    ],
)
def test_an_attention(value, said, write):
    with pytest.raises(UserError) as error:
        of_run(write, ATTENTION.format(value=value), {"model": {**DOCUMENT["model"], "attention": "mine"}})
    assert f": attention mine {said}" in str(error.value)
    assert str(error.value).startswith("mine.py:")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("'much'", "run metric mine gave 'much'; give one number"),
        ("r.random()", "run metric mine gave another result the second time; let it depend only on its arguments"),
        ("torch.rand(()) * 0", "run metric mine changed a global random generator; take random numbers from"),
    ],
)
def test_a_metric_of_runs(value, said, write):
    with pytest.raises(UserError) as error:
        of_run(write, OF_RUNS.format(value=value), {})
    assert str(error.value).startswith(f"mine.py:{LINE}: {said}")


def test_what_is_right_is_used(write):
    code = OF_RUNS.format(value="1.0") + ATTENTION.format(value="2 * scores").replace("mine", "twice")
    found = of_run(write, code, {"model": {**DOCUMENT["model"], "attention": "twice"}})
    assert found.metrics["mine"] == 1.0


def test_a_callback_takes_a_run_and_a_line(write):
    write(ECHO + "@own.callback\ndef mine(line): pass\n")
    with pytest.raises(UserError, match=r"callback mine cannot be called with a run and a line \(too many positional"):
        load("mine.py")
