"""Estimate MEG in a simulator (`from_simulator`)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from typing import Any
from uuid import uuid4

import numpy as np
from threadpoolctl import threadpool_limits

from goalmeter._errors import MOST_SEED, InvalidParameterError, finite, whole
from goalmeter._types import FloatArray
from goalmeter.agents.environment_agents import Actor, actor_of, table_actor
from goalmeter.agents.user_code import caller_guard
from goalmeter.meg.simulator.bootstrap import Bootstrap, CountEstimate
from goalmeter.meg.simulator.collection import Collection
from goalmeter.meg.simulator.environments import (
    GymnasiumSimulator,
    Simulator,
    closed,
    horizon_of,
    opened,
    time_limit,
    world_name,
)
from goalmeter.meg.simulator.fitted import LEAST_EPISODES, Fitting
from goalmeter.meg.simulator.guarantee import Ends, bounds_from_start, guaranteed_interval
from goalmeter.meg.simulator.protocol import (
    Episodes,
    TabularSimulator,
    episodes_until,
    reference_of,
    seeded_globals,
)
from goalmeter.meg.simulator.result import (
    COMBINATION,
    SimulatorProgress,
    SimulatorResult,
)
from goalmeter.meg.simulator.states import FROM_GENERATOR, StateOf, chance_of
from goalmeter.meg.simulator.utilities import (
    REWARD,
    FrozenUtility,
    LearntUtility,
    Range,
    Utilities,
    Utility,
    fitted_utilities,
    utilities_by_name,
)
from goalmeter.report.numbers import percent
from goalmeter.tabular.mdp import TabularMDP

# --- Public function -----------------------------------------------------------------------------
_MOST_STEPS = 10**12
_LEAST_STEPS = 100  # fewer steps carry no information about any world


def from_simulator(
    env: Any,
    agent: Any,
    *,
    utility: Utility | LearntUtility | Mapping[str, Utility | LearntUtility] = REWARD,
    combined: bool = False,
    horizon: int | None = None,
    budget: int = 200_000,
    level: float = 0.95,
    guarantee: bool = False,
    seed: int = 0,
    state: str | StateOf | None = None,
    bounds: Any = None,
    reference: Any = None,
    chance: str | None = None,
    progress: Callable[[SimulatorProgress], None] | bool | None = None,
) -> SimulatorResult | dict[str, SimulatorResult]:
    """Estimate MEG of an agent in a simulator, with a confidence interval.

    A simulator has `reset` and `step`. If its states are named and recur, steps are counted by
    state and action, and MEG is that of the estimated table. Otherwise soft values are fitted to
    the steps and checked by fresh episodes, which needs a budget of 100 episodes and observations
    that are vectors.

    Args:
        env: a Gymnasium environment with discrete or continuous actions, its id, a function that
            creates one, a vector environment (one of its copies is used), or a `TabularMDP`.
        agent: a Stable-Baselines3 model, the name of an agent, a table over integer observations
            [S, A] or [H, S, A], a function of the observation that returns a distribution [A], an
            action or (for continuous actions) a `GaussianAnswer`, or an object whose
            `begin(generator)` returns such a function for an episode.
        utility: the payoff of each decision: "reward"; a function of the (observation, info) that
            `step` returned after the action; a `LearntUtility`; or several by name, measured on
            the same steps.
        combined: whether to measure MEG towards the best linear combination of the utilities as
            well, with the name "best combination" and its `weights`. Only if states are counted.
        horizon: number of decisions; by default, and at most, the environment's time limit.
        budget: total number of simulator steps; an episode in progress is completed. A guarantee
            takes up to 30% more where states are not restored, for episodes of free choice.
        level: confidence level of each interval.
        guarantee: whether to add bounds that hold for any number of steps, jointly for all
            utilities (`result.guaranteed`). Their upper end is infinite for continuous actions.
        seed: random seed.
        state: which states are identical. None: by the kind of environment (goalmeter's grid
            worlds, Gymnasium's toy text, classic control and MuJoCo, MiniGrid). "observation": the
            observation determines the distribution of all that follows (a card that was drawn and
            not shown violates this). Or a function of (observation, info) that returns a hashable
            key. The interval assumes that this is true.
        bounds: (low, high) of the payoff of one decision, or (low, high, least, most) with the
            bounds of the total payoff from any state on; by name for several utilities. Only the
            guarantee uses them; without them it assumes the observed range.
        reference: distribution with which continuous actions are compared: "uniform" over a bounded
            box, "gaussian(SCALE)" or "gaussian(SCALE,CENTRE)" for independent normals clipped to
            the box, or an object with `draw(generator)`, a `name`, and for an estimate
            `quantile(share)`, from the unit cube [..., k] to actions.
        chance: source of randomness of the environment, its wrappers and the utilities, which the
            interval assumes: "generator" (all draws use the environment's `np_random`), "none" (all
            episodes begin in one state), or "unknown" (episodes are independent; no state is
            restored). Default: "generator" for environments of Gymnasium and goalmeter, otherwise
            "unknown".
        progress: a callback for the current estimate; True for lines on standard error, False for
            none; by default lines if standard error is a terminal.

    Returns:
        A `SimulatorResult`; for several utilities a dictionary of them by name.

    Source: MEG paper (NeurIPS 2024), Definition 3.2; estimators in docs/notes/mathematics.md,
    "Worlds without a table".

    Example: a mouse that goes for the cheese with probability 0.8 (Example 1 of the paper).
        >>> to_cheese, to_nothing = [0, 1, 0], [0, 0, 1]
        >>> stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
        >>> mouse = TabularMDP([[to_cheese, to_nothing], *stay], [0, 1, -1], horizon=2)
        >>> result = from_simulator(mouse, [[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
        >>> print([round(end, 4) for end in result.interval])
        [0.1927, 0.1927]
    """
    budget = whole(budget, "budget", least=_LEAST_STEPS, most=_MOST_STEPS)
    seed = whole(seed, "seed", least=0, most=MOST_SEED)
    level = finite(level, "level", least=0.5, most=1 - 1e-9)
    several = utilities_by_name(utility)
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InvalidParameterError(
            f"progress is {progress!r}, expected a function of a SimulatorProgress, True or False"
        )
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    tell = partial(print, file=sys.stderr, flush=True) if progress is True else progress
    if combined and COMBINATION in several:
        raise InvalidParameterError(
            f"a utility is named {COMBINATION!r}, which combined=True uses for the best "
            f"combination of all; choose another name"
        )
    simulator: Simulator
    with ExitStack() as closing:
        closing.enter_context(seeded_globals(seed))
        if isinstance(env, TabularMDP):
            options = reference, state, None if chance == FROM_GENERATOR else chance
            if env.discount != 1.0 or any(option is not None for option in options):
                raise InvalidParameterError(
                    "a TabularMDP is measured without discount (payoffs are summed), reference=, "
                    "state= or chance= (actions are compared with free choice, states are known, "
                    "and transitions are drawn from a generator); omit them, or use "
                    "`meg.known_utility`"
                )
            horizon = horizon_of(horizon, env.horizon, "this MDP")
            simulator = TabularSimulator(env, seed=seed, utilities=several, bounds=bounds)
            actor = table_actor(agent, env.n_states, env.n_actions, horizon)
        else:
            with caller_guard():
                world = opened(env)
                if isinstance(env, (str, type)) or not hasattr(env, "step"):
                    closing.callback(closed, world)
                horizon = horizon_of(horizon, time_limit(world), world_name(world))
                actor = actor_of(agent, world, horizon)
                simulator_of = partial(
                    GymnasiumSimulator,
                    world,
                    reference_of(reference, world.action_space),
                    seed=seed,
                    state=state,
                    chance=chance_of(world, chance),
                )
                frozen = fitted_utilities(several, simulator_of, actor, horizon, budget)
                simulator = simulator_of(Utilities(several | frozen, bounds))
        measurement = _SimulatorMeasurement(
            simulator, actor, horizon, budget, seed, level, tell or (lambda now: None)
        )
        results = measurement.run(combined, guarantee)
    return results if isinstance(utility, Mapping) or combined else next(iter(results.values()))


# --- One measurement ------------------------------------------------------------------------------
_FREE_SHARE = 0.3  # further steps for a guarantee, for episodes of free choice
_FREE = 2**40  # number of the first episode of free choice, so that no seed is shared


@dataclass
class _SimulatorMeasurement:
    """Measurement of all utilities of one world."""

    simulator: Simulator
    actor: Actor
    horizon: int
    budget: int
    seed: int
    level: float
    tell: Callable[[SimulatorProgress], None]
    notes: list[str] = field(default_factory=list)
    steps: dict[str, int] = field(default_factory=dict)  # besides those of the estimate
    # Guaranteed bounds, if requested, and the range that they assume.
    guaranteed: dict[str, tuple[Ends, Range]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = self.simulator.utilities.names
        for function in self.simulator.utilities.functions.values():
            if isinstance(function, FrozenUtility):
                self.steps["fit"] = function.steps

    @property
    def left(self) -> int:
        """Number of steps that are left for the estimate."""
        return max(self.budget - sum(self.steps.values()), _LEAST_STEPS)

    def run(self, combined: bool, guarantee: bool) -> dict[str, SimulatorResult]:
        """Return the result of each utility by name."""
        simulator = self.simulator
        if simulator.names_states:
            collection = Collection(
                simulator, self.actor, self.horizon, self.left, self.seed, self._report
            ).run()
            if collection.complete:
                return self._counted(collection, combined, guarantee)
            self.notes.append(
                f"more states are reachable than {self.left:,} steps can count "
                f"({simulator.n_states:,} were reached), so they are not counted; a larger budget, "
                f"a shorter horizon, or a state= that merges more states can change that"
            )
            self.steps["states"] = sum(collection.steps.values())
        else:
            self.notes.append(f"states are not counted: {simulator.why_not}")
        if combined:
            self.notes.append(
                "the best combination of utilities is measured only if states are counted"
            )
        if why_not := self._why_not_fitted():
            raise InvalidParameterError(f"MEG has no estimate: {self.notes[0]}; and {why_not}")
        return self._fitted(guarantee)

    def _report(self, collection: Collection) -> None:
        """Report the current estimate of each utility, without resamples."""
        bootstrap = Bootstrap(collection.table, collection.agent(), self.seed, resamples=0)
        for which, direction in enumerate(np.eye(len(self.names))[..., None]):
            now = bootstrap.measure(direction, self.level)
            low = max(now.value - 2.0 * now.standard_error, 0.0)
            self._progress(collection.steps, which, now.value, low)

    def _progress(self, steps: Mapping[str, int], which: int, value: float, low: float) -> None:
        self.tell(SimulatorProgress(self.names[which], sum(steps.values()), value, low))

    # --- States that recur ------------------------------------------------------------------------
    def _counted(
        self, collection: Collection, combined: bool, guarantee: bool
    ) -> dict[str, SimulatorResult]:
        simulator, episodes, agent = self.simulator, collection.episodes, collection.agent()
        if simulator.why_not:
            self.notes.append(f"steps are counted in episodes only: {simulator.why_not}")
            if simulator.names_given:
                self.notes.append("the interval assumes that state= distinguishes all states")
        each = np.eye(len(self.names))
        directions = dict(zip(self.names, each[..., None], strict=True))
        if combined:
            directions[COMBINATION] = each
        bootstrap = Bootstrap(collection.table, agent, self.seed, collection.length)
        estimates = {name: bootstrap.measure(one, self.level) for name, one in directions.items()}
        values = {name: self._of_counts(name, one) for name, one in estimates.items()}
        for one, other in permutations([name for name, x in estimates.items() if x.interval], 2):
            values[one]["differences"][other] = estimates[one].minus(estimates[other], self.level)
        if guarantee and not simulator.returns_to_states:
            self._guarantee_from_start(episodes)
        elif guarantee:
            # The pilot and some episodes choose; all else bounds.
            halves, error = collection.tables(), (1.0 - self.level) / len(self.names)
            options: dict[str, Any] = {"one_start": simulator.one_start, "error": error}
            ranges = self._ranges(*np.transpose(simulator.utilities.extremes))
            policy = None if agent.corrections is not None else agent.policy
            ends = [
                guaranteed_interval(halves, episodes, policy, i, known, **options)
                for i, known in enumerate(ranges)
            ]
            self.guaranteed = dict(zip(self.names, zip(ends, ranges, strict=True), strict=True))
        if guarantee and combined:
            values[COMBINATION]["notes"].append("the best combination has no guaranteed bounds")
        return self._results(episodes, collection.steps, values)

    def _of_counts(self, name: str, estimate: CountEstimate) -> dict[str, Any]:
        """Return the fields of the result of one utility."""
        interval, notes = estimate.interval, self.simulator.remarks(self.actor)
        none = "" if interval else "; there is no interval, increase the budget"
        if (untried := max(estimate.untried)) > 0:
            who = "the agent" if estimate.untried[0] == untried else "the model"
            notes.append(
                f"{percent(untried)} of the decisions of {who} are in actions that were never "
                f"sampled, which are excluded{none}"
            )
        if not estimate.paid.all():
            notes.append(
                f"payoffs are so rare that {percent(float(np.mean(~estimate.paid)))} of the "
                f"resamples have none{none}"
            )
        if interval and max(estimate.beyond) > 0.1 * (interval[1] - interval[0]):
            notes.append(
                "the interval includes the effects of outcomes, returns or states that were not "
                "sampled but may exist; more steps make it narrower"
            )
        steps: int | None = math.ceil(estimate.steps_to_halve)
        if interval and sum(estimate.undetermined) > 0.1 * (interval[1] - interval[0]):
            steps = None
            notes.append(
                "some actions differ by less than their sampling errors, and MEG depends on which "
                "of them is better: the interval includes all that the counts allow, and more "
                "steps make it narrower only if these actions do differ"
            )
        weights = dict(zip(self.names, estimate.weights.tolist(), strict=True))
        return {
            "value": estimate.value,
            "interval": interval,
            "rationality": weights.get(name, 1.0),
            "method": "MEG of the table estimated from counted steps; interval from resampled "
            "counts",
            "steps_to_halve": steps or None if interval else None,
            "weights": weights if name == COMBINATION else None,
            "differences": {},
            "notes": notes,
        }

    # --- States that do not recur -----------------------------------------------------------------
    def _why_not_fitted(self) -> str:
        """Return why soft values cannot be fitted; "" if they can."""
        simulator = self.simulator
        if not isinstance(simulator, GymnasiumSimulator):
            return "a table with so many states is measured exactly by meg.known_utility"
        if not (simulator.n_actions or simulator.reference.quantile):
            return "a reference of continuous actions needs a quantile function, as named ones have"
        try:
            fixed = simulator.environment.observation_space.is_np_flattenable
        except NotImplementedError:  # spaces of other packages
            fixed = False
        if not fixed:
            return "observations are not vectors of fixed length; wrap the environment"
        least = LEAST_EPISODES * self.horizon
        if self.left < least:
            return (
                f"soft values need a budget of at least {least:,} steps ({LEAST_EPISODES} "
                f"episodes), and {self.left:,} are left; increase budget="
            )
        return ""

    def _fitted(self, guarantee: bool) -> dict[str, SimulatorResult]:
        """Return estimates from fitted soft values."""
        assert isinstance(self.simulator, GymnasiumSimulator), "see _why_not_fitted"
        fitting = Fitting(
            self.simulator, self.actor, self.horizon, self.left, self.seed, self.level
        )
        # The last bits of a regression depend on the number of threads, and decisions on them.
        with threadpool_limits(1, user_api="blas"):
            estimates = fitting.estimates(partial(self._progress, fitting.steps))
        if guarantee:
            self._guarantee_from_start(fitting.agent)
        values = dict(zip(self.names, estimates, strict=True))
        return self._results(fitting.agent, fitting.steps, values)

    # --- Guarantees -------------------------------------------------------------------------------
    def _guarantee_from_start(self, agent: Episodes) -> None:
        """Bound all utilities by episodes of the agent and of free choice."""
        simulator, steps = self.simulator, _FREE_SHARE * self.left
        player, count = simulator.reference.agent(), simulator.n_actions
        free = Episodes.of([*episodes_until(simulator, player, self.horizon, steps, _FREE)])
        self.steps[simulator.reference.name] = free.steps
        if not count:
            self.notes.append("continuous actions have no guaranteed upper end")
        returns = np.concatenate([agent.returns, free.returns, np.zeros_like(free.returns[:1])])
        ranges = self._ranges(*[returns.min(axis=0), returns.max(axis=0)] * 2)
        ends = bounds_from_start(agent, free, ranges, count, self.horizon, 1.0 - self.level)
        self.guaranteed = dict(zip(self.names, zip(ends, ranges, strict=True), strict=True))

    def _ranges(self, *seen: FloatArray) -> list[Range]:
        """Return the range of each utility; if none was given, the observed ends, [U] each."""
        given = self.simulator.utilities.bounds
        ranges = [Range(*ends, assumed=True) for ends in np.transpose(seen).tolist()]
        return [given.get(name, one) for name, one in zip(self.names, ranges, strict=True)]

    # --- Results ----------------------------------------------------------------------------------
    def _results(
        self, episodes: Episodes, steps: Mapping[str, int], values: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, SimulatorResult]:
        """Return results of the agent's episodes; `values` are their other fields by utility."""
        simulator, maximum = self.simulator, None
        if simulator.n_actions:
            maximum = float(episodes.decisions.mean()) * math.log(simulator.n_actions)
        call, out = uuid4().hex, {}
        for name, fields in values.items():
            each, fit = dict(fields), simulator.utilities.functions.get(name)
            each["interval"] = each["interval"] or (0.0, math.inf if maximum is None else maximum)
            notes = [*self.notes, *fields.get("notes", ())]
            if name in self.guaranteed:
                ends, known = self.guaranteed[name]
                binding = {"lower": ends.low_by, "upper": ends.high_by}
                each |= {"guaranteed": (float(ends.low), float(ends.high)), "binding": binding}
                each["rests_on_assumption"] = known.assumed
                if known.assumed:
                    span = "" if math.isinf(known.most) else " in an episode"
                    notes.append(
                        f"no bounds were given: the interval assumes that the utility stays in its "
                        f"observed range, {known.low:.6g} to {known.high:.6g}{span}; give bounds= "
                        f"to assume less"
                    )
            if isinstance(fit, FrozenUtility):
                agent, reference = fit.episodes
                notes.append(
                    f"the utility was fitted to {agent:,} episodes of the agent and {reference:,} "
                    f"of {simulator.reference.name}, and measured on other episodes: MEG towards "
                    f"the best utility of its class is at least this"
                )
                each |= {"fitted_episodes": agent + reference, "utility_function": fit}
            # A learnt utility has no natural sign.
            elif fields["value"] > 0 > fields["rationality"]:
                notes.append(
                    "the rationality is negative: the agent does worse than the reference at this "
                    "utility; `signed` has a minus sign, and MEG and its interval have none"
                )
            each["notes"] = tuple(notes)
            out[name] = SimulatorResult(
                utility=name,
                level=self.level,
                maximum=maximum,
                world=simulator.name,
                steps={**steps, **self.steps},
                episodes=len(episodes.decisions),
                reference=simulator.reference.name,
                chance=simulator.chance,
                measurement=call,
                **each,
            )
        return out
