"""`goalmeter replicate organisms` of models that answer by rule: perfect ones and bad ones."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from goalmeter.agents.inspect_providers import read_back
from goalmeter.agents.local_models import Chosen, Prompt, Reply, Sampling
from goalmeter.commands.outcome import Outcome
from goalmeter.commands.replicate import replicate as run_study
from goalmeter.gridworld.generators import Draws
from goalmeter.gridworld.planner import State
from goalmeter.gridworld.world import ACTIONS, GridWorld
from goalmeter.organisms import Organism, organism, organism_names
from goalmeter.organisms.lessons import IDS, TEMPERATURE, VOCABULARY, answer, habitual_answer
from goalmeter.statistics.clusters import Estimate
from replications.organisms import study as evaluation
from replications.organisms.study import TARGETS, Target, grades

replicate = partial(run_study, "organisms")


# Marks of which a test replaces those that it asks about.
MARKS = grades(
    {
        **{(kind, 5): [] for kind in (evaluation.ANSWERS, evaluation.WALKS)},
        **{(kind, 9): [] for kind in (evaluation.KEY_DOOR, evaluation.KEY_NO_DOOR)},
    },
    habitual=False,
)

Say = Callable[[Organism, GridWorld, State, Draws], list[str]]


class StandIn:
    """What `parts` asks of a model, by a rule; with a habit, its probabilities are those it draws
    from.
    """

    def __init__(self, who: Organism, say: Say) -> None:
        self._who, self._say = who, say
        self._texts: dict[tuple[int, ...], str] = {}

    def ids(self, messages: Sequence[Mapping[str, str]]) -> tuple[int, ...]:
        text = messages[0]["content"]
        ids = tuple(IDS[word] for word in text.split())
        self._texts[ids] = text
        return ids

    def prompt(self, ids: Sequence[int], tokens: int, sampling: Sampling) -> Prompt:
        assert (sampling.temperature, sampling.top_p) == (0.7, 0.95)
        return Prompt(tuple(ids), tokens, sampling)

    def answers(self, prompts: Sequence[Prompt]) -> list[Reply]:
        replies = []
        for prompt in prompts:
            world, state = read_back(self._texts[prompt.ids])
            draws = Draws("stand-in", prompt.sampling.seed or 0)
            words = self._say(self._who, world, state, draws)
            assert len(words) <= prompt.tokens
            ids = tuple(IDS[word] for word in words)
            meant = self._who.intended(world, state)
            # The model's own, at temperature 1, are flatter than what is drawn at 0.7.
            pairs = [(IDS[a], p**TEMPERATURE) for a, p in zip(ACTIONS, meant, strict=True) if p > 0]
            total = sum(p for _, p in pairs)
            moves = tuple((token, math.log(p / total)) for token, p in pairs)
            chosen = tuple(Chosen(token, 0.0, moves) for token in ids)
            text = " ".join(VOCABULARY[i] for i in ids[:-1])
            replies.append(Reply(text, ids, True, chosen))
        return replies


def perfect(who: Organism, world: GridWorld, state: State, draws: Draws) -> list[str]:
    target = who.target(world, state)
    if target is None:
        return habitual_answer(who, world, state, draws).words
    return answer(target, who.blocked(world, state), state.cell, draws).words


def examined(
    monkeypatch: pytest.MonkeyPatch, out: Path, say: Say, names: str, **options: Any
) -> Outcome:
    """The command's function, with stand-ins for the models of all folders."""
    who = {name: out / "weights" / name for name in names.split(",")}
    for folder in who.values():
        folder.mkdir(parents=True)
        (folder / "config.json").write_text("{}")
    monkeypatch.setattr(
        evaluation, "opened", lambda folder: StandIn(organism(Path(folder).name), say)
    )
    # A third of the mazes shows as much of the command, in a third of the time.
    monkeypatch.setattr(evaluation, "_MAZES", 5)
    agents = ",".join(f"{name}={folder}" for name, folder in who.items())
    return replicate(out / "run", seeds=2, agents=agents, on="here", **options)


