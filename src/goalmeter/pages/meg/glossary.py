"""The words of a page on maximum entropy goal-directedness."""

from __future__ import annotations

GLOSSARY = {
    "MEG (maximum entropy goal-directedness)": "How much better an agent's decisions are "
    "predicted by supposing that it pursues a goal than by guessing uniformly, summed over an "
    "episode, in nats. 0 means that the goal explains nothing.",
    "Known utility": "The goal is given, here the environment's reward; only how rationally it "
    "is pursued is fitted. It asks: is the agent after this?",
    "Unknown utility": "The goal is fitted as well, over all utilities over states. It asks: "
    "is the agent after anything? It can never be below the known-utility value of a goal in the "
    "class.",
    "Proven gap": "The distance from the value to an upper bound that holds for every rationality "
    "or every utility of the class (up to the size stated in results.json). The number is "
    "certified where the gap is no more than rounding.",
    "Maximum": "What a fully predictable agent would score: log of the number of actions, "
    "summed over the decisions that can influence the utility.",
    "Share of maximum": "MEG divided by the maximum, from 0 to 1: McFadden's pseudo-R² of the "
    "model. MEG in nats grows with the number of decisions, so compare shares across worlds.",
    "Rationality β": "How sharply the best model prefers better actions, per unit of utility. ∞: "
    "behaviour exactly optimal. 0: uniform. Negative: the agent avoids the goal.",
}
