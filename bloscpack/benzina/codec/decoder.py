"""Decode single pictures of H.265, H.264 and AV1 with PyAV, in this process.

Opening a decoder costs many times as much as using it, so each thread keeps its most recently used
ones, by decoder configuration. Before a decoder gets any bytes, the units of the payload are
counted and the sizes they declare are checked against a limit. Damage found by the FFmpeg libraries
is an error, never a picture with holes. Decoding releases the GIL.
"""

import functools
import os
import re
import threading
from collections import OrderedDict
from typing import Any, NamedTuple

import numpy as np

from ...exceptions import CodecError, FormatError, UnsupportedError
from ...media.video import ffmpeg_message
from ...parallel.imports import import_av
from .av1sequence import OBU_SEQUENCE_HEADER, split_obus
from .codecconfig import (
    DEFAULT_MAX_PIXELS,
    H264_PPS,
    H264_SPS,
    HEVC_PPS,
    HEVC_SPS,
    HEVC_VPS,
    check_size,
    picture_info,
    split_units,
    unit_info,
    unit_kind,
    unpack_config,
)
from .planes import Aperture, Plane, Planes, decode_rgb
from .videosequence import AV1, H264, HEVC, MATRIX_RGB, MATRIX_UNSPECIFIED, PictureInfo

__all__ = ["Decoder", "Planes", "decode_rgb"]

# FFmpeg's names of decoders. Its own AV1 decoder only drives hardware.
_DECODERS = {HEVC: "hevc", H264: "h264", AV1: "libdav1d"}
# Units that change how later pictures are decoded.
_PARAMETERS = {
    HEVC: {HEVC_VPS, HEVC_SPS, HEVC_PPS},
    H264: {H264_SPS, H264_PPS},
}
DEFAULT_MAX_CONTEXTS = 8
# In H.265 and H.264 a coding block has at most 64 by 64 pixels, and takes at least one bit in an
# intra picture (H.265: 7.3.8.5, the prediction mode is coded in bypass bins; H.264: ten bins for
# each 16 by 16). So larger pictures than this cannot be valid. AV1 has no such bound.
_MAX_PIXELS_PER_BYTE = 8 * 64 * 64
# Number of rows rounded to 8 bits at once.
_ROWS = 64
# FFmpeg's names of pixel formats; those with a j are in full range.
_FORMATS = re.compile(
    r"(?P<family>gray|yuvj?420p|yuvj?422p|yuvj?444p|gbrp)((?P<depth>9|1[0-6])le)?"
)
_CHROMA = {"gray": 0, "yuv420p": 1, "yuv422p": 2, "yuv444p": 3, "gbrp": 3}
_CHROMA |= {"yuvj420p": 1, "yuvj422p": 2, "yuvj444p": 3}


class _Context(NamedTuple):
    """An open decoder and the content of its configuration."""

    codec: Any
    info: PictureInfo
    size_nbytes: int
    # AV1: units to put before a payload without a sequence header.
    units: bytes


class _Layout(NamedTuple):
    """Meaning of the planes of a frame."""

    chroma: int
    depth: int
    is_rgb: bool


