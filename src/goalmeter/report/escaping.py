"""What a page does with text that others wrote: nothing of it acts, and nothing of it hides.

The template engine makes markup harmless. It lets through what no markup is and what misleads all
the same: marks that turn a line around, characters without width, codes of a terminal, which a page
hands on to whoever copies from it. They are spelled out here, in the text and in the pictures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goalmeter._text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas


def spelled_out(value: Any) -> Any:
    """A value as the template shows it; what is markup already stays as it is."""
    is_markup = hasattr(value, "__html__")
    return visible(value, lines=True) if isinstance(value, str) and not is_markup else value


def spell_out_texts(figure: Canvas) -> None:
    """Spell out all text of a picture, and read none of it as mathematics, where $ is a command.

    Names of ticks are made only when the picture is drawn, so whoever sets them calls `visible`.
    """
    from matplotlib.text import Text

    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(visible(text.get_text(), lines=True))
        text.set_parse_math(False)
