"""Who is let loose on the tempting button, and what each of them did there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from goalmeter.agents.learners.recurrent_dqn import HISTORY, SEED, RecurrentDQN
from goalmeter.agents.registry import history_agent
from goalmeter.experiments.tempting_button.trace import Trace
from goalmeter.reflection.environments.registry import find
from goalmeter.runs import HERE, Study, carry_out, own_process
from goalmeter.runs.forecast import Forecast, forecast_of
from goalmeter.runs.progress import Tell

STEPS = 4000  # as in the paper's experiment
SEEDS = 10  # the paper's has one; these take some 15 minutes on two cores

_DQN = "recurrent-dqn"


@dataclass(frozen=True)
class Player:
    """An agent, with what differs from the published settings of the recurrent DQN.

    `key` names it in results and in the run, `label` in tables; `coding` is the environment's, see
    `TemptingButton`.
    """

    key: str
    label: str
    agent: str = _DQN
    settings: tuple[tuple[str, Any], ...] = ()
    coding: str = "code"

    @property
    def arguments(self) -> dict[str, Any]:
        """For `trial`, but for the steps and the seed."""
        return {"agent": self.agent, "settings": dict(self.settings), "coding": self.coding}


# What the authors' script runs. (It runs the first twice, with another place in the random stream.)
_PUBLISHED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("rate 0.1, lookback 10", {}),
    ("rate 0.05", {"learning_rate": 0.05}),
    ("rate 0.01", {"learning_rate": 0.01}),
    ("rate 0.001", {"learning_rate": 0.001}),
    ("lookback 1", {"lookback": 1}),
    ("lookback 3", {"lookback": 3}),
    ("lookback 5", {"lookback": 5}),
)


def _published(draws_from: str) -> tuple[Player, ...]:
    players = []
    for label, settings in _PUBLISHED:
        changed = "".join(f",{name}={value:g}" for name, value in settings.items())
        key = f"{_DQN},draws_from={draws_from}{changed}"
        players.append(Player(key, label, settings=(("draws_from", draws_from), *settings.items())))
    return tuple(players)


ANEW, SAME = _published(HISTORY), _published(SEED)
PAPER_CODING = tuple(
    Player(f"{who.key},coding=paper", f"{who.label}, {weights}", who.agent, who.settings, "paper")
    for who, weights in ((ANEW[0], "new weights"), (SAME[0], "the same weights"))
)
BASELINES = (
    Player("constant(0)", "never push", "constant(0)"),
    Player("constant(1)", "always push", "constant(1)"),
    Player("random", "random", "random"),
    Player("naive", "naive learner", "naive"),
    Player("q-learner", "tabular Q-learner", "q-learner"),
)
PLAYERS = (*BASELINES, *ANEW, *SAME, *PAPER_CODING)


def trial(agent: str, settings: dict[str, Any], coding: str, steps: int, seed: int) -> Any:
    """Everything that happens in a run of TemptingButton, as three strings.

    The rooms are those of a trial of `goalmeter reflect` with the same seed. `steps` are percepts,
    the first included; `settings` are the recurrent DQN's, empty for other agents.
    """
    player = RecurrentDQN(seed, **settings) if agent == _DQN else history_agent(agent, seed)
    environment, _ = find(f"TemptingButton(coding={coding})")
    # The stream of random numbers that `reflection.trial` draws the rooms from.
    run = environment.start(player, Random(f"{environment.base}:{seed}"))
    mind = player.begin(environment.n_actions, environment.n_observations)
    rewards, observations, actions = [], [], []
    reward, observation = run.begin()
    while True:
        rewards.append("-0+"[int(reward) + 1])
        observations.append(str(observation))
        if len(rewards) == steps:
            break
        mind.perceive(reward, observation)
        action = mind.act()
        actions.append(str(action))
        mind.take(action)
        reward, observation = run.react(action)
    return {
        "rewards": "".join(rewards),
        "observations": "".join(observations),
        "actions": "".join(actions),
    }


def play(
    out: Path,
    players: Sequence[Player],
    *,
    steps: int,
    seeds: Iterable[int],
    on: str = HERE,
    progress: Tell | None = None,
) -> dict[str, list[Trace]]:
    """The trace of each player with each seed: key -> [seeds].

    Trials that the folder `out` of the run holds are not played again. Networks are
    trained in processes, also where `on` is this one.

    Raises:
        GoalmeterError: a trial failed; those that are finished are kept.
    """
    wanted = _wanted(players, seeds)
    study, on = _study(wanted, steps), _place(players, on)
    traces: dict[str, list[Trace]] = {who.key: [] for who in players}
    for key, value in carry_out(study, on=on, out=out, progress=progress).items():
        who, _ = wanted[key]
        traces[who.key].append(Trace.of(**value, coding=who.coding))
    return traces


def forecasts(
    out: Path, players: Sequence[Player], *, steps: int, seeds: Sequence[int], on: str = HERE
) -> list[Forecast]:
    """What `play` will cost, of reference agents and of networks, which take far longer."""
    told = []
    for name, is_trained in (("reference agents", False), ("recurrent DQN", True)):
        kind = [who for who in players if (who.agent == _DQN) == is_trained]
        if kind:
            study = _study(_wanted(kind, seeds), steps)
            told.append(replace(forecast_of(study, on=_place(players, on), out=out), name=name))
    return told


def _wanted(players: Sequence[Player], seeds: Iterable[int]) -> dict[str, tuple[Player, int]]:
    return {f"{who.key} seed {seed}": (who, seed) for seed in seeds for who in players}


def _study(wanted: Mapping[str, tuple[Player, int]], steps: int) -> Study[Any]:
    return Study[Any](
        "TemptingButton",
        f"{__name__}:trial",
        {key: who.arguments | {"seed": seed} for key, (who, seed) in wanted.items()},
        common={"steps": steps},
        what={"kind": "tempting-button", "steps": steps},
    )


def _place(players: Sequence[Player], on: str) -> str:
    # Trained networks are the same only where numerics have one thread, as workers do.
    return own_process(on) if any(who.agent == _DQN for who in players) else on
