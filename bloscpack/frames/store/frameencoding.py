"""Encode frames into stored chunks, one by one.

Frames are an array, an iterable of arrays of one shape, or an iterable of JPEG and PNG images. Only
a few frames of an iterable are in memory at a time.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...array.arraylike import as_array
from ...display.framerate import RATE_KEY, rate_of
from ...format.metadata import encode_values
from ...media import image
from ...parallel.imports import importing
from ...parallel.threads import map_ordered, resolve_nthreads
from ...storage.protocol import ErrorsAt
from ...types import FRAME_DEFAULTS, AnyArray
from .format import Codec, FrameFormat, ImageKind
from .lossless import GROUP_FRAMES, choose, encode_clip, is_aligned
from .lossless import PRESETS as COMPRESSED_PRESETS

CODECS = ("lossless", "jpeg", "video")
PRESETS = (*COMPRESSED_PRESETS, "raw")
ENCODERS = ("h264", "h265", "vp9", "av1")
_MAX_CRF = 63
_MAX_GOP = 255
# Chroma of JPEG, by its resolution next to luma: full, half the width, half the width and height.
SUBSAMPLINGS = ("444", "422", "420")
# Decoded bytes per batch when frames come from an iterable or a non-contiguous array. Batches are
# whole groups of eight chunks, so that frames can be encoded relative to earlier ones.
_BATCH_NBYTES = 16 << 20
# Cost of encoding a byte as an image relative to Blosc; scales the number of threads.
_IMAGE_COST = 5
_IMAGE_KINDS = {"jpeg": ImageKind.JPEG, "png": ImageKind.PNG}

# Kinds of dtypes that are not those of frames.
_TEXTS = {"O": "Python objects", "S": "bytes", "T": "text", "U": "text"}

IMAGE_BYTES = (bytes, bytearray, memoryview)
# Iterables that are not frames in an order.
NOT_FRAMES = (str, *IMAGE_BYTES, Mapping, AbstractSet)
_NONE = object()
NO_FRAMES = FrameFormat(Codec.LOSSLESS, 1, False, np.dtype("u1"), ())
"""Format of a clip that is made from an empty sequence."""


class Options(NamedTuple):
    """Encoding of frames."""

    codec: str  # one of CODECS; for arrays: images are stored unchanged
    preset: str  # one of PRESETS; for codec "lossless", and for H.264 if not "raw"
    quality: int  # for codec "jpeg", 1 to 100
    subsampling: str  # for codec "jpeg", one of SUBSAMPLINGS
    # For codec "video": quality, the best is 0; frames per group; one of ENCODERS.
    crf: float
    gop: int
    encoder: str

    def check(self) -> "Options":
        """Return the options after checking them."""
        if self.codec not in CODECS:
            raise ValueError(f"codec must be one of {', '.join(CODECS)}, not {self.codec!r}")
        if self.preset not in PRESETS:
            raise ValueError(f"preset must be one of {', '.join(PRESETS)}, not {self.preset!r}")
        image.check_quality(self.quality)
        if self.subsampling not in SUBSAMPLINGS:
            raise ValueError(
                f"subsampling must be one of {', '.join(SUBSAMPLINGS)}, not {self.subsampling!r}"
            )
        self._check_video()
        return self

    def _check_video(self) -> None:
        for name, number, kinds in (("crf", self.crf, int | float), ("gop", self.gop, int)):
            if isinstance(number, bool) or not isinstance(number, kinds):
                raise TypeError(f"{name} must be a number, not {type(number).__name__}")
        if not 0 <= self.crf <= _MAX_CRF:
            raise ValueError(f"crf must be 0 to {_MAX_CRF}, not {self.crf}")
        if not 1 <= self.gop <= _MAX_GOP:
            raise ValueError(f"gop must be 1 to {_MAX_GOP}, not {self.gop}")
        if self.encoder not in ENCODERS:
            raise ValueError(f"encoder must be one of {', '.join(ENCODERS)}, not {self.encoder!r}")

    @property
    def video(self) -> dict[str, Any]:
        """Arguments of `videoencoder.encoded`."""
        return {
            "crf": self.crf,
            "gop": self.gop,
            "encoder": self.encoder,
            "preset": self.preset,
        }

    def stored(self) -> dict[str, Any]:
        """Return the fields that the metadata of a store keep."""
        fields = self._asdict()
        # The format says what is meant if one of these is absent; the others are always there.
        for name in ("subsampling", "crf", "gop", "encoder"):
            if fields[name] == FRAME_DEFAULTS[name]:
                del fields[name]
        return fields

    def replace(self, **given: Any) -> "Options":
        """Return a copy with those of `given` that are not None."""
        return self._replace(**{k: v for k, v in given.items() if v is not None}).check()


DEFAULT = Options(**FRAME_DEFAULTS)


class Kept(NamedTuple):
    """Which encoded frames are stored unchanged: those that no option asks to encode again."""

    images: bool
    video: bool

    @classmethod
    def of(cls, codec: str | None = None, preset: str | None = None, **others: Any) -> "Kept":
        """Return what the options of a caller leave unchanged; `preset` is for other frames."""
        is_kept = all(value is None for value in others.values())
        return cls(is_kept and codec in (None, "jpeg"), is_kept and codec is None)


ALL_KEPT = Kept(images=True, video=True)


class EncodedClip(Protocol):
    """A clip as stored chunks; a writer takes all chunks before it reads the attributes."""

    @property
    def format(self) -> FrameFormat:
        """Format of the frames."""

    @property
    def is_raw(self) -> bool:
        """Whether the frames are raw; the only attribute that is known before the chunks."""

    @property
    def nframes(self) -> int:
        """Number of frames."""

    @property
    def text(self) -> bytes:
        """Metadata as returned by `pack_meta`."""

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield the stored bytes and the filter of each chunk."""


