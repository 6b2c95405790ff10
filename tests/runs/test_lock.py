"""One process at a time, with locks and without."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path

import pytest

from goalmeter._errors import InvalidParameterError
from goalmeter.runs import Alone
from goalmeter.runs.lock import OWNER

ELSEWHERE = "choose another folder (--out)"


def refused(*_: object) -> None:
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_folder_is_filled_by_one_at_a_time(
    has_locks: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", refused)
    (tmp_path / "mine").write_text("stays")
    with Alone(tmp_path, ELSEWHERE):
        with pytest.raises(InvalidParameterError, match=r"another process .*fills .*; wait for it"):
            Alone(tmp_path, ELSEWHERE).__enter__()
        assert (tmp_path / OWNER).exists() is not has_locks
    with Alone(tmp_path, ELSEWHERE):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
