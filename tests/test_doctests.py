"""Every example in a docstring of the package is run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import goalmeter
from goalmeter._errors import MissingExtraError

ROOT = Path(next(iter(goalmeter.__path__)))
EXTRAS = frozenset({"torch", "gymnasium", "matplotlib", "jinja2"})


def modules() -> list[str]:
    names = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        if parts[-1] == "__main__":  # importing it runs the command line
            continue
        names.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return names


@pytest.mark.parametrize("name", modules())
def test_the_examples_of_a_module(name: str) -> None:
    try:
        module = importlib.import_module(name)
    except (MissingExtraError, ModuleNotFoundError) as error:
        missing = getattr(error, "name", None)
        if not isinstance(error, MissingExtraError) and missing not in EXTRAS:
            raise
        pytest.skip(f"{name} needs an extra: {error}")
    result = doctest.testmod(module)
    assert result.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    core = [name for name in modules() if name.split(".")[1:2] in (["tabular"], ["meg"])]
    examples = [test for name in core for test in finder.find(importlib.import_module(name))]
    assert sum(bool(test.examples) for test in examples) >= 8
