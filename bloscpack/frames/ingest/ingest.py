"""Ingest: turn items of any kind into clips of a frame store, on all processors.

Worker processes read and encode items, and send stored chunks back. This process appends the clips
in the order of the items, so the file does not depend on the number of workers. A clip is in the
store as soon as it is appended. The same call therefore continues an interrupted run: it skips the
ids that are present.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Unpack

from ...exceptions import BloscpackError, FormatError, WorkerError
from ...format.metadata import encode_values
from ...keywords import explain_keywords, nbytes_of
from ...notice import notice
from ...parallel.processes import Job, Workers, resolve_nworkers
from ...parallel.progressbar import as_progress
from ...storage.url import refuse_url_as_target
from ...types import FrameOptions, OnBadItem, Progress, ProgressOption, VideoPackets
from .. import listing
from ..protocol import FrameSource
from ..store.frameencoding import DEFAULT, Kept, Options
from ..store.openclip import is_clip
from .encodetask import EncodedItem, EncodeTask, Part, ReadError, encode
from .items import BadItem, ClipItem, Item, OtherFile, ReadOptions
from .series import Series

# Stored bytes between two flushes: the most that a power failure loses.
_FLUSH_NBYTES = 256 << 20
_LEFT_OUT = "left out: "
# How often an item is tried when its worker is killed; another item may have caused that.
_TRIES = 2


@dataclass(frozen=True, slots=True)
class Remark:
    """Note about an item, for the user.

    Attributes
    ----------
    id : str
        Id of the item.
    source : str
        Origin of the item: a path, or an id.
    text : str
        Why it was skipped, or what is unusual about the clip.
    is_skipped : bool
        Whether the item was left out.
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
    """Result of an ingest.

    Attributes
    ----------
    paths : list of str
        Files of the store.
    nclips, nframes : int
        Clips and frames added by this run.
    cbytes : int
        Stored bytes of these frames.
    npresent : int
        Items whose ids were already in the store.
    remarks : list of Remark
        Skipped items, and notes about others: also what the store lacks of an item or a source.
    """

    paths: list[str] = field(default_factory=list)
    nclips: int = 0
    nframes: int = 0
    cbytes: int = 0
    npresent: int = 0
    remarks: list[Remark] = field(default_factory=list)

    @property
    def skipped(self) -> list[Remark]:
        """Remarks about skipped items."""
        return [remark for remark in self.remarks if remark.is_skipped]

    @property
    def ok(self) -> bool:
        """Whether no item was skipped."""
        return not self.skipped


class IngestOptions(FrameOptions, total=False):
    """Options of `ingest`: of the encoding of frames, of reading items, and of the files."""

    video: VideoPackets | None
    max_gop: int
    short_edge: int | None
    check: bool
    keep_damaged: bool
    resume: bool
    overwrite: bool
    max_bytes: int | str | None
    locking: bool


DEFAULTS: IngestOptions = {
    "max_gop": 32,
    "check": False,
    "keep_damaged": False,
    "resume": True,
    "overwrite": False,
    "locking": True,
}
"""Those of the options that are not None."""


