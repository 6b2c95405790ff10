"""`goalmeter demo`: measure the embedded agents and write one page.

The organisms come first: walks, measures, and the calibration of the instruments with them. Then
FrozenLake, logged trajectories, CliffWorld, causal models and self-reflection.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import goalmeter as gm
from goalmeter._errors import MissingExtraError, require
from goalmeter._types import FloatArray
from goalmeter.commands.outcome import Outcome, shown, write_outcome
from goalmeter.experiments import ledger
from goalmeter.experiments.demo import mouse, organisms
from goalmeter.experiments.demo import mouse as mouse_page
from goalmeter.experiments.demo import organisms as beliefs
from goalmeter.experiments.meg_cliffworld import measurements, study
from goalmeter.experiments.meg_cliffworld.measurements import Measured, policy_row
from goalmeter.meg import TrajectoryMeg, from_trajectories
from goalmeter.pages.meg import GLOSSARY, PolicyRow, policy_table
from goalmeter.pages.part import Part, all_findings, all_sections, all_terms
from goalmeter.pages.reflection import part_of as reflection_part
from goalmeter.reflection import Reflection
from goalmeter.reflection import measure as self_reflection
from goalmeter.reflection.environments.registry import BATTERY
from goalmeter.reflection.measure import forecast as cost_of_reflection
from goalmeter.report import Figure, Section, require_report_extra
from goalmeter.report.maps import Marks, grid_map
from goalmeter.report.numbers import LEAST_SHARE, between, nats, number, p_value, percent
from goalmeter.report.tables import column, table_of, words
from goalmeter.runs import HERE
from goalmeter.runs.forecast import Forecast, together, unmeasured
from goalmeter.tabular.trajectories import sample_trajectories

# --- Frozen lake ----------------------------------------------------------------------------------
LAKE_NAME = "FrozenLake-v1"
LAKE_EPSILON = 0.2


class FrozenLake(NamedTuple):
    """The lake's map (rows of letters), its policies measured, and two maps of the optimal one."""

    letters: list[str]
    rows: list[PolicyRow]
    visits: FloatArray
    horizon: int
    simplest: gm.meg.SimplestUtility


def measure_frozen_lake() -> FrozenLake:
    """The optimal, an epsilon-greedy and the uniform policy.

    Raises:
        MissingExtraError: Gymnasium is not installed.
    """
    gymnasium = require("gymnasium", extra="rl", feature="Measuring a Gymnasium environment")
    env = gymnasium.make(LAKE_NAME)
    try:
        mdp = gm.TabularMDP.from_gymnasium(env)
        letters = ["".join(c.decode() for c in row) for row in env.unwrapped.desc]
    finally:
        env.close()
    optimal = gm.optimal_policy(mdp)
    policies = {
        "optimal": optimal,
        f"ε-greedy, ε = {LAKE_EPSILON:g}": gm.epsilon_greedy(optimal, LAKE_EPSILON),
        "uniform": gm.uniform_policy(mdp),
    }
    rows = [
        PolicyRow(
            name,
            gm.tabular.expected_return(mdp, policy).mean,
            gm.meg.known_utility(mdp, policy),
            gm.meg.unknown_utility(mdp, policy),
        )
        for name, policy in policies.items()
    ]
    visits = np.asarray(gm.tabular.occupancy(mdp, optimal).sum(axis=0))
    simplest = gm.meg.simplest_utility(mdp, optimal)
    return FrozenLake(letters, rows, visits, mdp.steps, simplest)


def frozen_lake_section(lake: FrozenLake) -> Section:
    """The table and two maps."""
    return Section(
        title="A Gymnasium environment: FrozenLake",
        text=(
            "The same measures on an environment that somebody else wrote, read from its "
            f"transition table: {LAKE_NAME}, 4 × 4, slippery, time limit {lake.horizon}. "
            "Reaching the "
            "goal pays 1, falling into a hole ends the episode.",
        ),
        tables=(
            policy_table(
                f"Policies in {LAKE_NAME}",
                lake.rows,
                "How many nats of the agent's decisions are explained by the environment's reward "
                "(known) or by the best of all utilities over states (unknown).",
                notes=(
                    "Decisions after the episode's end cannot change anything, and are not "
                    "counted in the maxima.",
                    "The reward is not a utility over states, so here the unknown-utility value "
                    "need not be the larger one.",
                ),
                digits=3,
            ),
        ),
        figures=(_visits(lake), _utility(lake, lake.rows[0])),
    )


