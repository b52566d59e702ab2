"""Ingest: the items of an adapter into new chunks of a gulp directory, in several processes.

Workers write chunks in a hidden folder; the parent gives them their names, in order, after checking
that no id comes twice. So the directory holds whole chunks at any time, whoever reads it, and the
same bytes come out for any number of workers. An ingest that died goes on where it was when it is
started again with the same items in the same order (`bloscpack.gulp.journal`).
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import xxhash

from ..notice import notice
from ..processes import map_in_processes
from ..storage import disk
from .adapter import AbstractDatasetAdapter
from .chunk import GulpChunk
from .directory import list_folder
from .errors import DuplicateIdException
from .format import chunk_names
from .ids import existing_ids
from .journal import Done, Journal, Plan, sizes_of
from .writer import calculate_chunk_slices

Progress = Callable[[int, int], None]


class SkippedItem(NamedTuple):
    """An item that was left out.

    Attributes
    ----------
    id : str
        Of the item.
    reason : str
        Why.
    """

    id: str
    reason: str


@dataclass(slots=True)
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    chunks : list of int
        Numbers of the chunks that hold the items.
    items, frames : int
        How many were stored.
    skipped : list of SkippedItem
        Items that were left out.
    nresumed : int
        How many of the chunks were there from an ingest that was interrupted.
    """

    chunks: list[int] = field(default_factory=list)
    items: int = 0
    frames: int = 0
    skipped: list[SkippedItem] = field(default_factory=list)
    nresumed: int = 0

    def add(self, chunk: Done) -> None:
        """Count a chunk."""
        self.chunks.append(chunk.number)
        self.items += chunk.items
        self.frames += chunk.frames
        self.skipped += [SkippedItem(*pair) for pair in chunk.skipped]


class GulpIngestor:
    """Ingests the items of an adapter; call it.

    Parameters
    ----------
    adapter : AbstractDatasetAdapter
        Gives the items. With more than one worker it must be picklable, unless processes are
        forked; it is sent once to each.
    output_folder : str or PathLike
        The gulp directory; made if it does not exist.
    videos_per_chunk : int
        Items in a chunk.
    num_workers : int
        Processes; 1 works in this one.
    progress : callable, optional
        Called with the number of chunks that are done and that of all. By default a bar is shown
        (by tqdm, if that is installed) where standard error is a terminal.
    on_skip : callable, optional
        Called with each `SkippedItem`. By default they are logged, and a RuntimeWarning at the end
        tells how many there were.

    Raises
    ------
    AssertionError
        `num_workers` is less than 1.
    """

    def __init__(
        self,
        adapter: AbstractDatasetAdapter,
        output_folder: str | os.PathLike[str],
        videos_per_chunk: int,
        num_workers: int,
        *,
        progress: Progress | None = None,
        on_skip: Callable[[SkippedItem], None] | None = None,
    ) -> None:
        if int(num_workers) < 1:
            raise AssertionError(f"num_workers must be at least 1, not {num_workers}")
        self.adapter = adapter
        self.output_folder = output_folder
        self.videos_per_chunk = int(videos_per_chunk)
        self.num_workers = int(num_workers)
        self._progress = progress
        self._on_skip = on_skip

    def __call__(self) -> IngestReport:
        """Write all items to new chunks.

        Returns
        -------
        IngestReport
            What was written, and what left out: items without frames and such as cannot be
            encoded.

        Raises
        ------
        AssertionError
            The adapter is empty, or `videos_per_chunk` is less than 1.
        DuplicateIdException
            An id comes twice, or is in the directory already.
        LockedError
            Another ingest is writing to the directory.

        Notes
        -----
        An error of the adapter ends the ingest; a note on the error says at which item. Chunks
        that are finished stay, and the next call goes on behind them, if the adapter has as many
        items (and, where it tells its ids, the same in the same order).
        """
        folder = os.fsdecode(self.output_folder)
        slices = calculate_chunk_slices(self.videos_per_chunk, len(self.adapter))
        ids = _ids_of(self.adapter)
        plan = Plan(len(self.adapter), self.videos_per_chunk, None if ids is None else _digest(ids))
        os.makedirs(folder, exist_ok=True)
        report = IngestReport()
        with Journal(folder, plan) as journal, _Bar(self._progress, len(slices)) as bar:
            for position in [p for p, chunk in journal.done.items() if not journal.is_there(chunk)]:
                self._abandon(journal.done.pop(position))
            for chunk in journal.done.values():
                report.add(chunk)
            report.nresumed = len(journal.done)
            bar.show(report.nresumed)
            todo = [p for p in range(len(slices)) if p not in journal.done]
            seen = existing_ids(folder)
            if ids is not None:
                _refuse_present([id_ for p in todo for id_ in ids[slices[p]]], seen, journal)
            tasks = [
                _Task(p, number, slices[p], journal.scratch)
                for p, number in zip(todo, self._numbers(todo), strict=False)
            ]
            written = map_in_processes(_write_chunk, self.adapter, tasks, self.num_workers)
            with closing(written):  # type: ignore[type-var]
                for task, result in zip(tasks, written, strict=True):
                    self._publish(journal, task, result, seen)
                    report.add(journal.done[task.position])
                    bar.show(len(journal.done))
            journal.finish()
        self._tell(report)
        return report
