"""Ingest the items of an adapter into new chunks of a Gulp directory, in several processes.

Workers write chunks to a hidden folder. The parent process renames them, in order, after checking
that no id is repeated. The directory therefore holds complete chunks at all times, and its bytes do
not depend on the number of workers. (The data file and the index are renamed one after the other. A
process killed in between leaves a data file that `GulpDirectory` ignores and GulpIO2 fails on,
until the ingest is finished.) An interrupted ingest continues when it is started again with the
same items in the same order (`bloscpack.gulp.ingest.ingestlog`).
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import xxhash

from ...plugin import Progress, ProgressBar, disk, map_in_processes, notice, refuse_url_as_target
from ..chunk.chunkfile import GulpChunk
from ..chunk.format import chunk_names
from ..chunk.ids import existing_ids
from ..directory import list_folder
from ..gulperrors import DuplicateIdException
from .baseadapter import AbstractDatasetAdapter
from .chunkwriter import calculate_chunk_slices
from .ingestlog import Done, Journal, Plan


class SkippedItem(NamedTuple):
    """An item that was skipped."""

    id: str
    reason: str  # reason for skipping it


@dataclass(slots=True)
class IngestReport:
    """Result of an ingest.

    Attributes
    ----------
    chunks : list of int
        Numbers of the chunks that hold the items.
    items, frames : int
        Number of items and frames stored.
    skipped : list of SkippedItem
        Items that were skipped.
    nresumed : int
        Number of chunks taken over from an interrupted ingest.
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
    """Ingest of the items of an adapter; call the instance to run it.

    Parameters
    ----------
    adapter : AbstractDatasetAdapter
        Source of the items. With more than one worker it must be picklable, unless processes are
        forked; it is sent to each worker once.
    output_folder : str or PathLike
        The Gulp directory, created if it does not exist.
    videos_per_chunk : int
        Items per chunk.
    num_workers : int
        Number of processes; 1 means this process only.
    progress : callable, optional
        Called with the number of chunks done and their total. By default a bar is shown if standard
        error is a terminal.
    on_skip : callable, optional
        Called with each `SkippedItem`. By default a `BloscpackWarning` at the end states their
        number and the first of them; the report lists them all.

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
            Chunks written and items skipped: those without frames, and those that cannot be
            encoded.

        Warns
        -----
        BloscpackWarning
            Items were skipped and `on_skip` is not given; the adapter yields fewer items than its
            length; or no item could be stored, so the new chunks are empty.

        Raises
        ------
        AssertionError
            The adapter is empty, or `videos_per_chunk` is less than 1.
        DuplicateIdException
            An id is repeated, or is already in the directory.
        UnsupportedError
            The directory is a URL.
        LockedError
            Another ingest is writing to the directory.

        Notes
        -----
        An error of the adapter ends the ingest, with a note that names the item. Finished chunks
        stay, and the next call continues after them, provided that the adapter has the same number
        of items (and, if it lists its ids, the same ids in the same order).
        """
        refuse_url_as_target(self.output_folder, "a Gulp directory")
        folder = os.fsdecode(self.output_folder)
        if len(self.adapter) == 0:
            raise AssertionError(
                "the adapter is empty: there is nothing to ingest, so nothing was written; check "
                "the folder or list that it reads"
            )
        slices = calculate_chunk_slices(self.videos_per_chunk, len(self.adapter))
        ids = _ids_of(self.adapter)
        plan = Plan(len(self.adapter), self.videos_per_chunk, None if ids is None else _digest(ids))
        os.makedirs(folder, exist_ok=True)
        report = IngestReport()
        terminal = sys.stderr if self._progress is None else None
        with Journal(folder, plan) as journal, ProgressBar(terminal, unit="chunks") as bar:
            show = bar if self._progress is None else self._progress
            for chunk in _resume(journal):
                self._add(report, chunk)
            report.nresumed = len(journal.done)
            show(report.nresumed, len(slices))
            todo = [position for position in range(len(slices)) if position not in journal.done]
            present = existing_ids(folder)
            if ids is not None:
                _refuse_present(ids, [slices[position] for position in todo], present, journal)
            journal.begin()
            prepare = getattr(self.adapter, "prepare", None)
            if prepare is not None:
                prepare()
            first = list_folder(folder).next_number
            tasks = [
                _Task(position, number, slices[position], journal.new_name(position))
                for number, position in enumerate(todo, first)
            ]
            results = map_in_processes(_write_chunk, self.adapter, tasks, self.num_workers)
            with closing(results):
                for task, result in zip(tasks, results, strict=True):
                    self._add(report, _publish(journal, task, result, present))
                    show(len(journal.done), len(slices))
            journal.finish()
        if report.skipped and self._on_skip is None:
            first_one = report.skipped[0]
            notice(
                "%d of %d items were left out; the first is %.80r: %s",
                len(report.skipped),
                len(self.adapter),
                first_one.id,
                first_one.reason,
            )
        self._warn_of_missing(report)
        return report

    def _warn_of_missing(self, report: IngestReport) -> None:
        """Warn of chunks without items, and of items that are counted but not yielded."""
        count = len(self.adapter)
        yielded = report.items + len(report.skipped)
        if yielded < count:
            notice(
                "the adapter has %d items by its length, but yielded %d: the others are missing",
                count,
                yielded,
            )
        if not report.items:
            notice(
                "none of the %d items could be stored in %s: the new chunks are empty, as those of "
                "GulpIO2 are then",
                count,
                os.fsdecode(self.output_folder),
            )

    def _add(self, report: IngestReport, chunk: Done) -> None:
        """Add a finished chunk to the report, and report the items it skipped."""
        report.add(chunk)
        for id_, reason in chunk.skipped:
            if self._on_skip is not None:
                self._on_skip(SkippedItem(id_, reason))


