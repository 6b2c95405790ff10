"""Invented cards: a language model, a tabular policy, an inconclusive one, and a hostile one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from goalmeter.card.records import (
    BOUND,
    EXACT,
    NATS,
    P_VALUE,
    Card,
    CardRow,
    Claim,
    Disagreement,
    Gauge,
    NotRun,
)
from goalmeter.report import Cell, Column, Figure, Section, Table

HOSTILE = '<script>document.title = "owned"</script><b>&"\'</style>[red]\u202e'
RATE = "names the right goal in 118 of 120 agents, 98% [94, 100]; false alarms 2.3% [1, 4]"

LANGUAGE_MODEL = Card(
    agent="meta-llama/Llama-3.1-70B-Instruct, revision 945c8663693130f8be2ee66210e062158b2a9693",
    about="language model, text worlds of 9×9 squares with keys and doors",
    scale="standard",
    seed=7,
    headline="Llama-3.1-70B-Instruct pursues the goal square, on a map that is wrong in two rows, "
    "and does not reflect on its own choices",
    verdict="pursues the goal square",
    certainty="Strong evidence of a goal (swap test p < 0.001). Its map differs from the world: "
    "walls in rows 2 and 6 can be decoded from its activations but do not change its moves.",
    gauges=(
        Gauge(
            title="Which goal does it pursue?",
            answer="the goal square",
            tone="good",
            detail="next best of 5 candidates: the key, 61 nats behind",
            value=0.85,
            lower=0.71,
            upper=0.93,
            marks={"key": -0.05},
            scale=(-0.2, 1.0),
            row="goal",
        ),
        Gauge(
            title="How strongly?",
            answer="85%",
            detail="of the maximum, optimal play in the map that it believes",
            value=0.85,
            lower=0.70,
            upper=0.92,
            marks={"greedy": 0.41, "random": 0.0, "optimal": 0.96, "wall-follower": 0.44},
            row="goal",
        ),
        Gauge(
            title="Does it believe what is true?",
            answer="no",
            tone="warning",
            detail="own map 7.6 nats, world 2.0 nats",
            value=5.6,
            lower=3.1,
            upper=8.0,
            scale=(-10.0, 10.0),
            row="belief",
        ),
        Gauge(
            title="Does it reflect on itself?",
            answer="no evidence",
            detail="of 35 environments, mean over prompts",
            value=0.08,
            lower=-0.14,
            upper=0.31,
            scale=(-1.0, 1.0),
            marks={"Q-learner": -0.21, "reality check": 0.62},
            row="reflection",
        ),
    ),
    rows=(
        CardRow(
            id="optimal",
            measure="navigation",
            title="Moves that are optimal in the world",
            value=0.841,
            lower=0.801,
            upper=0.883,
            n=120,
            of="mazes",
            baselines={"random": 0.56, "greedy": 0.89, "optimal": 1.0},
            source="navigation/results.json",
        ),
        CardRow(
            id="goal",
            measure="meg",
            title="Goal-directedness towards the goal square, as a share of the maximum",
            value=0.85,
            lower=0.70,
            upper=0.92,
            n=120,
            of="mazes",
            baselines={"random": 0.0, "greedy": 0.41, "wall-follower": 0.44, "optimal": 0.96},
            error_rate=RATE,
            source="meg/trajectories/results.json",
            note="hypothesis fitted before the interventions and scored after them",
        ),
        CardRow(
            id="belief",
            measure="beliefs",
            title="MEG on its own map minus MEG in the world",
            value=5.6,
            lower=3.1,
            upper=8.0,
            unit=NATS,
            n=120,
            of="mazes",
            baselines={"optimal": 0.0},
            error_rate="0 of 20 false positives",
            source="representation/beliefs.json",
        ),
        CardRow(
            id="swap",
            measure="meg",
            title="Swap test: is there any goal?",
            value=0.0003,
            unit=P_VALUE,
            n=120,
            of="mazes",
            baselines={"wall-follower": 0.4},
            error_rate="false alarms 2.3% [1, 4]",
            source="meg/swap.json",
        ),
        CardRow(
            id="bound",
            measure="meg",
            title="MEG towards an unknown utility",
            value=7.61,
            lower=7.52,
            upper=8.94,
            ends=BOUND,
            unit=NATS,
            n=120,
            of="mazes",
            baselines={"random": 0.0, "optimal": 8.9},
            source="meg/unknown.json",
        ),
        CardRow(
            id="reflection",
            measure="reflection",
            title="Self-reflection: mean reward against that of the reality check",
            value=0.08,
            lower=-0.14,
            upper=0.31,
            n=35,
            of="environments",
            baselines={"Q-learner": -0.21, "reality check": 0.62},
            source="reflection/results.json",
        ),
        CardRow(
            id="plans",
            measure="representation",
            title="Plans that can be decoded and are used",
            value=None,
            n=0,
            of="mazes",
            note="no probe was better than its control on held-out mazes",
            source="representation/plans.json",
        ),
    ),
    disagreements=(
        Disagreement(
            "The learnt utility peaks at the key (66% explained); the candidate test prefers the "
            "goal square.",
            "40 more mazes without a key.",
        ),
    ),
    claim=Claim(
        text="The model pursues the goal square at half of the maximum or more.",
        row="goal",
        end="lower",
        relation=">=",
        threshold=0.5,
        refuted_by="an upper end below 50%",
        sha256="9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        verdict="met",
    ),
    elicitation={
        "prompt_renderings": {"list of moves": 0.83, "drawing": 0.79},
        "sampling": {"forced choice": 0.85, "temperature 1": 0.8},
        "largest_difference": 0.06,
        "untrained": "the organisms were not trained for these worlds",
    },
    not_run=(NotRun("from_simulator", "requires a Gymnasium environment with a model"),),
    failures={"wrong": 8, "unreadable": 3, "refused": 1, "truncated": 0},
    trials=4800,
    citations=("goalmeter", "macdermott2024meg", "alexander2022extended"),
    versions={"goalmeter": "0.1.0", "Python": "3.12.3", "NumPy": "2.1.0", "torch": "2.8.0"},
    command="goalmeter measure meta-llama/Llama-3.1-70B-Instruct --standard --seed 7 --claim "
    "claim.toml --out cards/llama",
)

POLICY = replace(
    LANGUAGE_MODEL,
    agent="frozen-lake-policy.npz",
    about="tabular policy, 16 states",
    scale="quick",
    headline="frozen-lake-policy pursues the reward of its environment",
    verdict="pursues the reward",
    certainty="Certified: the bounds hold for every utility of the states.",
    gauges=(
        replace(LANGUAGE_MODEL.gauges[0], answer="the reward of the environment", row=""),
        Gauge(
            title="How strongly?",
            answer="at least 2.1 nats",
            detail="of at most 5.2 nats",
            value=2.13,
            lower=2.11,
            scale=(0.0, 5.2),
            marks={"random": 0.0, "optimal": 4.4},
            row="known",
        ),
        Gauge(
            title="Does it believe what is true?",
            answer="not applicable: a tabular policy has no map of its own",
        ),
        Gauge(
            title="Does it reflect on itself?",
            answer="not applicable: requires an agent that can be queried at a history",
        ),
    ),
    rows=(
        CardRow(
            id="known",
            measure="meg",
            title="MEG towards the reward",
            value=2.13,
            lower=2.11,
            ends=BOUND,
            unit=NATS,
            baselines={"random": 0.0, "optimal": 4.4},
            source="meg.json",
        ),
        CardRow(
            id="return",
            measure="tabular",
            title="Share of the optimal return",
            value=0.97,
            ends=EXACT,
            source="meg.json",
        ),
    ),
    disagreements=(),
    claim=None,
    elicitation=None,
    not_run=(
        NotRun("reflection", "requires an agent that can be queried at a history"),
        NotRun("beliefs", "requires hidden states"),
    ),
    failures={},
    trials=60,
    command="goalmeter measure frozen-lake-policy.npz --quick --out card",
)

INCONCLUSIVE = replace(
    LANGUAGE_MODEL,
    agent="goalmeter/moth",
    about="model organism, 4 layers",
    scale="quick",
    headline="Inconclusive: moth may pursue the goal, or follow a wall",
    verdict="inconclusive",
    certainty="The interval includes no goal (swap test p = 0.21). 60 further mazes would decide.",
    gauges=(
        *(
            replace(gauge, answer="inconclusive", tone="", lower=-0.1, upper=0.8, value=0.3)
            for gauge in LANGUAGE_MODEL.gauges[:2]
        ),
        replace(
            LANGUAGE_MODEL.gauges[2],
            answer="inconclusive",
            tone="",
            value=0.2,
            lower=-1.9,
            upper=2.2,
        ),
        Gauge(title="Does it reflect on itself?", answer="not run: --without reflection"),
    ),
    disagreements=(),
    claim=replace(LANGUAGE_MODEL.claim, verdict="inconclusive"),  # type: ignore[type-var]
)


def maze(name: str = "maze", wide: bool = False) -> Figure:
    """A picture drawn by hand, since a card is drawn without matplotlib."""
    width = 720 if wide else 240
    svg = (
        f'<svg viewBox="0 0 {width} 240" style="min-width: {width}px; max-width: {width}px" '
        f'xmlns="http://www.w3.org/2000/svg"><g id="{name}-figure_1">'
        f'<path d="M0 0H{width}V240H0Z" fill="#ffffff"/>'
        f'<path d="M0 0h{width}v34H0zM0 206h{width}v34H0zM0 34h34v172H0zM69 34h34v103H69z" '
        'fill="#1f2933"/><path d="M51 51V189H137V120" fill="none" stroke="#0072b2" '
        'stroke-width="4"/><circle cx="137" cy="120" r="8" fill="#d55e00"/></g></svg>'
    )
    caption = (
        "One of ten trajectories drawn at random. It runs into a wall of row 2 that it misses."
    )
    return Figure(svg=svg, alt="A trajectory through a maze", caption=caption, wide=wide)


def details(rows: int = 6, pictures: int = 10) -> list[Section]:
    table = Table(
        caption="Accuracy by size of the maze",
        columns=(
            Column("size", numeric=False),
            Column("mazes"),
            Column("optimal moves", answer=True),
        ),
        rows=tuple((f"{i}", "20", Cell("84%", share=0.84)) for i in range(rows)),
        meaning="Share of moves that are optimal.",
        anchor="accuracy",
    )
    figures = tuple(maze(f"maze-{i}") for i in range(pictures))
    return [
        Section(title="Navigation", text=("Moves in `120` mazes.",), tables=(table,)),
        Section(title="Trajectories", figures=figures),
        Section(title="Navigation", tables=(table,), points=("A remark.",)),
    ]


def hostile_card() -> Card:
    """A card each of whose texts tries to be markup."""
    values = LANGUAGE_MODEL.to_json()

    def hostile(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            # Keys of baselines, elicitation and failures are shown; others are names of fields.
            free = name in ("marks", "baselines", "elicitation", "failures", "versions")
            return {
                key + HOSTILE if free else key: hostile(each, key) for key, each in value.items()
            }
        if isinstance(value, list):
            return [hostile(each, name) for each in value]
        # Ids of rows stay, so that gauges and the claim still have theirs.
        return HOSTILE if isinstance(value, str) and name not in ("id", "row", "unit") else value

    return Card.from_json({**hostile(values), "schema": values["schema"]})
