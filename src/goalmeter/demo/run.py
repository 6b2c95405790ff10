"""`goalmeter demo`: measure the embedded agents and write one page.

The organisms come first. Then what else can be measured, where the answers are exact: CliffWorld,
FrozenLake, logged trajectories, causal models and self-reflection.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import goalmeter as gm
from goalmeter._errors import MissingExtraError, require
from goalmeter._types import FloatArray
from goalmeter.commands.navigate import of_reference
from goalmeter.commands.outcome import Outcome, shown, write_outcome
from goalmeter.commands.walks import run_folder
from goalmeter.demo import mouse, organisms
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.navigation.plan import forecast as model_forecast
from goalmeter.pages.meg import GLOSSARY, PolicyRow, policy_table
from goalmeter.pages.part import Part, all_findings, all_sections, all_terms
from goalmeter.pages.reflection import part_of as reflection_part
from goalmeter.reflection import Reflection
from goalmeter.reflection import measure as self_reflection
from goalmeter.reflection.environments import BATTERY
from goalmeter.reflection.measure import forecast as reflection_forecast
from goalmeter.report import Finding, Link, Section, require_report_extra
from goalmeter.report.numbers import between, nats, number, p_value, percent
from goalmeter.report.tables import column, table_of, words
from goalmeter.runs import HERE
from goalmeter.runs.forecast import together, unmeasured
from goalmeter.runs.progress import Tell
from goalmeter.tabular.trajectories import sample_trajectories

# --- Policies in known worlds ---------------------------------------------------------------------
LAKE_NAME, LAKE_EPSILON = "FrozenLake-v1", 0.2
_NOISE = "cliff-noise"  # id of the table that the finding leads to


def _row(name: str, mdp: gm.TabularMDP, policy: FloatArray) -> PolicyRow:
    mean = gm.tabular.expected_return(mdp, policy).mean
    known = gm.meg.known_utility(mdp, policy)
    return PolicyRow(name, mean, known, gm.meg.unknown_utility(mdp, policy))


def measure_cliff_world() -> list[PolicyRow]:
    """Measure the optimal, some epsilon-greedy and the uniform policy of CliffWorld."""
    mdp = gm.cliff_world()
    optimal = gm.optimal_policy(mdp)
    rows = [("optimal", optimal)]
    rows += [(f"ε = {e:g}", gm.epsilon_greedy(optimal, e)) for e in (0.1, 0.3, 0.5)]
    return [
        _row(name, mdp, policy) for name, policy in [*rows, ("uniform", gm.uniform_policy(mdp))]
    ]


def cliff_world_part(rows: list[PolicyRow]) -> Part:
    """Return the table of CliffWorld, with its finding."""
    table = policy_table(
        "ε-greedy policies in CliffWorld",
        rows,
        "How many nats of the agent's 30 decisions are explained by the reward (known) or by the "
        "best of all utilities over states (unknown).",
        notes=(
            f"The maximum is {nats(rows[0].known.maximum)} nats: 29 decisions that can matter, "
            "each worth log 4. Nothing is collected after the 30th.",
        ),
    )
    best, noisy = rows[0].known, rows[1].known
    finding = Finding(
        text=f"An optimal agent with one goal square scores {nats(best.value)} of "
        f"{nats(best.maximum)} nats ({percent(best.fraction)}) towards its reward, one that errs "
        f"at every tenth decision {nats(noisy.value)} ({percent(noisy.fraction)}).",
        links=(Link("numbers", _NOISE),),
    )
    section = Section(
        title="A world where MEG is exact: CliffWorld",
        text=(
            "CliffWorld is the 4 × 10 grid of the paper on MEG. Agents follow the optimal policy, "
            "but with probability ε take one of the other actions. Goal-directedness falls to "
            "nothing where the policy is uniform. `goalmeter replicate meg-cliffworld` compares "
            "all published values.",
        ),
        tables=(replace(table, anchor=_NOISE),),
    )
    return Part(sections=(section,), findings=[finding], glossary=GLOSSARY)


def measure_frozen_lake() -> tuple[list[PolicyRow], int]:
    """Measure the optimal, an epsilon-greedy and the uniform policy; also return the horizon."""
    gymnasium = require("gymnasium", extra="rl", feature="Measuring a Gymnasium environment")
    env = gymnasium.make(LAKE_NAME)
    try:
        mdp = gm.TabularMDP.from_gymnasium(env)
    finally:
        env.close()
    optimal = gm.optimal_policy(mdp)
    policies = {
        "optimal": optimal,
        f"ε-greedy, ε = {LAKE_EPSILON:g}": gm.epsilon_greedy(optimal, LAKE_EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    return [_row(name, mdp, policy) for name, policy in policies.items()], mdp.steps


def _frozen_lake() -> tuple[list[PolicyRow] | None, Section]:
    try:
        rows, horizon = measure_frozen_lake()
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    table = policy_table(
        f"Policies in {LAKE_NAME}",
        rows,
        "How many nats of the agent's decisions are explained by the environment's reward (known) "
        "or by the best of all utilities over states (unknown).",
        notes=(
            "Decisions after the episode's end cannot change anything, and are not counted in the "
            "maxima.",
            "The reward is not a utility over states, so here the unknown-utility value need not "
            "be the larger one.",
        ),
        digits=3,
    )
    return rows, Section(
        title="A Gymnasium environment: FrozenLake",
        text=(
            "The same measures on an environment that somebody else wrote, read from its "
            f"transition table: {LAKE_NAME}, 4 × 4, slippery, time limit {horizon}. Reaching the "
            "goal pays 1, falling into a hole ends the episode.",
        ),
        tables=(table,),
    )


# --- Logged trajectories --------------------------------------------------------------------------
LOG_EPSILON, LOG_EPISODES = 0.1, 100


class LoggedRow(NamedTuple):
    """An estimate from logs and the exact value of the policy that wrote them."""

    agent: str
    goal: str
    estimate: TrajectoryMeg
    exact: gm.MegResult

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        row = {"agent": self.agent, "goal": self.goal, "exact": self.exact.value}
        return row | self.estimate.to_json()


def measure_logged(seed: int) -> list[LoggedRow]:
    """Estimate MEG from sampled episodes of an epsilon-greedy and of the uniform policy."""
    mdp = gm.cliff_world()
    policies = {
        f"ε-greedy, ε = {LOG_EPSILON:g}": gm.epsilon_greedy(gm.optimal_policy(mdp), LOG_EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rng = np.random.default_rng(seed)
    out = []
    for name, policy in policies.items():
        log = sample_trajectories(mdp, policy, LOG_EPISODES, rng=rng)
        known = from_trajectories(mdp, log, rng=rng)
        out.append(LoggedRow(name, "the reward", known, gm.meg.known_utility(mdp, policy)))
        unknown = from_trajectories(mdp, log, unknown="state", rng=rng)
        exact = gm.meg.unknown_utility(mdp, policy)
        out.append(LoggedRow(name, "some utility over states", unknown, exact))
    return out


def logged_section(rows: list[LoggedRow]) -> Section:
    """Return the table of estimates from logs."""
    table = table_of(
        rows,
        (
            words("agent", lambda row: row.agent),
            words("towards", lambda row: row.goal),
            column("episodes", lambda row: row.estimate.n),
            column("estimate (nats)", lambda row: row.estimate.corrected, nats, answer=True),
            column(
                f"{percent(rows[0].estimate.confidence, 0)} interval",
                lambda row: between(row.estimate.interval, 3),
            ),
            column("held out", lambda row: number(row.estimate.held_out, 3)),
            column("p", lambda row: row.estimate.p_value, p_value),
            column("exact", lambda row: row.exact.value, nats),
        ),
        caption=f"MEG estimated from {LOG_EPISODES} episodes",
        meaning="The estimate says how many nats of an episode's decisions the goal explains; the "
        "interval is what other samples of this size would have given.",
        notes=(
            "Held out: the goal is fitted to four fifths of the episodes, and this is how many "
            "nats it explains of the others. It has no interval, so its sign alone tells nothing "
            "of other episodes.",
            "p is how likely so good a fit would be if the agent chose uniformly.",
        ),
    )
    return Section(
        title="From logged trajectories",
        text=(
            f"Usually the policy is not known, only what it did. Here {LOG_EPISODES} episodes of "
            "two CliffWorld agents are sampled and MEG is estimated from the samples alone, with "
            "an interval and a test, beside the exact value.",
        ),
        tables=(table,),
    )


# --- Run ------------------------------------------------------------------------------------------
TITLE = "How goal-directed are these agents?"
LEDE = (
    "What an agent does shows what it wants, if the instruments that read it can be trusted. Four "
    "small language models whose goals are known, because we made them, walk through grid worlds "
    "and are measured. Then maximum entropy goal-directedness (MEG) in worlds where it is exact, "
    "from logs and in a causal model, and agents in environments that simulate them."
)
# Agents whose self-reflection is measured, each beside its reality check; few steps and seeds, so
# that it takes seconds.
REFLECTING = tuple(
    name
    for agent in ("random", "constant", "naive", "q-learner")
    for name in (agent, f"rc({agent})")
)
REFLECTION_STEPS, REFLECTION_SEEDS = 150, 5


def demo(
    out: str | Path, *, seed: int = 0, on: str = HERE, progress: Tell | None = None
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json.

    Walks are stored in the folder and reused. Without Gymnasium, or the packages of language
    models, the page says how to install them.
    """
    tell = progress or (lambda line: None)
    require_report_extra()
    walks, used = _folders(Path(out), seed)
    results = organisms.measure(walks, seed=seed, on=on, progress=progress)
    cells = organisms.measure_use(used, seed=seed, on=on, progress=progress)
    tell("CliffWorld")
    cliff = measure_cliff_world()
    tell(LAKE_NAME)
    lake, lake_section = _frozen_lake()
    tell("logged trajectories")
    logs = measure_logged(seed)
    tell("causal models")
    mice = mouse.measure()
    reflections = []
    for name in REFLECTING:
        tell(f"self-reflection, {name}")
        reflections.append(self_reflection(name, REFLECTION_STEPS, _seeds(seed)))
    tell("report")
    parts = [
        organisms.part(results),
        organisms.part_of_use(cells),
        cliff_world_part(cliff),
        Part(sections=(lake_section, logged_section(logs))),
        mouse.part(mice),
        reflection_part(reflections),
    ]
    findings = all_findings(parts)
    # The terminal shows the findings; every table is in the report.
    summary = [TITLE, *(f"- {finding.plain}" for finding in findings), "All of it, with tables:"]
    return write_outcome(
        out,
        TITLE,
        all_sections(parts),
        {
            "organisms": results.to_json(),
            "use": None if isinstance(cells, str) else cells,
            "cliff_world": [row.to_json() for row in cliff],
            "frozen_lake": lake and [row.to_json() for row in lake],
            "logged": [row.to_json() for row in logs],
            "mouse": mice.to_json(),
            "reflection": [_reflection(measured) for measured in reflections],
        },
        command=f"goalmeter demo --seed {seed}",
        lede=LEDE,
        findings=findings,
        glossary=all_terms(parts),
        tables=(),
        text="\n".join(map(_wrapped, summary)),
        figures=False,
    )


