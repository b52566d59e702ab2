"""Clips of every source: list, thumbnails, frames.

An array of pictures in colour is a clip, too.

Frames are sent as pixels of 8 bits, each behind a header of five uint32: index, kind, width, height
and size in bytes. The kind is the number of channels (1, 3 or 4), or 0 for a frame that cannot be
read, whose bytes are the message. A damaged frame does not end the stream.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Any

import numpy as np

from ..plugin import (
    AnyArray,
    Archive,
    Array,
    Clip,
    FrameSource,
    image,
    is_rate,
    pictured,
    rate_in,
    spread,
)
from .arrays import PictureClip, member_of
from .protocol import EXPECTED, Answer, Query, QueryError, Work, document, packet
from .raster import as_numbers, finite_range, sample_step, to_bytes
from .session import ViewedFile
from .slices import message

FRAME_HEADER = Struct("<5I")
FRAMES = "application/x-bloscpack-frames"
MAX_CLIPS = 200
# Most pixels of a frame that is sent; of larger ones, every k-th row and column.
MAX_PIXELS = 1 << 21
# Frames are read in groups of this decoded size, so that a client that leaves costs one group.
_GROUP_NBYTES = 2 << 20
_MAX_GROUP = 32
_NSAMPLED = 8  # frames of which the range of values is taken
_STEPS = 4096  # ids that are searched between looks for the client


def clip_list(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return a page of the clips whose ids contain a text."""
    source: FrameSource = file.open()
    wanted = query.text("search").lower()
    start = query.integer("start", 0, 0, 1 << 40)
    count = query.integer("count", 60, 1, MAX_CLIPS)
    keys = source.keys()
    if wanted:
        found = search_ids(enumerate(keys), wanted, work)
        total, shown = len(found), found[start : start + count]
    else:
        total, shown = len(keys), list(range(start, min(start + count, len(keys))))
    rows = []
    for ordinal in shown:
        work.step()
        row: dict[str, Any] = {"ordinal": ordinal, "id": keys[ordinal]}
        try:
            clip = source[keys[ordinal]]
            row |= {"nframes": len(clip), "shape": list(clip.shape), "dtype": str(clip.dtype)}
        except EXPECTED as err:
            row["error"] = message(err)
        rows.append(row)
    return document({"total": total, "start": start, "clips": rows})


def search_ids(ids: Iterable[tuple[int, str]], wanted: str, work: Work) -> list[int]:
    """Return the ordinals whose ids contain a text, which is in lower case."""
    found = []
    for at, (ordinal, id_) in enumerate(ids):
        if at % _STEPS == 0:
            work.step()
        if wanted in id_.lower():
            found.append(ordinal)
    return found


def _clip_of(file: ViewedFile, query: Query) -> tuple[Clip, int]:
    source: Any = pictured(file.open())
    if isinstance(source, Array | Archive):
        clip = PictureClip(member_of(file, query, "clip"))
        return clip, query.integer("clip", 0, 0, 1 << 40)
    keys = source.keys()
    if not len(keys):
        raise QueryError("there are no clips")
    ordinal = query.integer("clip", 0, 0, len(keys) - 1)
    return source[keys[ordinal]], ordinal


