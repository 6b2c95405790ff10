"""Where the trials of a command run: what is said, and what is chosen where nothing is."""

from __future__ import annotations

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.commands.declare import RunOptions
from goalmeter.commands.navigate import navigate
from goalmeter.navigation.inspect.models import read_limits


def test_what_is_given_is_taken() -> None:
    assert RunOptions(on="processes:3").place(seconds=0.0) == "processes:3"
    assert RunOptions(on="here").place() == "here"
    assert RunOptions(workers=7).place(seconds=0.0) == "processes:7"


def test_otherwise_processes_make_what_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, seconds, expected in ((4, 3.0, "processes:4"), (4, 2.9, "here"), (1, 1e9, "here")):
        monkeypatch.setattr("goalmeter.runs.cores", lambda cores=cores: cores)
        assert RunOptions().place(seconds=seconds) == expected


@pytest.mark.parametrize(
    ("on", "workers", "message"),
    [
        ("here", 2, "--on and --workers both say where .*--workers 2 is short for --on"),
        ("proceses", None, "'proceses' does not exist, .*did you mean 'processes'"),
        (None, 0, "workers is 0, expected at least 1"),
    ],
)
def test_what_is_refused(on: str | None, workers: int | None, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        RunOptions(on=on, workers=workers).place()


@pytest.mark.parametrize("said", [{"on": "processes:2"}, {"workers": 1}])
def test_language_models_are_asked_by_this_process(said: dict[str, object]) -> None:
    with pytest.raises(InvalidParameterError, match="goalmeter/mouse is a language model, which"):
        navigate("goalmeter/mouse", **said)  # type: ignore[arg-type]


def test_a_budget_has_limits_with_commas_between_them() -> None:
    assert read_limits("--budget", "tokens=2e6,usd=2.50") == {"tokens": 2_000_000, "usd": 2.5}
    for text in ("tokens=1.5", "calls=3", "usd=nan", "usd=-1", "tokens=inf", "tokens", ""):
        with pytest.raises(InvalidParameterError, match="--budget"):
            read_limits("--budget", text)
