"""How the options of `goalmeter navigate` are spelled: read from the command line, written again.

An option of a suite is a field of `navigation.suites.options.SuiteOptions`; here each has its
spelling and its help. The command line is made of this table, so a field that is added there needs
an entry here and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, get_origin

from goalmeter._arguments import whole_in_text
from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown

N = TypeVar("N", int, float)


def numbers(option: str, text: str | None, kind: type[N]) -> list[N] | None:
    """The numbers of an option; None for an option that was not typed."""
    try:
        return None if text is None else [kind(part) for part in text.split(",")]
    except ValueError as cause:  # also for integers of thousands of digits
        whole = "whole numbers" if kind is int else "numbers"
        raise InvalidParameterError(
            f"{option} is {shown(text)}, expected {whole} with commas between them"
        ) from cause


def words(text: str | None) -> list[str] | None:
    """The words of an option, written with commas between them."""
    return None if text is None else [part.strip() for part in text.split(",")]


def bounds(option: str, texts: Sequence[str] | None) -> list[tuple[int, int]] | None:
    """Pairs of bounds, each written LOW-HIGH."""
    from goalmeter.navigation.suites.options import MOST_STEPS

    if not texts:
        return None
    pairs = []
    for text in texts:
        ends = re.fullmatch(r"(\d+)\s*-\s*(\d+)", text.strip())
        if ends is None:
            raise InvalidParameterError(
                f"{option} is {shown(text)}, expected two whole numbers LOW-HIGH, such as 4-8"
            )
        low, high = (whole_in_text(end, option, least=0, most=MOST_STEPS) for end in ends.groups())
        pairs.append((low, high))
    return pairs


def _with_commas(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))


def _low_high(pair: Sequence[int]) -> str:
    return "-".join(map(str, pair))


def _count(indices: Sequence[int]) -> str:
    # run.json lists the indices of grids and walks; the command line counts them from 0.
    return str(len(indices))


@dataclass(frozen=True)
class SpelledOption:
    """An option of the command line for a field of a record of options.

    Attributes:
        flag: as it is typed; "--yes/--no" for two.
        kind: the type that the command line reads; a list is an option that may be repeated.
        help: in a line.
        metavar: an example of its value; None for numbers and flags.
        least: smallest number that is accepted.
        most: largest number that is accepted.
        read: the field's value from the flag and what was typed; None where that is the value.
        write: what is typed for one value of run.json; the option is repeated for a list.
        group: the heading of the help that it stands under; None for the general one.
    """

    flag: str
    kind: Any
    help: str
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    read: Callable[[str, Any], Any] | None = None
    write: Callable[[Any], str] = str
    group: str | None = None

    @property
    def repeated(self) -> bool:
        """Whether it is typed once for each of its values."""
        return get_origin(self.kind) is list


# Lists that are typed in one word, and those whose option is typed again for each pair.
_listed = partial(SpelledOption, kind=str, write=_with_commas)
_paired = partial(SpelledOption, kind=list[str], metavar="LOW-HIGH", read=bounds, write=_low_high)
SUITE_OPTIONS: Mapping[str, SpelledOption] = {
    "sizes": _listed(
        "--sizes", help="Rows of the grids, odd.", metavar="7,9", read=partial(numbers, kind=int)
    ),
    "complexities": _listed(
        "--complexities",
        help="Of mazes: from 0, a room, to 1, a perfect maze.",
        metavar="0,0.5,1",
        read=partial(numbers, kind=float),
    ),
    "transforms": _listed(
        "--transforms",
        help="Frames of isometries; default all.",
        metavar="reflect,swap",
        read=lambda _, text: words(text),
    ),
    "objects": _listed(
        "--objects",
        help="What lies about where keys open nothing: a key, an object without a use.",
        metavar="key,neutral",
        read=lambda _, text: words(text),
    ),
    "grids": SpelledOption(
        "--grids", int, "Grids of each size and complexity.", least=1, write=_count
    ),
    "trajectories": SpelledOption(
        "--trajectories", int, "Walks through each.", least=1, write=_count
    ),
    "distances": _paired(
        "--distance", help="Mazes by their shortest path; repeat for more strata."
    ),
    "detours": _paired(
        "--detour", help="Mazes by how much longer it is than as the crow flies; repeat for more."
    ),
    "paper": SpelledOption("--paper", bool, "The paper's scale and caps, where none is given."),
    "cap": SpelledOption("--cap", int, "Steps after which a walk is ended.", least=1),
    "cap_factor": SpelledOption(
        "--cap-factor", float, "The same as a multiple of the shortest path; default 3.", least=1
    ),
    "held_out": SpelledOption(
        "--held-out/--all-grids",
        bool,
        "Only grids that the recipes of organisms do not teach; default for these alone.",
    ),
}


def values_of(typed: Mapping[str, Any], table: Mapping[str, SpelledOption]) -> dict[str, Any]:
    """The values of the fields that a table spells, from what was typed: field -> value."""
    return {
        name: typed[name] if option.read is None else option.read(option.flag, typed[name])
        for name, option in table.items()
    }


def as_typed(message: str) -> str:
    """A message on what tells two runs apart, with each option as it is typed."""
    head, mark, differences = message.partition("holds another run: ")
    for name, option in SUITE_OPTIONS.items():
        differences = re.sub(rf"\b{name}(?= is )", option.flag, differences)
    return head + mark + differences


def typed_options(what: Mapping[str, Any], *, held_out_by_default: bool) -> list[str]:
    """What to type for the options that the run.json of a navigation run says.

    Args:
        what: what the run is.
        held_out_by_default: whether its agent walks in held-out grids unless it is told otherwise.
    """
    typed: list[str] = []
    for name, option in SUITE_OPTIONS.items():
        value = what.get(name)
        if name == "held_out":
            if bool(value) != held_out_by_default:
                typed.append(option.flag.split("/")[not value])
        # The key lies about unless something else is named.
        elif value not in (None, [], ["key"]):
            for item in value if option.repeated else [value]:
                typed += [option.flag, option.write(item)]
    return typed + (["--seed", str(what["seed"])] if what["seed"] else [])
