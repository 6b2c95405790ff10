"""Requirements on a card through the command line, and verdicts on claims."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from card.example_cards import MEG, Done, card, row, run, with_row, write

from goalmeter import GoalmeterError
from goalmeter.card.gates import read_claim, with_verdict
from goalmeter.card.records import CARD_JSON, EXACT, ITEMS_JSON, CardRow

Check = Callable[..., Done]


@pytest.fixture
def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Check:
    """`goalmeter card` of a card in a folder of its own."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)

    def call(made: Any, *arguments: object) -> Done:
        folder = made if isinstance(made, Path) else write(tmp_path / "card", made)
        return run(monkeypatch, capsys, "card", folder, *arguments)

    return call


@pytest.mark.parametrize(
    ("requirement", "status"),
    [
        ("meg.lower >= 2", 0),
        ("meg.lower > 2", 4),
        ("meg.upper<=3.0", 0),
        ("meg.upper < 3", 4),
        ("meg.value >= 2.6", 4),
        ("exact.lower >= 1", 0),  # the ends of an exact value are the value
        ("bounds.upper <= 6e0", 0),
        ("missing.value >= 0", 4),
        ("missing.value <= 0", 4),
        ("swap.upper <= 0.05", 4),  # no interval
        ("mge.lower >= 0", 4),
    ],
)
def test_requirements_on_values_and_ends(check: Check, requirement: str, status: int) -> None:
    done = check(card(), "--require", requirement)
    assert done.status == status
    assert ("1 of 2 requirements are not met" in done.err) == (status == 4)


def test_what_is_missing_is_named(check: Check) -> None:
    required = ["--require", "swap.lower <= 1", "--require", "mge.lower >= 0", "--json"]
    gates = json.loads(check(card(), *required).out)["gates"]
    assert [gate["passed"] for gate in gates] == [True, False, False]
    assert gates[1]["found"] == "swap.lower is missing"
    assert gates[2]["found"] == "the card has no row mge; did you mean meg?"


def test_a_failed_trial_fails_whatever_is_required(check: Check) -> None:
    failed = card(failures={"timeout": 2, "crash": 0})
    done = check(failed, "--require", "meg.value >= 0")
    assert done.status == 4 and "failed trials: timeout 2" in done.out and "crash" not in done.out
    assert check(card(failures={"crash": 0}), "--require", "meg.value >= 0").status == 0


def test_the_paired_difference_from_a_baseline(check: Check, tmp_path: Path) -> None:
    worlds = {f"w{n}": [n % 4, 4] for n in range(12)}
    better = {name: [low + 1 - (name == "w0") * 0.5, 4] for name, (low, _) in worlds.items()}
    old = write(tmp_path / "old", card(), {"optimal": worlds})
    new = write(tmp_path / "new", card(), {"optimal": better})
    base = ("--baseline", old)
    # By hand: 11 worlds gain 1/4 and one 1/8; mean 0.2396, t interval [0.2167, 0.2625].
    for threshold, status in ((0.216, 0), (0.218, 4)):
        required = f"optimal.difference.lower >= {threshold}"
        assert check(new, *base, "--require", required).status == status
    assert check(new, *base, "--require", "optimal.difference.value <= 0.24").status == 0
    # Equal intervals without data by world: value 0, independent.
    assert check(new, *base, "--require", "meg.difference.lower >= -0.8").status == 0
    assert check(new, *base, "--require", "meg.difference.lower >= -0.7").status == 4
    assert check(new, *base, "--require", "swap.difference.value <= 1").status == 4
    done = check(new, "--require", "meg.difference.lower >= -0.5")
    assert done.status == 2 and "add --baseline" in done.err


@pytest.mark.parametrize(
    "requirement",
    ["meg >= 2", "meg.lower = 2", "meg.lower >= nan", "meg.lower >= two", "meg.mean >= 2", ""],
)
def test_a_malformed_requirement_is_invalid_input(check: Check, requirement: str) -> None:
    done = check(card(), "--require", requirement)
    assert done.status == 2 and "expected ROW.END" in done.err and done.out == ""


# --- Formats --------------------------------------------------------------------------------------
HOSTILE = "a,b:c%0A\n::set-output name=x::y\r::error::z|<img src=x>`[l](http://x)\x1b[31m\u202e"


def test_foreign_text_cannot_leave_its_line_in_a_workflow(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    hostile = card(HOSTILE, failures={HOSTILE: 1})
    done = check(hostile, "--require", "meg.lower >= 9", "--format", "github")
    assert done.status == 4
    lines = done.out.rstrip("\n").split("\n")
    assert len(lines) == 2 and done.out.isprintable() == (len(lines) == 1)
    for line in lines:
        head, title, message = re.fullmatch(r"(::error) title=(.*?)::(.*)", line).groups()  # type: ignore[union-attr]
        assert head == "::error" and not set(title) & set(":,\r\n")
        assert "\r" not in message and "\x1b" not in line and "\u202e" not in line
        assert "%2C" in title and "%3A" in title and "%250A%0A" in title
    assert lines[1].endswith("::meg.lower >= 9: 2")
    text = summary.read_text()
    assert text.startswith("before\n### ")
    body = text.split("<!-- table", 1)[1]
    assert "<img" not in body and "`" not in body and "[l]" not in body
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert [line.count("|") for line in rows] == [4] * 4


def test_a_workflow_without_failures_has_no_errors(check: Check) -> None:
    done = check(card(), "--require", "meg.lower >= 2", "--format", "github")
    assert done == (0, "", "")


def test_junit_is_well_formed(check: Check) -> None:
    hostile = card(HOSTILE, failures={HOSTILE: 1})
    done = check(hostile, "--require", "meg.lower >= 2", "--format", "junit")
    assert done.status == 4
    suite = ElementTree.fromstring(done.out)
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite] == ["no failed trial", "meg.lower >= 2"]
    assert "a,b:c%0A" in str(suite[0][0].get("message")) and len(suite[1]) == 0


