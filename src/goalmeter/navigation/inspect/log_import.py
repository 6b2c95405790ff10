"""Walks of `inspect eval goalmeter/...` as walks of a run, which then need not be made again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidParameterError
from goalmeter._text import shortened
from goalmeter.agents.language_models.names import model_agent
from goalmeter.navigation.asking.settings import Asking
from goalmeter.navigation.inspect.eval_log import INTERRUPTED, read_logs, walks_of
from goalmeter.navigation.inspect.failures import FAILURES
from goalmeter.navigation.inspect.samples import made_of
from goalmeter.navigation.plan import WalkPlan
from goalmeter.navigation.record import Trajectory

_SAMPLING = ("temperature", "top_p", "max_tokens", "reasoning_effort")


@dataclass(frozen=True)
class Imported:
    """Walks from logs.

    Attributes:
        walks: by their keys, those that belong to the run.
        others: how many there were of other worlds, caps or prompts, or that a server failed.
    """

    walks: dict[str, Trajectory]
    others: int


def from_logs(plan: WalkPlan, logs: Iterable[str | Path]) -> Imported:
    """The walks of a plan that are in some of Inspect's logs.

    Args:
        plan: of a language model.
        logs: `.eval` files, or folders that hold them.

    Raises:
        InvalidFileError: there is no log, or it cannot be read.
        InvalidParameterError: they are of another model, or it was asked in another way.
        InvalidTrajectoryError: a sample is not one of goalmeter's, or its record is damaged.
        MissingExtraError: inspect_ai is not installed.
    """
    assert plan.asking is not None
    read = read_logs(logs)
    for log in read:
        _check(plan.agent, plan.asking, log)
    wanted, walks, others = plan.keys(), {}, 0
    for trajectory in walks_of(read):
        made = made_of(trajectory)
        task, _ = wanted.get(made.name, (None, 0))
        # A log of another version may have the same name for another world or another cap.
        if task == made.task and trajectory.outcome not in (INTERRUPTED, *FAILURES):
            walks[made.name] = trajectory
        else:
            others += 1
    return Imported(walks, others)


def _check(agent: str, asking: Asking, log: Any) -> None:
    """See that a log is of a model that was asked as the run asks it."""
    try:
        name = model_agent(log.eval.model).name
        asked = Asking(options=log.eval.model_args).to_json()
    except InvalidParameterError as cause:
        raise InvalidParameterError(f"{log.location}: {cause}") from cause
    if name != agent:
        raise InvalidParameterError(
            f"{log.location} is a log of {name}, and the run is of {agent}; read the logs of one "
            f"model"
        )
    asked_here = asking.to_json()
    config, solver = log.plan.config, log.plan.steps[0].params if log.plan.steps else {}
    asked_there = {each: getattr(config, each) for each in _SAMPLING}
    asked_there |= {each: solver.get(each) for each in ("attempts", "token_cap")}
    asked_there |= {"seeded": solver.get("seed") is not None, "logprobs": bool(config.logprobs)}
    asked_there["options"] = asked["options"]
    if differ := [each for each in asked_there if asked_there[each] != asked_here[each]]:
        differences = "; ".join(
            f"{each} is {shortened(repr(asked_there[each]), 80)} there, "
            f"and {asked_here[each]!r} here"
            for each in differ
        )
        raise InvalidParameterError(
            f"{log.location} was asked in another way: {differences}; give the options that it "
            f"was asked with, or make the walks anew"
        )
