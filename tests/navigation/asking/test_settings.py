"""How a language model is asked: what of it makes a run, what is refused, what continues it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidFileError
from goalmeter.agents.grid_agents import navigator
from goalmeter.commands.options import provider_options
from goalmeter.commands.runs import resuming_command
from goalmeter.navigation import SUITES, Episode, walk
from goalmeter.navigation.plan import plan_from, plan_of
from goalmeter.navigation.prompts import Asking, default_prompts
from goalmeter.navigation.rollouts import failures, load, study_of
from goalmeter.navigation.suites import suite_named
from goalmeter.runs import Results, read_run

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


def test_a_walk_that_failed_is_a_try_until_it_ends(tmp_path: Path) -> None:
    plan = plan_of("m/m", "maze", **SMALL, asking=Asking())
    first, other = plan.tasks.walks()
    (task, _), (second, _) = first, other
    name, missing = first.name, other.name
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