class _Task(NamedTuple):
    """Task of a worker: write one chunk."""

    position: int
    number: int
    slice: slice
    stem: str

    @property
    def paths(self) -> tuple[str, str]:
        """Temporary paths of data and index."""
        return f"{self.stem}.gulp", f"{self.stem}.gmeta"


class _Result(NamedTuple):
    """A chunk that has been written."""

    ids: list[str]
    frames: int
    skipped: list[list[str]]


def _write_chunk(adapter: AbstractDatasetAdapter, task: _Task) -> _Result:
    """Write the items of a slice to a chunk, in a worker process."""
    result = _Result([], 0, [])
    at = "before its first item"
    frames = 0
    try:
        chunk = GulpChunk(*task.paths)
        with chunk.open("wb"):
            for item in adapter.iter_data(task.slice):
                id_ = str(item["id"])
                at = f"at item {id_!r:.80}"
                frames += _write_item(chunk, item, id_, result)
                at = f"after item {id_!r:.80}"
    except Exception as err:
        err.add_note(f"while items {task.slice.start} to {task.slice.stop - 1} were ingested, {at}")
        raise
    return result._replace(frames=frames)


def _write_item(chunk: GulpChunk, item: dict[str, Any], id_: str, result: _Result) -> int:
    """Append an item to a chunk, and return its number of frames, or 0 if it is skipped."""
    if id_ in chunk:
        raise DuplicateIdException(f"the adapter yields two items of id {id_!r:.80}")
    frames = item["frames"]
    if len(frames) == 0:
        result.skipped.append([id_, str(item.get("error") or "no frames")])
        return 0
    try:
        chunk.append(item["id"], item["meta"], [_content(frame) for frame in frames])
    except (ValueError, FileNotFoundError) as err:
        # A frame that JPEG cannot represent, or a missing file; nothing of the item is written.
        result.skipped.append([id_, str(err)])
        return 0
    result.ids.append(id_)
    return len(frames)


def _content(frame: Any) -> Any:
    """Return the content to store for a frame: for a path, the bytes of the file."""
    if isinstance(frame, str | os.PathLike):
        with open(frame, "rb") as file:
            return file.read()
    return frame


def _publish(journal: Journal, task: _Task, result: _Result, present: set[str]) -> Done:
    """Give the files of a chunk their final names, after recording that it is done."""
    twice = next((id_ for id_ in result.ids if id_ in present), None)
    if twice is not None:
        raise DuplicateIdException(
            f"{journal.folder}: an item of id {twice!r:.80} is there already, or came before"
        )
    present.update(result.ids)
    sizes = [os.stat(path).st_size for path in task.paths]
    done = Done(task.position, task.number, sizes, len(result.ids), result.frames, result.skipped)
    journal.add(done)
    names = chunk_names(task.number)
    for path, name in zip(task.paths, (names.data, names.meta), strict=True):
        disk.replace(path, os.path.join(journal.folder, name))
    disk.sync_folder(journal.folder)
    return done


def _resume(journal: Journal) -> list[Done]:
    """Return the chunks that an interrupted ingest has finished, and discard incomplete ones."""
    for done in list(journal.done.values()):
        if not journal.is_there(done):
            del journal.done[done.position]
            _remove_orphan(journal.folder, done)
    return [journal.done[position] for position in sorted(journal.done)]


def _remove_orphan(folder: str, done: Done) -> None:
    """Remove the data file of a chunk whose index was never renamed."""
    names = chunk_names(done.number)
    data, meta = (os.path.join(folder, name) for name in (names.data, names.meta))
    is_orphan = os.path.exists(data) and not os.path.exists(meta)
    if is_orphan and os.stat(data).st_size == done.nbytes[0]:
        disk.unlink(data)


def _refuse_present(
    ids: list[str], slices: list[slice], present: set[str], journal: Journal
) -> None:
    """Raise, before any work is done, if ids are repeated or already in the directory."""
    seen: set[str] = set()
    for id_ in ids:
        if id_ in seen:
            raise DuplicateIdException(f"the adapter has two items of id {id_!r:.80}")
        seen.add(id_)
    new = [id_ for part in slices for id_ in ids[part]]
    there = [id_ for id_ in new if id_ in present]
    if there:
        hint = (
            "; an ingest of these in another order was interrupted: the same seed of `random` "
            "gives the same order"
            if journal.is_other
            else ""
        )
        raise DuplicateIdException(
            f"{journal.folder}: {len(there)} of {len(new)} items are there already, such as "
            f"{there[0]!r:.80}; remove_duplicate_ids leaves them out{hint}"
        )


def _ids_of(adapter: AbstractDatasetAdapter) -> list[str] | None:
    """Return the ids of all items, or None if the adapter does not list them."""
    item_ids = getattr(adapter, "item_ids", None)
    if item_ids is None:
        return None
    ids = item_ids()
    if not isinstance(ids, list) or len(ids) != len(adapter):
        return None
    return [str(id_) for id_ in ids]


def _digest(ids: list[str]) -> str:
    return xxhash.xxh3_128_hexdigest(json.dumps(ids).encode("ascii"))
