"""The published schema, Every Eval Ever, STREAM and BibTeX."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from card.example_cards import MEG, card, row, run, write
from house import ROOT

from goalmeter import GoalmeterError
from goalmeter.card.exports import (
    NOT_REPORTED,
    bibtex,
    card_schema,
    every_eval_ever,
    references,
    stream_table,
)
from goalmeter.card.records import Card

SCHEMA = ROOT / "docs" / "schemas" / "card-1.json"
PUBLISHED: dict[str, Any] = json.loads(SCHEMA.read_text())


def test_the_published_schema_is_that_of_the_records() -> None:
    """To publish a change: write `json.dumps(card_schema(), indent=2)` to the file."""
    assert card_schema() == PUBLISHED
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


@pytest.mark.parametrize("made", [card(), card(rows=(), gauges=(), claim=None, elicitation={})])
def test_a_card_is_valid(made: Card) -> None:
    jsonschema.validate(made.to_json(), PUBLISHED)
    again = Card.from_json(json.loads(json.dumps(made.to_json())))
    assert again.to_json() == made.to_json()


@pytest.mark.parametrize(
    "change",
    [
        {"agent": None},
        {"mood": "good"},
        {"schema": "card-2"},
        {"trials": 1.5},
        {"gauges": [{"title": "x", "answer": "y", "scale": [0]}]},
        {"rows": [{"id": "x", "measure": "x", "title": "x", "value": "high"}]},
        {"rows": [{"id": "x", "measure": "x", "title": "x", "value": 1, "baselines": {"a": None}}]},
    ],
)
def test_the_schema_is_strict(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(card().to_json() | change, PUBLISHED)


def test_every_eval_ever() -> None:
    """Field names and types of its schema 0.3.0 (evaleval/every_eval_ever)."""
    record = every_eval_ever(card(), 1_790_000_000)
    assert {*record} == {
        *("schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata"),
        *("eval_library", "model_info", "evaluation_results"),
    }
    assert record["schema_version"] == "0.3.0" and record["retrieved_timestamp"] == "1790000000"
    results = {each["evaluation_result_id"]: each for each in record["evaluation_results"]}
    assert {*results} == {"meg", "optimal", "bounds", "exact", "swap"}  # those with a value
    for result in results.values():
        metric, score = result["metric_config"], result["score_details"]["score"]
        least, most = (float(metric[name]) for name in ("min_score", "max_score"))
        assert least <= score <= most and metric["score_type"] == "continuous"
        assert all(isinstance(text, str) for text in result["score_details"]["details"].values())
    certain = results["meg"]["score_details"]["uncertainty"]
    assert certain == {
        "confidence_interval": {
            "lower": 2.0,
            "upper": 3.0,
            "confidence_level": 0.95,
            "method": "95% interval",
        },
        "num_samples": 20,
    }
    paired = results["optimal"]["score_details"]["uncertainty"]["confidence_interval"]
    assert paired["confidence_level"] == 0.95 and paired["method"] == "Student's t"
    bounds = results["bounds"]["score_details"]["uncertainty"]["confidence_interval"]
    assert bounds["confidence_level"] == 1.0 and bounds["method"] == "certified bound"
    assert "uncertainty" not in results["exact"]["score_details"]
    assert results["swap"]["metric_config"]["lower_is_better"] is True


def reported(made: Card) -> dict[str, str]:
    table = stream_table(made)
    return {cells[1].text: cells[2].text for cells in table.cells}


def test_stream_says_what_is_not_reported() -> None:
    found = reported(card())
    assert len(found) == 28
    assert found["results that would have refuted it"].startswith("an upper end below 2")
    assert found["alternative comparison"] == "baseline agents: greedy"
    assert found["number of items"] == "20 mazes"
    assert found["human baseline: sample"] == found["elicitation techniques"] == NOT_REPORTED
    bare = reported(card(rows=(row("x", None),), claim=None, headline="", trials=0))
    assert {text for text in bare.values() if not text.startswith(("not applicable", "mouse"))} == {
        NOT_REPORTED
    }
    hostile = reported(replace(card(), headline="{card.seed} {x", rows=(MEG,)))
    assert hostile["overall conclusion"] == "{card.seed} {x"


def test_bibtex() -> None:
    text = bibtex(["tukey1958bias", "goalmeter", "tukey1958bias"])
    assert re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE) == ["goalmeter", "tukey1958bias"]
    with pytest.raises(GoalmeterError, match="'tukey' does not exist"):
        bibtex(["tukey"])


def test_references_as_text() -> None:
    assert references(["bell2002bias", "learnedmiller2019new", "geiger2024finding", "nobody"]) == [
        "Bell and McCaffrey (2002): Bias Reduction in Standard Errors for Linear Regression with "
        "Multi-Stage Samples. Survey Methodology.",
        "Learned-Miller and Thomas (2019): A New Confidence Interval for the Mean of a Bounded "
        "Random Variable. arXiv 1905.06208.",
        "Geiger et al. (2024): Finding Alignments Between Interpretable Causal Variables and "
        "Distributed Neural Representations. Proceedings of the Third Conference on Causal "
        "Learning and Reasoning.",
        "nobody",
    ]
    (welch,) = references(["welch1947generalization"])
    assert welch.startswith("Welch (1947): The Generalization of Student's Problem when Several")


def test_every_reference_is_complete() -> None:
    text = files("goalmeter.card").joinpath("references.bib").read_text("utf-8")
    keys = re.findall(r"^@\w+\{(\w+),", text, re.MULTILINE)
    assert len(keys) == len(set(keys)) == text.count("@")
    for entry in text.split("\n\n"):
        assert entry.count("{") == entry.count("}") and entry.rstrip().endswith("\n}")
        assert "title " in entry and "author " in entry
        assert "year " in entry or entry.startswith("@software")


def test_the_commands_export_and_cite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    folder = write(tmp_path / "card", card())
    out = tmp_path / "export"
    done = run(monkeypatch, capsys, "card", folder, "--export", "eee", "--out", out)
    assert done == (0, f"{out}\n", "")
    assert json.loads(out.read_text())["model_info"]["id"] == "mouse"
    done = run(monkeypatch, capsys, "card", folder, "--export", "stream", "--out", out)
    assert done.status == 0 and "| not reported |" in out.read_text()
    for wrong in (["--export", "eee"], ["--out", out], ["--export", "csv", "--out", out]):
        assert run(monkeypatch, capsys, "card", folder, *wrong).status == 2
    done = run(monkeypatch, capsys, "cite", folder)
    assert done.status == 0 and "@inproceedings{macdermott2024measuring," in done.out
    done = run(monkeypatch, capsys, "cite", write(folder, card(citations=("nobody",))))
    assert done.status == 2 and "'nobody'" in done.err
