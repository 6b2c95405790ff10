"""How a language model is asked: what of it makes a run, what is refused, what continues it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError, InvalidParameterError
from goalmeter.agents.grid_agents import navigator
from goalmeter.agents.local_models import model_agent
from goalmeter.commands.options import ModelOptions, provider_options
from goalmeter.commands.runs import resuming_command
from goalmeter.navigation import SUITES, Episode, walk
from goalmeter.navigation.inspect.models import Server
from goalmeter.navigation.plan import plan_from, plan_of
from goalmeter.navigation.prompts import Asking, conditions, default_prompts, paper_effort
from goalmeter.navigation.rollouts import failures, load, study_of
from goalmeter.navigation.suites import suite_named
from goalmeter.navigation.trajectories import walk_key
from goalmeter.runs import Results, read_run

MAZE = suite_named("maze")
SMALL: dict[str, Any] = {"sizes": [7], "complexities": [1.0], "grids": 2, "trajectories": 1}


@pytest.mark.parametrize("name", SUITES)
def test_what_a_run_of_a_model_is_says_which_walks_it_has(name: str) -> None:
    asking = Asking(token_cap=500, options={"dtype": "bfloat16", "device": "cuda"})
    plan = plan_of("vllm/m", name, grids=2, prompts=["plain/1", "keys/1"], history=2, asking=asking)
    about = json.loads(json.dumps(plan.what))
    again = plan_from(about, "run")
    assert again.tasks == plan.tasks and again.what == about
    # Where a model runs is no part of what the run is.
    assert again.asking == Asking(token_cap=500, options={"dtype": "bfloat16"})
    shown = {
        json.dumps({k: t.condition[k] for k in ("prompt", "history")}) for t in plan.tasks.tasks
    }
    assert len(shown) == 2 and len(plan.keys()) == len(plan.tasks)
    alone = plan_of("vllm/m", name, grids=2, asking=Asking())
    assert {t.condition["prompt"] for t in alone.tasks.tasks} == set(
        default_prompts(suite_named(name))
    )
    # Another model that is asked otherwise is shown beside it, in the same worlds.
    second = plan_of(
        "m/m", name, grids=2, prompts=["plain/1", "keys/1"], history=2, asking=Asking()
    )
    assert second.worlds == plan.worlds != alone.worlds and second.what != plan.what
    # A run of a reference agent is what it was before there were models.
    assert {"prompts", "history", "attempts"} & plan_of(
        "greedy", name, grids=2
    ).what.keys() == set()


def test_the_command_that_continues_a_run_asks_in_the_same_way() -> None:
    asking = Asking(
        attempts=2,
        token_cap=900,
        temperature=1.0,
        top_p=0.9,
        max_tokens=50,
        reasoning_effort="low",
        logprobs=True,
        seeded=False,
        options={"dtype": "bfloat16", "seeds": [1], "batch": 4},
    )
    plan = plan_of("hf/m", "maze", **SMALL, prompts=["keys/1"], history=1, asking=asking)
    text = resuming_command(plan.what, "my run")
    assert text == (
        "goalmeter navigate hf/m --suite maze --sizes 7 --complexities 1.0 --grids 2 "
        "--trajectories 1 --cap-factor 3.0 --prompt keys/1 --history 1 --attempts 2 "
        "--token-cap 900 --temperature 1.0 --top-p 0.9 --max-tokens 50 --reasoning-effort low "
        "--logprobs --no-seeds -M dtype=bfloat16 -M 'seeds=[1]' --out 'my run'"
    )
    options = shlex.split(text)
    listed = [options[i + 1] for i, word in enumerate(options) if word == "-M"]
    assert provider_options(listed) == {"dtype": "bfloat16", "seeds": [1]}
    plain = plan_of("hf/m", "maze", **SMALL, asking=Asking())
    assert resuming_command(plain.what, "run").endswith(" --prompt plain/1 --out run")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attempts": 0}, "attempts is 0, expected at least 1"),
        ({"token_cap": 0}, "token_cap is 0"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"temperature": -0.1}, r"temperature is -0\.1"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"top_p": 0.0}, r"top_p is 0\.0"),
        ({"top_p": 1.1}, r"top_p is 1\.1"),
        ({"reasoning_effort": "hard"}, "reasoning_effort is 'hard', expected one of none, minimal"),
        ({"options": {"api_key": "x"}}, "'api_key' looks like a secret"),
        ({"options": {"token": "x"}}, "'token' looks like a secret"),
    ],
)
def test_settings_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        Asking(**options)


def test_other_things_that_are_refused() -> None:
    with pytest.raises(InvalidParameterError, match="-M is 'batch', expected NAME=VALUE"):
        provider_options(["batch"])
    with pytest.raises(InvalidParameterError, match="history is -1"):
        conditions(["plain/1"], -1)
    with pytest.raises(InvalidParameterError, match="no prompt template 'plain/9'"):
        plan_of("m/m", "maze", **SMALL, prompts=["plain/9"], asking=Asking())
    with pytest.raises(InvalidParameterError, match="listed twice"):
        plan_of("m/m", "maze", **SMALL, prompts=["plain/1", "plain/1"], asking=Asking())
    about = plan_of("m/m", "maze", **SMALL, asking=Asking()).what
    del about["top_p"]
    with pytest.raises(InvalidFileError, match=r"does not say what the run is \(KeyError: 'top_p'"):
        plan_from(about, "run")


def test_names_and_the_efforts_of_the_paper() -> None:
    assert model_agent("vllm/openai/gpt-oss-20b").name == "vllm/openai/gpt-oss-20b"
    spelled = model_agent("goalmeter/epsilon-optimal( 0.20 )").name
    assert spelled == "goalmeter/epsilon-optimal(0.2)"
    assert paper_effort("vllm/openai/gpt-oss-20b", suite_named("maze")) == "low"
    assert paper_effort("goalmeter-local/models/GPT-OSS-20B", suite_named("two-path")) == "medium"
    assert paper_effort("openai/gpt-4o-mini", suite_named("maze")) is None

    def effort(**options: Any) -> str | None:
        paper = options.pop("paper", True)
        return ModelOptions(**options).asking("vllm/gpt-oss", MAZE, paper=paper).reasoning_effort

    assert (effort(), effort(paper=False), effort(reasoning_effort="high")) == ("low", None, "high")


def test_options_that_were_not_given_are_the_defaults() -> None:
    assert ModelOptions().asking("m/m", MAZE, paper=False) == Asking()
    assert ModelOptions().server() == Server()
    options = ModelOptions(base_url="http://there/v1", max_connections=3, timeout=5, no_seeds=True)
    assert options.server() == Server(base_url="http://there/v1", max_connections=3, timeout=5)
    assert not options.asking("m/m", MAZE, paper=False).seeded


def test_a_walk_that_failed_is_a_try_until_it_ends(tmp_path: Path) -> None:
    plan = plan_of("m/m", "maze", **SMALL, asking=Asking())
    (task, index), (second, _) = plan.tasks.walks()
    name, missing = walk_key(task, index), walk_key(second, 0)
    late, gone = (Episode(task).trajectory(0, why) for why in ("timeout", "server unreachable"))
    done = walk(navigator("optimal"), task)
    with Results(study_of(plan), tmp_path) as results:
        results.keep(name, late)
        results.keep(name, gone)
        assert list(read_run(tmp_path).values) == [f"{name}, failed 1", f"{name}, failed 2"]
        assert results.left == [name, missing] and results.by_key() == {name: gone}
        with pytest.raises(InvalidFileError, match="lacks 1 of 2 walks"):
            load(tmp_path)
        results.keep(missing, Episode(second).trajectory(0, "token cap"))
        assert [t.outcome for t in load(tmp_path).trajectories] == [
            "server unreachable",
            "token cap",
        ]
        results.keep(name, done)
        assert len(read_run(tmp_path).values) == 4  # nothing of the past is overwritten
        assert results.left == [] and results.by_key()[name] == done
    measured = load(tmp_path).trajectories
    assert (
        measured[0] == done
        and failures(measured) == {}
        and failures([late, gone, done]) == {"timeout": 1, "server unreachable": 1}
    )
