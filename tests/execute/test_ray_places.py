"""A Ray cluster as places: a real one of several nodes on this machine, of which some are killed and others join."""

import contextlib
import os
import re
import socket
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import quadratic

from headway.config.lm.text import TextTask
from headway.config.spec import parse
from headway.errors import UserError
from headway.execute import ray_cluster
from headway.execute.places import LOST
from headway.execute.ray_cluster import RayNode, bytes_of, look, package_hash, why_not
from headway.execute.ray_places import AllRayPlaces, RaySlot, RayWorker
from headway.execute.sweep import ExecutionOptions, run_all
from headway.store.directory import Store
from headway.store.run import Run

SMALL = {"num_cpus": 1, "object_store_memory": 80 * 1024 * 1024, "include_dashboard": False}
SOURCE = Path(ray_cluster.__file__).parents[1]


def runs_of(directory, **document) -> list[Run]:
    of = quadratic.experiment(**document)
    return list(Store.with_runs(directory, of, of.runs)[1])


def statuses(runs) -> list[str]:
    return [Run.open(run.path).status for run in runs]


def test_without_ray_the_line_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(UserError, match=r"Ray is not installed; `pip install '\.\[ray\]'` installs it"),
        ray_cluster.ray_cluster("auto"),
    ):
        pass


def closed_port() -> str:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{closed.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("local", r"ray local: .* type `ray start --head`, and then --ray auto"),
        (None, "nothing answers there .*`ray start --head`"),
        *((none, "give auto, or HOST:PORT") for none in ("somewhere", "ray://host:10001", "host:0", "host:99999", "")),
    ],
)
def test_where_no_ray_can_answer_it_is_told_in_seconds(address, said):
    pytest.importorskip("ray")
    began = time.monotonic()
    with pytest.raises(UserError, match=said), ray_cluster.ray_cluster(closed_port() if address is None else address):
        pass
    assert time.monotonic() - began < 10


@contextlib.contextmanager
def a_port(answer: bytes | None):
    """Where somebody who is no Ray takes connections, and answers so, or says nothing."""

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = server.accept()
                kept.append(connection)
                connection.recv(100)
                if answer is not None:
                    connection.sendall(answer)
                if answer == HTTP:
                    connection.close()

    kept = []
    with socket.create_server(("", 0)) as server:  # Ray takes another name of this machine than one gives it
        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
    for connection in kept:
        connection.close()


