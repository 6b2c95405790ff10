"""Train the agents: networks, behaviour cloning, and PPO of Stable-Baselines3."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from goalmeter import InvalidFileError
from goalmeter._errors import require
from goalmeter.agents.stable_baselines import borrowed_generators
from goalmeter.runs import Study
from replications.goal_misgeneralisation import levels as drawing
from replications.goal_misgeneralisation.levels import ACTIONS, Levels
from replications.kinds import AnyArray, FloatArray

# --- Network --------------------------------------------------------------------------------------
HIDDEN = (128, 128)


@dataclass(frozen=True, eq=False)
class Network:
    """What an agent learnt."""

    # of each layer its weights [out, in] and its biases [out]; ReLU between layers
    layers: Sequence[tuple[AnyArray, AnyArray]]

    def policy(self, observations: AnyArray) -> FloatArray:
        """Probabilities of the actions, [N, 4], at observations [N, D]."""
        values = np.asarray(observations, dtype=np.float64)
        for number, (weights, biases) in enumerate(self.layers):
            values = values @ weights.T.astype(np.float64) + biases
            if number < len(self.layers) - 1:
                values = np.maximum(values, 0.0)
        shares = np.exp(values - values.max(axis=1, keepdims=True))
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    def to_json(self) -> list[dict[str, str]]:
        """The numbers in single precision, little-endian, in base64."""
        return [
            {"weights": _text(weights), "biases": _text(biases)} for weights, biases in self.layers
        ]

    @classmethod
    def from_json(cls, value: Any) -> Network:
        """The network that `to_json` was of."""
        try:
            layers = [(_array(part["weights"]), _array(part["biases"])) for part in value]
            sizes = [len(biases) for _, biases in layers]
            shaped = [
                (weights.reshape(n, -1), biases)
                for (weights, biases), n in zip(layers, sizes, strict=True)
            ]
            fits = all(
                weights.shape[1] == before
                for (weights, _), before in zip(shaped[1:], sizes, strict=False)
            )
            if not fits or sizes[-1:] != [ACTIONS]:
                raise ValueError("its layers do not fit together")
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as cause:
            raise InvalidFileError(
                f"a trained agent cannot be read ({type(cause).__name__}: {cause}); remove its "
                f"line from the run, and the same command trains it again"
            ) from cause
        return cls(shaped)


def _text(array: AnyArray) -> str:
    return base64.b64encode(np.ascontiguousarray(array, dtype="<f4").tobytes()).decode("ascii")


def _array(text: str) -> AnyArray:
    return np.frombuffer(base64.b64decode(text, validate=True), dtype="<f4")


# --- Cloning --------------------------------------------------------------------------------------
# An expert prefers to be paid early, by this discount; values are worked out so many steps ahead.
_DISCOUNT, _STEPS = 0.9, 60
# Actions whose values are closer than this are equally good.
_TIE = 1e-9
# States that an expert shows in each level, updates, and states of an update.
STATES, UPDATES, BATCH = 24, 1500, 256
_RATE = 2e-3


def expert(levels: Levels, utility: FloatArray) -> FloatArray:
    """Best actions in each state, with equal probability: [S, 4].

    Args:
        levels: where.
        utility: what the expert is paid for a decision in each state, [S].
    """
    value = np.zeros(len(utility))
    for _ in range(_STEPS):
        ahead = utility[:, None] + _DISCOUNT * value[levels.next_state]
        value = ahead.max(axis=1)
    best = ahead >= value[:, None] - _TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def demonstrations(
    levels: Levels, utility: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """What an expert sees, [N, D], and its actions there, [N, 4]: up to `STATES` of each level.

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


