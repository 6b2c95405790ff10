"""The part of a page: its sections, its lists, and models beside each other."""

from __future__ import annotations

from goalmeter.pages.representation.claims import shown_models
from goalmeter.representation.result import Representation

from . import made, made_rows
from .shown_parts import cells, part_of, table, titles, whole


def test_several_models_stand_beside_each_other() -> None:
    part = whole()
    rows = cells(table(part, "Walls of uncertain cells"))
    assert list(rows) == ["goalmeter/mouse", "goalmeter/mole"]
    assert rows["goalmeter/mouse"][:3] == [
        "above every control",
        "0.99 [0.98, 1.00]",
        "0.77 [0.75, 0.79], embeddings alone",
    ]
    used = cells(table(part, "Is what is read of cells used?"))
    assert [row[0] for row in used.values()] == ["used", "not used"]
    assert titles(part) == [
        "What is read of cells",
        "Decoded maps beside the true ones",
        "What is used",
        "When a cell is looked up",
        "Where goal and agent are read from",
        "What the decoded maps explain",
        "Goal-directedness in the believed world",
        "What is read of plans",
        "When it is decided",
        "What this does not show",
    ]


def test_the_json_has_the_numbers_and_both_verdicts_but_no_pictures() -> None:
    _, entry = whole().runs
    assert (entry["model"], entry["read"], entry["used"]) == ("goalmeter/mole", "above", "not used")
    assert "states" not in entry and len(entry["maps"]) == len(made_rows.map_rows())


def test_each_number_that_is_there_has_a_paragraph_on_what_it_does_not_show() -> None:
    def limits(result: Representation) -> tuple[str, ...]:
        (section,) = (s for s in part_of(result).sections if s.title == "What this does not show")
        return section.text

    (section,) = (s for s in whole().sections if s.title == "What this does not show")
    assert len(section.text) == 12
    assert len(limits(made.bare())) == 1 and limits(made.bare())[0].startswith("AUROC and gain")


def test_models_of_one_name_are_told_apart() -> None:
    results = [made.bare(), made.bare(run="more"), made.bare(run="more")]
    names = [shown.name for shown in shown_models(results)]
    assert names == [
        "goalmeter/mouse, walks",
        "goalmeter/mouse, more (2)",
        "goalmeter/mouse, more (3)",
    ]
