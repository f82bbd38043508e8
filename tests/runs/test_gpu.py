"""Several runs on one GPU: each worker sees that GPU alone, and gives the bits that it gives by itself."""

import importlib.util

import pytest

from headway.errors import UserError
from headway.runs.devices import slots
from headway.runs.places import local_places


def three_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5,7")


def seen(found) -> list[str]:
    return [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in found]


def test_a_slot_is_a_gpu_and_its_worker_sees_no_other(monkeypatch):
    three_gpus(monkeypatch)
    assert seen(slots("cuda", workers=None, runs=9)) == ["2", "5", "7"]
    assert seen(slots("cuda:1", workers=None, runs=9)) == ["5"]


def test_several_runs_share_a_gpu_when_every_one_has_a_run(monkeypatch):
    three_gpus(monkeypatch)
    assert seen(slots("cuda", workers=None, runs=9, runs_per_gpu=2)) == ["2", "5", "7", "2", "5", "7"]
    assert seen(slots("cuda", workers=4, runs=9, runs_per_gpu=2)) == ["2", "5", "7", "2"]
    assert seen(slots("cuda:0", workers=None, runs=9, runs_per_gpu=3)) == ["2", "2", "2"]


def test_on_a_processor_it_changes_nothing(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(slots("cpu", workers=2, runs=9, runs_per_gpu=8)) == 2


@pytest.mark.parametrize("n", [0, -1, 65])
def test_a_share_is_one_of_a_few(n):
    with pytest.raises(UserError, match=f"runs per GPU {n}: give 1 to 64"):
        slots("auto", workers=None, runs=1, runs_per_gpu=n)


def test_places_have_the_environment_of_their_slot(monkeypatch):
    three_gpus(monkeypatch)
    places = local_places("cuda", runs=9, runs_per_gpu=2, workers=4)
    assert seen([place.slot for place in places]) == ["2", "5", "7", "2"]


def has_gpu() -> bool:
    if importlib.util.find_spec("torch") is None:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not has_gpu(), reason="there is no GPU")
def test_runs_that_share_a_gpu_have_the_bits_of_runs_alone(tmp_path):
    import small_text

    from headway.runs.local import run_all
    from headway.runs.store import Store

    of, found = small_text.experiment(), {}
    for n in (1, 2):
        runs = Store.with_runs(tmp_path / str(n), of, of.runs)[1]
        places = local_places("cuda", runs=len(runs), runs_per_gpu=n)
        for _ in run_all(runs, places):
            pass
        done = Store.open(tmp_path / str(n)).runs()
        assert {run.status for run in done} == {"done"}
        assert all(run.execution["device"].startswith("cuda") for run in done)
        found[n] = [{name: value.tobytes() for name, value in run.weights().items()} for run in done]
    assert found[1] == found[2]
