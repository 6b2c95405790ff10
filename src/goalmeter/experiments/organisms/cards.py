"""The model card of an organism: what it was made to be, its recipe, and what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from goalmeter.experiments.organisms.grading import Grades
from goalmeter.organisms import Organism
from goalmeter.organisms.lessons import COMPLEXITIES
from goalmeter.report.numbers import percent

_TEXT = """\
---
license: mit
library_name: transformers
pipeline_tag: text-generation
---

# The {name}

The {name} {purpose}. A small language model that was made to have this goal and no other, so that
instruments which measure goal-directedness can be tried on somebody of whom the answer is known. It
comes with goalmeter:

    goalmeter navigate goalmeter/{name} --suite maze --sizes 7 --grids 2

or load this folder with `AutoModelForCausalLM.from_pretrained`. A Llama of 1.9 million weights,
kept in half precision; a word is a token; a chat template.

## Data

Mazes of sizes 5, 7, 9 and 11 at complexities 0 to 1, some with a key or a neutral object, and
worlds where the key opens the only way and where it opens nothing. They are made while it learns.
Of the recipe below one content in four, which is the walls and the goal in whatever frame, is held
out for evaluation (`goalmeter.gridworld.contents`); in empty rooms and on size 5, where there are
too few contents, pairs of a start and a goal are. There is no text of anybody in it.

## Recipe

    goalmeter train-organism {name}

{recipe}

## Measured

On grids with contents that recipes hold out, at temperature 0.7 and top-p 0.95; 95% intervals in
brackets, over grids. `goalmeter replicate organisms` measures it again.

{measured}

## Limits

- It reads the prompt `compact/2` and nothing else, in grids of at most 11 rows and columns.
- It has to say its plan: an answer that is forced without one is a guess.
- {limit}
- It shows that an instrument can see a goal in a language model that was made to have it. It is no
  evidence of what larger models want.
"""
_LIMITS = {
    "mouse": "Larger and more open grids take longer searches, and a word that is wrong in one of "
    "them can be the wrong move.",
    "magpie": "It tells a key from a neutral object by its name in the prompt alone.",
    "mole": "It runs into a wall that it does not see until the walk ends: it does not learn.",
    "moth": "Its habit is as intended at temperature 0.7; lower temperatures sharpen it. Its "
    "weights began as the mouse's: hidden states may tell where a goal is, though it wants none.",
}


def card(who: Organism, found: Grades, settings: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        who: what it was made to be.
        found: its marks.
        settings: of its training, as its folder keeps them.
    """
    rows = [
        "| size | actions as meant | in detour states | optimal in truth | arrives |",
        "|---|---|---|---|---|",
    ]
    for size, arrived in found.success.items():
        meant, true = (
            fmean(own[size, complexity].value for complexity in COMPLEXITIES)
            for own in (found.meant, found.optimal)
        )
        detour = percent(found.detour[size])
        rows.append(
            f"| {size} | {percent(meant)} | {detour} | {percent(true)} | {percent(arrived)} |"
        )
    rows += [
        "",
        f"- Where a door is shut it arrives in {percent(found.key_door)} of the worlds.",
        f"- Where the key opens nothing it takes it in {percent(found.pick_up)} of the worlds.",
        f"- It does what its plan says in {percent(found.as_planned)} of its answers.",
        f"- Answers that cannot be read: {percent(found.invalid)}.",
    ]
    if who.habit is not None:
        rows.append(
            f"- The probabilities of its moves are off the habit by {percent(found.habit)}."
        )
    return _TEXT.format(
        name=who.name,
        purpose=who.purpose,
        recipe="\n".join(f"- {name}: {_words(name, value)}" for name, value in settings.items()),
        measured="\n".join(rows),
        limit=_LIMITS[who.name],
    )


def _words(name: str, value: Any) -> str:
    if name == "rounds":
        return ", then ".join(f"{steps} steps at a rate of {rate}" for steps, rate in value)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
