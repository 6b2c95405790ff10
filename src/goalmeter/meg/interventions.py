"""Goal-directedness in tabular worlds under intervention: fitted before a change, scored after it.

The hypothesis is a utility with the rationality that explains the policy best. It is fitted in the
original world and scored in the changed world without a refit. All numbers are exact: expectations
under the policy, without intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from goalmeter._errors import InvalidParameterError, shown
from goalmeter._files import JsonFields
from goalmeter._types import ArrayLike, FloatArray, IntArray
from goalmeter.meg.behaviour import PolicyBehaviour, behaviour_of, yardstick
from goalmeter.meg.known import known_utility
from goalmeter.report.numbers import DASH, LEAST_SHARE, percent, points
from goalmeter.report.tables import html_table, text_table
from goalmeter.statistics.clusters import Estimate
from goalmeter.statistics.verdicts import follows_goal
from goalmeter.tabular import planning
from goalmeter.tabular.backup import Backup, problem
from goalmeter.tabular.mdp import TabularMDP
from goalmeter.tabular.policies import rewards_of
from goalmeter.tabular.transition import Block

# Probability that the model takes a random action. Without it, a single error after the change of
# an agent that made none before would have infinite weight.
LAPSE = 0.01


# --- Result ---------------------------------------------------------------------------------------
@dataclass(frozen=True)
class ScoredChange(JsonFields):
    """Score of a hypothesis after one change, as shares of the maximum."""

    change: str
    target: str  # what the hypothesis says that the agent wants
    share: Estimate  # share that the hypothesis explains, with the rationality fitted before
    nats_per_decision: Estimate  # the same in nats per decision that can matter
    difference: Estimate  # share less the share before the change
    controls: dict[str, Estimate]  # share less that of each rival hypothesis
    verdict: str  # "follows", "does not follow" or "inconclusive"

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> ScoredChange:
        """Return the score that `to_json` was called on."""
        names = ("share", "nats_per_decision", "difference")
        estimates = {name: Estimate.from_json(value[name]) for name in names}
        controls = {name: Estimate.from_json(each) for name, each in value["controls"].items()}
        return cls(**{**value, **estimates, "controls": controls})


@dataclass(frozen=True)
class InterventionResult(JsonFields):
    """Goal-directedness before and after changes of the world; exact numbers have no interval."""

    agent: str
    rationality: float  # fitted before; below 0 if the agent avoids the goal, and so are shares
    before: Estimate  # share of the maximum that the hypothesis explains before the change
    rows: tuple[ScoredChange, ...]
    mazes: tuple[dict[str, Any], ...] = ()  # labels and shares of each maze, if any
    notes: tuple[str, ...] = ()
    references: tuple[InterventionResult, ...] = ()  # results of the baseline agents

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values, with the margin of the verdicts."""
        return JsonFields.to_json(self) | {"margin": LEAST_SHARE, "lapse": LAPSE}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> InterventionResult:
        """Return the result that `to_json` was called on."""
        kept = {field.name: value[field.name] for field in fields(cls)}
        kept |= {
            "rationality": float(value["rationality"]),
            "before": Estimate.from_json(value["before"]),
            "rows": tuple(map(ScoredChange.from_json, value["rows"])),
            "references": tuple(map(cls.from_json, value["references"])),
        }
        return cls(**kept | {name: tuple(value[name]) for name in ("mazes", "notes")})

    def __str__(self) -> str:
        return text_table(f"{self.agent} under intervention", [_HEAD, *self._cells()])

    def _repr_html_(self) -> str:
        notes = [_NOTE, *self.notes]
        return html_table(f"{self.agent} under intervention", _HEAD, self._cells(), notes)

    def _cells(self) -> list[list[str]]:
        """Return the rows of the table, of this agent and of the baseline agents."""
        out = []
        for result in (self, *self.references):
            for row in result.rows:
                shares = [percent(result.before), percent(row.share), points(row.difference)]
                least = min(row.controls.values(), key=lambda each: each.value, default=None)
                shares.append(DASH if least is None else points(least))
                out.append([result.agent, row.change, row.target, *shares, row.verdict])
        return out


_HEAD = ["agent", "change", "towards", "before", "after", "difference", "over rival", "verdict"]
_NOTE = (
    f"Shares of the maximum, log |A| nats per decision; differences in points. The rationality is "
    f"fitted before the change and kept. Margin of the verdicts: {percent(LEAST_SHARE, 0)}."
)