def _visits(lake: FrozenLake) -> Figure:
    return Figure(
        svg=grid_map(
            "lake-visits",
            _grid(lake, lake.visits),
            palette="visits",
            log=True,
            label=f"expected decisions in the square, of {lake.horizon}",
            marks=_marks(lake),
        ),
        alt="Map of FrozenLake with the expected number of decisions of the optimal policy in each "
        f"square; {lake.visits[-1]:.0f} of {lake.horizon} are in the goal square.",
        caption="Visits of the optimal policy. After the episode's end the agent stays where it "
        "ended. S: start. G: goal. Hatched: holes.",
    )


def _utility(lake: FrozenLake, row: PolicyRow) -> Figure:
    share = lake.simplest.evidence / row.unknown.maximum
    faint = share < LEAST_SHARE
    little = ", which is too little to say what the agent wants (grey, below "
    little = f"{little}{percent(LEAST_SHARE, 0)})" if faint else ""
    return Figure(
        svg=grid_map(
            "lake-utility",
            _grid(lake, lake.simplest.utility),
            palette="faint" if faint else "utility",
            limit=1.0,
            label="learnt utility" + ", explains little" * faint,
            marks=_marks(lake),
        ),
        alt="Map of FrozenLake with the simplest utility over states that explains the "
        f"policy {row.name}.",
        caption="A utility over states, from 0 (worst) to 1, learnt from the policy "
        f"{row.name}. It explains {nats(lake.simplest.evidence)} nats, "
        f"{percent(share)} of the maximum{little}; the best of all utilities explains "
        f"{nats(row.unknown.value)}. See the remarks on the maps above.",
    )


def _grid(lake: FrozenLake, values: FloatArray) -> FloatArray:
    # A state that the import added behind the others is not a square.
    rows, columns = len(lake.letters), len(lake.letters[0])
    return values[: rows * columns].reshape(rows, columns)


def _marks(lake: FrozenLake) -> Marks:
    letters = "".join(lake.letters)
    return Marks(
        {i: c for i, c in enumerate(letters) if c in "SG"},
        frozenset(i for i, c in enumerate(letters) if c == "H"),
    )


# --- Logged ---------------------------------------------------------------------------------------
LOG_EPSILON, LOG_EPISODES = 0.1, 100


class Logged(NamedTuple):
    """An estimate from logs beside the exact value of the policy that wrote them."""

    agent: str
    goal: str
    estimate: TrajectoryMeg
    exact: gm.MegResult

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {"agent": self.agent, "goal": self.goal, "exact": self.exact.value} | (
            self.estimate.to_json()
        )


def measure_logged(seed: int) -> list[Logged]:
    """Estimates from N sampled episodes of an epsilon-greedy and of the uniform policy."""
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
        out.append(Logged(name, "the reward", known, gm.meg.known_utility(mdp, policy)))
        unknown = from_trajectories(mdp, log, unknown="state", rng=rng)
        exact = gm.meg.unknown_utility(mdp, policy)
        out.append(Logged(name, "some utility over states", unknown, exact))
    return out


def logged_section(rows: list[Logged]) -> Section:
    """The table."""
    return Section(
        title="From logged trajectories",
        text=(
            f"Usually the policy is not known, only what it did. Here {LOG_EPISODES} episodes "
            "of two "
            "CliffWorld agents are sampled and MEG is estimated from the samples alone, so it "
            "comes with an interval and a test. The exact value is shown to check "
            "the estimate against.",
        ),
        tables=(
            table_of(
                rows,
                (
                    words("agent", lambda row: row.agent),
                    words("towards", lambda row: row.goal),
                    column("episodes", lambda row: row.estimate.n),
                    column(
                        "estimate (nats)", lambda row: row.estimate.corrected, nats, answer=True
                    ),
                    column(
                        f"{percent(rows[0].estimate.confidence, 0)} interval",
                        lambda row: between(row.estimate.interval, 3),
                    ),
                    column("held out", lambda row: number(row.estimate.held_out, 3)),
                    column("p", lambda row: row.estimate.p_value, p_value),
                    column("exact", lambda row: row.exact.value, nats),
                ),
                caption=f"MEG estimated from {LOG_EPISODES} episodes",
                meaning="The estimate says how many nats of an episode's decisions the goal "
                "explains; the interval is what other samples of this size would have given.",
                notes=(
                    "Held out: the goal is fitted to four fifths of the episodes, and this is how "
                    "many nats it explains of the others. At or below 0 it predicted these no "
                    "better than chance does; it has no interval, so that its sign alone tells "
                    "nothing of other episodes.",
                    "p is how likely so good a fit would be if the agent chose uniformly.",
                ),
            ),
        ),
    )


# --- Run ------------------------------------------------------------------------------------------
# The organisms come first: walks, measures, and the calibration of the instruments with them. Then
# what else can be measured, in worlds where the answers are exact.

