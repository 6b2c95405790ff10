"""What measuring an agent's self-reflection will cost, said beforehand."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, SupportsIndex

from goalmeter.reflection.plan import AgentLike, plan_of
from goalmeter.reflection.playing import study_of
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, forecast_of


def forecast(
    agent: AgentLike,
    *,
    steps: SupportsIndex,
    seeds: SupportsIndex | Iterable[SupportsIndex],
    environments: Any,
    opposite_reading: str = "literal",
    step_counting: str = "percepts",
    on: str = HERE,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> Forecast:
    """What `measure` with these arguments will cost; some of its trials are played to see it."""
    plan = plan_of(agent, steps, seeds, environments, opposite_reading, step_counting)
    study, place = study_of(plan, on=on, timeout=timeout, out=out)
    return forecast_of(study, on=place, timeout=timeout, out=out)
