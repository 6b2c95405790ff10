"""Pages of the environments, generated from their docstrings, options and worlds."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from docstrings import as_restructured_text, escape
from public_names import write

from goalmeter._gymnasium_ids import IDS
from goalmeter.gridworld import gymnasium_worlds
from goalmeter.navigation import Suite, suite_named, suite_names
from goalmeter.navigation.suite_definition import Scale, SuiteOptions
from goalmeter.reflection.environments import ENVIRONMENTS, Environment


def heading(text: str, mark: str) -> list[str]:
    """Return a heading of reStructuredText."""
    return [text, mark * len(text), ""]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return a table of reStructuredText; its cells are markup."""
    lines = ["", ".. list-table::", "   :header-rows: 1", ""]
    for row in (head, *rows):
        lines += [f"   {'  ' if i else '* '}- {cell}" for i, cell in enumerate(row)]
    return [*lines, ""]


def block(text: str) -> list[str]:
    """Return a block of plain text, such as the drawing of a world."""
    return ["", "::", "", *(f"   {line}" for line in text.splitlines()), ""]


def command(text: str) -> list[str]:
    """Return a command as a block, whose line wraps in a narrow window."""
    return ["", ".. code-block:: console", "", f"   $ {text}", ""]


# --- Self-reflection ------------------------------------------------------------------------------
NOTATION = """.. _reflection-notation:

Notation
--------

A history x_1 y_1 x_2 y_2 ... x_n has percepts x_k = (reward r_k, observation o_k), each but the
last followed by an action y_k; a percept and its action are a turn. A copy "at" a history is a new
instance of the agent that has lived through this history. In an opposite, copies get the negated
rewards. "The authors' library at e38e3dc" is that commit of semitrivial/ExtendedEnvironments, whose
rules gave the published results.

Known returns are totals r_1 + ... + r_n of the following agents; ``seen(o)`` counts the percepts
x_1 ... x_{n-1} with observation o.
"""
AGENTS = {
    "constant k": "always k",
    "alternate": "0, 1, 0, 1, ...",
    "last sign": "1 after a positive reward, else 0",
    "win-stay": "first 0, then the last action after a positive reward, else the next one",
    "echo": "the last observation, modulo the number of actions",
    "opposite, A": "those of A, in the opposite environment",
}


def reflection_page() -> str:
    """Return the list of self-reflection environments."""
    lines = heading("Self-reflection environments", "=")
    lines += [
        "Extended environments can ask what the agent *would* do: they simulate copies of it.",
        f"The battery of the paper is {sum(e.in_battery for e in ENVIRONMENTS.values())}"
        " environments and their opposites, in which all rewards are negated: ``opposite(NAME)``.",
        "",
        "The measure of an agent is its mean reward per step over the battery:",
        *command("goalmeter reflect 'rc(naive)' --steps 100 --seeds 2"),
    ]
    for title, in_battery in (("In the battery", True), ("Outside the battery", False)):
        rows = (
            (f":doc:`{name} <reflection/{name}>`", sentence(escape(e.idea)))
            for name, e in ENVIRONMENTS.items()
            if e.in_battery == in_battery
        )
        lines += [*heading(title, "-"), *table(("Environment", "Task of the agent"), rows)]
    lines += as_restructured_text(NOTATION.splitlines())
    lines += table(("Agent", "Actions"), ((f"``{name}``", text) for name, text in AGENTS.items()))
    lines += [".. toctree::", "   :hidden:", "   :glob:", "", "   reflection/*", ""]
    return "\n".join(lines)


def environment_page(environment: Environment) -> str:
    """Return the specification of one self-reflection environment."""
    lines = [*heading(environment.name, "="), sentence(escape(environment.idea)), ""]
    lines += command(f"goalmeter reflect AGENT --environment {environment.name}")
    lines += ["Symbols and agents are explained in :ref:`reflection-notation`.", ""]
    for title, text in environment.specification.items():
        lines += heading(title, "-")
        if title == "Known returns":
            lines += ["Total reward of n percepts, derived by hand:", ""]
            rows = (row.rpartition(": ") for row in environment.known_returns)
            lines += table(
                ("Agent", "Total reward"), ((f"``{a}``", f"``{t}``") for a, _, t in rows)
            )
        else:
            lines += [*as_restructured_text(sentence(inspect.cleandoc(text)).splitlines()), ""]
    if options := environment.run.options:
        lines += heading("Options", "-")
        name, values = next(iter(options.items()))
        example = f"``{environment.name}({name}={values[-1]})``"
        lines += [f"The first value of each option is the default; {example} sets another.", ""]
        rows = ((f"``{name}``", ", ".join(f"``{v}``" for v in vs)) for name, vs in options.items())
        lines += table(("Option", "Values"), rows)
    return "\n".join(lines)


