"""Several runs on one GPU: each worker sees that GPU alone, and gives the bits that it gives by itself."""

import subprocess
import sys
from collections import deque
from functools import partial

import pytest
import torch
from support import quadratic, small_text

from headway.errors import UserError
from headway.execute.join import Joining
from headway.execute.places import local_places
from headway.execute.ray_cluster import ray_cluster
from headway.execute.ray_places import AllRayPlaces
from headway.execute.sweep import ExecutionOptions, run_all
from headway.store.directory import Store
from headway.store.environment import slots


def three_gpus(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 5,7")


def seen(found) -> list[str]:
    return [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in found]


def test_several_runs_share_a_gpu_when_every_one_has_a_run(monkeypatch):
    three_gpus(monkeypatch)
    assert seen(slots("cuda", workers=None, runs=9, runs_per_gpu=2)) == ["2", "5", "7", "2", "5", "7"]
    assert seen(slots("cuda", workers=4, runs=9, runs_per_gpu=2)) == ["2", "5", "7", "2"]
    assert seen(slots("cuda:0", workers=None, runs=9, runs_per_gpu=3)) == ["2", "2", "2"]


def test_gpus_take_one_run_each_and_are_the_only_ones_that_their_workers_see(monkeypatch):
    three_gpus(monkeypatch)
    assert seen(slots("auto", workers=None, runs=9)) == ["2", "5", "7"]
    (one,) = slots("cuda:1", workers=None, runs=9)
    assert (one.device, dict(one.environment)) == ("cuda", {"CUDA_VISIBLE_DEVICES": "5"})
    assert {place.device for place in slots("auto", workers=2, runs=9, uses_gpu=False)} == {"cpu"}


@pytest.mark.parametrize(
    ("device", "uses_gpu", "said"),
    [
        ("gpu", True, "device gpu: there is no such device; choose from auto, cpu, cuda and cuda:N"),
        ("cuda:3", True, "device cuda:3: 0 GPUs can be seen here; take cpu"),
        ("cuda", False, "device cuda: in-context models train on the processor; take cpu"),
    ],
)
def test_a_device_that_is_not_there_is_a_users_error(monkeypatch, device, uses_gpu, said):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(UserError) as raised:
        slots(device, workers=None, runs=1, uses_gpu=uses_gpu)
    assert str(raised.value) == said


def test_on_a_processor_it_changes_nothing(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert len(slots("auto", workers=2, runs=9, runs_per_gpu=8)) == 2
    with pytest.raises(UserError, match="runs per GPU 8: device cpu has no GPU; leave one of"):
        slots("cpu", workers=2, runs=9, runs_per_gpu=8)
    for n in (0, -1, 65):
        with pytest.raises(UserError, match=f"runs per GPU {n}: give 1 to 64"):
            slots("auto", workers=None, runs=1, runs_per_gpu=n)


NOTES = (
    "import os, sys, pathlib; run = next(word for word in sys.argv[1:] if os.path.isdir(word)); "
    "pathlib.Path(run, 'seen').write_text(os.environ['CUDA_VISIBLE_DEVICES'] + ' ' + ' '.join(sys.argv[1:]))"
)
"""A worker that notes which GPUs it sees, and ends."""


def noted(runs) -> list[str]:
    found = [(run.path / "seen").read_text().split() for run in runs]
    assert all(words[words.index("--device") + 1] == "cuda" for words in found)
    return sorted(words[0] for words in found)


def test_a_worker_that_joins_gives_each_of_its_runs_a_gpu(tmp_path, monkeypatch):
    three_gpus(monkeypatch)
    of = small_text.experiment(seeds=2)
    runs = Store.with_runs(tmp_path / "results", of, of.runs)[1]
    how = {"device": "cuda", "runs_per_gpu": 2, "command": (sys.executable, "-c", NOTES)}
    joining = Joining(directory=tmp_path / "results", options=ExecutionOptions(**how))
    left = joining.work(partial(deque, maxlen=0), lambda _: None)
    assert left.failed_here == len(runs), "it trained nothing"
    assert set(noted(runs)) <= {"2", "5", "7"}


def all_ready(places: AllRayPlaces) -> bool:
    """Ask for every slot, again and again as the queue does: an actor that nobody needs for a while is given back."""
    asked = list(places)
    for place in asked:
        place.make_ready()
    return all(place.ready for place in asked)


@pytest.mark.slow
def test_slots_of_a_ray_cluster_see_the_gpu_that_they_have_a_share_of(tmp_path):
    """Ray is told of two GPUs, and need not have them."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    of = small_text.experiment(seeds=2)
    runs = Store.with_runs(tmp_path / "results", of, of.runs)[1]
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 2, "include_dashboard": False})
    try:
        with ray_cluster(cluster.address) as joined:
            how = {"device": "cuda", "runs_per_gpu": 2, "command": (sys.executable, "-c", NOTES)}
            asked = AllRayPlaces(joined, tmp_path / "results", **how)
            quadratic.wait_until(lambda: all_ready(asked))
            places = list(asked)
            assert len(places) == 4
            workers = [place.start(run.path, log=run.path / "log.txt") for place, run in zip(places, runs, strict=True)]
            quadratic.wait_until(lambda: all(worker.ended is not None for worker in workers))
            assert [worker.ended for worker in workers] == [0] * 4
            for place in places:
                place.rest()
    finally:
        cluster.shutdown()
    assert noted(runs) == ["0", "0", "1", "1"]


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_runs_that_share_a_gpu_have_the_bits_of_runs_alone(tmp_path):
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


@pytest.mark.slow
def test_a_worker_computes_fp32_whatever_the_environment_chose():
    """TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, which some containers set, has torch start with `high`."""
    code = (
        "import torch; from headway.execute.worker import _set_up; from headway.train.loop import Study; "
        "torch.set_float32_matmul_precision('high'); "
        "_set_up(Study(trainer=None, measures=(), execution={}, conclude=None), 1); "
        "print(torch.get_float32_matmul_precision())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["highest"]