TITLE = "How goal-directed are these agents?"
LEDE = (
    "What an agent does shows what it wants, if the instruments that read it can be trusted. Four "
    "small language models whose goals are known, because we made them, walk through grid worlds "
    "and are measured by every instrument; where one says something else, it is the instrument "
    "that is wrong. Then maximum entropy goal-directedness (MEG) in worlds where it is exact, from "
    "logs and in a causal model, and agents in environments that simulate them."
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
    out: str | Path,
    *,
    seed: int = 0,
    on: str = HERE,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Measure the embedded agents and write report.html and results.json.

    Walks are kept in the folder; the same command goes on from there. Without Gymnasium, or what
    language models need, the page says how to install it.

    Args:
        out: folder to write to.
        seed: of the grid worlds and walks, of sampled trajectories, and the first of the
            reflection trials; everything else is exact.
        on: where language models are asked about maps and utilities are fitted; with processes,
            language models walk there too.
        progress: told what is being done.
    """
    tell = progress or (lambda line: None)
    require_report_extra()
    walks, believed = _folders(Path(out), seed)
    results = organisms.measure(walks, seed=seed, on=on, progress=progress)
    read = beliefs.measure_beliefs(believed, seed=seed, on=on, progress=progress)
    by_length = measurements.measure(measurements.difficulty(), tell)
    noisy = measurements.measure(measurements.noise(baselines=True), tell)
    tell(LAKE_NAME)
    lake, lake_section = _lake()
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
        beliefs.part(results),
        beliefs.part_of_beliefs(read),
        _cliff_world(by_length, noisy),
        Part(sections=(lake_section, logged_section(logs))),
        mouse_page.part(mice),
        reflection_part(reflections),
    ]
    findings = all_findings(parts)
    # A terminal is for what it comes to; every table is in the report.
    summary = [TITLE, *(f"- {finding.plain}" for finding in findings), "All of it, with tables:"]
    return write_outcome(
        out,
        TITLE,
        all_sections(parts),
        {
            "organisms": results.to_json(),
            "beliefs": None if isinstance(read, str) else [each.to_json() for each in read],
            "cliff_world": {
                "epsilon": [policy_row(m).to_json() for m in noisy],
                "goal_length": [policy_row(m).to_json() for m in by_length],
            },
            "frozen_lake": None if lake is None else [row.to_json() for row in lake.rows],
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
    """What `demo` will cost: all but causal models, logs and the page, which take seconds."""
    require_report_extra()
    walks, believed = _folders(Path(out), seed)
    settings = [*measurements.difficulty(), *measurements.noise(baselines=True)]
    played = [
        cost_of_reflection(name, steps=REFLECTION_STEPS, seeds=_seeds(seed), environments=BATTERY)
        for name in REFLECTING
    ]
    not_kept = "trials of self-reflection are made in this process, timed on some, and not kept"
    told: list[Forecast] = [
        *organisms.forecasts(walks, seed=seed, on=on),
        unmeasured(
            beliefs.study_of_beliefs(seed),
            "how many answers a question takes, and how long, is not known before; there is none "
            "without what language models need",
            on=on,
            out=believed,
        ),
        measurements.forecast(settings),
        together("self-reflection", played, disk=None, assumed=(not_kept,)),
    ]
    return shown(told)


def _folders(out: Path, seed: int) -> tuple[Path, Path]:
    # Walks and answers with another seed are other runs.
    return out / "walks" / f"seed-{seed}", out / "beliefs" / f"seed-{seed}"


def _seeds(seed: int) -> range:
    return range(seed, seed + REFLECTION_SEEDS)


def _cliff_world(by_length: Sequence[Measured], noisy: Sequence[Measured]) -> Part:
    """CliffWorld with its most telling finding; the others stand in its tables."""
    by_noise = [m for m in noisy if m.setting.epsilon in measurements.EPSILONS]
    published = ledger.load("meg-cliffworld/")
    return Part(
        sections=(
            replace(study.world_section(), title="A world where MEG is exact: CliffWorld"),
            study.noise_section(by_noise, published, baselines=noisy),
            study.difficulty_section(by_length, published),
            study.occupancy_section(by_length),
            study.goals_section([by_length[0], by_length[-1], by_noise[0], by_noise[4]]),
            study.evidence_section(by_noise[0]),
        ),
        findings=study.findings(by_length, noisy)[:1],
        glossary=GLOSSARY,
    )


def _lake() -> tuple[FrozenLake | None, Section]:
    try:
        lake = measure_frozen_lake()
    except MissingExtraError as error:
        title = "A Gymnasium environment: not measured"
        return None, Section(title=title, text=(f"{error}.",))
    return lake, frozen_lake_section(lake)


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
