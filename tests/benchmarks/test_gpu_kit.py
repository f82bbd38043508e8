"""The kit for a GPU resumes, survives what breaks down, packs what travels, and runs in the small on a processor."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headway.config.load import load
from headway.execute.costs import preflight
from headway.train.loop import training_part_of

ROOT = Path(__file__).parents[2]
KIT = ROOT / "benchmarks/gpu.py"
sys.path.append(str(ROOT / "benchmarks"))

import gpu  # noqa: E402

# What a kit of two pieces measures: of each piece a quick cell and one that fails, and once one that ends the process.
PIECES = """
import os
from pathlib import Path
from types import SimpleNamespace

def told(error): return str(error)
def scratch(): return Path(os.environ["SCRATCH"])

class Kit:
    @classmethod
    def made(cls, **_): return cls()
    def described(self): return {"device": "cpu"}
    def is_broken(self): return False

def cell(name, measure): return SimpleNamespace(name=name, estimate_s=1.0, measure=measure)

def once(name, rows):
    def measure():
        with open(scratch() / "measured", "a") as file:
            file.write(name + "\\n")
        return rows
    return cell(name, measure)

def fails():
    if not (scratch() / "mended").exists():
        raise ValueError("no such kernel")
    return []

def dies():
    if not (scratch() / "mended").exists():
        os._exit(9)
    return []

def speed(kit):
    return [once("first", [{"heads": 12, "ms": 0.25}]), cell("dies", dies), cell("fails", fails), once("last", [])]
"""


@pytest.fixture
def kit(tmp_path, monkeypatch):
    """The kit with other pieces, in its own folder."""
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    (folder / "gpu.py").write_text(KIT.read_text())
    (folder / "gpu_pieces.py").write_text(PIECES)
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("SCRATCH", str(tmp_path))

    def run(*options):
        command = [sys.executable, str(folder / "gpu.py"), str(tmp_path / "out"), "--data", str(tmp_path / "data")]
        return subprocess.run([*command, "--piece", "speed", *options], capture_output=True, text=True, check=False)

    return SimpleNamespace(
        run=run, folder=tmp_path, record=lambda: json.loads((tmp_path / "out/speed.json").read_text())
    )


def states(record):
    return {name: cell["state"] for name, cell in record["cells"].items()}


def test_a_cell_that_breaks_its_process_costs_no_other_and_numbers_of_devices_are_not_mixed(kit):
    done = kit.run()
    assert done.returncode == 1
    assert states(kit.record()) == {"first": "done", "dies": "failed", "fails": "failed", "last": "done"}
    assert kit.record()["cells"]["dies"]["error"] == "its process ended with exit code 9"
    assert kit.record()["cells"]["fails"]["error"] == "no such kernel"
    assert "speed      2 of 4 done (about 4 s on an H200); failed: dies, fails" in done.stdout
    assert "heads    ms\n     12  0.25" in done.stdout
    (kit.folder / "mended").touch()
    assert kit.run().returncode == 0, "what failed is measured again"
    assert set(states(kit.record()).values()) == {"done"}
    assert (kit.folder / "measured").read_text().split() == ["first", "last"]
    file = kit.folder / "out/speed.json"
    file.write_text(file.read_text().replace('"cpu"', '"an H200"'))
    again = kit.run()
    assert again.returncode == 1
    assert "was measured on {'device': 'an H200'}" in again.stderr


def test_only_what_fits_into_the_minutes_is_begun(kit):
    assert "left: all of it" in kit.run("--minutes", "0.1").stdout
    assert not (kit.folder / "out/speed.json").exists()


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    pack = [str(KIT), "--pack", str(folder / "pack"), "--no-wheels", "--stories", "300"]
    subprocess.run([sys.executable, *pack], check=True)
    # Unpacked by a Python that sees no other package.
    unpack = [str(KIT), str(folder / "data"), "--install", str(folder / "pack")]
    subprocess.run([sys.executable, "-I", "-S", *unpack], check=True)
    return folder


@pytest.mark.slow
def test_what_is_packed_is_unpacked(packed):
    facts = json.loads((packed / "data/data.json").read_text())
    tokens = np.load(packed / "data/tokens.npy")
    assert (facts["documents"], facts["vocabulary"], tokens.dtype) == (300, 50_257, np.uint16)
    assert len(tokens) == facts["tokens"]
    assert sum(path.stat().st_size for path in (packed / "pack").rglob("*") if path.is_file()) < 3_000_000


@pytest.mark.slow
@pytest.mark.parametrize("name", ["head-progression", "low-rank"])
def test_paper_scales_run_from_the_pack_without_a_network(packed, name, monkeypatch):
    import gpu_pieces

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HEADWAY_CACHE", str(packed / "cache"))
    settings = gpu_pieces.settings_of(packed / "data")
    whole = load(name, scale="paper", settings=settings)
    assert not any("hub" in said for said in preflight(whole))
    published = load(name, scale="paper").arms[0].template.budget.n_parameters
    assert whole.arms[0].template.budget.n_parameters == published
    small = load(name, scale="paper", settings=[*settings, "task.n_ctx=32"]).arms[0].template.at_seed(0)
    study = training_part_of(small).open_study(small, device="cpu", compile=False)
    assert np.isfinite(study.trainer.advance(1)).all()


def test_a_machine_takes_only_the_wheels_that_it_lacks(tmp_path):
    """And with pydantic its core: the two fit each other."""
    brought = {"pydantic": "pydantic", "pydantic_core": "pydantic_core", "numpy": "numpy", "nowhere": "nowhere_to_be"}
    for wheel, module in brought.items():
        with zipfile.ZipFile(tmp_path / f"{wheel}-1-py3-none-any.whl", "w") as file:
            file.writestr(f"{module}/__init__.py", "")
            file.writestr(f"{wheel}-1.dist-info/METADATA", "")
    names = lambda: [path.name.split("-")[0] for path in gpu.chosen_wheels(sorted(tmp_path.glob("*.whl")))]  # noqa: E731
    assert names() == ["nowhere"]
    find = gpu.importlib.util.find_spec
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gpu.importlib.util, "find_spec", lambda name: None if name == "pydantic" else find(name))
        assert names() == ["nowhere", "pydantic", "pydantic_core"]


IMPORTED = """
import sys
sys.path[:0] = [{benchmarks!r}, {tests!r}]
import torch
before = set(sys.modules)
import gpu_pieces, gpu_equal, headway.execute.worker, headway.execute.work, headway.train.lm
found = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(sorted(name for name in found if getattr(sys.modules[name], "__file__", None) and
             "site-packages" in sys.modules[name].__file__))
