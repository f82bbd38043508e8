"""What stands in a directory is a stranger's: rooms read, write and remove files by `headway.base.files` alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "src" / "headway"

METHODS = {
    "read_text", "read_bytes", "write_text", "write_bytes", "unlink", "rename", "mkdir", "rmdir", "touch", "chmod",
    "glob", "rglob", "iterdir", "walk", "symlink_to", "hardlink_to", "from_file", "load_file", "save_file", "safe_open",
}  # fmt: skip
"""Of paths, and of libraries that open a path themselves."""
MODULES = {
    "os": {
        "open", "replace", "rename", "renames", "link", "symlink", "unlink", "remove", "rmdir", "removedirs", "mkdir",
        "makedirs", "utime", "chmod", "chown", "truncate", "scandir", "listdir", "walk", "mkfifo", "mknod",
    },
    "shutil": {"copy", "copy2", "copyfile", "copytree", "move", "rmtree", "chown", "make_archive", "unpack_archive"},
    "tempfile": {"mkdtemp", "mkstemp", "TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile"},
    "gzip": {"open"},
    "np": {"load", "save", "savez", "memmap", "fromfile", "loadtxt", "savetxt"},
    "torch": {"load", "save"},
}  # fmt: skip
FOLDERS = {
    "runs", "figures", "estimators", "looks", "timings", "plugins", "dropped", "slurm", "heads", "weights",
}  # fmt: skip
"""What a results directory and a run's folder hold: one goes down by `inside`, `folder_in` or `entries`."""

CACHE = "the user's own cache of tokens, which no directory names"
GIVEN = "a file or folder that the user names, and that is read only"
OWN = "files of the package"
SYSTEM = "files of the system"
EXPORT = "a new folder of a name that nobody knows, moved to one that is free"
GUARDED = "after `checked` or its hash, which follow no link"
EXCEPTIONS = {
    "cli/options.py": ("tempfile.TemporaryFile", "a file without a name, to see whether some can be made"),
    "data/token_store.py": ("np.save open read_text np.load np.memmap", CACHE),
    "data/corpus.py": ("rglob open np.load", GIVEN + "; " + CACHE),
    "data/documents.py": ("gzip.open open", GIVEN),
    "data/grammar.py": ("read_text", OWN),
    "data/tokenizer.py": ("from_file write_text", GIVEN + ", or " + CACHE),
    "data/cache.py": ("glob iterdir mkdir open os.rename read_text shutil.rmtree", CACHE),
    "config/experiment.py": ("read_text", OWN),
    "config/plugins.py": ("read_bytes rglob touch", "installed packages, and a mark in the private cache"),
    "config/yaml.py": ("glob", OWN),
    "config/own_program.py": ("chmod", "the copy of a script in the folder of its run"),
    "execute/work.py": ("rglob", "the folder that a training command has filled"),
    "analysis/inputs.py": ("np.load", GIVEN),
    "analysis/text_pairs.py": ("read_text", GIVEN),
    "judged/sources.py": ("read_bytes rglob", GIVEN),
    "stats/simultaneous.py": ("np.load", "the table of scipy"),
    "hf/read.py": ("glob safe_open", GIVEN + "; `hf/safety.py` keeps its links in it"),
    "hf/safety.py": ("os.scandir", GIVEN),
    "hf/write.py": ("iterdir mkdir rename shutil.copyfile shutil.rmtree write_bytes write_text", EXPORT),
    "hf/open.py": ("glob", GIVEN),
    "store/environment.py": ("glob read_text", SYSTEM),
    "store/directory.py": (
        "rename rmdir shutil.rmtree mkdir",
        "whole run folders, which `entries` found and `inside` checked; the directory itself, which the user names",
    ),
    "execute/join.py": ("tempfile.TemporaryFile", "a file without a name, to see whether some can be made"),
    "store/lease.py": (
        "os.open os.replace os.utime os.link os.listdir read_text",
        "leases: renamed over, touched or marked where they are no link; leases, which are made by links; " + SYSTEM,
    ),
    "execute/ray_cluster.py": (
        "read_bytes read_text rglob write_text",
        "what is sent to a node as it stands, and uses nothing of ours",
    ),
    "execute/ray_places.py": ("glob unlink write_text", "a probe file, whose name nobody knows before"),
    "store/records.py": ("load_file", GUARDED),
    "execute/slurm.py": ("rmdir", "an empty folder of logs, which `inside` checked"),
    "store/storage.py": ("tempfile.TemporaryFile", "files without a name, to see whether there is room"),
    "execute/worker.py": ("os.open", "the null device"),
    "store/checkpoint.py": ("load_file", GUARDED),
    "train/process_memory.py": ("read_text write_text", SYSTEM),
}
NAMED = {
    "cli/directories.py": ("slurm dropped", "a path that is told"),
    "store/growth.py": ("plugins", "a path that is told"),
    "store/verify.py": ("runs", "a path that is told"),
    "execute/join.py": ("runs", "the path alone of a run that failed"),
    "report/models/page.py": ("figures", "`write_figures` refuses a link"),
}


