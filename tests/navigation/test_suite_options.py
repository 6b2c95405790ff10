"""Options of suites: one object; and a name of a suite stands in its own file."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from goalmeter.commands.options import SUITE_OPTIONS
from goalmeter.navigation import SUITES, SuiteOptions, suite_named


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
