"""Train agents; measure them exactly and by running levels; score predictors of their goals."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from goalmeter import InvalidFileError
from goalmeter.agents import borrowed_generators
from goalmeter.gridworld import Draws
from goalmeter.meg import from_simulator, known_utility_many, unknown_utility
from goalmeter.statistics import estimate, student_ends
from replications.common import AnyArray, FloatArray, optional
from replications.goal_misgeneralisation import levels as drawing
from replications.goal_misgeneralisation.levels import ACTIONS, HORIZON, Levels, TrainingLike

# --- Network --------------------------------------------------------------------------------------
HIDDEN = (128, 128)
_PARTS = ("weights", "biases")


@dataclass(frozen=True, eq=False)
class Network:
    """What an agent learnt: weights [out, in] and biases [out] of each layer, ReLU between."""

    layers: Sequence[tuple[AnyArray, AnyArray]]

    def policy(self, observations: AnyArray) -> FloatArray:
        """Return the probabilities of the actions, [N, 4], at observations [N, D]."""
        values = np.asarray(observations, dtype=np.float64)
        for weights, biases in self.layers:
            # ReLU between layers: observations are never negative, so they stay as they are.
            values = np.maximum(values, 0.0) @ weights.T.astype(np.float64) + biases
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def to_json(self) -> list[dict[str, str]]:
        """Return the numbers in single precision, little-endian, in base64."""
        return [
            {
                name: base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()
                for name, array in zip(_PARTS, layer, strict=True)
            }
            for layer in self.layers
        ]

    @classmethod
    def from_json(cls, value: Any) -> Network:
        """Return the network that `to_json` was called on."""
        try:
            layers = []
            for part in value:
                weights, biases = (
                    np.frombuffer(base64.b64decode(part[name], validate=True), dtype="<f4")
                    for name in _PARTS
                )
                layers.append((weights.reshape(len(biases), -1), biases))
            sizes = [len(biases) for _, biases in layers]
            if [weights.shape[1] for weights, _ in layers[1:]] + [ACTIONS] != sizes:
                raise ValueError("its layers do not fit together")
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as cause:
            raise InvalidFileError(
                f"a trained agent cannot be read ({type(cause).__name__}: {cause}); remove its "
                f"line from the run, and the same command trains it again"
            ) from cause
        return cls(layers)


# --- Cloning --------------------------------------------------------------------------------------
_DISCOUNT, _STEPS = 0.9, 60  # of an expert's values, and steps that they are worked out ahead
_TIE = 1e-9  # actions whose values are closer than this are equally good
STATES, BATCH, RATE = 24, 256, 2e-3  # states that an expert shows in each level; of updates


def expert(levels: Levels, utility: FloatArray) -> FloatArray:
    """Return the best actions for a utility [S] in each state, with equal probability: [S, 4]."""
    value = np.zeros(len(utility))
    for _ in range(_STEPS):
        ahead = utility[:, None] + _DISCOUNT * value[levels.next_state]
        value = ahead.max(axis=1)
    best = ahead >= value[:, None] - _TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def _demonstrations(
    levels: Levels, utility: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """What an expert sees, [N, D], and its actions there, [N, 4]: up to `STATES` of a level."""
    shown = expert(levels, utility)
    # States where it does not matter what is done show nothing and are left out.
    tells = np.flatnonzero((shown.max(axis=1) > 1 / ACTIONS) & ~levels.ends)
    level = np.searchsorted(levels.starts, tells, side="right")
    mixed = rng.permutation(len(tells))
    order = mixed[np.argsort(level[mixed], kind="stable")]
    ranked = level[order]
    rank = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    chosen = tells[order[rank < STATES]]
    return levels.observations[chosen], shown[chosen]


def _cloned_layers(levels: Levels, utility: FloatArray, seed: int, updates: int) -> list[Any]:
    torch = optional("torch", "neural", "Behaviour cloning")
    rng = np.random.default_rng(seed)
    seen, done = _demonstrations(levels, utility, rng)
    torch.manual_seed(seed)
    sizes = (seen.shape[1], *HIDDEN, ACTIONS)
    linear = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = torch.nn.Sequential(
        linear[0], *(part for layer in linear[1:] for part in (torch.nn.ReLU(), layer))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    inputs, targets = torch.tensor(seen), torch.tensor(done, dtype=torch.float32)
    for _ in range(updates):
        batch = torch.from_numpy(rng.integers(len(seen), size=BATCH))
        loss = torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    return linear


# --- Training -------------------------------------------------------------------------------------
PPO, CLONE, WRONG_CLONE = "PPO", "clone of the right goal", "clone of the wrong goal"
SHARES = (1e-3, 1e-2, 0.1, 1.0)  # of distinguishing levels


@dataclass(frozen=True)
class Scale:
    """How much is made of everything."""

    levels: int = 2000  # trained on
    updates: int = 1500  # of a clone
    steps: int = 300_000  # of PPO
    of_a_kind: int = 60  # at most so many training-like levels of each kind are worked out
    shifted: int = 200  # levels in which agents are evaluated
    run_of_a_kind: int = 20  # training-like levels of each kind that are run
    budget: int = 600_000  # steps of these


@dataclass(frozen=True)
class TrainedAgent:
    """An agent: the levels that it is trained on, how, their share of distinguishing ones, seed."""

    family: str
    kind: str
    share: float
    seed: int

    @property
    def name(self) -> str:
        """As runs store it."""
        return f"{self.family}, {self.kind}, share {self.share:g}, seed {self.seed}"


def trained(
    family: str, kind: str, share: float, seed: int, levels: int, updates: int, steps: int
) -> list[dict[str, Any]]:
    """Return the network of an agent as JSON values; a trial."""
    there = drawing.training_levels(family, share, seed, levels)
    with borrowed_generators():
        if kind == PPO:
            optional("stable_baselines3", "sb3", "Training by PPO")
            from replications.goal_misgeneralisation.ppo import ppo_layers

            layers = ppo_layers(there, HIDDEN, seed, steps)
        else:
            wanted = there.right if kind == CLONE else there.wrong
            layers = _cloned_layers(there, wanted, seed, updates)
    arrays = [(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in layers]
    return Network(arrays).to_json()


# --- Measuring ------------------------------------------------------------------------------------
# MEG towards a utility is that of many levels as one world, in which an episode begins in any of
# them by chance: one rationality for all. It is exact; its interval is over undrawn levels.


def measured(
    family: str, share: float, network: Any, seed: int, of_a_kind: int, shifted: int
) -> dict[str, Any]:
    """Return what an agent does, exactly; a trial."""
    agent = Network.from_json(network)
    like = drawing.training_like(family, share, seed, of_a_kind)
    policy = agent.policy(like.levels.observations)
    right, wrong = like.levels.first_reached(policy)
    telling = slice(len(like.levels) - like.apart, None)
    there = drawing.shifted(family, seed, shifted)
    shows_right, shows_wrong = there.first_reached(agent.policy(there.observations))
    failure = 1.0 - right
    return {
        "decided": float(like.weights @ (right + wrong)),
        "failure": {"value": float(like.weights @ failure), "interval": _interval(like, failure)},
        "failure_apart": _mean(failure[telling]),
        "first_apart": _mean((wrong - right)[telling], least=-1.0),
        "meg": _meg(like, policy),
        "learnt": _learnt_utility(like, policy) if like.apart else None,
        "shifted": {
            "right": _mean(shows_right),
            "wrong": _mean(shows_wrong),
            "difference": _mean(shows_wrong - shows_right, least=-1.0),
        },
    }


def _mean(values: FloatArray, least: float = 0.0) -> dict[str, Any] | None:
    """The mean of some levels of one kind with its interval; None without a level."""
    return estimate(values, bounds=(least, 1.0)).to_json() if len(values) else None


def _interval(like: TrainingLike, values: FloatArray) -> list[float] | None:
    """Student's interval over levels that were not drawn; None where no level differs."""
    kind = np.arange(len(like.levels)) >= len(like.levels) - like.apart
    _, stratum = np.unique(kind, return_inverse=True)
    ends = student_ends(values, like.weights, stratum, (1.0 - 0.95) / 2.0)
    return None if ends is None else list(ends)


