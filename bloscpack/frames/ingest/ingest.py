"""Ingest: items of any kind become clips of a frame store, on all processors.

Items are read and encoded in worker processes, which send stored chunks; this process appends the
clips, in the order of the items, so that the file is the same for any number of workers. A clip is
in the store as soon as it is appended: a run that was interrupted is continued by the same call,
which passes over the ids that are there.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

from ...exceptions import BloscpackError, FormatError, WorkerError
from ...parallel.processes import Job, Workers, resolve_nworkers
from .. import listing
from ..protocol import FrameSource
from ..store.frameencoding import Options
from .encodetask import Chunks, Ending, Order, Parcel, ReadError, encode
from .items import BadItem, Item, Way
from .series import Series

# Stored bytes between two flushes: a loss of power takes no more.
_FLUSH_NBYTES = 256 << 20
# How often an item is tried when its worker is killed, which another one may have caused.
_TRIES = 2

OnError = Literal["skip", "raise"]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about an item that a person should know.

    Attributes
    ----------
    id : str
        Of the item.
    source : str
        Where it comes from: a path, or an id.
    text : str
        Why it was skipped, or what is special about the clip.
    is_skipped : bool
        Whether there is no clip of it.
    """

    id: str
    source: str
    text: str
    is_skipped: bool

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source and self.source != self.id else ""
        return f"{self.id}{where}: {'skipped: ' * self.is_skipped}{self.text}"