@explain_keywords(DEFAULTS)
def ingest(
    items: Iterable[Item] | Mapping[str, Any] | FrameSource,
    path: str | os.PathLike[str],
    *,
    workers: int | None = None,
    nthreads: int | None = None,
    on_error: OnBadItem = "skip",
    allow_empty: bool = False,
    attrs: Mapping[str, Any] | None = None,
    log: Callable[[Remark], object] | None = None,
    progress: ProgressOption = None,
    **options: Unpack[IngestOptions],
) -> IngestReport:
    """Add items to a frame store, one clip per item, in order.

    Parameters
    ----------
    items : iterable of Item or of (id, frames), mapping or FrameSource
        Items from `bloscpack.frames.listing`; pairs of id and frames, or a mapping of them; or
        another source of clips. Frames are an array, a sequence of arrays or images, or a clip of
        any source, which is copied with its metadata and as it is encoded.
    path : str or PathLike
        The store, which is created if it does not exist.
    codec : {"lossless", "jpeg", "video"}, optional
        How frames are stored. By default JPEG and PNG images are stored unchanged and everything
        else lossless. "jpeg" also keeps images unchanged unless `quality`,
        `subsampling` or `short_edge` is given.
    preset : {"fast", "small", "raw"}, optional
        Preset of codec "lossless", "fast" by default.
    quality : int, optional
        Quality of codec "jpeg", 1 to 100, 90 by default.
    subsampling : {"444", "422", "420"}, optional
        Resolution of the chroma of codec "jpeg", "444" (full) by default; see
        `bloscpack.frames.create`.
    crf, gop, encoder : optional
        For codec "video" and ``video="recode"``; see `bloscpack.frames.create`.
    video : {"copy", "recode"}, optional
        "copy" stores the coded packets of video files as they are, and skips files whose packets
        cannot be kept. "recode" encodes their frames again, with their times. By default they are
        decoded, and frames are stored by `codec`.
    max_gop : int, default 32
        With ``video="copy"``, largest number of frames of a group.
    short_edge : int, optional
        Resize images and videos so that their shorter edge has this many pixels; needs `codec`.
    check : bool, optional
        Decode images that are stored unchanged, to find damaged ones. Without it only truncated
        ones are found, and PNG images with a wrong checksum.
    keep_damaged : bool, optional
        Keep the decodable part of damaged videos, which are skipped by default. The report and
        ``meta["damaged"]`` list them.
    workers : int, optional
        Processes that read and encode; 1 means this process only. By default one per processor, at
        most 8.
    nthreads : int, optional
        Encoding threads when this process encodes; one per processor by default, at most 8.
    resume : bool, optional
        Add to an existing store, skipping items whose ids it contains.
    overwrite : bool, optional
        Replace an existing store, once the new one is whole: after an error the old one stays.
    on_error : {"skip", "raise"}, optional
        How to treat items that cannot be read: skip and report them, or stop. Clips that were added
        stay in the store in either case. Without `log`, a warning names the first that was skipped.
    max_bytes : int or str, optional
        Write several files, ``NAME-00000.blp`` and so on; a file is full once it has this many
        bytes, or this size as text with a unit ("1 GiB").
    allow_empty : bool, optional
        With no items, or if all are skipped, create a store without clips or leave the existing
        store unchanged, instead of raising an error.
    attrs : mapping, optional
        JSON values to store with a new store, by default those of the sources that items are of;
        an existing store must have the same.
    log : callable, optional
        Called with each `Remark` as soon as it is made.
    progress : bool, callable or object with ``update``, optional
        True draws a bar; a function is called with the number of items done and the total, which is
        -1 if it is not known.
    locking : bool, optional
        Lock the store; see `bloscpack.frames.create`.

    Returns
    -------
    IngestReport
        Number of clips and frames added, and remarks about skipped items.

    Raises
    ------
    FileExistsError
        The store exists, and neither `resume` nor `overwrite` was given. Or a store is to be made
        beside a series of this name, or a series beside a store.
    UnsupportedError
        `path` is a URL.
    LockedError
        Another writer has it open.
    TypeError, ValueError
        A parameter is out of range or differs from how the store was made. Or `items` is empty,
        or all were skipped; then no store was created.
    WorkerError
        Worker processes cannot be started: see Notes.
    ImportError
        simplejpeg, Pillow or PyAV is needed but not installed.
    OSError
        The store cannot be written.

    Notes
    -----
    The bytes of a new store do not depend on the number of workers, except those of video that is
    encoded. Workers are started with
    "spawn": a program that uses more than one must keep its work behind
    ``if __name__ == "__main__":``.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> report = bp.frames.ingest({"walk": np.zeros((16, 4, 6, 3), "u1")}, "clips.blp")
    >>> report.nclips, report.nframes, report.ok
    (1, 16, True)
    """
    if on_error not in ("skip", "raise"):
        raise ValueError(f"on_error must be 'skip' or 'raise', not {on_error!r}")
    given: dict[str, Any] = {
        k: v for k, v in options.items() if k in Options._fields and v is not None
    }
    check_given(options)
    refuse_url_as_target(path, "the store of an ingest")
    settings: IngestOptions = {**DEFAULTS, **options}
    max_bytes = options.get("max_bytes")
    nworkers = resolve_nworkers(workers)
    kept = Kept.of(
        given.get("codec"), quality=given.get("quality"), subsampling=given.get("subsampling")
    )
    reading: dict[str, Any] = {k: v for k, v in options.items() if k in ReadOptions._fields}
    read_options = ReadOptions(kept.images, kept.video, **reading)
    found = _items_of(items)
    sources = _sources_of(found)
    held = {**given} if attrs is None else {**given, "attrs": _attrs_text(attrs)}
    if attrs is None:
        attrs = {k: v for each in reversed(sources) for k, v in each.attrs.items()}
    if not allow_empty:
        found = _require_items(found)
    with Series(
        path,
        DEFAULT.replace(**given),
        attrs,
        max_nbytes=None if max_bytes is None else nbytes_of(max_bytes),
        resume=settings["resume"],
        overwrite=settings["overwrite"],
        locking=settings["locking"],
    ) as series:
        encoding = _resolve_options(series, held)
        read_options = read_options._replace(is_picture=encoding.codec in ("jpeg", "video"))
        ingest_run = _IngestRun(series, (read_options, encoding, nthreads), on_error, log)
        report = ingest_run.run(found, nworkers, as_progress(progress, unit="items"))
        ingest_run.note_sources(sources)
        ingest_run.note_others()
        if report.skipped and not (report.nclips or report.npresent or allow_empty):
            series.discard()
            raise ValueError(f"nothing was stored: {_about(report.skipped)}")
    lost = [remark for remark in report.remarks if remark.text.startswith(_LEFT_OUT)]
    if report.skipped and log is None:
        notice("%s: %s", series.paths[0], _about(report.skipped))
    if lost and log is None:
        notice("%s: %d remarks, the first is %s", report.paths[0], len(lost), lost[0])
    return report


