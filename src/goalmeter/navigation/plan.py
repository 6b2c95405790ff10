"""Plan a run: its trajectories as plain data, their Inspect samples, and a cost estimate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from goalmeter._errors import (
    MOST_SEED,
    GoalmeterError,
    InvalidFileError,
    InvalidTrajectoryError,
    json_text,
)
from goalmeter.agents.grid_agents import Decision
from goalmeter.agents.local_models import HUGGING_FACE, LOCAL, is_organism
from goalmeter.gridworld.generators import MOST_SIZE
from goalmeter.gridworld.planner import State
from goalmeter.navigation.prompts import (
    HISTORY,
    PROMPT,
    Asking,
    conditions,
    default_prompts,
    template,
)
from goalmeter.navigation.suite_definition import (
    MOST_FACTOR,
    MOST_STEPS,
    MOST_WALKS,
    MOST_WORLDS,
    Suite,
    SuiteOptions,
)
from goalmeter.navigation.suites import suite_named, suite_names
from goalmeter.navigation.trajectories import Episode, Task, TaskSet, Trajectory, tasks_of, walk_key
from goalmeter.runs.forecast import Forecast, Span, left_of
from goalmeter.runs.reading import (
    RUN,
    Field,
    another_kind,
    check_record,
    is_number,
    is_whole,
    listed,
    text,
    whole,
    word,
)

# --- Plan -----------------------------------------------------------------------------------------
KIND = "navigation"
# What of a run may be asked for in greater number later: the walks that are there still count.
GROWS = ("sizes", "complexities", "grids", "trajectories", "objects", "prompts")


@dataclass(frozen=True)
class WalkPlan:
    """An agent and the walks that it is to take.

    Attributes:
        agent: its name.
        tasks: the worlds, and how often each is walked through.
        asking: how a language model is asked; None for a reference agent. Its prompts, and how many
            past steps they show, are conditions of the tasks.
    """

    agent: str
    tasks: TaskSet
    asking: Asking | None = None

    @property
    def suite(self) -> Suite:
        """The suite of the tasks."""
        return self.tasks.suite

    @property
    def options(self) -> SuiteOptions:
        """What the tasks were made of, resolved."""
        return self.tasks.options

    @property
    def what(self) -> dict[str, Any]:
        """What tells this run from others, as JSON values; numbers are lists, which may grow."""
        labels = {"kind": KIND, "agent": self.agent, "suite": self.suite.name}
        return labels | self.options.to_json() | self._asked

    @property
    def _asked(self) -> dict[str, Any]:
        """What tells runs of a language model apart; a reference agent has nothing of it."""
        if self.asking is None:
            return {}
        shown = [task.condition for task in self.tasks.tasks]
        return {
            "prompts": list(dict.fromkeys(condition[PROMPT] for condition in shown)),
            "history": shown[0].get(HISTORY, 0),
            **self.asking.to_json(),
        }

    @property
    def worlds(self) -> dict[str, Any]:
        """What tells the worlds of this run from others, whoever walks and is asked how."""
        asked = self.asking.to_json() if self.asking is not None else {}
        return {name: v for name, v in self.what.items() if name != "agent" and name not in asked}

    def keys(self) -> dict[str, tuple[Task, int]]:
        """What each walk is kept under, in the order of the suite."""
        return {walk_key(task, index): (task, index) for task, index in self.tasks.walks()}


def plan_of(
    agent: str,
    name: str,
    *,
    prompts: Sequence[str] | None = None,
    history: int = 0,
    asking: Asking | None = None,
    **options: Any,
) -> WalkPlan:
    """The plan of an agent in a suite.

    Args:
        agent: its name.
        name: of the suite.
        prompts: templates that a language model is asked in; None for the suite's own.
        history: how many past steps the prompts show.
        asking: how a language model is asked; None for a reference agent.
        options: as in `SuiteOptions`. `held_out` is None for what suits the agent: organisms walk
            in grids that none of their recipes teaches, every other agent in all grids.
    """
    suite = suite_named(name)
    # An organism would otherwise be measured on grids that it was taught.
    if options.get("held_out") is None:
        options["held_out"] = is_organism(agent)
    shown: Sequence[Mapping[str, Any]] = ({},)
    if asking is not None:
        shown = conditions(prompts or default_prompts(suite, agent), history)
    return WalkPlan(agent, tasks_of(suite, SuiteOptions(**options), shown), asking)


def plan_from(what: Mapping[str, Any], folder: str | Path) -> WalkPlan:
    """The plan of a run on disk; raises InvalidFileError if its run.json was edited."""
    check_what(what, folder)
    try:
        return plan_of(
            str(what["agent"]),
            what["suite"],
            prompts=what.get("prompts"),
            history=what.get("history", 0),
            asking=Asking.from_json(what) if "prompts" in what else None,
            **vars(SuiteOptions.from_json(what)),
        )
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidFileError(
            f"{folder}: run.json does not say what the run is ({type(cause).__name__}: {cause}); "
            f"restore it, or begin again in another folder"
        ) from cause


# --- What run.json says, checked field by field when it is read -----------------------------------
_MOST_NAMES = 100  # of transforms, objects, templates, strata


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _are_strata(value: Any) -> bool:
    def are_bounds(ends: Any) -> bool:
        whole_ends = isinstance(ends, list) and all(is_whole(end, 0, MOST_STEPS) for end in ends)
        return whole_ends and len(ends) == 2

    return isinstance(value, list) and len(value) <= _MOST_NAMES and all(map(are_bounds, value))


_STRATA = Field("a list of pairs of whole numbers, the least and the greatest", _are_strata)


_RUN = {
    "kind": word(KIND),
    "agent": text(empty=False),
    "suite": text(empty=False),
    "sizes": listed("sizes of grids", lambda n: is_whole(n, 1, MOST_SIZE), least=1, most=MOST_SIZE),
    "complexities": listed(
        "numbers from 0 to 1", lambda c: is_number(c, 1.0) and c >= 0, most=MOST_WORLDS
    ),
    "grids": listed("numbers of grids", lambda n: is_whole(n, 0, MOST_WORLDS), most=MOST_WORLDS),
    "trajectories": listed(
        "numbers of walks", lambda n: is_whole(n, 0, MOST_WALKS), most=MOST_WALKS
    ),
    "transforms": listed("names", _is_text, most=_MOST_NAMES),
    # Runs of before there was a choice have none.
    "objects": listed("names", _is_text, most=_MOST_NAMES, required=False),
    "distances": _STRATA,
    "detours": _STRATA,
    "cap": whole(1, MOST_STEPS, or_null=True),
    "cap_factor": Field(
        f"a number from 1 to {MOST_FACTOR:g} or null",
        lambda v: v is None or (is_number(v, MOST_FACTOR) and v >= 1),
    ),
    # Only where it is so.
    "held_out": Field("true or false", lambda v: isinstance(v, bool), required=False),
    "seed": whole(0, MOST_SEED),
    # Of language models only. How they are asked besides is checked by `Asking`.
    "prompts": listed("names of templates", _is_text, least=1, most=_MOST_NAMES, required=False),
    "history": whole(0, MOST_STEPS, required=False),
    "options": Field("an object", lambda v: isinstance(v, dict), required=False),
}


def check_what(what: Mapping[str, Any], folder: str | Path) -> None:
    """Raises InvalidFileError unless this describes a navigation run."""
    if what.get("kind") != KIND:
        raise another_kind(folder, what.get("kind"), KIND)
    # Suites of other packages may be registered at any time.
    fields = _RUN | {"suite": word(*suite_names())}
    check_record(what, fields, f"{Path(folder) / RUN}", others=True)


# --- Samples --------------------------------------------------------------------------------------
_KEY, _ROUND = "walk", "walks"
_NOT_BEGUN = "not begun"


class Walk(NamedTuple):
    """A task and which of the walks through it."""

    task: Task
    number: int

    @property
    def name(self) -> str:
        """What tells it from every other walk; the same in every run."""
        return walk_key(self.task, self.number)


def samples(tasks: TaskSet, only: Collection[str] | None = None) -> list[dict[str, Any]]:
    """The walks of a suite, as fields of Inspect's samples: id, input (the first prompt), metadata.

    `only` are the names of those that are wanted, in the order in which they are to begin, if not
    all of them are. "grid" in the metadata is
    what errors are clustered by, "walks" how many there are of each task.
    """
    out = []
    walks = {(walk := Walk(task, index)).name: walk for task, index in tasks.walks()}
    for walk in walks.values() if only is None else map(walks.__getitem__, only):
        world = walk.task.world
        asked = template(walk.task.condition[PROMPT]).prompt(world, State(world.start))
        grid = f"size {walk.task.size}, complexity {walk.task.complexity}, seed {walk.task.seed}"
        # An episode that was not begun is all that there is to know of a walk beforehand.
        plan = Episode(walk.task).trajectory(walk.number, _NOT_BEGUN).to_json()
        del plan["outcome"], plan["steps"]
        metadata = {"grid": grid, _ROUND: tasks.trajectories, _KEY: plan}
        out.append({"id": walk.name, "input": asked, "metadata": metadata})
    return out


def walk_of(metadata: Mapping[str, Any], epoch: int = 1) -> Walk:
    """The walk that a sample describes.

    Epochs count from 1; each is another round of the same walks. Raises InvalidTrajectoryError if
    the sample is not one of `samples`.
    """
    try:
        labels, walks = dict(metadata[_KEY]), int(metadata[_ROUND])
    except (KeyError, TypeError, ValueError) as cause:
        raise InvalidTrajectoryError(
            "a sample has no walk in its metadata; it is not one of goalmeter's tasks"
        ) from cause
    try:
        read = Trajectory.from_json(labels | {"outcome": _NOT_BEGUN, "steps": []})
    except GoalmeterError as cause:
        raise InvalidTrajectoryError(f"the walk in a sample's metadata: {cause}") from cause
    made = made_of(read)
    return Walk(made.task, made.number + (epoch - 1) * walks)


def made_of(read: Trajectory) -> Walk:
    """The task and the number of the walk that a trajectory records."""
    task = Task(**{label.name: getattr(read, label.name) for label in fields(Task)})
    return Walk(task, read.trajectory)


# --- Forecast -------------------------------------------------------------------------------------
# calls             a walk takes at least its shortest path, and at most its cap; one call a step,
#                       at temperature 0 at least one for each step of a shortest path
#         prompt tokens     calls of a walk * tokens of its first prompt, counted by the model's
#     tokenizer
#                       where it is on this machine, and else as characters / 3
#     output tokens     calls * tokens of an answer, as stated
#     output cap        walks * cap * attempts * max-tokens, or walks * token-cap if that is less
#     hours             calls * seconds of a call, as stated / questions at once / 3600
#     disk              of an example record without prompts and answers, and calls * their bytes;
#                       for models of this machine 5 bytes more a token, whose ids are recorded
#     money             tokens * price
#
# A text of grids has some three characters a token in the tokenizers of today, where prose has four
# to five; prompts are both.

CHARACTERS_A_TOKEN = 3
# Tokens of an answer, by reasoning effort; the answer itself is {"action": "RIGHT"}.
_ANSWER = 10
# Of an organism's answer: the mouse has 37 on average on mazes of size 7, search included, and more
# on larger ones.
_ORGANISM = 40
# Of the id of a token with what separates it from the next; models of this machine record them.
_ID_BYTES = 5
_REASONING = {"minimal": 100, "low": 200, "medium": 1000, "high": 4000, "xhigh": 8000, "max": 8000}


def forecast(
    plan: WalkPlan,
    *,
    out: str | Path | None = None,
    connections: int = 10,
    answer_tokens: int | None = None,
    call_seconds: float | None = None,
    price_in: float | None = None,
    price_out: float | None = None,
) -> Forecast:
    """What is left of a plan's walks, and what they will cost.

    Args:
        plan: of a language model.
        out: folder that may hold some of the walks.
        connections: questions at once.
        answer_tokens: of an answer with its reasoning; None for what the effort suggests.
        call_seconds: of a question; None leaves the hours unknown.
        price_in: US dollars for a million prompt tokens; None leaves the money unknown.
        price_out: US dollars for a million output tokens; None leaves it unknown too.
    """
    asking = plan.asking
    assert asking is not None
    walks = plan.keys()
    left = left_of(walks, out)
    count, how = _tokenizer(plan.agent)
    of_task = Counter(id(walks[key][0]) for key in left)
    steps = prompts = texts = Span(0, 0)
    caps = 0
    for task in plan.tasks.tasks:
        if not (times := of_task[id(task)]):
            continue
        caps += times * task.cap
        # At temperature 0 what was asked once is not asked again, so walks may share all calls.
        different = 1 if asking.temperature == 0 else times
        of_task_steps = Span(different * task.distance, times * task.cap)
        prompt = template(task.condition[PROMPT]).prompt(task.world, Episode(task).state)
        steps = steps + of_task_steps
        prompts = prompts + of_task_steps * count(prompt)
        texts = texts + of_task_steps * len(json_text(prompt).encode())
    effort = asking.reasoning_effort
    usual = _ORGANISM if is_organism(plan.agent) else _ANSWER + _REASONING.get(effort or "", 0)
    answer = answer_tokens or usual
    is_usual = answer_tokens is None and is_organism(plan.agent)
    outputs = steps * answer
    output_cap = caps * asking.attempts * asking.max_tokens
    if asking.token_cap is not None:
        output_cap = min(output_cap, len(left) * asking.token_cap)
    walk, step = _record_bytes(walks[left[0]][0]) if left else (0, 0)
    # A recorded step has its prompt and its answer as text, besides what every step has.
    disk = texts + steps * (step + answer * CHARACTERS_A_TOKEN)
    if _records_ids(plan.agent):
        disk = disk + (prompts + outputs) * _ID_BYTES
    disk = disk + Span.of(len(left) * walk)
    usd = None
    if price_in is not None and price_out is not None:
        usd = prompts * (price_in / 1e6) + outputs * (price_out / 1e6)
    return Forecast(
        name=plan.agent,
        noun="walk",
        trials=len(walks),
        kept=len(walks) - len(left),
        left=len(left),
        slots=connections,
        hours=None if call_seconds is None else steps * (call_seconds / connections / 3600),
        disk=disk,
        calls=steps,
        prompt_tokens=prompts,
        output_tokens=outputs,
        output_cap=output_cap,
        usd=usd,
        assumed=(
            "the lower numbers are for walks by the shortest path, the upper ones for walks to "
            "their caps, with one call a step; an answer that cannot be read is asked for again",
            f"prompt tokens are {how}, of the first prompt of each walk",
            f"an answer has {answer} tokens"
            + (f" at effort {effort}" if effort else "")
            + (", as on mazes of size 7, and more on larger ones" if is_usual else ""),
            "hours are not known: --call-seconds says what a call takes"
            if call_seconds is None
            else f"a call takes {call_seconds:g} s, and {connections} are made at once",
            "disk is that of the walks; Inspect's own logs come besides",
        ),
    )


def _records_ids(model: str) -> bool:
    """Whether the ids of tokens are recorded, so that activations can be made again."""
    return is_organism(model) or model.startswith((LOCAL, HUGGING_FACE))


def _record_bytes(task: Task) -> tuple[int, int]:
    """Bytes of a recorded walk and of each of its steps without their texts, on an example."""
    episode = Episode(task)
    episode.take(Decision(0, raw="", prompt="", prompt_tokens=1000, attempts=1))
    record = episode.trajectory(0, failure="example").to_json()
    step = len(json_text(record["steps"][0]))
    return len(json_text(record)) - step, step


def _tokenizer(model: str) -> tuple[Callable[[str], float], str]:
    """What counts the tokens of a text, and how that is done in words."""
    # Any library may be missing, and any model be elsewhere: then there is the rule.
    with suppress(Exception):
        from transformers import AutoTokenizer

        if is_organism(model):
            from goalmeter.organisms.kinds import weights_of

            place = str(weights_of(model.partition("/")[2]))
        else:
            provider, _, place = model.partition("/")
            if provider != "hf":
                raise LookupError(provider)
        tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
        return lambda text: len(tokenizer(text)["input_ids"]), "counted by the model's tokenizer"
    rule = f"characters / {CHARACTERS_A_TOKEN}"
    return lambda text: len(text) / CHARACTERS_A_TOKEN, f"{rule} (no tokenizer is on this machine)"
