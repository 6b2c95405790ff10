"""Every output that README.md and docs/ show is what happens, or says that it is not run.

A block of Python is run, in the order of its page; what it prints is the block behind it. A command
is one that the command line understands, and a comment behind it that holds numbers is to be found
in what it prints, as that behind an expression. A table of measurements is compared by a test that
it names, or with a result that was kept, or says why it is not.
"""

from __future__ import annotations

import ast
import contextlib
import gzip
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causal.written_networks import shipped
from documented import PAGES, ROOT, Block, Rows, parts_with_numbers, plain, says, shown
from robustness.cases import run

import goalmeter as gm
from goalmeter.gridworld.conversions import compact
from goalmeter.gridworld.planner import State
from goalmeter.navigation.prompts import understood
from goalmeter.organisms import organism
from goalmeter.statistics.clusters import estimate
from goalmeter.tabular import sample_trajectories

# Pages that a command writes as a whole: the test that compares them.
GENERATED = {
    "docs/ledger.md": "tests/studies/test_ledger.py::test_the_page_in_docs_is_up_to_date",
    "docs/benchmarks.md": "tests/test_kept_results.py::test_the_page_of_benchmarks_is_its_results",
    "docs/errors.md": "tests/docs/test_errors.py::test_the_page_of_errors_has_the_messages",
}
WRITTEN = [page for page in PAGES if page.relative_to(ROOT).as_posix() not in GENERATED]
EVERYTHING = [item for page in WRITTEN for item in shown(page)]
BLOCKS = [item for item in EVERYTHING if isinstance(item, Block)]
TABLES = [item for item in EVERYTHING if isinstance(item, Rows)]
# Shell lines that are no command of ours, and have no output on the page.
OTHERS = (
    *("make ", "pip install ", "export ", "MODEL="),
    *("ray ", "vllm serve ", "inspect ", "transformers "),
)
# What cannot be run where the tests run, and why: a marker that is not here fails, and one that is
# here and on no page as well.
NOT_RUN = {
    "docs/notes/meg.md: the bound before this version is not in the package; "
    "benchmarks/simulator_guarantee.py has the other columns with other seeds",
    "docs/notes/representation.md: the use of the map alone asks the mouse thousands of times; "
    "tests/representation/test_measure.py asks less",
    "docs/notes/representation.md: it needs a model of 20 billion weights",
    "docs/notes/representation.md: the training takes an hour of a core",
    "docs/notes/representation.md: the walks and the use of the map take some ten minutes; its "
    "tables are kept",
    "docs/notes/representation.md: the use of the map asks the mouse thousands of times; its "
    "tables are kept",
    "docs/notes/representation.md: the walks and the use of the map take some minutes on two idle "
    "cores; `docs/results/believed-world.json` has its output",
    "docs/notes/organisms.md: benchmarks/organism_lessons.py draws all lessons again, some minutes",
    "docs/cards.md: needs cards",
    "docs/cards.md: takes minutes",
    "docs/cards.md: a workflow of GitHub",
    "docs/cards.md: a file for goalmeter measure --claim",
    "docs/guides/gating-in-ci.md: a workflow of GitHub",
    "docs/guides/gating-in-ci.md: a file for goalmeter measure --claim",
    "docs/guides/hidden-states.md: needs a GPU and vLLM",
    "docs/notes/scale.md: the cluster would stay; tests/runs/backends/test_clusters.py starts and "
    "stops one",
    "docs/notes/scale.md: it needs Slurm; tests/runs/backends/test_clusters.py has jobs of this "
    "machine in its place",
    "docs/notes/scale.md: needs GPUs and vLLM",
    "docs/notes/scale.md: needs Slurm, GPUs and vLLM",
    "docs/notes/navigation-language-models.md: goes on until the model has answered",
    "docs/notes/navigation-language-models.md: asks through Inspect, as the tests in tests/lm do",
}


# --- Programs -------------------------------------------------------------------------------------
def names_of_tables() -> dict[str, Any]:
    """Return arrays of the shapes that the guide on MDPs names."""
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(4), size=(4, 2))
    lake = gm.TabularMDP.from_gymnasium("FrozenLake-v1")
    policy = gm.epsilon_greedy(gm.optimal_policy(lake), 0.3)
    logs = sample_trajectories(lake, policy, 20, rng=rng)
    return {
        "transition": transition,
        "reward": np.array([0.0, 0.0, 1.0, 0.0]),
        "next_state": np.tile(np.arange(3), (4, 2, 1)),
        "probability": rng.dirichlet(np.ones(3), size=(4, 2)),
        "policy": policy,
        "worlds": [lake, lake.replace(initial=5)],
        "policies": [policy, policy],
        "habit": gm.uniform_policy(lake),
        "F": np.eye(lake.n_states)[:, :3],
        "states": logs.states,
        "actions": logs.actions,
    }