HTTP = b"HTTP/1.1 400 Bad Request\r\n\r\n"
HTTP_2 = b"\0\0\0\4\0\0\0\0\0"
"""As Ray begins, and as any proxy does that speaks HTTP/2; then nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("answer", [HTTP, HTTP_2, None])
def test_where_somebody_else_answers_it_is_told_in_seconds(answer, monkeypatch, capfd):
    pytest.importorskip("ray")
    monkeypatch.setattr("headway.execute.ray_cluster._LETS_IN_WITHIN_S", 1.0)
    began = time.monotonic()
    with a_port(answer) as address:
        said = f"ray {address}: the program there does not answer as Ray does; give HOST:PORT"
        with pytest.raises(UserError, match=said), ray_cluster.ray_cluster(address):
            pass
    assert time.monotonic() - began < 15
    assert capfd.readouterr() == ("", ""), "what Ray prints of it is of no use"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.exit('AuthenticationError: RPC error: InvalidAuthToken')", "cluster there .*needs its token"),
        ("import os; os.write(2, b'no token was found'); os.abort()", "copy it to ~/.ray/auth_token here, and set RAY"),
        ("import sys; sys.exit('RpcError: Unimplemented')", "program there .*does not answer as Ray does"),
        ("import time; time.sleep(60); print('asking')", "Python did not import Ray within 0 s, so .*check the disk"),
    ],
)
def test_a_ray_that_lets_nobody_in_is_told_from_what_is_none(script, said, monkeypatch):
    monkeypatch.setattr(ray_cluster, "_ASK", script)
    if "sleep" in script:
        monkeypatch.setattr(ray_cluster, "_IMPORTED_WITHIN_S", 0.3)
    with pytest.raises(UserError, match=f"ray here:1: .*{said}"):
        ray_cluster._lets_in("here:1", "here:1")
    monkeypatch.setattr(ray_cluster, "_IMPORTED_WITHIN_S", 60.0)
    monkeypatch.setattr(ray_cluster, "_ASK", "print('asking')")
    assert not ray_cluster._lets_in("here:1", "here:1"), "it wants no token"


def test_of_the_cluster_of_this_machine_the_token_is_taken_that_is_here_or_none_is_told(monkeypatch):
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    asked = "import os, sys; sys.exit(os.environ['RAY_AUTH_MODE'] != 'token' and 'no token')"
    monkeypatch.setattr(ray_cluster, "_ASK", asked)
    assert ray_cluster._lets_in("auto", "here:1"), "it wants one, and has it from us"
    for named, address in (("here:1", ""), ("auto", "here:1")):  # Ray sends it to no address that is given
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UserError, match="needs its token"):
            ray_cluster._lets_in(named, "here:1")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    assert ray_cluster._lets_in("here:1", "here:1")
    asked = "import os, sys; sys.exit(os.environ['RAY_AUTH_MODE'] == 'token' and 'no token was found')"
    monkeypatch.setattr(ray_cluster, "_ASK", asked)
    said = "ray auto: RAY_AUTH_MODE=token is set here, but neither this machine nor the cluster has a token; unset "
    with pytest.raises(UserError, match=said):
        ray_cluster._lets_in("auto", "here:1")
    monkeypatch.delenv("RAY_AUTH_MODE")
    assert not ray_cluster._lets_in("auto", "here:1")


def test_a_cluster_without_a_token_is_told_with_what_to_do(tmp_path, monkeypatch):
    nodes, told = Nodes(), []
    monkeypatch.setattr("headway.execute.sweep.ray_cluster", lambda *_, **__: contextlib.nullcontext(nodes))
    for nodes.has_token in (True, False):
        with ExecutionOptions(ray="auto", device="cpu").site(tmp_path, (), uses_gpu=False, files=(), tell=told.append):
            pass
    assert told == [
        "Ray: the cluster has no token, so everybody who reaches its ports can run programs on its nodes. To give it a "
        "token, run `ray get-auth-token --generate` before `ray start --head`"
    ]


def test_a_cluster_of_this_machine_that_is_gone_is_told_in_seconds(monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setattr(ray_cluster, "_LETS_IN_WITHIN_S", 3.0)
    began = time.monotonic()
    with a_port(HTTP) as address, monkeypatch.context() as patched:
        patched.setenv("RAY_ADDRESS", address)
        port = address.partition(":")[2]
        said = rf"ray auto: the program at [\d.]+:{port}, where RAY_ADDRESS or a former `ray start` has it, does not"
        with pytest.raises(UserError, match=said), ray_cluster.ray_cluster("auto"):
            pass
    assert time.monotonic() - began < 30


NODE = RayNode(id="abcdef1234567890", host="node7", cpus=1, gpus=0)


def said(**changes) -> dict[str, str]:
    whole = {"host": "node7", "headway": package_hash(SOURCE), "sees": "yes", "writes": "yes", "lacks": ""}
    return {**whole, "why_not": "", "pid": "1", **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"headway": ""}, "has no Headway; install the same version there as here"),
        ({"headway": "0000"}, r"has another Headway \(0000 there, .* here\)"),
        ({"lacks": "mine.txt"}, r"does not have mine.txt as it is here \(rel.* put it there"),
    ],
)
def test_a_node_without_the_same_headway_is_named(changes, message):
    assert re.search(rf"Ray node node7 \(abcdef12\) {message}", why_not(NODE, said(**changes)))


class Nodes:
    """A cluster of two nodes, of which one may be blind, full or other."""

    has_token = True

    def __init__(self, **changes):
        self._changes = changes
        self.there = [NODE, RayNode(id="fedcba0987654321", host="node8", cpus=1, gpus=0)]

    def nodes(self):
        return tuple(self.there)

    def looked(self, nodes, probe, token, files):
        self.files = files
        found = {}
        for node in nodes:
            found[node] = said(host=node.host, **(self._changes if node.host == "node8" else {}))
            if found[node]["writes"]:
                Path(f"{probe}-{node.host}-1").write_text(token)
        return found


BLIND = {"sees": "", "writes": "", "why_not": "No such file or directory"}


def test_a_node_that_does_not_see_the_directory_is_not_used(tmp_path):
    lines = []
    places = list(AllRayPlaces(Nodes(), tmp_path, device="cpu", tell=lines.append))
    assert [place.node.host for place in places] == ["node7", "node8"]
    assert re.fullmatch("2 Ray nodes: they see .*", lines.pop())
    nodes = Nodes(**BLIND)
    places = list(AllRayPlaces(nodes, tmp_path, device="cpu", tell=lines.append))
    assert [place.node.host for place in places] == ["node7"]
    told = r"^1 Ray node: it sees .*\nRay node node8 .* is not used: it cannot see and write .* \(No such file"
    assert re.search(told, "\n".join(lines))
    assert not list(tmp_path.iterdir()), "the probe is removed"
    del nodes.there[0]
    said = r"cannot be seen and written by node8 \(No such .* give a directory in a folder that all nodes share$"
    with pytest.raises(UserError, match=said):
        list(AllRayPlaces(nodes, tmp_path, device="cpu"))


def test_another_headway_on_a_node_is_an_error_at_first_and_leaves_one_out_that_joins(tmp_path, monkeypatch):
    nodes, lines = Nodes(headway="0000"), []
    with pytest.raises(UserError, match=r"ray: Ray node node8 .* has another Headway"):
        list(AllRayPlaces(nodes, tmp_path, device="cpu"))
    late, nodes.there = nodes.there[1], nodes.there[:1]
    monkeypatch.setattr("headway.execute.ray_places._POLL_EVERY_S", 0.0)
    places = AllRayPlaces(nodes, tmp_path, device="cpu", tell=lines.append)
    assert len(list(places)) == 1
    nodes.there.append(late)
    assert len(list(places)) == 1
    assert "node8" in lines[1]
    assert "is not used" in lines[1]


def test_slots_are_cores_or_shares_of_gpus(tmp_path):
    nodes = Nodes()
    nodes.there = [RayNode(id="a", host="node7", cpus=8, gpus=2)]
    assert len(list(AllRayPlaces(nodes, tmp_path, device="cpu"))) == 8
    shares = [place.on_gpu for place in AllRayPlaces(nodes, tmp_path, device="auto", runs_per_gpu=3)]
    assert shares == [1 / 3] * 6
    assert len(list(AllRayPlaces(nodes, tmp_path, device="cpu", workers=5))) == 5
    nodes.there = [RayNode(id="a", host="node7", cpus=8, gpus=0)]
    with pytest.raises(UserError, match="no node has a slot for device cuda"):
        list(AllRayPlaces(nodes, tmp_path, device="cuda"))


def test_when_no_node_is_left_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr("headway.execute.ray_places._POLL_EVERY_S", 0.0)
    lines = []
    places = AllRayPlaces(Nodes(), tmp_path, device="cpu", tell=lines.append)
    for place in list(places):
        place.refuse(place.node, "its disk is full or fails")
    assert lines[-1].endswith("is not used: its disk is full or fails")
    with pytest.raises(UserError, match="no node is left, for the reasons above"):
        list(places)


class GoneRay:
    """A Ray whose actors are all gone."""

    class exceptions:
        RayError = RuntimeError

    def wait(self, references, timeout):
        return references, []

    def get(self, reference, timeout=None):
        raise RuntimeError("the actor died")


def test_a_place_that_was_lost_takes_nothing_for_a_while(tmp_path):
    places = AllRayPlaces(Nodes(), tmp_path, device="cpu")
    first, second = places
    worker = RayWorker(GoneRay(), None, None, first._lose)
    assert worker.ended == LOST
    assert list(places) == [second]
    first.rests_until = 0.0
    assert list(places) == [first, second]


class BusyRay(GoneRay):
    """A Ray in which actors begin when they are let; each is the reference that is asked for."""

    def __init__(self):
        self.begun, self.killed = set(), []

    def wait(self, references, timeout, num_returns=1):
        return [one for one in references if one in self.begun], []

    def get(self, reference, timeout=None):
        return None

    def kill(self, actor):
        self.killed.append(actor)

    def actor(self, node, kind, **needs):
        found = SimpleNamespace(rest=SimpleNamespace(remote=lambda: None))
        found.__ray_ready__ = SimpleNamespace(remote=lambda: f"actor on {node.host}")
        return SimpleNamespace(remote=lambda *_: found)


def busy(monkeypatch) -> tuple[Nodes, BusyRay]:
    monkeypatch.setattr("headway.execute.ray_places._POLL_EVERY_S", 0.0)
    nodes = Nodes()
    nodes.ray = BusyRay()
    nodes.on = nodes.ray.actor
    return nodes, nodes.ray


def test_a_slot_is_ready_when_its_actor_has_begun_and_a_busy_cluster_is_told_once(tmp_path, monkeypatch):
    (nodes, ray), told = busy(monkeypatch), []
    places = AllRayPlaces(nodes, tmp_path, device="cpu", tell=told.append)
    first, second = places
    assert [first.ready, second.ready] == [False, False]
    first.make_ready()
    second.make_ready()
    ray.begun.add("actor on node8")
    assert list(places) == [second, first], "who has begun comes first"
    assert (first.ready, second.ready, len(told)) == (False, True, 1)
    monkeypatch.setattr("headway.execute.ray_places._BUSY_S", 0.0)
    assert list(places) == list(places)
    assert told[1:] == [
        "Ray: the cluster is busy; 1 of 2 slots have not started within 0 s, since other programs use the nodes. Runs "
        "go to the slots that have started"
    ]


def test_a_slot_that_waits_for_long_leaves_its_turn_to_another_where_few_are_asked_for(tmp_path, monkeypatch):
    nodes, _ = busy(monkeypatch)
    places = AllRayPlaces(nodes, tmp_path, device="cpu", workers=1)
    (first,) = places
    first.make_ready()
    monkeypatch.setattr("headway.execute.ray_places._LATE_S", 0.0)
    (second,) = places
    assert second is not first


def test_an_actor_with_nothing_to_do_gives_its_share_back(tmp_path, monkeypatch):
    nodes, ray = busy(monkeypatch)
    first, second = places = AllRayPlaces(nodes, tmp_path, device="cpu")
    for place in (first, second):
        place.make_ready()
    ray.begun.add("actor on node7")
    assert [place.ready for place in places] == [True, False]
    monkeypatch.setattr("headway.execute.ray_places._IDLE_S", -1.0)
    first._worker = SimpleNamespace(code=None)
    assert [place.ready for place in places] == [True, False]
    assert len(ray.killed) == 1, "the one that was asked for, and is needed no more"
    first._worker.code = 0
    assert [place.ready for place in places] == [False, False]
    assert len(ray.killed) == 2


def test_a_node_whose_actors_do_not_begin_is_used_no_more_and_it_is_told_why(tmp_path, monkeypatch):
    (nodes, ray), told = busy(monkeypatch), []

    def died(*_, **__):
        raise RuntimeError("The actor died:\nModuleNotFoundError: No module named 'safetensors'")

    ray.get = died
    places = AllRayPlaces(nodes, tmp_path, device="cpu", tell=told.append)
    first, second = places
    ray.begun.add("actor on node7")
    for _ in range(3):
        first.rests_until = 0.0
        assert list(places) == [first, second]
        first.make_ready()
        list(places)
    first.rests_until = 0.0
    assert list(places) == [second]
    assert told[1] == (
        "Ray node node7 (abcdef12) is not used: its actor failed to start 3 times "
        "(ModuleNotFoundError: No module named 'safetensors')"
    )


def test_a_package_is_known_by_what_its_files_hold(tmp_path):
    (tmp_path / "a.py").write_text("1")
    before = package_hash(tmp_path)
    (tmp_path / "notes.txt").write_text("of no importance")
    assert package_hash(tmp_path) == before
    (tmp_path / "a.py").write_text("2")
    assert package_hash(tmp_path) != before


def test_a_node_says_whether_it_sees_and_writes_the_directory(tmp_path):
    (tmp_path / ".probe-x").write_text("token")
    there = look(str(tmp_path / ".probe-x"), "token")
    assert (there["sees"], there["writes"]) == ("yes", "yes")
    assert there["headway"] == package_hash(SOURCE)
    other = look(str(tmp_path / "nowhere" / ".probe-x"), "token")
    assert (other["sees"], other["writes"], other["why_not"]) == ("", "", "No such file or directory")
    (tmp_path / ".probe-x").write_text("of another directory of the same name")
    assert look(str(tmp_path / ".probe-x"), "token")["sees"] == ""


def test_a_node_says_which_files_it_does_not_have_as_they_are_elsewhere(tmp_path):
    (tmp_path / "mine.txt").write_text("Once")
    (tmp_path / "texts" / "more").mkdir(parents=True)
    (tmp_path / "texts" / "more" / "a.txt").write_text("upon")
    (tmp_path / ".probe-x").write_text("token")
    assert [bytes_of(name, str(tmp_path)) for name in ("mine.txt", "texts", "nowhere")] == [4, 4, -1]
    asked = {"mine.txt": 4, str(tmp_path / "texts"): 4, "nowhere": 7}
    assert look(str(tmp_path / ".probe-x"), "token", str(tmp_path), asked)["lacks"] == "nowhere"
    (tmp_path / "mine.txt").write_text("of another one's")
    assert look(str(tmp_path / ".probe-x"), "token", str(tmp_path), asked)["lacks"] == "mine.txt, nowhere"


def test_relative_paths_begin_at_a_slot_where_they_begin_here(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    for folder in (str(tmp_path), str(tmp_path / "nowhere"), ""):
        RaySlot("cpu", 1, folder=folder)
        assert Path.cwd() == tmp_path


def test_files_that_runs_read_are_asked_for(tmp_path, monkeypatch):
    (tmp_path / "mine.jsonl").write_text("{}")
    text = {"kind": "text", "corpus": "mine.jsonl:story", "validation": "tinystories", "tokenizer": "./none"}
    assert [str(file) for file in parse(TextTask, {**text, "n_ctx": 8}).read_files] == ["mine.jsonl", "none"]
    monkeypatch.chdir(tmp_path)
    nodes = Nodes()
    monkeypatch.setattr("headway.execute.sweep.ray_cluster", lambda *_, **__: contextlib.nullcontext(nodes))
    files = [Path("mine.jsonl"), Path("none")]
    options = ExecutionOptions(ray="auto", device="cpu")
    with options.site(tmp_path, (), uses_gpu=False, files=files, tell=lambda _: None) as site:
        assert len(list(site.places)) == 2
    assert nodes.files == {"mine.jsonl": 2}, "what is missing here is told by whoever reads it"


@pytest.fixture
def cluster(monkeypatch, tmp_path):
    """A head without slots, and a node with one; ended with the test, and nothing of it is left."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("QUADRATIC_STEP_S", "0.01")
    monkeypatch.setenv("QUADRATIC_CHECKPOINT_S", "0.2")
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    made = Cluster(initialize_head=True, head_node_args={**SMALL, "num_cpus": 0})
    try:
        yield made
    finally:
        made.shutdown()


