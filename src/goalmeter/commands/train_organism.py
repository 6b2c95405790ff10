"""`goalmeter train-organism`: an organism's weights from its recipe."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from goalmeter.commands.outcome import Outcome
from goalmeter.organisms.recipes import recipe
from goalmeter.organisms.training import train
from goalmeter.runs import cores


def train_organism(
    name: str,
    out: str | Path | None = None,
    *,
    steps: int | None = None,
    rate: float | None = None,
    begin_with: str | None = None,
    sizes: list[int] | None = None,
    keys: bool = True,
    seed: int = 0,
    device: str | None = None,
    workers: int | None = 1,
    progress: Callable[[str], None] | None = None,
) -> Outcome:
    """Train an organism, or go on where its training stopped.

    By default checkpoints and weights go to runs/organism-NAME; `steps`, `rate` and `begin_with` (a
    shipped organism, a folder, or "nothing" for fresh weights) are the recipe's; all `sizes` of
    grids are learnt; and it runs on the first GPU, or else on the processor. `workers` None is two
    processes if there are cores, and does not change the weights. `keys` asks for worlds with keys
    and doors too.
    """
    usual = recipe(name)
    rounds = None
    # A recipe may have several rounds with rates of their own; --steps and --rate describe one.
    if steps is not None or rate is not None:
        usual_rate = usual.rounds[0][1]
        only = (usual.steps if steps is None else steps, usual_rate if rate is None else rate)
        rounds = (only,)
    options: dict[str, Any] = {
        "rounds": rounds,
        "begin_with": begin_with,
        "sizes": sizes and tuple(sizes),
    }
    changes = {option: value for option, value in options.items() if value is not None}
    settings = replace(usual, keys=keys, seed=seed, **changes)
    folder = train(
        settings,
        Path("runs") / f"organism-{name}" if out is None else out,
        device=device,
        workers=min(cores(), 2) if workers is None else workers,
        progress=progress,
    )
    result = asdict(settings) | {"organism": name, "weights": str(folder.resolve())}
    text = (
        f"The {name} is trained: {folder.resolve()}\n"
        f"See how good it is: goalmeter replicate organisms --agents {name}={folder}"
    )
    return Outcome(tables=(), json=result, text=text)
