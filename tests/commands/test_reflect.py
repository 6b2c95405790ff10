"""`goalmeter reflect`: what it shows, and that it can be killed and continued."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.commands.reflect import reflect
from goalmeter.reflection import compare, load, measure

SRC = Path(__file__).resolve().parents[2] / "src"
NAMES = ("IgnoreRewards", "opposite(TemptingButton)")


def rows(outcome: Outcome, table: int) -> dict[str, list[str]]:
    return {row[0].text: [c.text for c in row[1:]] for row in outcome.tables[table].cells}


def test_json_is_the_measurement_with_baselines_beside_it() -> None:
    outcome = reflect("naive", environments=NAMES, steps=40, seeds=3, seed=2)
    expected = measure("naive", 40, [2, 3, 4], environments=NAMES)
    assert json.loads(json_text(outcome.json)) == expected.to_json() | {
        "baselines": outcome.json["baselines"]
    }
    assert outcome.json["seeds"] == 3
    first = outcome.json["environments"][0]
    assert {"name", "opposite", "seed", "total_reward", "outcome"} <= set(first)
    random = measure("random", 40, [2, 3, 4], environments=NAMES)
    assert outcome.json["baselines"]["random"]["measure"] == random.measure
    assert set(outcome.json["baselines"]) == {"random", "constant"}
    assert set(reflect("random", environments=NAMES, steps=9).json["baselines"]) == {"constant"}


def test_a_second_agent_is_compared_on_the_same_trials(tmp_path: Path) -> None:
    options: dict[str, Any] = {"environments": NAMES, "steps": 40, "seeds": 3}
    outcome = reflect("rc(naive)", against="naive", out=tmp_path / "run", **options)
    check, plain = (measure(n, 40, 3, environments=NAMES) for n in ("rc(naive)", "naive"))
    expected = compare(plain, check)
    assert outcome.json["comparison"] == expected.to_json()
    assert outcome.json["against"]["measure"] == plain.measure
    assert load(outcome.json["run"]).trials == check.trials
    assert load(tmp_path / "run.against").trials == plain.trials
    summary = rows(outcome, 1)
    assert summary["minus naive, paired"][0].startswith(f"{expected.difference:+.6f}"[:8])
    assert len(outcome.tables[0].heads) == 7


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"AGENT is missing: name one, .* --list shows"):
        reflect(None)
    with pytest.raises(InvalidParameterError, match="seeds is empty, expected at least one"):
        reflect("naive", seeds=0)


# --- Killed and continued -------------------------------------------------------------------------

SLOW = """
import os, time
def agent(history, n_actions, n_observations):
    time.sleep(float(os.environ["NAP"]))
    return (len(history.actions) + history.percepts[-1].observation) % n_actions
"""


def start(folder: Path, *arguments: str, nap: str = "0.004") -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "goalmeter", "reflect", "slow.py:agent", "--steps", "6"]
    return subprocess.Popen(
        [*command, "--seeds", "3", "--out", "run", *arguments],
        env=os.environ | {"PYTHONPATH": str(SRC), "NAP": nap},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def trials(folder: Path) -> int:
    path = folder / "run" / "trials.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_a_killed_run_is_continued_and_gives_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NAP", "0")
    Path("slow.py").write_text(SLOW)
    kept = 0
    for number in (signal.SIGKILL, signal.SIGINT):
        with start(tmp_path, "--workers", "2") as process:
            while trials(tmp_path) < kept + 10 and process.poll() is None:
                time.sleep(0.01)
            if number == signal.SIGKILL:
                with pytest.raises(InvalidParameterError, match="another process writes to run"):
                    measure("slow.py:agent", 6, 3, out="run")
            assert process.poll() is None, process.communicate()
            process.send_signal(number)
            out, err = process.communicate()
        assert out == "" and trials(tmp_path) >= kept + 10
        assert ("run keeps what is finished; the same command" in err) == (number == signal.SIGINT)
        kept = trials(tmp_path)
    assert kept < 150
    with (tmp_path / "run" / "trials.jsonl").open("a") as file:
        file.write('{"key": "DejaVu se')  # as if a line had been torn
    with start(tmp_path, "--json", nap="0") as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert f"{kept} of 150 trials were there already" in err
    result = json.loads(out)
    assert out.count("\n") == 1 and len(result["environments"]) == 150
    whole = measure("slow.py:agent", 6, 3, on="processes:2")
    assert result["environments"] == [trial.to_json() for trial in whole.trials]
    assert result["measure"] == whole.measure
