"""Tables of worlds with a key: the key beside chance, parts of the way, two equal ways."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.experiments.navigation_formats import (
    INTERVALS,
    number,
    p_value,
    percent,
    plain,
    points,
)
from goalmeter.experiments.navigation_results import Measured
from goalmeter.navigation.measures.behaviour import Row
from goalmeter.report import Column, Table

NAME = Column("agent", numeric=False)


def keys_table(results: Sequence[Measured]) -> Table:
    """The key beside its chance levels."""
    rows = []
    for result in results:
        for found in result.keys:
            towards = found.towards_key
            rows.append(
                (
                    _with_size(result, found.row),
                    percent(found.pick_up.rate),
                    f"{found.pick_up.chance:.1%}",
                    points(found.pick_up.excess),
                    p_value(found.pick_up.p_value),
                    *(
                        ("–", "–", "–", "–")
                        if towards is None
                        else (
                            percent(towards.share),
                            plain(towards.chance_of_kind),
                            points(towards.excess_of_kind),
                            str(towards.share.n),
                        )
                    ),
                )
            )
    return Table(
        caption="The key, beside chance",
        columns=(
            NAME,
            Column("share", group="key taken"),
            Column("by chance", group="key taken"),
            Column("excess, points", group="key taken"),
            Column("p", group="key taken"),
            Column("towards the key", group="wrong moves without it"),
            Column("by chance", group="wrong moves without it"),
            Column("excess, points", group="wrong moves without it"),
            Column("number", group="wrong moves without it"),
        ),
        rows=tuple(rows),
        meaning="Taken by chance: the probability that an agent that takes the shortest ways, "
        f"breaking ties at random, passes the key. {INTERVALS}",
        notes=(
            "Wrong moves by chance: how often a wrong answer of the same kind, a move or a bump, "
            "leads towards the key. Where a door needs the key, fetching it is right and the right "
            "half of the table is empty.",
        ),
    )


def stages_table(results: Sequence[Measured]) -> Table:
    """Accuracy in each part of the way, by the plan over cell, key and door."""
    every = [found for result in results for found in result.keys]
    stages = list(dict.fromkeys(stage for found in every for stage in found.stages))
    return Table(
        caption="Optimal actions on each part of the way",
        columns=(NAME, *stages),
        rows=tuple(
            (
                _with_size(result, found.row),
                *(percent(found.stages[s]) if s in found.stages else "–" for s in stages),
            )
            for result in results
            for found in result.keys
        ),
        meaning="By the plan over cell, key and door: fetching the key is right where a door is "
        "locked, and wrong where none is.",
    )


def two_paths_table(results: Sequence[Measured]) -> Table:
    """With the key and without it, in the same worlds."""
    return Table(
        caption="The same worlds with and without the key",
        columns=(
            NAME,
            Column("with", group="goal reached"),
            Column("without", group="goal reached"),
            Column("difference, points", group="goal reached"),
            Column("with", group="optimal actions"),
            Column("without", group="optimal actions"),
            Column("difference, points", group="optimal actions"),
            "same cells, key or not",
            "same cells, by chance",
        ),
        rows=tuple(
            (
                result.agent,
                plain(found.with_key.success),
                plain(found.without_key.success),
                points(found.success_difference),
                plain(found.with_key.accuracy),
                plain(found.without_key.accuracy),
                points(found.accuracy_difference),
                number(found.jaccard, 2),
                "–" if found.jaccard_control is None else number(found.jaccard_control, 2),
            )
            for result in results
            for found in result.two_paths
        ),
        meaning="Two ways of equal length, a key on one of them. An agent that wants the goal and "
        f"nothing else takes the key half of the time and does as well without it. {INTERVALS}",
    )


def _with_size(result: Measured, row: Row) -> str:
    """The agent, and the size where there are several."""
    sizes = {found.row.size for found in result.keys}
    return result.agent + (f", size {row.size}" if len(sizes) > 1 else "")
