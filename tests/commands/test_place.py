"""Where the trials of a command run: what is said, and what is chosen where nothing is."""

from __future__ import annotations

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.commands import options
from goalmeter.commands.navigate import navigate
from goalmeter.commands.options import WORTH_PROCESSES, chosen_place
from goalmeter.commands.replicate import replicate


def test_what_is_said_is_taken() -> None:
    assert chosen_place("processes:3", None, seconds=0.0) == "processes:3"
    assert chosen_place("here", None) == "here"
    assert chosen_place(None, 1) == "processes:1"
    assert chosen_place(None, 7, seconds=0.0) == "processes:7"


def test_otherwise_processes_do_what_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, seconds, expected in (
        (4, WORTH_PROCESSES, "processes:4"),
        (4, WORTH_PROCESSES - 0.01, "here"),
        (1, 1e9, "here"),
    ):
        monkeypatch.setattr(options, "cores", lambda cores=cores: cores)
        assert chosen_place(None, None, seconds=seconds) == expected
    monkeypatch.setattr(options, "cores", lambda: 2)
    assert chosen_place(None, None) == "processes:2"


@pytest.mark.parametrize(
    ("on", "workers", "message"),
    [
        ("here", 2, "--on and --workers both say where .*--workers 2 is short for --on processes:"),
        ("proceses", None, "no place 'proceses' .*did you mean processes"),
        (None, 0, "workers is 0, expected at least 1"),
    ],
)
def test_what_is_refused(on: str | None, workers: int | None, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        chosen_place(on, workers)


@pytest.mark.parametrize("said", [{"on": "processes:2"}, {"workers": 1}])
def test_language_models_are_asked_by_this_process(said: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError, match="goalmeter/mouse is a language model, which"):
        navigate("goalmeter/mouse", **said)  # type: ignore[arg-type]


def test_a_replication_looks_at_its_place_first() -> None:
    with pytest.raises(InvalidParameterError, match="no place 'nowhere'"):
        replicate("tempting-button", on="nowhere")