def opened(tree: ast.AST) -> Iterator[str]:
    """What a module calls that reaches files past `headway.base.files`."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        named = call.func
        if isinstance(named, ast.Name):  # what is read and written by name alone is a function of `headway.base.files`
            if named.id == "open" or named.id in METHODS - {"read_text", "read_bytes", "write_text", "write_bytes"}:
                yield from () if _is_safe(call) else (named.id,)
        elif isinstance(named, ast.Attribute):
            owner = named.value.id if isinstance(named.value, ast.Name) else ""
            if owner in MODULES:
                if named.attr in MODULES[owner]:
                    yield f"{owner}.{named.attr}"
            elif owner != "files" and named.attr in METHODS:
                yield named.attr
            elif named.attr == "open" and owner not in ("Store", "ResultsDirectory", "Run", "cls", "headway"):
                yield "open"
            elif named.attr == "replace" and len(call.args) == 1 and not call.keywords:
                yield "replace"


def _is_safe(call: ast.Call) -> bool:
    """Whether what is opened is a descriptor that `appending` gives, or a file that must not be there yet."""
    first, *more = call.args
    appends = isinstance(first, ast.Call) and isinstance(first.func, ast.Name) and first.func.id == "appending"
    return appends or any(isinstance(mode, ast.Constant) and "x" in str(mode.value) for mode in more[:1])


def named(tree: ast.AST) -> Iterator[str]:
    """The folders of a directory that a module goes into by a bare `/`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant):
            parts = re.split("/", str(node.right.value))
            yield from (part for part in parts[:1] if part in FOLDERS)


def modules() -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if path != ROOT / "base/files.py")


@pytest.mark.slow
@pytest.mark.parametrize(("calls", "exceptions"), [(opened, EXCEPTIONS), (named, NAMED)])
def test_files_are_reached_by_the_functions_of_files_alone(calls, exceptions):
    """One sentence a call: use a function of `headway.base.files`, or name the call with its reason above."""
    found = {module: set(calls(ast.parse((ROOT / module).read_text(encoding="utf-8")))) for module in modules()}
    allowed = {module: set(names.split()) for module, (names, _) in exceptions.items()}
    new = {module: sorted(names - allowed.get(module, set())) for module, names in found.items()}
    assert not {module: names for module, names in new.items() if names}
    unneeded = {module: sorted(names - found.get(module, set())) for module, names in allowed.items()}
    assert not {module: names for module, names in unneeded.items() if names}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("open(path)", ["open"]),
        ("open(path, 'w')", ["open"]),
        ("open(path, 'xb')", []),
        ("open(appending(path), 'a')", []),
        ("path.open('rb')", ["open"]),
        ("Store.open(path)", []),
        ("text.replace('a', 'b')", []),
        ("path.replace(other)", ["replace"]),
        ("os.replace(a, b)", ["os.replace"]),
        ("shutil.rmtree(a)", ["shutil.rmtree"]),
        ("(a / 'b').unlink(missing_ok=True)", ["unlink"]),
        ("sorted(a.glob('*'))", ["glob"]),
        ("read_bytes(path)", []),
        ("np.load(path)", ["np.load"]),
        ("load_file(path)", ["load_file"]),
    ],
)
def test_the_law_sees_what_reaches_files(source, expected):
    assert list(opened(ast.parse(source))) == expected
