"""Cards: one agent evaluated with every applicable measure."""

import typing

from goalmeter._names import lazy_front as _lazy_front

if typing.TYPE_CHECKING:
    from goalmeter.card.compare import CardComparison, compare_cards
    from goalmeter.card.evaluate import measure
    from goalmeter.card.records import Card, read_card

__getattr__, __dir__ = _lazy_front(__name__, __file__)

__all__ = ["Card", "CardComparison", "compare_cards", "measure", "read_card"]
