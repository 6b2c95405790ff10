"""Plans (later actions of a walk): readers that predict them, baselines and scores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goalmeter._errors import InvalidTrajectoryError, require
from goalmeter._types import BoolArray, FloatArray, IntArray
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import LAYERS, planned
from goalmeter.gridworld.world import ACTIONS
from goalmeter.representation.probes.protocol import Activations, Standard
from goalmeter.representation.probes.registry import Schedule
from goalmeter.representation.replay import Located, Sample, scenes_of
from goalmeter.representation.scenes import Scenes, mean_over_grids
from goalmeter.statistics.clusters import Estimate

if TYPE_CHECKING:
    import torch
    from torch import nn

# A sequence begins at a decision and contains the actions that the walk executed from there, then
# `END` if it reached the goal, then `NOTHING`. A sequence longer than the number of queries is
# truncated and has no `END`. An answer that could not be parsed executed no action and is skipped.
# For an agent that replans at every step, accuracy is limited by its agreement with itself
# (`other_walks`).
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5; its code excludes every walk of more than nine actions.

# Labels besides the actions: the goal is reached; unknown or not predicted.
END, NOTHING = len(ACTIONS), -1
# Number of steps predicted together, as in the paper.
QUERIES = 10


@dataclass(frozen=True, eq=False)
class WalkPlans:
    """Sequences of the actions executed from N decisions on."""

    # 0 to 3, then `END` if the walk reached the goal, then `NOTHING`, [N, queries].
    actions: IntArray
    scenes: Scenes  # scenes of the N decisions
    walks: tuple[Hashable, ...]  # keys of the walks, [N]
    steps: IntArray  # number of each decision in its walk, [N]
    questions: tuple[Hashable, ...]  # prompts, [N]
    unreadable: int  # number of answers of the walks that could not be parsed

    def __len__(self) -> int:
        return len(self.actions)

    @property
    def queries(self) -> int:
        """Number of steps of each sequence."""
        return int(self.actions.shape[1])

    @cached_property
    def lengths(self) -> IntArray:
        """Number of actions of each sequence, [N]."""
        return np.asarray(((self.actions >= 0) & (self.actions < END)).sum(axis=1))

    def where(self, chosen: IntArray | BoolArray) -> WalkPlans:
        """Return a subset of the sequences, by numbers or by a mask, [N]."""
        places = np.arange(len(self))[chosen]
        return WalkPlans(
            self.actions[places],
            self.scenes.where(places),
            tuple(self.walks[i] for i in places),
            self.steps[places],
            tuple(self.questions[i] for i in places),
            self.unreadable,
        )


def plans_of(samples: Sequence[Sample], *, queries: int = QUERIES) -> WalkPlans:
    """Return the plans of walks from all their decisions, `queries` steps each, end included."""
    walks, steps, questions = (
        [getattr(sample, name) for sample in samples] for name in ("walk", "step", "question")
    )
    return plans_in(scenes_of(samples), walks, steps, questions, queries=queries)


def plans_in(
    scenes: Scenes,
    walks: Sequence[Hashable],
    steps: Sequence[int],
    questions: Sequence[Hashable] | None = None,
    *,
    queries: int = QUERIES,
) -> WalkPlans:
    """Return the plans of walks; the walk, step and question of each scene are given, [N]."""
    of_walk: dict[Hashable, list[int]] = {}
    for number, walk in enumerate(walks):
        of_walk.setdefault(walk, []).append(number)
    rows: dict[int, list[int]] = {}
    for walk, numbers in of_walk.items():
        numbers.sort(key=lambda number: steps[number])
        if [steps[number] for number in numbers] != list(range(len(numbers))):
            raise InvalidTrajectoryError(
                f"the decisions of walk {walk!r} are incomplete or duplicated, expected every step "
                f"from 0 to the last once; replay all decisions"
            )
        executed = [action for n in numbers if (action := scenes.actions[n]) is not None]
        last = scenes.actions[numbers[-1]]
        plan = planned(scenes.worlds[numbers[-1]])
        if last is not None:
            after = plan.step(scenes.states[numbers[-1]], last)
            executed += [END] if plan.distance_from(after) == 0 else []
        rows[numbers[0]] = executed
    # First decisions alone look like walks that ended after one step.
    single = all(len(numbers) == 1 for numbers in of_walk.values())
    if single and any(END not in row for row in rows.values()):
        raise InvalidTrajectoryError(
            "every walk has a single decision and not all of them reach the goal, so later actions "
            "are unknown; replay all decisions of the walks, not only the first"
        )
    starts = sorted(rows)
    return WalkPlans(
        np.array([_filled(rows[start], queries) for start in starts]),
        scenes.where(np.array(starts)),
        tuple(walks[start] for start in starts),
        np.array([steps[start] for start in starts]),
        tuple("" if questions is None else questions[start] for start in starts),
        sum(action is None for action in scenes.actions),
    )


def _filled(moves: Sequence[int], queries: int) -> list[int]:
    return [*moves, *[NOTHING] * queries][:queries]


# --- Baselines without activations ----------------------------------------------------------------
# majority              the most frequent action of training walks at each step
# position only         a linear reader of the cells of agent and goal
# repeat the first      the first decoded action, repeated
# optimal plan          a random shortest path of the true map
# stated plan           the moves that the model writes after "plan" before it answers
# asked again           the actions of another walk from the same state and question; not a strict
#                       ceiling: a reader may predict the likelier action or see the chosen path

MAJORITY, POSITION, REPEAT = "majority", "position only", "repeat the first"
OPTIMAL, STATED, AGAIN = "optimal plan", "stated plan", "asked again"
SHUFFLED = "shuffled activations"
# Order of the rows in tables.
BASELINES = (REPEAT, MAJORITY, POSITION, SHUFFLED, OPTIMAL, STATED, AGAIN)
# Prediction for a sequence if no other walk has its state and question.
UNASKED = -2
_ENOUGH_ASKED = 0.5


def majority(train: IntArray) -> IntArray:
    """Return the most frequent action of each step of training sequences, [queries]."""
    out: list[int] = []
    for column in train.T:
        counts = np.bincount(column[(column >= 0) & (column < END)], minlength=END)
        # Beyond the longest training walk, repeat the action of the step before.
        out.append(int(counts.argmax()) if counts.any() or not out else out[-1])
    return np.array(out)


def position_features(scenes: Scenes) -> FloatArray:
    """Encode the cells of agent and goal, without the map, [N, 1, F]."""
    rows, columns = scenes.shapes.max(axis=0)
    agents = np.array([state.cell for state in scenes.states])
    goals = np.array([world.goal for world in scenes.worlds])
    away = goals - agents
    parts = [
        *(np.eye(rows)[at[:, 0]] for at in (agents, goals)),
        *(np.eye(columns)[at[:, 1]] for at in (agents, goals)),
        np.eye(2 * rows)[away[:, 0] + rows],
        np.eye(2 * columns)[away[:, 1] + columns],
        np.sign(away).astype(float),
        np.eye(LAYERS)[[state.layer for state in scenes.states]],
    ]
    return np.concatenate(parts, axis=1)[:, None]


def optimal_plans(plans: WalkPlans, *, seed: int) -> IntArray:
    """Draw a shortest path of the true map from each decision, [N, queries]."""
    out = np.full(plans.actions.shape, NOTHING)
    places = zip(
        plans.scenes.worlds, plans.scenes.states, plans.walks, plans.steps.tolist(), strict=True
    )
    for number, (world, state, walk, step) in enumerate(places):
        plan, moves = planned(world), list[int]()
        draws = Draws("optimal plan", seed, str(walk), step)
        while actions := plan.optimal_actions(state):
            moves.append(draws.choice(actions))
            state = plan.step(state, moves[-1])
        # No path ends if the goal is unreachable.
        moves += [END] if plan.distance_from(state) == 0 else []
        out[number] = _filled(moves, plans.queries)
    return out


def stated_plans(samples: Sequence[Sample], tokenizer: Any, plans: WalkPlans) -> IntArray | None:
    """Return the plans that a model states before it answers, [N, queries]; None if none."""
    places = list(zip(map(str, plans.walks), plans.steps.tolist(), strict=True))
    decisions = set(places)
    stated = {
        place: Located(sample, tokenizer).stated_plan()
        for sample in samples
        if (place := (sample.walk, sample.step)) in decisions
    }
    moves = [stated.get(place) for place in places]
    out = np.array([_filled([*each, END] if each else [], plans.queries) for each in moves])
    return out if (out != NOTHING).any() else None


def other_walks(plans: WalkPlans, *, seed: int) -> IntArray | None:
    """Draw another walk with the same state and question, [N, queries]; `UNASKED` if none."""
    groups: dict[Hashable, list[int]] = {}
    keys = zip(plans.scenes.worlds, plans.scenes.states, plans.questions, strict=True)
    for number, key in enumerate(keys):
        groups.setdefault(key, []).append(number)
    out = np.full(plans.actions.shape, UNASKED)
    for numbers in groups.values():
        for number in numbers:
            others = [i for i in numbers if plans.walks[i] != plans.walks[number]]
            if others:
                place = str(plans.walks[number]), int(plans.steps[number])
                out[number] = plans.actions[Draws("asked again", seed, *place).choice(others)]
    repeated = (out != UNASKED).any(axis=1)
    # Fewer repetitions are grids drawn twice by chance, whose walks may share sampled answers.
    return out if len(out) and repeated.mean() >= _ENOUGH_ASKED else None


# prefix at n        share of the sequences with at least n actions whose first n are correct
# conditional at n   share of the sequences with at least n actions and the first n - 1 correct
#                    whose n-th is correct as well
#
# Predicting the end too early counts as a wrong action. The paper reports prefix accuracy.
def plan_score(
    predicted: IntArray, actions: IntArray, grids: IntArray, n: int, reader: IntArray | None = None
) -> dict[str, Estimate]:
    """Return the "prefix" and "conditional" accuracy at n actions; arrays are [N, queries].

    Given `reader` predictions, "beyond" is their prefix accuracy minus that of `predicted`.
    """
    among = (actions[:, n - 1] >= 0) & (actions[:, n - 1] < END)

    def right(predicted: IntArray) -> BoolArray:
        """Return whether all steps up to each one are correct, [N, queries]."""
        return np.logical_and.accumulate((predicted == actions) & (actions >= 0), axis=1)

    correct = right(predicted)
    before = among & correct[:, n - 2] if n > 1 else among
    scores = {
        "prefix": mean_over_grids(correct[:, n - 1], grids, among),
        "conditional": mean_over_grids(correct[:, n - 1], grids, before),
    }
    if reader is not None:
        difference = right(reader)[:, n - 1].astype(float) - correct[:, n - 1]
        scores["beyond"] = mean_over_grids(difference, grids, among, paired=True)
    return scores


class PlanReading(NamedTuple):
    """Activations of N decisions at a place, with the actions that follow."""

    activations: Activations  # [N, tokens, D]
    actions: IntArray  # [N, queries], as in `WalkPlans`

    def where(self, chosen: IntArray) -> PlanReading:
        """Return a subset of the decisions, by number."""
        return PlanReading(self.activations[chosen], self.actions[chosen])


# Function that returns the most probable action of each step, [N, queries].
Predictor = Callable[[Activations], IntArray]

# --- Linear heads ---------------------------------------------------------------------------------
# The penalty is chosen on validation data and may be infinite: a step that activations do not
# predict then gets the shares of the training part. Rows are projected onto the span of the
# training rows, which contains the solution, so a large width costs little.

# Factors of half the squared weights, added to the mean loss in nats; rows have a norm of about 1.
# Each fit starts from the weights of the previous one.
PENALTIES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
_STEPS = 100
Labelled = tuple[FloatArray, IntArray]  # rows [n, D] and labels [n]
# Number of consecutive penalties without improvement after which the search stops.
_PATIENCE = 2


@dataclass(frozen=True)
class LinearSteps:
    """Multinomial logistic regression for each step."""

    name: str = "linear"
    # Whether a step beyond all training sequences repeats the last prediction or has none.
    repeats: bool = True

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> Predictor:
        """Fit deterministically."""
        scaled, queries = Scaled.of(train.activations), train.actions.shape[1]
        parts = [(scaled(part.activations), part.actions) for part in (train, validation)]
        heads = []
        for step in range(queries):
            known, held_out = (
                (rows[actions[:, step] >= 0], actions[actions[:, step] >= 0, step])
                for rows, actions in parts
            )
            # No training data exist beyond the longest sequence.
            if not len(known[1]):
                break
            heads.append(head_of(known, held_out))

        def predicted(activations: Activations) -> IntArray:
            rows = scaled(activations)
            out = np.full((len(rows), queries), NOTHING)
            for step, head in enumerate(heads):
                out[:, step : None if self.repeats else step + 1] = head.called(rows)[:, None]
            return out

        return predicted


class Scaled(NamedTuple):
    """Scaling of activations with concatenated tokens, projected onto the span of training rows."""

    standard: Standard
    basis: FloatArray | None  # [tokens x D, m]; None if there are no more dimensions than rows

    @classmethod
    def of(cls, activations: Activations) -> Scaled:
        """Fit to training rows, [n, tokens, D]."""
        flat = activations.reshape(len(activations), -1)
        standard = Standard.of(flat)
        # A norm of about 1 at any width makes penalties comparable.
        standard = Standard(standard.mean, standard.weight / flat.shape[1] ** 0.5)
        if flat.shape[1] <= len(flat):
            return cls(standard, None)
        # The solution with squared weights is a linear combination of the rows.
        rows = standard(flat)
        spectrum, vectors = np.linalg.eigh(rows @ rows.T)
        there = spectrum > 1e-9 * spectrum.max(initial=1e-30)
        return cls(standard, rows.T @ (vectors[:, there] / np.sqrt(spectrum[there])))

    def __call__(self, activations: Activations) -> FloatArray:
        """Return rows of decisions, [n, m]."""
        rows = self.standard(activations.reshape(len(activations), -1))
        return rows if self.basis is None else np.asarray(rows @ self.basis)


class Head(NamedTuple):
    """Linear classifier with the scores rows · weights + shift."""

    classes: IntArray  # [C]
    weights: FloatArray  # [D, C]
    shift: FloatArray  # [C]

    def called(self, rows: FloatArray) -> IntArray:
        """Return the most probable class of each row, [n]."""
        return np.asarray(self.classes[(rows @ self.weights + self.shift).argmax(axis=1)])


def head_of(train: Labelled, validation: Labelled, penalties: Sequence[float] = PENALTIES) -> Head:
    """Fit a head; choose the penalty with the lowest loss on validation rows."""
    rows, labels = train
    classes, indices, counts = np.unique(labels, return_inverse=True, return_counts=True)
    weights, shift = np.zeros((rows.shape[1], len(classes))), np.log(counts / len(labels))
    best = Head(classes, weights, shift)
    # No head can predict a class that is missing from the training rows.
    is_known = np.isin(validation[1], classes)
    held_out, named = validation[0][is_known], np.searchsorted(classes, validation[1][is_known])
    if len(classes) == 1 or not len(held_out):
        return best
    lowest, worse = _nats(held_out @ weights + shift, named)[0], 0
    for penalty in penalties:
        weights, shift = _regression(rows, indices, penalty, weights, shift)
        nats, worse = _nats(held_out @ weights + shift, named)[0], worse + 1
        if nats < lowest:
            best, lowest, worse = Head(classes, weights, shift), nats, 0
        elif worse >= _PATIENCE:
            break
    return best


def _regression(
    rows: FloatArray, labels: IntArray, penalty: float, weights: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Fit multinomial logistic regression with squared weights, from a given start."""
    from scipy.optimize import minimize

    def objective(flat: FloatArray) -> tuple[float, FloatArray]:
        """Return penalised nats per row and the gradient; the last row of weights is the shift."""
        table = flat.reshape(start.shape)
        nats, errors = _nats(rows @ table[:-1] + table[-1], labels)
        slope = np.vstack([rows.T @ errors / len(rows), errors.mean(axis=0)])
        slope[:-1] += penalty * table[:-1]
        return nats + 0.5 * penalty * float((table[:-1] ** 2).sum()), slope.ravel()

    start = np.vstack([weights, shift])
    options = {"maxiter": _STEPS}
    found = minimize(objective, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    table = found.x.reshape(start.shape)
    return table[:-1], table[-1]


def _nats(scores: FloatArray, labels: IntArray) -> tuple[float, FloatArray]:
    """Return the mean loss in nats, and the derivative of its sum by the scores, [n, C]."""
    scores = scores - scores.max(axis=1, keepdims=True)
    shares = np.exp(scores)
    total = shares.sum(axis=1)
    at = np.arange(len(labels))
    nats = float((np.log(total) - scores[at, labels]).mean())
    shares /= total[:, None]
    shares[at, labels] -= 1.0
    return nats, shares


# --- Transformer decoder --------------------------------------------------------------------------
# memory     a linear layer shared by all tokens, LayerNorm, GELU, dropout; plus a learnt vector
#            per token
# queries    one per step, each the sum of a learnt query and a learnt position
# blocks     pre-norm transformer decoder layers; queries attend to each other without a mask
# scores     a linear layer from each query to the four actions and the end
#
# All steps are predicted at once. The loss of a step has weight decay^step, and the checkpoint with
# the lowest loss on validation grids is used.
#
# Source: "A Behavioural and Representational Evaluation of Goal-Directedness in Language Model
# Agents", section 5, and its code. It has no learnt vector per token, which is needed here because
# scaling each token separately removes other differences. It samples, from the last epoch.

# As published, except for the number of epochs: training stops early.
PUBLISHED = Schedule(rate=1e-4, decay=1e-2, batch=32, epochs=200, patience=15)
_CLIP = 1.0
_CHUNK = 256


@dataclass(frozen=True)
class PlanDecoder:
    """A transformer that predicts all steps at once."""

    layers: int = 2  # number of blocks; the paper has 1, 2 and 4
    width: int = 1024  # of the memory and the queries, a multiple of `heads`
    heads: int = 8  # number of attention heads
    dropout: float = 0.1  # probability of dropout
    decay: float = 0.95  # weight of a step's loss relative to that of the step before
    schedule: Schedule = field(default_factory=lambda: PUBLISHED)  # training schedule

    @property
    def name(self) -> str:
        """Name in tables, with the layers."""
        return f"decoder({self.layers})"

    def fit(self, train: PlanReading, validation: PlanReading, *, seed: int) -> Predictor:
        """Train with early stopping."""
        require("torch", extra="lm", feature="a plan decoder")
        import torch
        from torch.nn import functional

        standard = Standard.of(train.activations.reshape(len(train.actions), -1))

        def inputs(activations: Activations) -> torch.Tensor:
            flat = standard.single(activations.reshape(len(activations), -1))
            return torch.from_numpy(flat.reshape(activations.shape))

        def nats(scores: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
            """Return nats per known step, weighted by decay^step."""
            costs = functional.cross_entropy(
                scores.transpose(1, 2), actions, ignore_index=NOTHING, reduction="none"
            )
            weight = (actions != NOTHING) * self.decay ** torch.arange(actions.shape[1])
            return (costs * weight).sum() / weight.sum().clamp_min(1e-9)

        rows, held_out = (inputs(part.activations) for part in (train, validation))
        actions, later = (torch.from_numpy(part.actions) for part in (train, validation))
        rng = np.random.default_rng(seed)

        def batches() -> Sequence[torch.Tensor]:
            return torch.split(torch.from_numpy(rng.permutation(len(rows))), self.schedule.batch)

        def loss(batch: torch.Tensor) -> torch.Tensor:
            return nats(network(rows[batch]), actions[batch])

        def validation_loss() -> float:
            scores = torch.cat([network(part) for part in torch.split(held_out, _CHUNK)])
            return float(nats(scores, later))

        # Dropout draws from torch's global generator, whose state is restored.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = self._network(train)
            self.schedule.train(network, batches, loss, validation_loss, clip=_CLIP)

        def predicted(activations: Activations) -> IntArray:
            with torch.no_grad():
                parts = torch.split(inputs(activations), _CHUNK)
                return torch.cat([network(part).argmax(dim=-1) for part in parts]).numpy()

        return predicted

    def _network(self, train: PlanReading) -> nn.Module:
        import torch
        from torch import nn

        sizes, width, rate = self, self.width, self.dropout
        tokens, dimensions = train.activations.shape[1:]
        queries = train.actions.shape[1]

        class Network(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.memory = nn.Sequential(
                    nn.Linear(dimensions, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(rate)
                )
                self.places = nn.Parameter(0.02 * torch.randn(tokens, width))
                self.queries = nn.Parameter(0.02 * torch.randn(queries, width))
                self.positions = nn.Parameter(0.02 * torch.randn(queries, width))
                block = nn.TransformerDecoderLayer(
                    width, sizes.heads, 4 * width, rate, "gelu", batch_first=True, norm_first=True
                )
                self.blocks = nn.TransformerDecoder(block, sizes.layers, nn.LayerNorm(width))
                self.scores = nn.Linear(width, END + 1)

            def forward(self, rows: torch.Tensor) -> torch.Tensor:
                queries = (self.queries + self.positions).expand(len(rows), -1, -1)
                decoded = self.blocks(queries, self.memory(rows) + self.places)
                scores: torch.Tensor = self.scores(decoded)
                return scores

        return Network()


# Models that predict all later actions of a walk from the activations of one decision.
PlanReader = LinearSteps | PlanDecoder
