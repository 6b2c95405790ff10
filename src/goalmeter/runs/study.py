"""A study: trials with keys, and what has to be known to make, keep and read their results."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from goalmeter.runs.jobs import Batch, JobResult

T = TypeVar("T")


@dataclass(frozen=True)
class Study(Generic[T]):
    """One function and the trials that it is called for: plain data, made before anything runs.

    Attributes:
        name: whose trials they are, as in progress and errors.
        function: "goalmeter.package.module:function", which gives a result as JSON values; or the
            function itself, which this process alone can call, and which gives the result.
        trials: by the key under which each is kept, in the order of the results: the arguments that
            it has to itself, by keyword.
        common: the arguments that all trials share.
        files: paths of the files that a trial reads, with their SHA-256: other machines get them.
        noun: what a trial is called, in the singular; its plural has an s.
        what: what tells the run from others, as JSON values; see `RunStore`.
        grows: keys of `what` with lists that may become longer; see `RunStore`.
        from_json: makes a result of a key and of JSON values, which may come from a file that
            anybody edited.

            Raises GoalmeterError if they are no result, or not that of the key.
        to_json: makes JSON values of a result.
        is_failure: whether a result counts as failed.
        tries_again: whether failed results are kept as tries only, to be made again.
        instead: the result of a trial whose call was refused, failed, took too long or died with
            its process. None ends the study there with an error; all before it is kept.
        check: asked before the first trial; what is wrong with it is wrong with all of them.
        check_advice: how to mend what `check` fails at, after a semicolon.
    """

    name: str
    function: str | Callable[..., T]
    trials: Mapping[str, Mapping[str, Any]]
    common: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    noun: str = "trial"
    what: Mapping[str, Any] = field(default_factory=dict)
    grows: Collection[str] = ()
    from_json: Callable[[str, Any], T] = lambda key, value: value
    to_json: Callable[[T], Any] = lambda result: result
    is_failure: Callable[[T], bool] = lambda result: False
    tries_again: bool = False
    instead: Callable[[str, JobResult], T] | None = None
    check: Batch | None = None
    check_advice: str = ""

    def batch(self, keys: Collection[str]) -> Batch:
        """Some of the trials, as a worker is asked for them."""
        return Batch(self.function, [self.trials[key] for key in keys], self.common, self.files)

    def result(self, key: str, value: Any) -> T:
        """The result that a call gave: a function itself gives it, a named one its JSON values."""
        return value if callable(self.function) else self.from_json(key, value)
