"""Who is let loose on the tempting button, and what each of them did there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import goalmeter
from goalmeter._errors import InvalidParameterError
from goalmeter.agents.learners.recurrent_dqn import HISTORY, SEED, RecurrentDQN
from goalmeter.agents.registry import history_agent
from goalmeter.experiments.tempting_button.trace import Trace
from goalmeter.reflection.environments.registry import find
from goalmeter.runs import Job, RunStore, run_jobs
from goalmeter.runs.jobs import OK

STEPS = 4000  # as in the paper's experiment
SEEDS = 10  # the paper's has one; these take some 15 minutes on two cores
Progress = Callable[[str], None]

_DQN = "recurrent-dqn"


@dataclass(frozen=True)
class Player:
    """An agent, with what differs from the published settings.

    Attributes:
        key: in results and in the run.
        label: in tables.
        agent: its name.
        settings: of the recurrent DQN.
        coding: of the environment; see `TemptingButton`.
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


def _key(draws_from: str, settings: dict[str, Any]) -> str:
    changed = "".join(f",{name}={value:g}" for name, value in settings.items())
    return f"{_DQN},draws_from={draws_from}{changed}"


def _published(draws_from: str) -> tuple[Player, ...]:
    return tuple(
        Player(
            _key(draws_from, settings),
            label,
            settings=(("draws_from", draws_from), *settings.items()),
        )
        for label, settings in _PUBLISHED
    )


ANEW, SAME = _published(HISTORY), _published(SEED)
OTHER_CODING = tuple(
    Player(f"{one.key},coding=paper", f"{one.label}, {weights}", one.agent, one.settings, "paper")
    for one, weights in ((ANEW[0], "new weights"), (SAME[0], "the same weights"))
)
BASELINES = (
    Player("constant(0)", "never push", "constant(0)"),
    Player("constant(1)", "always push", "constant(1)"),
    Player("random", "random", "random"),
    Player("naive", "naive learner", "naive"),
    Player("q-learner", "tabular Q-learner", "q-learner"),
)
PLAYERS = (*BASELINES, *ANEW, *SAME, *OTHER_CODING)


def trial(agent: str, settings: dict[str, Any], coding: str, steps: int, seed: int) -> Any:
    """Everything that happens in a run of TemptingButton, as three strings.

    The rooms are those of a trial of `goalmeter reflect` with the same seed.

    Args:
        agent: name.
        settings: of the recurrent DQN; empty for others.
        coding: of the environment.
        steps: percepts, the first included.
        seed: of the agent's draws and of the rooms.
    """
    player = RecurrentDQN(seed, **settings) if agent == _DQN else history_agent(agent, seed)
    environment, _ = find(f"TemptingButton(coding={coding})")
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
    workers: int,
    progress: Progress | None = None,
) -> dict[str, list[Trace]]:
    """The trace of each player with each seed: key -> [seeds].

    Args:
        out: folder of the run; trials that it holds are not played again.
        players: who plays.
        steps: of a trial.
        seeds: of the trials.
        workers: processes; 0 for this one.
        progress: told of finished trials.

    Raises:
        InvalidParameterError: a trial failed; those that are finished are kept.
    """
    wanted = [(one, seed) for seed in seeds for one in players]
    what = {"kind": "tempting-button", "steps": steps}
    with RunStore(out, what, made_by={"goalmeter": goalmeter.__version__}) as store:
        left = [pair for pair in wanted if _name(*pair) not in store.values]
        jobs = [
            Job(f"{__name__}:trial", one.arguments | {"steps": steps, "seed": seed})
            for one, seed in left
        ]
        with closing(run_jobs(jobs, workers=workers)) as results:
            for finished, (index, result) in enumerate(results, start=1):
                name = _name(*left[index])
                if result.outcome != OK:
                    raise InvalidParameterError(
                        f"the trial {name} ended with {result.outcome}: {result.detail}; all "
                        f"finished trials are kept, and the same command goes on from there"
                    )
                store.add(name, result.value)
                if progress is not None:
                    there = len(wanted) - len(left) + finished
                    progress(f"{there} of {len(wanted)} trials: {name}")
        traces: dict[str, list[Trace]] = {one.key: [] for one in players}
        for one, seed in wanted:
            value = store.values[_name(one, seed)]
            traces[one.key].append(Trace.of(**value, coding=one.coding))
        return traces


def _name(player: Player, seed: int) -> str:
    return f"{player.key} seed {seed}"