def test_an_unknown_format_is_invalid_input(check: Check) -> None:
    done = check(card(), "--format", "xml")
    assert done.status == 2 and "text, github, junit" in done.err


# --- Damaged files --------------------------------------------------------------------------------
def damaged(value: Any, rng: random.Random) -> Any:
    """The value with something else in one random place."""
    if isinstance(value, dict) and value and rng.random() < 0.8:
        name = rng.choice(sorted(value))
        if rng.random() < 0.2:
            return {key: entry for key, entry in value.items() if key != name}
        return value | {name: damaged(value[name], rng)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], damaged(value[at], rng), *value[at + 1 :]]
    return rng.choice([None, "x", -1, 1e999, True, [], [1, [2]], {"x": "y"}, 10**400, float("nan")])


def test_a_damaged_card_is_one_clear_error(check: Check, tmp_path: Path) -> None:
    items = {"optimal": {"w1": [1, 2], "w2": [2, 2]}}
    folder = write(tmp_path / "whole", card(), items)
    whole = json.loads((folder / CARD_JSON).read_text())
    rng, refused = random.Random(0), 0
    required = ("--require", "meg.lower >= 2", "--require", "optimal.difference.lower >= 0")
    for number in range(60):
        if number % 3:
            (folder / CARD_JSON).write_text(json.dumps(damaged(whole, rng)))
            (folder / ITEMS_JSON).write_text(json.dumps(items))
        else:
            (folder / CARD_JSON).write_text(json.dumps(whole))
            (folder / ITEMS_JSON).write_text(json.dumps(damaged(items, rng)))
        done = check(folder, *required, "--baseline", folder)
        assert done.status in (0, 2, 4), done
        if done.status == 2:
            refused += 1
            assert done.out == "" and done.err.count("\n") == 1 and "valid" in done.err
    assert refused > 20


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"schema": "card-9"}', "[" * 100_000]
)
def test_what_is_no_card_is_one_clear_error(check: Check, tmp_path: Path, text: str) -> None:
    (tmp_path / CARD_JSON).write_text(text)
    done = check(tmp_path)
    assert done.status == 2 and done.out == "" and done.err.count("\n") == 1


# --- Claims ---------------------------------------------------------------------------------------
CLAIM = 'text = "It wants cheese."\nvalue = "{}"\n{}\nrefuted_by = "an upper end below 2"\n'


@pytest.mark.parametrize(
    ("value", "limit", "changed", "verdict"),
    [
        ("meg.lower", "at_least = 2", MEG, "met"),
        ("meg.lower", "at_least = 2.1", MEG, "inconclusive"),
        ("meg.value", "at_least = 2.1", MEG, "inconclusive"),
        ("meg.lower", "at_least = 3", MEG, "inconclusive"),
        ("meg.lower", "at_least = 3.1", MEG, "not met"),
        ("meg.upper", "at_most = 3", MEG, "met"),
        ("meg.upper", "at_most = 2", MEG, "inconclusive"),
        ("meg.upper", "at_most = 1.9", MEG, "not met"),
        ("meg.value", "at_least = 2.5", row("meg", 2.5, ends=EXACT), "met"),
        ("meg.value", "at_least = 2.6", row("meg", 2.5, ends=EXACT), "not met"),
        ("meg.lower", "at_least = 2", row("meg", None), "inconclusive"),
        ("meg.lower", "at_least = 2", row("meg", 2.5, lower=2.0), "met"),
        ("other.lower", "at_least = 2", MEG, "inconclusive"),
    ],
)
def test_verdicts_on_claims(
    tmp_path: Path, value: str, limit: str, changed: CardRow, verdict: str
) -> None:
    path = tmp_path / "claim.toml"
    path.write_text(CLAIM.format(value, limit))
    claim = read_claim(path)
    assert claim.sha256 == sha256(path.read_bytes()).hexdigest()
    assert claim.verdict == "inconclusive" and claim.text == "It wants cheese."
    decided = with_verdict(claim, with_row(card(), changed))
    assert decided == replace(claim, verdict=verdict)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text = ",
        CLAIM.format("meg.lower", ""),
        CLAIM.format("meg.lower", "at_least = 1\nat_most = 2"),
        CLAIM.format("meg.upper", "at_least = 1"),
        CLAIM.format("meg", "at_least = 1"),
        CLAIM.format("meg.lower", "at_least = nan"),
        CLAIM.format("meg.lower", 'at_least = "1"'),
        CLAIM.format("meg.lower", "at_least = 1\nmood = 2"),
        CLAIM.format("meg.lower", "at_least = 1").replace("an upper end below 2", " "),
    ],
)
def test_an_invalid_claim_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "claim.toml").write_text(text)
    with pytest.raises(GoalmeterError, match=r"claim\.toml"):
        read_claim(tmp_path / "claim.toml")
