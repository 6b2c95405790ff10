"""What is missing of results, and why: nothing is silently absent."""

from __future__ import annotations

from collections.abc import Sequence

from goalmeter.pages.representation.shown import Shown, say
from goalmeter.report import Section
from goalmeter.representation.result import Representation

SECTION = "representation-missing"
# Field of the result -> in words, and the parts of a probe that it belongs to: where such a part
# was left out, its reason is that of the field.
PARTS = {
    "maps": ("what is read of cells", ("maps",)),
    "places": ("the places of agent and goal", ("maps",)),
    "states": ("pictures of states", ("maps",)),
    "explained": ("what decoded maps explain", ("maps",)),
    "use": ("interventions", ("use",)),
    "doses": ("doses", ("use",)),
    "spans": ("when cells are looked up", ("use",)),
    "moved": ("where goal and agent are read from", ("goal moved", "agent moved", "use")),
    "subspaces": (
        "dimensions that carry goal and agent",
        ("subspace of the goal", "subspace of the agent", "use"),
    ),
    "believed": ("the believed world", ("use", "maps")),
    "plan": ("the plan", ("plan",)),
    "decided": ("when it is decided", ("decided", "plan")),
}


def missing(shown: Shown) -> list[tuple[str, str]]:
    """The name of each thing that is not there, with its reason."""
    result = shown.result
    reasons = dict(result.left_out)
    out: list[tuple[str, str]] = []
    told: set[str] = set()
    for field, (in_words, parts) in PARTS.items():
        if _has(result, field):
            continue
        known = next((name for name in (field, *parts) if name in reasons), None)
        told |= {name for name in (known,) if name is not None}
        out.append((in_words, reasons[known] if known is not None else ""))
    # A position that no decision has, a control that could not be made.
    out += [(name, reason) for name, reason in reasons.items() if name not in told]
    return out


def section(models: Sequence[Shown]) -> Section | None:
    """What is missing of each model; None where everything is there."""
    points = tuple(
        f"{shown.name}: {name}: {reason or 'it was not asked for.'}"
        for shown in models
        for name, reason in missing(shown)
    )
    if not points:
        return None
    return Section(anchor=SECTION, points=points, **say("missing"))


def _has(result: Representation, field: str) -> bool:
    return bool(getattr(result, field))
