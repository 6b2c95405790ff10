"""Load code from a user's file by path and name: FILE.py:NAME."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, cast
from zlib import crc32

import numpy as np

from goalmeter._errors import (
    GoalmeterError,
    InvalidFileError,
    InvalidParameterError,
    MissingExtraError,
    in_a_line,
    shown,
)
from goalmeter._files import digest

_SPELLED = re.compile(r"(.+\.py):(.*)", re.DOTALL)


def split_name(spelled: str) -> tuple[str, str] | None:
    """Return file and name of FILE.py:NAME, or None for any other name."""
    parts = _SPELLED.fullmatch(spelled.strip())
    return (parts[1], parts[2]) if parts else None


def canonical(spelled: str) -> str:
    """Return FILE.py:NAME with the canonical path of the file; any other name unchanged."""
    parts = split_name(spelled)
    return spelled if parts is None else f"{from_here(parts[0])}:{parts[1]}"


def from_here(path: str | Path) -> str:
    """Return the canonical path: relative within the working directory, else absolute."""
    path, folder = Path(path), Path.cwd().resolve()
    full = path.parent.resolve() / path.name  # a link to a file keeps its own name
    return str(full.relative_to(folder) if full.is_relative_to(folder) else full)


def misspelled(name: str, example: str) -> str:
    """Return the spelling error of an unknown name, or "" if none is recognized."""
    if name.count("(") != name.count(")"):
        return "a bracket is missing"
    path, colon, attribute = name.rpartition(":")
    if colon:
        if path.isidentifier() and attribute.isidentifier():
            example = f"{path}.py:{attribute}"
        return f"{path!r} is not a Python file, expected a file that ends in .py, as in {example}"
    return ""


def load(path: str | Path, name: str, *, kind: str) -> Any:
    """Run a Python file and return the object with a name; `kind` describes it in errors."""
    return member_of(run_file(path, kind), path, name, kind)


def member_of(module: ModuleType, path: str | Path, name: str, kind: str) -> Any:
    """Return the object with a name from the module of a file."""
    member = getattr(module, name, None)
    if member is None:
        defined = [key for key, value in vars(module).items() if key[0] != "_" and callable(value)]
        nearest = get_close_matches(name, defined, n=1)
        raise InvalidFileError(
            f"{path} has no {kind} {name!r}"
            + (f"; did you mean {path}:{nearest[0]}?" if nearest else "; define it there")
        )
    return member


def run_file(path: str | Path, kind: str) -> ModuleType:
    """Run a Python file and return its module; `kind` as for `load`."""
    path = Path(path)
    if not path.is_file():
        article = "an" if kind[0] in "aeio" else "a"
        raise InvalidFileError(
            f"there is no file {path}, expected the path of {article} {kind}, FILE.py:NAME"
        )
    where = path.resolve()
    # The checksum distinguishes files of one name, which become different modules.
    spec = importlib.util.spec_from_file_location(
        f"goalmeter_user_{where.stem}_{crc32(os.fsencode(where)):08x}", where
    )
    assert spec is not None and spec.loader is not None, "its name ends in .py"
    module = importlib.util.module_from_spec(spec)
    # The directory comes last, so that a local random.py does not hide Python's module. It stays in
    # the path for imports inside functions.
    if str(where.parent) not in sys.path:
        sys.path.append(str(where.parent))
    sys.modules[spec.name] = module  # dataclasses require this entry
    try:
        spec.loader.exec_module(module)
    except BaseException as cause:
        sys.modules.pop(spec.name, None)
        if isinstance(cause, KeyboardInterrupt):
            raise
        raise InvalidFileError(
            f"{path} raises an error{line_of(cause, where)}: {type(cause).__name__}: {cause}; fix "
            f"it, and test it with: python {path}"
        ) from cause
    return module


class UserCode:
    """What a command takes from users' files; each file is run once: it may train what it holds."""

    def __init__(self) -> None:
        self._modules: dict[Path, ModuleType] = {}

    def member(self, spelled: str, kind: str) -> Any:
        """Return what FILE.py:NAME stands for; `kind` is for the errors."""
        if (parts := split_name(spelled)) is None:
            raise InvalidParameterError(
                f"{shown(spelled)} names no {kind} in a file, as FILE.py:NAME"
            )
        path, name = parts
        key = Path(path).resolve()
        if key not in self._modules:
            self._modules[key] = run_file(path, kind)
        return member_of(self._modules[key], path, name, kind)

    def function(self, spelled: str, kind: str) -> Callable[..., Any]:
        """Return the function that FILE.py:NAME stands for."""
        member = self.member(spelled, kind)
        if not callable(member):
            raise InvalidFileError(f"{spelled} is {shown(member)}, expected a function")
        return cast(Callable[..., Any], member)