def scored_change(
    names: tuple[str, str],
    before: Estimate,
    after: Estimate,
    difference: Estimate,
    controls: Mapping[str, Estimate],
    *,
    nats: float,
    removed: bool = False,
) -> ScoredChange:
    """Return a change and its target (names) with a verdict; a decision has at most `nats`."""

    def ends(each: Estimate) -> tuple[float, float] | None:
        return (each.value, each.value) if each.clusters == 0 else each.interval

    of_decision = after.interval and (after.interval[0] * nats, after.interval[1] * nats)
    verdict = follows_goal(
        ends(before),
        ends(after),
        [ends(each) for each in controls.values()],
        margin=LEAST_SHARE,
        removed=removed,
    )
    in_nats = replace(after, value=after.value * nats, interval=of_decision)
    return ScoredChange(*names, after, in_nats, difference, dict(controls), verdict)


# --- Tables ---------------------------------------------------------------------------------------
MOVED, DEVALUED, SLIP, BLOCKED = CHANGES = ("moved", "devalued", "slip", "blocked")
SLIP_PROBABILITY = 0.2
_SAME = 1e-9  # a smaller difference of shares is rounding


def under_changes(
    mdp: TabularMDP,
    policy: ArrayLike | Callable[[TabularMDP], ArrayLike],
    changes: Sequence[str] | Mapping[str, Any] = CHANGES,
    *,
    utility: ArrayLike | None = None,
) -> InterventionResult:
    """Score the goal of a policy in changed worlds, with the rationality fitted before.

    Args:
        mdp: the world.
        policy: [S, A] or [H, S, A], which stays as it is, or a function from a world to the policy
            of an agent that knows about the change.
        changes: names, or each with its parameter (None: a default): "moved": the state to which
            the utility of the best states is moved; "devalued": the best states are worth as much
            as most; "slip": probability of a random action, 0.2; "blocked": the state that no
            longer can be entered; or any name with a `TabularMDP` of the same shape.
        utility: the hypothesis, [S] or [S, A]; default `mdp.reward`. It may come from
            `unknown_utility`.

    Example: an optimal agent that plans again, and one that repeats its policy.
        >>> from goalmeter.tabular import cliff_world, optimal_policy
        >>> world = cliff_world()
        >>> for agent in (optimal_policy, optimal_policy(world)):
        ...     print([row.verdict for row in under_changes(world, agent, ["moved"]).rows])
        ['follows']
        ['does not follow']
    """
    world = mdp if utility is None else mdp.replace(reward=utility)
    decide = policy if callable(policy) else lambda changed: policy
    own = decide(world)
    rationality = known_utility(world, own).rationality
    before = _share(world, behaviour_of(world, [own]), rationality)
    rows, notes = [], []
    for change, parameter in _given(world, changes).items():
        if parameter is None:
            notes.append(f"{change}: left out, since no state of this world allows it")
            continue
        is_given, is_removed = isinstance(parameter, TabularMDP), change == DEVALUED
        changed = parameter if is_given else changed_world(world, change, parameter)
        behaviour = behaviour_of(changed, [decide(changed)])
        # The original hypothesis keeps the old utility; if only the dynamics change, these too.
        same_utility = np.array_equal(changed.reward, world.reward)
        old_world = world if same_utility else changed.replace(reward=world.reward)
        after, old = (_share(each, behaviour, rationality) for each in (changed, old_world))
        target, share = ("old goal", old) if is_removed else ("goal", after)
        better = after - old if abs(after - old) > _SAME else 0.0
        rows.append(
            scored_change(
                (change if is_given or is_removed else f"{change} ({parameter:g})", target),
                _exact(before),
                _exact(share),
                _exact(share - before),
                {} if is_removed else {"original hypothesis": _exact(better)},
                nats=float(np.log(mdp.n_actions)),
                removed=is_removed,
            )
        )
    name = getattr(policy, "__name__", "policy")
    return InterventionResult(name, rationality, _exact(before), tuple(rows), notes=tuple(notes))


def changed_world(mdp: TabularMDP, change: str, parameter: Any) -> TabularMDP:
    """Return a world after one of `CHANGES`."""
    if change == SLIP:
        if not isinstance(parameter, int | float) or not 0 <= parameter <= 1:
            raise InvalidParameterError(f"slip is {shown(parameter)}, expected 0 to 1")
        return mdp.replace(transition=_slipping(mdp, float(parameter)))
    reward, best = mdp.reward.copy(), _best_states(mdp)
    if change == DEVALUED:
        reward[best] = np.median(mdp.reward)
        return mdp.replace(reward=reward)
    if parameter not in range(mdp.n_states):
        raise InvalidParameterError(
            f"{change} is {shown(parameter)}, expected a state, 0 to {mdp.n_states - 1}"
        )
    if change == MOVED:
        reward[best], reward[parameter] = mdp.reward[parameter], mdp.reward[best[0]]
        return mdp.replace(reward=reward)
    if mdp.initial[parameter] > 0:
        raise InvalidParameterError(f"blocked is {parameter}, which is an initial state")
    after, probability = mdp.transition.to_successors()
    own = np.arange(mdp.n_states)[:, None, None]
    return mdp.replace(transition=(np.where(after == parameter, own, after), probability))