class Encoder:
    """Chunks of a clip, encoded while iterating: an `EncodedClip`."""

    def __init__(
        self, frames: Any, options: Options, nthreads: int | None, text: bytes = b"{}"
    ) -> None:
        self.text = text
        self.header = b""  # of video: a part of the text
        self.notes: list[str] = []  # for the user, about images
        self.format = NO_FRAMES
        self.nframes = 0
        self._nthreads = nthreads
        self._options = options
        self._chunks = self._start(frames)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield the stored bytes and the filter of each chunk."""
        return self._chunks

    @property
    def is_raw(self) -> bool:
        """Whether the frames are raw."""
        return self.format.codec == Codec.RAW

    def _start(self, frames: Any) -> Iterator[tuple[bytes, int]]:
        if isinstance(frames, NOT_FRAMES) or not (
            hasattr(frames, "__array__") or isinstance(frames, Iterable)
        ):
            raise TypeError(
                "frames must be an array, or an iterable of arrays or of JPEG or PNG images, "
                f"not {type(frames).__name__}"
            )
        if hasattr(frames, "__array__"):
            array = _numbers(frames)
            if not array.ndim:
                raise ValueError("frames must have an axis of frames: expected shape (T, ...)")
            if self._options.codec != "lossless" and len(array):
                return self._lossy(iter(array), array.nbytes)
            self.format = self._format_of(array.dtype, array.shape[1:])
            return self._arrays(self._cut(array))
        items = iter(frames)
        first = next(items, _NONE)
        if first is _NONE:
            return iter(())
        if isinstance(first, str | os.PathLike):
            raise _not_frames(f"{type(first).__name__} such as {first!r:.80}")
        if isinstance(first, IMAGE_BYTES):
            return self._images(chain([first], items))
        frame = _numbers(first)
        items = map(as_array, chain([frame], items))
        if self._options.codec != "lossless":
            return self._lossy(items, frame.nbytes)
        self.format = self._format_of(frame.dtype, frame.shape)
        return self._arrays(self._stack(items))

    def _format_of(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> FrameFormat:
        """Return the format of frames of this kind, or raise if they cannot be stored."""
        is_raw = self._options.preset == "raw"
        form = FrameFormat.raw(dtype, shape) if is_raw else FrameFormat.lossless(dtype, shape)
        form.pack()  # raises if the index cannot name the dtype, before any frame is encoded
        return form

    def _batch_nframes(self) -> int:
        together = self.format.group * GROUP_FRAMES
        return max(1, _BATCH_NBYTES // max(1, self.format.nbytes * together)) * together

    def _cut(self, array: AnyArray) -> Iterator[AnyArray]:
        """Yield contiguous parts of an array, without copying the whole array."""
        if array.flags.c_contiguous and is_aligned(array):
            yield array
            return
        step = self._batch_nframes()
        for start in range(0, len(array), step):
            yield array[start : start + step].copy()

    def _stack(self, frames: Iterator[AnyArray]) -> Iterator[AnyArray]:
        """Yield single frames in batches."""
        step, done = self._batch_nframes(), 0
        while batch := list(islice(frames, step)):
            stack = np.empty((len(batch), *self.format.shape), self.format.dtype)
            for number, array in enumerate(batch):
                if array.shape != self.format.shape or array.dtype != self.format.dtype:
                    raise ValueError(
                        f"frame {done + number} is {array.dtype} {array.shape}, those before "
                        f"{self.format.dtype} {self.format.shape}: a clip has frames of one kind"
                    )
                stack[number, ...] = array
            done += len(batch)
            yield stack

    def _arrays(self, batches: Iterable[AnyArray]) -> Iterator[tuple[bytes, int]]:
        scheme = None
        for batch in batches:
            if self.format.nbytes == 0:
                for _ in range(len(batch)):
                    self.nframes += 1
                    yield b"", 0
                continue
            if not len(batch):
                continue
            group = self.format.group
            chunks = _Chunks(batch, group)
            if self.is_raw:
                for number in range(len(chunks)):
                    yield chunks[number].tobytes(), 0
                self.nframes += len(batch)
                continue
            if scheme is None:
                scheme = choose(chunks, self._options.preset)
                if group > 1:  # the last chunk of small frames may be shorter
                    scheme = replace(scheme, time=None)
            nthreads = resolve_nthreads(self._nthreads, batch.nbytes)
            yield from encode_clip(chunks, scheme, nthreads)
            self.nframes += len(batch)

    def _lossy(self, frames: Iterator[Any], nbytes: int) -> Iterator[tuple[bytes, int]]:
        if self._options.codec == "video":
            return self._video(frames)
        return self._jpegs(frames, nbytes)

    def _jpegs(self, frames: Iterator[Any], nbytes: int) -> Iterator[tuple[bytes, int]]:
        # Of an iterable, only the size of the first frame is known.
        nthreads = resolve_nthreads(self._nthreads, _IMAGE_COST * max(nbytes, _BATCH_NBYTES))
        yield from self._images(
            map_ordered(
                lambda frame: image.encode_jpeg(
                    frame,
                    quality=self._options.quality,
                    subsampling=self._options.subsampling,
                ),
                frames,
                nthreads,
            )
        )

    def _video(self, frames: Iterator[Any]) -> Iterator[tuple[bytes, int]]:
        with importing:
            from ..video.format import join_text
            from ..video.videoencoder import encoded, numbered
        rate = rate_of(json.loads(self.text))
        with encoded(numbered(frames), 1 / rate, **self._options.video) as file:
            video = EncodedVideo(file, None, self._options.gop, has_rate=False)
            yield from video
            self.format, self.nframes = video.format, video.nframes
            self.header = video.header
            self.text = join_text(self.text, self.header)

    def _images(self, images: Iterable[Any]) -> Iterator[tuple[bytes, int]]:
        for frame in images:
            stored = frame if isinstance(frame, bytes) else bytes(frame)
            with ErrorsAt(lambda: (f"frame {self.nframes}",)):
                info, note = image.inspect(stored)
            if not self.nframes:
                self.format = FrameFormat(Codec.IMAGE, 1, False, info.dtype, info.shape)
            elif info.dtype != self.format.dtype:
                raise ValueError(
                    f"frame {self.nframes} is {info.dtype}, those before {self.format.dtype}: "
                    "a clip has frames of one dtype"
                )
            elif info.shape != self.format.shape:
                self.format = self.format._replace(varies=True)
            if note:
                self.notes.append(f"frame {self.nframes}: {note}")
            self.nframes += 1
            yield stored, _IMAGE_KINDS[info.kind]


class EncodedVideo:
    """A video whose packets are copied while iterating: an `EncodedClip`."""

    is_raw = False

    def __init__(
        self,
        source: Any,
        meta: Mapping[str, Any] | None,
        max_gop: int,
        *,
        name: str = "",
        has_rate: bool = True,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self._left_out = left_out
        if isinstance(max_gop, bool) or not isinstance(max_gop, int):
            raise TypeError(f"max_gop must be an int, not {type(max_gop).__name__}")
        if not 1 <= max_gop <= _MAX_GOP:
            raise ValueError(f"max_gop must be 1 to {_MAX_GOP}, not {max_gop}")
        with importing:
            from ..video.groupcopy import GroupCopy, name_of
        self._copy = GroupCopy(source, name=name or name_of(source), max_gop=max_gop)
        self._meta = meta
        self._has_rate = has_rate
        pack_meta(meta)  # raises before the video is decoded

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield the stored bytes and the number of frames of each group."""
        yield from self._copy

    @property
    def notes(self) -> list[str]:
        """Notes for the user on contents of the file beside the video."""
        return [f"left out: {text}" for text in (*self._left_out, *self._copy.left_out)]

    @property
    def nframes(self) -> int:
        """Number of frames."""
        return self._copy.nframes

    @property
    def format(self) -> FrameFormat:
        """Format of the frames."""
        if not self.nframes:
            return NO_FRAMES
        copy = self._copy
        return FrameFormat(
            Codec.VIDEO, copy.longest, False, np.dtype("u1"), copy.shape(), copy.ngroups
        )

    @property
    def text(self) -> bytes:
        """Metadata and the header of the video."""
        with importing:
            from ..video.format import join_text
        meta = dict(self._meta or {})
        if self._has_rate and self._copy.rate:
            meta = {RATE_KEY: self._copy.rate, **meta}
        return join_text(pack_meta(meta), self.header)

    @property
    def header(self) -> bytes:
        """Packed header of the video; complete when all groups have been taken."""
        return self._copy.header().pack()