@pytest.mark.slow
def test_nodes_are_killed_and_join_and_every_run_ends_with_the_same_bits(cluster, tmp_path):
    nodes = [cluster.add_node(**SMALL) for _ in range(2)]
    runs, told = runs_of(tmp_path / "results", steps=200), []
    undisturbed = runs_of(tmp_path / "whole", steps=200)
    killed = False
    with ray_cluster.ray_cluster(cluster.address) as joined:
        places = AllRayPlaces(joined, tmp_path / "results", command=quadratic.WORKER, tell=told.append, device="cpu")
        for snapshot in run_all(runs, places):
            if not killed and sum(run.step > 20 for run in snapshot.runs) >= 2:
                cluster.remove_node(nodes[0], allow_graceful=False)
                cluster.add_node(**SMALL)
                killed = True
    assert killed
    assert statuses(runs) == ["done"] * 4
    os.environ["QUADRATIC_STEP_S"] = "0"
    for run in undisturbed:
        quadratic.train_here(run)
    assert [quadratic.lasting(run) for run in runs] == [quadratic.lasting(run) for run in undisturbed]
    for run in runs:
        Run.open(run.path).check()
    assert re.match("[23] Ray nodes: they see ", told[0]), "the head has no slot"
    assert any("is gone; its runs move elsewhere" in line for line in told), told
    assert any("joined with 1 core" in line for line in told), told
