"""Each sequence is sampled by its own seed, temperature and cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from goalmeter.agents.local_models import Sampling, SeededSampling  # noqa: E402

WEIGHTS = [0.05, 0.4, 0.3, 0.15, 0.1]
IDS = torch.zeros((1, 1), dtype=torch.long)


def drawn(samplings: list[Sampling], times: int = 1) -> list[list[int]]:
    """Tokens drawn from WEIGHTS, a list for each step."""
    chooser = SeededSampling(samplings)
    logits = torch.tensor([WEIGHTS]).log().repeat(len(samplings), 1) + 3.0
    out = []
    for _ in range(times):
        left = chooser(IDS, logits)
        assert ((left == 0).sum(dim=1) == 1).all() and (left == -torch.inf).sum() == 4 * len(left)
        out.append(left.argmax(dim=1).tolist())
    return out


def shares(**options: Any) -> list[float]:
    """How often each token is drawn by many seeds."""
    n = 20_000
    counts = Counter(drawn([Sampling(seed=s, **options) for s in range(n)])[0])
    return [counts[token] / n for token in range(len(WEIGHTS))]


# Four standard errors of a share of 0.5 in 20,000 draws.
CLOSE = 0.015


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, WEIGHTS),
        ({"temperature": 0.0}, [0, 1, 0, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 3 / 7, 0, 0]),
        # 0.4 + 0.3 is not yet 0.75, so the third belongs to it; 0.7 is reached with the second.
        ({"top_p": 0.75}, [0, 0.4 / 0.85, 0.3 / 0.85, 0.15 / 0.85, 0]),
        ({"top_p": 0.69}, [0, 4 / 7, 3 / 7, 0, 0]),
        ({"top_p": 0.01}, [0, 1, 0, 0, 0]),
        ({"temperature": 0.5}, [w**2 / sum(v**2 for v in WEIGHTS) for w in WEIGHTS]),
    ],
)
def test_shares(options: dict[str, Any], expected: list[float]) -> None:
    assert shares(**options) == pytest.approx(expected, abs=CLOSE)


def test_company_does_not_matter() -> None:
    mine = Sampling(seed=7, temperature=0.9, top_p=0.9)
    references = [Sampling(seed=1), Sampling(seed=2, temperature=0.0), Sampling(seed=3, top_k=1)]
    alone = [step[0] for step in drawn([mine], 50)]
    assert [step[2] for step in drawn([*references[:2], mine, references[2]], 50)] == alone
    assert len(set(alone)) > 1  # each step draws anew
    assert alone != [step[0] for step in drawn([Sampling(seed=8, temperature=0.9, top_p=0.9)], 50)]
