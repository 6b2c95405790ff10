"""Suites as Inspect tasks: `inspect eval goalmeter/maze --model ... -T sizes=7,9`.

Inspect loads this module by its entry point. Inspect's options, such as `--temperature`,
`--max-tokens` and `--time-limit`, override the settings made here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any, cast

import anyio
from inspect_ai import Task, task
from inspect_ai import model as lm
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model._generate_config import active_generate_config
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver

import goalmeter.navigation.prompts as prompts
from goalmeter._errors import GoalmeterError, InvalidParameterError

# Its import registers the model names goalmeter/... and goalmeter-local/...
from goalmeter.agents import inspect_providers
from goalmeter.agents.grid_agents import Decision
from goalmeter.gridworld.world import ACTIONS
from goalmeter.navigation.inspect import models
from goalmeter.navigation.inspect.eval_log import TRAJECTORY, append
from goalmeter.navigation.plan import described, walk_of
from goalmeter.navigation.suite_definition import SEVERAL, SuiteOptions
from goalmeter.navigation.suites import SUITES, suite_named, suite_names
from goalmeter.navigation.trajectories import Episode, TaskSet, Trajectory, tasks_of

# Ended walks that are not scored yet, by the uuid of their sample. Inspect's own store would log
# each walk three times.
ended: dict[str, Trajectory] = {}

Ask = Callable[[str, int | None], Awaitable[lm.ModelOutput]]


@solver
def walker(
    attempts: int = 3, token_cap: int | None = None, seed: int | None = 0, once: bool | None = None
) -> Solver:
    """Walk through the task of a sample; `seed` is the run's seed, None to send no seeds."""
    answers: dict[str, lm.ModelOutput] = {}
    locks: dict[str, anyio.Lock] = {}

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        walk = walk_of(state.metadata, state.epoch)
        model, episode = inspect_providers.fit(lm.get_model()), Episode(*walk)
        # Options of Inspect's command line are included, since Inspect merges them into calls.
        temperature = model.config.merge(active_generate_config()).temperature
        repeats = temperature == 0 if once is None else once

        async def ask(prompt: str, query_seed: int | None) -> lm.ModelOutput:
            message, config = lm.ChatMessageUser(content=prompt), lm.GenerateConfig(seed=query_seed)
            if not repeats:
                return await model.generate([message], config=config)
            async with locks.setdefault(prompt, anyio.Lock()):
                if prompt not in answers:
                    answers[prompt] = await model.generate([message], config=config)
                return answers[prompt]

        spent, failure = 0, None
        try:
            models.listener.get().begins(walk.name)
            while not episode.over and failure is None:
                models.listener.get().step()
                words = (seed, walk.task.name, walk.number, len(episode.steps))
                tries = range(1 if repeats else attempts)
                seeds = [None if seed is None else _seed(*words, n) for n in tries]
                prompt = _prompt(episode)
                output, decision, used = await _decide(ask, prompt, seeds)
                spent += used
                state.messages = [lm.ChatMessageUser(content=prompt), output.message]
                state.output = output
                if decision.action is None and output.stop_reason == "model_length":
                    failure = models.CONTEXT
                    break
                episode.take(decision)
                if token_cap is not None and spent >= token_cap and not episode.over:
                    failure = models.TOKEN_CAP
            ended[state.uuid] = episode.trajectory(walk.number, failure)
        except anyio.get_cancelled_exc_class():
            ended[state.uuid] = episode.trajectory(walk.number, models.TIME_LIMIT)
            raise
        # Any error becomes the outcome, and is raised so that Inspect can repeat the sample.
        except Exception as error:
            models.listener.get().failed(error)
            ended[state.uuid] = episode.trajectory(walk.number, models.failure_of(error))
            if isinstance(error, TimeoutError):
                # Inspect interprets a bare TimeoutError as the end of a time limit.
                raise RuntimeError(f"the query timed out: {error}") from error
            raise
        state.completed = True
        return state

    return solve


def _prompt(episode: Episode) -> str:
    condition, steps = episode.task.condition, episode.steps
    recent = steps[max(0, len(steps) - condition.get(prompts.HISTORY, 0)) :]
    history = [(step.state.cell, step.action) for step in recent]
    template = prompts.template(condition[prompts.PROMPT])
    return template.prompt(episode.task.world, episode.state, history)


STOP_PREFIXES = {"max_tokens": f"{models.TOKEN_CAP}: ", "content_filter": "withheld: "}


async def _decide(
    ask: Ask, prompt: str, seeds: list[int | None]
) -> tuple[lm.ModelOutput, Decision, int]:
    """Query the model for a step; return output, decision and number of output tokens."""
    spent = 0
    for attempt, seed in enumerate(seeds, start=1):  # noqa: B007 (the last one is read below)
        output = await ask(prompt, seed)
        spent += output.usage.output_tokens if output.usage else 0
        # Reasoning that the server returned separately.
        content = output.message.content
        parts = [] if isinstance(content, str) else content
        reasoning = [part.reasoning for part in parts if isinstance(part, lm.ContentReasoning)]
        answer = prompts.understood(output.completion, "\n".join(reasoning))
        # Repeating a prompt that is too long does not help.
        if answer.action is not None or output.stop_reason == "model_length":
            break
    metadata, logprobs = output.metadata or {}, output.choices[0].logprobs
    ids, answer_ids = metadata.get("prompt_ids"), metadata.get("output_ids")
    count = models.input_tokens(output.usage) if output.usage else None
    reason = STOP_PREFIXES.get(output.stop_reason, "") + answer.invalid
    decision = Decision(
        answer.action,
        probabilities=prompts.action_probabilities(logprobs.content) if logprobs else None,
        raw=prompts.storable(output.completion),
        reasoning=prompts.storable(answer.reasoning) or None,
        prompt=prompt,
        prompt_tokens=count if ids is None else tuple(ids),
        answer_tokens=None if answer_ids is None else tuple(answer_ids),
        attempts=attempt,
        invalid=reason if answer.action is None else None,
    )
    return output, decision, spent