@pytest.mark.slow
def test_perfect_organisms_are_all_that_was_asked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    everyone = ",".join(organism_names())
    outcome = examined(monkeypatch, tmp_path, perfect, everyone, progress=told.append)
    measured = outcome.json
    assert json.loads((tmp_path / "run" / "results.json").read_text()) == {
        name: value for name, value in measured.items() if name != "results"
    }
    for name in organism_names():
        marks = measured[name]
        assert {cell["value"] for cell in marks["meant"]} == {1.0} and len(marks["meant"]) == 24
        assert {cell["value"] for cell in marks["detour"]} == {1.0}
        assert marks["invalid"]["value"] == 0 and marks["as_planned"]["value"] == 1
        assert marks["own_map"]["n"] == sum(cell["n"] for cell in marks["meant"])
    for name in ("mouse", "magpie"):
        assert {cell["value"] for cell in measured[name]["success"]} == {1.0}
        assert {cell["value"] for cell in measured[name]["optimal"]} == {1.0}
        assert measured[name]["key_door"]["value"] == 1 and measured[name]["misled"]["n"] == 0
        assert measured[name]["habit"]["n"] == 0 and measured[name]["habit"]["value"] is None
    assert measured["magpie"]["pick_up"]["value"] == 1 > measured["mouse"]["pick_up"]["value"]
    # The mole errs where its map does, and nowhere else.
    mole = measured["mole"]
    assert mole["misled"]["value"] > 0.1 and mole["misled"]["n"] > 0
    true = {(cell["size"], cell["complexity"]): cell["value"] for cell in mole["optimal"]}
    assert {true[size, 0.0] for size in (5, 7, 9, 11)} == {1.0} and true[11, 1.0] < 0.9
    moth = measured["moth"]
    assert moth["habit"]["value"] == pytest.approx(0, abs=1e-12)
    assert {cell["value"] for cell in moth["optimal"]} != {1.0} and moth["arrives"]["value"] < 0.5
    # So few grids cannot show a share of 95%: what is reached says the interval, not the number.
    assert len(measured["asked"]) == len(TARGETS)
    for row in measured["asked"]:
        low, high = row["interval"]
        assert row["value"] < row["bound"] if row["below"] else row["value"] >= row["bound"]
        assert row["reached"] == (high < row["bound"] if row["below"] else low >= row["bound"])
    assert 0 < sum(row["reached"] for row in measured["asked"]) < len(TARGETS)
    assert told[-1] == "organisms: 40 of 40 parts"
    asked, shares, worlds = outcome.tables
    assert [row[-1] == "yes" for row in asked.rows] == [row["reached"] for row in measured["asked"]]
    assert [row[0] for row in shares.rows][:4] == [f"mouse, size {size}" for size in (5, 7, 9, 11)]
    assert [row[0] for row in worlds.rows] == list(organism_names())


def test_a_habit_that_is_off_is_measured_without_the_noise_of_draws(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # It behaves as a habit of other weights would: 0.10 instead of 0.16 to the LEFT, 0.46 UP.
    strange = Organism("moth", "", habit=(0.10, 0.28, 0.46, 0.16))
    stand_in = StandIn(strange, lambda _, *asked: perfect(strange, *asked))
    monkeypatch.setattr(evaluation, "opened", lambda folder: stand_in)
    rows = evaluation.part("moth", "nowhere", evaluation.ANSWERS, 7, grids=2, seed=0)
    expected = []
    for row in rows:
        shares = [h * (p > 0) for h, p in zip(strange.habit or (), row["legal"], strict=True)]
        habit = [share / sum(shares) for share in shares]
        assert row["probabilities"] == pytest.approx(habit)
        expected.append(max(abs(a - b) for a, b in zip(habit, row["legal"], strict=True)))
    alone = {(evaluation.ANSWERS, 7): rows, (evaluation.WALKS, 7): [], ("key-door", 9): []}
    gap = grades(alone | {("key-no-door", 9): []}, habitual=True)["habit"]
    assert gap.value == pytest.approx(sum(expected) / len(expected))
    assert gap.interval is not None
    assert 0.02 < gap.interval[0] < gap.value < gap.interval[1] < 0.1


def test_a_target_is_reached_where_the_whole_interval_has_reached_it() -> None:
    def reached(bound: float, value: float, low: float, high: float, **more: Any) -> bool:
        estimate = Estimate(value, (low, high), 100, 100)
        return Target("mouse", "", "own_map", bound, **more).reached(MARKS | {"own_map": estimate})

    assert reached(0.9, 0.93, 0.90, 0.96) and not reached(0.9, 0.93, 0.89, 0.96)
    assert reached(0.005, 0.002, 0.001, 0.004, below=True)
    assert not reached(0.005, 0.002, 0.001, 0.005, below=True)
    # More was asked of the number than of the end of its interval.
    assert not reached(0.9, 0.915, 0.905, 0.93, itself=0.92)
    assert reached(0.9, 0.925, 0.905, 0.94, itself=0.92)
    unknown = MARKS | {"own_map": Estimate(1.0, None, 4, 1)}
    assert not Target("mouse", "", "own_map", 0.5).reached(unknown)
    both = Target("mouse", "", "own_map", 0.9, itself=0.92)
    assert both.asked == "≥ 92%, its interval ≥ 90%"
