"""A results directory: what it takes, and what it refuses."""

import json
import os
import shutil

import pytest
from support import quadratic
from support.processes import FORK, forked, joined

from headway.config.load import read_resolved, resolve
from headway.errors import ResultsError
from headway.store.directory import Store
from headway.store.run import Run


@pytest.fixture
def store(tmp_path):
    return Store.create(tmp_path / "results", quadratic.experiment())


def test_a_new_directory_holds_the_resolved_document_and_where_it_was_made(store):
    text = (store.path / "experiment.yaml").read_text()
    assert "headway:" in text
    assert "host:" in text
    assert read_resolved(store.path / "experiment.yaml").differences(quadratic.experiment()) == []
    assert Store.open(store.path).experiment.name == "quadratics"
    assert store.runs() == ()


def test_a_run_folder_holds_the_whole_configuration_and_waits(store):
    arm = store.experiment.arm("fast")
    run = store.add(arm, 1)
    assert run.path == store.path / "runs" / "fast" / "seed-1"
    content = json.loads((run.path / "run.json").read_text())
    named = {"schema": 1, "arm": "fast", "control": None, "group": None, "seed": 1, "status": "waiting", "message": ""}
    assert named.items() <= content.items()
    assert content["logging"] == {"every": 5}
    assert content["config"]["training"]["learning_rate"] == 0.1
    assert content["config"]["task"]["noise_variance"] == 0.0, "defaults are written out"
    assert run.spec == arm.spec(1)
    assert run.id == arm.spec(1).id
    assert (run.status, run.name, run.steps) == ("waiting", "fast", 60)


def test_more_arms_controls_and_seeds_of_one_document_are_taken(store):
    again = Store.create(store.path, quadratic.experiment(seeds=5, question="still?"))
    for arm, seed in again.experiment.select(controls=["long"], seeds=[3, 0]).runs:
        again.add(arm, seed)
    names = ("slow", "slow+long", "fast", "fast+long")
    assert [(run.name, run.seed) for run in store.runs()] == [(name, seed) for name in names for seed in (0, 3)]
    controlled = store.run("fast+long", 3)
    assert (controlled.arm, controlled.control, controlled.name) == ("fast", "long", "fast+long")
    assert controlled.path.parent.name == "fast+long"


def test_another_experiment_is_refused(store):
    with pytest.raises(ResultsError, match=r"another experiment: it is quadratics, and this one is others; choose"):
        Store.create(store.path, quadratic.experiment(name="others"))


def test_a_directory_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ResultsError, match=r"holds other things \(thesis.tex.* choose an empty or new directory"):
        Store.create(tmp_path, quadratic.experiment())
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
    (tmp_path / "thesis.tex").rename(tmp_path / ".hidden")
    assert Store.create(tmp_path, quadratic.experiment()).runs() == ()


@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "pipe"), (os.mkdir, "folder")])
def test_what_stands_in_the_place_of_the_document_is_named(tmp_path, make, kind):
    make(tmp_path / "experiment.yaml")
    said = rf"its experiment\.yaml is a {kind}, not a file; move that away; then `headway run` makes one"
    with pytest.raises(ResultsError, match=said):
        Store.open(tmp_path)
    with pytest.raises(ResultsError, match=said):
        Store.create(tmp_path, quadratic.experiment())


def test_a_folder_within_a_directory_names_the_directory(tmp_path):
    Store.create(tmp_path / "out", quadratic.experiment())
    folder = tmp_path / "out/runs/slow/seed-0"
    folder.mkdir(parents=True)
    with pytest.raises(ResultsError, match=r"seed-0 is not a results directory .*; give .*out, which is one$"):
        Store.open(folder)


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "results").touch()
    with pytest.raises(ResultsError, match=r"results cannot be written: File exists; choose another"):
        Store.create(tmp_path / "results", quadratic.experiment())


def test_a_folder_of_another_run_is_never_overwritten(store):
    run = store.add(store.experiment.arm("slow"), 0)
    other = quadratic.fresh_run(store.path.parent / "other", steps=70)
    content = (other.path / "run.json").read_text()
    (run.path / "run.json").write_text(content)
    with pytest.raises(ResultsError, match=rf"holds run {other.id}, and slow with seed 0 is {run.id}"):
        store.add(store.experiment.arm("slow"), 0)
    assert (run.path / "run.json").read_text() == content


