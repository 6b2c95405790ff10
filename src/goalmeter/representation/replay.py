"""Recorded decisions of a language model as the tokens that it read and wrote.

A replay needs the tokens themselves. The text of an answer does not bring them back: the same
words can be cut into tokens in several ways, and the activations belong to the way in which the
model wrote them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from goalmeter._errors import InvalidTrajectoryError
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import GridWorld
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.playing import load
from goalmeter.navigation.record import Step, Trajectory
from goalmeter.representation.network import Network
from goalmeter.representation.scenes import Scenes


@dataclass(frozen=True)
class Sample:
    """One decision of a recorded walk.

    Attributes:
        walk: key of the walk in its run.
        step: number of the decision in the walk, from 0.
        world: where it was made.
        state: where the agent was.
        action: what it did, 0 to 3; None for an answer that could not be read.
        optimal: the actions that lead one step closer to the goal.
        question: the text of the prompt, without the markers of a chat.
        prompt: ids of the prompt's tokens, those markers included.
        answer: ids of the answer's tokens.
    """

    walk: str
    step: int
    world: GridWorld
    state: State
    action: int | None
    optimal: tuple[int, ...]
    question: str
    prompt: tuple[int, ...]
    answer: tuple[int, ...]

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens that are replayed: the prompt and then the answer."""
        return self.prompt + self.answer

    @property
    def digest(self) -> str:
        """The SHA-256 of the ids as little-endian 64-bit numbers, in hexadecimal digits.

        Two rows of activations with the same digest are of the same forward pass.
        """
        return digest_of(self.ids)


def digest_of(ids: Iterable[int]) -> str:
    """The SHA-256 of token ids as little-endian 64-bit numbers, in hexadecimal digits."""
    return hashlib.sha256(np.array(list(ids), dtype="<i8").tobytes()).hexdigest()


def run_digest(trajectories: Iterable[Trajectory]) -> str:
    """Return the digest of the tokens of all decisions, which tells a run from others."""
    rows = []
    for step in (step for trajectory in trajectories for step in trajectory.steps):
        prompt = step.prompt_tokens if isinstance(step.prompt_tokens, tuple) else ()
        rows.append(digest_of((*prompt, *(step.answer_tokens or ()))))
    return digest_of(int(row[:12], 16) for row in rows)


def replay(
    run: str | Path, *, model: str | None = None, first_only: bool = False
) -> tuple[tuple[Sample, ...], Network]:
    """The decisions of a navigation run and the model that made them.

    Args:
        run: the folder of a run of a language model that ran on this machine.
        model: its name; None for the one that the run names.
        first_only: take only the first decision of each walk.

    Returns:
        The decisions in the order of the run, and the model.

    Raises:
        InvalidFileError: the folder holds no navigation run.
        InvalidTrajectoryError: its decisions were recorded without their tokens.
        MissingAbilityError: the model does not run on this machine.
    """
    walked = load(run)
    # Before the model is loaded, which takes longer.
    samples = samples_of(walked.trajectories, first_only=first_only)
    return samples, Network.open(model or walked.plan.agent)


def scenes_of(samples: Sequence[Sample]) -> Scenes:
    """What the states of some decisions look like: row i is decision i."""
    return Scenes.of(
        [sample.world for sample in samples],
        [sample.state for sample in samples],
        [sample.action for sample in samples],
    )


def samples_of(
    trajectories: Iterable[Trajectory], *, first_only: bool = False
) -> tuple[Sample, ...]:
    """The decisions of some walks, in their order.

    Args:
        trajectories: of a language model that ran on this machine.
        first_only: take only the first decision of each walk.
    """
    samples = []
    for trajectory in trajectories:
        walk = made_of(trajectory).name
        steps = trajectory.steps[:1] if first_only else trajectory.steps
        for number, step in enumerate(steps):
            samples.append(_sample(walk, number, trajectory, step))
    if not samples:
        raise InvalidTrajectoryError(
            "the run has no decision to replay: none of its walks has a step; walk with a model "
            "that answers first"
        )
    return tuple(samples)


def _sample(walk: str, number: int, trajectory: Trajectory, step: Step) -> Sample:
    if not isinstance(step.prompt_tokens, tuple) or step.answer_tokens is None:
        raise InvalidTrajectoryError(
            f"step {number} of {walk!r} was recorded without the ids of its tokens, so its "
            f"activations cannot be made again; walk anew with a model of this machine "
            f"(goalmeter/..., goalmeter-local/FOLDER), whose runs keep them"
        )
    return Sample(
        walk=walk,
        step=number,
        world=trajectory.world,
        state=step.state,
        action=step.action,
        optimal=step.optimal,
        question=step.prompt or "",
        prompt=step.prompt_tokens,
        answer=step.answer_tokens,
    )
