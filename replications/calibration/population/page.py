"""Tables and page sections of a calibration on populations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from goalmeter.report import (
    ColumnOf,
    Section,
    Table,
    column,
    grouped,
    number,
    p_value,
    percent,
    table_of,
    words,
)
from goalmeter.statistics import Estimate
from replications.calibration.population import scores as scoring
from replications.calibration.population import traits
from replications.calibration.population.result import (
    CONTRASTS,
    PopulationCalibration,
    PopulationRates,
)
from replications.calibration.population.scores import (
    FOLLOWED,
    LEVEL,
    MEG,
    RECOMMENDED,
    SIMPLER,
    SIMPLER_FOLLOWED,
    TITLES,
)
from replications.calibration.population.traits import CLASSES, NONE, TARGETS, AgentClass
from replications.prose import prose

say = partial(prose, "calibration")

# --- Tables ---------------------------------------------------------------------------------------
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
        **say("who_is_said_to_want_something"),
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
        **say("rate_table", title=title),
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
        **say("validity_table", title=title),
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
        **say("beyond_table", instrument=TITLES[FOLLOWED]),
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
        **say("what_meg_adds_to_other_predictors"),
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
        **say("confusion_table", instrument=TITLES[RECOMMENDED]),
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
        **say("trait_table", instrument=TITLES[RECOMMENDED]),
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
        **say("what_it_costs_to_be_sure"),
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
        **say("reference_agents_and_ideal_organisms_in"),
        notes=(MOVED_NOTE,),
    )


def _limit(name: str, limit: float) -> str:
    """A threshold as a table shows it."""
    return f"p ≤ {LEVEL:g}" if name in scoring.TESTS else f"> {number(limit, 3)}"


# --- Page -----------------------------------------------------------------------------------------
_DIGITS = 3  # of differences, some of which are small
REACHED, MISSED, OPEN = "reached", "missed", "inconclusive"


def sections(calibration: PopulationCalibration) -> list[Section]:
    """What the instruments say of two populations."""
    scale, first, second = calibration.scale, calibration.first, calibration.second
    mazes = scale.grids * len(scale.sizes) * len(scale.complexities)
    return [
        Section(
            title="A population of simulated agents",
            text=(
                f"{len(first.truth.traits)} agents were drawn from a stated distribution over what "
                f"they want, what they believe, how strongly they want it, how they plan and which "
                f"habit they fall into. Each walked through {mazes} mazes with a goal, a key, a "
                f"marked cell and a marked corner, {scale.walks} times with these places where "
                f"they are drawn first and {scale.walks} times with all of them moved. Who counts "
                f"as what was written down before anybody walked.",
                f"An agent that wants something follows it when it is moved; a habit does not. "
                f"{TITLES[FOLLOWED]} is MEG towards a target less what the same walks say of the "
                f"place where it was not. The {TITLES[RECOMMENDED]} asks whether that is more than "
                f"swapping the places of some mazes would give, and says that an agent wants "
                f"something where p is at most {LEVEL:g}: of agents that know of no target, no "
                f"more than {percent(LEVEL, 0)} can raise a false alarm, whatever their habit.",
            ),
            tables=(
                class_table(calibration),
                confusion_table(second),
                trait_table(
                    second,
                    ("target", "planner", "belief", "noise"),
                    "Agents that want something, by what they are, second population",
                ),
                trait_table(
                    second, ("habit",), "Aimless agents, by their habit, second population"
                ),
                beside_table(calibration),
            ),
        ),
        Section(
            title="What MEG tells beyond success, SPL and accuracy",
            tables=(
                rate_table(calibration, first, "first population"),
                rate_table(calibration, second, "second population"),
                validity_table(second, "second population"),
                beyond_table(calibration),
                added_table(calibration),
                cost_table(calibration),
            ),
        ),
    ]


def findings(calibration: PopulationCalibration) -> list[str]:
    """What the populations came to, in sentences made of their numbers."""
    second = calibration.second
    return [
        f"Recommended: the {TITLES[RECOMMENDED]}, and to say that an agent wants what it follows "
        f"most where p is at most {LEVEL:g}.",
        *_aims(calibration.first, second),
        f"Not recommended: MEG of walks as they are. With the threshold of the first population, "
        f"{calibration.thresholds[MEG]:.3f} of the maximum, it detects "
        f"{percent(second.rates[traits.HALF_HEARTED_CLASS][MEG])} of half-hearted goals and names "
        f"{percent(second.named[MEG])} of targets rightly, with "
        f"{percent(second.false_alarms[MEG])} of false alarms, "
        f"{percent(second.rates[traits.COMPETENT_CLASS][MEG])} of competent habits. The intervals "
        f"include the choice of the threshold.",
        *_beyond(second),
        *_added(calibration),
    ]


def outcome(rate: Estimate, least: float | None, most: float | None) -> str:
    """Whether a rate is on the right side of its aim: its interval has to be."""
    if rate.interval is None:
        return OPEN
    low, high = rate.interval
    if least is not None:
        return REACHED if low >= least else MISSED if high < least else OPEN
    assert most is not None
    return REACHED if high <= most else MISSED if low > most else OPEN


def _aims(first: PopulationRates, second: PopulationRates) -> list[str]:
    """What was asked of the recommended test, at the rate that is asked for and at its level."""

    def at_level(rates: PopulationRates) -> dict[str, Estimate]:
        return {
            "half-hearted": rates.rates[traits.HALF_HEARTED_CLASS][RECOMMENDED],
            "aimless": rates.false_alarms[RECOMMENDED],
            "competent": rates.rates[traits.COMPETENT_CLASS][RECOMMENDED],
        }

    words = {
        "half-hearted": "Half-hearted goals detected",
        "aimless": "False alarms of all aimless agents",
        "competent": "False alarms of competent habits alone",
    }
    named = "The target of agents of at least medium strength is named rightly, out of five"
    pairs = [(named, LEVEL, first.named[RECOMMENDED], second.named[RECOMMENDED])]
    for level, before, after in (
        (traits.FALSE_ALARMS, first.at_aim, second.at_aim),
        (LEVEL, at_level(first), at_level(second)),
    ):
        pairs += [(words[kind], level, before[kind], after[kind]) for kind in words]
    aims = {named: traits.NAMED_RIGHTLY, words["half-hearted"]: traits.DETECTED}
    sentences = []
    for asked, level, before_it, after_it in pairs:
        least = aims.get(asked)
        most = traits.FALSE_ALARMS if least is None else None
        bound = traits.FALSE_ALARMS if least is None else least
        aim = f"at {'most' if least is None else 'least'} {percent(bound, 0)}"
        sentences.append(
            f"{asked} (p ≤ {level:g}): {percent(after_it)} on the second population, "
            f"{percent(before_it)} on the first. Aim: {aim}; on the second population: "
            f"{outcome(after_it, least, most)}."
        )
    return sentences


def _beyond(rates: PopulationRates) -> list[str]:
    """Whether MEG is better than simpler measures that are asked the same."""
    titles = {contrast.title: f"area ({contrast.title})" for contrast in CONTRASTS}
    titles["recovery"] = "rank correlation with strength"
    titles["detected"] = "share of half-hearted goals that the swap test detects"
    sentences = []
    for measure, test in zip(SIMPLER_FOLLOWED, SIMPLER, strict=True):
        differences = rates.beyond[measure] | rates.beyond[test]
        parts = [
            f"{words} {number(differences[title], _DIGITS)}, {verdict(differences[title])}"
            for title, words in titles.items()
        ]
        sentences.append(f"{TITLES[FOLLOWED]} less {TITLES[measure]}: {'; '.join(parts)}.")
    return sentences


def _added(calibration: PopulationCalibration) -> list[str]:
    return [
        f"{TITLES[value.added.more]} added to {value.added.title}: the prediction of other agents "
        f"gains {number(value.gain, _DIGITS)} nats an agent, {verdict(value.gain)}."
        for value in calibration.added
    ]


def verdict(difference: Estimate) -> str:
    """Whether a difference is "better", "worse" or "inconclusive".

    Fewer different mazes and agents are in a resample, which biases the resampled differences: the
    percentile interval may lie to one side of the value. So 0 has to be farther from the value
    than either end, which the interval reflected at the value then leaves out as well.
    """
    value = difference.value
    low, high = difference.interval or (-math.inf, math.inf)
    if abs(value) > max(value - low, high - value):
        return "better" if value > 0 else "worse"
    return "inconclusive"