def names_of_causal() -> dict[str, Any]:
    """A network in the folder, and a small world to unroll."""
    Path("asia.bif").write_bytes(gzip.decompress(shipped("asia").read_bytes()))
    flip = np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2)
    world = gm.TabularMDP(flip, [0.0, 1.0], horizon=2)
    return {"mdp": world, "policy": gm.uniform_policy(world)}


# What a program begins with -> what its page takes to be there.
NAMES = {
    "mdp = gm.TabularMDP(transition": names_of_tables,
    "import goalmeter as gm\n\nside": names_of_causal,
}
PROGRAMS = sorted({b.page for b in BLOCKS if b.language == "python" and b.marker is None})


def printed_by(block: Block, scope: dict[str, Any]) -> tuple[str, list[str]]:
    """What a block prints, and what comments behind its expressions promise in vain."""
    missing = []
    printed = io.StringIO()
    lines = block.text.splitlines()
    with contextlib.redirect_stdout(printed):
        for statement in ast.parse(block.text).body:
            if not isinstance(statement, ast.Expr):
                exec(compile(ast.Module([statement], []), str(block), "exec"), scope)
                continue
            value = eval(compile(ast.Expression(statement.value), str(block), "eval"), scope)
            comment = lines[(statement.end_lineno or 0) - 1][statement.end_col_offset :]
            # A bare number is shown as it reads, without the digits of its rounding.
            text = f"{value:.12g}" if isinstance(value, float) else str(value)
            for part in parts_with_numbers(comment.partition("#")[2]):
                if not says(text, part):
                    missing.append(f"{part!r} is not in {str(value)!r}")
    return printed.getvalue(), missing


def without_rounding(text: str) -> str:
    """The size of a certificate is rounding, and differs between machines."""
    return re.sub(r"certified to [\d.e-]+", "certified", text)


