"""A probe of a whole run: every part, kept as it is finished, and gone on with."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from goalmeter._errors import InvalidParameterError

pytest.importorskip("transformers")

import goalmeter as gm
from goalmeter.representation import measure
from goalmeter.representation.activations import Activations
from goalmeter.representation.measure import forecast
from goalmeter.representation.plans.readers import LinearSteps, PlanDecoder
from goalmeter.representation.probes.protocol import PositionOnly
from goalmeter.representation.probes.registry import Ridge
from goalmeter.representation.result import Representation
from goalmeter.representation.use.causal_use import ANSWERING, SPANS
from goalmeter.runs import read_run
from goalmeter.runs.forecast import Span

# One worker makes the walks and their probe, which take half a minute.
pytestmark = pytest.mark.xdist_group("probe of a run")
OPTIONS: dict[str, Any] = {
    "layers": [1],
    "use_decisions": 12,
    "interventions": ["knock-out"],
    "decoders": [1],
    "seed": 0,
}


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the mouse."""
    folder = tmp_path_factory.mktemp("probe") / "run"
    gm.navigation.measure(
        "goalmeter/mouse",
        sizes=[7],
        complexities=[0.6],
        grids=24,
        trajectories=1,
        beside=[],
        out=folder,
    )
    return folder


class StoppedError(Exception):
    """What a user's interrupt is in these tests."""


@pytest.fixture(scope="module")
def interrupted(walked: Path) -> tuple[Path, list[str]]:
    """A run whose probe was stopped in every stage and always began again; and all that it said."""
    folder = walked.parent / "interrupted"
    shutil.copytree(walked, folder, ignore=shutil.ignore_patterns("probe"))
    lines: list[str] = []
    stops = iter(
        ["maps/", "explained/", "screened 2", "confirmed", "hidden from own", "plan/linear", "bel"]
    )
    stop = next(stops)

    def tell(line: str) -> None:
        lines.append(line)
        if stop and stop in line:
            raise StoppedError(line)

    while stop:
        with pytest.raises(StoppedError):
            measure(folder, progress=tell, **OPTIONS)
        stop = next(stops, "")
    measure(folder, progress=tell, **OPTIONS)
    return folder, lines


@pytest.fixture(scope="module")
def probed(walked: Path) -> Representation:
    """The same probe without a stop."""
    return measure(walked, **OPTIONS)


def test_a_forecast_counts_what_is_left(
    walked: Path, probed: Representation, tmp_path: Path
) -> None:
    """Nothing is stored; after the probe nothing is left."""
    run = tmp_path / "run"
    shutil.copytree(walked, run, ignore=shutil.ignore_patterns("probe"))
    before = sorted(run.rglob("*"))
    told = forecast(run, token_rate=1000.0, **OPTIONS)
    assert sorted(run.rglob("*")) == before
    assert (told.trials, told.kept, told.left) == (probed.decisions, 0, probed.decisions)
    assert told.counted["grids"] == probed.grids
    folders = [walked / "probe" / n for n in ("activations", "random-weights", "first-decisions")]
    assert told.counted["passes"] == sum(len(Activations.open(each).rows) for each in folders)
    disk = sum(path.stat().st_size for each in folders for path in each.iterdir())
    assert told.disk is not None and told.disk.most == pytest.approx(disk, rel=0.1)
    stages = read_run(walked / "probe").values
    assert told.counted["map fits"] == len([key for key in stages if key.startswith("maps/")])
    places = {(row.decoder, row.layer, row.position) for row in probed.plan}
    assert told.counted["plan fits"] == len(places)
    assert told.hours == Span.of(told.counted["tokens read"] / 1000 / 3600)
    measured = forecast(run, **OPTIONS)
    assert measured.hours is not None and measured.hours.least > 0
    after = forecast(walked, token_rate=1000.0, **OPTIONS)
    assert (after.left, after.disk, after.hours) == (0, Span.of(0), Span.of(0))
    assert after.counted["map fits"] == after.counted["plan fits"] == 0


