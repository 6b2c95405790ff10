"""The specifications at the heads of the files: their headings, and the returns they state."""

from __future__ import annotations

import re
from itertools import accumulate

import pytest
from reflection.simple_agents import BLIND, KNOWN
from reflection.test_environments import interact

from goalmeter.reflection.environments import ENVIRONMENTS, Environment
from goalmeter.reflection.environments.registry import HEADINGS

LENGTH = 64
STATED = re.compile(r"(opposite, )?([a-z][a-z0-9 -]*): (.+)")


def known_returns(environment: Environment) -> list[tuple[bool, str, str]]:
    """(whether in the opposite, agent, formula) of each line under the last heading."""
    stated = [STATED.fullmatch(line) for line in environment.known_returns]
    assert all(stated), environment.name
    return [(bool(line[1]), line[2], line[3]) for line in stated if line]


def totals(environment: Environment, reading: str, name: str, seed: int) -> tuple[list[int], list]:
    """Of 1, 2, ... percepts: the sums of the rewards; and the percepts."""
    agent = KNOWN[name].steps
    x, _ = interact(environment, reading, agent, agent, seed, LENGTH)
    return list(accumulate(reward for reward, _ in x)), x


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_specification_has_its_headings(environment: Environment) -> None:
    specification = environment.specification
    assert tuple(specification) == HEADINGS
    doc = environment.run.__doc__ or ""
    assert doc.startswith(f"{environment.name}: {environment.idea}\n\n    Idea: ")
    assert re.match(rf"{environment.n_actions}\b", specification["Actions"])
    assert re.match(rf"{environment.n_observations}\b", specification["Observations"])
    assert all(f'`{option}="' in doc or f"{option}=" in doc for option in environment.run.options)


@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_known_returns(environment: Environment) -> None:
    stated = known_returns(environment)
    assert {(False, "constant 0"), (False, "constant 1")} <= {line[:2] for line in stated}
    for seed in range(2):
        for is_opposite, name, formula in stated:
            reading = "literal" if is_opposite else "itself"
            reached, x = totals(environment, reading, name, seed)
            for n in range(1, LENGTH + 1):

                def seen(o: int, n: int = n, x: list = x) -> int:
                    return sum(observation == o for _, observation in x[: n - 1])

                expected = eval(formula, {"n": n, "seen": seen, "min": min})
                assert reached[n - 1] == expected, f"{name} in {environment.name}, n = {n}"


@pytest.mark.parametrize("reading", ["literal", "unnegated"])
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_agents_that_notice_no_reward_get_minus_the_total_in_the_opposite(
    environment: Environment, reading: str
) -> None:
    for name in BLIND:
        if (environment.name, reading, name) == ("IgnoreRewards2", "literal", "alternate"):
            continue  # alternate counts turns, and the rewards decide how many the copy remembers
        there, _ = totals(environment, "itself", name, 5)
        reached, _ = totals(environment, reading, name, 5)
        assert reached == [-total for total in there]
