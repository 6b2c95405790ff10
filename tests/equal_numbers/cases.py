"""The commands whose numbers must not change, read from cases.txt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_name("cases.txt")
AS_TEXT = ("text", "bad")  # groups of commands whose output is not asked for as JSON


class Case(NamedTuple):
    """One row of the table; filters look for words in its name, and for its group."""

    name: str
    group: str
    # Run in this order in one folder: words after `goalmeter`, or `python` and a program's name.
    commands: tuple[tuple[str, ...], ...]
    keeps: tuple[str, ...]  # files that the commands write, which are compared as well


def cases() -> Iterator[Case]:
    """Every case, in the order of the file."""
    group, words = "", dict[str, str]()
    for line in _FILE.read_text(encoding="utf-8").replace("\\\n", " ").splitlines():
        text = re.sub(r"\$\w+", lambda name: words.get(name[0], name[0]), line)
        if not text or text.startswith("#"):
            continue
        if text.startswith("["):
            group = text.strip("[]")
        elif setting := re.fullmatch(r"(\$\w+) = (.*)", text):
            words[setting[1]] = setting[2]
        elif group == "bad":
            yield Case(f"bad: {text}", group, (tuple(text.split()),), ())
        else:
            name, _, line_of_commands = text.partition(": ")
            commands, _, keeps = line_of_commands.partition("->")
            asked = tuple(_words(command, group) for command in commands.split(";"))
            yield Case(name, group, asked, tuple(keeps.split()))


def _words(command: str, group: str) -> tuple[str, ...]:
    words = tuple(command.split())
    return words if group in AS_TEXT or words[0] == "python" else (*words, "--json")