@contextmanager
def caller_guard(spelled: str = "") -> Iterator[None]:
    """Run a caller's code; convert all its exceptions, including SystemExit, to one error.

    The code is that of FILE.py:NAME, or that of an environment, an agent and utilities.
    """
    try:
        # Its calls of np.seterr must not affect other code.
        with np.errstate():
            yield
    except (GoalmeterError, MissingExtraError, KeyboardInterrupt):
        raise
    except BaseException as cause:
        if spelled:
            where = line_of(cause, Path(spelled.rpartition(":")[0]).resolve())
            name, words = type(cause).__name__, in_a_line(cause)
            said = words if words.startswith(name) else f"{name}: {words}"
            raise InvalidParameterError(f"{spelled} fails{where}: {said}; mend it") from cause
        file, line = traceback.extract_tb(cause.__traceback__)[-1][:2]
        # A call with wrong arguments is raised in our own code.
        is_ours = Path(file).is_relative_to(Path(__file__).parents[1])
        raise InvalidParameterError(
            f"the environment, the agent or a utility raised {in_a_line(cause)}; expected code "
            f"that follows gymnasium.Env and does not exit the process"
            + ("" if is_ours else f" (raised in {Path(file).name}, line {line})")
        ) from cause


def contents(names: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of every file that names stand for, or that such a file imports."""
    paths: set[str] = set()
    for spelled in map(canonical, names):
        prefix, _, path = spelled.partition(":")
        if (parts := split_name(spelled)) is not None:
            paths |= set(files_of(parts[0]))
        elif prefix in ("sb3", "policy"):
            paths.add(path)
    return {path: digest(path) for path in sorted(paths)}


def line_of(cause: BaseException, where: Path) -> str:
    """Return the line of a file in which an error occurred, as ", in line 3", or ""."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(cause.__traceback__)
        if frame.filename == str(where)
    ]
    return f", in line {lines[-1]}" if lines else ""


def files_of(path: str) -> list[str]:
    """Return a user's file, which may be missing, and all local modules that it imports."""
    # The code is parsed, not run, so dynamic imports and data files are not included.
    folder, files = Path(path).parent, [path]
    for file in files:  # the list grows during the loop
        for names in _imports(Path(file), folder):
            files += [str(new) for new in _files(folder, names) if str(new) not in files]
    return files


def _imports(file: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the parts of every dotted name that a file imports, also inside functions."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # reported when the file is run
        return
    package = file.parent.relative_to(folder).parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = (*above, *(node.module.split(".") if node.module else ()))
            yield from ((*base, alias.name) for alias in node.names)


def _files(folder: Path, names: tuple[str, ...]) -> Iterator[Path]:
    """Yield the local files that are run when a dotted name is imported."""
    # Modules of the standard library take precedence over local files.
    if not names or names[0] in sys.stdlib_module_names:
        return
    for end in range(1, len(names) + 1):
        at = Path(folder, *names[:end])
        for file in (at / "__init__.py", at.with_name(f"{at.name}.py")):
            if file.is_file():
                yield file
                break