def describe(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return shape, metadata and frame rate of a clip."""
    clip, ordinal = _clip_of(file, query)
    found: dict[str, Any] = {
        "ordinal": ordinal,
        "id": clip.id,
        "nframes": len(clip),
        "shape": list(clip.shape),
        "dtype": str(clip.dtype),
    }
    try:
        found["meta"] = clip.meta
    except EXPECTED as err:
        found |= {"meta": {}, "error": message(err)}
    return document(found | {"fps": _rate(clip, found["meta"])})


def _rate(clip: Clip, meta: Any) -> float | None:
    """Return frames per second by the metadata or the time stamps; None if unknown."""
    rate = rate_in(meta)
    times = getattr(clip, "timestamps", None)
    if rate is None and times is not None and len(times) > 1 and times[-1] > times[0]:
        rate = (len(times) - 1) / float(times[-1] - times[0])
    return rate if is_rate(rate) else None


def thumbnail(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return a frame from the middle of a clip, reduced to a small picture."""
    clip, ordinal = _clip_of(file, query)
    width = query.integer("width", 160, 8, 320)

    def make() -> Answer:
        work.step()
        if not len(clip):
            raise QueryError("the clip has no frames")
        pixels = Painter(file, clip, ordinal, work).pixels(clip.read(len(clip) // 2))
        step = sample_step(pixels.shape[1], width)
        return packet({}, pixels[::step, ::step])

    return file.cached(("thumbnail", ordinal, width), make, lambda made: len(made.body))


class Painter:
    """Conversion of the frames of a clip to pixels of 8 bits.

    bool is black and white; values of other dtypes than uint8 are scaled from the smallest to the
    largest of some frames of the clip. With `is_raw`, integers are sent modulo 256, as labels.
    """

    def __init__(
        self, file: ViewedFile, clip: Clip, ordinal: int, work: Work, *, is_raw: bool = False
    ) -> None:
        self._file, self._clip, self._work = file, clip, work
        self._key = ("range", ordinal)
        self._is_raw = is_raw and clip.dtype.kind in "iub"
        self._range: tuple[float, float] | None = None
        self._is_cmyk: bool | None = None

    def pixels(self, frame: AnyArray) -> AnyArray:
        """Return a frame as uint8 of shape (H, W), (H, W, 3) or (H, W, 4)."""
        if frame.ndim > 3 or not frame.size:
            raise ValueError(f"frames of shape {frame.shape} cannot be shown")
        if frame.ndim < 2:
            frame = frame.reshape(1, -1)
        step = 1
        while -(-frame.shape[0] // step) * -(-frame.shape[1] // step) > MAX_PIXELS:
            step += 1
        frame = frame[::step, ::step]
        if frame.ndim == 3 and frame.shape[2] not in (3, 4):
            frame = frame[..., 0] if frame.shape[2] < 3 else frame[..., :3]
        if self._is_raw:
            return frame.astype(np.uint8)
        if frame.dtype == np.bool_:
            return frame * np.uint8(255)
        if frame.dtype != np.uint8:
            return to_bytes(as_numbers(frame, "abs"), *self._limits())
        if frame.ndim == 3 and frame.shape[2] == 4 and self._has_cmyk():
            product = frame[..., :3].astype(np.uint16) * frame[..., 3:]
            return (product // 255).astype(np.uint8)
        return frame

    def _limits(self) -> tuple[float, float]:
        if self._range is None:
            self._range = self._file.cached(self._key, self._sampled_range, lambda limits: 256)
        return self._range

    def _sampled_range(self) -> tuple[float, float]:
        low, high = np.inf, -np.inf
        for number in spread(len(self._clip), _NSAMPLED):
            self._work.step()
            try:
                frame = self._clip.read(number)
            except EXPECTED:
                continue
            limits = finite_range(as_numbers(frame, "abs"))
            if limits is not None:
                low, high = min(low, limits[0]), max(high, limits[1])
        return (low, high) if low <= high else (0.0, 1.0)

    def _has_cmyk(self) -> bool:
        """Return whether frames of four channels are JPEG images, which are inverted CMYK."""
        if self._is_cmyk is None:
            images = self._clip.read_images([0])
            self._is_cmyk = images is not None and image.probe(images[0]).kind == "jpeg"
        return self._is_cmyk


def frames(file: ViewedFile, query: Query, work: Work) -> Answer:
    """Return frames of a clip one after the other, as they are decoded."""
    clip, ordinal = _clip_of(file, query)
    count = len(clip)
    start = query.integer("start", 0, 0, max(0, count - 1))
    stop = min(count, query.integer("stop", count, 0, 1 << 40))
    step = query.integer("step", 1, 1, 1 << 30)
    is_raw = query.word("values", ("scaled", "raw")) == "raw"
    painter = Painter(file, clip, ordinal, work, is_raw=is_raw)
    # Here, so that an error of the clip is an error of the request. Floats: a damaged shape may be
    # beyond all integers of numpy.
    frame_nbytes = int(np.prod(clip.shape[1:], dtype="f8")) * clip.dtype.itemsize
    size = max(1, min(_MAX_GROUP, _GROUP_NBYTES // max(1, frame_nbytes)))
    return Answer(b"", FRAMES, _blocks(clip, range(start, stop, step), size, painter, work))


def _blocks(clip: Clip, indices: range, size: int, painter: Painter, work: Work) -> Iterator[bytes]:
    """Yield a block for each frame; `size` frames are read at once."""
    for at in range(0, len(indices), size):
        work.step()
        group = indices[at : at + size]
        try:
            read: Sequence[AnyArray | None] = list(clip.read(list(group)))
        except EXPECTED:  # a damaged frame, or frames that differ in shape
            read = [None] * len(group)
        for index, frame in zip(group, read, strict=True):
            yield _block(clip, index, frame, painter)
            work.step()


def _block(clip: Clip, index: int, frame: AnyArray | None, painter: Painter) -> bytes:
    try:
        pixels = painter.pixels(clip.read(index) if frame is None else frame)
    except EXPECTED as err:
        text = message(err)[:1000].encode("utf-8", "backslashreplace")
        return FRAME_HEADER.pack(index, 0, 0, 0, len(text)) + text
    kind = 1 if pixels.ndim == 2 else pixels.shape[2]
    head = FRAME_HEADER.pack(index, kind, pixels.shape[1], pixels.shape[0], pixels.nbytes)
    return head + pixels.tobytes()
