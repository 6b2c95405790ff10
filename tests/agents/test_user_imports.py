"""What a user's file is made of, and that a run knows when some of it has changed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.agents.user_code import files_of
from goalmeter.reflection import measure

FILES = {
    "mine.py": "import helper\nimport numpy, random\nfrom tools.deep import x\n"
    "def agent(history, n_actions, n_observations):\n    import late\n    return helper.GIVES\n",
    "helper.py": "from second import GIVES\n",
    "second.py": "import helper\nGIVES = 0\n",  # in a circle
    "late.py": "this is no Python\n",
    "random.py": "",  # Python's own is imported
    "other.py": "",
    "tools/__init__.py": "from . import sibling\nfrom .nested import thing\n",
    "tools/deep.py": "from .. import nothing\nfrom .sibling import y\nimport other_package.a.b\n",
    "tools/sibling.py": "y = 1\n",
    "tools/nested/__init__.py": "from ..up import z\n",
    "tools/nested/thing.py": "",
    "tools/up.py": "z = 1\n",
    "tools/unused.py": "",
    "other_package/a/b.py": "",  # without __init__.py
}
USED = [
    "helper.py",
    "late.py",
    "mine.py",
    "other_package/a/b.py",
    "second.py",
    "tools/__init__.py",
    "tools/deep.py",
    "tools/nested/__init__.py",
    "tools/nested/thing.py",
    "tools/sibling.py",
    "tools/up.py",
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_file_and_its_neighbours_that_it_imports(folder: Path) -> None:
    assert sorted(files_of("mine.py")) == USED
    assert sorted(files_of(f"{folder}/mine.py")) == [f"{folder}/{name}" for name in USED]
    assert files_of("absent.py") == ["absent.py"]
    (folder / "null.py").write_bytes(b"x = '\0'")
    assert files_of("null.py") == ["null.py"]


def test_a_run_knows_when_an_imported_file_has_changed(folder: Path) -> None:
    (folder / "late.py").write_text("")
    (folder / "tools" / "deep.py").write_text("x = 1\n")
    play = lambda: measure("mine.py:agent", 5, 1, environments="DejaVu", out="run")  # noqa: E731
    first = play()
    assert first.outcomes == {"ok": 2} and play().trials == first.trials
    (folder / "tools" / "unused.py").write_text("x = 1\n")
    play()
    (folder / "second.py").write_text("import helper\nGIVES = 1\n")
    with pytest.raises(
        InvalidParameterError, match=r"content of second\.py \(sha256\) is .* there"
    ):
        play()