"""


@pytest.mark.slow
def test_the_pack_holds_what_the_pieces_import():
    script = IMPORTED.format(benchmarks=str(ROOT / "benchmarks"), tests=str(ROOT / "tests"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    packed = {name.lower().replace("-", "_") for name in gpu.WHEELS} | {"yaml", "_pytest", "py"}
    assert set(eval(done.stdout)) - packed - {"torch", "torchgen", "functorch", "sympy", "mpmath", "networkx"} == set()


ELSEWHERE = {"equal": ("resume", "the suite's GPU tests"), "published": ("2 at once",)}
"""Cells of a piece that take most of the time, and that other tests have on a processor."""


@pytest.mark.slow
def test_the_rest_of_it_runs_on_a_processor_in_the_small(tmp_path):
    import gpu_pieces

    kit = gpu_pieces.Kit(device=gpu_pieces.torch.device("cpu"), tiny=True, data=tmp_path)
    (tmp_path / "out").mkdir()
    device = kit.described() | {"threads": 1}  # what --tiny asks of each piece's process
    for piece, cells in ELSEWHERE.items():
        record = gpu.begun_record(tmp_path / "out", piece, device, dict.fromkeys(cells, 0.0))
        for cell in record["cells"].values():
            cell |= {"state": "done", "rows": []}
        gpu.write_record(tmp_path / "out", record)
    environment = {**os.environ, "TMPDIR": str(tmp_path), "HEADWAY_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, str(KIT), str(tmp_path / "out"), "--tiny", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    records = {path.stem: json.loads(path.read_text()) for path in (tmp_path / "out").iterdir()}
    assert records.keys() == gpu.PIECES.keys()
    for piece, record in records.items():
        assert record["device"]["device"] == "cpu"
        assert set(states(record).values()) == {"done"}, piece
        assert sum(cell["estimate_s"] for cell in record["cells"].values()) <= gpu.PIECE_S, piece
    rows = [row for cell in records["equal"]["cells"].values() for row in cell["rows"]]
    assert [row for row in rows if not row["within"] and "No viable backend" not in row.get("met", "")] == []


def test_the_roofline_is_that_of_the_data_sheet():
    import gpu_pieces

    paper = gpu_pieces.roofline(load("head-progression", scale="paper").arm("constant-low").spec(0))
    shown = {bound: f"{1e3 * seconds:.2g} ms" for bound, seconds in paper.items()}
    assert shown == {"products": "3.1 ms", "exponentials": "0.0028 ms", "memory": "0.76 ms"}
    settings = ["training.precision=bf16", "training.batch_size=64"]
    wide = load("head-progression", scale="paper", settings=settings).arm("constant-low").spec(0)
    assert gpu_pieces.roofline(wide)["products"] == pytest.approx(3 * 6.993e10 * 64 / 989e12, rel=1e-3)
