from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import goalmeter as gm
from goalmeter import cli
from goalmeter.commands.outcome import Outcome
from goalmeter.experiments.calibration.players import Scale
from goalmeter.experiments.demo.run import demo

SRC = Path(__file__).resolve().parents[1] / "src"
SMALL = Scale(
    grids=1, sizes=(7,), complexities=(1.0,), key_worlds=1, walks=1, suites=("maze", "key-no-door")
)


class Done(NamedTuple):
    status: int
    out: str
    err: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line in this process: `run("meg", "mdp", ...)`."""

    def call(*arguments: object) -> Done:
        monkeypatch.setattr(sys, "argv", ["goalmeter", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capsys.readouterr()
        code = stopped.value.code
        return Done(code if isinstance(code, int) else 0 if code is None else 1, out, err)

    return call


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The mouse of the paper's Example 1, who takes the cheese 8 times in 10."""
    stay = [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]
    gm.TabularMDP([[[0, 1, 0], [0, 0, 1]], *stay], [0, 1, -1], horizon=2).to_npz(tmp_path / "m.npz")
    np.savez(tmp_path / "p.npz", policy=[[0.8, 0.2], [0.5, 0.5], [0.5, 0.5]])
    return tmp_path


def test_a_search_that_is_interrupted_prints_what_it_has(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_the_keyboard(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("goalmeter.meg.linear._climb", at_the_keyboard)
    arguments = ["meg", "mdp", files / "m.npz", "--policy", files / "p.npz", "--unknown", "state"]
    done = run(*arguments, "--timeout", "60", "--json")
    assert done.status == 130
    result = json.loads(done.out)
    assert result["stopped"] == "interrupt"
    assert 0 <= result["meg"] <= 0.1927447 + 1e-6 and result["upper_bound"] >= 0.1927447
    assert "interrupted; this is the best so far" in done.err
    refused = run(*arguments, "--timeout", "0")
    assert refused.status == 2 and "--timeout" in refused.err


def test_version_and_help(run: Run) -> None:
    assert run("--version") == Done(0, f"goalmeter {gm.__version__}\n", "")
    for arguments in (
        ["--help"],
        ["meg", "--help"],
        ["meg", "mdp", "--help"],
        ["meg", "causal", "--help"],
        ["demo", "--help"],
        ["reflect", "--help"],
        ["report", "--help"],
        ["replicate", "--help"],
    ):
        done = run(*arguments)
        assert done.status == 0 and "Usage" in done.out and done.err == ""
    assert all(
        name in run("--help").out for name in ("meg", "demo", "reflect", "report", "replicate")
    )


def test_json_is_one_object_and_nothing_else(run: Run, files: Path) -> None:
    done = run("meg", "mdp", files / "m.npz", "--policy", files / "p.npz", "--json")
    assert done.status == 0
    result = json.loads(done.out)
    assert done.out.count("\n") == 1
    # log 2 - H(0.8) at rationality log 2 (the paper's Example 1).
    assert result["meg"] == pytest.approx(np.log(2) - 0.5004024, abs=1e-6)
    assert result["rationality"] == pytest.approx(np.log(2))
    assert result["maximum"] == pytest.approx(np.log(2))
    assert result["fraction"] == pytest.approx(result["meg"] / result["maximum"])
    assert result["upper_bound"] >= result["meg"] and isinstance(result["method"], str)


def test_an_infinite_rationality_is_a_word(run: Run, files: Path) -> None:
    for probability, word in ((1.0, "inf"), (0.0, "-inf")):
        policy = [[probability, 1 - probability], [0.5, 0.5], [0.5, 0.5]]
        np.savez(files / "q.npz", policy=policy)
        done = run("meg", "mdp", files / "m.npz", "--policy", files / "q.npz", "--json")
        assert json.loads(done.out)["rationality"] == word


def test_a_table_for_people(run: Run, files: Path) -> None:
    done = run("meg", "mdp", files / "m.npz", "--policy", files / "p.npz", "--unknown", "state")
    assert done.status == 0
    for words in ("0.1927 nats", "some utility over states", "27.8%", "uniform policy scores 0"):
        assert words in done.out
    assert "reading" in done.err and "reading" not in done.out


def test_trajectories(run: Run, files: Path) -> None:
    np.savez(
        files / "t.npz", states=[[0, 1]] * 8 + [[0, 2]] * 2, actions=[[0, 0]] * 8 + [[1, 0]] * 2
    )
    done = run("meg", "mdp", files / "m.npz", "--trajectories", files / "t.npz", "--json")
    assert done.status == 0, done.err
    result = json.loads(done.out)
    assert result["n"] == 10 and result["raw"] == pytest.approx(0.19274, abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.npz"], "neither given, expected exactly one of them"),
        (["m.npz", "--policy", "p.npz", "--trajectories", "t.npz"], "both given"),
        (["none.npz", "--policy", "p.npz"], "none.npz: there is no such file"),
        (["m.npz", "--policy", "m.npz"], "m.npz: the array 'policy' is missing"),
        (["p.npz", "--policy", "p.npz"], "p.npz: the array 'reward' is missing"),
        (["m.npz", "--policy", "p.npz", "--unknown", "x"], "--unknown is 'x', expected state"),
    ],
)
@pytest.mark.parametrize("json_too", [False, True])
def test_bad_input_is_one_line_on_standard_error(
    run: Run,
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
    json_too: bool,
) -> None:
    monkeypatch.chdir(files)
    done = run("meg", "mdp", *arguments, *(["--json"] if json_too else []))
    assert done.status == 2
    assert done.out == "" and "Traceback" not in done.err
    errors = [line for line in done.err.splitlines() if line.startswith("goalmeter: ")]
    assert len(errors) == 1 and message in errors[0]


# --- meg causal -----------------------------------------------------------------------------------
HOSTILE = "\x1b[31m[red]<b>"


@pytest.fixture
def causal(tmp_path: Path) -> Path:
    """The same mouse as a network, and its files."""
    side = ["left", "right"]
    network = gm.CausalBayesianNetwork(
        {"S": side, "D": side, "T": ["cheese", "none"]},
        {"D": ["S"], "T": ["S", "D"]},
        {
            "S": [0.5, 0.5],
            "D": [[0.8, 0.2], [0.2, 0.8]],
            "T": lambda s, d: "cheese" if s == d else "none",
        },
    )
    network.to_bif(tmp_path / "m.bif")
    (tmp_path / "u.json").write_text('[{"variables": ["T"], "values": [1, -1]}]')
    (tmp_path / "bad.json").write_text('[{"variables": ["T"], "values": [1]}]')
    (tmp_path / "bad.bif").write_text((tmp_path / "m.bif").read_text().replace("0.8", "0.7"))
    (tmp_path / "t.csv").write_text("S,D\n" + "left,left\n" * 8 + "right,left\n" * 2)
    return tmp_path


def test_a_causal_model_gives_the_papers_numbers(run: Run, causal: Path) -> None:
    for goal in (["--target", "T"], ["--utility", causal / "u.json"], ["--sensitivity", "2"]):
        done = run("meg", "causal", causal / "m.bif", "--decision", "D", *goal, "--json")
        assert done.status == 0, done.err
        assert done.out.count("\n") == 1
        result = json.loads(done.out)
        assert result["meg"] == pytest.approx(np.log(2) - 0.5004024, abs=1e-6)
        assert result["rationality"] == pytest.approx(np.log(2), abs=1e-6)
        assert result["maximum"] == pytest.approx(np.log(2))
        assert result["fraction"] == pytest.approx(result["meg"] / result["maximum"])
        assert result["upper_bound"] >= result["meg"] and isinstance(result["method"], str)


def test_a_causal_model_for_people(run: Run, causal: Path) -> None:
    done = run("meg", "causal", causal / "m.bif", "--decision", "D", "--target", "T")
    assert done.status == 0
    for words in ("[D]  {left, right}", "0.1927 nats", "27.8%", "cheese", "one decision"):
        assert words in done.out
    assert "reading" in done.err and "reading" not in done.out


def test_a_decision_without_influence_is_no_error(run: Run, causal: Path) -> None:
    done = run("meg", "causal", causal / "m.bif", "--decision", "D", "--target", "S")
    assert done.status == 0
    assert "S is not downstream of the decision D" in done.out.replace("\n  ", " ")


def test_other_options_of_a_causal_model(run: Run, causal: Path) -> None:
    question = ["meg", "causal", causal / "m.bif", "--decision", "D", "--target", "T", "--json"]
    done = run(*question, "--do", "S=left", "--drawing", causal / "d.svg")
    assert done.status == 0 and json.loads(done.out)["do"] == {"S": "left"}
    assert (causal / "d.svg").read_text().startswith("<svg")
    done = run(*question, "--shift", "S=left", "--shift", "S=right")
    assert len(json.loads(done.out)["interventions"]["rows"]) == 3
    done = run(*question, "--data", causal / "t.csv")
    assert json.loads(done.out)["n"] == 10


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m.bif"], "--target, --utility, --sensitivity: none of them given"),
        (["m.bif", "--target", "T", "--utility", "u.json"], "--target and --utility given"),
        (["m.bif", "--target", "Q"], "target 'Q' does not exist, expected one of S, D, T"),
        (["m.bif", "--target", "D"], "the target 'D' is one of the decisions"),
        (["m.bif", "--target", "T", "--do", "S=lift"], "did you mean 'left'?"),
        (["m.bif", "--target", "T", "--do", "D=left"], "do sets the decision 'D'"),
        (["m.bif", "--utility", "bad.json"], "bad.json, factor 1: the values are a list of 1"),
        (["m.bif", "--target", "T", "--data", "u.json"], "u.json has 1 lines"),
        (["bad.bif", "--target", "T"], "the row of 'D' given S = left sums to 0.9, expected 1"),
        (["none.bif", "--target", "T"], "none.bif: there is no such file"),
        (["u.json", "--target", "T"], "u.json: the name of a model ends in .bif, .xmlbif or"),
    ],
)
@pytest.mark.parametrize("json_too", [False, True])
def test_bad_causal_input_is_one_line_on_standard_error(
    run: Run,
    causal: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
    json_too: bool,
) -> None:
    monkeypatch.chdir(causal)
    done = run("meg", "causal", *arguments, "--decision", "D", *(["--json"] if json_too else []))
    assert done.status == 2
    assert done.out == "" and "Traceback" not in done.err
    errors = [line for line in done.err.splitlines() if line.startswith("goalmeter: ")]
    assert len(errors) == 1 and message in errors[0]


