"""Payloads of records: the bytes behind a record header, stored as they are or as one frame.

A compressed payload is one LZ4 frame or one Zstandard frame and nothing else: bytes behind the
frame, a second frame, a frame that needs a dictionary, or one that decodes to another size than
the record header says are errors, never a shorter or a zero-filled payload. Before memory is taken,
the size is compared with what the blocks of the frame can hold; what is never decoded into costs
address space only. Every frame written here ends with a checksum of its content, which readers
verify.

Source of the facts: docs/formats/vrs.md, "Compression".
"""

from collections.abc import Mapping
from types import MappingProxyType

try:
    from ..._ext import record as _record
except ImportError as err:
    raise ImportError(
        f"a compiled kernel is missing or does not load ({err}); build it with "
        "'pip install .' (or 'python setup.py build_ext --inplace' in a source tree)"
    ) from err

from ...exceptions import CodecError, UnsupportedError
from ...format.codec import new_bytes
from ...types import BytesLike
from .format import Compression

# Smaller payloads are stored as they are (reference 1.4.0, ``Compressor.cpp``).
MIN_COMPRESSED_NBYTES = 250

PRESETS: Mapping[str, tuple[Compression, int]] = MappingProxyType(
    {
        "none": (Compression.NONE, 0),
        "fast": (Compression.LZ4, 0),
        "tight": (Compression.LZ4, 4),
        "zfaster": (Compression.ZSTD, -1),
        "zfast": (Compression.ZSTD, 1),
        "zlight": (Compression.ZSTD, 3),
        "zmedium": (Compression.ZSTD, 7),
        "zheavy": (Compression.ZSTD, 12),
        "zhigh": (Compression.ZSTD, 15),
        "ztight": (Compression.ZSTD, 18),
        "zmax": (Compression.ZSTD, 20),
    }
)
"""Names of how hard to compress, as the reference has them: codec and its level."""

# What the kernel refuses, in words.
_REFUSALS = {
    _record.NOT_A_FRAME: "no such frame starts there, or its header is damaged",
    _record.CUT: "the frame is cut off",
    _record.TRAILING: "bytes follow the frame",
    _record.WRONG_SIZE: "the frame holds another number of bytes",
    _record.BAD_BLOCK: "a block is damaged, or holds more",
    _record.WRONG_CHECKSUM: "the frame's checksum differs",
    _record.NEEDS_DICTIONARY: "the frame needs a dictionary",
    _record.NO_MEMORY: "no memory",
}
_NAMES = {Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}


def check_preset(preset: str) -> tuple[Compression, int]:
    """Return codec and level of a preset.

    Raises
    ------
    ValueError
        There is none of this name.
    """
    try:
        return PRESETS[preset]
    except (KeyError, TypeError):
        raise ValueError(f"compression {preset!r:.80}: one of {', '.join(PRESETS)}") from None


def encode_payload(payload: BytesLike, preset: str) -> tuple[Compression, BytesLike]:
    """Compress a payload if that makes it smaller.

    Parameters
    ----------
    payload : bytes-like
        C-contiguous.
    preset : str
        A name of `PRESETS`.

    Returns
    -------
    compression : Compression
        What was done.
    stored : bytes-like
        The frame; `payload` itself where it has less than 250 bytes or gets no smaller.

    Raises
    ------
    ValueError
        There is no such preset.
    CodecError
        The codec failed, for want of memory.
    """
    compression, level = check_preset(preset)
    nbytes = memoryview(payload).nbytes
    if compression is Compression.NONE or nbytes < MIN_COMPRESSED_NBYTES:
        return Compression.NONE, payload
    frame = _record.encode(compression, level, payload, nbytes - 1)
    if isinstance(frame, bytes):
        return compression, frame
    if frame == _record.NO_ROOM:
        return Compression.NONE, payload
    raise _failed(compression, frame, f"{nbytes} bytes to compress")


def encode_frame(content: BytesLike, compression: Compression, level: int) -> bytes:
    """Return `content` as one frame, even if that is larger.

    Raises
    ------
    CodecError
        The codec failed, for want of memory.
    """
    nbytes = memoryview(content).nbytes
    # More than both codecs need for what they cannot compress (lz4frame.h, zstd.h: bounds).
    frame = _record.encode(compression, level, content, nbytes + nbytes // 128 + 1024)
    if isinstance(frame, bytes):
        return frame
    raise _failed(compression, frame, f"{nbytes} bytes to compress")


def decode_payload(stored: BytesLike, compression: int, nbytes: int) -> BytesLike:
    """Decode a payload.

    Parameters
    ----------
    stored : bytes-like
        All bytes of the record behind its header.
    compression : int
        A `Compression`, as the record header has it.
    nbytes : int
        The size of the payload by the record header.

    Returns
    -------
    bytes-like
        Of exactly `nbytes`: `stored` itself if it is not compressed, else new bytes.

    Raises
    ------
    CodecError
        The stored bytes are not one sound frame of so many bytes.
    UnsupportedError
        There is no such compression.

    Notes
    -----
    Safe from many threads; decoding lets go of the GIL.
    """
    if not compression:
        _check_plain(stored, nbytes)
        return stored
    _check_known(compression)
    limit = _record.limit_of(compression, stored)
    if limit < nbytes:  # refusals are negative
        raise _failed(compression, min(limit, 0) or _record.WRONG_SIZE, _called(stored, nbytes))
    try:
        payload, view = new_bytes(nbytes)
    except MemoryError:
        raise _failed(compression, _record.NO_MEMORY, _called(stored, nbytes)) from None
    with view:
        code = _record.decode_into(compression, stored, view)
    if code:
        raise _failed(compression, code, _called(stored, nbytes))
    return payload


def decode_payload_into(stored: BytesLike, compression: int, out: memoryview) -> None:
    """Decode a payload into `out`, whose size must be that of the payload.

    Parameters
    ----------
    stored, compression
        As for `decode_payload`.
    out : memoryview
        uint8, writable and contiguous; changed in part if an error is raised.

    Raises
    ------
    CodecError, UnsupportedError
        As for `decode_payload`.
    """
    if not compression:
        _check_plain(stored, len(out))
        out[:] = stored
        return
    _check_known(compression)
    code = _record.decode_into(compression, stored, out)
    if code:
        raise _failed(compression, code, _called(stored, len(out)))


def frame_limit(stored: BytesLike, compression: Compression) -> int:
    """Return the most bytes that a frame can hold: its content size, if it has that.

    Raises
    ------
    CodecError
        The stored bytes are not one frame.
    """
    limit = _record.limit_of(compression, stored)
    if limit < 0:
        raise _failed(compression, limit, f"{len(stored)} bytes")
    return limit


def _check_plain(stored: BytesLike, nbytes: int) -> None:
    if len(stored) != nbytes:
        raise CodecError(f"payload of {nbytes} bytes, not compressed: {len(stored)} are there")


def _check_known(compression: int) -> None:
    if compression not in _NAMES:
        raise UnsupportedError(f"compression {compression}: only LZ4 (1) and Zstandard (2) exist")


def _called(stored: BytesLike, nbytes: int) -> str:
    return f"payload of {nbytes} bytes, {len(stored)} stored"


def _failed(compression: int, code: int, what: str) -> CodecError:
    name = _NAMES[Compression(compression)]
    return CodecError(f"{what}, {name}: {_REFUSALS[code]}", codec=name, code=code)
