"""A model is refused that would hardly have written the answers that are to be read."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.gridworld.planner import State
from goalmeter.representation.measure import check_author
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Sample
from goalmeter.representation.use.interventions import answer_all
from replications.organism_use.study import mazes, question_at, with_tokens


@pytest.fixture(scope="module", params=[0.0, 1.0, 3.0])
def answered(request: pytest.FixtureRequest, mouse: Network) -> tuple[list[Sample], float]:
    """First decisions of the mouse, drawn at a temperature."""
    heat: float = request.param
    asked = [
        with_tokens(mouse, question_at(task, State(task.world.start)))
        for task in mazes(7, 2, seed=3)
    ]
    answers = answer_all(mouse, asked, tokens=80, temperature=heat, seed=1)
    written = [answer.tokens for answer in answers]
    return [replace(each, answer=ids) for each, ids in zip(asked, written, strict=True)], heat


def test_its_own_answers_pass_at_any_temperature(
    mouse: Network, answered: tuple[list[Sample], float]
) -> None:
    check_author(answered[0], mouse, answered[1])


def test_another_model_is_refused(answered: tuple[list[Sample], float]) -> None:
    """The mole takes some walls for open, so its search would have said other cells."""
    mole = Network.open("goalmeter/mole")
    with pytest.raises(InvalidTrajectoryError, match="goalmeter/mole has not written these answ"):
        check_author(answered[0], mole, min(answered[1], 1.0))


def test_broken_weights_are_refused(mouse: Network, answered: tuple[list[Sample], float]) -> None:
    import torch

    broken = copy.deepcopy(mouse)
    with torch.no_grad():
        next(broken.local.model.parameters())[:] = float("nan")
    with pytest.raises(InvalidTrajectoryError, match=r"not finite at step 0 of .*weights are"):
        check_author(answered[0], broken)
