"""Codecs alone, from memory to memory on one thread: frames, depth and masks."""

import io
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from race.races import Case, require_equal
from race.timing import loop_of

from bloscpack.frames.store import lossless
from bloscpack.media import image
from frames.bare import BareClip
from frames.contenders import FFV1, PNG, Frames
from frames.data import Clip, jpeg_pixels

if TYPE_CHECKING:
    from frames.cases import Clips

FAST, SMALL = "bloscpack, fast", "bloscpack, small"
PNG_CV2, PNG_PILLOW, JPEG = "PNG, cv2", "PNG, Pillow", "JPEG, simplejpeg"
_COUNT = 16  # frames of a call; two groups of those that refer to each other


class Coded(NamedTuple):
    """A clip in memory, in the form of some codec."""

    cbytes: float  # per frame
    encode: Callable[[], object]  # encodes the first frames again
    decode: Callable[[], Frames]  # returns the first frames, in new memory
    wanted: np.ndarray  # the first frames


def race_codecs(races: "Clips") -> None:
    """Encode and decode each clip, the synthetic ones too."""
    sizes = races.found.setdefault("coded", {})
    for clip in (*races.clips, *races.other_clips):
        with ExitStack() as stack:
            coded = code(races, clip, stack)
            for name, one in coded.items():
                require_equal(one.decode(), one.wanted, name, clip.name)
            sizes[clip.name] = {name: one.cbytes for name, one in coded.items()}
            for word in ("decode", "encode"):
                case = Case(f"{word}/{clip.name}", f"{clip.name}, {word}", clip.frames[0].nbytes)
                loops = {name: loop_of(getattr(one, word)) for name, one in coded.items()}
                races.hold(case, loops, len(coded[FAST].wanted))


def code(races: "Clips", clip: Clip, stack: ExitStack) -> dict[str, Coded]:
    """Return a clip in every form that can hold it."""
    coded = {FAST: _lossless(clip, "fast"), SMALL: _lossless(clip, "small")}
    if races.has(PNG):
        coded[PNG_CV2] = _png_by_cv2(clip)
    coded[PNG_PILLOW] = _png_by_pillow(clip)
    if clip.frames.ndim == 4:
        if races.has(FFV1):
            coded[FFV1] = _ffv1(clip, stack)
        coded[JPEG] = _jpeg(clip)
    return coded


def _lossless(clip: Clip, preset: str) -> Coded:
    scheme = lossless.choose(clip.frames, preset)
    bare = BareClip.encode(clip.frames, scheme)
    first = clip.frames[:_COUNT]
    return Coded(
        bare.cbytes / len(clip.frames),
        lambda: BareClip.encode(first, scheme),
        lambda: bare.decode_first(len(first)),
        first,
    )


def _images(
    frames: np.ndarray,
    encode: Callable[[np.ndarray], bytes],
    decode: Callable[[bytes], np.ndarray],
    wanted: np.ndarray,
) -> Coded:
    images = [encode(frame) for frame in frames]
    first = frames[:_COUNT]
    return Coded(
        sum(map(len, images)) / len(images),
        lambda: [encode(frame) for frame in first],
        lambda: [decode(data) for data in images[:_COUNT]],
        wanted[:_COUNT],
    )


def _png_by_cv2(clip: Clip) -> Coded:
    """Decode as OpenCV does: channels stay blue, green, red, and bools are 0 and 255."""
    import cv2

    from frames.formats import encode_png

    wanted = clip.frames
    if wanted.ndim == 4:
        wanted = wanted[..., ::-1]
    elif wanted.dtype == bool:
        wanted = wanted * np.uint8(255)

    def decode(data: bytes) -> np.ndarray:
        return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)

    return _images(clip.frames, encode_png, decode, wanted)


def _png_by_pillow(clip: Clip) -> Coded:
    from PIL import Image

    def encode(frame: np.ndarray) -> bytes:
        target = io.BytesIO()
        Image.fromarray(frame).save(target, "png")
        return target.getvalue()

    def decode(data: bytes) -> np.ndarray:
        return np.asarray(Image.open(io.BytesIO(data)))

    return _images(clip.frames, encode, decode, clip.frames)


def _jpeg(clip: Clip) -> Coded:
    return _images(clip.frames, image.encode_jpeg, image.decode, jpeg_pixels(clip.frames[:_COUNT]))


def _ffv1(clip: Clip, stack: ExitStack) -> Coded:
    import av

    from frames.video import decode_packets, encode_ffv1, packets_of

    data = encode_ffv1(clip.frames)
    container = stack.enter_context(av.open(io.BytesIO(data)))
    packets = packets_of(container)
    context = container.streams.video[0].codec_context
    context.thread_count = 1
    first = clip.frames[:_COUNT]
    return Coded(
        len(data) / len(clip.frames),
        lambda: encode_ffv1(first),
        lambda: decode_packets(context, packets[:_COUNT]),
        first,
    )
