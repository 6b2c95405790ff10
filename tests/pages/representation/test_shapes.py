"""Results of every shape give a page, whatever is missing and whoever wrote it."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from goalmeter.representation.result import Representation

from . import made, made_rows
from .made_rows import NAN, NOTHING, map_row, share
from .shown_parts import page_of

HOSTILE = "<script>alert('x')</script>{0}\x1b[31m$a_b$"


def nothing_known() -> Representation:
    """Every number is missing."""
    no_fit = {"nats": NOTHING.to_json(), "share": NOTHING.to_json(), "rationality": NAN}
    return made.result(
        maps=tuple(replace(row, auroc=None, gain_bits=NOTHING) for row in made_rows.map_rows()),
        places=tuple(replace(r, exact=NOTHING, distance=NOTHING) for r in made_rows.place_rows()),
        use=tuple(
            replace(r, flips=NOTHING, unneeded_flips=NOTHING, null_flips=None, effect_nats=None)
            for r in made_rows.use_rows()
        ),
        doses=tuple(replace(r, flips=NOTHING, null_flips=NOTHING) for r in made_rows.dose_rows()),
        spans=tuple(replace(r, flips=NOTHING, other_flips=NOTHING) for r in made_rows.span_rows()),
        moved=tuple(
            replace(r, flips=NOTHING, null_flips=NOTHING, same_flips=NOTHING)
            for r in made_rows.moved_rows()
        ),
        subspaces=(made_rows.subspace_row(flips=NOTHING, degrees=None, chance=()),),
        plan=tuple(
            replace(r, prefix=NOTHING, conditional=NOTHING, baselines={})
            for r in made_rows.plan_rows()
        ),
        decided=tuple(
            replace(r, accuracy=NOTHING, baselines={}, beyond=NOTHING)
            for r in made_rows.decided_rows()
        ),
        states=(replace(made_rows.picture(), wall=((NAN,) * 7,) * 7, used=(), optimal=()),),
        explained={"explained_errors": NOTHING.to_json()},
        believed={"meg_true": no_fit, "meg_believed": made.fit(1.0)},
    )


@pytest.mark.parametrize(
    "result",
    [
        nothing_known(),
        made.bare(),
        made.bare(maps=()),
        made.bare(maps=(map_row(share(0.9)),), chosen={}),
        made.bare(maps=(map_row(share(0.9), cells="all"),)),
        made.bare(use=made_rows.use_rows()[:3]),
        made.bare(doses=made_rows.dose_rows()),
        made.bare(spans=made_rows.span_rows()[:1]),
        made.bare(moved=made_rows.moved_rows()[3:5]),
        made.bare(subspaces=(made_rows.subspace_row(),)),
        made.bare(plan=made_rows.plan_rows()[1:2]),
        made.bare(decided=made_rows.decided_rows()[:1]),
        made.bare(believed=made.believed(made_rows.est(1.0)) | {"controls": {}, "beyond": {}}),
    ],
)
def test_a_page_of_every_shape(tmp_path: Path, result: Representation) -> None:
    # A report reads the stored result.
    result.save(tmp_path)
    _, text = page_of(tmp_path, Representation.load(tmp_path))
    assert ">nan" not in text.lower() and "None" not in re.sub(r"<[^>]*>", "", text)


def test_what_others_wrote_is_shown_as_text(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "model": HOSTILE,
        "run": HOSTILE,
        "maps": (map_row(share(0.9)), map_row(share(0.5), HOSTILE)),
        "use": (made_rows.used_row(share(0.9), HOSTILE, chosen=True, half="screen"),),
        "doses": (replace(made_rows.dose_rows()[0], intervention=HOSTILE),),
        "spans": tuple(replace(row, span=HOSTILE) for row in made_rows.span_rows()),
        "moved": tuple(replace(r, moved=HOSTILE, position=HOSTILE) for r in made_rows.moved_rows()),
        "subspaces": (replace(made_rows.subspace_row(), moved=HOSTILE),),
        "plan": tuple(replace(row, decoder=HOSTILE) for row in made_rows.plan_rows()),
        "states": (
            replace(
                made_rows.picture(), walk=HOSTILE, truth=("#<#", "A&G", "#{#"), decoded=(), used=()
            ),
        ),
        "left_out": {HOSTILE: HOSTILE},
        "believed": made.believed(made_rows.est(1.0)),
    }
    _, text = page_of(tmp_path, made.result(**changes), made.bare(model=HOSTILE, run=HOSTILE))
    assert "<script" not in text and "\x1b" not in text
    assert html.escape("<script>alert", quote=False) in text
