"""The policies of the paper's two experiments, measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter._types import FloatArray
from goalmeter.runs import Study, carry_out
from goalmeter.runs.forecast import Forecast, forecast_of, unmeasured
from goalmeter.runs.progress import Tell

GOAL_LENGTHS = (1, 2, 3, 4)
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
# Not in the paper: where the two ends of the scale lie. An epsilon of 0.75 is the uniform policy.
BASELINES = {0.0: "optimal", 0.75: "uniform"}


@dataclass(frozen=True)
class Setting:
    """One policy in one world: the optimal one (`epsilon` None) or an epsilon-greedy one."""

    goal_length: int
    epsilon: float | None = None

    @property
    def key(self) -> str:
        """As in the ids of the ledger: k=1, eps=0.1."""
        return f"k={self.goal_length}" if self.epsilon is None else f"eps={self.epsilon:g}"

    @property
    def name(self) -> str:
        """As in the paper's tables."""
        return f"k = {self.goal_length}" if self.epsilon is None else f"ε = {self.epsilon:g}"

    def world(self) -> gm.TabularMDP:
        """The CliffWorld of this goal length."""
        return gm.cliff_world(goal_length=self.goal_length)

    def policy(self, mdp: gm.TabularMDP) -> FloatArray:
        """The policy, [H, S, A]."""
        return gm.epsilon_greedy(gm.optimal_policy(mdp), self.epsilon or 0.0)


@dataclass(frozen=True, eq=False)
class Measured:
    """A setting with everything measured of it.

    `mean_return` in reward units; `visits` [S], expected decisions in each state; `neural`
    [seeds], nats, if the neural measure was run.
    """

    setting: Setting
    known: gm.MegResult
    unknown: gm.MegResult
    mean_return: float
    visits: FloatArray
    neural: FloatArray | None = None


def difficulty() -> list[Setting]:
    """The settings of Figure 3c: optimal policies for goal regions of length 1 to 4."""
    return [Setting(k) for k in GOAL_LENGTHS]


def noise(*, baselines: bool = False) -> list[Setting]:
    """The settings of Figure 3b: epsilon-greedy policies; with the ends of the scale if asked."""
    epsilons = sorted({*EPSILONS, *BASELINES} if baselines else EPSILONS)
    return [Setting(1, epsilon) for epsilon in epsilons]


def measure(settings: Iterable[Setting], progress: Tell | None = None) -> list[Measured]:
    """Known and certified unknown utility of each setting."""
    return [*carry_out(_study(settings), progress=progress).values()]


def forecast(settings: Iterable[Setting]) -> Forecast:
    """What `measure` will cost."""
    return forecast_of(_study(settings), is_kept=False)


def _study(settings: Iterable[Setting]) -> Study[Measured]:
    trials = {setting.name: {"setting": setting} for setting in settings}
    return Study("CliffWorld", _measured, trials, noun="setting")


def _measured(setting: Setting) -> Measured:
    mdp = setting.world()
    policy = setting.policy(mdp)
    return Measured(
        setting,
        gm.meg.known_utility(mdp, policy),
        gm.meg.unknown_utility(mdp, policy),
        gm.tabular.expected_return(mdp, policy).mean,
        np.asarray(gm.tabular.occupancy(mdp, policy).sum(axis=0)),
    )


def with_neural(
    measured: Sequence[Measured], seeds: Sequence[int], progress: Tell | None = None
) -> list[Measured]:
    """The same with the paper's Algorithm 2: an MLP utility fitted from each seed."""
    by_name = {m.setting.name: m for m in measured}

    def fitted(setting: Setting) -> Measured:
        mdp = setting.world()
        values = gm.meg.neural_values(mdp, setting.policy(mdp), seeds=seeds)
        return replace(by_name[setting.name], neural=values)

    study = _neural(fitted, [m.setting for m in measured], seeds)
    return [*carry_out(study, progress=progress).values()]


def neural_forecast(settings: Sequence[Setting], seeds: Sequence[int]) -> Forecast:
    """How much `with_neural` will do."""
    return unmeasured(
        _neural("", settings, seeds),
        "how long a network takes is not known: it is trained until it has converged",
        counted={"networks": len(settings) * len(seeds)},
    )


def _neural(
    fitted: str | Callable[[Setting], Measured], settings: Sequence[Setting], seeds: Sequence[int]
) -> Study[Measured]:
    trials = {setting.name: {"setting": setting} for setting in settings}
    return Study(f"CliffWorld, network, {len(seeds)} seeds", fitted, trials, noun="setting")


def recompute(ids: Sequence[str]) -> dict[str, float]:
    """Values of ledger rows meg-cliffworld/{known,unknown}/SETTING, nats."""
    # Settings of the paper only: the ledger has no rows of the ends of the scale.
    settings = {s.key: s for s in [*difficulty(), *noise()]}
    measures: dict[str, Callable[..., gm.MegResult]] = {
        "known": gm.meg.known_utility,
        "unknown": gm.meg.unknown_utility,
    }
    out = {}
    for row in ids:
        _, kind, key = (*row.split("/", 2), "", "")[:3]
        if kind not in measures or key not in settings:
            raise InvalidParameterError(
                f"ledger row {row!r} cannot be recomputed, expected meg-cliffworld/KIND/SETTING "
                f"with KIND known or unknown and SETTING one of {', '.join(settings)}"
            )
        mdp = settings[key].world()
        out[row] = measures[kind](mdp, settings[key].policy(mdp)).value
    return out
