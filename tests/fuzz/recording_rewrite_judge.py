"""Copies, merges and repairs of damaged recordings: complete with the old data, or not created."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from bloscpack import vrs

Attempt = Callable[..., Any]
Fault = Callable[[str], None]
PRESETS = (None, None, "none", "fast", "zfast")


class RewriteJudge:
    """Rewrites a recording in a folder of its own.

    Parameters
    ----------
    recording : vrs.Recording
        Opened from `data`, with resynchronisation.
    attempt : callable
        Returns the result of a function, or `nothing`.
    """

    def __init__(
        self, recording: Any, data: bytes, folder: Path, attempt: Attempt, fault: Fault
    ) -> None:
        self.recording = recording
        self.data = data
        self.folder = folder / "rewritten"
        self.folder.mkdir(exist_ok=True)
        self.attempt = attempt
        self.fault = fault

    def check(self, rng: Random, nothing: Any) -> None:
        for path in self.folder.iterdir():
            path.unlink()
        check = rng.choice((self._check_copy, self._check_merge, self._check_repair))
        try:
            check(rng, nothing)
        except Exception as err:  # a file that was written must be readable without any error
            self.fault(f"{check.__name__}: {type(err).__name__}: {str(err)[:200]}")

    def _names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def _check_copy(self, rng: Random, nothing: Any) -> None:
        target = self.folder / "copy.vrs"
        preset, index = rng.choice(PRESETS), rng.choice(("front", "end"))
        what = f"copy {preset} {index}"
        report = self.attempt(
            what,
            lambda: vrs.copy(self.recording, target, compression=preset, index=index, nthreads=1),
        )
        if report is nothing:
            if self._names():
                self.fault(f"{what}: it fails and leaves {self._names()}")
            return
        with vrs.open(target, index="strict") as copied:
            if not copied.report.is_clean or len(copied) != len(self.recording):
                self.fault(f"{what}: {len(copied)} records, {copied.report}")
            checksums = [self.attempt(what, each.checksum) for each in (self.recording, copied)]
            if checksums[0] != checksums[1]:
                self.fault(f"{what}: another checksum")

    def _check_merge(self, rng: Random, nothing: Any) -> None:
        target = self.folder / "merged.vrs"
        options = {"keep_apart": rng.random() < 0.5, "nthreads": 1}
        sources = [self.recording, self.data]
        merged = self.attempt("merge", lambda: vrs.merge(sources, target, **options))
        if merged is nothing:
            if self._names():
                self.fault(f"merge: it fails and leaves {self._names()}")
            return
        with vrs.open(target, index="strict") as found:
            if len(found) != merged.nrecords or not found.report.is_clean:
                self.fault(f"merge: {len(found)} records, {found.report}")

    def _check_repair(self, rng: Random, nothing: Any) -> None:
        path = self.folder / "repaired.vrs"
        path.write_bytes(self.data)
        repair = self.attempt("fix_index", lambda: vrs.fix_index(path))
        if repair is nothing:
            if self._names() != [path.name] or path.read_bytes() != self.data:
                self.fault(f"fix_index: it fails and leaves another file, {self._names()}")
            return
        if repair.action == "none":
            if path.read_bytes() != self.data:
                self.fault("fix_index: it says that it did nothing")
            return
        with vrs.open(self.data, index="rebuild") as before, vrs.open(path) as after:
            if after.report.index_fault or after.report.gaps or after.report.nmissing:
                self.fault(f"fix_index: {after.report}")
            if repair.nrecords != len(after) or not _same_records(before, after):
                self.fault(f"fix_index: {len(after)} records, {len(before)} before")


def _same_records(one: Any, two: Any) -> bool:
    """Return whether two recordings have records of the same times, types and sizes."""
    columns = [
        (each.timestamps.view("i8"), each.table.record_type, each.table.size) for each in (one, two)
    ]
    return all(map(np.array_equal, *columns))
