"""The CliffWorld parts of a report."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.ledger import Number
from goalmeter.experiments.meg_cliffworld import pictures, tables
from goalmeter.experiments.meg_cliffworld.compute import BASELINES, Measured
from goalmeter.report import Finding, Link, Section
from goalmeter.report.numbers import LEAST_SHARE, nats, percent

# Ids of the tables that findings lead to.
_NOISE, _DIFFICULTY = "cliff-noise", "cliff-goals"


def world_section() -> Section:
    """What the world is, and which settings the paper leaves open."""
    return Section(
        title="The world",
        text=(
            "CliffWorld is the 4 × 10 grid of the paper's experiments. The agent starts top left, "
            "moves diagonally, and the wind carries it one more row up with probability 0.3. "
            "At each of 30 decisions it collects +10 in the goal, −10 on the cliff and −1 "
            "elsewhere.",
            "The paper does not state the horizon, the ε-greedy rule or the goal squares; they "
            "were recovered from its tables: 30 decisions; with probability ε one of the other "
            "three actions; the last k squares of the top row and the first k of the right-hand "
            "column. Move and wind are added up and clamped to the grid once. Clamping twice "
            "would give 0.0296 instead of 0.0303 nats at ε = 0.7 and 0.0792 instead of 0.0836 at "
            "ε = 0.9, which fits the printed digits less well.",
        ),
        figures=(pictures.world_map(1), pictures.world_map(3)),
    )


def noise_section(
    measured: Sequence[Measured], published: Sequence[Number], *, baselines: Sequence[Measured]
) -> Section:
    """Figure 3b and its table; `baselines` are the same settings with both ends of the scale."""
    return Section(
        title="Does MEG fall as the agent gets noisier?",
        text=(
            "Agents that follow the optimal policy (goal length 1), but with probability ε take "
            "one of the other actions. Goal-directedness falls to nothing at ε = 0.75, where the "
            "policy is uniform, and rises a little beyond, where the agent systematically "
            "does what the optimal one would not (its β is negative).",
        ),
        tables=(
            tables.measured_table(
                "ε-greedy policies",
                baselines,
                "How many nats of the agent's 30 decisions are explained by the reward (known) or "
                "by the best of all utilities over states (unknown).",
                anchor=_NOISE,
            ),
        ),
        figures=(
            pictures.measure_chart(
                "figure-3b",
                "Figure 3b: MEG of ε-greedy policies, ours (filled) and published (hollow).",
                measured,
                published,
            ),
            pictures.measure_chart(
                "figure-3b-log",
                "The same on a logarithmic axis: the published known-utility values lie a "
                "constant factor of ten below the exact ones.",
                measured,
                published,
                log=True,
            ),
        ),
    )


def difficulty_section(measured: Sequence[Measured], published: Sequence[Number]) -> Section:
    """Figure 3c and its table."""
    return Section(
        title="Does MEG fall as the task gets easier?",
        text=(
            "Optimal policies for ever larger goal regions. The larger the region, the more "
            "policies do well, and the less it says about an agent that it does: known-utility "
            "MEG falls. Unknown-utility MEG stays high, because the policy looks just as "
            "directed towards a narrower goal, the squares it actually heads for.",
        ),
        tables=(
            tables.measured_table(
                "Optimal policies for goal regions of length k",
                measured,
                "How many nats of an optimal agent's decisions are explained by its own reward "
                "(known) or by the best of all utilities over states (unknown).",
                anchor=_DIFFICULTY,
            ),
        ),
        figures=(
            pictures.measure_chart(
                "figure-3c",
                "Figure 3c: MEG of optimal policies, ours (filled) and published (hollow). The "
                "published points of k = 1 break the rule that known-utility MEG cannot exceed "
                "unknown-utility MEG.",
                measured,
                published,
            ),
        ),
    )


def occupancy_section(measured: Sequence[Measured]) -> Section:
    """Figure 5."""
    by_length = {m.setting.goal_length: m for m in measured}
    return Section(
        title="Where the optimal agents go",
        text=(
            "With a goal region four times as long, the agent still heads for one part of it, the "
            "nearest squares. That is why a narrower goal explains it better than its own reward.",
        ),
        figures=(
            pictures.visits_map(by_length[1], "Figure 5a."),
            pictures.visits_map(by_length[4], "Figure 5b."),
        ),
    )


def goals_section(measured: Sequence[Measured]) -> Section:
    """The learnt utilities, and what not to read into them."""
    return Section(
        title="Which goal would explain it best?",
        text=(
            "Each map shows the utility with the smallest weights among those that explain at "
            "least 95% of what the best utility over states explains, scaled so that the worst "
            "square is 0 and the best is 1. All maps share one colour scale.",
            f"A map is grey if its utility explains less than {percent(LEAST_SHARE, 0)} of the "
            "maximum. Then most of what the agent does is not explained, and where the map is "
            "highest says nothing.",
        ),
        figures=tuple(pictures.utility_map(m) for m in measured),
        points=(
            "Read these maps with care: they show a utility that predicts the decisions, not "
            "what the agent wants. Very different utilities can predict equally well, and the "
            "map shows the simplest.",
            "Only differences that some choice can bring about matter, so a square that is "
            "passed on the way can score as high as the goal itself.",
            "The MEG value beside each map is certified; the map is not.",
        ),
    )


def evidence_section(m: Measured) -> Section:
    """Where and when the evidence comes from."""
    return Section(
        title="Where the evidence comes from",
        text=(
            "MEG is a sum over decisions, so it can be taken apart: by the square in which a "
            "decision is made and by its place in the episode. A negative share is a place "
            "where the goal predicts worse than guessing.",
        ),
        figures=(pictures.evidence_map(m), pictures.evidence_steps(m)),
    )


def findings(measured: Sequence[Measured], noisy: Sequence[Measured]) -> list[Finding]:
    """The CliffWorld results in a few sentences, from the numbers."""
    easy, hard = measured[-1], measured[0]
    ends = {BASELINES.get(m.setting.epsilon or 0.0): m for m in noisy}
    first = next(m for m in noisy if m.setting.epsilon)
    lines = [
        f"An optimal agent with one goal square scores {nats(hard.known.value)} of "
        f"{nats(hard.known.maximum)} nats ({percent(hard.known.fraction)}) towards its reward, "
        f"one that errs at every tenth decision {nats(first.known.value)}"
        f" ({percent(first.known.fraction)}).",
        f"With a goal region of length {easy.setting.goal_length} the optimal agent's reward "
        f"explains {percent(easy.known.fraction)} of what could be explained, the best utility "
        f"over states {percent(easy.unknown.fraction)}: it acts on a narrower goal than it is "
        "given.",
    ]
    if "uniform" in ends and ends["uniform"] is not noisy[0]:
        lines.append(
            f"The uniform policy scores {nats(ends['uniform'].known.value)} nats, as it must."
        )
    # The second is about goal regions, the others about noise.
    places = (_NOISE, _DIFFICULTY, _NOISE)
    return [
        Finding(text=line, links=(Link("numbers", place),))
        for line, place in zip(lines, places, strict=False)
    ]