def check_given(options: Mapping[str, Any]) -> None:
    """Raise ValueError for options, apart from None, of codecs that are not used."""
    given = {name: value for name, value in options.items() if value is not None}
    codec, video = given.get("codec"), given.get("video")
    if video not in (None, "copy", "recode"):
        raise ValueError(f"video must be 'copy' or 'recode', not {video!r}")
    if codec != "jpeg":
        for name in ("quality", "subsampling"):
            if name in given:
                raise ValueError(f"{name} needs codec='jpeg' (--codec jpeg)")
    is_video = codec == "video" or video == "recode"
    if not is_video and not given.keys().isdisjoint(("crf", "gop", "encoder")):
        raise ValueError(
            "crf, gop and encoder need codec='video' or video='recode' "
            "(--codec video, --video recode)"
        )
    if "short_edge" in given and codec is None:
        raise ValueError(
            "short_edge (--size) resizes frames, so they must be encoded: "
            "pass codec= (--codec), too"
        )


def _about(skipped: list[Remark]) -> str:
    return f"{len(skipped)} items were skipped (see the report), the first is {skipped[0]}"


def _resolve_options(series: Series, given: Mapping[str, Any]) -> Options:
    """Return the options of the store, after comparing them with those that were given."""
    options = series.options
    held = {**options._asdict(), "attrs": _attrs_text(series.attrs)}
    for name, value in given.items():
        if value != held[name]:
            raise ValueError(
                f"{series.paths[0]}: was made with {name}={held[name]!r}, not {value!r}: pass the "
                "same value, or overwrite the store"
            )
    return options


def _attrs_text(attrs: Mapping[str, Any]) -> str:
    """Return attributes as text, which is equal if a store would have equal ones."""
    return json.dumps(json.loads(encode_values(dict(attrs), "attrs")), sort_keys=True)


def _items_of(items: Any) -> Iterable[Item]:
    if isinstance(items, str | os.PathLike):
        raise TypeError(
            "items are not a path: the functions folders(), images(), videos(), arrays() and "
            "listed() of bloscpack.frames.listing make items of one"
        )
    if hasattr(items, "keys") and hasattr(items, "read"):
        return list(listing.clips(items))
    if isinstance(items, Mapping):
        return list(listing.in_memory(items))
    return list(map(_as_item, items)) if isinstance(items, list) else map(_as_item, items)


def _sources_of(items: Iterable[Item]) -> list[Any]:
    """Return the sources that the items of a list are clips of."""
    listed = items if isinstance(items, list) else []
    clips = {id(item.clips): item.clips for item in listed if isinstance(item, ClipItem)}
    return [each for each in clips.values() if hasattr(each, "attrs")]


def _as_item(item: Any) -> Item:
    """Return an item as it is, or that of a pair of id and frames."""
    if isinstance(item, Item):
        return item
    if isinstance(item, tuple) and len(item) == 2:
        return next(listing.in_memory([item]))
    if is_clip(item):
        return next(listing.in_memory([(item.id, item)]))
    raise TypeError(
        "items must be of bloscpack.frames.listing, pairs of id and frames, clips, or a mapping of "
        f"them, not {type(item).__name__}"
    )


def _require_items(items: Iterable[Item]) -> Iterable[Item]:
    """Return the items, after checking, before a store is created, that there is at least one."""
    rest, first = iter(items), list[Item]()
    for item in rest:
        first.append(item)
        if not isinstance(item, OtherFile):
            return items if isinstance(items, Sized) else chain(first, rest)
    raise ValueError(
        "there is nothing to ingest, so nothing was written: check the folder, list or pattern "
        "of the items, or allow an empty store with --allow-empty (allow_empty=True)"
    )