@dataclass(slots=True)
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    paths : list of str
        The files.
    nclips, nframes : int
        Added by this run.
    cbytes : int
        Stored bytes of these frames.
    npresent : int
        Items whose ids were there already.
    remarks : list of Remark
        Items that were skipped, and what is special about others.
    """

    paths: list[str] = field(default_factory=list)
    nclips: int = 0
    nframes: int = 0
    cbytes: int = 0
    npresent: int = 0
    remarks: list[Remark] = field(default_factory=list)

    @property
    def skipped(self) -> list[Remark]:
        """The items that were skipped."""
        return [remark for remark in self.remarks if remark.is_skipped]

    @property
    def ok(self) -> bool:
        """Whether no item was skipped."""
        return not self.skipped


def ingest(
    items: Iterable[Item] | Mapping[str, Any] | FrameSource,
    path: str | os.PathLike[str],
    *,
    codec: str | None = None,
    preset: str | None = None,
    quality: int | None = None,
    short_edge: int | None = None,
    check: bool = False,
    keep_damaged: bool = False,
    workers: int | None = None,
    nthreads: int | None = None,
    resume: bool = True,
    overwrite: bool = False,
    on_error: OnError = "skip",
    max_bytes: int | None = None,
    allow_empty: bool = False,
    attrs: Mapping[str, Any] | None = None,
    log: Callable[[Remark], object] | None = None,
    progress: Callable[[int, int], object] | None = None,
    locking: bool = True,
) -> IngestReport:
    """Put items into a frame store, one clip each, in their order.

    Parameters
    ----------
    items : iterable of Item, mapping or FrameSource
        What `bloscpack.frames.listing` makes of folders and lists; ids and their frames; or
        another source of clips.
    path : str or PathLike
        The store, which is made if it does not exist.
    codec : {"lossless", "jpeg"}, optional
        How frames are kept. By default JPEG and PNG images as they are, and everything else
        lossless. "jpeg" keeps images as they are too, unless `quality` or `short_edge` is given.
    preset : {"fast", "small"}, optional
        Of lossless, by default "fast".
    quality : int, optional
        Of codec "jpeg", 1 to 100, by default 90.
    short_edge : int, optional
        Resize images and videos so that their shorter edge has so many pixels; needs `codec`.
    check : bool, optional
        Decode images that are kept as they are, to see whether they are whole.
    keep_damaged : bool, optional
        Keep what can be decoded of damaged videos, which are skipped by default; the report and
        ``meta["damaged"]`` say so.
    workers : int, optional
        Processes that read and encode; 1 is this one. By default as many as there are processors,
        at most 8.
    nthreads : int, optional
        Threads that encode where this process does it; as many by default.
    resume : bool, optional
        Add to a store that is there: items whose ids are in it are passed over.
    overwrite : bool, optional
        Replace a store that is there.
    on_error : {"skip", "raise"}, optional
        What to do about items that cannot be read: leave them out and report them, or stop. What
        has been added stays in either case.
    max_bytes : int, optional
        Write several files, ``NAME-00000.blp`` and so on, each of which is full when it has so many
        bytes.
    allow_empty : bool, optional
        Make a store without clips, or leave it as it is, where there are no items at all, which is
        an error otherwise.
    attrs : mapping, optional
        JSON values to keep with a new store.
    log : callable, optional
        Called with each `Remark` at once.
    progress : callable, optional
        Called with the number of items that are done, and that of all, -1 if it is not known.
    locking : bool, optional
        Lock the store; see `bloscpack.frames.create`.

    Returns
    -------
    IngestReport
        What was added, and what was skipped and why.

    Raises
    ------
    FileExistsError
        The store exists, and neither `resume` nor `overwrite` is given.
    LockedError
        Another writer has it open.
    TypeError, ValueError
        A parameter is out of its range, or not what the store was made with. Or there are no items;
        no store was made then.
    WorkerError
        Worker processes cannot be started: see Notes.
    ImportError
        simplejpeg, Pillow or PyAV is missing, and needed.
    OSError
        The store cannot be written.

    Notes
    -----
    The bytes of a new store do not depend on the number of workers. These are started with "spawn":
    a program that uses more than one keeps what it does behind ``if __name__ == "__main__":``.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> report = bp.frames.ingest({"walk": np.zeros((16, 4, 6, 3), "u1")}, "clips.blp")
    >>> report.nclips, report.nframes, report.ok
    (1, 16, True)
    """
    if on_error not in ("skip", "raise"):
        raise ValueError(f"on_error must be 'skip' or 'raise', not {on_error!r}")
    if quality is not None and codec != "jpeg":
        raise ValueError("quality is for codec='jpeg'")
    if short_edge is not None and codec is None:
        raise ValueError("resized frames are encoded anew: say how, with codec=")
    if max_bytes is not None and max_bytes < 1:
        raise ValueError(f"max_bytes must be at least 1, not {max_bytes}")
    nworkers = resolve_nworkers(workers)
    way = Way(
        keep=codec != "lossless" and quality is None,
        check=check,
        short_edge=short_edge,
        keep_damaged=keep_damaged,
    )
    found = _items_of(items)
    if not allow_empty:
        found = _nonempty(found)
    given = {"codec": codec, "preset": preset, "quality": quality}
    with Series(
        path,
        Options().replace(**given),
        attrs,
        max_nbytes=max_bytes,
        resume=resume,
        overwrite=overwrite,
        locking=locking,
    ) as series:
        options = _agreed(series, given)
        loop = _Loop(series, (way, options, nthreads), on_error, log)
        return loop.run(found, nworkers, progress)


def _agreed(series: Series, given: Mapping[str, Any]) -> Options:
    """Return the options of the store, after comparing what was given."""
    options = series.options
    for name, value in given.items():
        if value is not None and value != getattr(options, name):
            raise ValueError(
                f"{series.paths[0]}: was made with {name}={getattr(options, name)!r}, "
                f"not {value!r}: give the same, or overwrite it"
            )
    return options


def _items_of(items: Any) -> Iterable[Item]:
    if isinstance(items, str | os.PathLike):
        raise TypeError(
            "items are not a path: bloscpack.frames.listing has folders(), images(), videos(), "
            "arrays() and listed(), which make items of one"
        )
    if isinstance(items, Mapping):
        return list(listing.in_memory(items))
    if hasattr(items, "keys"):
        return listing.clips(items)
    found: Iterable[Item] = items
    return found


def _nonempty(items: Iterable[Item]) -> Iterable[Item]:
    """Return the items, of which there must be one, before a store is made for them."""
    if isinstance(items, Sized):
        if len(items):
            return items
    else:
        rest = iter(items)
        for first in rest:
            return chain([first], rest)
    raise ValueError(
        "there is nothing to ingest, so nothing was written: check the folder, list or pattern "
        "that the items are from, or allow it with --allow-empty (allow_empty=True)"
    )


class _Loop:
    """One ingest at work."""

    def __init__(
        self,
        series: Series,
        how: tuple[Way, Options, int | None],
        on_error: OnError,
        log: Callable[[Remark], object] | None,
    ) -> None:
        self._series = series
        self._how = how
        self._on_error = on_error
        self._log = log
        self._report = IngestReport()
        self._nskipped = 0
        self._unflushed = 0

    def run(
        self,
        items: Iterable[Item],
        nworkers: int,
        progress: Callable[[int, int], object] | None,
    ) -> IngestReport:
        """Add all items."""
        report = self._report
        total = len(items) if isinstance(items, Sized) else -1

        def stays_here(order: Order) -> bool:
            return nworkers == 1 or order.item.stays_here(order.way)

        with Workers(encode, nworkers) as workers:
            for job in workers.run(self._orders(items), here=stays_here):
                self._add(job)
                if progress is not None:
                    progress(report.nclips + report.npresent + self._nskipped, total)
        report.paths = list(self._series.paths)
        return report

    def _orders(self, items: Iterable[Item]) -> Iterator[Order]:
        """Yield what is to be done for items that are not there; taken ahead of their turn."""
        seen: set[str] = set()
        for item in items:
            if not isinstance(item, Item):
                raise TypeError(f"an item is needed, not {type(item).__name__}")
            if not isinstance(item.id, str):
                raise TypeError(f"an id is a str, not {type(item.id).__name__}")
            if item.id in seen:
                reason = "an item before it has the same id"
                item = BadItem(id=item.id, name=item.source, reason=reason)
            elif item.id in self._series:
                self._report.npresent += 1
                continue
            seen.add(item.id)
            yield Order(item, *self._how)

    def _add(self, job: Job[Order, Chunks | Ending]) -> None:
        item = job.task.item
        if isinstance(item, BadItem):  # its id may be that of a clip
            self._skip(item, FormatError(item.reason))
            return
        for attempt in range(1, _TRIES + 1):
            parcel = Parcel(job.parts())
            try:
                self._series.append(item.id, parcel)
            except ReadError as err:
                cause = err.__cause__
                if isinstance(cause, WorkerError):
                    if not cause.started:
                        raise cause from None
                    if attempt < _TRIES:
                        continue
                self._skip(item, cause)
                return
            break
        self._report.nclips += 1
        self._report.nframes += parcel.nframes
        self._report.cbytes += parcel.cbytes
        for note in parcel.notes:
            self._remark(Remark(item.id, item.source, note, is_skipped=False))
        self._unflushed += parcel.cbytes
        if self._unflushed >= _FLUSH_NBYTES:
            self._series.flush()
            self._unflushed = 0

    def _skip(self, item: Item, cause: BaseException | None) -> None:
        if cause is None or isinstance(cause, ImportError):
            raise cause or ValueError(f"item {item.id!r} has failed without a reason")
        if self._on_error == "raise":
            cause.add_note(f"This was item {item.id!r:.200} from {item.source!r:.200}.")
            raise cause
        self._nskipped += 1
        self._remark(Remark(item.id, item.source, _reason(cause), is_skipped=True))

    def _remark(self, remark: Remark) -> None:
        self._report.remarks.append(remark)
        if self._log is not None:
            self._log(remark)


def _reason(err: BaseException) -> str:
    """Return what went wrong in one line."""
    if isinstance(err, OSError) and not isinstance(err, BloscpackError) and err.strerror:
        return err.strerror
    if isinstance(err, BloscpackError | ValueError | TypeError):
        return " ".join(str(err).split("\n"))
    if isinstance(err, MemoryError):
        return "not enough memory"
    return f"{type(err).__name__}: {err}"
