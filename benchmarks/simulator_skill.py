"""Does MEG rise with the skill of trained agents, and are the intervals narrow enough to show it?

Agents of Stable-Baselines3 after three lengths of training, without exact values. The return is the
mean of 400 episodes with its standard error. MEG towards the reward is estimated from 200,000 steps
with seed 53,000; the method was chosen with other seeds. It has a minus sign if the agent does
worse than the reference: free choice, or the uniform density where actions are continuous
(Pendulum, Reacher). The last column states whether the interval is above that of the agent with
less training. MiniGrid's agents see images of the grid; its states are named and counted.
MountainCar is trained with the change in energy as a further reward. Worlds whose package is not
installed (MiniGrid, MuJoCo) are skipped.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gymnasium
import harness
import numpy as np
from gymnasium.wrappers import RescaleObservation

import goalmeter as gm

SEED, BUDGET, QUICK_BUDGET = 53_000, 200_000, 5_000
EPISODES, FIRST_EPISODE = 400, 1_000  # of the returns
PACKAGES = ("stable-baselines3", "torch", "gymnasium", "minigrid", "mujoco")
Env = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class World:
    """An environment, and how its agents are trained.

    Attributes:
        id: of the environment.
        algorithm: of Stable-Baselines3.
        steps: numbers of steps of training.
        settings: of the algorithm.
        copies: number of environments in which the agent is trained together.
        package: needed besides Gymnasium.
        wrapped: adds wrappers to the environment.
        shaped: adds wrappers for training.
        reference: of continuous actions.
    """

    id: str
    algorithm: str
    steps: tuple[int, int, int]
    settings: dict[str, Any] = field(default_factory=dict)
    copies: int = 1
    package: str = "gymnasium"
    wrapped: Callable[[Env], Env] = lambda env: env
    shaped: Callable[[Env], Env] = lambda env: env
    reference: str | None = None

    def make(self) -> Env:
        """Return a new environment, as its agents see it."""
        return self.wrapped(gymnasium.make(self.id))


def image(env: Env) -> Env:
    """Show an image of the whole grid with 4 x 4 pixels per cell."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    return ImgObsWrapper(RGBImgObsWrapper(env, tile_size=4))


def rescaled(env: Env) -> Env:
    """Show observations in [-1, 1]."""
    return RescaleObservation(env, -1.0, 1.0)


