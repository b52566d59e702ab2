"""Tasks that read and encode an item in a worker, and their results for the appending process.

Only stored chunks are sent between processes, never frames.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..store.format import FrameFormat
from ..store.frameencoding import Encoder, Options, pack_meta
from .items import Item, ReadOptions

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
    reading = task.item.read(task.read_options)
    encoder = Encoder(reading.frames, task.options, task.nthreads)
    yield EncodedStart(encoder.is_raw)
    chunks: Chunks = []
    nbytes = 0
    for chunk in encoder:
        chunks.append(chunk)
        nbytes += len(chunk[0])
        if nbytes >= _PART_NBYTES:
            yield chunks
            chunks, nbytes = [], 0
    yield chunks
    text = pack_meta({**reading.meta, **task.item.meta})
    yield EncodedSummary(encoder.format, encoder.nframes, text, reading.notes)


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
