"""Names of language models, as Inspect spells them: PROVIDER/NAME, ours after `goalmeter/`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter._names import nearest
from goalmeter.agents.abilities import Ability, Makers, NamedAgent
from goalmeter.agents.navigators.memoryless import Memoryless
from goalmeter.agents.navigators.registry import navigator, navigator_names
from goalmeter.agents.navigators.wall_follower import WallFollower
from goalmeter.agents.spelling import call_of
from goalmeter.organisms import organism, organism_names

if TYPE_CHECKING:
    from goalmeter.agents.language_models.local_model import LocalModel

OURS, LOCAL, HUGGING_FACE = "goalmeter/", "goalmeter-local/", "hf/"


def is_model(name: str) -> bool:
    """Whether a name is that of a language model: one with a slash, and of no file of agents.

    >>> is_model("vllm/openai/gpt-oss-20b"), is_model("agents/mine.py:agent")
    (True, False)
    """
    before_file = name.partition(".py:")[0] if ".py:" in name else ""
    return "/" in name and not before_file and name.partition(":")[0] not in ("sb3", "policy")


def is_path(name: str) -> bool:
    """Whether a name begins as paths do: "", ".", ".." or "~" before the first slash."""
    return name.partition("/")[0] in ("", ".", "..", "~")


def check_folder(name: str) -> None:
    """Refuse hf/PATH or goalmeter-local/PATH if no such folder exists, before anything loads.

    What may be a model of the Hugging Face Hub (NAME or ORGANISATION/NAME) is left to transformers.
    """
    provider, _, folder = name.partition("/")
    may_be_on_hub = f"{provider}/" == HUGGING_FACE and folder.count("/") < 2 and not is_path(folder)
    local = f"{provider}/" in (LOCAL, HUGGING_FACE) and not may_be_on_hub
    if local and not Path(folder).is_dir():
        raise InvalidFileError(f"there is no folder {folder!r} (model {name!r}); check the path")


def is_organism(agent: str) -> bool:
    """Whether a name is that of a small model that comes with the package: "goalmeter/mouse"."""
    return agent.startswith(OURS) and agent.removeprefix(OURS) in organism_names()


def model_agent(name: str) -> NamedAgent:
    """The language model of a name.

    Whether a provider of that name exists, and serves such a model, is said by Inspect when the
    model is first asked.
    """
    about = "a language model, as Inspect spells it"
    if name.startswith(OURS) and not is_organism(name):
        agent = prompted_agent(name.removeprefix(OURS))
        name, about = OURS + agent.name, f"{agent.name}, which reads the grid in a prompt"
    makers: Makers = {Ability.TEXT: lambda: name}
    if is_organism(name):
        about = f"a small language model that {organism(name.removeprefix(OURS)).purpose}"
    if is_organism(name) or name.startswith((LOCAL, HUGGING_FACE)):
        makers = {**makers, Ability.HIDDEN: lambda: _local_model(name)}
    return NamedAgent(name, about, makers)


def organism_agents() -> dict[str, str]:
    """The names of all organisms, with a line about each."""
    return {f"{OURS}{name}": model_agent(f"{OURS}{name}").about for name in organism_names()}


def prompted_agent(name: str) -> Memoryless:
    """The reference agent that poses as a language model, by what follows `goalmeter/`."""
    kind = call_of(name).kind
    kinds = [call_of(known).kind for known in navigator_names()]
    if kind not in kinds:
        raise InvalidParameterError(_unknown(name, kind, kinds))
    agent = navigator(name)
    if not isinstance(agent, Memoryless):
        raise InvalidParameterError(
            f"{agent.name} remembers where it went, which a prompt does not show; it walks under "
            f"its own name, {agent.name}, without {OURS}"
        )
    return agent


def _local_model(name: str) -> LocalModel:
    """The network of a model that runs in this process."""
    from goalmeter.agents.language_models.local_model import LocalModel
    from goalmeter.organisms.shipped import weights_of

    if is_organism(name):
        return LocalModel(weights_of(name.removeprefix(OURS)))
    folder = name.partition("/")[2]
    if not Path(folder).is_dir():
        raise InvalidParameterError(
            f"there is no folder {folder}; hidden states are read from a model on this machine, "
            f"named {LOCAL}FOLDER or {HUGGING_FACE}FOLDER"
        )
    return LocalModel(folder)


def _unknown(name: str, kind: str, kinds: list[str]) -> str:
    """What to say of a name that is neither an organism's nor a reference agent's."""
    meant = nearest(kind, [*organism_names(), *kinds])
    if meant is None:
        unknown, hint = "neither an organism nor a reference agent", ""
    else:
        unknown = "no organism" if meant in organism_names() else "no reference agent"
        hint = f" did you mean {OURS}{meant}?"
    agents = [known for known in navigator_names() if known != WallFollower.name]
    return (
        f"there is {unknown} {name!r};{hint} {OURS} is followed by an organism "
        f"({', '.join(organism_names())}) or by a reference agent ({', '.join(agents)})"
    )
