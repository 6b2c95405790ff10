"""What a walk came to, as an Inspect score with the whole trajectory in it."""

from __future__ import annotations

from pathlib import Path

from goalmeter._errors import (
    GoalmeterError,
    InvalidParameterError,
    MissingExtraError,
    how_to_install,
)

try:
    import inspect_ai  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "Scores of language models need the package 'inspect_ai', which is not installed; "
        f"{how_to_install('lm')}"
    ) from error
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.inspect.eval_log import TRAJECTORY, append
from goalmeter.navigation.inspect.listening import listener
from goalmeter.navigation.inspect.solver import ended
from goalmeter.navigation.record import Trajectory

# Grids are what is drawn at random; walks and steps in one grid depend on each other.
_MEASURES = {name: [mean(), stderr(cluster="grid")] for name in ("success", "accuracy", "invalid")}


@scorer(metrics=_MEASURES)
def walked(out: str | None = None) -> Scorer:
    """Success, accuracy and the share of invalid answers, with the trajectory as metadata.

    A walk without a step, which failed before its first answer, has no success and no accuracy to
    speak of: its accuracy and its share are NaN, which Inspect counts as not scored.

    Args:
        out: a file to which each trajectory is appended as a line of JSON when it ends. A walk that
            is run again has another line there; the last one counts.
    """
    if out is not None and not Path(out).parent.is_dir():
        raise InvalidParameterError(f"out is {out!r}, but {Path(out).parent} is no folder; make it")

    async def score(state: TaskState, target: Target) -> Score:
        trajectory = ended.pop(state.uuid, None)
        if trajectory is None:
            raise GoalmeterError(
                "there is no walk to score; walks are scored as they end, and read back from logs "
                "by goalmeter.navigation.inspect.eval_log.trajectories"
            )
        listener.get().ended(trajectory)
        record = trajectory.to_json()
        if out is not None:
            append(out, record)
        steps = trajectory.steps
        unknown = float("nan")
        return Score(
            value={
                "success": float(trajectory.arrived),
                "accuracy": sum(s.is_optimal for s in steps) / len(steps) if steps else unknown,
                "invalid": sum(s.action is None for s in steps) / len(steps) if steps else unknown,
            },
            answer=trajectory.outcome,
            explanation=_summary(trajectory),
            metadata={TRAJECTORY: record},
        )

    return score


def _summary(trajectory: Trajectory) -> str:
    moves = ["-" if step.action is None else ACTIONS[step.action] for step in trajectory.steps]
    explanation = f"{trajectory.outcome} after {len(moves)} steps (shortest {trajectory.distance})"
    return f"{explanation}: {' '.join(moves)}"
