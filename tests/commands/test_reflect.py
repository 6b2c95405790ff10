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
from goalmeter.commands import options as place_module
from goalmeter.commands import reflect as reflect_module
from goalmeter.commands.agents import catalogue
from goalmeter.commands.outcome import Outcome, json_text
from goalmeter.commands.reflect import reflect
from goalmeter.pages.reflection_tables import measure_table
from goalmeter.reflection import Trial, compare, load, measure
from goalmeter.reflection.environments import BATTERY, ENVIRONMENTS, find
from goalmeter.reflection.result import reflection_of

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


def test_tables_for_people() -> None:
    outcome = reflect("naive", environments=NAMES, steps=40, seeds=3)
    expected = measure("naive", 40, 3, environments=NAMES)
    average, spread = expected.by_environment(), expected.spread()
    table = rows(outcome, 0)
    assert [column.full for column in outcome.tables[0].heads] == [
        "environment",
        "reward: mean",
        "reward: sd",
        "opposite: mean",
        "opposite: sd",
    ]
    assert table["TemptingButton"][:2] == ["–", "–"]
    shown = [float(text.replace("−", "-")) for text in table["IgnoreRewards"]]
    key = "IgnoreRewards"
    assert shown == pytest.approx(
        [average[key, False], spread[key, False], average[key, True], spread[key, True]], abs=5e-4
    )
    summary = rows(outcome, 1)
    assert float(summary["measure"][0].replace("−", "-")) == pytest.approx(
        expected.measure, abs=1e-6
    )
    assert summary["trials"] == ["9"] and summary["ended early"] == ["0"]
    assert "±" in summary["baseline: random"][0]
    assert summary["95% interval"] == ["–"]
    assert "No interval: an interval needs at least 5 seeds." in outcome.tables[1].notes


def test_intervals_have_signs_like_the_value() -> None:
    outcome = reflect("naive", environments=NAMES, steps=40, seeds=5, against="random")
    summary = rows(outcome, 1)
    low, high = outcome.json["interval"]
    assert low > 0 and summary["95% interval"] == [f"+{low:.6f} to +{high:.6f}"]
    low, high = outcome.json["comparison"]["interval"]
    assert summary["its 95% interval"] == [f"{low:+.6f} to {high:+.6f}".replace("-", "−")]
    assert not any("No interval" in note for note in outcome.tables[1].notes)


def test_one_seed_has_no_spread_and_no_interval() -> None:
    outcome = reflect("naive", environments=NAMES, steps=9, seeds=1)
    summary = rows(outcome, 1)
    for row in ("standard error", "95% interval", "the paper's “StdErr”"):
        assert summary[row] == ["–"]
    assert summary["baseline: random"][0].endswith(" ± –")
    assert {rows(outcome, 0)["IgnoreRewards"][column] for column in (1, 3)} == {"–"}
    assert "over 1 seed of 9 steps" in outcome.tables[0].meaning
    assert outcome.json["stderr"] is outcome.json["interval"] is None


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
    assert summary["less naive, paired"][0].startswith(f"{expected.difference:+.6f}"[:8])
    assert len(outcome.tables[0].heads) == 7


