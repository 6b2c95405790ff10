"""The house holds: imports point down, `import goalmeter` is light, no file knows a machine."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ceilings import ceilings, long_signatures, repeated_class_names, sizes, total
from house import (
    ALLOWED_NEIGHBOURS,
    FLOORS,
    REPLICATIONS,
    ROOT,
    SRC,
    file_problems,
    height,
    house_problems,
    parsed,
    private_imports,
)


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


def test_studies_import_public_names_only() -> None:
    assert private_imports(REPLICATIONS) == set()


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
        ("report/page.py", "from goalmeter.demo import x\n", ["lies above"]),
        ("_types.py", "from .runs import store\n", ["_types.py:1:", "lies above"]),
        ("meg/a.py", "from .\n", ["a.py:1:", "does not parse"]),
        ("meg/deep/a.py", "from ..b import c\nfrom ...tabular import d\nimport numpy\n", []),
        ("representation/a.py", "from ..navigation import b\n", []),
        ("cli.py", "import goalmeter\nfrom . import demo, report\n", []),
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
    ],
)
def test_the_checker_reports_circles_of_files(
    tmp_path: Path, files: dict[str, str], message: str
) -> None:
    files = {"__init__.py": "", "meg/__init__.py": "", **files}
    problems = file_problems(build(tmp_path, files))
    assert len(problems) == bool(message), problems
    assert message in "".join(problems)


# --- Size -----------------------------------------------------------------------------------------
def test_no_package_grows() -> None:
    counted = sizes()
    counted["total"] = total(counted)
    limits = ceilings()
    grown = [
        f"{name}: {count} {unit}, at most {limits[unit].get(name, 0)}"
        for name, size in counted.items()
        for unit, count in size._asdict().items()
        if count > limits[unit].get(name, 0)
    ]
    hint = "remove lines, or raise tests/ceilings.toml and say why in CHANGELOG.md"
    assert not grown, "\n" + "\n".join([*grown, hint])


def test_no_more_long_signatures_or_repeated_class_names() -> None:
    limits = ceilings()["names"]
    assert len(found := long_signatures()) <= limits["long_signatures"], "\n".join(found)
    assert len(found := repeated_class_names()) <= limits["repeated_class_names"], found


# --- Instruments ----------------------------------------------------------------------------------
# How a command is spelled is known to `commands` and `cli`: those below say what is missing, and
# work as well for somebody who has no command line.
A_COMMAND = re.compile(r"\bgoalmeter (?:navigate|reflect|meg|probe|report|replicate|status|demo)\b")


def spelled_commands(text: str) -> list[str]:
    """Every string of a file that spells a command, with its line; docstrings are strings too."""
    return [
        f"{node.lineno}: {node.value.strip()[:80]!r}"
        for node in ast.walk(parsed(text))
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
HEAVY_FOR_ROOMS = [*HEAVY_FOR_CLI, "jinja2", "typer", "scipy.optimize", "scipy.stats"]
HEAVY_FOR_WORKERS = [*HEAVY_FOR_ROOMS, "numpy", "scipy"]
ROOMS = "goalmeter.agents, goalmeter.causal, goalmeter.gridworld, goalmeter.meg, " + (
    "goalmeter.navigation, goalmeter.reflection, goalmeter.representation, goalmeter.tabular"
)


@pytest.mark.parametrize(
    ("modules", "heavy"),
    [
        ("goalmeter, goalmeter.runs.backends.processes", HEAVY_FOR_WORKERS),
        (ROOMS, HEAVY_FOR_ROOMS),
        ("goalmeter.cli", HEAVY_FOR_CLI),
    ],
    ids=["worker", "rooms", "cli"],
)
def test_import_is_light(modules: str, heavy: list[str]) -> None:
    program = (
        f"import sys; sys.path.insert(0, {str(SRC)!r}); import {modules}; "
        f"print(*[name for name in {heavy!r} if name in sys.modules])"
    )
    # A fresh interpreter: in this one other tests have imported everything.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.split()
    hint = f"import it in the function that needs it; python -X importtime -c 'import {modules}'"
    assert not loaded, f"import {modules} loads {loaded}; {hint} shows who does"


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
