"""Order of the tutorials on the page of the gallery."""

from __future__ import annotations

ORDER = (
    "your_own_mdp",
    "causal_models",
    "the_map_of_the_mole",
    "reading_a_card",
    "compare_agents",
    "mouse_lab",
    "certificate",
    "simulator_intervals",
    "meg_over_training",
    "misgeneralising_goal",
    "decisions_in_asia",
    "published_walks",
    "believed_worlds",
    "self_reflection",
)


class ReadingOrder:
    """Sort key of the tutorials in a folder, by file name."""

    def __init__(self, folder: str) -> None:
        pass

    def __call__(self, name: str) -> int:
        """Return the position of a tutorial."""
        return ORDER.index(name.removeprefix("plot_").removesuffix(".py"))
