"""Move and merge the modules of Headway by a table, and rewrite every import, name and path that mentions them.

    python tools/move.py TABLE.json

The table is JSON: `modules` maps each target module to the modules that it is made of, `packages` maps a folder's
`__init__.py` to its new place, `renames` maps `OLD/MODULE.py:NAME` to a new name, and `keep` lists dotted names that
stay as they are in strings, since users type them. A name that two sources of one target define differently, and that
the table does not rename, gets the stem of its module. The script changes files in place, and can be run again on a
fresh checkout. Afterwards `ruff check --fix --select I,F401,PIE790` and `ruff format` set the imports in order. No rule
covers import contracts, docstrings of folders, docs and the lists of the laws.
"""

import argparse
import ast
import builtins
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PACKAGE = "headway"
READERS = ("src", "tests", "benchmarks", "docs", "tools")
TEXTS = (".md", ".toml", ".txt", ".cfg", ".yaml", ".yml", ".hpp", ".cpp", ".j2", ".ipynb")

Edit = tuple[int, int, bytes]
"""First byte, byte after the last, and what stands there afterwards."""


@dataclass
class Source:
    """One Python file before the move.

    Attributes:
        path: of the file, relative to the root.
        name: dotted, for files of the package; empty for others.
        target: dotted name after the move; equal to `name` where nothing moves.
        text: its bytes.
    """

    path: Path
    name: str
    target: str
    text: bytes
    tree: ast.Module = field(init=False)
    starts: list[int] = field(init=False)
    defined: set[str] = field(init=False)
    bound: dict[str, tuple] = field(default_factory=dict)
    local: dict[str, str] = field(default_factory=dict)

    def __post_init__(self):
        self.tree = ast.parse(self.text)
        self.starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.defined = set(_definitions(self.tree.body))

    def at(self, line: int, column: int) -> int:
        """The byte of a place in the file."""
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The first byte of a node, and the byte after it."""
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def lines(self, node: ast.AST) -> tuple[int, int]:
        """The whole lines of a statement."""
        return self.starts[node.lineno - 1], self.starts[node.end_lineno]


def _definitions(body: list[ast.stmt]) -> Iterator[str]:
    """Names that a module defines at its top level; imports are none."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for each in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (n.id for n in ast.walk(each) if isinstance(n, ast.Name))
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.While):
            for part in ("body", "orelse", "finalbody"):
                yield from _definitions(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _definitions(handler.body)


class Names(ast.NodeVisitor):
    """Collects the names of a module that mean what its top level binds, and those that any scope binds locally."""

    def __init__(self, tree: ast.Module):
        self.found: list[ast.Name] = []
        self.any_local: set[str] = set()
        self._scopes: list[set[str]] = []
        self.visit(tree)

    def visit_Name(self, node: ast.Name) -> None:
        """Keep a name that no scope around it binds."""
        if not any(node.id in scope for scope in self._scopes):
            self.found.append(node)

    def _function(self, node) -> None:
        for decorator in getattr(node, "decorator_list", []):
            self.visit(decorator)
        arguments = node.args
        for each in [*arguments.defaults, *filter(None, arguments.kw_defaults)]:
            self.visit(each)
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        every += [each for each in (arguments.vararg, arguments.kwarg) if each]
        for each in every:
            if each.annotation:
                self.visit(each.annotation)
        if getattr(node, "returns", None):
            self.visit(node.returns)
        body = node.body if isinstance(node.body, list) else [node.body]
        bound = {each.arg for each in every} | set(_bound(body))
        self.any_local |= bound
        self._scopes.append(bound)
        for each in body:
            self.visit(each)
        self._scopes.pop()

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Visit a class, whose names its methods do not see."""
        for each in [*node.decorator_list, *node.bases, *node.keywords]:
            self.visit(each)
        bound = set(_bound(node.body))
        for each in node.body:
            # What a class body binds is seen in the body alone, and not in its methods.
            self._scopes.append(bound if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) else set())
            self.visit(each)
            self._scopes.pop()

    def _comprehension(self, node) -> None:
        bound = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        self.any_local |= bound
        self.visit(node.generators[0].iter)
        self._scopes.append(bound)
        for number, each in enumerate(node.generators):
            if number:
                self.visit(each.iter)
            for test in each.ifs:
                self.visit(test)
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                self.visit(getattr(node, part))
        self._scopes.pop()

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension


def _bound(body: list[ast.AST]) -> Iterator[str]:
    """Names that statements bind in their own scope, nested functions and comprehensions apart."""
    stack, declared_global = list(body), set()
    names: set[str] = set()
    while stack:
        node = stack.pop()
        names.update(_bound_by(node))
        if isinstance(node, ast.Global):
            declared_global |= set(node.names)
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            stack += [each for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            stack += list(ast.iter_child_nodes(node))
    yield from names - declared_global


def _bound_by(node: ast.AST) -> set[str]:
    """Names that one node binds itself."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            return {name}
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            return {(alias.asname or alias.name).split(".")[0] for alias in aliases}
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return {name}
        case ast.MatchMapping(rest=str(name)):
            return {name}
    return set()


class Move:
    """The whole move: where every module and name goes."""

    def __init__(self, root: Path, table: Mapping[str, dict]):
        self.root, self.table = root, table
        self.where: dict[str, str] = {}
        for target, sources in [*table["modules"].items(), *((new, [old]) for old, new in table["packages"].items())]:
            self.where |= {_dotted(source): _dotted(target) for source in sources}
        self.sources = list(self._read())
        self.of_package = {source.name: source for source in self.sources if source.name}
        self.packages = {name.rpartition(".")[0] for name in self.of_package} | set(self.of_package)
        self.renames: dict[tuple[str, str], str] = {}
        for key, new in table.get("renames", {}).items():
            place, _, old = key.partition(":")
            if old not in self.of_package[_dotted(place)].defined:
                raise SystemExit(f"{key}: {place} defines no {old}; correct the table")
            self.renames[_dotted(place), old] = new
        self.merged: dict[str, list[Source]] = defaultdict(list)
        for source in self.sources:
            self.merged[source.target or str(source.path)].append(source)
        order = {_dotted(source): n for n, source in enumerate(s for v in table["modules"].values() for s in v)}
        for target, sources in self.merged.items():
            sources.sort(key=lambda source: order.get(source.name, -1))
            self.merged[target] = _by_dependence(sources)
        self.repeated: set[tuple[str, str]] = set()
        self._rename_clashes()

    def _read(self) -> Iterator[Source]:
        for folder in READERS:
            for path in sorted((self.root / folder).rglob("*.py")):
                inside = path.relative_to(self.root)
                name = _dotted(inside.relative_to(f"src/{PACKAGE}").as_posix()) if folder == "src" else ""
                if folder == "src" and inside.parts[1] != PACKAGE:
                    continue
                yield Source(path=inside, name=name, target=self.where.get(name, name), text=path.read_bytes())

    # What names are called afterwards

    def new_name(self, module: str, name: str) -> str:
        """What a name of an old module is called afterwards."""
        return self.renames.get((module, name), name)

    def is_module(self, dotted: str) -> bool:
        """Whether a dotted name was a module or a package."""
        return dotted in self.of_package or dotted in self.packages

    def origin(self, node: ast.Import | ast.ImportFrom, alias: ast.alias) -> tuple:
        """What an import binds: `("module", new)`, `("name", new module, new name)` or something outside."""
        if isinstance(node, ast.Import):
            if alias.name.split(".")[0] != PACKAGE or not alias.asname:
                return "import", alias.name
            return "module", self.target_of(alias.name)
        module = node.module or ""
        if node.level or module.split(".")[0] != PACKAGE:
            return "outside", module, alias.name
        if self.is_module(f"{module}.{alias.name}") and alias.name not in self.defined_in(module):
            return "module", self.target_of(f"{module}.{alias.name}")
        return self.home_of(module, alias.name)

    def home_of(self, module: str, name: str) -> tuple:
        """Where a name that a module has is defined: there, or in one that it imports the name from."""
        source = self.of_package.get(module)
        if source and name not in source.defined:
            for node, alias in _top_imports(source.tree):
                if (alias.asname or alias.name) == name and isinstance(node, ast.ImportFrom):
                    found = self.origin(node, alias)
                    return found if found[0] != "outside" else ("name", self.target_of(module), name)
        return "name", self.target_of(module), self.new_name(module, name)

    def defined_in(self, module: str) -> set[str]:
        """The names that an old module defines."""
        source = self.of_package.get(module)
        return source.defined if source else set()

    def target_of(self, module: str) -> str:
        """The module that an old module becomes."""
        return self.where.get(module, module)

    def _rename_clashes(self) -> None:
        for target, sources in self.merged.items():
            if len(sources) < 2:
                continue
            owners: dict[str, list[Source]] = defaultdict(list)
            for source in sources:
                for name in source.defined:
                    owners[self.new_name(source.name, name)].append(source)
            for name, several in owners.items():
                if len(several) < 2:
                    continue
                if len({_code_of(source, name) for source in several}) == 1:
                    self.repeated |= {(source.name, name) for source in several[1:]}
                    continue
                public = not name.startswith("_")
                for source in several[1:] if public else several:
                    if (source.name, name) in self.renames:
                        continue
                    stem = source.name.rpartition(".")[2]
                    new = _with_stem(name, stem)
                    self.renames[source.name, name] = new
                    print(f"clash in {target}: {source.name}.{name} -> {new}")

    # Writing

    def run(self) -> None:
        """Write every module in its new place, and rewrite whatever mentions it."""
        gone, written = [], {}
        for target, sources in self.merged.items():
            path = self._path_of(sources[0], target)
            written[path] = self._merge(target, sources)
            gone += [source.path for source in sources if source.path != path]
        for path in gone:
            (self.root / path).unlink()
        for path, text in written.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(self.paths(self.dotted(text.decode())), encoding="utf-8")
        for name in self.table.get("gone", ()):
            (self.root / f"src/{PACKAGE}" / name).unlink()
        self._texts()
        self._move_data()
        self._patch()

    def _path_of(self, source: Source, target: str) -> Path:
        for place in [*self.table["modules"], *self.table["packages"].values()]:
            if source.name and _dotted(place) == target and source.name in self.where:
                return Path("src", PACKAGE, place)
        return source.path

    def _merge(self, target: str, sources: list[Source]) -> bytes:
        if len(sources) == 1:
            return self._rewritten(sources[0], in_place=True)
        taken: dict[str, tuple] = {}
        for source in sources:
            for name in source.defined:
                taken[self.new_name(source.name, name)] = ("name", target, self.new_name(source.name, name))
        imports: list[str] = []
        for_types: list[str] = []
        bodies = []
        for source in sources:
            self._bind(source, target, taken)
            kept, typed = self._imports_of(source, target)
            imports += kept
            for_types += typed
            bodies.append(self._rewritten(source, in_place=False).strip(b"\n"))
        head = self._docstring(sources)
        # What Python demands of the first statement; the linter sorts the others.
        imports.sort(key=lambda line: not line.startswith("from __future__"))
        block = "\n".join(dict.fromkeys(imports))
        if for_types := [line for line in dict.fromkeys(for_types) if line not in imports]:
            block += "\n\nif TYPE_CHECKING:\n" + "\n".join(f"    {line}" for line in for_types)
        return (head + "\n\n" + block + "\n\n\n").encode() + b"\n\n\n".join(filter(None, bodies)) + b"\n"

    def _docstring(self, sources: list[Source]) -> str:
        """The first source's docstring, followed by those of the others as paragraphs."""
        found = [ast.get_docstring(source.tree) for source in sources]
        return self.dotted('"""' + "\n\n".join(text.strip() for text in found if text) + '\n"""')

    def _bind(self, source: Source, target: str, taken: dict[str, tuple]) -> None:
        """Decide what the imports of a source are called in the merged module."""
        names = Names(source.tree)
        for node, alias in _top_imports(source.tree):
            origin = self.origin(node, alias)
            old = alias.asname or alias.name.split(".")[0]
            if origin[0] == "module":
                source.bound[old] = origin
                if origin[1] == target:
                    continue
            new = self._called(source, names, origin, alias, target)
            if taken.get(new, origin) != origin and origin[0] != "import":
                new = f"{new}_{origin[1].rpartition('.')[2]}"
            taken[new] = source.bound[new] = origin
            if new != old:
                source.local[old] = new
        renamed = {name: self.new_name(source.name, name) for name in source.defined}
        source.local |= {name: new for name, new in renamed.items() if new != name}

    def _called(self, source: Source, names: Names, origin: tuple, alias: ast.alias, target: str) -> str:
        """What an import is called, if nothing else in the merged module has that name."""
        old = alias.asname or alias.name.split(".")[0]
        if origin[0] == "name":
            return origin[2] if origin[1] == target or not alias.asname else old
        leaf = origin[1].rpartition(".")[2]
        is_free = leaf not in names.any_local and leaf not in source.defined
        return leaf if origin[0] == "module" and not alias.asname and is_free else old

    def _imports_of(self, source: Source, target: str) -> tuple[list[str], list[str]]:
        kept, typed = [], []
        for node in _import_statements(source.tree.body):
            into = typed if _is_for_types(source.tree, node) else kept
            comment = _comment_of(source, node)
            for alias in node.names:
                if line := self._import_line(source, node, alias, target):
                    into.append(line + comment)
        return kept, typed

    def _import_line(self, source: Source, node, alias: ast.alias, target: str) -> str:
        """One import as a statement; empty where the name is defined in the same module now."""
        origin = self.origin(node, alias)
        old = alias.asname or alias.name.split(".")[0]
        name = source.local.get(old, old)
        if origin[0] == "import":
            if alias.name.split(".")[0] == PACKAGE and "." in alias.name:
                return f"import {self.target_of(alias.name)}"
            return f"import {alias.name}" + (f" as {alias.asname}" if alias.asname else "")
        if origin[0] == "outside":
            module = "." * node.level + origin[1]
            return f"from {module} import {origin[2]}" + (f" as {name}" if name != origin[2] or alias.asname else "")
        if origin[1] == target and source.target == target and len(self.merged[target]) > 1:
            return ""
        if origin[0] == "module":
            parent, _, leaf = origin[1].rpartition(".")
            door = f"from {parent} import {leaf}" if parent else f"import {leaf}"
            return door + (f" as {name}" if name != leaf else "")
        explicit = f" as {name}" if name != origin[2] or (alias.asname and alias.asname == alias.name) else ""
        return f"from {origin[1]} import {origin[2]}{explicit}"

    def _rewritten(self, source: Source, *, in_place: bool) -> bytes:
        """The text of a source with its names, attributes and imports as they are called afterwards."""
        target = source.target or str(source.path)
        if in_place:
            self._bind(source, target, {})
        edits: list[Edit] = []
        top = set(map(id, _import_statements(source.tree.body)))
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                if id(node) in top and not in_place:
                    continue
                edits += self._edit_import(source, node, target, nested=id(node) not in top)
        if not in_place:
            edits += self._cut_head(source)
        names = Names(source.tree)
        modules = {name: origin[1] for name, origin in source.bound.items() if origin[0] == "module"}
        modules |= self._nested_modules(source)
        edits += self._edit_names(source, names, modules, target)
        edits += self._edit_definitions(source)
        edits += self._edit_annotations(source)
        return _apply(source.text, edits)

    def _nested_modules(self, source: Source) -> dict[str, str]:
        found = {}
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    origin = self.origin(node, alias)
                    if origin[0] == "module":
                        found[alias.asname or alias.name] = origin[1]
        return found

    def _old_module(self, source: Source, bound: str) -> str:
        """The old module that a name stands for."""
        for node in ast.walk(source.tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                for alias in node.names:
                    if (alias.asname or alias.name) == bound:
                        return alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
        return ""

    def _edit_names(self, source: Source, names: Names, modules: dict[str, str], target: str) -> Iterator[Edit]:
        attributes = {
            id(node.value): node
            for node in ast.walk(source.tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        merged = len(self.merged[target]) > 1
        for node in [n for n in ast.walk(source.tree) if isinstance(n, ast.Name)]:
            at_top = any(node is found for found in names.found) if node.id in source.local else False
            if node.id in modules and id(node) in attributes:
                whole = attributes[id(node)]
                start, end = source.span(whole)
                assert source.text[start:end].startswith(node.id.encode()), (source.path, node.lineno, node.id)
                old = self._old_module(source, node.id)
                new = self.new_name(old, whole.attr)
                if modules[node.id] == target and merged:
                    yield (*source.span(whole), new.encode())
                    continue
                base = source.local.get(node.id, node.id)
                if (base, new) != (node.id, whole.attr):
                    yield (*source.span(whole), f"{base}.{new}".encode())
            elif at_top:
                start, end = source.span(node)
                assert source.text[start:end] == node.id.encode(), (source.path, node.lineno, node.id)
                yield start, end, source.local[node.id].encode()

    def _edit_definitions(self, source: Source) -> Iterator[Edit]:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.Global) and set(node.names) & source.local.keys():
                yield (*source.span(node), f"global {', '.join(source.local.get(n, n) for n in node.names)}".encode())
        for node in source.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in source.local:
                start = source.at(node.lineno, node.col_offset)
                found = re.compile(rb"(def|class)\s+" + node.name.encode() + rb"\b").search(source.text, start)
                yield found.end() - len(node.name.encode()), found.end(), source.local[node.name].encode()

    def _edit_annotations(self, source: Source) -> Iterator[Edit]:
        """Renamed names in annotations that are strings."""
        for node in ast.walk(source.tree):
            for part in ("annotation", "returns"):
                if not isinstance(inner := getattr(node, part, None), ast.AST):
                    continue
                for each in ast.walk(inner):
                    if isinstance(each, ast.Constant) and isinstance(each.value, str):
                        start, end = source.span(each)
                        old = new = source.text[start:end].decode()
                        for name, other in source.local.items():
                            new = re.sub(rf"(?<![\w.]){name}(?!\w)", other, new)
                        if new != old:
                            yield start, end, new.encode()

    def _edit_import(self, source: Source, node, target: str, *, nested: bool) -> Iterator[Edit]:
        lines = []
        for alias in node.names:
            if nested:  # a name that the scope binds: it keeps its name there
                old = alias.asname or alias.name.split(".")[0]
                kept, source.local = source.local, {k: v for k, v in source.local.items() if k != old}
                line = self._nested_line(source, node, alias, target)
                source.local = kept
            else:
                line = self._import_line(source, node, alias, target)
            if line:
                lines.append(line)
        column = b" " * node.col_offset
        text = ("\n" + column.decode()).join(lines or (["pass"] if nested else [])).encode()
        start, end = source.span(node)
        if text != source.text[start:end]:
            yield start, end, text

    def _nested_line(self, source: Source, node, alias: ast.alias, target: str) -> str:
        origin = self.origin(node, alias)
        old = alias.asname or alias.name.split(".")[0]
        if origin[0] == "name" and origin[1] == target and len(self.merged[target]) > 1:
            return "" if origin[2] == old else f"{old} = {origin[2]}"
        return self._import_line(source, node, alias, target)

    def _cut_head(self, source: Source) -> Iterator[Edit]:
        """Cut the docstring and the imports of a source that is merged into others."""
        for node in source.tree.body:
            is_docstring = (
                node is source.tree.body[0]
                and isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            )
            is_import = isinstance(node, ast.Import | ast.ImportFrom)
            is_repeated = any((source.name, name) in self.repeated for name in _definitions([node]))
            if is_docstring or is_import or is_repeated or _is_types_block(node):
                start, end = source.lines(node)
                yield start, end, b""

    # Texts

    def dotted(self, text: str) -> str:
        """A text with the dotted names of modules as they are called afterwards."""

        def replaced(match: re.Match[str]) -> str:
            whole = match.group(0)
            if any(whole == kept or whole.startswith(f"{kept}.") for kept in self.table.get("keep", ())):
                return whole
            parts = whole.split(".")
            for n in range(len(parts), 1, -1):
                old = ".".join(parts[:n])
                if old in self.where:
                    rest = parts[n:]
                    if rest:
                        rest[0] = self.new_name(old, rest[0])
                    return ".".join([self.where[old], *rest])
            return whole

        return re.sub(rf"\b{PACKAGE}(?:\.\w+)+", replaced, text)

    def paths(self, text: str) -> str:
        """A text with paths of modules, such as `store/integrity.py`, as they are afterwards."""
        by_old = {s: t for t, sources in self.table["modules"].items() for s in sources}

        def replaced(match: re.Match[str]) -> str:
            return by_old.get(match.group(0), match.group(0))

        return re.sub(r"(?<![\w/.-])[a-z_]+(?:/\w+)*\.py\b", replaced, text)

    def _texts(self) -> None:
        listed = subprocess.run(["git", "ls-files"], cwd=self.root, capture_output=True, text=True, check=True).stdout
        for name in listed.splitlines():
            path = self.root / name
            if (
                (path.suffix not in TEXTS and path.name != "Makefile")
                or not path.is_file()
                or name.startswith("src/headway/experiments")
            ):
                continue
            old = path.read_text(encoding="utf-8")
            new = self.paths(self.dotted(old)) if name != "LOG.md" else old
            if new != old:
                path.write_text(new, encoding="utf-8")

    def _move_data(self) -> None:
        for old, new in self.table.get("data", {}).items():
            source, target = self.root / f"src/{PACKAGE}" / old, self.root / f"src/{PACKAGE}" / new
            if source.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                source.rename(target)

    def _patch(self) -> None:
        """What no rule covers: whole files that the table gives, and replacements that it lists for each file."""
        for name, text in self.table.get("write", {}).items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        for name, replacements in self.table.get("patches", {}).items():
            text = (self.root / name).read_text(encoding="utf-8")
            for old, new in replacements:
                if old not in text:
                    raise SystemExit(f"{name}: it does not contain {old!r}; correct the table")
                text = text.replace(old, new)
            (self.root / name).write_text(text, encoding="utf-8")


def _dotted(place: str) -> str:
    """The dotted name of a file below the package."""
    return ".".join((PACKAGE, *Path(place).with_suffix("").parts)).removesuffix(".__init__")


def _code_of(source: Source, name: str) -> str:
    """How a source defines a name, to see whether another defines it equally."""
    for node in source.tree.body:
        if name in set(_definitions([node])):
            return ast.dump(node)
    return source.name


def _with_stem(name: str, stem: str) -> str:
    """A name with the stem of its module, in the name's own case."""
    bare = name.lstrip("_")
    lead = name[: len(name) - len(bare)]
    if bare.isupper():
        return f"{lead}{stem.upper()}_{bare}"
    if bare[:1].isupper():
        return f"{lead}{''.join(part.capitalize() for part in stem.split('_'))}{bare}"
    return f"{lead}{bare}_{stem}" if not hasattr(builtins, name) else f"{bare}_{stem}"


def _top_imports(tree: ast.Module) -> Iterator[tuple[ast.Import | ast.ImportFrom, ast.alias]]:
    for node in _import_statements(tree.body):
        yield from ((node, alias) for alias in node.names)


def _import_statements(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif _is_types_block(node):
            yield from (each for each in node.body if isinstance(each, ast.Import | ast.ImportFrom))


def _is_types_block(node: ast.stmt) -> bool:
    """Whether a statement imports names for types alone; one that also defines something stays in the body."""
    is_block = isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return is_block and not node.orelse and all(isinstance(each, ast.Import | ast.ImportFrom) for each in node.body)


def _is_for_types(tree: ast.Module, statement: ast.stmt) -> bool:
    return any(_is_types_block(node) and statement in node.body for node in tree.body)


def _comment_of(source: Source, node: ast.stmt) -> str:
    """The comment behind an import of one line, with the spaces before it."""
    line = source.text[source.starts[node.end_lineno - 1] : source.starts[node.end_lineno]].decode()
    _, mark, comment = line.partition("#")
    return f"  #{comment.rstrip()}" if mark else ""


def _by_dependence(sources: list[Source]) -> list[Source]:
    """Sources in an order in which each follows those that it imports at its top level, otherwise as they stand."""
    names = {source.name: source for source in sources}
    done: list[Source] = []

    def add(source: Source, path: tuple[str, ...]) -> None:
        if source in done or source.name in path:
            return
        for node in source.tree.body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for needed in [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]:
                    if needed in names:
                        add(names[needed], (*path, source.name))
        done.append(source)

    for source in sources:
        add(source, ())
    return done


def _apply(text: bytes, edits: list[Edit]) -> bytes:
    """A text after edits; one inside another is left out."""
    kept: list[Edit] = []
    for edit in sorted(set(edits), key=lambda edit: (edit[0], -edit[1])):
        if not kept or edit[0] >= kept[-1][1]:
            kept.append(edit)
    for start, end, new in reversed(kept):
        text = text[:start] + new + text[end:]
    return text


def main() -> None:
    """Move what the table says, in place."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--root", type=Path, default=Path())
    options = parser.parse_args()
    Move(options.root.resolve(), json.loads(options.table.read_text())).run()


if __name__ == "__main__":
    main()
