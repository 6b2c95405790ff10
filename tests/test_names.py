"""The nearest name, and the messages that propose it."""

from __future__ import annotations

import pytest

from goalmeter import cli
from goalmeter._names import did_you_mean, nearest
from goalmeter.agents import agent
from goalmeter.agents.local_models import prompted_agent
from goalmeter.organisms import organism, organism_names
from goalmeter.organisms.training import recipe


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mouze", "mouse"),
        ("MOUSE", "mouse"),
        (" moths", "moth"),
        ("magpy", "magpie"),
        ("rat", None),
        ("", None),
        ("\ud800", None),
        (7, None),
        ("m" * 10**6, None),  # compared by its first letters, or this would take minutes
    ],
)
def test_the_nearest_organism(name: object, expected: str | None) -> None:
    assert nearest(name, organism_names()) == expected


def test_a_name_is_proposed_in_its_own_spelling_and_if_it_is_near_enough() -> None:
    assert nearest("a", ["A", "a"]) == "A"
    # Two of three letters are shared on either side: 2·2/6 = 0.67.
    assert nearest("abx", ["aby"]) == "aby" and nearest("abx", ["aby"], cutoff=0.7) is None


def test_a_proposal_is_part_of_a_sentence_or_nothing() -> None:
    assert did_you_mean("mouze", ["mouse"]) == "; did you mean mouse?"
    assert did_you_mean("rat", ["mouse"]) == ""
    assert did_you_mean("Maze", ["maze"], quoted=True) == "; did you mean 'maze'?"
    assert did_you_mean("x" * 10**6, ["maze"]) == ""


@pytest.mark.parametrize(
    ("ask", "name", "message"),
    [
        (
            agent,
            "goalmeter/mouze",
            "there is no model 'goalmeter/mouze', expected an organism (mouse, magpie, mole, moth) "
            "or a baseline agent (optimal, greedy, random, epsilon-optimal, key-seeker, "
            "boltzmann(BETA)) after goalmeter/; did you mean goalmeter/mouse?",
        ),
        (agent, "goalmeter/gredy", "did you mean goalmeter/greedy?"),
        (agent, "goalmeter/rat", "there is no model 'goalmeter/rat', expected an organism"),
        (agent, "goalmeter/boltzmann(x)", "expected boltzmann(BETA) with a number"),
        (prompted_agent, "mouze", "did you mean goalmeter/mouse?"),
        (prompted_agent, "wall-follower", "has memory, which prompts do not support"),
        (
            agent,
            "mouze",
            "there is no agent 'mouze'; did you mean 'goalmeter/mouse'? `goalmeter agents` lists",
        ),
        (organism, "mouze", "magpie, mole, moth; did you mean mouse?"),
        (recipe, "Mole", "there is no organism 'Mole', expected one of mouse"),
    ],
)
def test_unknown_names_propose_the_nearest(ask: object, name: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        ask(name)  # type: ignore[operator]
    assert message in str(error.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ["navigate", "goalmeter/mouze"],
        ["navigate", "mouze"],
        ["train-organism", "mouze"],
        ["replicate", "organisms", "--agents", "mouze"],
        ["replicate", "organisms", "--agents", "mouze=somewhere"],
    ],
)
def test_the_command_line_says_it_in_a_line(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr("sys.argv", ["goalmeter", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    message = capsys.readouterr().err
    assert stopped.value.code == 2 and message.count("\n") == 1
    assert "mouze" in message and "mean" in message and "mouse" in message
