"""What stands behind the colon of a place."""

from __future__ import annotations

import sys

import pytest

from goalmeter._errors import InvalidParameterError, MissingExtraError
from goalmeter.runs.backends import clusters
from goalmeter.runs.backends.clusters import minutes
from goalmeter.runs.backends.registry import opened


@pytest.mark.parametrize(
    ("on", "message"),
    [
        ("ray:a:1,b:2", "ray:a:1,b:2 has 'b:2'; expected NAME=VALUE once each, .* address, cpus"),
        ("ray:cpu=3", r"has 'cpu=3'; did you mean cpus\? expected NAME=VALUE"),
        ("ray:cpus=many", "cpus is 'many', expected a whole number"),
        ("slurm:partion=x", r"did you mean partition\?"),
        ("slurm:cluster=debug", "cluster is 'debug', expected slurm or local"),
        ("slurm:cluster=local,time=soon", "time is 'soon', expected minutes, or DAYS-HOURS"),
        ("slurm:cluster=local,time=0", "time is '0', expected more than nothing"),
        ("slurm:cluster=local,cores=100,jobs=6", "jobs is 6, expected at most 5"),
    ],
)
def test_what_is_refused(on: str, message: str) -> None:
    with pytest.raises(InvalidParameterError, match=message):
        opened(on, trials=3, timeout=None)


@pytest.mark.parametrize(
    ("on", "package", "extra"), [("ray", "ray", "ray"), ("slurm", "submitit", "slurm")]
)
def test_a_package_that_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, on: str, package: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=rf"needs the package '{package}'.*\[{extra}\]"):
        opened(on, trials=3, timeout=None)


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters.shutil, "which", lambda name: None)
    with pytest.raises(InvalidParameterError, match=r"no program sbatch.*slurm:cluster=local"):
        opened("slurm:partition=cpu", trials=3, timeout=None)


def test_no_more_workers_than_trials() -> None:
    assert opened("slurm:cluster=local,cores=2", trials=3, timeout=None).slots == 4
    assert opened("slurm:cluster=local,jobs=2", trials=9, timeout=None).slots == 2


def test_times_as_slurm_writes_them() -> None:
    written = {"1": 1, "0:01": 1, "59:01": 60, "1:00:00": 60, "1-0": 1440, "1-01:30": 1530}
    assert {text: minutes(text) for text in written} == written
