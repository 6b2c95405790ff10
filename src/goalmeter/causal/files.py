"""What a command line hands over: the files of models and utilities, and interventions as text.

    model    .bif or .xmlbif (also .xml), gzipped or not: every variable is a chance node; which
             ones are decisions is the question, not part of the file
    utility  .json: a list of factors that are added up, each {"variables": ["S", "M"], "values":
             [[1, 0], [0, 1]]} with nested lists in the order of the model's states

Every error names the file and the place in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from goalmeter._errors import InvalidFileError, InvalidParameterError, json_text
from goalmeter._names import listed, unknown_name
from goalmeter.causal.bif import read_bif
from goalmeter.causal.diagram import Utility, utility_of
from goalmeter.causal.formats import NetworkParts, read_text, read_xmlbif
from goalmeter.causal.graph import Value
from goalmeter.causal.network import CausalBayesianNetwork
from goalmeter.tabular.arrays import naming

EXAMPLE = "asia"
_KEYS = ("variables", "values")
_SHAPE = '{"variables": [names], "values": nested lists of numbers}'
# Longer values are cut in a message.
_SHOWN = 40


# What reads the files whose names have an ending; behind any of them .gz may stand.
MODEL_FORMATS: dict[str, Callable[[str | Path], NetworkParts]] = {
    ".bif": read_bif,
    ".xmlbif": read_xmlbif,
    ".xml": read_xmlbif,
}


def load_model(path: str | Path) -> CausalBayesianNetwork:
    """Read a network, in the format that the file's name tells: one of `MODEL_FORMATS`, or .gz.

    The name "asia" is the example network that comes with the package.
    """
    if str(path) == EXAMPLE and not Path(path).exists():
        path = Path(__file__).with_name(f"{EXAMPLE}.bif")
    name = Path(path).name.lower().removesuffix(".gz")
    for ending, read in MODEL_FORMATS.items():
        if name.endswith(ending):
            return CausalBayesianNetwork.of(read(path))
    *endings, last = MODEL_FORMATS
    raise InvalidFileError(
        f"{path}: the name of a model ends in {', '.join(endings)} or {last} (or one of them and "
        f".gz), which tells its format; rename the file, or convert it with pgmpy or bnlearn"
    )


def load_utility(path: str | Path, network: CausalBayesianNetwork) -> Utility:
    """Read a utility file, and check it against a model.

    Args:
        path: the .json file; its extension does not matter.
        network: the model whose variables it is about.

    Raises:
        InvalidFileError: the file is missing, not JSON, or not a list of factors.
        InvalidUtilityError: a factor that does not fit the model.
    """
    factors = _parsed(path, read_text(path))
    if not isinstance(factors, list) or not factors:
        raise InvalidFileError(
            f"{path}: holds {_shown(factors)}, expected a list of one or more factors, each "
            f"{_SHAPE}"
        )
    made: list[Any] = []
    for number, factor in enumerate(factors, start=1):
        with naming(f"{path}, factor {number}"):
            made += utility_of(network, [_checked(factor, network)]).factors
    return Utility(tuple(made))


def parse_do(texts: Iterable[str], network: CausalBayesianNetwork) -> dict[str, Value]:
    """An intervention from texts such as "X=x": {variable: state}.

    A name or a state may hold a = itself; the text is cut where a variable of the model ends.

    Example:
        >>> side = ["left", "right"]
        >>> cheese = CausalBayesianNetwork({"S": side}, {}, {"S": [0.5, 0.5]})
        >>> parse_do(["S=left"], cheese)
        {'S': 'left'}
    """
    out: dict[str, Value] = {}
    for text in texts:
        x, state = _cut(text, network.variables)
        network.check_names([x])
        if x in out:
            raise InvalidParameterError(f"{x!r} is set twice, expected each variable once")
        out[x] = network.domain(x)[network.index(x, state)]
    return out


def _cut(text: str, variables: Sequence[str]) -> tuple[str, str]:
    places = [i for i, c in enumerate(text) if c == "="]
    if not places:
        raise InvalidParameterError(
            f"{text!r} has no '=', expected VARIABLE=STATE, such as {variables[0]}=STATE"
        )
    pairs = [(text[:i].strip(), text[i + 1 :].strip()) for i in places]
    return next((pair for pair in pairs if pair[0] in variables), pairs[0])


def _parsed(path: str | Path, text: str) -> Any:
    """The value of a JSON text; no name twice in an object, no NaN."""

    # Python's reader keeps the last of two equal names without a word.
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise InvalidFileError(
                f"{path}: an object has the names {listed(names)}, expected each of them once"
            )
        return dict(pairs)

    def no_number(word: str) -> Any:
        raise InvalidFileError(f"{path}: has the number {word}, expected finite numbers only")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except json.JSONDecodeError as cause:
        raise InvalidFileError(
            f"{path}, line {cause.lineno}, column {cause.colno}: not JSON ({cause.msg}), expected "
            f"a list of factors, each {_SHAPE}"
        ) from cause
    except RecursionError as cause:
        raise InvalidFileError(
            f"{path}: lists are nested too deeply, expected one level for each variable"
        ) from cause
    except InvalidFileError:
        raise
    except ValueError as cause:  # an integer of thousands of digits
        raise InvalidFileError(f"{path}: cannot be read as JSON ({cause})") from cause


def _checked(factor: Any, network: CausalBayesianNetwork) -> dict[str, Any]:
    """A factor in its form, its values all numbers in the shape of its variables."""
    if not isinstance(factor, dict):
        raise InvalidFileError(f"is {_shown(factor)}, expected {_SHAPE}")
    for key in factor:
        if key not in _KEYS:
            raise unknown_name(key, _KEYS, "the name", InvalidFileError)
    for key in _KEYS:
        if key not in factor:
            raise InvalidFileError(f"has no {key!r}, expected {_SHAPE}")
    names = factor["variables"]
    if not isinstance(names, list) or not names or not all(isinstance(x, str) for x in names):
        raise InvalidFileError(
            f"the variables are {_shown(names)}, expected a list of one or more names"
        )
    for x in names:
        if x not in network.variables:
            raise unknown_name(x, network.variables, "variable", InvalidFileError)
    _check_values(factor["values"], names, network, ())
    return factor


def _check_values(
    node: Any, names: Sequence[str], network: CausalBayesianNetwork, place: tuple[Value, ...]
) -> None:
    """Check one list of values, or one number; `place` holds the states that lead to it."""
    if len(place) == len(names):
        if isinstance(node, bool) or not isinstance(node, (int, float)) or not _finite(node):
            where = _where("the value", names, place)
            raise InvalidFileError(f"{where} is {_shown(node)}, expected a finite number")
        return
    x = names[len(place)]
    states = network.domain(x)
    if not isinstance(node, list) or len(node) != len(states):
        shown = f"a list of {len(node)}" if isinstance(node, list) else _shown(node)
        raise InvalidFileError(
            f"{_where('the values', names, place)} are {shown}, expected a list of {len(states)}, "
            f"one for each state of {x!r} in the model's order: {listed(states)}"
        )
    for state, below in zip(states, node, strict=True):
        _check_values(below, names, network, (*place, state))


def _where(noun: str, names: Sequence[str], place: tuple[Value, ...]) -> str:
    pairs = ", ".join(f"{x} = {state}" for x, state in zip(names, place, strict=False))
    return f"{noun} for {pairs}" if pairs else noun


def _finite(number: int | float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _shown(value: Any) -> str:
    """A value of a JSON file in a message, cut if it is long."""
    try:
        text = json_text(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
