"""Decode single pictures of H.265, H.264 and AV1 with PyAV, in this process.

Opening a decoder costs many times as much as using it, so each thread keeps its most recently used
ones, by decoder configuration. Damage found by the FFmpeg libraries is an error, never a picture
with holes. Decoding releases the GIL.

A few bytes can declare a picture of gigabytes, so sizes are limited before pictures are decoded.
FFmpeg reads the sequence headers of H.265 and AV1 when a decoder is opened, which takes no memory
for pictures; so a decoder is opened for each new header (`Decoder._declared_size`). H.264's is only
read together with a picture; there FFmpeg gets the size in the sample entry as a limit.
"""

import errno
import functools
import os
import re
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from ...plugin import CodecError, FormatError, UnsupportedError, ffmpeg_message, import_av
from .codecconfig import (
    AV1,
    DEFAULT_MAX_PIXELS,
    H264,
    H264_PPS,
    H264_SPS,
    HEVC,
    HEVC_PPS,
    HEVC_SPS,
    HEVC_VPS,
    ParameterSets,
    pack_config,
    sequence_header,
    split_obus,
    split_units,
    unit_kind,
    unpack_config,
)
from .colour import MATRIX_RESERVED, MATRIX_RGB, MATRIX_UNSPECIFIED
from .planes import Aperture, Plane, Planes, decode_rgb

__all__ = ["Decoder", "Planes", "decode_rgb"]

# FFmpeg's names of decoders. Its own AV1 decoder only drives hardware.
_DECODERS = {HEVC: "hevc", H264: "h264", AV1: "libdav1d"}
# Units that change how later pictures are decoded.
_PARAMETERS = {
    HEVC: {HEVC_VPS, HEVC_SPS, HEVC_PPS},
    H264: {H264_SPS, H264_PPS},
}
# Open decoders of a thread: one for each recent decoder configuration.
_MAX_CONTEXTS = 8
_MAX_SIZES = 8
# In H.265 and H.264 a coding block has at most 64 by 64 pixels, and takes at least one bit in an
# intra picture (H.265: 7.3.8.5, the prediction mode is coded in bypass bins; H.264: ten bins for
# each 16 by 16). So larger pictures than this cannot be valid. AV1 has no such bound.
_MAX_PIXELS_PER_BYTE = 8 * 64 * 64
# FFmpeg compares the limit with a width that is rounded up, and a coded picture is a little larger
# than the one that is shown.
_MARGIN = 128
_FULL_RANGE = 2
# Number of rows rounded to 8 bits at once.
_ROWS = 64
# FFmpeg's names of pixel formats; those with a j are in full range.
_FORMATS = re.compile(
    r"(?P<family>gray|yuvj?420p|yuvj?422p|yuvj?444p|gbrp)((?P<depth>9|1[0-6])le)?"
)
_CHROMA = {"gray": 0, "yuv420p": 1, "yuv422p": 2, "yuv444p": 3, "gbrp": 3}
_CHROMA |= {"yuvj420p": 1, "yuvj422p": 2, "yuvj444p": 3}


_Key = tuple[bytes, bytes, tuple[int, int] | None]


class _Size(NamedTuple):
    """Size of the pictures that a sequence header declares."""

    shown: tuple[int, int]
    """Width and height of the output."""
    coded: tuple[int, int]
    """Width and height before cropping."""


class _Context(NamedTuple):
    """An open decoder and the content of its configuration."""

    codec: Any
    sets: ParameterSets
    config: bytes
    size: _Size | None
    """Declared size; None for H.264."""
    sizes: dict[bytes, _Size | None]
    """The same by sequence header, also of some that were found in payloads."""


class _Layout(NamedTuple):
    """Meaning of the planes of a frame."""

    chroma: int
    depth: int
    is_rgb: bool


