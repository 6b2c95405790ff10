"""What may follow `goalmeter/` in a model's name: an organism or a reference agent."""

from __future__ import annotations

from goalmeter._errors import InvalidParameterError
from goalmeter._names import nearest
from goalmeter.agents.navigators import Memoryless, WallFollower, navigator, navigator_names
from goalmeter.organisms import organism_names

OURS = "goalmeter/"


def is_organism(agent: str) -> bool:
    """Whether a name is that of a small model that comes with the package: "goalmeter/mouse"."""
    return agent.startswith(OURS) and agent.removeprefix(OURS) in organism_names()


def prompted_agent(name: str) -> Memoryless:
    """The reference agent that poses as a language model.

    Args:
        name: what follows `goalmeter/`, such as "boltzmann(2)"; no organism's.

    Raises:
        InvalidParameterError: there is none of that name, with the nearest name; or it remembers
            where it went, which no prompt shows.
    """
    kind = name.partition("(")[0].strip()
    kinds = [known.partition("(")[0] for known in navigator_names()]
    if kind not in kinds:
        raise InvalidParameterError(_unknown(name, kind, kinds))
    agent = navigator(name)
    if not isinstance(agent, Memoryless):
        raise InvalidParameterError(
            f"{agent.name} remembers where it went, which a prompt does not show; it walks under "
            f"its own name, {agent.name}, without {OURS}"
        )
    return agent


def _unknown(name: str, kind: str, kinds: list[str]) -> str:
    """What to say of a name that is neither an organism's nor a reference agent's."""
    meant = nearest(kind, [*organism_names(), *kinds])
    if meant is None:
        what, hint = "neither an organism nor a reference agent", ""
    else:
        what = "no organism" if meant in organism_names() else "no reference agent"
        hint = f" did you mean {OURS}{meant}?"
    agents = [known for known in navigator_names() if known != WallFollower.name]
    return (
        f"there is {what} {name!r};{hint} {OURS} is followed by an organism "
        f"({', '.join(organism_names())}) or by a reference agent ({', '.join(agents)})"
    )
