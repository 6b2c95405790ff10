"""Ids of the grid worlds in Gymnasium's registry, added when Gymnasium is imported.

Gymnasium 1.0 and later load no entry points of other packages, so only a package that was imported
can add ids, and importing Gymnasium here would make `import goalmeter` slow.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# Gymnasium's rule: whoever changes how one of these behaves counts its version up.
IDS = {
    "goalmeter/GridWorld-v0": "GridWorldEnv",
    "goalmeter/Maze-v0": "MazeEnv",
    "goalmeter/KeyDoor-v0": "KeyDoorEnv",
    "goalmeter/KeyNoDoor-v0": "KeyNoDoorEnv",
    "goalmeter/TwoPathKey-v0": "TwoPathKeyEnv",
}


def register() -> None:
    """Make the ids known to Gymnasium: now if it is imported, else as soon as it is."""
    gymnasium = sys.modules.get("gymnasium")
    if gymnasium is not None:
        _register_in(gymnasium)
    elif not any(isinstance(finder, _OnImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OnImport())


def _register_in(gymnasium: ModuleType) -> None:
    for name, class_ in IDS.items():
        if name not in gymnasium.registry:
            # The class is imported when the first environment is made.
            entry_point = f"goalmeter.gridworld.gymnasium_worlds:{class_}"
            gymnasium.register(name, entry_point=entry_point)


class _OnImport(MetaPathFinder):
    """Finds Gymnasium as the other finders do, and has the ids added once its code has run."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(fullname, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_register(module: ModuleType) -> None:
                execute(module)
                _register_in(module)

            # Who only asks whether Gymnasium is there gets a spec too, and runs nothing.
            spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec
