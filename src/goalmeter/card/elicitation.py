"""Elicitation of language models: answers by kind, and success by how the model is asked."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from goalmeter.card.measured import QUICK, CardSettings
from goalmeter.card.subject import Subject
from goalmeter.navigation import agent_walks
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.plan import plan_of
from goalmeter.navigation.prompts import PROMPT, Asking
from goalmeter.navigation.suites import MAZE
from goalmeter.navigation.trajectories import Step
from goalmeter.report.numbers import percent

# Mazes in which a language model is asked in other ways: sizes, complexities, number of each.
ELICITED: dict[str, Any] = {"sizes": (7,), "complexities": (0.5,), "grids": 12, "trajectories": 1}
RENDERINGS, TEMPERATURES = ("plain/1", "keys/1"), (Asking().temperature, 0.0)


def elicitation(
    subject: Subject, settings: CardSettings, agent: Sequence[Navigation]
) -> Mapping[str, Any] | None:
    """Return the answers of a language model by kind, and its success by how it is asked."""
    if not subject.is_language_model:
        return None
    # Inspect takes seconds to import.
    from goalmeter.navigation.inspect.task import STOP_PREFIXES

    counts: Counter[str] = Counter()
    for result in agent:
        for walk in result.seen.trajectories:
            for step in walk.steps:
                counts[_kind_of_answer(step, STOP_PREFIXES)] += 1
    out: dict[str, Any] = {"answers": dict(counts)}
    if settings.scale == QUICK:
        return out | {"other prompts and temperatures": "not run at the quick scale"}
    own = agent[0].plan.tasks.tasks[0].condition[PROMPT]
    other = next(name for name in RENDERINGS if name != own)
    shares: dict[str, float] = {}
    for prompt in (own, other):
        for temperature in TEMPERATURES:
            asking, name = Asking(temperature=temperature), f"{prompt}, temperature {temperature:g}"
            how: dict[str, Any] = {"prompts": [prompt], "asking": asking, "held_out": True}
            plan = plan_of(subject.name, MAZE.name, seed=settings.seed, **how, **ELICITED)
            folder = settings.out / "elicitation" / re.sub(r"[^\w.]+", "-", name)
            (walked,) = agent_walks.play_every([plan], folder, progress=settings.tell)
            shares[name] = float(np.mean([walk.arrived for walk in walked.trajectories]))
    spread = max(shares.values()) - min(shares.values())
    success = {name: percent(share) for name, share in shares.items()}
    mean = float(np.mean([*shares.values()]))
    return out | {"success": success, "mean": percent(mean), "spread": percent(spread)}


def _kind_of_answer(step: Step, prefixes: Mapping[str, str]) -> str:
    if step.action is not None:
        return "optimal" if step.is_optimal else "wrong"
    why = step.invalid or ""
    if why.startswith(prefixes["max_tokens"]) or "after the reasoning" in why:
        return "truncated"
    return "refused" if why.startswith(prefixes["content_filter"]) else "unreadable"