def cloned(levels: Levels, utility: FloatArray, seed: int, *, updates: int = UPDATES) -> Network:
    """A network trained to do in some levels what an expert for a utility does."""
    torch = require("torch", extra="neural", feature="Behaviour cloning")
    rng = np.random.default_rng(seed)
    seen, done = demonstrations(levels, utility, rng)
    torch.manual_seed(seed)
    sizes = (seen.shape[1], *HIDDEN, ACTIONS)
    linear = [torch.nn.Linear(a, b) for a, b in pairwise(sizes)]
    model = torch.nn.Sequential(
        linear[0], *(part for layer in linear[1:] for part in (torch.nn.ReLU(), layer))
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=_RATE)
    decay = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
    inputs, targets = torch.tensor(seen), torch.tensor(done, dtype=torch.float32)
    for _ in range(updates):
        batch = torch.from_numpy(rng.integers(len(seen), size=BATCH))
        loss = torch.nn.functional.cross_entropy(model(inputs[batch]), targets[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        decay.step()
    return Network(
        [(layer.weight.detach().numpy(), layer.bias.detach().numpy()) for layer in linear]
    )


# --- Reinforcement --------------------------------------------------------------------------------
# Episodes at once, and steps of each between two updates of the policy.
EPISODES, STEPS = 128, 32
TOTAL = 300_000


def reinforced(levels: Levels, seed: int, *, steps: int = TOTAL) -> Network:
    """The policy that PPO learns in some levels."""
    library = require("stable_baselines3", extra="sb3", feature="Training by PPO")
    from torch import nn

    from replications.goal_misgeneralisation.vector_environment import LevelsEnvironment

    model = library.PPO(
        "MlpPolicy",
        LevelsEnvironment(levels, EPISODES, seed),
        n_steps=STEPS,
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
    return Network(
        [
            (layer.weight.detach().numpy(), layer.bias.detach().numpy())
            for layer in (*layers, policy.action_net)
        ]
    )


# --- Training -------------------------------------------------------------------------------------
PPO, CLONE, WRONG_CLONE = "PPO", "clone of the right goal", "clone of the wrong goal"
KINDS = (PPO, CLONE, WRONG_CLONE)
# At a share of 0 the two utilities are one function: no behaviour there distinguishes the goals.
SHARES = (1e-3, 1e-2, 0.1, 1.0)


@dataclass(frozen=True)
class Scale:
    """How much is made of everything."""

    levels: int = drawing.TRAINED_ON  # that an agent is trained on
    updates: int = UPDATES  # of a clone's weights
    steps: int = TOTAL  # of PPO
    # training-like levels of each kind that are worked out, at most
    of_a_kind: int = drawing.MOST_OF_A_KIND
    shifted: int = drawing.SHIFTED  # levels in which agents are shifted
    run_of_a_kind: int = 20  # training-like levels of each kind that are run, at most
    budget: int = 600_000  # steps of a measurement by running


@dataclass(frozen=True)
class Subject:
    """An agent."""

    family: str  # of the levels it is trained on
    kind: str  # how
    share: float  # of these levels that tell the goals apart
    seed: int  # of its levels and of its training

    @property
    def name(self) -> str:
        """As runs keep it."""
        return f"{self.family}, {self.kind}, share {self.share:g}, seed {self.seed}"


def subjects(seeds: Sequence[int]) -> list[Subject]:
    """Every kind of agent in every family of levels, at every share, once for each seed."""
    # Agents that learn from the same levels follow each other, so that these are drawn once.
    return [
        Subject(family, kind, share, seed)
        for seed in seeds
        for family in drawing.FAMILIES
        for share in SHARES
        for kind in KINDS
    ]


def of_agents(networks: Mapping[Subject, Network | None]) -> dict[str, dict[str, Any]]:
    """The trials of a study that asks about some agents, by their names; see `measuring.study`."""
    return {
        agent.name: {
            "family": agent.family,
            "share": agent.share,
            "network": network and network.to_json(),
        }
        for agent, network in networks.items()
    }


def study(agents: Sequence[Subject], scale: Scale) -> Study[Network]:
    """The training of some agents."""
    return Study[Network](
        "training",
        "replications.goal_misgeneralisation.training:trained",
        {agent.name: vars(agent) for agent in agents},
        common={"levels": scale.levels, "updates": scale.updates, "steps": scale.steps},
        noun="agent",
        what={
            "kind": "goal-misgeneralisation, training",
            "levels": scale.levels,
            "updates": scale.updates,
            "steps": scale.steps,
            "seeds": sorted({agent.seed for agent in agents}),
        },
        from_json=lambda key, value: Network.from_json(value),
        to_json=lambda network: network.to_json(),
    )


def trained(
    family: str, kind: str, share: float, seed: int, levels: int, updates: int, steps: int
) -> list[dict[str, Any]]:
    """The network of an agent, as JSON values: what a worker process does."""
    there = drawing.training_levels(family, share, seed, levels)
    with borrowed_generators():
        if kind == PPO:
            network = reinforced(there, seed, steps=steps)
        else:
            wanted = there.right if kind == CLONE else there.wrong
            network = cloned(there, wanted, seed, updates=updates)
    return network.to_json()
