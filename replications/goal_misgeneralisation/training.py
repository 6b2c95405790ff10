"""Train the agents: networks, behaviour cloning, and PPO of Stable-Baselines3."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from goalmeter import InvalidFileError
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.runs import Study
from replications.goal_misgeneralisation import levels as drawing
from replications.goal_misgeneralisation.levels import ACTIONS, Levels
from replications.kinds import AnyArray, FloatArray, optional

# --- Network --------------------------------------------------------------------------------------
HIDDEN = (128, 128)


@dataclass(frozen=True, eq=False)
class Network:
    """What an agent learnt: weights [out, in] and biases [out] of each layer, ReLU between."""

    layers: Sequence[tuple[AnyArray, AnyArray]]

    @classmethod
    def of(cls, linear: Sequence[Any]) -> Network:
        """Return the network of torch's linear layers."""
        return cls([(part.weight.detach().numpy(), part.bias.detach().numpy()) for part in linear])

    def policy(self, observations: AnyArray) -> FloatArray:
        """Return the probabilities of the actions, [N, 4], at observations [N, D]."""
        values = np.asarray(observations, dtype=np.float64)
        for number, (weights, biases) in enumerate(self.layers):
            values = values @ weights.T.astype(np.float64) + biases
            if number < len(self.layers) - 1:
                values = np.maximum(values, 0.0)
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def to_json(self) -> list[dict[str, str]]:
        """Return the numbers in single precision, little-endian, in base64."""
        return [
            {
                name: base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode()
                for name, array in zip(("weights", "biases"), layer, strict=True)
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
                    for name in ("weights", "biases")
                )
                layers.append((weights.reshape(len(biases), -1), biases))
            sizes = [len(biases) for _, biases in layers]
            inputs = [weights.shape[1] for weights, _ in layers]
            if inputs[1:] != sizes[:-1] or sizes[-1:] != [ACTIONS]:
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


def demonstrations(
    levels: Levels, utility: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return what an expert sees, [N, D], and its actions there, [N, 4]: up to `STATES` of a level.

    States where it does not matter what is done show nothing and are left out.
    """
    shown = expert(levels, utility)
    tells = np.flatnonzero((shown.max(axis=1) > 1 / ACTIONS) & ~levels.ends)
    level = np.searchsorted(levels.starts, tells, side="right")
    mixed = rng.permutation(len(tells))
    order = mixed[np.argsort(level[mixed], kind="stable")]
    ranked = level[order]
    rank = np.arange(len(order)) - np.searchsorted(ranked, ranked)
    chosen = tells[order[rank < STATES]]
    return levels.observations[chosen], shown[chosen]


def cloned(levels: Levels, utility: FloatArray, seed: int, updates: int) -> Network:
    """Train a network to do in some levels what an expert for a utility does."""
    torch = optional("torch", "neural", "Behaviour cloning")
    rng = np.random.default_rng(seed)
    seen, done = demonstrations(levels, utility, rng)
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
    return Network.of(linear)


def reinforced(levels: Levels, seed: int, steps: int) -> Network:
    """Return the policy that PPO learns in some levels."""
    library = optional("stable_baselines3", "sb3", "Training by PPO")
    from torch import nn

    from replications.goal_misgeneralisation.vector_environment import LevelsEnvironment

    model = library.PPO(
        "MlpPolicy",
        LevelsEnvironment(levels, 128, seed),
        n_steps=32,
        batch_size=1024,
        n_epochs=4,
        gamma=0.95,
        learning_rate=lambda left: 1.5e-3 * left,
        ent_coef=0.005,
        policy_kwargs={
            "net_arch": {"pi": list(HIDDEN), "vf": list(HIDDEN)},
            "activation_fn": nn.ReLU,
        },
        seed=seed,
        device="cpu",
    )
    model.learn(steps)
    policy = model.policy
    layers = [part for part in policy.mlp_extractor.policy_net if isinstance(part, nn.Linear)]
    return Network.of([*layers, policy.action_net])


# --- Training -------------------------------------------------------------------------------------
PPO, CLONE, WRONG_CLONE = "PPO", "clone of the right goal", "clone of the wrong goal"
SHARES = (1e-3, 1e-2, 0.1, 1.0)  # of distinguishing levels


@dataclass(frozen=True)
class Scale:
    """How much is made of everything.

    `levels` are trained on, with so many `updates` of a clone or `steps` of PPO. At most
    `of_a_kind` training-like levels of each kind are worked out, and `run_of_a_kind` are run, with
    a `budget` of steps; agents are evaluated in `shifted` levels.
    """

    levels: int = 2000
    updates: int = 1500
    steps: int = 300_000
    of_a_kind: int = 60
    shifted: int = 200
    run_of_a_kind: int = 20
    budget: int = 600_000


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


def agents_of(seeds: Sequence[int]) -> list[TrainedAgent]:
    """Return every kind of agent in every family of levels, at every share, once for each seed."""
    # Agents that learn from the same levels follow each other, so that these are drawn once.
    return [
        TrainedAgent(family, kind, share, seed)
        for seed in seeds
        for family in drawing.FAMILIES
        for share in SHARES
        for kind in (PPO, CLONE, WRONG_CLONE)
    ]


def study(agents: Sequence[TrainedAgent], scale: Scale) -> Study[Network]:
    """Return the training of some agents as a study."""
    common = {"levels": scale.levels, "updates": scale.updates, "steps": scale.steps}
    seeds = sorted({agent.seed for agent in agents})
    return Study[Network](
        "training",
        f"{__name__}:trained",
        {agent.name: vars(agent) for agent in agents},
        common=common,
        noun="agent",
        what={"kind": "goal-misgeneralisation, training"} | common | {"seeds": seeds},
        from_json=lambda key, value: Network.from_json(value),
        to_json=Network.to_json,
    )


def trained(
    family: str, kind: str, share: float, seed: int, levels: int, updates: int, steps: int
) -> list[dict[str, Any]]:
    """Return the network of an agent as JSON values; the trial of the study."""
    there = drawing.training_levels(family, share, seed, levels)
    with borrowed_generators():
        if kind == PPO:
            network = reinforced(there, seed, steps)
        else:
            wanted = there.right if kind == CLONE else there.wrong
            network = cloned(there, wanted, seed, updates)
    return network.to_json()
