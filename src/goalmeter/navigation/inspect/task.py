"""The suites as Inspect tasks: `inspect eval goalmeter/maze --model ...`.

Only Inspect loads this file, by its entry point. Options are given as `-T name=value`; those that a
suite has are those of `goalmeter.navigation.suite`. Inspect's own options go before what is set
here, such as `--temperature`, `--max-tokens`, `--max-connections`, `--time-limit`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from typing import Any, cast

from goalmeter._errors import InvalidParameterError, MissingExtraError, how_to_install

try:
    import inspect_ai  # noqa: F401
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "Tasks for language models need the package 'inspect_ai', which is not installed; "
        f"{how_to_install('lm')}"
    ) from error
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig

# Their names, goalmeter/... and goalmeter-local/..., come with the tasks.
from goalmeter.agents.language_models import providers as providers
from goalmeter.navigation.asking.settings import LOGPROBS, Asking, conditions, default_prompts
from goalmeter.navigation.inspect.samples import samples
from goalmeter.navigation.inspect.scorer import walked
from goalmeter.navigation.inspect.solver import walker
from goalmeter.navigation.suites.options import SuiteOptions, several_as
from goalmeter.navigation.suites.registry import SUITES, suite_named, suite_names
from goalmeter.navigation.suites.tasks import TaskSet, tasks_of

# Errors of the server are retried so often; a question has so many seconds each time.
MAX_RETRIES, ATTEMPT_TIMEOUT = 5, 600


def navigation(
    name: str,
    *,
    prompt: str | list[str] | None = None,
    history: int = 0,
    attempts: int = Asking.attempts,
    token_cap: int | None = Asking.token_cap,
    seed: int = 0,
    seeded: bool = Asking.seeded,
    once: bool | None = None,
    out: str | None = None,
    **options: Any,
) -> Task:
    """A suite as a task.

    Args:
        name: of the suite.
        prompt: template, or several, each of which is a condition; by default "keys/1" in worlds
            with a key and "plain/1" in others.
        history: how many past steps the prompt shows.
        attempts: how often a step is asked for until the answer can be read.
        token_cap: output tokens of a whole walk.
        seed: of the grids, and of the questions.
        seeded: whether questions carry a seed; False for servers that do not take one.
        once: whether a prompt that was answered is not asked again; by default at temperature 0.
        out: a file to which every trajectory is appended as it ends.
        options: of the suite, as in `SuiteOptions`.

    Raises:
        InvalidParameterError: an option is unknown or out of range.
    """
    record = suite_named(name)
    set_in = conditions(_listed(prompt or default_prompts(record)), history)
    made = tasks_of(record, SuiteOptions(seed=seed, **_suite_options(options)), set_in)
    asking = Asking(attempts=attempts, token_cap=token_cap, seeded=seeded)
    return task_of(made, asking, seed=seed, once=once, out=out)


def task_of(
    made: TaskSet,
    asking: Asking,
    *,
    only: Collection[str] | None = None,
    seed: int = 0,
    once: bool | None = None,
    out: str | None = None,
) -> Task:
    """The walks of a suite as a task; options as in `navigation`.

    Prompts are among the conditions of the tasks in `made`. `only` are the keys of the walks that
    are wanted, if not all of them are.
    """
    listed = [Sample(**fields) for fields in samples(made, only)]
    return Task(
        name=f"goalmeter/{made.name}",
        dataset=MemoryDataset(listed, name=made.name),
        solver=walker(asking.attempts, asking.token_cap, seed if asking.seeded else None, once),
        scorer=walked(out),
        config=GenerateConfig(
            temperature=asking.temperature,
            top_p=asking.top_p,
            max_tokens=asking.max_tokens,
            reasoning_effort=cast(Any, asking.reasoning_effort),  # it is one of EFFORTS
            logprobs=asking.logprobs or None,
            top_logprobs=LOGPROBS if asking.logprobs else None,
            max_retries=MAX_RETRIES,
            attempt_timeout=ATTEMPT_TIMEOUT,
        ),
        # All walks are made and scored, whatever happens to some; a run in which some failed is one
        # that can be continued, and then makes those again.
        fail_on_error=True,
        score_on_error=True,
    )


# Of the run, and a parameter of its own.
_SUITE_OPTIONS = frozenset(field.name for field in fields(SuiteOptions)) - {"seed"}


def _suite_options(options: dict[str, Any]) -> dict[str, Any]:
    """Options as the suite takes them: from a shell, lists come as words and single values bare."""
    if unknown := sorted(options.keys() - _SUITE_OPTIONS):
        raise InvalidParameterError(
            f"there is no option {unknown[0]!r}; a suite has {', '.join(sorted(_SUITE_OPTIONS))}"
        )
    out = dict(options)
    for name, value in options.items():
        kind = several_as(name)
        if kind is None or value is None:
            continue
        try:
            out[name] = [kind(each) for each in _listed(value)]
        except (TypeError, ValueError) as cause:
            raise InvalidParameterError(f"{name} is {value!r}: {cause}") from cause
    return out


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def _task_of(name: str) -> Callable[..., Task]:
    def suite_task(**options: Any) -> Task:
        return navigation(name, **options)

    # The packages of others are imported only when their suite is asked for.
    suite_task.__doc__ = suite_named(name).about if name in SUITES else f"The suite {name}."
    return task(name=name)(suite_task)


TASKS = {name: _task_of(name) for name in suite_names()}
