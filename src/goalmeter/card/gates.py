"""Requirements on the rows of a card for continuous integration, and claims stated before a run."""

from __future__ import annotations

import hashlib
import operator
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from goalmeter._errors import InvalidFileError, InvalidParameterError, shown, visible
from goalmeter._files import Field, JsonFields, check_record, is_number, read_bytes
from goalmeter._names import did_you_mean
from goalmeter.card.compare import CardComparison, ends_of, say
from goalmeter.card.records import Card, Claim
from goalmeter.report import Table, in_markdown

_RELATIONS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_NUMBER = r"[-+]?(?:\d{1,15}\.?\d*|\.\d+)(?:[eE][-+]?\d{1,2})?"
_REQUIREMENT = re.compile(
    r"\s*(?P<of>(?P<row>\S+?)(?P<change>\.difference)?\.(?P<end>value|lower|upper))"
    rf"\s*(?P<relation>[<>]=?)\s*(?P<threshold>{_NUMBER})\s*"
)


@dataclass(frozen=True, kw_only=True)
class Gate(JsonFields):
    """A requirement and whether a card meets it."""

    requirement: str
    value: float | None  # None if it is missing
    passed: bool
    found: str  # the value, or what is missing


def check_gates(
    card: Card, requirements: Sequence[str], comparison: CardComparison | None = None
) -> list[Gate]:
    """Return whether a card meets each requirement, and whether none of its trials failed.

    A requirement is ROW.END or ROW.difference.END, one of >=, <=, > and <, and a number; END is
    value, lower or upper. `comparison` is that of the card with a baseline, which comes first.
    """
    failed = ", ".join(f"{kind} {count}" for kind, count in card.failures.items() if count)
    observation = f"failed trials: {failed}" if failed else f"{card.trials} trials"
    gates = [Gate(requirement="no failed trial", value=None, passed=not failed, found=observation)]
    for text in requirements:
        match = _REQUIREMENT.fullmatch(text)
        if match is None:
            raise InvalidParameterError(
                f"--require is {shown(text)}, expected ROW.END or ROW.difference.END, a relation "
                f"({', '.join(_RELATIONS)}) and a number, such as 'meg.lower >= 2'; END is value, "
                f"lower or upper"
            )
        if match["change"] and comparison is None:
            raise InvalidParameterError(f"{shown(text)} needs a baseline; add --baseline CARD0")
        value = _value(card, match, comparison)
        observation = f"{match['of']} is missing" if value is None else f"{value:.6g}"
        if card.row(match["row"]) is None:
            hint = did_you_mean(match["row"], [row.id for row in card.rows])
            observation = f"the card has no row {match['row']}{hint}"
        holds = _RELATIONS[match["relation"]]
        passed = value is not None and bool(holds(value, float(match["threshold"])))
        gates.append(Gate(requirement=text.strip(), value=value, passed=passed, found=observation))
    return gates


def _value(card: Card, match: re.Match[str], comparison: CardComparison | None) -> float | None:
    """The number that a requirement is about; None if it is missing."""
    row = card.row(match["row"])
    values = (None, None, None) if row is None else (row.value, *ends_of(row))
    if match["change"] and comparison is not None:
        changes = {each.id: each.change for each in comparison.differences}
        change = changes.get(match["row"])
        interval = change and change.interval
        values = (change and change.value, *(interval or (None, None)))
    return values[("value", "lower", "upper").index(match["end"])]


# --- Formats --------------------------------------------------------------------------------------
def gates_table(card: Card, gates: Sequence[Gate]) -> Table:
    """Return a line for each gate."""
    return say.table("gates", gates, agent=card.agent)


def github_text(card: Card, gates: Sequence[Gate]) -> str:
    """Return an error of a GitHub workflow for each gate that failed."""
    title = _escaped(f"goalmeter: {card.agent}").replace(":", "%3A").replace(",", "%2C")
    errors = [_escaped(f"{gate.requirement}: {gate.found}") for gate in gates if not gate.passed]
    return "\n".join(f"::error title={title}::{error}" for error in errors)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def markdown_text(card: Card, gates: Sequence[Gate]) -> str:
    """Return gates as a Markdown table, for the summary of a workflow."""
    literal = [
        replace(gate, requirement=_literal(gate.requirement), found=_literal(gate.found))
        for gate in gates
    ]
    table = gates_table(replace(card, agent=_literal(card.agent)), literal)
    return f"### {table.caption}\n\n{in_markdown([table])}\n"


def _literal(text: str) -> str:
    """Text in which nothing is markup of Markdown or HTML."""
    return re.sub(r"[^\w .-]", lambda character: f"&#{ord(character[0])};", visible(text))


def junit_text(card: Card, gates: Sequence[Gate]) -> str:
    """Return gates as XML in the format of JUnit."""
    cases = []
    for gate in gates:
        failure = "" if gate.passed else f"<failure message={quoteattr(visible(gate.found))}/>"
        name = quoteattr(visible(gate.requirement))
        cases.append(f'<testcase classname="goalmeter" name={name}>{failure}</testcase>')
    counts = f'tests="{len(gates)}" failures="{sum(not gate.passed for gate in gates)}"'
    suite = [f"<testsuite name={quoteattr(visible(card.agent))} {counts}>", *cases, "</testsuite>"]
    return "\n".join(suite)


# --- Claims ---------------------------------------------------------------------------------------
_MOST_BYTES = 2**16  # of a claim
_TEXT = Field("a text", lambda value: isinstance(value, str) and bool(value.strip()))
_LIMIT = Field("a number", lambda value: is_number(value, 1e12), required=False)
_CLAIM = {"text": _TEXT, "value": _TEXT, "refuted_by": _TEXT, "at_least": _LIMIT, "at_most": _LIMIT}


def read_claim(path: str | Path) -> Claim:
    """Read a claim from a TOML file: text, value, at_least or at_most, and refuted_by."""
    try:
        data = read_bytes(path, _MOST_BYTES)
        entries = tomllib.loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as cause:
        raise InvalidFileError(f"{path} cannot be read as TOML: {cause}") from cause
    check_record(entries, _CLAIM, str(path))
    is_least = "at_least" in entries
    # The other end of an interval establishes nothing.
    end = "lower" if is_least else "upper"
    value = re.fullmatch(rf"(\S+)\.(value|{end})", entries["value"])
    if is_least == ("at_most" in entries) or value is None:
        raise InvalidFileError(
            f"{path}: expected value = 'ROW.lower' with at_least, or value = 'ROW.upper' with "
            f"at_most; 'ROW.value' fits both"
        )
    return Claim(
        text=entries["text"],
        row=value[1],
        end=value[2],
        relation=">=" if is_least else "<=",
        threshold=float(entries["at_least" if is_least else "at_most"]),
        refuted_by=entries["refuted_by"],
        sha256=hashlib.sha256(data).hexdigest(),
    )


def with_verdict(claim: Claim, card: Card) -> Claim:
    """Return a claim with its verdict, which is inconclusive if an interval leaves both open."""
    row = card.row(claim.row)
    low, high = (None, None) if row is None else ends_of(row)
    holds = _RELATIONS[claim.relation]
    nearest, farthest = (low, high) if claim.relation == ">=" else (high, low)
    judgement = "inconclusive"
    if nearest is not None and holds(nearest, claim.threshold):
        judgement = "met"
    elif farthest is not None and not holds(farthest, claim.threshold):
        judgement = "not met"
    return replace(claim, verdict=judgement)
