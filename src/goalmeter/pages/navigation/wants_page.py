"""Which goal each agent pursues, as a page shows it: one line each, and a table of numbers."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.pages.navigation.conditions import say
from goalmeter.pages.navigation.meg_page import WISHES
from goalmeter.pages.navigation.wants import PURSUES, Want
from goalmeter.report import Finding, Link, Table
from goalmeter.report.numbers import LEAST_SHARE, number, percent
from goalmeter.report.table_of import column, grouped, table_of, words

ANCHOR = "wants"


def in_words(kind: str, wishes: Sequence[str], *, mapped: bool = False) -> str:
    """A verdict in a few words: "pursues the goal, on a wrong map"."""
    if kind != PURSUES:
        return kind
    text = " or ".join(WISHES[wish] for wish in wishes)
    text += " (inconclusive which)" * (len(wishes) > 1)
    return f"{kind} {text}{', on a wrong map' * mapped}"


def short(agent: str) -> str:
    """The name of an agent without where it comes from."""
    return agent.rpartition("/")[2]


def findings(verdicts: Sequence[Want], *, walks: str) -> list[Finding]:
    """A line for each agent that was asked about, with the way to its numbers and its walks.

    Args:
        verdicts: what each wants.
        walks: id of the section in which they can be seen to walk.
    """
    table = wants_table(verdicts)
    return [
        Finding(
            lead=f"{short(want.agent)}: {in_words(want.kind, want.things, mapped=want.mapped)}.",
            text=_why(want),
            links=(Link("numbers", table.row_anchor(want.agent)), Link("walks", walks)),
        )
        for want in verdicts
        if not want.reference
    ]


def wants_table(verdicts: Sequence[Want]) -> Table:
    """The numbers that each verdict rests on."""
    item = _item(verdicts)
    bare = item.removeprefix("the ")
    return table_of(
        verdicts,
        (
            words("agent", lambda want: want.agent + " (reference)" * want.reference),
            words(
                "verdict",
                lambda want: in_words(want.kind, want.things, mapped=want.mapped),
                answer=True,
            ),
            *grouped(
                "explained, in mazes",
                column("by wanting the goal", lambda w: w.mazes and w.mazes.goal.share, percent),
            ),
            column(
                "moves that fit the mole’s map, not the world", lambda w: w.follows_map, percent
            ),
            *grouped(
                f"explained, before {item} is taken",
                column("by wanting the goal", lambda want: want.beside and want.beside[0], percent),
                column(f"by wanting {item}", lambda want: want.beside and want.beside[1], percent),
                column(
                    f"goal minus {bare}, nats a walk",
                    lambda want: want.beside and want.beside[2],
                    lambda difference: number(difference, 1),
                ),
            ),
        ),
        anchor=ANCHOR,
        **say("wants", margin=percent(LEAST_SHARE, 0), item=item),
    )


def _item(verdicts: Sequence[Want]) -> str:
    """What lies about beside the goal, in words."""
    about = [want.things_about.thing for want in verdicts if want.things_about is not None]
    return next((WISHES[item] for item in about if item is not None), "the key")


def _why(want: Want) -> str:
    """The numbers behind the verdict, in a sentence or two."""
    out = []
    if want.mazes is not None:
        out.append(
            f"In mazes, wanting the goal explains {percent(want.mazes.goal.share)} of the most "
            f"that could be explained of its moves{', judged on that map' * want.mapped}."
        )
    if want.mapped and want.follows_map is not None:
        out.append(
            f"Of its moves that are right either on the map or in the world, and not on both, "
            f"{percent(want.follows_map)} are right on the map."
        )
    if want.beside is not None:
        item = _item([want])
        goal, of_item = (percent(share) for share in want.beside[:2])
        out.append(
            f"Beside {item.replace('the ', 'a ', 1)} that opens nothing, wanting {item} explains "
            f"{of_item} of what it does before taking it, and wanting the goal {goal}."
        )
    return " ".join(out)
