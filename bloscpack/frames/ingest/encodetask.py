"""Items on their way into a store: encoded where they are read, appended somewhere else.

What travels between the two is stored chunks, never frames.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..store.format import FrameFormat
from ..store.frameencoding import Encoder, Options, pack_meta
from .items import Item, Way

# Stored bytes that travel together.
_PART_NBYTES = 1 << 20

Chunks = list[tuple[bytes, int]]


class Order(NamedTuple):
    """What is to be done: the task of a worker."""

    item: Item
    way: Way
    options: Options
    nthreads: int | None = None


class Ending(NamedTuple):
    """What is known when all chunks of a clip are encoded; see `EncodedClip`."""

    format: FrameFormat
    nframes: int
    text: bytes
    notes: list[str]


def encode(order: Order) -> Iterator[Chunks | Ending]:
    """Read and encode an item: yield its chunks, some at a time, and the ending."""
    reading = order.item.read(order.way)
    encoder = Encoder(reading.frames, order.options, order.nthreads)
    chunks: Chunks = []
    nbytes = 0
    for chunk in encoder:
        chunks.append(chunk)
        nbytes += len(chunk[0])
        if nbytes >= _PART_NBYTES:
            yield chunks
            chunks, nbytes = [], 0
    yield chunks
    text = pack_meta({**reading.meta, **order.item.meta})
    yield Ending(encoder.format, encoder.nframes, text, reading.notes)


class ReadError(Exception):
    """An item cannot be read or encoded, for the reason that is its cause."""


class Parcel:
    """The parts of an item, put together: an `EncodedClip`.

    Attributes
    ----------
    cbytes : int
        Stored bytes so far.
    notes : list of str
        What a person should know.
    """

    def __init__(self, parts: Iterable[Chunks | Ending]) -> None:
        self._parts = iter(parts)
        self.cbytes = 0
        self.ending: Ending | None = None

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield stored bytes and filter of each chunk.

        Raises
        ------
        ReadError
            The item cannot be read.
        """
        while (part := self._next()) is not None:
            if isinstance(part, Ending):
                self.ending = part
                continue
            for chunk in part:
                self.cbytes += len(chunk[0])
                yield chunk

    def _next(self) -> Chunks | Ending | None:
        try:
            return next(self._parts, None)
        except Exception as err:
            raise ReadError from err

    @property
    def format(self) -> FrameFormat:
        """What the frames are."""
        return self._ended().format

    @property
    def nframes(self) -> int:
        """How many there are."""
        return self._ended().nframes

    @property
    def text(self) -> bytes:
        """The metadata."""
        return self._ended().text

    @property
    def notes(self) -> list[str]:
        """What a person should know."""
        return self._ended().notes

    def _ended(self) -> Ending:
        if self.ending is None:
            raise ValueError("the parts of a clip have no end")
        return self.ending
