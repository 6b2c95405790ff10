"""Utilities that are learnt first: episodes that are recorded for them, and what results say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, InvalidUtilityError, require
from goalmeter._types import AnyArray
from goalmeter.meg.simulator.agents.acting import Actor
from goalmeter.meg.simulator.result import SimulatorResult
from goalmeter.meg.simulator.utilities.learnt_utility import FrozenUtility, LearntUtility
from goalmeter.meg.simulator.utilities.named_utilities import NamedUtilities
from goalmeter.meg.simulator.utilities.utility_fit import Recorded, fitted_module, outputs
from goalmeter.meg.simulator.worlds.protocol import Simulator

# Of the budget, unless a utility says how many steps; the most of them; the fewest episodes.
_SHARE, _MOST, _LEAST_EPISODES = 0.3, 20_000, 8
# Numbers of the agent's episodes and of the reference's, which no episode that bounds has.
_AGENT, _REFERENCE = 2**41, 2**42


@dataclass
class Recorder:
    """Stands in the place of the utilities, and keeps the features of each step.

    Attributes:
        learnt: by name.
        space: of the observations.
        kept: features of the steps so far, by name.
    """

    learnt: Mapping[str, LearntUtility]
    space: Any
    kept: dict[str, list[AnyArray]] = field(default_factory=dict)

    def __call__(self, observation: Any, info: Any) -> float:
        """Keep a step, which pays nothing."""
        for name, asked in self.learnt.items():
            where = f"the utility {name!r}"
            features = asked.seen(observation, info, self.space, where)
            before = self.kept.setdefault(name, [])
            if before and before[0].shape != features.shape:
                raise InvalidUtilityError(
                    f"the features of {where} have shape {list(features.shape)} after "
                    f"{list(before[0].shape)}, expected the same at every step"
                )
            before.append(features)
        return 0.0

    def recorded(self, lengths: list[int]) -> dict[str, Recorded]:
        """What was kept since the last call, by name."""
        counts = np.array(lengths, dtype=np.int64)
        out = {name: Recorded(np.stack(rows), counts) for name, rows in self.kept.items()}
        self.kept.clear()
        return out


@dataclass(frozen=True)
class Fits:
    """What was learnt before anything was measured.

    Attributes:
        frozen: by name.
        episodes: of the agent and of its reference that were fitted to.
        steps: that they took.
        reference: what the agent is compared with, in words.
    """

    frozen: Mapping[str, FrozenUtility]
    episodes: tuple[int, int]
    steps: int
    reference: str

    def told(self, results: Mapping[str, SimulatorResult]) -> dict[str, SimulatorResult]:
        """Results with what the fit took, and with the utilities that it gave."""
        return {name: self._of(name, result) for name, result in results.items()}

    def _of(self, name: str, result: SimulatorResult) -> SimulatorResult:
        steps = {**result.steps, "fit": self.steps}
        if name not in self.frozen:
            return replace(result, steps=steps)
        agent, reference = self.episodes
        note = (
            f"the utility was fitted to {agent:,} episodes of the agent and {reference:,} of "
            f"{self.reference}, and bounded with others: the interval is that of the best utility "
            f"of its class"
        )
        return replace(
            result,
            steps=steps,
            notes=(*result.notes, note),
            fitted_episodes=agent + reference,
            utility_function=self.frozen[name],
        )


def learnt_of(utility: Any, bounds: Any) -> dict[str, LearntUtility]:
    """The utilities that have to be learnt, by name."""
    several = utility if isinstance(utility, Mapping) else {"learnt": utility}
    learnt = {name: each for name, each in several.items() if isinstance(each, LearntUtility)}
    told = bounds if isinstance(bounds, Mapping) else dict.fromkeys(several, bounds)
    if bounded := [name for name in learnt if told.get(name) is not None]:
        raise InvalidParameterError(
            f"bounds are given for {bounded[0]!r}, which is learnt and keeps to bounds of its own; "
            f"give bounds= by name for the other utilities"
        )
    return learnt


def fits_of(
    learnt: Mapping[str, LearntUtility],
    world: Any,
    simulator_of: Callable[[NamedUtilities], Simulator],
    actor: Actor,
    horizon: int,
    budget: int,
) -> Fits:
    """Learn utilities from episodes of the agent and of its reference.

    Args:
        learnt: by name.
        world: the environment.
        simulator_of: the simulator whose steps are worth something.
        actor: the agent.
        horizon: H.
        budget: steps of the whole measurement.
    """
    require("torch", extra="neural", feature="A learnt utility")
    recorder = Recorder(learnt, world.observation_space)
    simulator = simulator_of(NamedUtilities({" and ".join(map(str, learnt)): recorder}, {}))
    asked = [each.steps for each in learnt.values() if each.steps is not None]
    limit = max(asked, default=min(int(_SHARE * budget), _MOST))
    if limit > budget / 2:
        raise InvalidParameterError(
            f"steps of a learnt utility are {limit:,}, expected at most half of the budget, "
            f"{budget // 2:,}: the other half bounds what was learnt"
        )
    parts, lengths = [], []
    for who, first in ((actor, _AGENT), (simulator.free_choice(), _REFERENCE)):
        decided: list[int] = []
        while sum(decided) < limit / 2 or len(decided) < _LEAST_EPISODES:
            decided += simulator.play(who, horizon, first + len(decided)).decisions.tolist()
        parts.append(recorder.recorded(decided))
        lengths.append(decided)
    frozen = {}
    for name, each in learnt.items():
        mine, others = (part[name] for part in parts)
        known = None if simulator.returns_to_states else horizon
        module = fitted_module(each, mine, others, horizon=known, name=name)
        made = outputs(module, np.concatenate([mine.features, others.features]))
        factor = 1.0 / max(float(np.abs(made).max()), 1e-12)
        low, high = float(made.min()) * factor, float(made.max()) * factor
        frozen[name] = FrozenUtility(each, module, factor, low, high, world.observation_space, name)
    counts = len(lengths[0]), len(lengths[1])
    return Fits(frozen, counts, sum(map(sum, lengths)), simulator.reference)
