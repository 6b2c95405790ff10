"""A sweep of interventions shares the computation before them: the same answers in less time.

The mouse in mazes of size 7, one open cell a decision. Every intervention of a screen (knocking the
cell out in each block and in all, for each span; patches at single layers at three places; nulls)
is tried on every decision. The plain sweep writes each answer from the start. Ours reads the prompt
before the first changed token once, checks the unchanged answer in one pass under the intervention,
and generates only from the first token that differs. Both ran in this process, in turns by
intervention; the share of answers that differ from the unchanged one is given, since those must be
generated. "Same words" is the share of answers that are equal token by token, "same moves" that of
answers with the same move. Donors: the other questions' streams, read for each patch or kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import harness

from goalmeter.gridworld import State
from goalmeter.navigation import suite
from goalmeter.navigation.prompts import template
from goalmeter.representation.network import Network
from goalmeter.representation.replay import Located, Sample
from goalmeter.representation.use.causal_use import span_candidates
from goalmeter.representation.use.directions import closed_prompt, target_cells
from goalmeter.representation.use.interventions import AnswerSweep, answer_all
from goalmeter.representation.use.trials import DOSE, TRIED, candidates, donor_streams

MOUSE = "goalmeter/mouse"


def decisions(network: Network, grids: int) -> list[tuple[Located, Any]]:
    """The first decision in some mazes, each with a cell that can be changed."""
    found = []
    tasks = suite("maze", sizes=[7], complexities=[0.6], grids=grids, held_out=True).tasks
    for task in tasks:
        state = State(task.world.start)
        target = [cell for cell in target_cells(task.world, state) if cell.needed]
        target = target or list(target_cells(task.world, state))
        if target:
            question = template("compact/2").prompt(task.world, state)
            ids = network.local.ids([{"role": "user", "content": question}])
            sample = Sample(task.name, 0, task.world, state, None, (), question, ids, ())
            found.append((Located(sample, network.local.tokenizer), target[0].cell))
    return found


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    out = call()
    return time.perf_counter() - began, out


def measure(quick: bool) -> dict[str, Any]:
    network = Network.open(MOUSE)
    trials = decisions(network, 3 if quick else 24)
    layers = [2] if quick else list(range(len(network.blocks) + 1))
    tried = [c for c in candidates(network, layers, 0, (), DOSE) if c.family in TRIED]
    options = [*tried, *span_candidates(network)]
    samples = [located.sample for located, _ in trials]
    preparing, sweep = timed(lambda: AnswerSweep(network, samples, answer_all(network, samples)))
    longest = 2 * max(len(base.tokens) for base in sweep.bases)
    rows = []
    for option in options:
        changes = {
            number: change
            for number, (located, cell) in enumerate(trials)
            if (change := option.change(located, cell)) is not None
        }
        made, asked = list(changes.values()), [samples[number] for number in changes]
        plain, theirs = timed(lambda a=asked, m=made: answer_all(network, a, m, tokens=longest))
        ours, mine = timed(lambda c=changes: sweep.answers(c, tokens=longest))
        pairs = list(zip(theirs, mine.values(), strict=True))
        rows.append(
            {
                "what": option.label,
                "answers": len(pairs),
                "plain_s": plain,
                "ours_s": ours,
                "differ": sum(sweep.bases[n] != a for n, a in zip(changes, theirs, strict=True)),
                "same_words": sum(a.tokens == b.tokens for a, b in pairs),
                "same_moves": sum(a.action == b.action for a, b in pairs),
            }
        )
    return {"rows": rows, "preparing_s": preparing, "donors": _donors(network, trials, layers)}


def _donors(
    network: Network, trials: list[tuple[Located, Any]], layers: list[int]
) -> dict[str, float]:
    """Seconds for the streams of all patches of a screen: three places at each layer."""
    asked = [closed_prompt(network, located.sample, cell) for located, cell in trials]
    prompts = [ids for ids in asked if ids is not None]

    def every(read: Callable[..., Any]) -> None:
        for _ in range(3):
            for layer in layers:
                for ids in prompts:
                    read(ids, layer)

    donors = donor_streams(network)
    plain, _ = timed(lambda: every(lambda ids, layer: network.streams(ids, [layer])))
    kept, _ = timed(lambda: every(lambda ids, layer: donors(ids)[layer]))
    return {"plain_s": plain, "kept_s": kept}


def markdown(result: dict[str, Any]) -> str:
    rows = result["rows"]
    header = ["intervention", "answers", "other than unchanged", "plain", "ours", "ratio"]
    header += ["same words", "same moves"]

    def line(name: str, some: list[dict[str, Any]]) -> list[str]:
        total = {key: sum(row[key] for row in some) for key in some[0] if key != "what"}
        count = total["answers"]
        return [
            name,
            str(count),
            f"{total['differ'] / count:.0%}",
            harness.short(total["plain_s"]),
            harness.short(total["ours_s"]),
            f"{total['plain_s'] / total['ours_s']:.1f}x",
            f"{total['same_words'] / count:.1%}",
            f"{total['same_moves'] / count:.1%}",
        ]

    table = harness.table(
        header, [*(line(row["what"], [row]) for row in rows), line("**all**", rows)]
    )
    donors = result["donors"]
    return (
        f"{table}\n\n- Unchanged answers, which a plain sweep has to ask for as well: "
        f"{harness.short(result['preparing_s'])}.\n"
        f"- Streams of donors: {harness.short(donors['plain_s'])} read for each patch, "
        f"{harness.short(donors['kept_s'])} kept, "
        f"{donors['plain_s'] / donors['kept_s']:.1f}x."
    )


if __name__ == "__main__":
    harness.run(__file__, __doc__, measure, markdown)
