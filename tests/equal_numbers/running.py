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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from equal_numbers import inputs
from equal_numbers.cases import Case
from equal_numbers.programs import PROGRAMS

# One thread each: the order of a sum decides its last digit.
_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOALMETER_THREADS"), "1"
)
# What a checkout says of itself and of the machine, which no other has to repeat.
_PROVENANCE = frozenset({"made_by", "version", "versions", "commit", "machine", "seconds"})
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min)\b")
_TAGS = re.compile(r"(?s)<(style|script|svg)\b.*?</\1>|<[^>]*>")


def results(cases: Iterable[Case], tree: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each case's name, and what its commands gave in the checkout at `tree`."""
    with tempfile.TemporaryDirectory(prefix="equal-numbers-") as temporary:
        home = Path(temporary).resolve()
        with _server(tree, home) as server:
            for number, case in enumerate(cases):
                began = time.perf_counter()
                folder = home / str(number)
                inputs.write(folder)
                commands = [_command(server, words, folder) for words in case.commands]
                files = {name: _kept(folder / name, folder) for name in case.keeps}
                status = " ".join(str(command["status"]) for command in commands)
                seconds = time.perf_counter() - began
                print(f"{case.name}: status {status}, {seconds:.0f} s", file=sys.stderr, flush=True)
                yield case.name, {"group": case.group, "commands": commands, "files": files}


def _server(tree: Path, home: Path) -> subprocess.Popen[str]:
    # COLUMNS keeps usage errors and tables as wide everywhere.
    environment = {"PATH": os.environ["PATH"], "COLUMNS": "100", "HOME": str(home)} | _ONE_THREAD
    environment["PYTHONPATH"] = os.pathsep.join((f"{tree}/src", f"{tree}/tests", str(tree)))
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("serving.py"))],
        cwd=home,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _command(server: subprocess.Popen[str], words: tuple[str, ...], folder: Path) -> dict[str, Any]:
    is_program = words[0] == "python"
    task = {"program": PROGRAMS[words[1]]} if is_program else {"words": words}
    for name in (".out", ".err"):
        (folder / name).write_text("")
    sent, answers = _pipe(server.stdin), _pipe(server.stdout)
    sent.write(json.dumps(task | {"folder": str(folder)}) + "\n")
    sent.flush()
    answer = answers.readline()
    if not answer:
        raise RuntimeError("the process that runs the commands has ended; what it said is above")
    printed = (folder / ".out").read_text(encoding="utf-8")
    try:
        out: Any = _plain(json.loads(printed), folder)
    except ValueError:
        out = _text(printed, folder)
    # Progress is nobody's result; an error is one, and stands at the end.
    failed = int(answer) not in (0, 3)
    error = _text((folder / ".err").read_text(encoding="utf-8"), folder) if failed else ""
    return {"status": int(answer), "out": out, "error": error}


def _pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None, "both pipes were asked for"
    return stream


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
        plain = {key: _plain(each, folder) for key, each in value.items()}
        return {key: each for key, each in plain.items() if key not in _PROVENANCE}
    if isinstance(value, list):
        return [_plain(each, folder) for each in value]
    return _text(value, folder) if isinstance(value, str) else value


def _text(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FOLDER").replace(sys.executable, "PYTHON")
    return _SECONDS.sub("SECONDS", " ".join(text.split()))
