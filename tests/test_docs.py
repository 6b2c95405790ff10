"""The documentation is short where it says so, and its links lead somewhere.

That what it shows is what happens is tested in test_documented.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import goalmeter as gm

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def fenced(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_first_result_of_the_readme_takes_five_lines() -> None:
    text = (ROOT / "README.md").read_text()
    code = fenced(text[text.index("## A first result") :], "python")[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 5


def test_the_programs_of_the_page_on_reflection_are_short_and_play(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the page's programs print is compared in test_documented.py."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "notes" / "reflection.md").read_text()
    blocks = fenced(text, "python")
    files = {match[1]: block for block in blocks if (match := re.match(r"# (\w+\.py)\n", block))}
    assert set(files) == {"my_agent.py", "stay.py", "hindsight.py"}
    for name, program in files.items():
        Path(name).write_text(program)
    agent, environment = files["my_agent.py"], files["hindsight.py"]
    assert len(agent.splitlines()) == 7 and len(environment.splitlines()) <= 20
    played = gm.reflection.measure(
        "naive", steps=20, seeds=1, environments=["hindsight.py:Hindsight"]
    )
    assert played.outcomes == {"ok": 2}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
