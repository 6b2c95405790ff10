"""What the documentation shows is what happens."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_first_result_of_the_readme_is_printed_as_shown() -> None:
    text = (ROOT / "README.md").read_text()
    section = text[text.index("## A first result") : text.index("## Your own world")]
    code = fenced(section, "python")[0]
    shown = fenced(section[section.index(code) + len(code) + len("```\n") :], "")[0]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "README.md", "exec"), {})
    # The size of the certificate is rounding, and differs between machines.
    blur = re.compile(r"certified to [\d.e-]+")
    assert blur.sub("certified", printed.getvalue()) == blur.sub("certified", shown)


def test_the_first_result_of_the_readme_takes_five_lines() -> None:
    text = (ROOT / "README.md").read_text()
    code = fenced(text[text.index("## A first result") :], "python")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 5


def test_the_programs_of_the_page_on_reflection_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that begin with a file's name are written to it; the others run, in order."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "reflection.md").read_text()
    printed = io.StringIO()
    scope: dict[str, Any] = {}
    blocks = fenced(text, "python")
    files = {match[1]: block for block in blocks if (match := re.match(r"# (\w+\.py)\n", block))}
    assert set(files) == {"my_agent.py", "stay.py", "hindsight.py"}
    for name, program in files.items():
        Path(name).write_text(program)
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            if block not in files.values():
                exec(compile(block, "reflection.md", "exec"), scope)
    assert f"```\n{printed.getvalue()}```" in text
    agent, environment = files["my_agent.py"], files["hindsight.py"]
    assert len(agent.splitlines()) == 7 and len(environment.splitlines()) <= 20
    played = scope["gm"].reflection.measure(
        "naive", steps=20, seeds=1, environments=["hindsight.py:Hindsight"]
    )
    assert played.outcomes == {"ok": 2}


def test_the_programs_of_the_page_on_navigation_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "navigation.md").read_text()
    scope: dict[str, Any] = {}
    blocks = fenced(text, "python")
    assert len(blocks) == 3
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, "navigation.md", "exec"), scope)
        assert f"```python\n{block}```\n\n```\n{printed.getvalue()}```" in text


def test_the_commands_of_the_page_on_navigation_are_understood() -> None:
    import typer

    from goalmeter import cli

    commands = typer.main.get_command(cli.app).commands  # type: ignore[attr-defined]
    text = (ROOT / "docs" / "navigation.md").read_text()
    lines = [line for line in text.splitlines() if line.startswith("goalmeter ")]
    assert len(lines) >= 5
    for line in lines:
        _, name, *given = shlex.split(line, comments=True)
        commands[name].make_context(name, given)  # parses, and runs nothing


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