def _meg(like: TrainingLike, policy: FloatArray) -> dict[str, Any]:
    """MEG towards both goals, nats, and how much more it is towards the wrong one."""
    levels = like.levels
    utilities = [levels.right, levels.wrong]
    right, wrong = known_utility_many(levels.mdp(like.weights), [policy], utilities=utilities)
    # At its best rationality MEG does not change with it to first order, so levels that were not
    # drawn would change MEG as they change the evidence at the rationality of those that were.
    each = evidence(levels, policy, levels.wrong, wrong.rationality)
    each -= evidence(levels, policy, levels.right, right.rationality)
    # Where no level is distinguishing all differences are 0, and nothing has a spread.
    values = {"right": right.value, "wrong": wrong.value, "difference": wrong.value - right.value}
    return values | {"interval": _interval(like, each)}


def evidence(
    levels: Levels, policy: FloatArray, utility: FloatArray, rationality: float
) -> FloatArray:
    """Return the expected log-probability of actions in each level over free choice, [L] nats."""
    # It is the rationality times what the agent collects, less the soft value of the start
    # (docs/notes/mathematics.md, "Worlds without a table").
    paid = rationality * utility
    soft, collected = np.zeros((2, len(paid)))
    for _ in range(HORIZON):
        ahead = soft[levels.next_state]
        best = ahead.max(axis=1)
        soft = paid + best + np.log(np.exp(ahead - best[:, None]).mean(axis=1))
        collected = paid + (policy * collected[levels.next_state]).sum(axis=1)
    return np.asarray((collected - soft)[levels.starts])


