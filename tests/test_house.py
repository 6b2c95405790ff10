"""The house holds: imports point down, `import goalmeter` is light, no file knows a machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
SRC = ROOT / "src"

# --- The floors -----------------------------------------------------------------------------------
# From the top. A room may import its own files and every room on a lower floor.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("commands", "experiments"),
    ("pages",),  # one part an instrument: what its report shows
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
        ("experiments", "commands"),  # the demo and the replications hand an outcome back too
        ("agents", "organisms"),  # organisms are asked as every language model is
        ("causal", "tabular"),  # an influence diagram with sufficient recall is an MDP of contexts
        ("gridworld", "tabular"),  # a grid world converts itself to a TabularMDP
    }
)
# Packages of which nothing but what `__init__` exports is imported from outside.
FRONTS = ("goalmeter.meg.causal.search",)
# What a world or an instrument may use of `report`: numbers as text, graphs as pictures and tables
# for notebooks. Pages are drawn above, in `pages`, from what an instrument measured.
REPORT_FOR_RESULTS = (
    "goalmeter.report.numbers",
    "goalmeter.report.diagram",
    "goalmeter.report.notebook",
)
DRAW_NO_PAGE = frozenset(room for floor in FLOORS[4:7] for room in floor)
# The root gathers names from anywhere, so only those who use the library as a user may import it.
MAY_IMPORT_ROOT = frozenset({"__main__", "cli", "commands", "experiments"})

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
            return f"{room!r} has no floor; give it one in FLOORS of tests/test_house.py"
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


def file_graph(src: Path) -> dict[str, list[Import]]:
    """What every file imports."""
    paths = {}
    for path in sorted((src / "goalmeter").rglob("*.py")):
        module = module_name(path, src)
        paths[module.removesuffix(".__init__")] = (module, path)
    return {
        name: list(imported_files(ast.parse(path.read_text("utf-8")), module, paths))
        for name, (module, path) in paths.items()
    }


def file_problems(src: Path) -> list[str]:
    """Files that import each other in a circle, and files behind a front that are reached for."""
    imports = file_graph(src)
    graph = {
        name: {i.target for i in its_imports} - {name} for name, its_imports in imports.items()
    }
    problems = []
    if circle := find_circle(graph):
        problems.append("files import each other in a circle: " + " -> ".join(circle))
    for name, its_imports in imports.items():
        for line, target in its_imports:
            for front in FRONTS:
                behind = target.startswith(f"{front}.")
                if behind and name != front and not name.startswith(f"{front}."):
                    problems.append(f"{name}:{line}: imports {target}, expected it from {front}")
    return problems


def house_problems(src: Path) -> list[str]:
    """Every import under `src/goalmeter` that breaks a rule: file, line, import, rule."""
    problems: list[str] = []
    graph: dict[str, set[str]] = {}
    for path in sorted((src / "goalmeter").rglob("*.py")):
        where, module = path.relative_to(src).as_posix(), module_name(path, src)
        importer = module.split(".")[1]
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
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


def build(folder: Path, files: dict[str, str]) -> Path:
    """A small goalmeter of the given files (paths below the package); returns its `src`."""
    for name, text in files.items():
        path = folder / "src" / "goalmeter" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "src"


def test_imports_point_down() -> None:
    problems = house_problems(SRC)
    assert not problems, "\n" + "\n".join(problems)


def test_no_files_import_each_other_in_a_circle() -> None:
    problems = file_problems(SRC)
    assert not problems, "\n" + "\n".join(problems)


def test_neighbours_share_a_floor() -> None:
    # An entry for rooms on different floors would say nothing, or permit nothing.
    assert [pair for pair in ALLOWED_NEIGHBOURS if height(pair[0]) != height(pair[1])] == []


@pytest.mark.parametrize(
    ("file", "text", "complaints"),
    [
        ("tabular/mdp.py", "import goalmeter.meg\n", ["mdp.py:1:", "goalmeter.meg", "lies above"]),
        ("tabular/mdp.py", "from goalmeter import cli\n", ["goalmeter.cli", "lies above"]),
        ("tabular/mdp.py", "x = 1\ndef f():\n    from ..agents import a\n", ["mdp.py:3:"]),
        (
            "tabular/mdp.py",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .. import meg\n",
            ["mdp.py:3:", "goalmeter.meg"],
        ),
        ("meg/__init__.py", "from ..report import page\n", ["meg/__init__.py:1:", "draw no page"]),
        ("meg/a.py", "from importlib import import_module as i\n", []),
        ("meg/a.py", "import importlib\nimportlib.import_module('goalmeter.cli')\n", ["a.py:2:"]),
        ("meg/a.py", "from ..reflection import measure\n", ["a.py:1:", "share a floor"]),
        ("meg/a.py", "import goalmeter as gm\n", ["a.py:1:", "import from the room itself"]),
        ("meg/a.py", "from goalmeter import TabularMDP\n", ["import from the room itself"]),
        ("meg/a.py", "from ... import numpy\n", ["a.py:1:", "leaves the package"]),
        ("attic/a.py", "import goalmeter.runs\n", ["'attic' has no floor"]),
        ("report/page.py", "from goalmeter.experiments import x\n", ["lies above"]),
        ("_types.py", "from .runs import store\n", ["_types.py:1:", "lies above"]),
        ("meg/a.py", "from .\n", ["a.py:1:", "does not parse"]),
        ("meg/deep/a.py", "from ..b import c\nfrom ...tabular import d\nimport numpy\n", []),
        ("representation/a.py", "from ..navigation import b\n", []),
        ("cli.py", "import goalmeter\nfrom . import experiments, report\n", []),
        ("__init__.py", "from .cli import main\nfrom goalmeter.meg import known_utility\n", []),
        ("meg/b.py", "from goalmeter.report.numbers import nats\n", []),
        ("meg/a.py", "from .._errors import E\nfrom goalmeter import _types\n", []),
    ],
)
def test_the_checker_reports_what_breaks_a_rule_and_nothing_else(
    tmp_path: Path, file: str, text: str, complaints: list[str]
) -> None:
    problems = house_problems(build(tmp_path, {file: text}))
    assert len(problems) == bool(complaints), problems
    assert all(words in problems[0] for words in complaints), problems


def test_the_checker_reports_a_circle(tmp_path: Path) -> None:
    files = {"_a.py": "from . import _b\n", "_b.py": "import goalmeter._a\n"}
    (problem,) = house_problems(build(tmp_path, files))
    assert problem.endswith("_a -> _b -> _a")


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"meg/a.py": "from goalmeter.meg.b import x\n", "meg/b.py": "import goalmeter.meg\n"}, ""),
        (
            {"meg/a.py": "from goalmeter.meg.b import x\n", "meg/b.py": "from . import a\n"},
            "a circle: goalmeter.meg.a -> goalmeter.meg.b -> goalmeter.meg.a",
        ),
        # An import inside a function is an import; one for type checkers is none.
        (
            {
                "meg/a.py": "def f():\n    from goalmeter.meg import b\n",
                "meg/b.py": "from goalmeter.meg.a import f\n",
            },
            "a circle: goalmeter.meg.a -> goalmeter.meg.b -> goalmeter.meg.a",
        ),
        (
            {
                "meg/a.py": "if TYPE_CHECKING:\n    from goalmeter.meg.b import f\n",
                "meg/b.py": "from goalmeter.meg.a import f\n",
            },
            "",
        ),
        (
            {"meg/__init__.py": "from goalmeter.meg.a import f\n", "meg/a.py": "from . import g\n"},
            "a circle: goalmeter.meg -> goalmeter.meg.a -> goalmeter.meg",
        ),
        (
            {
                "meg/causal/search/__init__.py": "from goalmeter.meg.causal.search.a import f\n",
                "meg/causal/search/a.py": "",
                "meg/b.py": "from goalmeter.meg.causal.search import f\n",
                "meg/c.py": "x = 1\nfrom goalmeter.meg.causal.search.a import f\n",
            },
            "goalmeter.meg.c:2: imports goalmeter.meg.causal.search.a, expected it from",
        ),
    ],
)
def test_the_checker_reports_circles_of_files_and_what_is_behind_a_front(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    files = {"__init__.py": "", "meg/__init__.py": "", **files}
    problems = file_problems(build(tmp_path, files))
    assert len(problems) == bool(message), problems
    assert message in "".join(problems)


# --- Instruments ----------------------------------------------------------------------------------
# How a command is spelled is known to `commands` and `cli`: those below say what is missing, and
# work as well for somebody who has no command line.
A_COMMAND = re.compile(r"\bgoalmeter (?:navigate|reflect|meg|probe|report|replicate|status|demo)\b")


def spelled_commands(text: str) -> list[str]:
    """Every string of a file that spells a command, with its line; docstrings are strings too."""
    return [
        f"{node.lineno}: {node.value.strip()[:80]!r}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and A_COMMAND.search(node.value)
    ]


def test_no_instrument_spells_a_command_line() -> None:
    problems = [
        f"{path.relative_to(SRC)}:{line}"
        for room in sorted(room for floor in FLOORS[4:] for room in floor)
        for path in sorted((SRC / "goalmeter" / room).rglob("*.py"))
        for line in spelled_commands(path.read_text(encoding="utf-8"))
    ]
    assert not problems, "\n" + "\n".join(problems)


def test_commands_in_strings_are_seen() -> None:
    assert spelled_commands("x = f'go on with goalmeter navigate {y}'") != []
    assert spelled_commands("x = 'goalmeter navigates; goalmeter.navigation.measure'") == []


def test_only_what_is_inspect_s_imports_it() -> None:
    importers = {
        path.relative_to(SRC / "goalmeter" / "navigation").parts[0]
        for path in (SRC / "goalmeter" / "navigation").rglob("*.py")
        if re.search(r"^\s*(?:import|from) inspect_ai\b", path.read_text("utf-8"), re.MULTILINE)
    }
    assert importers == {"inspect"}


# --- Light imports --------------------------------------------------------------------------------
HEAVY_FOR_CLI = ["torch", "matplotlib", "gymnasium"]
HEAVY_FOR_ROOT = [*HEAVY_FOR_CLI, "jinja2", "typer", "scipy.optimize", "scipy.stats"]


@pytest.mark.parametrize(
    ("module", "file", "heavy"),
    [
        ("goalmeter", "__init__.py", HEAVY_FOR_ROOT),
        ("goalmeter.cli", "cli/__init__.py", HEAVY_FOR_CLI),
    ],
)
def test_import_is_light(module: str, file: str, heavy: list[str]) -> None:
    if not (SRC / "goalmeter" / file).exists():
        pytest.skip(f"src/goalmeter/{file} is not written yet")
    program = (
        f"import sys; sys.path.insert(0, {str(SRC)!r}); import {module}; "
        f"print(*[name for name in {heavy!r} if name in sys.modules])"
    )
    # A fresh interpreter: in this one other tests have imported everything.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    hint = f"import it in the function that needs it; python -X importtime -c 'import {module}'"
    assert not loaded, f"import {module} loads {loaded}; {hint} shows who does"


# --- No file knows a machine ----------------------------------------------------------------------
# Spelled so that this file is clean. What stands before the slash tells an absolute path from the
# middle of a relative one or of a web address.
MACHINE_PATH = re.compile(r"(?:file://|(?<![\w./~$})>*-]))/(?:" + "home|root|work|tmp" + r")/")
CHECKED_SUFFIXES = frozenset({".py", ".md", ".toml", ".txt", ".cff", ".json"})
CHECKED_FILES = frozenset({"Makefile", ".ci/run"})


def tracked_files() -> list[str]:
    # CI may own the checkout as another user, which git would otherwise refuse.
    git = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
    try:
        listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout, so nothing says which files are tracked")
    return [name for name in listed.split("\0") if name]


def machine_paths(name: str, text: str) -> list[str]:
    lines = enumerate(text.splitlines(), start=1)
    return [f"{name}:{n}: {line.strip()}" for n, line in lines if MACHINE_PATH.search(line)]


def test_no_tracked_file_names_a_path_of_a_machine() -> None:
    paths: list[str] = []
    for name in tracked_files():
        path = ROOT / name
        wanted = name in CHECKED_FILES or path.suffix in CHECKED_SUFFIXES
        if wanted and path.is_file():  # a file removed but not yet committed is still listed
            paths += machine_paths(name, path.read_text(encoding="utf-8"))
    assert not paths, "\n" + "\n".join(paths)


@pytest.mark.parametrize("folder", ["home", "root", "work", "tmp"])
def test_the_pattern_tells_absolute_paths(folder: str) -> None:
    path = f"/{folder}/x"
    for text in (path, f"open('{path}')", f"OUT={path}", f"cd {path}", f"file://{path}"):
        assert machine_paths("f.py", text) == [f"f.py:1: {text}"]
    for text in (
        f"docs{path}",
        f"..{path}",
        f"$(HOME){path}",
        f"https://a.org{path}",
        f"/{folder}",
    ):
        assert machine_paths("f.py", text) == []