class Decoder:
    """Decodes pictures one at a time; keeps decoders open.

    Parameters
    ----------
    max_pixels : int
        Larger pictures are refused before decoding.
    max_contexts : int
        Number of decoders a thread keeps open, one for each recent decoder configuration.

    Attributes
    ----------
    nopened : int
        Number of decoders opened so far, by all threads.

    Raises
    ------
    ImportError
        PyAV is missing.

    Notes
    -----
    Safe in threads, each of which has decoders of its own, and after a fork. Cannot be pickled:
    create one in each process.
    """

    def __init__(
        self,
        *,
        max_pixels: int = DEFAULT_MAX_PIXELS,
        max_contexts: int = DEFAULT_MAX_CONTEXTS,
    ) -> None:
        if max_pixels < 1 or max_contexts < 1:
            raise ValueError("max_pixels and max_contexts must be 1 or more")
        self._av = import_av()
        self._max_pixels = max_pixels
        self._max_contexts = max_contexts
        self._local = threading.local()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self.nopened = 0

    def decode(
        self,
        kind: bytes,
        config: bytes,
        payload: bytes,
        frame: tuple[int, int] | None = None,
        clean: Aperture | None = None,
    ) -> Planes:
        """Decode a picture.

        Parameters
        ----------
        kind : bytes
            Box type of the decoder configuration: b"hvcC", b"avcC" or b"av1C".
        config : bytes
            Payload of that box.
        payload : bytes
            The picture: units, each preceded by its size.
        frame : tuple of int, optional
            Expected width and height.
        clean : tuple of int, optional
            Clean aperture, (left, top, width, height); by default the whole frame.

        Returns
        -------
        Planes
            Views of the decoder's memory, which later pictures do not overwrite; for pictures of
            more than 8 bits, new arrays rounded to 8.

        Raises
        ------
        FormatError
            The configuration or a unit is malformed; nothing was decoded.
        CodecError
            The decoder failed, returned no picture or several, or a picture of another size.
        UnsupportedError
            The picture is larger than `max_pixels`, or in an unsupported format.
        """
        context = self._context(kind, config)
        info, payload, is_changed = self._check(context, payload)
        if frame is not None and info.codec != AV1:
            # In AV1 a sequence header only limits the size.
            _check_frame(info.codec, (info.width, info.height), frame)
        frames: list[Any] = []
        try:
            frames = self._frames(context, payload)
        finally:
            # After an error, frames may be left in a decoder even if it is flushed.
            if is_changed or len(frames) != 1:
                del self._contexts()[kind, config]
        if len(frames) != 1:
            raise CodecError(
                f"{info.codec}: {len(frames)} pictures in a payload, expected one",
                codec=info.codec,
            )
        found = frames[0]
        if found.is_corrupt:
            raise CodecError(f"{info.codec}: parts of the picture are missing", codec=info.codec)
        width, height = found.width, found.height
        if frame is not None:
            _check_frame(info.codec, (width, height), frame)
        clean = clean or (0, 0, width, height)
        right, bottom = clean[0] + clean[2], clean[1] + clean[3]
        if right > width or bottom > height or min(clean) < 0 or 0 in clean[2:]:
            raise FormatError(
                f"clean aperture {tuple(clean)} is not inside a picture of {width} x {height}",
                field="clap",
            )
        result: Planes = self._planes(found, info, clean)
        return result

    def _create(self, name: str) -> Any:
        """Return an FFmpeg decoder that is not open yet."""
        return self._av.CodecContext.create(name, "r")

    def _planes(self, frame: Any, info: PictureInfo, clean: Aperture) -> Any:
        """Return the planes of a frame; a subclass returns them on a device."""
        return _planes(frame, info, clean)

    def close(self) -> None:
        """Close the decoders of this thread; those of other threads close when these end."""
        self._contexts().clear()

    def _contexts(self) -> "OrderedDict[tuple[bytes, bytes], _Context]":
        """Return the decoders of this thread, without any opened before a fork."""
        local, pid = self._local, os.getpid()
        if pid != self._pid:
            # A lock held during the fork would never be released in the child.
            self._lock, self._pid = threading.Lock(), pid
        if getattr(local, "pid", None) != pid:
            local.contexts, local.pid = OrderedDict(), pid
        found: OrderedDict[tuple[bytes, bytes], _Context] = local.contexts
        return found

    def _context(self, kind: bytes, config: bytes) -> _Context:
        contexts = self._contexts()
        key = (kind, config)
        context = contexts.get(key)
        if context is None:
            context = contexts[key] = self._open(kind, config)
            if len(contexts) > self._max_contexts:
                contexts.popitem(last=False)
        else:
            contexts.move_to_end(key)
        return context

    def _open(self, kind: bytes, config: bytes) -> _Context:
        sets = unpack_config(kind, config)
        info = picture_info(sets)
        check_size(info, self._max_pixels)
        # Turn holes in a picture into errors, and limit the size in FFmpeg as well.
        options = {"err_detect": "explode", "max_pixels": str(self._max_pixels)}
        if sets.codec == AV1:
            options = {"max_pixels": str(self._max_pixels), "max_frame_delay": "1"}
        try:
            codec = self._create(_DECODERS[sets.codec])
            codec.extradata = config
            codec.thread_count = 1
            codec.thread_type = "NONE"
            codec.options = options
            codec.open(strict=False)
        except (self._av.error.FFmpegError, ValueError) as err:
            raise CodecError(
                f"{sets.codec}: no decoder could be opened: {ffmpeg_message(err)}", codec=sets.codec
            ) from err
        with self._lock:
            self.nopened += 1
        units = b"".join(sets.units) if sets.codec == AV1 else b""
        return _Context(codec, info, sets.size_nbytes, units)

    def _check(self, context: _Context, payload: bytes) -> tuple[PictureInfo, bytes, bool]:
        """Check sizes against the payload and the limit.

        Return the form of the picture, the payload to decode, and whether the payload contains
        parameters that the decoder would also apply to later pictures.
        """
        info = context.info
        if not payload:
            raise FormatError(f"{info.codec}: the picture is empty")
        is_changed = False
        if info.codec == AV1:
            units = [obu.data for obu in split_obus(payload) if obu.kind == OBU_SEQUENCE_HEADER]
            if not units:
                payload = context.units + payload
        else:
            parameters = _PARAMETERS[info.codec]
            units = [
                bytes(unit)
                for unit in split_units(memoryview(payload), context.size_nbytes)
                if unit_kind(info.codec, unit) in parameters
            ]
            is_changed = bool(units)
        for unit in units:
            declared = unit_info(info.codec, unit)
            if declared is not None:
                check_size(declared, self._max_pixels)
                info = declared
        npixels = info.coded_width * info.coded_height
        if info.codec != AV1 and npixels > _MAX_PIXELS_PER_BYTE * len(payload):
            raise FormatError(
                f"{info.codec}: {len(payload)} bytes are too few for a picture of "
                f"{info.coded_width} x {info.coded_height} pixels"
            )
        return info, payload, is_changed

    def _frames(self, context: _Context, payload: bytes) -> list[Any]:
        """Decode one picture; decoding None flushes the frame that the decoder holds back."""
        codec = context.codec
        try:
            frames = codec.decode(self._av.Packet(payload)) + codec.decode(None)
        except self._av.error.FFmpegError as err:
            name = context.info.codec
            raise CodecError(
                f"{name}: the picture could not be decoded: {ffmpeg_message(err)}",
                codec=name,
                code=err.errno,
            ) from err
        finally:
            codec.flush_buffers()
        return frames  # type: ignore[no-any-return]


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


def _planes(frame: Any, info: PictureInfo, clean: Aperture) -> Planes:
    name = frame.format.name
    layout = _layout(name)
    if layout is None:
        raise UnsupportedError(f"{info.codec}: pixel format {name} is not supported")
    planes = frame.planes
    arrays: list[Plane | None] = [_array(plane, layout.depth) for plane in planes]
    if len(arrays) == 1:
        arrays += [None, None]
    y, u, v = arrays
    matrix = info.matrix
    if layout.is_rgb != (matrix == MATRIX_RGB):
        matrix = MATRIX_RGB if layout.is_rgb else MATRIX_UNSPECIFIED
    return Planes(y, u, v, clean, layout.chroma, matrix, info.full_range)  # type: ignore[arg-type]


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