# --- reflect and report ---------------------------------------------------------------------------
AGENT = """
def agent(history, n_actions, n_observations):
    print("{}")
    return len(history.actions) % n_actions

def bad(history, n_actions, n_observations):
    raise ValueError("\\x1b[31m[red]")

def short(history):
    return 0
"""
SHORT = ["--environment", "IgnoreRewards", "--steps", "9", "--seeds", "2"]


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(AGENT)
    return tmp_path


def test_reflect_gives_json_as_designed_and_nothing_else(
    agents: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    done = start("reflect", "mine.py:agent", *SHORT, "--json", "--seed", "3", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 1
    result = json.loads(done.stdout)
    assert (result["agent"], result["steps"], result["seeds"]) == ("mine.py:agent", 9, 2)
    # Whoever ignores everything agrees with a copy that does: 8 rewards in 9 percepts.
    assert result["measure"] == result["stderr"] == 0
    assert [
        (trial["name"], trial["opposite"], trial["seed"], trial["total_reward"])
        for trial in result["environments"]
    ] == [("IgnoreRewards", way, seed, -8 if way else 8) for seed in (3, 4) for way in (0, 1)]
    assert b"4 of 4 trials" in done.stderr and b"{}" in done.stderr


def test_reflect_for_people_and_its_list(run: Run, agents: Path) -> None:
    done = run("reflect", "rc(naive)", *SHORT, "--against", "naive", "--out", "run")
    assert done.status == 0, done.err
    for words in ("IgnoreRewards", "95% interval", "baseline: random", "less naive, paired"):
        assert words in done.out
    assert "4 of 4 trials" in done.err
    done = run("reflect", "--list")
    assert done.status == 0 and done.err == ""
    for words in ("BackwardConsciousness", "FlipEveryOther", "opposite(NAME)", "rc(NAME)", "ppo"):
        assert words in done.out
    assert len(json.loads(run("reflect", "--list", "--json").out)["environments"]) == 30
    done = run("report", "run", "run.against", "--out", "page.html")
    assert done.status == 0, done.err
    assert done.out.splitlines()[-1] == str((agents / "page.html").resolve())


def test_trials_that_all_fail_have_a_status_and_cannot_steer(run: Run, agents: Path) -> None:
    done = run("reflect", "mine.py:bad", *SHORT, "--workers", "1")
    assert done.status == 3, done.err
    assert done.out.startswith("mine.py:bad: 4 of 4 trials ended early (4 exception); no trial")
    assert "\x1b" not in done.out + done.err
    assert "\\x1b[31m[red]" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reflect"], "AGENT is missing: name one, such as rc(naive)"),
        (["reflect", "naif"], "there is no agent 'naif'; did you mean 'naive'?"),
        (["reflect", "mine.py"], "mine.py is a file; say which of its agents: mine.py:NAME"),
        (["reflect", "none.py:agent"], "there is no file none.py"),
        (["reflect", "rc(naive"], "there is no agent 'rc(naive': a bracket is missing"),
        (["reflect", "constant(-1)"], "in constant(K), K is a whole number, 0 or more"),
        (["reflect", "x.txt:agent"], "expected a file that ends in .py, as in my_agent.py:agent"),
        (["reflect", "mine.py:short"], "mine.py:short: short(history) cannot be called as it"),
        (["reflect", "rc(mine.py:short)"], "mine.py:short: short(history) cannot"),
        (["reflect", "naive", "--environment", "opposite(x"], "'opposite(x': a bracket is missing"),
        (["reflect", "naive", "--environment", "w.txt:W"], "file that ends in .py, as in my_wo"),
        (
            ["reflect", "naive", "--environment", "opposite(opposite(DejaVu))"],
            "the opposite of an opposite is DejaVu itself; name that",
        ),
        (["reflect", "mine.py:agnt"], "mine.py has no agent 'agnt'; did you mean mine.py:agent?"),
        (["reflect", "naive", "--environment", "x"], "there is no environment 'x'"),
        (["reflect", "naive", "--environment", "mine.py:agent"], "expected a class derived from"),
        (["reflect", "naive", "--out", "."], ". holds 'mine.py' and no run.json"),
        (["reflect", "naive", "--opposite-reading", "x"], "expected 'literal' or 'unnegated'"),
        (["report", "."], ". is no run: it has no run.json"),
        (["replicate", "meg-cliffworld", "--agents", "all"], "meg-cliffworld has no option --agen"),
    ],
)
def test_what_reflect_and_report_refuse(
    run: Run, agents: Path, arguments: list[str], message: str
) -> None:
    done = run(*arguments, "--json")
    assert done.status == 2 and done.out == "" and "Traceback" not in done.err
    (error,) = [line for line in done.err.splitlines() if line.startswith("goalmeter: ")]
    assert message in error