def _learnt_utility(like: TrainingLike, policy: FloatArray) -> list[float]:
    """The utility of the family's features that explains most: a weight each, the largest ±1."""
    mdp, features = like.levels.mdp(like.weights), like.levels.features
    best = unknown_utility(mdp, policy, features=features, progress=False)
    assert best.utility is not None, "a class of features has a best utility"
    design = np.column_stack([features, np.ones(len(features))])
    weights = np.linalg.lstsq(design, np.ravel(best.utility), rcond=None)[0][:-1]
    return [float(weight) for weight in weights / np.abs(weights).max()]


# The share of episodes that are run in distinguishing levels. In the others the two utilities are
# one function: they keep the rationality, which is one for all levels, where the agent's goal is
# clear, and add nothing else to the difference.
TELLING = 0.9
WRONG, RIGHT = "wrong", "right"


def run(
    family: str, share: float, network: Any, seed: int, of_a_kind: int, budget: int
) -> dict[str, Any]:
    """Return what an agent's runs say; a trial."""
    like = drawing.training_like(family, share, seed, of_a_kind)
    levels = like.levels
    policy = Network.from_json(network).policy(levels.observations)
    world = levels.mdp(like.weighted(TELLING))
    goals: dict[str, Any] = {RIGHT: levels.right, WRONG: levels.wrong}
    # With one seed all agents would start in the same sequence of levels and share its error.
    own = Draws("measured by running", seed, family, str(share), str(network)).below(2**31)
    results = from_simulator(world, policy, utility=goals, budget=budget, seed=own, progress=False)
    assert isinstance(results, dict), "several utilities give several results"
    difference, interval = results[WRONG].less(results[RIGHT])
    right, wrong = known_utility_many(world, [policy], utilities=[levels.right, levels.wrong])
    return {
        "difference": difference,
        "interval": list(interval),
        "exact": wrong.value - right.value,
        "steps": sum(results[RIGHT].steps.values()),
        "method": results[RIGHT].method,
    }
