"""Experiments on training commands: what they declare, and what they may not."""

import os
import sys

import pytest
from support.commands import document

from headway.base.files import ordinary
from headway.config.load import read_resolved, resolve
from headway.config.metrics import METRICS
from headway.config.own_program import copy_to, keep
from headway.errors import DeclarationError, ResultsError


def loaded(folder, document):
    return resolve(document, folder=folder)


def test_the_values_of_an_arm_and_the_seed_are_arguments(tmp_path):
    experiment = loaded(tmp_path, document(tmp_path))
    assert [arm.spec(3).words(tmp_path)[1:] for arm in experiment.arms] == [
        ["-S", "train.py", "1", "3"],
        ["-S", "train.py", "4", "3"],
    ]
    assert experiment.primary == "val_loss"
    assert METRICS["val_loss"].better == "lower"


@pytest.mark.parametrize("shell", [False, True])
def test_no_value_is_read_by_a_shell(tmp_path, shell):
    content = document(tmp_path, run="echo {heads} {seed}" + " ${HOME}" * shell, files=[], shell=shell)
    content["arms"]["h4"]["values"]["heads"] = "$(touch made); 'x"
    words = loaded(tmp_path, content).arm("h4").spec(0).words(tmp_path)
    expected = (
        ["/bin/sh", "-c", """echo '$(touch made); '"'"'x' 0 ${HOME}"""] if shell else ["echo", "$(touch made); 'x", "0"]
    )
    assert words == expected


@pytest.mark.parametrize(
    ("value", "text"), [(0.001, "0.001"), (True, "true"), (12, "12"), ("a b", "a b"), (1e-5, "1e-05")]
)
def test_a_value_is_written_as_a_file_has_it(tmp_path, value, text):
    content = document(tmp_path)
    content["arms"]["h4"]["values"]["heads"] = value
    assert loaded(tmp_path, content).arm("h4").spec(0).words(tmp_path)[3] == text


def test_a_changed_file_is_another_run_and_a_moved_one_is_not(tmp_path):
    ids = []
    for folder, program in (("a", "print(1)"), ("b", "print(1)"), ("c", "print(2)")):
        ids.append(loaded(tmp_path / folder, document(tmp_path / folder, program)).arm("h1").spec(0).id)
    assert ids[0] == ids[1] != ids[2]


def test_arms_with_other_commands_are_compared(tmp_path):
    content = document(tmp_path)
    content["arms"]["h4"]["task"] = {"run": f"{sys.executable} train.py --more {{heads}} {{seed}}"}
    experiment = loaded(tmp_path, content)
    mine, theirs = (arm.resolved_spec.comparability for arm in experiment.arms)
    assert not mine.incomparable_reason(theirs, "val_loss")


def test_a_stored_document_is_read_back_without_the_files(tmp_path):
    experiment = loaded(tmp_path, document(tmp_path))
    (tmp_path / "train.py").unlink()
    (tmp_path / "experiment.yaml").write_text(experiment.dump())
    again = read_resolved(tmp_path / "experiment.yaml")
    assert again.arm("h4").spec(1).id == experiment.arm("h4").spec(1).id


def test_a_script_beside_the_file_is_a_program(tmp_path):
    content = document(tmp_path, "#!/bin/sh", run="./train.py {heads} {seed}", files=["./train.py"])
    experiment = loaded(tmp_path, content)
    (tmp_path / "out").mkdir()
    keep(tmp_path / "out", experiment.code)
    copy_to(tmp_path, tmp_path / "out", experiment.arm("h1").spec(0).task.files)
    assert os.access(tmp_path / "train.py", os.X_OK)


def test_a_checkpoint_of_a_command_may_be_large(tmp_path):
    folder = tmp_path / "command"
    folder.mkdir()
    with (folder / "model.pt").open("wb") as file:
        file.truncate((1 << 28) + 1)
    with ordinary(folder / "model.pt") as file:
        assert file.read(1) == b"\0"


@pytest.mark.parametrize("metric", ["eval/loss", "eval.acc@1", "потеря", "acc,none", "5 shot"])
def test_a_metric_has_the_name_that_records_give(tmp_path, metric):
    assert loaded(tmp_path, document(tmp_path, metric=metric)).primary == metric


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ({"run": "python train.py {heads}"}, "run has no {seed}, so all seeds would give one run"),
        ({"run": ""}, "run is empty"),
        ({"run": 'echo "{heads}" {seed}', "shell": True}, "leave them out: Headway quotes values"),
        ({"files": "train.py"}, "give a list, such as [train.py]"),
        ({"run": "python 'train.py {heads} {seed}"}, "close the quotes"),
        ({"run": "python train.py {heads} {layers} {seed}"}, "{layers} has no value"),
        ({"run": "python train.py {seed}"}, "values.heads: task.run has no {heads}"),
        ({"files": []}, "task.run names train.py, but each run works only on copies of task.files"),
        ({"files": ["train.py", "model.py"]}, "task.files: model.py is not there"),
        ({"files": ["../train.py"]}, "is not a path below the folder"),
        ({"files": ["/etc/passwd"]}, "is not a path below the folder"),
        ({"files": {"train.py": "abc"}}, "is no SHA-256; give files as a list of paths"),
        ({"records": "../metrics.jsonl"}, "is not a path below the folder"),
        ({"records": "loss (?P<loss"}, "is not a regular expression"),
        ({"records": r"loss (?P<loss>\S+)"}, "has no group (?P<val_loss>...)"),
        ({"records": r"loss (?P<loss>\S+)", "metric": "val/loss"}, "a group of records has no such name"),
        ({"metric": ""}, "is not a name"),
        ({"metric": "wall_s"}, "is one of Headway's counts"),
        ({"metric": "accuracy"}, "for accuracy, higher is better"),
        ({"better": "more"}, "task.better"),
        ({"timeout": 0}, "task.timeout"),
        ({"kinds": 1}, "kinds"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, task, said):
    with pytest.raises(DeclarationError) as error:
        loaded(tmp_path, document(tmp_path, **task))
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ({"values": {"seed": 1}}, "values.seed: Headway fills in {seed}"),
        ({"arms": {"h1": {"values": {"heads": [1, 2]}}, "h4": {}}}, "arms.h1.values: [1, 2] was given"),
        ({"model": {"d_model": 8}}, "model.d_model"),
        ({"training": {"steps": 8}}, "training.steps"),
        ({"evaluation": {"every": 8}}, "evaluation"),
    ],
)
def test_settings_of_another_laboratory_are_refused(tmp_path, over, said):
    with pytest.raises(DeclarationError) as error:
        loaded(tmp_path, {**document(tmp_path), **over})
    assert said in str(error.value)


def test_a_command_with_another_value_is_not_allowed(tmp_path):
    spec = loaded(tmp_path, document(tmp_path)).arms[0].resolved_spec
    spec.check_trusted(tmp_path, trust_code=True)
    name, value = next(iter(spec.values.items()))
    other = spec.model_copy(update={"values": {**spec.values, name: f"{value}1"}})
    with pytest.raises(ResultsError, match=f"{value}1.* --trust-code"):
        other.check_trusted(tmp_path, trust_code=False)


def test_values_belong_to_commands_alone():
    with pytest.raises(DeclarationError) as error:
        resolve({"name": "x", "task": {"kind": "parity"}, "values": {"a": 1}, "arms": {"a": {}}})
    assert "values" in str(error.value)