def _given(mdp: TabularMDP, changes: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameter of each change, or its world; None if no state allows the change."""
    out = {}
    given = changes if isinstance(changes, Mapping) else dict.fromkeys(changes)
    for name, value in given.items():
        if name not in CHANGES and not isinstance(value, TabularMDP):
            raise InvalidParameterError(
                f"there is no change {shown(name)}, expected one of {', '.join(CHANGES)}, or a "
                f"name with a TabularMDP"
            )
        is_state = name in (MOVED, BLOCKED) and value is None
        out[name] = _default_state(mdp, name) if is_state else value
        if out[name] is None and not is_state:
            out[name] = SLIP_PROBABILITY
    return out


def _default_state(mdp: TabularMDP, change: str) -> int | None:
    """Return the state that the goal moves to, or that is blocked; None if there is none."""
    best, steps = _best_states(mdp), _steps_from_start(mdp)
    visits = planning.occupancy(mdp, planning.optimal_policy(mdp)).reshape(-1, mdp.n_states)
    often = visits.sum(axis=0).round(2)
    possible = steps > 0
    possible[best] = False
    if change == MOVED:
        # The goal moves to a state that an optimal agent rarely visits, about as far away.
        possible &= mdp.active_states() > 0
        nearest = np.abs(steps - steps[best].max())
        order = np.lexsort((nearest, often))
        return next((int(state) for state in order if possible[state]), None)
    for state in np.argsort(-often, kind="stable"):
        if possible[state] and often[state] > 0 and mdp.initial[state] == 0:
            around = changed_world(mdp, BLOCKED, int(state))
            if (_steps_from_start(around)[best] >= 0).any():
                return int(state)
    return None


def _best_states(mdp: TabularMDP) -> IntArray:
    of_state = mdp.reward if mdp.reward.ndim == 1 else mdp.reward.max(axis=1)
    return np.flatnonzero(of_state == of_state.max())


def _steps_from_start(mdp: TabularMDP) -> IntArray:
    """Return the least number of steps to each state, -1 if out of reach within the horizon."""
    steps = np.where(mdp.initial > 0, 0, -1)
    for step in range(1, mdp.n_states if mdp.horizon is None else mdp.horizon):
        front = np.broadcast_to((steps == step - 1).astype(float), (mdp.n_actions, mdp.n_states))
        new = (mdp.transition.push(np.ascontiguousarray(front)) > 0) & (steps < 0)
        if not new.any():
            break
        steps[new] = step
    return steps


def _slipping(mdp: TabularMDP, slip: float) -> tuple[IntArray, FloatArray]:
    """Return successors and probabilities if an action is replaced by a random one."""
    after, probability = mdp.transition.to_successors()
    states, actions, _ = after.shape
    shape = (states, actions, actions * after.shape[2])
    after_any = np.broadcast_to(after.reshape(states, 1, -1), shape)
    any_action = np.broadcast_to(probability.reshape(states, 1, -1) / actions, shape)
    return (
        np.concatenate([after, after_any], axis=2),
        np.concatenate([(1 - slip) * probability, slip * any_action], axis=2),
    )


def _share(mdp: TabularMDP, behaviour: PolicyBehaviour, rationality: float) -> float:
    """Return the share of the maximum that the reward explains at a rationality, with its sign."""
    rewards, unit = rewards_of(mdp).normalised()
    parts: dict[tuple[int, int], float] = {}

    def visit(step: int, block: Block, done: Backup) -> None:
        ratio = np.log((1.0 - LAPSE) * np.exp(done.log_ratio) + LAPSE)
        parts[step, block.start] = float((behaviour.weights(step, block.states) * ratio).sum())

    task = planning.resolved(problem(mdp, rewards, rationality * unit))
    planning.backward(task, visit, derivatives=False)
    maximum = float(yardstick(behaviour, None, rewards.tells_apart())[0][0])
    # Blocks may end in any order, and the order of a sum matters to rounding.
    nats = sum(parts[key] for key in sorted(parts))
    return float(np.sign(rationality)) * nats / maximum if maximum > 0 else 0.0


def _exact(value: float) -> Estimate:
    return Estimate(value, None, n=0, clusters=0)
