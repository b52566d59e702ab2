"""Tasks that read and encode an item in a worker, and their results for the appending process.

Only stored chunks are sent between processes, never frames.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import NamedTuple

from ..store.format import FrameFormat
from ..store.frameencoding import EncodedClip, EncodedVideo, Encoder, Options, pack_meta, recoded
from ..store.openclip import as_video, meta_of
from ..video.format import join_text
from .items import ClipItem, Item, ReadOptions, VideoFile

# Stored bytes per message.
_PART_NBYTES = 1 << 20

Chunks = list[tuple[bytes, int]]


class EncodeTask(NamedTuple):
    """Task of a worker: an item and how to encode it."""

    item: Item
    read_options: ReadOptions
    options: Options
    nthreads: int | None = None


class EncodedSummary(NamedTuple):
    """Summary of a clip, known when all its chunks are encoded; see `EncodedClip`."""

    format: FrameFormat
    nframes: int
    text: bytes
    notes: list[str]


class EncodedStart(NamedTuple):
    """First message about a clip; see `EncodedClip`."""

    is_raw: bool


Part = EncodedStart | Chunks | EncodedSummary


def encode(task: EncodeTask) -> Iterator[Part]:
    """Read and encode an item: yield its start, its chunks, several at a time, and the summary."""
    with _video_of(task) as video:
        if video is not None:
            yield EncodedStart(video.is_raw)
            yield from _parts_of(video)
            notes = getattr(video, "notes", [])  # of a file; a clip is copied with all it has
            yield EncodedSummary(video.format, video.nframes, video.text, notes)
            return
    reading = task.item.read(task.read_options)
    frames = reading.frames
    text = b"{}"
    if task.options.codec == "video" and isinstance(frames, Iterator):
        # The rate of a video file is known once its first frame has been read.
        items = iter(frames)
        frames = chain(list(islice(items, 1)), items)
        text = pack_meta({**reading.meta, **task.item.meta})
    encoder = Encoder(frames, task.options, task.nthreads, text)
    yield EncodedStart(encoder.is_raw)
    yield from _parts_of(encoder)
    # Packed again: only now does the metadata of a video say whether it is damaged.
    text = pack_meta({**reading.meta, **task.item.meta})
    if encoder.header:
        text = join_text(text, encoder.header)
    notes = [*reading.notes, *encoder.notes]
    yield EncodedSummary(encoder.format, encoder.nframes, text, notes)


@contextmanager
def _video_of(task: EncodeTask) -> Iterator[EncodedClip | None]:
    """Yield the groups of an item that stays video; None of any other."""
    item, how = task.item, task.read_options
    if isinstance(item, ClipItem) and how.keep_video and how.short_edge is None:
        clip = as_video(item.clips[item.id])
        if clip is not None:
            yield clip._stored({**meta_of(clip), **item.meta})
            return
    if not isinstance(item, VideoFile) or how.video is None:
        yield None
        return
    if item.frame_rate is not None or how.short_edge is not None:
        raise ValueError("frame_rate and short_edge need decoded frames: leave video= out")
    if how.video == "copy":
        yield EncodedVideo(item.path, item.meta, how.max_gop)
        return
    with recoded(item.path, item.meta, task.options) as video:
        yield video


def _parts_of(clip: EncodedClip) -> Iterator[Chunks]:
    chunks: Chunks = []
    nbytes = 0
    for chunk in clip:
        chunks.append(chunk)
        nbytes += len(chunk[0])
        if nbytes >= _PART_NBYTES:
            yield chunks
            chunks, nbytes = [], 0
    yield chunks


class ReadError(Exception):
    """An item cannot be read or encoded; the cause is the reason."""


class EncodedItem:
    """An `EncodedClip` assembled from the parts that a worker sends.

    Attributes
    ----------
    cbytes : int
        Stored bytes so far.
    notes : list of str
        Notes for the user.
    """

    def __init__(self, parts: Iterable[Part]) -> None:
        self._parts = iter(parts)
        self._start: EncodedStart | None = None
        self.cbytes = 0
        self.summary: EncodedSummary | None = None

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield stored bytes and filter of each chunk; ReadError if the item could not be read."""
        while (part := self._next()) is not None:
            if isinstance(part, EncodedSummary):
                self.summary = part
                continue
            if isinstance(part, EncodedStart):
                self._start = part
                continue
            for chunk in part:
                self.cbytes += len(chunk[0])
                yield chunk

    def _next(self) -> Part | None:
        try:
            return next(self._parts, None)
        except Exception as err:
            # An item that cannot be read is skipped; a store that cannot be written ends the run.
            raise ReadError from err

    @property
    def is_raw(self) -> bool:
        """Whether the frames are raw; ReadError if the item could not be read."""
        if self._start is None:
            part = self._next()
            if not isinstance(part, EncodedStart):
                raise ValueError("the worker sent no start of the clip")
            self._start = part
        return self._start.is_raw

    @property
    def format(self) -> FrameFormat:
        """Format of the frames."""
        return self._require_summary().format

    @property
    def nframes(self) -> int:
        """Number of frames."""
        return self._require_summary().nframes

    @property
    def text(self) -> bytes:
        """Metadata of the clip, packed."""
        return self._require_summary().text

    @property
    def notes(self) -> list[str]:
        """Notes for the user."""
        return self._require_summary().notes

    def _require_summary(self) -> EncodedSummary:
        if self.summary is None:
            raise ValueError("the worker sent no summary of the clip")
        return self.summary
