"""Run the cases in a checkout, and keep what they gave as JSON."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from equal_numbers import inputs
from equal_numbers.cases import Case
from equal_numbers.programs import PROGRAMS

SECONDS = 3600  # for one command; the demo takes minutes on a busy machine
# One thread each: the order of a sum decides its last digit.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOALMETER_THREADS"), "1"
)
# What a checkout says of itself and of the machine, which no other has to repeat.
_PROVENANCE = frozenset({"made_by", "version", "versions", "commit", "machine", "seconds"})
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min)\b")
_TAGS = re.compile(r"(?s)<(style|script|svg)\b.*?</\1>|<[^>]*>")


def run_cases(cases: Iterable[Case], tree: Path) -> dict[str, Any]:
    """Each case's name with what its commands gave in the checkout at `tree`."""
    results = {}
    for case in cases:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="equal-numbers-") as temporary:
            folder = Path(temporary).resolve()
            inputs.write(folder)
            given = [_command(words, folder, tree) for words in case.commands]
            files = {name: _kept(folder / name, folder) for name in case.keeps}
        results[case.name] = {"group": case.group, "commands": given, "files": files}
        status = " ".join(str(each["status"]) for each in given)
        seconds = time.perf_counter() - began
        print(f"{case.name}: status {status}, {seconds:.0f} s", file=sys.stderr, flush=True)
    return results


def _command(words: tuple[str, ...], folder: Path, tree: Path) -> dict[str, Any]:
    program = words[0] == "python"
    command = ["-c", PROGRAMS[words[1]]] if program else ["-m", "goalmeter", *words]
    # COLUMNS keeps usage errors and tables as wide everywhere.
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "100", "HOME": str(folder)} | _ONE_THREAD
    environment["PYTHONPATH"] = os.pathsep.join((f"{tree}/src", f"{tree}/tests"))
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    try:
        out: Any = _plain(json.loads(done.stdout), folder)
    except ValueError:
        out = _text(done.stdout, folder)
    # Progress is nobody's result; an error is one, and stands at the end.
    error = "" if done.returncode in (0, 3) else _text(done.stderr, folder)
    return {"status": done.returncode, "out": out, "error": error}


def _kept(path: Path, folder: Path) -> Any:
    if not path.is_file():
        return "no such file"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return _plain(json.loads(text), folder)
    if path.suffix == ".jsonl":
        lines = [_plain(json.loads(line), folder) for line in text.splitlines()]
        # Processes finish in any order; what was kept is a set of trials.
        return sorted(lines, key=lambda line: json.dumps(line, sort_keys=True))
    if path.suffix == ".html":
        return _text(html.unescape(_TAGS.sub(" ", text)), folder)
    return _text(text, folder)


def _plain(value: Any, folder: Path) -> Any:
    """JSON without what a checkout says of itself."""
    if isinstance(value, dict):
        kept = {key: _plain(each, folder) for key, each in value.items()}
        return {key: each for key, each in kept.items() if key not in _PROVENANCE}
    if isinstance(value, list):
        return [_plain(each, folder) for each in value]
    return _text(value, folder) if isinstance(value, str) else value


def _text(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER").replace(sys.executable, "PYTHON")
    return _SECONDS.sub("SECONDS", " ".join(text.split()))
