"""The wheel works where nothing is installed but what it declares."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def declared(name: str) -> set[str]:
    """Return the packages that a package requires without extras, and those that these require."""
    found: set[str] = set()
    left = [name]
    while left:
        for text in requires(left.pop()) or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if (marker is None or marker.evaluate({"extra": ""})) and requirement.name not in found:
                found.add(requirement.name)
                left.append(requirement.name)
    return found


def link(package: str, folder: Path) -> None:
    """Make the files of an installed package importable from a folder."""
    installed = distribution(package)
    for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        if not (folder / top).exists():
            (folder / top).symlink_to(str(installed.locate_file(top)))


def output_of(*command: str | Path, folder: Path) -> str:
    """Return what a command prints, without the paths that this process imports from."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "COLUMNS": "200"}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env=environment,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_runs_the_first_example_in_an_empty_environment(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT]
    output_of(*build, folder=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert list(tmp_path.glob("*.tar.gz"))
    output_of(sys.executable, "-m", "venv", tmp_path / "venv", folder=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    install = ("-m", "pip", "install", "--no-index", "--no-deps", "--no-cache-dir", wheel)
    output_of(python, *install, folder=tmp_path)
    (packages,) = (tmp_path / "venv" / "lib").glob("python3*/site-packages")
    for package in declared("goalmeter"):
        link(package, packages)

    blocks = re.findall(r"^```python\n(.*?)^```\n+(?:```\n(.*?)^```)?", README, re.M | re.S)
    program, expected = blocks[0]
    (tmp_path / "first.py").write_text(program, encoding="utf-8")
    printed = output_of(python, "first.py", folder=tmp_path)
    assert expected and without_rounding(printed) == without_rounding(expected)
    where = output_of(python, "-c", "import goalmeter; print(goalmeter.__file__)", folder=tmp_path)
    assert where.startswith(str(packages))
    listed = output_of(tmp_path / "venv" / "bin" / "goalmeter", "agents", folder=tmp_path)
    assert "goalmeter/mouse" in listed and "optimal" in listed


def without_rounding(text: str) -> str:
    """Remove the size of a certificate, which is rounding and differs between machines."""
    return re.sub(r"certified to [\d.e-]+", "certified", text)