@pytest.fixture
def short_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks are fitted for a few steps: a page shows how to ask for one, and no value of it."""
    pytest.importorskip("torch")
    from goalmeter.meg import neural

    search = neural.NetworkSearch
    monkeypatch.setattr(neural, "NetworkSearch", lambda module, seeds, _: search(module, seeds, 2))


# Inspect calls its own libraries in ways that they have given up.
@pytest.mark.filterwarnings("ignore::DeprecationWarning:inspect_ai", "ignore::ResourceWarning")
@pytest.mark.usefixtures("short_networks")
@pytest.mark.parametrize("page", PROGRAMS)
def test_programs_print_what_the_page_shows(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # a page's files are imported by its programs
    # Stable-Baselines3 makes a folder for logs, also where it keeps none.
    monkeypatch.setenv("SB3_LOGDIR", str(tmp_path))
    monkeypatch.setenv("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # printed once a process
    scope: dict[str, Any] = {}
    blocks = [block for block in BLOCKS if block.page == page]
    for block in blocks:
        if file := re.match(r"# (\w+\.py)\n", block.text):
            Path(file[1]).write_text(block.text)
            monkeypatch.delitem(sys.modules, Path(file[1]).stem, raising=False)  # of another page
    expected = ""
    for block, behind in zip(blocks, [*blocks[1:], None], strict=True):
        if block.language != "python" or block.marker is not None:
            continue
        if re.match(r"# \w+\.py\n", block.text):
            continue  # a file, written above
        for beginning, names in NAMES.items():
            if block.text.startswith(beginning):
                scope |= names()
        printed, missing = printed_by(block, scope)
        assert missing == [], str(block)
        expected += printed
        # Blocks may add up to one output, which stands behind the last of them.
        if behind is not None and is_output(behind):
            assert without_rounding(behind.text) == without_rounding(expected), str(behind)
            expected = ""
    assert expected == "", f"{page} does not show what its last program prints"


def is_output(block: Block) -> bool:
    """Whether a block without a language is what the program before it prints."""
    return block.language == "" and block.follows and not is_commands(block)


# --- Definitions ----------------------------------------------------------------------------------
INCLUDED = [block for block in BLOCKS if block.language == "{literalinclude}"]


@pytest.mark.parametrize("block", INCLUDED, ids=str)
def test_the_code_that_a_page_includes_exists(block: Block) -> None:
    path, *options = block.text.splitlines()
    tree = ast.parse(((ROOT / block.page).parent / path).read_text(encoding="utf-8"))
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    included = {o.removeprefix(":pyobject: ") for o in options if o.startswith(":pyobject: ")}
    assert included <= names


# --- Commands -------------------------------------------------------------------------------------
def is_commands(block: Block) -> bool:
    first = block.text.split("\n", 1)[0]
    return block.language == "" and first.startswith(("goalmeter ", *OTHERS))


def command_lines() -> Iterator[tuple[Block, str, str]]:
    """Every line of ours with its comment; what a block assigns is put in."""
    for block in BLOCKS:
        if not is_commands(block):
            continue
        assigned = dict(re.findall(r'^(\w+)="(.*)"$', block.text, flags=re.MULTILINE))
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith("goalmeter "):
                for name, value in assigned.items():
                    line = line.replace(f"${name}", value)
                yield block, *split_comment(line)


def split_comment(line: str) -> tuple[str, str]:
    command, _, comment = line.partition(" #")
    return command.strip(), comment.strip()


COMMANDS = list(command_lines())


@pytest.mark.parametrize("line", sorted({command for _, command, _ in COMMANDS}))
def test_commands_are_understood(line: str) -> None:
    import typer

    from goalmeter import cli

    command: Any = typer.main.get_command(cli.app)
    _, *words = shlex.split(line)
    name = "goalmeter"
    while hasattr(command, "commands"):
        name, *words = words
        command = command.get_command(None, name)
        assert command is not None, f"{line}: there is no command {name}"
    command.make_context(name, words)  # parses, and runs nothing


def test_there_are_commands_on_most_pages() -> None:
    assert len({block.page for block, _, _ in COMMANDS}) >= 6 and len(COMMANDS) >= 40


@pytest.mark.parametrize(
    ("line", "comment"),
    [(command, comment) for _, command, comment in COMMANDS if parts_with_numbers(comment)],
)
def test_numbers_behind_a_command_are_in_its_output(
    line: str, comment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(re.findall(r"(\w+)\.bif\b", line)):
        (tmp_path / f"{name}.bif").write_bytes(gzip.decompress(shipped(name).read_bytes()))
    monkeypatch.setenv("COLUMNS", "160")
    ended = run(shlex.split(line)[1:], tmp_path)
    assert ended.status == 0, ended.err
    for part in parts_with_numbers(comment):
        assert says(ended.out, part), f"{line}: {part!r} is not in {plain(ended.out)!r}"


def test_the_prompt_that_the_page_on_organisms_shows() -> None:
    """The maze and its prompt to the letter; of the answer, which is drawn, what it claims."""
    drawn, asked = (
        block.text
        for block in BLOCKS
        if block.page == "docs/notes/organisms.md"
        and block.marker
        and block.marker[0] == "checked by"
    )
    world = gm.gridworld.maze(7, 1.0, seed=3).world
    rows = gm.gridworld.rendered(world).splitlines()[1:]
    assert drawn.splitlines() == ["".join(row.split()[1:]) for row in rows]
    prompt, answer = asked.split("\n\n")
    assert prompt == compact(world).strip()
    action = understood(answer).action
    assert action is not None
    assert organism("mouse").intended(world, State(world.start))[action] > 0
    # A cell whose turn it is stands with the ways from it, as the prompt has them.
    message = re.findall(r"(\d+,\d+): ([UDLR]+)", answer)
    assert len(message) >= 3 and all(f"{cell} {ways}" in prompt for cell, ways in message)


# --- Everything is one of these -------------------------------------------------------------------
def test_every_block_is_run_or_says_why_not() -> None:
    unchecked = [
        str(block)
        for block in BLOCKS
        if block.marker is None
        and block.language not in ("python", "bibtex")
        and not block.language.startswith("{")
        and not is_commands(block)
        and not is_output(block)
    ]
    assert unchecked == [], "mark these as the head of tests/documented.py says"


def test_every_table_of_measurements_is_compared_or_says_why_not() -> None:
    unchecked = [str(table) for table in TABLES if table.measured and table.marker is None]
    assert unchecked == [], "mark these as the head of tests/documented.py says"


def test_what_is_not_run_is_known() -> None:
    marked = {
        f"{item.page}: {item.marker[1]}"
        for item in EVERYTHING
        if item.marker is not None and item.marker[0] == "not run"
    }
    assert marked == NOT_RUN


# Picture of a page -> the test that draws it again.
PICTURES = {
    "docs/images/cliffworld.svg": "tests/studies/test_meg_cliffworld.py::"
    "test_the_picture_of_the_readme_is_figure_3b",
    "docs/images/card.png": "tests/card/test_browser.py::"
    "test_the_picture_of_the_readme_is_the_first_screen_of_a_card",
}


def test_every_picture_is_drawn_again_by_a_test() -> None:
    result = set()
    for page in PAGES:
        for target in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            result.add((page.parent / target).resolve().relative_to(ROOT).as_posix())
    assert result == set(PICTURES)


def test_a_test_that_is_named_exists() -> None:
    named = [
        item.marker[1] for item in EVERYTHING if item.marker and item.marker[0] == "checked by"
    ]
    for name in [*GENERATED.values(), *PICTURES.values(), *named]:
        file, _, test = name.partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), name


def test_the_coverage_table_is_that_of_the_benchmark() -> None:
    """The page of benchmarks is written from the results; the other page shows the same rows."""
    shown = [t for t in TABLES if t.page == "docs/notes/statistics.md" and len(t.cells) > 10]
    assert len(shown) == 2
    assert foreign_rows(shown) == []


def test_the_table_of_skill_is_that_of_the_benchmark() -> None:
    shown = [
        t for t in TABLES if t.page == "docs/notes/meg.md" and t.cells[0][:2] == ("world", "agent")
    ]
    assert len(shown) == 1 and len(shown[0].cells) == 1 + 18
    assert foreign_rows(shown) == []


def test_intervals_that_do_not_contain_the_reference_are_named() -> None:
    stored = json.loads((ROOT / "benchmarks/results/simulator_references.json").read_text())
    page = (ROOT / "docs/notes/meg.md").read_text(encoding="utf-8")
    assert len(stored["agents"]) == 9 and all(row["meets"] for row in stored["agents"])
    share = stored["free_episodes_with_goal"]
    assert f"in Acrobot it does in {share:.1%} of the episodes" in page
    for row in stored["agents"]:
        (low, high), middle = row["interval"], row["reference"][1]
        if high < middle or (low > middle and not row["at_least"]):
            place = f"{row['world'].split('-')[0]} after {row['training']:,} steps"
            assert f"{place} ([{low:.3g}, {high:.3g}] and {middle:.3g})" in page


def test_the_table_of_headlines_is_that_of_the_benchmark() -> None:
    shown = [
        t for t in TABLES if t.page == "docs/cards.md" and t.cells[0][:2] == ("scale", "agent")
    ]
    assert len(shown) == 1 and len(shown[0].cells) == 1 + 2 * 9
    assert foreign_rows(shown) == []


def foreign_rows(tables: list[Rows]) -> list[tuple[str, ...]]:
    """Return the rows of tables that are not on the page of benchmarks."""
    benchmarks = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").splitlines()
    rows = [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in benchmarks]
    return [row for table in tables for row in table.cells if row not in rows]


def test_what_equal_clusters_can_show_is_computed() -> None:
    (table,) = (
        t for t in TABLES if t.page == "docs/notes/statistics.md" and t.cells[1][0] == "at least"
    )
    ends = [estimate([1.0] * int(n), bounds=(0.0, 1.0)).interval for n in table.cells[0][1:]]
    assert [f"{end[0]:.1%}" for end in ends if end] == list(table.cells[1][1:])


# --- The test is one that can fail ----------------------------------------------------------------
def test_blocks_and_tables_are_found_with_their_markers() -> None:
    text = (
        "# Page\n\n```python\nprint(1)\n```\n\n```\n1\n```\n\nWords.\n\n"
        "<!-- not run: a drawing -->\n```\n+-+\n```\n\n```\n+\n```\n\n"
        "```{literalinclude} a.py\n:pyobject: f\n```\n\n"
        "| a | b |\n|---|---:|\n| x | 0.5 [0.4, 0.6] |\n| y | **0.7** |\n\n"
        "| name | meaning |\n|---|---|\n| z | up to 3 of them |\n"
    )
    program, output, drawing, picture, included, measured, words = shown(PAGES[0], text)
    assert isinstance(program, Block) and (program.language, program.text) == (
        "python",
        "print(1)\n",
    )
    assert isinstance(output, Block) and is_output(output) and output.line == 7
    assert drawing.marker == ("not run", "a drawing") and picture.marker is None
    assert isinstance(included, Block) and not is_output(included)
    assert (included.language, included.text) == ("{literalinclude}", "a.py\n:pyobject: f\n")
    assert isinstance(measured, Rows) and measured.measured
    assert isinstance(words, Rows) and not words.measured
    assert printed_by(program, {}) == ("1\n", [])


def test_a_wrong_number_behind_an_expression_is_named() -> None:
    block = Block("page", 1, "python", "sum([1, 2])    # 4; of 2 numbers\n", None, False)
    _, missing = printed_by(block, {})
    assert missing == ["'4' is not in '3'", "'of 2 numbers' is not in '3'"]
    assert printed_by(Block("page", 1, "python", "sum([1, 2])  # 3\n", None, False), {})[1] == []
    # Names may end in digits.
    assert parts_with_numbers("Stable-Baselines3; kept, and continued") == []
    table = "┃ dysp ┃ utility ┃\n│ no   │      +1 │\n│ yes  │      −1 │"
    assert plain(table) == "dysp utility no +1 yes −1"
    # The goal the other way round, and numbers that are a part of longer ones.
    assert says(table, "no +1") and says(table, "yes −1") and not says(table, "yes +1")
    assert says("MEG 0.4984 nats", "0.4984 nats") and not says("MEG 0.4984 nats", "4 nats")
    assert not says("MEG 0.4984 nats", "0.498")