def sentence(text: str) -> str:
    """Return a text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


# --- Grid worlds ----------------------------------------------------------------------------------
def suites_page() -> str:
    """Return the suites of grid worlds, each with its scales and its first worlds."""
    lines = heading("Suites of grid worlds", "=")
    lines += [
        "A suite is a family of grid worlds that agents are evaluated in. The default scale takes"
        " seconds with reference agents; ``--paper`` selects the scale of the paper.",
        *command("goalmeter navigate AGENT --suite maze --sizes 7,9 --grids 10 --out RUN"),
        "In the drawings ``A`` is the agent, ``G`` the goal, ``#`` a wall, ``_`` a free cell,"
        " ``K`` a key and ``D`` a locked door.",
        "",
    ]
    for name in suite_names():
        lines += suite_section(suite_named(name))
    return "\n".join(lines)


def suite_section(suite: Suite) -> list[str]:
    """Return what is known about one suite."""
    lines = [*heading(suite.name, "-"), sentence(f"{escape(suite.about)}."), ""]
    cells = zip(SCALE, scale_cells(suite.small), scale_cells(suite.paper), strict=True)
    lines += table(("", "Default", "Paper"), (row for row in cells if "–" not in row))
    references = ", ".join(f"``{reference}``" for reference in suite.references)
    lines += [f"Reference agents: {references}.", ""]
    if suite.key:
        lines += [f"The key {suite.key}.", ""]
    options = suite.resolve(SuiteOptions(grids=1, sizes=suite.small.sizes[:1], trajectories=1))
    for task in islice(suite.worlds(options), MOST_DRAWINGS):
        labels = {"size": task.size, "complexity": task.complexity, "frame": task.transform}
        labels |= {"seed": task.seed, **task.condition}
        if "key" in labels:
            labels["key"] = "yes" if labels["key"] else "no"
        text = ", ".join(f"{name} {value}" for name, value in labels.items() if value is not None)
        lines += [f"{sentence(escape(text))}:", *block(str(task.world))]
    return lines


SCALE = ("Sizes", "Complexities", "Grids", "Trajectories")
MOST_DRAWINGS = 3


def scale_cells(scale: Scale) -> list[str]:
    """Return the cells of a scale in the order of `SCALE`."""
    numbers = (scale.sizes, scale.complexities or ("–",))
    many = [", ".join(map(str, values)) for values in numbers]
    return [*many, str(scale.grids), str(scale.trajectories)]


# --- Gymnasium ------------------------------------------------------------------------------------
def gymnasium_page() -> str:
    """Return the ids of goalmeter's Gymnasium environments with their arguments."""
    lines = heading("Gymnasium ids", "=")
    lines += [
        "``import goalmeter`` registers these ids for ``gymnasium.make``. All of them share further"
        " arguments_.",
        "",
    ]
    for name, class_name in IDS.items():
        kind = getattr(gymnasium_worlds, class_name)
        lines += heading(name.removeprefix("goalmeter/"), "-")
        lines += [*as_restructured_text(inspect.getdoc(kind).splitlines()), "", *arguments(kind)]
    lines += ["", ".. _arguments:", "", *heading("Arguments of all ids", "-")]
    lines += arguments(gymnasium_worlds.WorldEnv)
    lines += as_restructured_text(inspect.getdoc(gymnasium_worlds.WorldEnv).splitlines())
    return "\n".join(lines) + "\n"


def arguments(kind: type) -> list[str]:
    """Return the table of the keyword arguments of a class."""
    parameters = inspect.signature(kind).parameters.values()
    options = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    cells = ((f"``{p.name}``", f"``{p.annotation}``", default(p)) for p in options)
    return table(("Argument", "Type", "Default"), cells)


def default(parameter: inspect.Parameter) -> str:
    """Return the default of a parameter as code."""
    required = parameter.default is parameter.empty
    return "required" if required else f"``{parameter.default!r}``"


def write_pages(app: Any) -> None:
    """Write the generated pages."""
    folder = Path(app.srcdir) / "environments"
    (folder / "reflection").mkdir(exist_ok=True)
    write(folder / "reflection.rst", reflection_page())
    for name, environment in ENVIRONMENTS.items():
        write(folder / "reflection" / f"{name}.rst", environment_page(environment))
    write(folder / "grid-worlds.rst", suites_page())
    write(folder / "gymnasium.rst", gymnasium_page())


def setup(app: Any) -> dict[str, bool]:
    """Register the generated pages with Sphinx."""
    app.connect("builder-inited", write_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
