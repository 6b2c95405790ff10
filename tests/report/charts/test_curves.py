from __future__ import annotations

from report.drawn import texts

from goalmeter.report.charts import STROKES, Curve, curve_chart


def draw(**changes: object) -> str:
    curves = [
        Curve(label="ours", x=[1, 2, 3], y=[-1, 0.5, 1], low=[-1, 0, 1], high=[0, 1, 1]),
        Curve(label="", x=[1, 2, 3], y=[0, 0, 0], thin=True),
    ]
    options = {"x_label": "turn", "y_label": "reward", "levels": [(0.5, "most")]} | changes
    return curve_chart("c", curves, **options)  # type: ignore[arg-type]


def test_axes_curves_and_levels_are_named_and_nothing_else() -> None:
    words = texts(draw())
    assert {"turn", "reward", "ours", "most"} <= set(words)
    assert not any("nolegend" in word or word == "" for word in words)


def test_what_is_below_zero_is_inside_the_picture() -> None:
    """The ticks go down to the lowest value, with a true minus."""
    assert "−1.00" in texts(draw(size=(4.6, 6.0)))


def test_the_limits_of_the_y_axis_can_be_given() -> None:
    words = texts(draw(limits=(-4.0, 4.0)))
    assert {"−4", "4"} <= set(words) and not {"−4", "4"} & set(texts(draw()))


def test_a_band_is_drawn_where_both_its_edges_are_given() -> None:
    def bands(**edges: list[float]) -> int:
        curve = Curve(label="ours", x=[1, 2], y=[0, 1], **edges)  # type: ignore[arg-type]
        return curve_chart("c", [curve], x_label="x", y_label="y").count("PolyCollection")

    assert bands(low=[0, 1], high=[1, 2]) == 1
    assert bands() == bands(low=[0, 1]) == 0


def test_levels_can_be_left_out_and_the_bytes_are_the_same_each_time() -> None:
    assert "most" not in texts(draw(levels=()))
    assert draw() == draw()


def test_strokes_are_told_apart_without_colour() -> None:
    assert len({stroke for _, stroke in STROKES}) == len(STROKES) == len(dict(STROKES))


def test_places_of_the_x_axis_can_be_named() -> None:
    words = texts(draw(ticks=[1, 3], tick_names=["prompt", "answer"]))
    assert {"prompt", "answer"} <= set(words)
    assert "3" not in words and "3" in texts(draw(ticks=[1, 3]))
