"""PPO of Stable-Baselines3, trained on the right reward."""

from __future__ import annotations

from goalmeter._errors import require
from goalmeter.experiments.goal_misgeneralisation.levels import Levels
from goalmeter.experiments.goal_misgeneralisation.network import HIDDEN, Network

# Episodes at once, and steps of each between two updates of the policy.
EPISODES, STEPS = 128, 32
TOTAL = 300_000


def reinforced(levels: Levels, seed: int, *, steps: int = TOTAL) -> Network:
    """The policy that PPO learns in some levels.

    Args:
        levels: to train on.
        seed: of the weights, and of all that is drawn.
        steps: of all episodes together.
    """
    library = require("stable_baselines3", extra="sb3", feature="Training by PPO")
    from torch import nn

    from goalmeter.experiments.goal_misgeneralisation.vector_environment import LevelsEnvironment

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