def _seed(*words: object) -> int:
    text = ":".join(map(str, words))
    # Every server accepts seeds of 31 bits.
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


_MEASURES = {name: [mean(), stderr(cluster="grid")] for name in ("success", "accuracy", "invalid")}


@scorer(metrics=_MEASURES)
def walked(out: str | None = None) -> Scorer:
    """Score success, accuracy and invalid answers (NaN without steps), with the trajectory."""
    if out is not None and not Path(out).parent.is_dir():
        raise InvalidParameterError(f"out: {Path(out).parent} is not a directory; create it")

    async def score(state: TaskState, target: Target) -> Score:
        trajectory = ended.pop(state.uuid, None)
        if trajectory is None:
            raise GoalmeterError(
                "there is no walk to score; walks are scored when they end, and logs are read by "
                "goalmeter.navigation.inspect.eval_log.trajectories"
            )
        models.listener.get().ended(trajectory)
        record = trajectory.to_json()
        if out is not None:
            append(out, record)
        steps, count = trajectory.steps, len(trajectory.steps) or float("nan")
        return Score(
            value={
                "success": float(trajectory.arrived),
                "accuracy": sum(step.is_optimal for step in steps) / count,
                "invalid": sum(step.action is None for step in steps) / count,
            },
            answer=trajectory.outcome,
            explanation=(
                f"{trajectory.outcome} after {len(steps)} steps (shortest {trajectory.distance}): "
                + " ".join("-" if step.action is None else ACTIONS[step.action] for step in steps)
            ),
            metadata={TRAJECTORY: record},
        )

    return score


_SUITE_OPTIONS = sorted(field.name for field in fields(SuiteOptions))
_ASKING = ("attempts", "token_cap", "seeded")


def navigation(
    name: str,
    *,
    prompt: str | list[str] | None = None,
    history: int = 0,
    once: bool | None = None,
    out: str | None = None,
    **options: Any,
) -> Task:
    """Return a suite as a task; `options` are those of the suite and some of `Asking`."""
    record = suite_named(name)
    asking = prompts.Asking(**{each: options.pop(each) for each in _ASKING if each in options})
    if unknown := sorted(set(options).difference(_SUITE_OPTIONS)):
        raise InvalidParameterError(
            f"there is no option {unknown[0]!r}, expected one of {', '.join(_SUITE_OPTIONS)}"
        )
    # Values from the command line are text, or single values instead of lists.
    for each in SEVERAL.keys() & options.keys():
        try:
            if options[each] is not None:
                options[each] = [SEVERAL[each](value) for value in _as_list(options[each])]
        except (TypeError, ValueError) as cause:
            raise InvalidParameterError(f"{each} is {options[each]!r}: {cause}") from cause
    names = _as_list(prompt or prompts.default_prompts(record))
    tasks = tasks_of(record, SuiteOptions(**options), prompts.conditions(names, history))
    return task_of(tasks, asking, once=once, out=out)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def task_of(
    made: TaskSet,
    asking: prompts.Asking,
    *,
    only: Collection[str] | None = None,
    once: bool | None = None,
    out: str | None = None,
) -> Task:
    """Return the walks of a suite as a task."""
    walks, samples = {walk.name: walk for walk in made.walks()}, []
    seed = made.options.seed if asking.seeded else None
    for key in walks if only is None else only:
        each = walks[key].task
        grid = f"size {each.size}, complexity {each.complexity}, seed {each.seed}"
        metadata = {"grid": grid} | described(walks[key], made.trajectories)
        samples.append(Sample(id=key, input=_prompt(Episode(each)), metadata=metadata))
    return Task(
        name=f"goalmeter/{made.suite.name}",
        dataset=MemoryDataset(samples, name=made.suite.name),
        solver=walker(asking.attempts, asking.token_cap, seed, once),
        scorer=walked(out),
        config=lm.GenerateConfig(
            temperature=asking.temperature,
            top_p=asking.top_p,
            max_tokens=asking.max_tokens,
            reasoning_effort=cast(Any, asking.reasoning_effort),  # one of EFFORTS
            logprobs=asking.logprobs or None,
            top_logprobs=prompts.LOGPROBS if asking.logprobs else None,
            max_retries=models.Server.max_retries,
            attempt_timeout=models.Server.timeout,
        ),
        # Failed walks are scored too, and the run counts as failed so that it can be repeated.
        fail_on_error=True,
        score_on_error=True,
    )


def _task_of(name: str) -> Callable[..., Task]:
    def suite_task(**options: Any) -> Task:
        return navigation(name, **options)

    # Plugin packages are imported only when their suite is used.
    suite_task.__doc__ = suite_named(name).about if name in SUITES else f"The suite {name}."
    return task(name=name)(suite_task)


TASKS = {name: _task_of(name) for name in suite_names()}
