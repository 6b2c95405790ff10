"""The options of a suite as parameters of a command: made of their table, not written out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from goalmeter.commands.suite_options import SUITE_OPTIONS, SpelledOption


def with_suite_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a parameter for each option of a suite, in place of its **options.

    Typer makes the options of a command of its signature, so that is what is changed.
    """
    signature = inspect.signature(command, eval_str=True)
    parameters = []
    for parameter in signature.parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
        if parameter.name == "suite":  # the help lists them after the suite
            parameters += [_parameter(name, each) for name, each in SUITE_OPTIONS.items()]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return command


def _parameter(name: str, option: SpelledOption) -> inspect.Parameter:
    settings: dict[str, Any] = {"help": option.help}
    if option.metavar is not None:
        settings["metavar"] = option.metavar
    if option.least is not None:
        settings["min"] = option.least
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.kind is bool else None,
        annotation=Annotated[option.kind, typer.Option(option.flag, **settings)],
    )
