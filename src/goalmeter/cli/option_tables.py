"""Options of a command that are made of a table, not written out; and its help, in groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from goalmeter.commands.suite_options import SpelledOption

Command = Callable[..., None]


def with_options(**tables: Mapping[str, SpelledOption]) -> Callable[[Command], Command]:
    """A command with a parameter for each option of some tables, in place of its **options.

    Args:
        tables: name of a parameter -> the options that the help lists behind it.
    """

    def with_parameters(command: Command) -> Command:
        # Typer makes the options of a command of its signature, so that is what is changed.
        signature = inspect.signature(command, eval_str=True)
        parameters = []
        for parameter in signature.parameters.values():
            if parameter.kind is not parameter.VAR_KEYWORD:
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            table = tables.get(parameter.name, {})
            parameters += [_parameter(name, option) for name, option in table.items()]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=parameters
        )
        return command

    return with_parameters


def _parameter(name: str, option: SpelledOption) -> inspect.Parameter:
    is_flag = option.kind is bool and "/" not in option.flag
    typed: Any = typer.Option(
        option.flag,
        help=option.help,
        metavar=option.metavar,
        min=option.least,
        max=option.most,
        rich_help_panel=option.group,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if is_flag else None,
        annotation=Annotated[bool if is_flag else option.kind | None, typed],
    )


class GroupedCommand(TyperCommand):
    """A command whose options are listed under their `rich_help_panel`, where they have one.

    Typer lists them so itself only where it draws boxes around them.
    """

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options without a group, and each group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None:
                plain = "Arguments" if param.param_type_name == "argument" else "Options"
                group = getattr(param, "rich_help_panel", None) or plain
                groups.setdefault(group, []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)