@pytest.mark.parametrize("content", [None, "half: [", "name: x\narms: {}\n"])
def test_what_is_no_results_directory_is_named(tmp_path, content):
    if content is not None:
        (tmp_path / "experiment.yaml").write_text(content)
    with pytest.raises(ResultsError, match=str(tmp_path)):
        Store.open(tmp_path)
    with pytest.raises(ResultsError, match="there is no such directory"):
        Store.open(tmp_path / "nowhere")
    (tmp_path / "mine.yaml").touch()
    with pytest.raises(ResultsError, match=r"mine\.yaml is not a results directory of Headway: it is a file"):
        Store.open(tmp_path / "mine.yaml")


def test_a_store_and_a_run_print_in_a_line(store):
    assert repr(store) == f"Store('{store.path}', quadratics: no runs)"
    run = store.add(store.experiment.arm("slow"), 0)
    quadratic.train_here(store.add(store.experiment.arm("slow"), 1))
    assert repr(run) == f"Run('{run.path}', waiting)"
    assert repr(store) == f"Store('{store.path}', quadratics: 1 waiting, 1 done)"


def test_a_copied_folder_is_damaged_and_no_second_seed(store):
    run = store.add(store.experiment.arm("slow"), 0)
    for copy in ("seed-x", "seed-7"):
        shutil.copytree(run.path, run.path.parent / copy)
    shutil.copytree(run.path.parent, store.path / "runs" / "kept")
    found = {f"{run.path.parent.name}/{run.path.name}": run for run in store.runs()}
    assert [name for name, run in found.items() if run.status == "waiting"] == ["slow/seed-0"]
    assert {run.status for name, run in found.items() if name != "slow/seed-0"} == {"damaged"}
    assert [found[f"slow/{seed}"].seed for seed in ("seed-x", "seed-7")] == [-1, 7]
    assert found["kept/seed-0"].message == (
        f"{store.path}/runs/kept/seed-0: its run.json is that of slow/seed-0; rename the folder or delete it"
    )
    assert store.add(store.experiment.arm("slow"), 7).status == "damaged", "it is not overwritten"
    with pytest.raises(ResultsError, match=r"no run of arm 'slow' with seed 4; it has seeds -1, 0 and 7"):
        store.run("slow", 4)


def create_at_once(path, name, barrier, outcomes):
    barrier.wait()
    try:
        of = quadratic.experiment(name=name)
        Store.create(path, of).add(of.arm("slow"), 0)
        outcomes.put(name)
    except ResultsError:
        outcomes.put(None)


@pytest.mark.slow
def test_of_two_experiments_at_once_one_gets_the_directory(tmp_path):
    for number in range(4):
        barrier, outcomes = FORK.Barrier(4), FORK.Queue()
        path = tmp_path / str(number)
        processes = forked(create_at_once, [(path, name, barrier, outcomes) for name in ("a", "b", "a", "b")])
        got = [outcomes.get(timeout=120) for _ in processes]
        joined(processes)
        name = Store.open(path).experiment.name
        assert sorted(got, key=str) == sorted([name, name, None, None], key=str)


def test_a_done_run_is_examined_once_until_its_run_json_is_written_again(store, monkeypatch):
    quadratic.train_here(store.add(store.experiment.arm("slow"), 0))
    store.add(store.experiment.arm("slow"), 1)
    examined, examine = [], Run.examine
    monkeypatch.setattr(Run, "examine", lambda path, *how: (examined.append(path.name), examine(path, *how))[1])
    for _ in range(3):
        assert [run.status for run in store.runs()] == ["done", "waiting"]
    assert store.run("slow", 0).status == "done"
    assert sorted(examined) == ["seed-0", *["seed-1"] * 3]
    assert repr(store).endswith("quadratics: 1 done, 1 waiting)")
    assert len(examined) == 4
    path = store.path / "runs/slow/seed-0/run.json"
    content = quadratic.experiment().plain()
    Store.create(store.path, resolve({**content, "arms": {**content["arms"], "third": {}}}))
    again = store.anew()
    again.add(again.experiment.arm("third"), 0)
    examined.clear()
    assert [(run.arm, run.status) for run in again.runs()] == [
        ("slow", "done"),
        ("slow", "waiting"),
        ("third", "waiting"),
    ]
    assert len(examined) == 2, "what was examined stays known when the document is read anew"
    path.write_text(path.read_text().replace('"d_x": 2', '"d_x": 3'))
    assert again.run("slow", 0).status == store.run("slow", 0).status == "damaged"
