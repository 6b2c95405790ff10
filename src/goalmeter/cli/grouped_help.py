"""Help of a command with many options, in groups."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


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
