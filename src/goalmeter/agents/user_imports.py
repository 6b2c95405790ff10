"""Which files a user's file is made of: itself, and its neighbours that it imports.

Found without running anything, from the import statements, so what is imported by other means, or
read as data, is not found. What Python itself calls by a name is never a neighbour, since a file's
folder is searched last.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path


def files_of(path: str) -> list[str]:
    """A user's file, and those of its folder that it imports, also by way of others.

    Args:
        path: of the file, which need not be there.

    Returns:
        Paths, the file's own first; the others lie below the same folder.
    """
    folder = Path(path).parent
    files: dict[str, None] = {path: None}
    left = [Path(path)]
    while left:
        file = left.pop()
        for names in _imports(file, folder):
            for other in _files(folder, names):
                if str(other) not in files:
                    files[str(other)] = None
                    left.append(other)
    return list(files)


def _imports(file: Path, folder: Path) -> Iterator[tuple[str, ...]]:
    """The parts of every dotted name that a file imports, also inside functions."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):  # whoever runs it is told
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
    """What importing a dotted name runs: each package on the way, and the module."""
    if not names or names[0] in sys.stdlib_module_names:
        return
    for end in range(1, len(names) + 1):
        at = Path(folder, *names[:end])
        for file in (at / "__init__.py", at.with_name(f"{at.name}.py")):
            if file.is_file():
                yield file
                break
