"""What may import what in goalmeter: its floors, and every import that breaks a rule."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

# --- The floors -----------------------------------------------------------------------------------
# From the top. A room may import its own files and every room on a lower floor.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("commands", "demo"),
    ("card", "pages"),  # all instruments together; one part an instrument: what its report shows
    ("meg", "reflection", "navigation", "representation"),  # instruments: what is measured
    ("agents", "organisms"),  # subjects: who is measured
    ("tabular", "causal", "gridworld"),  # worlds: where
    ("statistics", "runs", "report"),  # ground: on what
)
# Neighbours on one floor: (importer, imported), each named by the design. `organisms` uses
# `gridworld` too, but that lies one floor down and needs no entry.
ALLOWED_NEIGHBOURS: frozenset[tuple[str, str]] = frozenset(
    {
        ("representation", "navigation"),
        ("navigation", "meg"),  # the goal-directedness of walks
        ("card", "pages"),  # a card shows parts of the instruments
        ("demo", "commands"),  # the demo returns an outcome too
        ("agents", "organisms"),  # organisms are asked as every language model is
        ("causal", "tabular"),  # an influence diagram with sufficient recall is an MDP of contexts
        ("gridworld", "tabular"),  # a grid world converts itself to a TabularMDP
    }
)
# What a world or an instrument may use of `report`: numbers as text, graphs as pictures and tables
# for notebooks. Pages are drawn above, in `pages`, from what an instrument measured.
REPORT_FOR_RESULTS = (
    "goalmeter.report.numbers",
    "goalmeter.report.diagram",
    "goalmeter.report.tables",
)
DRAW_NO_PAGE = frozenset(room for floor in FLOORS[4:7] for room in floor)
# The root gathers names from anywhere, so only those who use the library as a user may import it.
MAY_IMPORT_ROOT = frozenset({"__main__", "cli", "commands", "demo"})
ROOM_HEIGHT = {room: -depth for depth, rooms in enumerate(FLOORS) for room in rooms}
CELLAR = -len(FLOORS)  # private root modules, goalmeter._x: below everything, used by all


class Import(NamedTuple):
    """One import of something of goalmeter: `target` is its full dotted name."""

    line: int
    target: str


def is_private(room: str) -> bool:
    return room.startswith("_") and not room.startswith("__")


def height(room: str) -> int | None:
    return CELLAR if is_private(room) else ROOM_HEIGHT.get(room)


def module_name(path: Path, src: Path) -> str:
    """`a/b.py` is a.b; a package is named `a.__init__`, so that its last part can be dropped."""
    return ".".join(path.relative_to(src).with_suffix("").parts)


def goalmeter_imports(tree: ast.Module, module: str) -> Iterator[Import]:
    """Every import of goalmeter in a file: at the top, inside functions, for type checkers only."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                targets = [alias.name for alias in names]
            case ast.ImportFrom(module=base, names=names, level=level):
                # One dot is the package that holds this module, each further dot one package up.
                above = module.split(".")[:-level] if level else []
                base = ".".join([*above, *([base] if base else [])]) or "(outside goalmeter)"
                # `from goalmeter import x` may mean the room x; `from goalmeter.room import x` not.
                at_root = base == "goalmeter"
                targets = [f"{base}.{alias.name}" for alias in names] if at_root else [base]
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                targets = [name]
            case _:
                continue
        for target in targets:
            if target.split(".")[0] in ("goalmeter", "(outside goalmeter)"):
                yield Import(node.lineno, target)


def room_of(target: str, src: Path) -> str:
    """The room a dotted name lies in; "" is the root itself."""
    room = [*target.split("."), ""][1]
    on_disk = (src / "goalmeter" / room).is_dir() or (src / "goalmeter" / f"{room}.py").is_file()
    # A room that is not written yet counts as a room; any other name is one the root re-exports.
    return room if room and (on_disk or height(room) is not None) else ""


def broken_rule(importer: str, imported: str) -> str | None:
    """The rule that an import from one room to another breaks, in words; None when it is fine."""
    if importer in ("", "__init__", imported):
        return None  # the root may import anything, a room its own files
    if imported == "":
        fine = importer in MAY_IMPORT_ROOT
        return None if fine else "the root gathers names from above; import from the room itself"
    above, below = height(importer), height(imported)
    for room, floor in ((importer, above), (imported, below)):
        if floor is None:
            return f"{room!r} has no floor; give it one in FLOORS of tests/house.py"
    assert above is not None and below is not None
    if above < below:
        return f"imports point down, and {imported!r} lies above {importer!r}"
    is_neighbour = above == below and not is_private(importer)
    if is_neighbour and (importer, imported) not in ALLOWED_NEIGHBOURS:
        return f"{importer!r} and {imported!r} share a floor and are not in ALLOWED_NEIGHBOURS"
    return None