@contextmanager
def recoded(
    source: Any, meta: Mapping[str, Any] | None, options: Options
) -> Iterator[EncodedVideo]:
    """Yield a video whose frames are encoded again, with the same times.

    Raises
    ------
    FormatError
        The source is damaged, or it is not a video.
    """
    with importing:
        from ..video.groupcopy import name_of
        from ..video.videoencoder import encoded, opened_video
    pack_meta(meta)  # raises before the video is decoded
    name = name_of(source)
    with opened_video(source, name) as (frames, time_base, rate, content):
        named = {**({RATE_KEY: float(rate)} if rate else {}), **(meta or {})}
        with encoded(frames, time_base, rate=rate, **options.video) as made:
            lost = content.left_out  # complete, as all frames are encoded
            yield EncodedVideo(made, named, options.gop, name=name, has_rate=False, left_out=lost)


class _Chunks(Sequence[AnyArray]):
    """View of frames as chunks: one frame per chunk, or several small ones."""

    def __init__(self, frames: AnyArray, group: int) -> None:
        self._frames = frames
        self._group = group

    def __len__(self) -> int:
        return -(-len(self._frames) // self._group)

    def __getitem__(self, index: Any) -> Any:
        """Return the content of a chunk, as an array even for frames without dimensions."""
        if self._group == 1:
            return self._frames[index, ...]
        return self._frames[index * self._group : (index + 1) * self._group]


def _numbers(value: Any) -> AnyArray:
    """Return an array; refuse text, bytes and Python objects, which usually hold paths."""
    array: AnyArray = np.asarray(as_array(value))
    if array.dtype.kind in _TEXTS:
        raise _not_frames(f"an array of {_TEXTS[array.dtype.kind]}")
    return array


def _not_frames(found: str) -> TypeError:
    return TypeError(
        f"frames must be numbers or JPEG or PNG images (bytes), not {found}: "
        "bloscpack.frames.ingest reads files found by bloscpack.frames.listing"
    )


def pack_meta(meta: Mapping[str, Any] | None) -> bytes:
    """Return metadata of a clip as JSON; numpy numbers and arrays become plain values."""
    if meta is None:
        return b"{}"
    if not isinstance(meta, Mapping):
        raise TypeError(f"meta must be a mapping, not {type(meta).__name__}")
    return encode_values(dict(meta), "meta").encode("ascii")
