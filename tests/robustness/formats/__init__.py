"""The formats that are damaged: each file of this folder adds its own by `FORMATS`."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random


@dataclass(frozen=True)
class Format:
    """Something that goalmeter reads.

    Attributes:
        name: on the command line of the fuzzer.
        prepare: writes valid inputs to an empty folder, once.
        damage: damages a fresh copy of them, and gives the arguments of a command that reads them;
            the command runs in that folder.
        valid: arguments of a command that succeeds on the valid inputs, which is tried first: where
            everything is refused, nothing was tried.
        cases: how many in `make test`; those that take long have fewer.
        imports: modules that the command imports late. They are imported before memory is counted.
        needs: modules without which there is nothing to try.
    """

    name: str
    prepare: Callable[[Path], None]
    damage: Callable[[Path, Random], list[str]]
    valid: tuple[str, ...] = ()
    cases: int = 40
    imports: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


def formats() -> dict[str, Format]:
    """Every format by its name."""
    by_name: dict[str, Format] = {}
    for module in sorted(each.name for each in pkgutil.iter_modules(__path__)):
        for each in import_module(f"{__name__}.{module}").FORMATS:
            assert each.name not in by_name, f"two formats are called {each.name}"
            by_name[each.name] = each
    return by_name
