"""Tables of a calibration on populations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from goalmeter.experiments.calibration.population import scoring, traits
from goalmeter.experiments.calibration.population.result import (
    PopulationCalibration,
    PopulationRates,
)
from goalmeter.experiments.calibration.population.scenes import NONE, TARGETS
from goalmeter.experiments.calibration.population.scoring import FOLLOWED, MEG, RECOMMENDED, TITLES
from goalmeter.experiments.calibration.population.swap_test import LEVEL
from goalmeter.experiments.calibration.population.traits import CLASSES, AgentClass
from goalmeter.experiments.calibration.population.validity import CONTRASTS
from goalmeter.report import Table
from goalmeter.report.numbers import number, p_value, percent
from goalmeter.report.table_of import ColumnOf, column, grouped, table_of, words

INTERVALS = (
    "In brackets: 95% intervals that resample agents and mazes, and choose each threshold anew in "
    "each resample; of shares never narrower than the exact interval of as many independent agents."
)
MOVED_NOTE = (
    "− moved: less the same number asked of the places that the targets have in the maze's other "
    "showing. Each score is the largest of four, one for each target. A swap test asks whether "
    "that difference is larger than if the places were swapped in any of the mazes."
)


def class_table(calibration: PopulationCalibration) -> Table:
    """Who was drawn, and who is said to want something, on both populations."""
    share = percent(traits.CHOSEN_FALSE_ALARMS, 0)
    limits = {name: _limit(name, calibration.thresholds[name]) for name in (RECOMMENDED, MEG)}

    # None stands for all the aimless together, of whom it is a false alarm to say so.
    def members(rates: PopulationRates, kind: AgentClass | None) -> int:
        counted = [each for each in CLASSES if not each.directed] if kind is None else [kind]
        return sum(rates.agents[each.title] for each in counted)

    def detected(rates: PopulationRates, name: str) -> ColumnOf[AgentClass | None]:
        return column(
            TITLES[name],
            lambda kind: (rates.rates[kind.title] if kind else rates.false_alarms)[name],
            percent,
        )

    def population(title: str, rates: PopulationRates) -> tuple[ColumnOf[AgentClass | None], ...]:
        return grouped(
            title,
            column("agents", lambda kind: members(rates, kind)),
            detected(rates, RECOMMENDED),
            detected(rates, MEG),
        )

    return table_of(
        [*CLASSES, None],
        (
            words("class", lambda kind: kind.title if kind else "all aimless"),
            words("what", lambda kind: kind.why if kind else "false alarms"),
            *population("first population", calibration.first),
            *population("second population", calibration.second),
        ),
        caption="Who is said to want something",
        meaning="The share of each class whose score is above the threshold. Of the aimless these "
        "are false alarms.",
        notes=(
            f"Thresholds: {TITLES[RECOMMENDED]} {limits[RECOMMENDED]}, which is its level; "
            f"{TITLES[MEG]} {limits[MEG]}, chosen on the first population so that at most {share} "
            "of its competent habits and of all its aimless agents raise a false alarm. The second "
            "population has other agents in other mazes.",
            INTERVALS,
            MOVED_NOTE,
        ),
    )


def rate_table(calibration: PopulationCalibration, rates: PopulationRates, title: str) -> Table:
    """The error rates of every instrument at its threshold."""
    competent = rates.rates[traits.COMPETENT_CLASS]
    half_hearted = rates.rates[traits.HALF_HEARTED_CLASS]
    return table_of(
        scoring.INSTRUMENTS,
        (
            words("instrument", TITLES.__getitem__),
            column("threshold", lambda name: _limit(name, calibration.thresholds[name])),
            column("false alarms", rates.false_alarms.__getitem__, percent),
            column("of competent habits", competent.__getitem__, percent),
            column("half-hearted goals detected", half_hearted.__getitem__, percent),
            column("target named rightly", rates.named.__getitem__, percent),
        ),
        caption=f"Every instrument at its threshold, {title}",
        meaning="Target named rightly: of agents of at least medium strength, one of five answers, "
        "none being the answer below the threshold.",
        notes=(INTERVALS, MOVED_NOTE),
    )


def validity_table(rates: PopulationRates, title: str) -> Table:
    """Areas under the curve, also within bands of success, and the recovery of strength."""

    def area(title: str) -> ColumnOf[str]:
        return column(title, lambda name: number(rates.areas[name][title], 2))

    return table_of(
        (*scoring.PLAIN, *scoring.MOVED),
        (
            words("instrument", TITLES.__getitem__),
            *grouped(
                "area under the curve",
                *(area(contrast.title) for contrast in CONTRASTS),
                column("within bands of success", lambda name: number(rates.bands[name], 2)),
            ),
            column("rank correlation with strength", lambda name: number(rates.recovery[name], 2)),
        ),
        caption=f"What each instrument tells, {title}",
        meaning="Areas: how likely an agent of the first class scores above one of the second; 0.5 "
        "is chance. Within bands: the directed and the aimless whose success is about equal. "
        "Strength: of directed agents, the score for what they want.",
        notes=(INTERVALS, MOVED_NOTE),
    )


def beyond_table(calibration: PopulationCalibration) -> Table:
    """By how much MEG tells more than simpler measures that are asked the same."""

    def difference(title: str, of: str) -> ColumnOf[tuple[str, PopulationRates, str, str]]:
        # Of a measure, or of its swap test where that is what is asked.
        place = 3 if of == "detected" else 2
        return column(title, lambda row: number(row[1].beyond[row[place]][of], 3))

    return table_of(
        [
            (population, rates, measure, test)
            for population, rates in (("first", calibration.first), ("second", calibration.second))
            for measure, test in zip(scoring.SIMPLER_FOLLOWED, scoring.SIMPLER, strict=True)
        ],
        (
            words("than, population", lambda r: f"{TITLES[r[2]].partition(' ')[0]}, {r[0]}"),
            *grouped("difference of areas", *(difference(c.title, c.title) for c in CONTRASTS)),
            difference("difference of rank correlations", "recovery"),
            difference("half-hearted goals that the swap test detects more", "detected"),
        ),
        caption="What MEG tells more than simpler measures that are asked the same",
        meaning=f"{TITLES[FOLLOWED]} less the same of a simpler measure, and their swap tests. "
        f"Above 0: MEG tells more, if 0 is farther from the value than both ends of the "
        f"interval; otherwise it is inconclusive.",
        notes=(INTERVALS, MOVED_NOTE),
    )


def added_table(calibration: PopulationCalibration) -> Table:
    """What MEG adds to a logistic model of who wants anything."""
    return table_of(
        calibration.added,
        (
            words("model of", lambda row: row.added.title),
            words("and", lambda row: TITLES[row.added.more]),
            *grouped(
                "first population",
                column("likelihood ratio", lambda row: number(row.test.statistic, 1)),
                column("p", lambda row: row.test.p_value, p_value),
            ),
            *grouped(
                "second population, nats an agent",
                column("without", lambda row: number(row.without, 3)),
                column("gain", lambda row: number(row.gain, 3)),
            ),
        ),
        caption="What MEG adds to other predictors",
        meaning="Logistic models of whether an agent wants anything. The likelihood ratio is that "
        "of the larger model on the agents it was fitted to; the gain is in predicting others.",
        notes=(
            "The test takes mazes as they are and agents as independent; the gain's interval "
            "resamples both. Models that predict have a standard normal prior on weights.",
            MOVED_NOTE,
        ),
    )


def confusion_table(rates: PopulationRates) -> Table:
    """Who wants what, and what is named."""
    names = (*TARGETS, NONE)

    def count(place: int, name: str) -> ColumnOf[tuple[str, list[int]]]:
        return column(name, lambda row: row[1][place])

    return table_of(
        zip(names, rates.confusion.tolist(), strict=True),
        (
            words("wanted", lambda row: row[0]),
            *grouped("named", *(count(i, name) for i, name in enumerate(names))),
        ),
        caption="What is wanted and what is named, second population",
        meaning=f"Numbers of agents of any strength, by {TITLES[RECOMMENDED]} at its threshold.",
    )


def trait_table(rates: PopulationRates, names: Sequence[str], caption: str) -> Table:
    """Rows of agents by one of their traits."""
    return table_of(
        [(*key, *values) for key, values in rates.traits.items() if key[0] in names],
        (
            words("trait", lambda row: row[0]),
            words("value", lambda row: row[1]),
            column("agents", lambda row: row[2]),
            column("said to want something", lambda row: row[3], percent),
            column("named rightly", lambda row: row[4], percent),
        ),
        caption=caption,
        meaning=f"By {TITLES[RECOMMENDED]} at its threshold. Of who wants nothing, "
        f'"none" is named rightly.',
        notes=(INTERVALS,),
    )


def cost_table(calibration: PopulationCalibration) -> Table:
    """The rates by the number of mazes."""
    return table_of(
        [(name, cost) for name, costs in calibration.costs.items() for cost in costs],
        (
            words("instrument", lambda row: TITLES[row[0]]),
            column("mazes", lambda row: row[1].pairs),
            column("steps", lambda row: number(row[1].steps, 0)),
            column("threshold", lambda row: _limit(row[0], row[1].threshold)),
            column("false alarms", lambda row: row[1].false_alarms, percent),
            column("half-hearted goals detected", lambda row: row[1].half_hearted, percent),
            column("target named rightly", lambda row: row[1].named, percent),
        ),
        caption="What it costs to be sure",
        meaning="The second population, if so many mazes are pooled for each agent, each shown "
        "with two sets of places; averages over groups of different mazes. Thresholds for so many "
        "mazes are chosen on the first population.",
        notes=("In brackets: 95% intervals that resample agents.",),
    )


def beside_table(calibration: PopulationCalibration) -> Table:
    """Reference agents and ideal organisms, by what is recommended."""
    limit = calibration.thresholds[RECOMMENDED]

    def best(scores: Mapping[str, Sequence[float]]) -> tuple[float, str]:
        """The largest score, and the target that has it."""
        return max(zip(scores[RECOMMENDED], TARGETS, strict=True), key=lambda pair: pair[0])

    def followed(place: int, target: str) -> ColumnOf[tuple[str, dict[str, tuple[float, ...]]]]:
        return column(target, lambda row: number(row[1][FOLLOWED][place], 2))

    return table_of(
        calibration.second.beside.items(),
        (
            words("agent", lambda row: row[0]),
            *grouped(TITLES[FOLLOWED], *(followed(i, target) for i, target in enumerate(TARGETS))),
            *grouped(
                TITLES[RECOMMENDED],
                column("p", lambda row: p_value(1.0 - best(row[1])[0])),
                words("named", lambda row: best(row[1])[1] if best(row[1])[0] > limit else NONE),
            ),
        ),
        caption="Reference agents and ideal organisms in the same mazes",
        meaning="Shares of the maximum; they can be above 1, since what is ruled out counts too. "
        "These agents are counted in no class of the population.",
        notes=(MOVED_NOTE,),
    )


def _limit(name: str, limit: float) -> str:
    """A threshold as a table shows it."""
    return f"p ≤ {LEVEL:g}" if name in scoring.TESTS else f"> {number(limit, 3)}"
