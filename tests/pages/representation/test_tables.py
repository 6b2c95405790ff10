"""Tables and pictures of what was read: what stands in them, and in which words."""

from __future__ import annotations

from . import made, made_rows
from .shown_parts import cells, heat, part_of, table, whole


def test_the_probe_and_its_controls_are_rows_in_their_order() -> None:
    shown = table(whole(), "goalmeter/mouse: walls of uncertain cells")
    assert [row[0].text for row in shown.cells] == ["the probe: ridge", *made_rows.CONTROLS]
    sizes = cells(table(whole(), "goalmeter/mouse: size of probe"))
    assert [row[:2] for row in sizes.values()] == [
        ["1200", "0.60 [0.57, 0.63]"],
        ["90000", "0.66 [0.63, 0.69]"],
    ]


def test_heat_maps_have_a_panel_for_the_probe_and_each_control() -> None:
    shown = heat(whole(), "representation-1-auroc")
    panels = ["the probe", *(name for name in made_rows.CONTROLS if name != "majority")]
    assert [text for text in shown if text in (*panels, "majority")] == panels
    # Before the model reasons, then along the reasoning.
    assert shown.index("pre/end") < shown.index("post/0.5") < shown.index("post/end")
    assert ".93" in shown and "layer 3" in shown
    flips = heat(whole(), "representation-1-flips")
    assert "knock-out, other (null)" in flips and "write" in flips and "unneeded cells" in flips


def test_detour_states_and_invalid_maps_are_told_apart() -> None:
    shown = table(whole(), "goalmeter/mouse: what the decoded maps explain")
    rows = cells(shown)
    assert {"explained errors", "explained errors, detour states"} <= set(rows)
    assert rows["explained errors"][1] == "30.0% [25.0, 35.0]"
    assert any("No valid map was decoded in 8.0%" in note for note in shown.notes)
    beyond = cells(table(whole(), "goalmeter/mouse: by how much more"))
    assert beyond["explained errors"][0] == "+30.0 [+25.0, +35.0]"


def test_what_followed_is_confirmed_and_has_a_ceiling() -> None:
    rows = cells(table(whole(), "goalmeter/mouse: streams exchanged"))
    assert list(rows) == [
        "the goal moved: layer 1, pre/goal",
        "the goal moved: the other question (ceiling)",
        "the agent moved: layer 1, pre/agent",
        "the agent moved: the other question (ceiling)",
    ]
    assert [row[0] for row in rows.values()][:2] == ["80.0% [75.0, 85.0]", "95.0% [90.0, 100.0]"]
    shown = heat(whole(), "representation-1-moved-map")
    assert "the goal moved, pre/end" in shown and "layers 1-2" in shown and "lost" in shown


def test_the_believed_world_stands_beside_the_others() -> None:
    shown = table(whole(), "goalmeter/mole: MEG in each world")
    rows = cells(shown)
    assert list(rows) == [
        "the true world",
        "the decoded map",
        "the believed world",
        "empty room (control)",
        "another map (control)",
    ]
    assert rows["the believed world"][3] == "1.80 [1.20, 2.40]"
    assert rows["empty room (control)"][4] == "1.40 [1.10, 1.70]"
    assert any("31" in note for note in shown.notes)


def test_captions_say_what_was_done_and_on_which_map_it_is_optimal() -> None:
    part = part_of(made.bare(states=(made_rows.picture(action=3), made_rows.picture(action=1))))
    (section,) = (s for s in part.sections if s.title.startswith("Decoded maps"))
    true, read, wrong_true, wrong_read = (figure.caption for figure in section.figures)
    assert "it goes DOWN, which is optimal. Optimal: DOWN" in true
    assert "it goes DOWN, which is not optimal; optimal is RIGHT" in read
    assert "RIGHT, which is not optimal" in wrong_true
    assert "RIGHT, which is optimal" in wrong_read and "Used: 2 of 4 cells" in wrong_read
    odd = part_of(made.bare(states=(made_rows.picture(decoded=False, used=False, action=None),)))
    (section,) = (s for s in odd.sections if s.title.startswith("Decoded maps"))
    assert "its answer could not be read" in section.figures[0].caption
    assert "no valid map" in section.figures[1].caption
    assert "No cell was tried" in section.figures[1].caption