class Decoder:
    """Decodes pictures one at a time; keeps decoders open.

    Pictures of more than `max_pixels` are refused before decoding. Safe in threads, each of which
    has decoders of its own, and after a fork. Cannot be pickled: create one in each process.
    """

    def __init__(self, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> None:
        self._av = import_av()
        self._max_pixels = max_pixels
        self._local = threading.local()

    def decode(
        self,
        kind: bytes,
        config: bytes,
        payload: bytes,
        frame: tuple[int, int] | None = None,
        clean: Aperture | None = None,
    ) -> Planes:
        """Decode a picture: units, each preceded by its size.

        `config` is the payload of a box b"hvcC", b"avcC" or b"av1C", its `kind`. `frame` is the
        expected width and height; `clean`, the clean aperture (left, top, width, height), is by
        default the whole frame. The result has views of the decoder's memory, which later pictures
        do not overwrite; for pictures of more than 8 bits, new arrays rounded to 8.

        Nothing was decoded if FormatError is raised. CodecError: the decoder failed, returned no
        picture or several, or a picture of another size. UnsupportedError: the picture is larger
        than `max_pixels`, or in an unsupported format.
        """
        context = self._context(kind, config, frame)
        codec = context.sets.codec
        size, payload, is_changed = self._check(context, payload, frame)
        if size is not None and frame is not None and codec != AV1:
            # In AV1 a sequence header only limits the size.
            _check_frame(codec, size.shown, frame)
        frames: list[Any] = []
        try:
            frames = self._frames(context, payload, frame)
        finally:
            # After an error, frames may be left in a decoder even if it is flushed.
            if is_changed or len(frames) != 1:
                del self._contexts()[kind, config, frame]
        if len(frames) != 1:
            raise CodecError(
                f"{codec}: {len(frames)} pictures in a payload, expected one", codec=codec
            )
        found = frames[0]
        if found.is_corrupt:
            raise CodecError(f"{codec}: parts of the picture are missing", codec=codec)
        width, height = found.width, found.height
        if frame is not None:
            _check_frame(codec, (width, height), frame)
        clean = clean or (0, 0, width, height)
        right, bottom = clean[0] + clean[2], clean[1] + clean[3]
        if right > width or bottom > height or min(clean) < 0 or 0 in clean[2:]:
            raise FormatError(
                f"clean aperture {tuple(clean)} is not inside a picture of {width} x {height}",
                field="clap",
            )
        result: Planes = self._planes(found, codec, clean)
        return result

    def _create(self, name: str) -> Any:
        """Return an FFmpeg decoder that is not open yet."""
        return self._av.CodecContext.create(name, "r")

    def _planes(self, frame: Any, codec: str, clean: Aperture) -> Any:
        """Return the planes of a frame; a subclass returns them on a device."""
        return _planes(frame, codec, clean)

    def close(self) -> None:
        """Close the decoders of this thread; those of other threads close when these end."""
        self._contexts().clear()

    def _contexts(self) -> "OrderedDict[_Key, _Context]":
        """Return the decoders of this thread, without any opened before a fork."""
        local, pid = self._local, os.getpid()
        if getattr(local, "pid", None) != pid:
            local.contexts, local.pid = OrderedDict(), pid
        found: OrderedDict[_Key, _Context] = local.contexts
        return found

    def _context(self, kind: bytes, config: bytes, frame: tuple[int, int] | None) -> _Context:
        contexts = self._contexts()
        key = (kind, config, frame)
        context = contexts.get(key)
        if context is None:
            context = contexts[key] = self._new_context(kind, config, frame)
            if len(contexts) > _MAX_CONTEXTS:
                contexts.popitem(last=False)
        else:
            contexts.move_to_end(key)
        return context

    def _new_context(self, kind: bytes, config: bytes, frame: tuple[int, int] | None) -> _Context:
        sets = unpack_config(kind, config)
        header = sequence_header(sets.codec, sets.units)
        if header is None:
            raise FormatError(f"decoder configuration of {sets.codec}: no sequence header")
        size = self._declared_size(sets.codec, config)
        limit = self._max_pixels
        if size is None and frame is not None:
            limit = min(limit, (frame[0] + _MARGIN) * (frame[1] + _MARGIN))
        # Turn holes in a picture into errors, and limit the size in FFmpeg as well.
        options = {"max_pixels": str(limit)}
        if sets.codec == AV1:
            options["max_frame_delay"] = "1"
        codec = self._open(self._create(_DECODERS[sets.codec]), sets.codec, config, options)
        return _Context(codec, sets, config, size, {header: size})

    def _open(self, decoder: Any, codec: str, config: bytes, options: dict[str, str]) -> Any:
        decoder.extradata = config
        decoder.thread_count = 1
        decoder.thread_type = "NONE"
        decoder.options = options if codec == AV1 else {"err_detect": "explode", **options}
        try:
            decoder.open(strict=False)
        except (self._av.error.FFmpegError, ValueError) as err:
            if getattr(err, "errno", None) == errno.EINVAL:
                # FFmpeg's error for a sequence header with more pixels than it ever decodes.
                raise _too_large("a picture", self._max_pixels) from err
            raise CodecError(
                f"{codec}: no decoder could be opened: {ffmpeg_message(err)}", codec=codec
            ) from err
        return decoder

    def _declared_size(self, codec: str, config: bytes) -> _Size | None:
        """Return the size that a configuration declares; refuse one above the limit.

        For H.264, return None.
        """
        if codec == H264:
            return None
        # Not `_create`: only the header is read, which needs no hardware.
        decoder = self._av.CodecContext.create(_DECODERS[codec], "r")
        self._open(decoder, codec, config, {})
        size = _Size((decoder.width, decoder.height), (decoder.coded_width, decoder.coded_height))
        if not all(size.coded):
            raise FormatError(f"decoder configuration of {codec}: damaged sequence header")
        self._check_size(size.coded)
        return size

    def _check_size(self, coded: tuple[int, int]) -> None:
        if coded[0] * coded[1] > self._max_pixels:
            raise _too_large(f"picture of {coded[0]} x {coded[1]} pixels", self._max_pixels)

    def _check(
        self, context: _Context, payload: bytes, frame: tuple[int, int] | None
    ) -> tuple[_Size | None, bytes, bool]:
        """Check sizes against the payload and the limit.

        Return the declared size, the payload to decode, and whether the payload contains parameters
        that the decoder would also apply to later pictures.
        """
        codec = context.sets.codec
        if not payload:
            raise FormatError(f"{codec}: the picture is empty")
        if codec == AV1:
            units = split_obus(payload)
        else:
            units = [
                bytes(unit)
                for unit in split_units(memoryview(payload), context.sets.size_nbytes)
                if unit_kind(codec, unit) in _PARAMETERS[codec]
            ]
        header = sequence_header(codec, units)
        if header is None:
            size = context.size
            if codec == AV1:
                payload = b"".join(context.sets.units) + payload
        else:
            size = self._size_of(header, context, units)
        pixels = size.coded if size is not None else frame or (0, 0)
        if codec != AV1 and pixels[0] * pixels[1] > _MAX_PIXELS_PER_BYTE * len(payload):
            raise FormatError(
                f"{codec}: {len(payload)} bytes are too few for a picture of "
                f"{pixels[0]} x {pixels[1]} pixels"
            )
        return size, payload, codec != AV1 and bool(units)

    def _size_of(self, header: bytes, context: _Context, units: list[bytes]) -> _Size | None:
        """Return the size that a sequence header among the units of a payload declares."""
        sizes, codec = context.sizes, context.sets.codec
        if header not in sizes and codec != H264:
            before = [
                unit
                for unit in (*context.sets.units, *units)
                if codec == HEVC and unit_kind(HEVC, unit) == HEVC_VPS
            ]
            config = pack_config(context.config, codec, [*before, header])
            size = self._declared_size(codec, config)
            if len(sizes) == _MAX_SIZES:
                return size
            sizes[header] = size
        return sizes.get(header)

    def _frames(
        self, context: _Context, payload: bytes, frame: tuple[int, int] | None
    ) -> list[Any]:
        """Decode one picture; decoding None flushes the frame that the decoder holds back."""
        codec, name = context.codec, context.sets.codec
        try:
            frames = codec.decode(self._av.Packet(payload)) + codec.decode(None)
        except self._av.error.FFmpegError as err:
            # Pictures above the limit are invalid data or a lack of memory for FFmpeg.
            self._check_size((codec.coded_width, codec.coded_height))
            if frame is not None and codec.width:
                _check_frame(name, (codec.width, codec.height), frame)
            raise CodecError(
                f"{name}: the picture could not be decoded: {ffmpeg_message(err)}",
                codec=name,
                code=err.errno,
            ) from err
        finally:
            codec.flush_buffers()
        return frames  # type: ignore[no-any-return]


def _too_large(what: str, max_pixels: int) -> UnsupportedError:
    return UnsupportedError(
        f"{what} exceeds the limit of {max_pixels} pixels; raise max_pixels of benzina.open if the "
        "file can be trusted"
    )


def _check_frame(codec: str, size: tuple[int, int], frame: tuple[int, int]) -> None:
    """Refuse a picture that differs in size from its sample entry."""
    if size != tuple(frame):
        raise CodecError(
            f"{codec}: a picture of {size[0]} x {size[1]} pixels, but the sample entry declares "
            f"{frame[0]} x {frame[1]}",
            codec=codec,
        )


@functools.cache
def _layout(name: str) -> _Layout | None:
    """Return the meaning of the planes of an FFmpeg pixel format; None if it is unsupported."""
    found = _FORMATS.fullmatch(name)
    if found is None:
        return None
    family, depth = found["family"], int(found["depth"] or 8)
    return _Layout(_CHROMA[family], depth, family == "gbrp")


def is_full_range(frame: Any) -> bool:
    """Return whether the samples of a PyAV frame use all values."""
    return int(frame.color_range) == _FULL_RANGE


def _planes(frame: Any, codec: str, clean: Aperture) -> Planes:
    name = frame.format.name
    layout = _layout(name)
    if layout is None:
        raise UnsupportedError(f"{codec}: pixel format {name} is not supported")
    planes = frame.planes
    arrays: list[Plane | None] = [_array(plane, layout.depth) for plane in planes]
    if len(arrays) == 1:
        arrays += [None, None]
    y, u, v = arrays
    matrix = int(frame.colorspace)
    if matrix == MATRIX_RESERVED or layout.is_rgb != (matrix == MATRIX_RGB):
        matrix = MATRIX_RGB if layout.is_rgb else MATRIX_UNSPECIFIED
    return Planes(y, u, v, clean, layout.chroma, matrix, is_full_range(frame))  # type: ignore[arg-type]


def _array(plane: Any, depth: int) -> Plane:
    """Return a plane of a frame: a view, or rounded to 8 bits."""
    shape, line = (plane.height, plane.width), plane.line_size
    if depth == 8:
        return np.ndarray(shape, np.uint8, buffer=plane, strides=(line, 1))
    samples = np.ndarray(shape, "<u2", buffer=plane, strides=(line, 2))
    reduced: Plane = np.empty(shape, np.uint8)
    for first in range(0, plane.height, _ROWS):
        rounded = samples[first : first + _ROWS] + np.uint16(1 << (depth - 9))
        rounded >>= depth - 8
        np.minimum(rounded, 255, out=reduced[first : first + _ROWS], casting="unsafe")
    return reduced