def test_trials_that_end_early_are_shown(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("def agent(*_):\n    return 7\n")
    outcome = reflect(f"{tmp_path}/bad.py:agent", environments=NAMES, steps=9, seeds=2, on="here")
    assert rows(outcome, 1)["ended early"] == ["6 of 6 trials ended early (6 illegal action)"]
    assert rows(outcome, 0)["IgnoreRewards"][-1] == "4"
    assert (
        "6 of 6 trials ended early (6 illegal action); the first in Ignore"
        in outcome.tables[1].notes[-1]
    )
    assert outcome.json["outcomes"] == {"illegal action": 6}
    nothing = "no trial was finished: this number says nothing"
    assert rows(outcome, 1)["measure"] == [f"0.000000; {nothing}"]
    assert outcome.text == (
        f"{tmp_path}/bad.py:agent: 6 of 6 trials ended early (6 illegal action); {nothing}"
    )
    compared = reflect("naive", environments=NAMES, steps=9, against=f"{tmp_path}/bad.py:agent")
    assert compared.text.startswith(f"{tmp_path}/bad.py:agent: 30 of 30 trials ended early")
    assert reflect("naive", environments=NAMES, steps=9).text == ""


def test_trials_that_took_too_long_are_shown_with_how_to_give_them_longer() -> None:
    trials = [
        Trial("DejaVu", way, 0, 9, 0, "timeout" if way else "ok", "no answer within 1 s" * way)
        for way in (False, True)
    ]
    table = measure_table(reflection_of("slow", 9, trials, runs=2, confidence=0.95), None, None, {})
    assert table.notes[1:] == (
        "No interval: an interval needs at least 5 seeds.",
        "slow: 1 of 2 trials ended early (1 timeout); the first in opposite(DejaVu), seed 0: "
        "timeout, no answer within 1 s.",
        "A trial is given more time with --timeout, in a new run (0: no limit).",
    )


def test_limits_and_workers_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def watch(name: str, *arguments: Any, **options: Any) -> Any:
        asked.append(options)
        return measure("constant", *arguments, environments=options["environments"])

    monkeypatch.setattr(reflect_module, "measure", watch)
    monkeypatch.setattr(place_module, "cores", lambda: 5)
    cases: list[tuple[str, dict[str, Any], tuple[float | None, str]]] = [
        ("naive", {}, (None, "here")),
        ("rc(ppo)", {}, (None, "processes:5")),
        ("mine.py:a", {}, (60.0, "processes:5")),
        ("mine.py:a", {"timeout": 0.0, "workers": 2}, (None, "processes:2")),
        ("naive", {"workers": 1}, (None, "processes:1")),
        ("naive", {"on": "processes:3"}, (None, "processes:3")),
        ("mine.py:a", {"timeout": 7.0}, (7.0, "processes:5")),
        ("naive", {"timeout": 7.0, "steps": 300_000}, (7.0, "processes:5")),
    ]
    for name, options, expected in cases:
        asked.clear()
        reflect(name, environments=["IgnoreRewards"], **({"steps": 9} | options))
        assert (asked[0]["timeout"], asked[0]["on"]) == expected, (name, options)
        assert len(asked) == (3 if options.get("steps", 9) <= 1000 else 1)


def test_baselines_are_played_with_fewer_seeds_where_they_take_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflect_module, "BASELINE_PERCEPTS", 2 * 9 * 2)
    outcome = reflect("naive", environments=["IgnoreRewards"], steps=9, seeds=5)
    assert outcome.json["baselines"]["random"]["seeds"] == 2
    assert "The baselines were played with 2 of the seeds." in outcome.tables[1].notes


def test_what_is_refused() -> None:
    with pytest.raises(InvalidParameterError, match=r"AGENT is missing: name one, .* --list shows"):
        reflect(None)
    with pytest.raises(InvalidParameterError, match="seeds is 0, expected at least 1"):
        reflect("naive", seeds=0)


def test_the_list_names_everything_that_can_be_played() -> None:
    outcome = catalogue()
    listed = {entry["name"]: entry for entry in outcome.json["environments"]}
    assert list(listed) == list(ENVIRONMENTS) and len(listed) == 30
    assert [name for name, entry in listed.items() if entry["in_battery"]] == [
        e.name for e in BATTERY
    ]
    assert listed["IncentivizeZero"]["n_actions"] == 10
    assert listed["TemptingButton"]["options"]["coding"][1:] == ["paper"]
    assert all(entry["idea"] and entry["known_returns"] for entry in listed.values())
    assert "constant 0: n - 1" in listed["PunishSlowAgent"]["known_returns"]
    shown = rows(outcome, 0)
    assert shown["CryingBaby"][:3] == ["2", "2", "yes"] and shown["FlipEveryOther"][2] == "–"
    for words in shown["CryingBaby"][4].split():
        assert find(f"CryingBaby({words})")[0].name == f"CryingBaby({words})"
    agents = {entry["name"] for entry in outcome.json["agents"]}
    assert {"random", "naive", "a2c", "rc(NAME)", "FILE.py:NAME", "constant"} <= agents
    assert agents == set(rows(outcome, 1))


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
                with pytest.raises(InvalidParameterError, match="another process fills run; wait"):
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
