"""The paper's numbers as a report shows them: of a language model, beside reference agents."""

from __future__ import annotations

import numpy as np

from goalmeter.experiments.lm_navigation import tables
from goalmeter.experiments.lm_navigation.beside import (
    Agents,
    beside_the_compass,
    counted,
    published,
)
from goalmeter.experiments.lm_navigation.compute import EVERY_CELL, LANGUAGE_MODEL
from goalmeter.navigation.suites.maze import PAPER_COMPLEXITIES, PAPER_SIZES
from goalmeter.navigation.suites.registry import SUITES
from goalmeter.report import Figure, Section
from goalmeter.report.charts.heat_map import Panel, heat_map


def sections(references: Agents, runs: Agents) -> list[Section]:
    """Every part of the page."""
    return [
        Section(
            title="The paper's headline numbers, beside chance",
            text=(
                "A share says how goal-directed a model is only beside what an agent without any "
                "plan or any wish for keys would have. The published numbers are of GPT-OSS-20B; "
                "ours are of reference agents in worlds of the same kinds, and of any run that is "
                "given.",
            ),
            tables=tables.headline_tables(references, runs),
            points=commands(runs),
        ),
        Section(
            title="Asked in every open cell, by size and complexity",
            text=(
                "The published table is of an older protocol, which puts the model on every open "
                "cell. The same was computed exactly for agents without memory. The compass "
                "(greedy) looks at neighbouring cells only.",
            ),
            tables=(tables.every_cell_table(references),),
            figures=(surfaces(references),),
        ),
        Section(
            title="Walks through mazes",
            text=(
                "In detour states, where the compass may err, accuracy tells a plan from a "
                "heuristic. The paper has no such number.",
            ),
            tables=(tables.walks_table(references, runs), tables.pilot_table(references, runs)),
        ),
        Section(
            title="The same grids in other frames",
            text=(
                "The paper reads a test that is not significant as robustness. The same test is "
                "not significant for agents that know nothing of frames, either; an equivalence "
                "test can show sameness.",
            ),
            tables=(tables.frames_table(references, runs),),
        ),
    ]


def surfaces(references: Agents) -> Figure:
    """Accuracy of the model, of the compass, and the difference."""
    theirs, shape = published(), (len(PAPER_SIZES), len(PAPER_COMPLEXITIES))
    keys = [f"{EVERY_CELL}/{n}/{c:g}" for n in PAPER_SIZES for c in PAPER_COMPLEXITIES]
    model = np.array([theirs[key].published_value / 100 for key in keys]).reshape(shape)
    greedy = np.array([references["greedy"][key].value for key in keys]).reshape(shape)
    difference = model - greedy
    verdicts = counted(beside_the_compass(references, keys))
    return Figure(
        svg=heat_map(
            "lm-navigation-surfaces",
            [
                Panel(title="GPT-OSS-20B, published", values=model),
                Panel(title="compass (greedy), ours", values=greedy),
                Panel(title="model less compass", values=difference),
            ],
            rows=[f"size {size}" for size in PAPER_SIZES],
            columns=[f"complexity {complexity:g}" for complexity in PAPER_COMPLEXITIES],
            label="share of optimal actions, and its difference",
            limit=1.0,
        ),
        alt=f"Accuracy by size and complexity of the published model and of the compass. Of "
        f"{difference.size} kinds of grids the model is {verdicts}.",
        caption="Accuracy falls with size and with walls for a compass as for the model.",
        wide=True,
    )


def commands(runs: Agents) -> tuple[str, ...]:
    """How to get the rows of language models."""
    if runs:
        return ()
    # Whoever has a server can add the rows that are missing.
    return (
        "The language model itself was not run. Where one can be asked, as "
        "vllm/openai/gpt-oss-20b on a server of vLLM, its rows are made by: "
        + "; ".join(language_model_commands())
        + ".",
    )


def language_model_commands() -> list[str]:
    """What to type for the rows of a language model, where one can be asked."""
    navigate = [
        f"goalmeter navigate vllm/openai/{LANGUAGE_MODEL} --suite {name} --paper --out runs/{name}"
        for name in SUITES
    ]
    beside = " ".join(f"--run runs/{name}" for name in SUITES)
    return [*navigate, f"goalmeter replicate lm-navigation {beside}"]
