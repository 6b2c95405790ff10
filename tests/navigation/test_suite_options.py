"""Options of suites: one object; and a name of a suite stands in its own file."""

from __future__ import annotations

import ast
import json
from dataclasses import fields
from pathlib import Path

import pytest

from goalmeter.commands.options import SUITE_OPTIONS
from goalmeter.navigation import SUITES, SuiteOptions, suite_named, suites


@pytest.mark.parametrize("name", SUITES)
def test_options_are_what_their_json_says(name: str) -> None:
    record = suite_named(name)
    asked = SuiteOptions(paper=True, grids=3, seed=2, held_out=True)
    resolved = record.resolve(asked)
    written = json.loads(json.dumps(resolved.to_json()))
    assert record.resolve(SuiteOptions.from_json(written)) == resolved
    assert record.resolve(resolved) == resolved  # nothing is left to the suite


def test_the_command_line_has_every_option_of_a_suite() -> None:
    # The suite's own seed is the seed of everything, an option that all commands have.
    assert set(SUITE_OPTIONS) == {each.name for each in fields(SuiteOptions)} - {"seed"}


def test_a_suite_is_named_in_its_own_file_only() -> None:
    # "maze" may stand elsewhere too, as what is measured if no suite is named.
    named = {}
    source = Path(suites.__file__).parents[2]
    for path in source.rglob("*.py"):
        where = path.relative_to(source)
        # Worlds are drawn from streams that bear their names, and lessons are made of them.
        if where.parts[0] not in ("gridworld", "organisms"):
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
            named[where.as_posix()] = texts & {name for name in SUITES if name != "maze"}
    assert {where: names for where, names in named.items() if names} == {
        f"navigation/suites/{name.replace('-', '_')}.py": {name}
        for name in SUITES
        if name != "maze"
    }
