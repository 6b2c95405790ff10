"""Language models on histories: text that can be read back, calibration, shared computation."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from lm.mocks import mock
from reflection.histories import histories, many_examples, tell

import goalmeter as gm
from goalmeter._errors import InvalidParameterError
from goalmeter.agents import inspect_providers
from goalmeter.agents.abilities import Ability, MissingAbilityError
from goalmeter.agents.history import Agent, History, Percept, RealityCheck
from goalmeter.agents.local_models import ContextOverflowError, LocalModel
from goalmeter.agents.registry import agent as named
from goalmeter.agents.registry import history_agent
from goalmeter.agents.text_histories import (
    ForcedChoiceAgent,
    Messages,
    ReplyAgent,
    messages_of,
)
from goalmeter.organisms import weights_of
from goalmeter.reflection.environments.registry import find
from goalmeter.reflection.measure import forecast
from goalmeter.reflection.trial import Trial, run_trial

RENDERINGS = ("transcript", "chat")
# Copies at altered histories, copies that live on their own, forks, replays, more actions.
PLACES = ("IgnoreRewards", "CryingBaby", "IncentivizeZero", "TemptingButton", "LimitedMemory")
PLACES += ("DejaVu", "ThirdActionForbidden", "AdversarialSequencePredictor")


def read_history(text: str) -> tuple[History, int, int]:
    """The history that a text renders, and the numbers of actions and observations."""
    counts = re.search(r"actions 0 to (\d+)\nobservations 0 to (\d+)\n", text)
    assert counts is not None
    percepts, actions = [], []
    turns = re.findall(r"reward (\S+) observation (\d+) action(?:\s+(-?\d+))?", text)
    for reward, observation, action in turns:
        percepts.append(Percept(float(reward), int(observation)))
        actions += [int(action)] if action else []
    return History(tuple(percepts), tuple(actions)), int(counts[1]) + 1, int(counts[2]) + 1


def read_messages(messages: Messages) -> tuple[History, int, int]:
    return read_history("\n".join(message["content"] for message in messages))


def action_of(agent: Agent, history: History, n_actions: int, n_observations: int) -> int:
    return tell(agent.begin(n_actions, n_observations), history).act()


class ScriptedModel(LocalModel):
    """A network on characters that is sure of what an agent does at the history that it reads."""

    context = 10**6  # type: ignore[assignment]

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def tokenizer(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:  # type: ignore[override]
        return {"input_ids": [*text.encode()]}

    def ids(self, messages: Sequence[Any], **template: Any) -> tuple[int, ...]:
        return tuple("".join(f"<{m['role']}>{m['content']}\n" for m in messages).encode())

    def extended(self, cache: Any, ids: Sequence[int]) -> tuple[Any, torch.Tensor]:
        cache = (cache or ()) + tuple(ids)
        text = re.sub("<user>|<assistant>", "", bytes(cache).decode())
        logits = torch.zeros(128)
        if text.rstrip().endswith("action"):
            logits[ord(str(action_of(self.agent, *read_history(text))))] = 100.0
        return cache, logits


def totals(make: Callable[[int], Agent], seed: int = 3) -> list[Trial]:
    return [
        run_trial(make(seed), find(name)[0], opposite=way, steps=10, seed=seed)
        for name in PLACES
        for way in (False, True)
    ]


def rewards(trials: Sequence[Trial]) -> list[float]:
    assert {trial.outcome for trial in trials} == {"ok"}
    return [trial.total_reward for trial in trials]


# --- Text -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("rendering", RENDERINGS)
@many_examples
@given(history=histories(n_actions=3, illegal=True))
def test_a_history_is_read_back_and_its_text_is_only_extended(
    rendering: str, history: History
) -> None:
    mind = ReplyAgent(0, rendering, lambda messages, seed: "").begin(3, 2)
    before: Messages = []
    for n, percept in enumerate(history.percepts, start=1):
        if n > 1:
            mind.take(history.actions[n - 2])
        mind.perceive(*percept)
        messages = messages_of(rendering, (3, 2), mind.turn)  # type: ignore[attr-defined]
        read, *counts = read_messages(messages)
        assert counts == [3, 2] and read.actions == history.actions[: n - 1]
        assert read.percepts == tuple((float(r), o) for r, o in history.percepts[:n])
        if rendering == "chat":
            assert messages[: len(before)] == before
        elif before:
            assert messages[0]["content"].startswith(before[0]["content"])
        before = messages


@pytest.mark.parametrize(
    ("reply", "action"),
    [
        ("1", 1),
        ("I choose 1.", 1),
        ("There are 2 actions; action 0", 0),
        ("**1**", 1),
        ("1.5 or -1 or x1", None),
        ("", None),
    ],
)
def test_the_first_legal_action_of_a_reply_counts(reply: str, action: int | None) -> None:
    agent = ReplyAgent(3, "chat", lambda messages, seed: reply)
    mind, random = agent.begin(2, 1), history_agent("random", 3).begin(2, 1)
    for each in (mind, random):
        each.perceive(0, 0)
    assert mind.act() == (random.act() if action is None else action)
    assert mind.act() == mind.act() and agent.calls == 1
    assert agent.invalid_replies == (action is None)


# --- Calibration ----------------------------------------------------------------------------------
@pytest.mark.parametrize("options", ["transcript", "chat, greedy"])
@pytest.mark.parametrize("name", ["constant(1)", "naive", "q-learner", "rc(naive)"])
def test_scripted_agents_behind_text_have_their_own_totals(name: str, options: str) -> None:
    inner = name.removeprefix("rc(").removesuffix(")") if name.startswith("rc(") else name

    def checked(agent: Agent) -> Agent:
        return agent if inner == name else RealityCheck(agent)

    def reply_of(seed: int) -> Callable[[Messages, int], str]:
        scripted = history_agent(inner, seed)
        return lambda messages, _: f"Action {action_of(scripted, *read_messages(messages))}."

    def forced(seed: int) -> Agent:
        return ForcedChoiceAgent(seed, options, ScriptedModel(history_agent(inner, seed)))

    direct = rewards(totals(lambda seed: history_agent(name, seed)))
    assert len({*direct}) > 1
    by_reply = totals(lambda seed: checked(ReplyAgent(seed, options, reply_of(seed))))
    assert rewards(by_reply) == direct
    assert {trial.invalid_replies for trial in by_reply} == {0}
    assert rewards(totals(lambda seed: checked(forced(seed)))) == direct


def test_a_model_without_legal_replies_is_random() -> None:
    silent = totals(lambda seed: ReplyAgent(seed, "transcript", lambda messages, seed: "no"))
    assert rewards(silent) == rewards(totals(lambda seed: history_agent("random", seed)))
    assert all(trial.calls == trial.invalid_replies for trial in silent)
    assert all(Trial.from_json(trial.to_json()) == trial for trial in silent)


# --- A network ------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def mouse() -> LocalModel:
    return LocalModel(weights_of("mouse"))


def played(model: LocalModel, name: str, steps: int, options: str = "chat") -> ForcedChoiceAgent:
    agent = ForcedChoiceAgent(0, options, model)
    assert run_trial(agent, find(name)[0], steps=steps, seed=0).outcome == "ok"
    return agent


@pytest.mark.parametrize("name", ["IgnoreRewards", "TemptingButton", "CryingBaby"])
def test_a_run_is_linear_in_its_steps(mouse: LocalModel, name: str) -> None:
    """Each further step costs the tokens of the agent's turn and of its copy's, no more."""
    agents = [played(mouse, name, steps) for steps in (6, 12, 24)]
    turn = len(mouse.ids([{"role": "user", "content": "reward 0 observation 0 action"}])) + 3
    for before, after, steps in zip(agents[:2], agents[1:], (6, 12), strict=True):
        assert 0 < after.positions - before.positions <= 2 * turn * steps
        assert after.calls - before.calls <= 2 * steps


def test_extended_caches_give_the_logits_of_the_whole_text(mouse: LocalModel) -> None:
    ids = mouse.ids([{"role": "user", "content": "reward 1 observation 0 action 1 2 3"}])
    cache, _ = mouse.extended(None, ids[:3])
    others = mouse.extended(cache, ids[:2])[1]  # a fork, which changes nothing in the original
    parts = mouse.extended(mouse.extended(cache, ids[3:5])[0], ids[5:])[1]
    torch.testing.assert_close(parts, mouse.extended(None, ids)[1], rtol=1e-4, atol=1e-4)
    assert not torch.allclose(others, parts) and cache.get_seq_length() == 3


def test_equal_histories_have_equal_actions_and_are_computed_once(mouse: LocalModel) -> None:
    agent = ForcedChoiceAgent(0, "transcript", mouse)
    history = History(tuple(Percept(n % 3 - 1, 0) for n in range(12)), (0, 1) * 5 + (1,))
    first = tell(agent.begin(2, 1), history)
    action, positions = first.act(), agent.positions
    again = tell(agent.begin(2, 1), history).fork()
    again.take(0)
    again.perceive(1, 0)
    assert (first.act(), first.fork().act()) == (action, action)
    again.act()
    assert agent.positions - positions < positions / 6  # only the last turn
    other = tell(agent.begin(2, 1), History(history.percepts, (1, 0) * 5 + (0,)))
    computed = [agent.positions]
    for reward in (0, 1):
        fork = other.fork()
        fork.take(0)
        fork.perceive(reward, 0)
        fork.act()
        computed.append(agent.positions)
    assert computed[2] - computed[1] < (computed[1] - computed[0]) / 6  # forks share the rest
    actions = {
        seed: [
            action_of(ForcedChoiceAgent(seed, "transcript", mouse), part, 2, 1)
            for part in (History(history.percepts[:n], history.actions[: n - 1]) for n in (2, 5, 9))
        ]
        for seed in range(6)
    }
    assert len({tuple(each) for each in actions.values()}) > 1  # draws depend on the seed
    with pytest.raises(ContextOverflowError, match="model's context of 512; use fewer steps"):
        tell(agent.begin(2, 1), History((Percept(0, 0),) * 200, (0,) * 199)).act()


def test_actions_that_tokens_do_not_distinguish_are_refused() -> None:
    agent = ForcedChoiceAgent(0, "transcript", ScriptedModel(history_agent("constant")))
    agent.check_counts(10, 1)
    with pytest.raises(InvalidParameterError, match="do not distinguish the actions 0 to 10;"):
        agent.check_counts(11, 1)


# --- Names and measures ---------------------------------------------------------------------------
def test_names_say_how_histories_are_rendered() -> None:
    spelled = named("goalmeter/mouse( chat,greedy )")
    assert spelled.name == "goalmeter/mouse(chat, greedy)"
    assert spelled.abilities == (Ability.HISTORY,)
    assert named("rc(goalmeter/mouse(chat))").abilities == (Ability.HISTORY,)
    assert Ability.HISTORY in named("openai/gpt-5").abilities
    with pytest.raises(MissingAbilityError, match="the rendering chat requires an action at a"):
        named("goalmeter/greedy(chat)")


def test_an_organism_is_measured_with_a_note(tmp_path: Path) -> None:
    where: dict[str, Any] = {"environments": "IgnoreRewards", "steps": 6, "seeds": 1}
    result = gm.reflection.measure("rc(goalmeter/mouse)", **where, out=tmp_path)
    calls = sum(trial.calls or 0 for trial in result.trials)
    assert 10 <= calls <= 20 and result.outcomes == {"ok": 2}
    for text in (str(result), str(gm.reflection.load(tmp_path)), result._repr_html_()):
        assert "rc(goalmeter/mouse): trained to navigate grid worlds, not to act on these" in text
        assert f"{calls} calls, 0 replies without a legal action" in text
    assert "calls" not in gm.reflection.measure("naive", **where).trials[0].to_json()


def test_calls_of_a_server_are_forecast_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspect_providers, "_loop", None)  # a call would fail
    where: dict[str, Any] = {"environments": ["IgnoreRewards", "TemptingButtonVariation"]}
    told = forecast("mockllm/model", **where, steps=20, seeds=3)
    # IgnoreRewards asks the agent and its copy, which share the first history: 2 * 19 - 1. In
    # TemptingButtonVariation only who pushes in a room without button is simulated.
    assert told.trials == 12 and told.hours is None and told.calls is not None
    assert 3 * 4 * 19 <= told.calls.least < told.calls.most <= 3 * 4 * 2 * 19


def test_a_model_of_inspect_samples_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = set()

    def answer(prompt: str, config: Any) -> str:
        seeds.add(config.seed)
        return "I play 1." if prompt.endswith("action") else ""

    where: dict[str, Any] = {"environments": "opposite(CryingBaby)", "steps": 5, "seeds": 1}
    silent = gm.reflection.measure("mockllm/model(chat)", **where)
    assert silent.by_environment() == gm.reflection.measure("random", **where).by_environment()
    monkeypatch.setattr(inspect_providers.lm, "get_model", lambda name: mock(answer))
    steady = gm.reflection.measure("mockllm/model(chat)", **where)
    assert steady.by_environment() == gm.reflection.measure("constant(1)", **where).by_environment()
    assert len(seeds) == sum(trial.calls or 0 for trial in steady.trials)
