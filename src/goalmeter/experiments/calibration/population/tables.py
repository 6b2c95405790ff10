"""Tables of a calibration on populations."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.calibration.population.result import (
    FOLLOWED,
    RECOMMENDED,
    SIMPLER,
    SIMPLER_FOLLOWED,
    PopulationCalibration,
    PopulationRates,
)
from goalmeter.experiments.calibration.population.rules import (
    CHOSEN_FALSE_ALARMS,
    CLASSES,
    COMPETENT_CLASS,
    HALF_HEARTED_CLASS,
)
from goalmeter.experiments.calibration.population.scenes import NONE, TARGETS
from goalmeter.experiments.calibration.population.scoring import (
    INSTRUMENTS,
    MEG,
    MOVED,
    PLAIN,
    TESTS,
    TITLES,
)
from goalmeter.experiments.calibration.population.swap_test import LEVEL
from goalmeter.experiments.calibration.population.validity import CONTRASTS
from goalmeter.report import Column, Table
from goalmeter.report.numbers import number, p_value, percent

INTERVALS = (
    "In brackets: 95% intervals that resample agents and mazes; of shares never narrower than the "
    "exact interval of as many independent agents."
)
MOVED_NOTE = (
    "− moved: less the same number asked of the places that the targets have in the maze's other "
    "showing. Each score is the largest of four, one for each target. A swap test asks whether "
    "that difference is larger than if the places were swapped in any of the mazes."
)


def class_table(found: PopulationCalibration) -> Table:
    """Who was drawn, and who is said to want something, on both populations."""
    columns: list[Column | str] = [Column("class", numeric=False), Column("what", numeric=False)]
    groups = (("first population", found.first), ("second population", found.second))
    for title, _ in groups:
        columns += [
            Column("agents", group=title),
            *(Column(TITLES[name], group=title) for name in (MEG, RECOMMENDED)),
        ]
    rows = []
    for one in CLASSES:
        row = [one.title, one.why]
        for _, own in groups:
            row += [
                str(own.agents[one.title]),
                *(percent(own.rates[one.title, name]) for name in (MEG, RECOMMENDED)),
            ]
        rows.append(tuple(row))
    alarms = ["all aimless", "false alarms"]
    for _, own in groups:
        alarms += [
            str(sum(own.agents[one.title] for one in CLASSES if not one.directed)),
            *(percent(own.false_alarms[name]) for name in (MEG, RECOMMENDED)),
        ]
    return Table(
        caption="Who is said to want something",
        columns=tuple(columns),
        rows=(*rows, tuple(alarms)),
        meaning="The share of each class whose score is above the threshold. Of the aimless these "
        "are false alarms.",
        notes=(
            f"Thresholds: {TITLES[RECOMMENDED]} "
            f"{limit_in_words(RECOMMENDED, found.thresholds[RECOMMENDED])}, which is its level; "
            f"{TITLES[MEG]} {limit_in_words(MEG, found.thresholds[MEG])}, chosen on the first "
            f"population so that at most {CHOSEN_FALSE_ALARMS:.0%} of its competent habits and of "
            f"all its aimless agents raise a false alarm. The second population has other agents "
            f"in other mazes.",
            INTERVALS,
            MOVED_NOTE,
        ),
    )


def rate_table(found: PopulationCalibration, own: PopulationRates, title: str) -> Table:
    """The error rates of every instrument at its threshold."""
    return Table(
        caption=f"Every instrument at its threshold, {title}",
        columns=(
            Column("instrument", numeric=False),
            "threshold",
            "false alarms",
            "of competent habits",
            "half-hearted goals detected",
            "target named rightly",
        ),
        rows=tuple(
            (
                TITLES[name],
                limit_in_words(name, found.thresholds[name]),
                percent(own.false_alarms[name]),
                percent(own.rates[COMPETENT_CLASS, name]),
                percent(own.rates[HALF_HEARTED_CLASS, name]),
                percent(own.named[name]),
            )
            for name in INSTRUMENTS
        ),
        meaning="Target named rightly: of agents of at least medium strength, one of five answers, "
        "none being the answer below the threshold.",
        notes=(INTERVALS, MOVED_NOTE),
    )


def validity_table(own: PopulationRates, title: str) -> Table:
    """Areas under the curve, also within bands of success, and the recovery of strength."""
    return Table(
        caption=f"What each instrument tells, {title}",
        columns=(
            Column("instrument", numeric=False),
            *(Column(contrast.title, group="area under the curve") for contrast in CONTRASTS),
            Column("within bands of success", group="area under the curve"),
            "rank correlation with strength",
        ),
        rows=tuple(
            (
                TITLES[name],
                *(number(own.areas[name, contrast.title], 2) for contrast in CONTRASTS),
                number(own.bands[name], 2),
                number(own.recovery[name], 2),
            )
            for name in (*PLAIN, *MOVED)
        ),
        meaning="Areas: how likely an agent of the first class scores above one of the second; 0.5 "
        "is chance. Within bands: the directed and the aimless whose success is about equal. "
        "Strength: of directed agents, the score for what they want.",
        notes=(INTERVALS, MOVED_NOTE),
    )


def beyond_table(found: PopulationCalibration) -> Table:
    """By how much MEG tells more than simpler measures that are asked the same."""
    titles = (*(contrast.title for contrast in CONTRASTS), "recovery", "detected")
    pairs = tuple(zip(SIMPLER_FOLLOWED, SIMPLER, strict=True))
    rows = []
    for population, own in (("first", found.first), ("second", found.second)):
        for measure, test in pairs:
            differences = (
                number(own.beyond[test if title == "detected" else measure, title], 3)
                for title in titles
            )
            rows.append((f"{TITLES[measure].partition(' ')[0]}, {population}", *differences))
    return Table(
        caption="What MEG tells more than simpler measures that are asked the same",
        columns=(
            Column("than, population", numeric=False),
            *(Column(contrast.title, group="difference of areas") for contrast in CONTRASTS),
            "difference of rank correlations",
            "half-hearted goals that the swap test detects more",
        ),
        rows=tuple(rows),
        meaning=f"{TITLES[FOLLOWED]} less the same of a simpler measure, and their swap tests. "
        f"Above 0: MEG tells more. An interval that holds 0: it cannot be told.",
        notes=(INTERVALS, MOVED_NOTE),
    )


def added_table(found: PopulationCalibration) -> Table:
    """What MEG adds to a logistic model of who wants anything."""
    return Table(
        caption="What MEG adds to other predictors",
        columns=(
            Column("model of", numeric=False),
            Column("and", numeric=False),
            Column("likelihood ratio", group="first population"),
            Column("p", group="first population"),
            Column("without", group="second population, nats an agent"),
            Column("gain", group="second population, nats an agent"),
        ),
        rows=tuple(
            (
                one.added.title,
                TITLES[one.added.more],
                f"{one.test.statistic:.1f}",
                p_value(one.test.p_value),
                number(one.without, 3),
                number(one.gain, 3),
            )
            for one in found.added
        ),
        meaning="Logistic models of whether an agent wants anything. The likelihood ratio is that "
        "of the larger model on the agents it was fitted to; the gain is in predicting others.",
        notes=(
            "The test takes mazes as they are and agents as independent; the gain's interval "
            "resamples both. Models that predict have a standard normal prior on weights.",
            MOVED_NOTE,
        ),
    )


def confusion_table(own: PopulationRates) -> Table:
    """Who wants what, and what is named."""
    names = (*TARGETS, NONE)
    return Table(
        caption="What is wanted and what is named, second population",
        columns=(Column("wanted", numeric=False), *(Column(n, group="named") for n in names)),
        rows=tuple(
            (wanted, *(str(count) for count in row))
            for wanted, row in zip(names, own.confusion.tolist(), strict=True)
        ),
        meaning=f"Numbers of agents of any strength, by {TITLES[RECOMMENDED]} at its threshold.",
    )


def trait_table(own: PopulationRates, traits: Sequence[str], caption: str) -> Table:
    """Rows of agents by one of their traits."""
    return Table(
        caption=caption,
        columns=(
            Column("trait", numeric=False),
            Column("value", numeric=False),
            "agents",
            "said to want something",
            "named rightly",
        ),
        rows=tuple(
            (trait, value, str(n), percent(said), percent(named))
            for (trait, value), (n, said, named) in own.traits.items()
            if trait in traits
        ),
        meaning=f"By {TITLES[RECOMMENDED]} at its threshold. Of who wants nothing, "
        f'"none" is named rightly.',
        notes=(INTERVALS,),
    )


def cost_table(found: PopulationCalibration) -> Table:
    """The rates by the number of mazes."""
    return Table(
        caption="What it costs to be sure",
        columns=(
            Column("instrument", numeric=False),
            "mazes",
            "steps",
            "threshold",
            "false alarms",
            "half-hearted goals detected",
            "target named rightly",
        ),
        rows=tuple(
            (
                TITLES[name],
                str(one.pairs),
                f"{one.steps:.0f}",
                limit_in_words(name, one.threshold),
                percent(one.false_alarms),
                percent(one.half_hearted),
                percent(one.named),
            )
            for name, costs in found.costs.items()
            for one in costs
        ),
        meaning="The second population, if so many mazes are pooled for each agent, each shown "
        "with two sets of places; averages over groups of different mazes. Thresholds for so many "
        "mazes are chosen on the first population.",
        notes=("In brackets: 95% intervals that resample agents.",),
    )


def beside_table(found: PopulationCalibration) -> Table:
    """Reference agents and ideal organisms, by what is recommended."""
    limit = found.thresholds[RECOMMENDED]
    rows = []
    for agent, scores in found.second.beside.items():
        test = scores[RECOMMENDED]
        best = max(range(len(test)), key=lambda place: test[place])
        rows.append(
            (
                agent,
                *(number(value, 2) for value in scores[FOLLOWED]),
                p_value(1.0 - test[best]),
                TARGETS[best] if test[best] > limit else NONE,
            )
        )
    return Table(
        caption="Reference agents and ideal organisms in the same mazes",
        columns=(
            Column("agent", numeric=False),
            *(Column(target, group=TITLES[FOLLOWED]) for target in TARGETS),
            Column("p", group=TITLES[RECOMMENDED]),
            Column("named", numeric=False, group=TITLES[RECOMMENDED]),
        ),
        rows=tuple(rows),
        meaning="Shares of the maximum; they can be above 1, since what is ruled out counts too. "
        "These agents are counted in no class of the population.",
        notes=(MOVED_NOTE,),
    )


def limit_in_words(name: str, limit: float) -> str:
    """A threshold as a table shows it."""
    return f"p ≤ {LEVEL:g}" if name in TESTS else f"> {limit:.3f}"