def test_every_part_is_there(probed: Representation) -> None:
    """Maps with their controls, what they explain, what is used, plans."""
    assert probed.left_out == {}
    controls = {"position only", "majority", "shuffled activations", "random weights"}
    controls |= {"embeddings alone", "control task"}
    assert {row.control for row in probed.maps_of()} == {None, *controls}
    assert {row.position for row in probed.maps} == {"pre/end", "post/end"}
    assert probed.explained["explained_errors"]["controls"]
    assert {row.half for row in probed.use} == {"screen", "confirm"}
    assert sum(row.chosen for row in probed.use) == 1
    for name in ("meg_true", "meg_decoded", "meg_believed", "difference"):
        assert {"value", "interval", "n"} <= set(probed.believed[name])
    assert {row.decoder for row in probed.plan} == {"linear", "decoder(1)"}
    assert len({row.position for row in probed.decided}) == 13
    assert probed.states and probed.settled
    assert {row.span for row in probed.spans} == {*SPANS, ANSWERING}
    assert {row.half for row in probed.spans} == {"confirm"}
    # Streams are exchanged where patches are tried, see `stages.test_streams`.
    assert probed.moved == () == probed.subspaces


@pytest.mark.slow
def test_a_probe_that_was_stopped_everywhere_has_the_same_numbers(
    interrupted: tuple[Path, list[str]], probed: Representation
) -> None:
    """And makes no stage twice that was finished."""
    folder, lines = interrupted
    ours, theirs = Representation.load(folder).to_json(), probed.to_json()
    assert {**ours, "run": ""} == {**theirs, "run": ""}
    finished = [line for line in lines if line == "probe: maps/ridge/layer-1/post/end"]
    assert len(finished) == 1


def test_asked_again_it_reads_what_is_there(
    walked: Path, probed: Representation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a pass through any network, a fit, or a network with random weights."""
    import torch
    import transformers

    def refuse(*arguments: Any, **options: Any) -> Any:
        raise AssertionError(f"a finished probe is made again: {arguments[:1]}")

    monkeypatch.setattr(torch.nn.Module, "__call__", refuse)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_config", refuse)
    for fits in (Ridge, PositionOnly, LinearSteps, PlanDecoder):
        monkeypatch.setattr(fits, "fit", refuse)
    lines: list[str] = []
    again = measure(walked, progress=lines.append, **OPTIONS)
    assert again.to_json() == probed.to_json()
    assert not [line for line in lines if line.startswith(("probe:", "use:", "plan:"))]


def test_a_narrower_question_takes_nothing_away(
    walked: Path, probed: Representation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was finished stays in the result, and in the tables, without being made again."""
    from goalmeter.commands import probe

    folder = tmp_path / walked.name
    shutil.copytree(walked, folder)
    probe.probe(folder, **OPTIONS)
    before = (folder / "probe" / probe.TABLES).read_text()
    # What is not asked for is not even opened.
    shutil.rmtree(folder / "probe" / "activations")
    for fits in (Ridge, PositionOnly, LinearSteps, PlanDecoder):
        monkeypatch.setattr(fits, "fit", None)
    outcome = probe.probe(folder, parts=["plan"], **OPTIONS)
    assert outcome.json == Representation.load(folder).to_json() == probed.to_json()
    assert (folder / "probe" / probe.TABLES).read_text() == before
    assert "plan" in before


def test_another_probe_in_the_same_run_is_refused(walked: Path, probed: Representation) -> None:
    """What differs is named."""
    with pytest.raises(InvalidParameterError, match="seed"):
        measure(walked, **OPTIONS | {"seed": 1})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": [9]}, "expected numbers from 0 to 4"),
        ({"positions": ["pre/ende"]}, "pre/end"),
        ({"probes": ["rigde"]}, "ridge"),
        ({"parts": ["map"]}, "maps"),
        ({"interventions": ["knockout"]}, "knock-out"),
        ({"interventions": ["open"]}, "interventions contains only open"),
        ({"decoders": [0]}, "decoders is 0, expected at least 1"),
    ],
)
def test_what_cannot_be_asked_is_refused(
    walked: Path, options: dict[str, Any], message: str
) -> None:
    """Before anything is replayed."""
    with pytest.raises(InvalidParameterError, match=message):
        measure(walked, **OPTIONS | options)