def dry_run(out: str | Path, *, seed: int = 0, on: str = HERE) -> Outcome:
    """Estimate the cost of `demo`, without what takes seconds."""
    require_report_extra()
    walks, used = _folders(Path(out), seed)
    played = [
        reflection_forecast(name, steps=REFLECTION_STEPS, seeds=_seeds(seed), environments=BATTERY)
        for name in REFLECTING
    ]
    _, plans = organisms.plans_of(seed)
    folders = [(plan, run_folder(plan, walks)) for plan in plans]
    cost = [
        of_reference(plan, out=folder)
        if plan.asking is None
        else replace(model_forecast(plan, out=folder, connections=1), place="")
        for plan, folder in folders
    ]
    return shown(
        [
            together("organisms", cost),
            unmeasured(
                organisms.use_study(seed),
                "the number of answers per question is not known in advance",
                on=on,
                out=used,
            ),
            together(
                "self-reflection",
                played,
                disk=None,
                assumed=("trials run in this process and are not stored",),
            ),
        ]
    )


def _folders(out: Path, seed: int) -> tuple[Path, Path]:
    # Walks and answers with another seed are other runs.
    return out / "organisms" / f"seed-{seed}", out / "use" / f"seed-{seed}"


def _seeds(seed: int) -> range:
    return range(seed, seed + REFLECTION_SEEDS)


def _wrapped(line: str) -> str:
    """A line of the summary, in lines that fit a terminal."""
    return textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False)


def _reflection(measured: Reflection) -> dict[str, Any]:
    """The measurement without its trials, of which there are hundreds."""
    environments = [
        {"name": name, "opposite": opposite, "reward_per_step": reward}
        for (name, opposite), reward in measured.by_environment().items()
    ]
    return measured.to_json() | {"environments": environments}
