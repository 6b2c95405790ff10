"""Count what `test_house.py` limits: lines and files per package, parameters, class names.

`PYTHONPATH=tests python -m ceilings` prints the counts as they belong into `ceilings.toml`.
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from house import ROOT, SRC

FILE = Path(__file__).with_name("ceilings.toml")
MOST_PARAMETERS = 7


class Size(NamedTuple):
    """The size of a group of Python files."""

    lines: int
    files: int


def sizes() -> dict[str, Size]:
    """The size of each package of goalmeter, of its root modules, of the studies and the tests."""
    package = SRC / "goalmeter"
    groups = {path.name: sorted(path.rglob("*.py")) for path in package.iterdir() if path.is_dir()}
    groups["root modules"] = sorted(package.glob("*.py"))
    for name in ("replications", "tests"):
        groups[name] = sorted((ROOT / name).rglob("*.py"))
    simulator = package / "meg" / "simulator"
    groups["meg/simulator"] = sorted(simulator.rglob("*.py"))
    groups["meg"] = [path for path in groups["meg"] if simulator not in path.parents]
    return {name: _size(files) for name, files in sorted(groups.items()) if files}


def total(counted: dict[str, Size]) -> Size:
    """The size of the package, without studies and tests."""
    inside = [size for name, size in counted.items() if name not in ("replications", "tests")]
    return Size(sum(s.lines for s in inside), sum(s.files for s in inside))


def long_signatures() -> list[str]:
    """Functions of the package with more than seven parameters; `self` and `cls` do not count."""
    return [
        f"{path.relative_to(SRC)}:{node.lineno}: {node.name}"
        for path in sorted((SRC / "goalmeter").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and _parameters(node.args) > MOST_PARAMETERS
    ]


def repeated_class_names() -> list[str]:
    """Names of classes that two or more files of the package define; private ones do not count."""
    names = Counter(
        node.name
        for path in (SRC / "goalmeter").rglob("*.py")
        for node in ast.parse(path.read_bytes()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return sorted(name for name, count in names.items() if count > 1)


def ceilings() -> dict[str, dict[str, int]]:
    """The limits in `ceilings.toml`."""
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def _size(files: list[Path]) -> Size:
    return Size(sum(file.read_bytes().count(b"\n") for file in files), len(files))


def _parameters(arguments: ast.arguments) -> int:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return sum(argument.arg not in ("self", "cls") for argument in named)


if __name__ == "__main__":
    counted = sizes()
    print("[lines]")
    print(f"total = {total(counted).lines}")
    print("\n".join(f'"{name}" = {size.lines}' for name, size in counted.items()))
    print(f"\n[files]\ntotal = {total(counted).files}")
    print("\n".join(f'"{name}" = {size.files}' for name, size in counted.items()))
    print(f"\n[names]\nlong_signatures = {len(long_signatures())}")
    print(f"repeated_class_names = {len(repeated_class_names())}")
