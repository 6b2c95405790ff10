"""How the options of a suite are spelled on the command line: read from there, and written again.

The options are the fields of `navigation.suites.options.SuiteOptions`; here each has its spelling
and its help. The command line is made of this table, so a field that is added there needs a line
here and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from goalmeter._arguments import whole_in_text
from goalmeter._errors import InvalidParameterError
from goalmeter._text import shown

Bounds = tuple[int, int]
N = TypeVar("N", int, float)


def numbers(option: str, text: str | None, kind: type[N]) -> list[N] | None:
    """The numbers of an option, written with commas between them.

    Raises:
        InvalidParameterError: a part of the text is no number of the kind.
    """
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


def bounds(option: str, texts: Sequence[str] | None) -> list[Bounds] | None:
    """Pairs of bounds, each written LOW-HIGH.

    Raises:
        InvalidParameterError: a pair is not written so.
    """
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
        low, high = (
            whole_in_text(part, option, least=0, most=MOST_STEPS) for part in ends.groups()
        )
        pairs.append((low, high))
    return pairs


def _join(values: Sequence[Any]) -> str:
    return ",".join(map(str, values))


def _span(pair: Sequence[int]) -> str:
    return "-".join(map(str, pair))


@dataclass(frozen=True)
class SpelledOption:
    """An option of the command line for a field of `SuiteOptions`.

    Attributes:
        flag: as it is typed; "--yes/--no" for two.
        kind: the type that the command line reads; a list is an option that may be repeated.
        help: in a line.
        metavar: an example of its value; None for numbers and flags.
        least: smallest number that is accepted.
        read: the field's value from what was typed; None where that is the value itself.
        write: what is typed for one value of run.json; the option is repeated for a list.
    """

    flag: str
    kind: Any
    help: str
    metavar: str | None = None
    least: float | None = None
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], str] = str


SUITE_OPTIONS: Mapping[str, SpelledOption] = {
    "sizes": SpelledOption(
        "--sizes",
        str | None,
        "Rows of the grids, odd.",
        "7,9",
        read=lambda text: numbers("--sizes", text, int),
        write=_join,
    ),
    "complexities": SpelledOption(
        "--complexities",
        str | None,
        "Of mazes: from 0, a room, to 1, a perfect maze.",
        "0,0.5,1",
        read=lambda text: numbers("--complexities", text, float),
        write=_join,
    ),
    "transforms": SpelledOption(
        "--transforms",
        str | None,
        "Frames of isometries; default all.",
        "reflect,swap",
        read=words,
        write=_join,
    ),
    "objects": SpelledOption(
        "--objects",
        str | None,
        "What lies about where keys open nothing: a key, an object without a use.",
        "key,neutral",
        read=words,
        write=_join,
    ),
    "grids": SpelledOption(
        "--grids",
        int | None,
        "Grids of each size and complexity.",
        least=1,
        write=lambda indices: str(len(indices)),
    ),
    "trajectories": SpelledOption(
        "--trajectories",
        int | None,
        "Walks through each.",
        least=1,
        write=lambda indices: str(len(indices)),
    ),
    "distances": SpelledOption(
        "--distance",
        list[str] | None,
        "Mazes by their shortest path; repeat for more strata.",
        "LOW-HIGH",
        read=lambda texts: bounds("--distance", texts),
        write=_span,
    ),
    "detours": SpelledOption(
        "--detour",
        list[str] | None,
        "Mazes by how much longer it is than as the crow flies; repeat for more.",
        "LOW-HIGH",
        read=lambda texts: bounds("--detour", texts),
        write=_span,
    ),
    "paper": SpelledOption("--paper", bool, "The paper's scale and caps, where none is given."),
    "cap": SpelledOption("--cap", int | None, "Steps after which a walk is ended.", least=1),
    "cap_factor": SpelledOption(
        "--cap-factor",
        float | None,
        "The same as a multiple of the shortest path; default 3.",
        least=1,
    ),
    "held_out": SpelledOption(
        "--held-out/--all-grids",
        bool | None,
        "Only grids that the recipes of organisms do not teach; default for these alone.",
    ),
}


def suite_options(typed: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `SuiteOptions` from what was typed.

    Raises:
        InvalidParameterError: a text cannot be read; the message says how it is written.
    """
    values = {}
    for name, value in typed.items():
        read = SUITE_OPTIONS[name].read
        values[name] = value if read is None else read(value)
    return values


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
            repeated = option.kind == list[str] | None
            for each in value if repeated else [value]:
                typed += [option.flag, option.write(each)]
    return typed + (["--seed", str(what["seed"])] if what["seed"] else [])