class _IngestRun:
    """State of a running ingest."""

    def __init__(
        self,
        series: Series,
        options: tuple[ReadOptions, Options, int | None],
        on_error: OnBadItem,
        log: Callable[[Remark], object] | None,
    ) -> None:
        self._series = series
        self._options = options
        self._on_error = on_error
        self._log = log
        self._report = IngestReport()
        self._nskipped = 0
        self._unflushed = 0
        self._others: dict[str, OtherFile] = {}  # by their paths
        self._sources: set[str] = set()  # of all items

    def run(
        self,
        items: Iterable[Item],
        nworkers: int,
        progress: Progress | None,
    ) -> IngestReport:
        report = self._report
        total = len(items) if isinstance(items, Sized) else -1

        def stays_here(task: EncodeTask) -> bool:
            return nworkers == 1 or task.item.stays_here(task.read_options)

        with Workers(encode, nworkers) as workers:
            self._add_all(workers.run(self._tasks(items), here=stays_here), progress, total)
        report.paths = list(self._series.paths)
        return report

    def _add_all(
        self, jobs: Iterable[Job[EncodeTask, Part]], progress: Progress | None, total: int
    ) -> None:
        # Not in the block of `run`: there, an interrupt between two jobs would not end the workers.
        report = self._report
        for job in jobs:
            self._add(job)
            if progress is not None:
                progress(report.nclips + report.npresent + self._nskipped, total)

    def note_sources(self, sources: list[Any]) -> None:
        """Remark what the store lacks of sources as a whole; complete when their clips are read."""
        stored, known = self._series.attrs, {each.text for each in self._report.remarks}
        for source in sources:
            lost = [
                f"attribute {key!r:.80}"
                for key, value in source.attrs.items()
                if key not in stored or stored[key] != value
            ]
            for each in (*lost, *source.left_out):
                name, text = source.name or "", f"{_LEFT_OUT}{each}"
                if text not in known:  # by a clip of the source
                    self._remark(Remark(name, name, text, is_skipped=False))

    def note_others(self) -> None:
        """Remark files of folders that no item has read, nor another listing of the folder."""
        for path, item in self._others.items():
            if self._sources.isdisjoint((path, os.path.dirname(path))):
                self._remark(Remark(item.id, path, f"{_LEFT_OUT}file", is_skipped=False))

    def _tasks(self, items: Iterable[Item]) -> Iterator[EncodeTask]:
        """Yield a task for each item that is not in the store yet; runs ahead of the appends."""
        seen: set[str] = set()
        for item in items:
            if isinstance(item, OtherFile):
                self._others[item.path] = item
                continue
            self._sources.add(item.source)
            if not isinstance(item.id, str):
                raise TypeError(f"an id must be a str, not {type(item.id).__name__}")
            if item.id in seen:
                reason = "an earlier item has the same id"
                item = BadItem(id=item.id, name=item.source, reason=reason)
            elif item.id in self._series:
                self._report.npresent += 1
                continue
            seen.add(item.id)
            yield EncodeTask(item, *self._options)

    def _add(self, job: Job[EncodeTask, Part]) -> None:
        item = job.task.item
        if isinstance(item, BadItem):  # its id may be in the store
            self._skip(item, FormatError(item.reason))
            return
        for attempt in range(1, _TRIES + 1):
            encoded = EncodedItem(job.parts())
            try:
                self._series.append(item.id, encoded)
            except ReadError as err:
                cause = err.__cause__
                if isinstance(cause, WorkerError):
                    if not cause.started:  # no item is to blame: no worker runs at all
                        raise cause from None
                    if attempt < _TRIES:
                        continue
                self._skip(item, cause)
                return
            break
        self._report.nclips += 1
        self._report.nframes += encoded.nframes
        self._report.cbytes += encoded.cbytes
        for note in encoded.notes:
            self._remark(Remark(item.id, item.source, note, is_skipped=False))
        self._unflushed += encoded.cbytes
        if self._unflushed >= _FLUSH_NBYTES:
            self._series.flush()
            self._unflushed = 0

    def _skip(self, item: Item, cause: BaseException | None) -> None:
        # A missing library is not a fault of the item: all others would be skipped as well.
        if cause is None or isinstance(cause, ImportError):
            raise cause or ValueError(f"item {item.id!r} failed without a reason")
        if self._on_error == "raise":
            cause.add_note(f"The item was {item.id!r:.200} from {item.source!r:.200}.")
            raise cause
        self._nskipped += 1
        self._remark(Remark(item.id, item.source, _reason(cause), is_skipped=True))

    def _remark(self, remark: Remark) -> None:
        self._report.remarks.append(remark)
        if self._log is not None:
            self._log(remark)


def _reason(err: BaseException) -> str:
    """Return the cause of an error in one line."""
    if isinstance(err, OSError) and not isinstance(err, BloscpackError) and err.strerror:
        return err.strerror
    if isinstance(err, BloscpackError | ValueError | TypeError):
        return " ".join(str(err).split("\n"))
    if isinstance(err, MemoryError):
        return "not enough memory"
    return f"{type(err).__name__}: {err}"
