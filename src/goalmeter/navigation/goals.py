"""The goal that an agent pursues, inferred from the goal-directedness of its walks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from goalmeter.gridworld.conversions import GOAL_UTILITY, KEY_UTILITY, NEUTRAL_UTILITY
from goalmeter.navigation.acted_maps import ANOTHER_MAP, ActedMap, acted_map, on_map
from goalmeter.navigation.measure import Navigation
from goalmeter.navigation.rationality import Directedness, GoalFit, directedness
from goalmeter.report.numbers import LEAST_SHARE

# An agent pursues something if the 95% interval of the share that it explains lies above the
# margin, `LEAST_SHARE` of the maximum. There is no evidence of a goal if the intervals of all
# candidates lie within the margin on both sides of 0. The interval of the difference decides
# between the goal and the key. Everything else is inconclusive. An agent that acts on another map
# than the world (`acted_maps`) is judged on that map.

PURSUES, NOTHING, OPEN = "pursues", "no evidence of a goal", "inconclusive"
# What an agent may want, in words.
WISHES = {GOAL_UTILITY: "the goal", KEY_UTILITY: "the key", NEUTRAL_UTILITY: "the neutral object"}


@dataclass(frozen=True)
class Want:
    """The inferred goal of an agent."""

    agent: str
    reference: bool
    kind: str  # "pursues", "no evidence of a goal" or "inconclusive"
    # "goal", or the name of what lies about; both if the difference of the two is inconclusive.
    things: tuple[str, ...]
    acted: ActedMap  # the map on which it acts
    mazes: Directedness  # in mazes, on the map that was chosen
    things_about: Directedness | None  # the same where something else lies about, if measured

    @property
    def verdict(self) -> str:
        """Verdict in words, such as "pursues the goal, on a map without inner walls"."""
        of_map = f", {self.acted.words}" if self.acted.words and self.kind == PURSUES else ""
        return in_words(self.kind, self.things) + of_map

    @property
    def item(self) -> str:
        """The object in the worlds besides the goal, in words."""
        thing = self.things_about and self.things_about.thing
        return WISHES.get(thing or "", "the key")

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return {
            "agent": self.agent,
            "verdict": self.kind,
            "things": list(self.things),
            "map": self.acted.to_json(),
            "mazes": self.mazes.to_json(),
            "key_worlds": self.things_about and self.things_about.to_json(),
        }


def in_words(kind: str, wishes: Sequence[str]) -> str:
    """Return a verdict in words, such as "pursues the goal"."""
    if kind != PURSUES:
        return kind
    text = " or ".join(WISHES[wish] for wish in wishes)
    return f"{kind} {text}{' (inconclusive which)' * (len(wishes) > 1)}"


def wanted(measures: Sequence[Directedness]) -> tuple[str, tuple[str, ...]]:
    """Infer the goal of one agent from its measures in each kind of worlds: kind and things."""
    goal = [_explains(measure.goal) for measure in measures]
    beside = [measure for measure in measures if measure.thing is not None]
    item = beside[0].thing if beside else None
    larger = {measure.larger for measure in beside}
    rivals = [_explains(measure.towards_thing) for measure in beside]
    if item is not None and larger == {item}:
        # To explain more than the goal is no wish, for what explains hardly anything.
        return (PURSUES, (item,)) if any(rivals) else (OPEN, ())
    if any(goal):  # None, which is open, is no wish that counts
        # Told apart or not: what surely explains nothing is no rival of the goal.
        if item is None or larger == {GOAL_UTILITY} or set(rivals) == {False}:
            return PURSUES, (GOAL_UTILITY,)
        return PURSUES, (GOAL_UTILITY, item)
    return (NOTHING, ()) if {*goal, *rivals} == {False} else (OPEN, ())


def _explains(towards: GoalFit | None) -> bool | None:
    """Whether a share lies above the margin, True, or within it on both sides of 0, False."""
    interval = None if towards is None else towards.share.interval
    if interval is None:
        return None
    if interval[0] > LEAST_SHARE:
        return True
    return False if interval[0] >= -LEAST_SHARE and interval[1] <= LEAST_SHARE else None


def want_of(walked: Sequence[Navigation], directed: Sequence[Directedness]) -> Want:
    """Infer the goal of one agent, and whether it acts on the true map.

    `walked` are its walks in mazes and, if there are any, where a key lies about that opens
    nothing; `directed` is what it goes for in the same worlds.
    """
    acted = acted_map(walked)
    if acted.verdict == ANOTHER_MAP:
        directed = [directedness([on_map(each, acted.candidate)])[0] for each in walked]
    kind, things = wanted(directed)
    beside = directed[1] if len(directed) > 1 else None
    agent = walked[0].agent, walked[0].reference
    return Want(*agent, kind, things, acted, directed[0], beside)