@pytest.mark.parametrize("against", ["naif", "mine.py:short", "mine.py:agnt", "none.py:x"])
def test_a_second_agent_is_looked_at_before_the_first_is_played(
    run: Run, agents: Path, against: str
) -> None:
    done = run("reflect", "naive", *SHORT, "--against", against, "--out", "run")
    assert done.status == 2 and done.out == ""
    assert done.err.startswith("goalmeter: ") and done.err.count("\n") == 1
    assert not (agents / "run").exists() and not (agents / "run.against").exists()


def test_the_folder_of_the_second_agent_is_told(run: Run, agents: Path) -> None:
    options = ["reflect", "naive", *SHORT, "--against", "random"]
    result = json.loads(run(*options, "--out", "run", "--json").out)
    assert result["run"] == str((agents / "run").resolve())
    assert result["against_run"] == str((agents / "run.against").resolve())
    assert "against_run" not in json.loads(run(*options, "--json").out)
    longer = run(
        "reflect", "naive", *SHORT, "--against", "constant", "--out", "new", "--steps", "8"
    )
    assert longer.status == 0
    done = run("reflect", "q-learner", *SHORT, "--against", "naive", "--out", "new")
    assert done.status == 2 and "new.against holds another run" in done.err


def test_an_interrupted_measurement_says_what_is_kept(
    run: Run, agents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goalmeter.commands import reflect

    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(reflect, "measure", stop)
    done = run("reflect", "naive")
    assert done.status == 130
    assert "nothing is kept; with --out RUN the finished trials would have been" in done.err
    assert "run keeps what is finished" in run("reflect", "naive", "--out", "run").err


def test_names_of_a_file_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    network = gm.CausalBayesianNetwork(
        {"D": ["a", HOSTILE], HOSTILE: ["a", "b"]},
        {HOSTILE: ["D"]},
        {"D": [0.9, 0.1], HOSTILE: [[1, 0], [0, 1]]},
        name=HOSTILE,
    )
    network.to_bif(tmp_path / "m.bif")
    for goal in (["--target", HOSTILE], ["--sensitivity", "1"], ["--target", "no"]):
        done = run("meg", "causal", tmp_path / "m.bif", "--decision", "D", *goal)
        assert "\x1b" not in done.out + done.err
        assert "\\x1b[31m[red]<b>" in done.out + done.err


def test_wrong_usage_is_status_2(run: Run) -> None:
    wrong = (
        ["meg", "mdp"],
        ["meg", "causal", "m.bif"],
        ["nothing"],
        ["demo", "--seed", "-1"],
        ["reflect", "naive", "--steps", "0"],
        ["report"],
    )
    for arguments in wrong:
        done = run(*arguments)
        assert done.status == 2 and done.out == "" and "Traceback" not in done.err


def test_an_unknown_replication_lists_the_known_ones(run: Run) -> None:
    done = run("replicate", "atlantis")
    assert done.status == 2 and done.out == ""
    assert "'atlantis' is not a known replication, expected one of: meg-cliffworld" in done.err


def test_a_missing_extra_is_named(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = run("demo", "--out", tmp_path / "out")
    assert done.status == 2 and "pip install 'goalmeter[report]'" in done.err
    assert not (tmp_path / "out").exists()


def test_the_demo_ends_with_the_path_of_its_report(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("goalmeter.experiments.demo.organisms.SCALE", SMALL)
    monkeypatch.setitem(sys.modules, "inspect_ai", None)  # ideal organisms walk, in no time
    outcomes: list[Outcome] = []
    seeds = []

    def once(out: Path, *, seed: int, **options: Any) -> Outcome:
        seeds.append(seed)
        outcomes.append(outcomes[0] if outcomes else demo(out, seed=seed, **options))
        return outcomes[-1]

    monkeypatch.setattr("goalmeter.experiments.demo.run.demo", once)
    done = run("demo", "--out", tmp_path / "new")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    last = lines[-1]
    # The summary and the path; tables are in the report.
    assert len(lines) < 60 and "- ideal-mouse: " in done.out and "│" not in done.out
    assert Path(last) == (tmp_path / "new" / "report.html").resolve() and Path(last).is_file()
    done = run("demo", "--out", tmp_path / "new", "--json", "--seed", "3")
    assert json.loads(done.out)["report"] == last and seeds == [0, 3]


def test_an_organism_is_trained_from_a_shell(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    few = ("--steps", 3, "--rate", 0.01, "--from", "nothing", "--sizes", "5", "--no-keys")
    command = ("train-organism", "moth", *few, "--workers", 1, "--out", tmp_path / "moth")
    done = run(*command, "--json")
    assert done.status == 0
    result = json.loads(done.out)
    assert result["organism"] == "moth" and result["weights"] == str((tmp_path / "moth").resolve())
    kept = json.loads((tmp_path / "moth" / "training.json").read_text())
    assert kept["rounds"] == result["rounds"] == [[3, 0.01]] and kept["sizes"] == [5]
    assert (tmp_path / "moth" / "model.safetensors").exists()
    again = run(*command)
    assert again.status == 0 and "goalmeter replicate organisms --agents moth=" in again.out
    reseeded = run(*command, "--seed", 1)
    assert reseeded.status == 2 and "holds another training" in reseeded.err


def test_a_folder_that_cannot_be_written_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run("replicate", "meg-cliffworld", "--seeds", "0", "--out", tmp_path / "file")
    assert done.status == 2 and "cannot be written" in done.err and done.out == ""


def test_interruption_has_the_status_of_the_signal(
    run: Run, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from goalmeter.commands import meg_mdp as measure_mdp

    def stop(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(measure_mdp, "measure_mdp", stop)
    done = run("meg", "mdp", files / "m.npz", "--policy", files / "p.npz")
    assert done.status == 130 and done.out == "" and "Traceback" not in done.err


def start(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    """The command line in a process of its own."""
    environment = os.environ | {"PYTHONPATH": str(SRC), "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "goalmeter", *map(str, arguments)]
    return subprocess.run(command, env=environment, **options)  # type: ignore[call-overload, no-any-return]


def test_a_closed_pipe_is_no_traceback(files: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    arguments = ["meg", "mdp", files / "m.npz", "--policy", files / "p.npz", "--json"]
    done = start(*arguments, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.returncode == cli.PIPE_CLOSED
    assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


def shell(folder: Path, command: str) -> subprocess.CompletedProcess[bytes]:
    """The command line as a shell starts it, with `goalmeter` for its name."""
    named = command.replace("goalmeter", f"{shlex.quote(sys.executable)} -m goalmeter", 1)
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    return subprocess.run(["sh", "-c", named], cwd=folder, env=environment, capture_output=True)


TALKS = """
def agent(history, n_actions, n_observations):
    print("x" * 9999)
    return 0
"""


@pytest.mark.parametrize("broken", [">&-", ">/dev/full"])
@pytest.mark.parametrize(
    "command", ["reflect naive --environment DejaVu --steps 9 --seeds 1", "--help"]
)
def test_a_result_that_cannot_be_written_is_an_error(
    tmp_path: Path, broken: str, command: str
) -> None:
    why = "it is closed" if broken == ">&-" else "No space left on device"
    for options in ("", " --json") if "reflect" in command else ("",):
        done = shell(tmp_path, f"goalmeter {command}{options} {broken}")
        assert done.returncode == cli.UNWRITTEN and done.stdout == b""
        errors = [line for line in done.stderr.decode().splitlines() if "goalmeter: " in line]
        assert errors == [f"goalmeter: the result cannot be written to standard output: {why}"]
        assert b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr


@pytest.mark.parametrize("broken", ["2>&-", "2>/dev/full", "2>&- <&-"])
def test_progress_that_nobody_hears_is_dropped(tmp_path: Path, broken: str) -> None:
    (tmp_path / "talks.py").write_text(TALKS)
    for agent in ("naive", "talks.py:agent"):
        options = f"--environment DejaVu --steps 9 --seeds 1 --out {agent[:5]} --json {broken}"
        done = shell(tmp_path, f"goalmeter reflect {agent} {options}")
        assert done.returncode == 0 and done.stderr == b""
        assert json.loads(done.stdout)["outcomes"] == {"ok": 2}
        kept = (tmp_path / agent[:5] / "trials.jsonl").read_text().splitlines()
        assert [set(json.loads(line)) for line in kept] == [{"key", "value"}] * 2
    # Errors of ours, and of the library that reads the options.
    for arguments in ("reflect naif", "reflect --steps"):
        done = shell(tmp_path, f"goalmeter {arguments} {broken}")
        assert (done.returncode, done.stdout, done.stderr) == (2, b"", b"")


def test_nothing_can_be_written_at_all(tmp_path: Path) -> None:
    done = shell(tmp_path, "goalmeter reflect --list --json >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (cli.UNWRITTEN, b"", b"")


def test_greek_letters_in_any_locale(files: Path) -> None:
    done = start("meg", "mdp", files / "m.npz", "--policy", files / "p.npz", capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "rationality β" in done.stdout.decode("utf-8")


def test_help_loads_nothing_heavy(tmp_path: Path) -> None:
    heavy = ["torch", "matplotlib", "gymnasium", "jinja2", "scipy.optimize", "scipy.stats"]
    program = (
        "import sys; from goalmeter.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        f"print('loaded:', [name for name in {heavy!r} if name in sys.modules])"
    )
    environment = os.environ | {"PYTHONPATH": str(SRC)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True
    )
    assert re.search(r"loaded: \[\]", done.stdout), done.stdout + done.stderr
