"""A folder through which text goes and comes: whole, once, and in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from goalmeter.runs.backends import slurm
from goalmeter.runs.backends.fleet import Setup
from goalmeter.runs.backends.slurm import READY, Mailbox


@pytest.fixture
def mailbox(tmp_path: Path) -> Mailbox:
    box = Mailbox(tmp_path / "mail")
    box.make("what all are told")
    return box


def test_batches_go_out_and_answers_come_back(mailbox: Mailbox) -> None:
    assert mailbox.setup() == "what all are told"
    mailbox.begin("a-0")
    for number in (2, 10):
        mailbox.ask("a-0", number, f"batch {number}")
    assert mailbox.asked("a-0") == [(2, "batch 2"), (10, "batch 10")]
    assert mailbox.asked("a-0") == []
    mailbox.answer("a-0", READY, "I")
    mailbox.answer("a-0", 10, "ten")
    assert sorted(mailbox.answers()) == [("a-0", "10", "ten"), ("a-0", READY, "I")]
    assert list(mailbox.answers()) == []


def test_nobody_reads_half_of_a_file(mailbox: Mailbox) -> None:
    mailbox.begin("a-0")
    (mailbox.folder / "answers" / ".a-0.3.json").write_text("hal")
    (mailbox.folder / "asks" / "a-0" / ".3.json").write_text("hal")
    assert list(mailbox.answers()) == [] and mailbox.asked("a-0") == []


def test_the_driver_counts(mailbox: Mailbox) -> None:
    assert mailbox.heart() == ""
    mailbox.beat(3)
    assert mailbox.heart() == "3"
    mailbox.beat(4)
    assert mailbox.heart() == "4"


def test_workers_leave_when_nobody_counts(tmp_path: Path) -> None:
    box = Mailbox(tmp_path / "mail")
    box.make(Setup.of({}, None).to_text())
    box.beat(1)
    slurm.serve(str(box.folder), ["a-0"], patience=0.5)  # which returns


def test_a_worker_that_is_refused_says_so(tmp_path: Path) -> None:
    box = Mailbox(tmp_path / "mail")
    box.make(Setup("another version", str(tmp_path), {}, None, {}).to_text())
    slurm.serve(str(box.folder), ["a-0"], patience=5.0)
    ((worker, about, text),) = box.answers()
    assert (worker, about) == ("a-0", READY) and "expected another version" in text