class EnergyReward(gymnasium.Wrapper[Any, Any, Any, Any]):
    """MountainCar whose reward includes the change in mechanical energy."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        before = self._energy()
        seen, paid, terminated, truncated, info = self.env.step(action)
        gained = self._energy() - before
        return seen, float(0.01 * float(paid) + 1000 * gained), terminated, truncated, info

    def _energy(self) -> float:
        position, velocity = self.unwrapped.state
        return float(velocity**2 / 2 + 0.0025 * np.sin(3 * position) / 3)


WORLDS = (
    World("CartPole-v1", "PPO", (3_072, 10_240, 51_200), {"n_steps": 1_024, "batch_size": 64}),
    World(
        "MountainCar-v0",
        "PPO",
        (8_192, 16_384, 49_152),
        {"n_steps": 128, "batch_size": 128, "gae_lambda": 0.98, "learning_rate": 1e-3},
        copies=16,
        wrapped=rescaled,
        shaped=EnergyReward,
    ),
    World(
        "Acrobot-v1",
        "PPO",
        (8_192, 16_384, 49_152),
        {"n_steps": 128, "batch_size": 128, "gae_lambda": 0.94, "learning_rate": 1e-3},
        copies=16,
    ),
    World(
        "Pendulum-v1",
        "SAC",
        (2_500, 3_000, 10_000),
        {"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [64, 64]}},
        reference="uniform",
    ),
    World(
        "MiniGrid-Empty-Random-5x5-v0",
        "PPO",
        (4_096, 16_384, 65_536),
        {"n_steps": 128, "batch_size": 256, "n_epochs": 4, "ent_coef": 0.01},
        copies=8,
        package="minigrid",
        wrapped=image,
    ),
    World(
        "Reacher-v5",
        "PPO",
        (16_384, 32_768, 98_304),
        {"n_steps": 128, "batch_size": 256, "gamma": 0.9, "learning_rate": 1e-3},
        copies=16,
        package="mujoco",
        reference="uniform",
    ),
)


def trained(world: World, lengths: Sequence[int]) -> list[tuple[Any, float]]:
    """Return the model after each number of steps, and the seconds of training until then."""
    import stable_baselines3
    from stable_baselines3.common.env_util import make_vec_env

    algorithm = getattr(stable_baselines3, world.algorithm)
    envs = make_vec_env(lambda: world.shaped(world.make()), world.copies)
    model = algorithm("MlpPolicy", envs, seed=0, device="cpu", **world.settings)
    saved, seconds = [], [0.0]
    for length in lengths:
        further = length - model.num_timesteps
        _, took = harness.processor(partial(model.learn, further, reset_num_timesteps=False))
        saved.append(io.BytesIO())
        model.save(saved[-1])
        seconds.append(seconds[-1] + took)
    # Loading a model seeds the generators that training uses, so it comes last.
    models = [algorithm.load(each, device="cpu") for each in saved]
    return list(zip(models, seconds[1:], strict=True))


def returns(env: Env, model: Any) -> list[float]:
    """Return the payoffs of episodes of a model."""
    from stable_baselines3.common.utils import set_random_seed

    set_random_seed(0)
    totals = []
    for seed in range(FIRST_EPISODE, FIRST_EPISODE + EPISODES):
        seen, _ = env.reset(seed=seed)
        total, ended = 0.0, False
        while not ended:
            action, _ = model.predict(seen)
            seen, paid, terminated, truncated, _ = env.step(action)
            total, ended = total + float(paid), terminated or truncated
        totals.append(total)
    return totals


def measured(world: World, model: Any, budget: int = BUDGET) -> dict[str, Any]:
    """Return and MEG of one agent."""
    totals = returns(world.make(), model)
    result, took = harness.processor(
        lambda: gm.meg.from_simulator(
            world.make(),
            model,
            reference=world.reference,
            chance="generator",
            budget=budget,
            seed=SEED,
            progress=False,
        )
    )
    print(world.id, model.num_timesteps, np.mean(totals), result, flush=True)
    return {
        "algorithm": world.algorithm,
        "training": model.num_timesteps,
        "return": float(np.mean(totals)),
        "standard_error": float(np.std(totals, ddof=1) / len(totals) ** 0.5),
        "seconds": took,
    } | result.to_json()


def measure(quick: bool) -> dict[str, Any]:
    rows, skipped = [], []
    for world in WORLDS[:1] if quick else WORLDS:
        if importlib.util.find_spec(world.package) is None:
            print(f"{world.id} is skipped: {world.package} is not installed")
            skipped.append(f"{world.id} ({world.package} is not installed)")
            continue
        importlib.import_module(world.package)  # registers its environments
        lengths = world.steps[:1] if quick else world.steps
        for model, spent in trained(world, lengths):
            row = measured(world, model, QUICK_BUDGET if quick else BUDGET)
            rows.append(row | {"training_seconds": spent})
    return {"agents": rows, "skipped": skipped, "packages": packages()}


def packages() -> dict[str, str]:
    """Return the versions of the packages that training and worlds depend on."""
    installed = [name for name in PACKAGES if importlib.util.find_spec(name.replace("-", "_"))]
    return {name: importlib.metadata.version(name) for name in installed}


def signed_interval(row: dict[str, Any]) -> tuple[float, float]:
    """Return the interval of MEG with the sign of the rationality."""
    low, high = map(float, row["interval"])
    return (-high, -low) if row["rationality"] < 0 else (low, high)


def markdown(result: dict[str, Any]) -> str:
    lines = [
        "| world | agent | training | return | MEG | interval | above |\n"
        "|---|---|---|---|---|---|---|\n"
    ]
    before: dict[str, Any] = {}
    for row in result["agents"]:
        low, high = signed_interval(row)
        above = ""
        if row["world"] == before.get("world"):
            above = "yes" if low > signed_interval(before)[1] else "no"
        lines.append(
            f"| {row['world']} | {row['algorithm']} | {row['training']:,} | "
            f"{row['return']:.4g} ± {row['standard_error']:.2g} | {row['signed']:.3g} | "
            f"[{low:.3g}, {high:.3g}] | {above} |\n"
        )
        before = row
    skipped = "".join(f"\nSkipped: {each}." for each in result["skipped"])
    used = ", ".join(f"{name} {version}" for name, version in result["packages"].items())
    return "".join(lines) + skipped + f"\nWith {used}."


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