def find_circle(graph: dict[str, set[str]]) -> list[str] | None:
    """One circle of rooms, first and last the same; None when there is none."""
    done: set[str] = set()

    def visit(room: str, path: list[str]) -> list[str] | None:
        if room in path:
            return [*path[path.index(room) :], room]
        if room in done:
            return None
        for imported in sorted(graph.get(room, ())):
            if circle := visit(imported, [*path, room]):
                return circle
        done.add(room)
        return None

    return next((circle for room in sorted(graph) if (circle := visit(room, []))), None)


def for_type_checkers(tree: ast.Module) -> set[ast.AST]:
    """Every node that only type checkers read: what stands under `if TYPE_CHECKING:`."""
    return {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If)
        and (getattr(branch.test, "id", "") or getattr(branch.test, "attr", "")) == "TYPE_CHECKING"
        for statement in branch.body
        for node in ast.walk(statement)
    }


def imported_files(tree: ast.Module, module: str, files: Container[str]) -> Iterator[Import]:
    """Every file of goalmeter that a file imports when it runs, also inside its functions.

    Args:
        tree: the file.
        module: its dotted name; that of a package ends in `__init__`.
        files: all dotted names, those of packages without `__init__`.
    """
    skipped = for_type_checkers(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        match node:
            case ast.Import(names=names):
                targets = [alias.name for alias in names]
            case ast.ImportFrom(module=base, names=names, level=level):
                above = module.split(".")[:-level] if level else []
                whole = ".".join([*above, *([base] if base else [])])
                # `from a import b` runs a.b if that is a file, and else a.
                targets = [f"{whole}.{alias.name}" for alias in names]
            case _:
                continue
        for target in targets:
            while target and target not in files:
                target = target.rpartition(".")[0]
            if target:
                yield Import(node.lineno, target)


@cache
def parsed(text: str) -> ast.Module:
    """A file's tree; two tests read every file."""
    return ast.parse(text)


def file_graph(src: Path) -> dict[str, list[Import]]:
    """What every file imports."""
    paths = {}
    for path in sorted((src / "goalmeter").rglob("*.py")):
        module = module_name(path, src)
        paths[module.removesuffix(".__init__")] = (module, path)
    return {
        name: list(imported_files(parsed(path.read_text("utf-8")), module, paths))
        for name, (module, path) in paths.items()
    }


def file_problems(src: Path) -> list[str]:
    """Return the files that import each other in a circle."""
    imports = file_graph(src)
    graph = {
        name: {i.target for i in its_imports} - {name} for name, its_imports in imports.items()
    }
    problems = []
    if circle := find_circle(graph):
        problems.append("files import each other in a circle: " + " -> ".join(circle))
    return problems


def house_problems(src: Path) -> list[str]:
    """Every import under `src/goalmeter` that breaks a rule: file, line, import, rule."""
    problems: list[str] = []
    graph: dict[str, set[str]] = {}
    for path in sorted((src / "goalmeter").rglob("*.py")):
        where, module = path.relative_to(src).as_posix(), module_name(path, src)
        importer = module.split(".")[1]
        try:
            tree = parsed(path.read_text("utf-8"))
        except SyntaxError as error:
            problems.append(f"{where}:{error.lineno}: does not parse: {error.msg}")
            continue
        for line, target in goalmeter_imports(tree, module):
            if not target.startswith("goalmeter"):
                problems.append(f"{where}:{line}: a relative import leaves the package")
                continue
            imported = room_of(target, src)
            if (
                imported == "report"
                and importer in DRAW_NO_PAGE
                and not target.startswith(REPORT_FOR_RESULTS)
            ):
                problems.append(
                    f"{where}:{line}: imports {target}: worlds and instruments draw no page"
                )
            if rule := broken_rule(importer, imported):
                problems.append(f"{where}:{line}: imports {target}: {rule}")
            if importer != "__init__" and imported not in ("", importer):
                graph.setdefault(importer, set()).add(imported)
    if circle := find_circle(graph):
        problems.append("rooms import each other in a circle: " + " -> ".join(circle))
    return problems


# --- Studies --------------------------------------------------------------------------------------
REPLICATIONS = ROOT / "replications"


def private_imports(folder: Path) -> set[str]:
    """Every name of goalmeter that a study imports and that its package does not list."""
    found = set()
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(parsed(path.read_text("utf-8"))):
            module = getattr(node, "module", None)
            if isinstance(node, ast.ImportFrom) and module and module.split(".")[0] == "goalmeter":
                public = getattr(import_module(module), "__all__", ())
                found |= {f"{module}.{a.name}" for a in node.names if a.name not in public}
            elif isinstance(node, ast.Import):
                found |= {a.name for a in node.names if a.name.startswith("goalmeter.")}
    return found
