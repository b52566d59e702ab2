"""Compression of the payloads of records: the bytes after a record header, as one frame or plain.

A compressed payload is exactly one LZ4 frame or one Zstandard frame. Bytes after the frame, a
second frame, a frame that needs a dictionary, and a decoded size other than that of the record
header are errors; they never give a shorter or zero-filled payload. Before memory is allocated, the
size is compared with what the blocks of the frame can hold; memory that is not written to costs
address space only. Every frame written here ends with a checksum of its content, which readers
verify.

Source of the facts: docs/formats/vrs.md, "Compression".
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from ...plugin import BytesLike, CodecError, UnsupportedError, compiled_kernels, new_bytes
from .format import Compression

with compiled_kernels():
    from ..._ext import record as _record

# Payloads of fewer bytes are stored uncompressed (reference 1.4.0, ``Compressor.cpp``).
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
"""Codec and level by the preset names of the reference."""

# Messages for the error codes of the kernel.
_REFUSALS = {
    _record.NOT_A_FRAME: "no such frame starts there, or its header is damaged",
    _record.CUT: "the frame is cut off",
    _record.TRAILING: "bytes follow the frame",
    _record.WRONG_SIZE: "the frame holds a different number of bytes",
    _record.BAD_BLOCK: "a block is damaged, or holds more bytes than fit",
    _record.WRONG_CHECKSUM: "the frame's checksum differs",
    _record.NEEDS_DICTIONARY: "the frame needs a dictionary",
    _record.NO_MEMORY: "no memory",
}
_NAMES = {Compression.LZ4: "lz4", Compression.ZSTD: "zstd"}


def check_preset(preset: str) -> tuple[Compression, int]:
    """Return the codec and level of a preset."""
    try:
        return PRESETS[preset]
    except (KeyError, TypeError):
        raise ValueError(
            f"compression {preset!r:.80}: expected one of {', '.join(PRESETS)}"
        ) from None


def encode_payload(payload: BytesLike, preset: str) -> tuple[Compression, BytesLike]:
    """Compress a C-contiguous payload with a preset of `PRESETS` if that makes it smaller.

    Returns the compression that was applied, and the frame; `payload` itself if it has less than
    250 bytes or does not get smaller.
    """
    compression, level = check_preset(preset)
    nbytes = memoryview(payload).nbytes
    if compression is Compression.NONE or nbytes < MIN_COMPRESSED_NBYTES:
        return Compression.NONE, payload
    # One byte less than the payload: a frame that is not smaller has no room.
    frame = _record.encode(compression, level, payload, nbytes - 1)
    if isinstance(frame, bytes):
        return compression, frame
    if frame == _record.NO_ROOM:
        return Compression.NONE, payload
    raise _failed(compression, frame, f"{nbytes} bytes to compress")


class StoredPayload(NamedTuple):
    """Payload of a record in the form in which a file holds it."""

    parts: Sequence[BytesLike]  # follow each other in the file
    nbytes: int  # total size of the parts
    compression: int = Compression.NONE
    uncompressed_nbytes: int = 0  # size when decoded; not stored without a compression


def stored_payload(payload: BytesLike, preset: str) -> StoredPayload:
    """Compress a payload as `encode_payload` does."""
    compression, stored = encode_payload(payload, preset)
    return StoredPayload([stored], len(stored), compression, len(payload))


def encode_frame(content: BytesLike, compression: Compression, level: int) -> bytes:
    """Return `content` as one frame, even if the frame is larger."""
    nbytes = memoryview(content).nbytes
    # Upper bound for incompressible data in both codecs (bounds of lz4frame.h and zstd.h).
    frame = _record.encode(compression, level, content, nbytes + nbytes // 128 + 1024)
    if isinstance(frame, bytes):
        return frame
    raise _failed(compression, frame, f"{nbytes} bytes to compress")


def decode_payload(stored: BytesLike, compression: int, nbytes: int) -> BytesLike:
    """Decode a payload to exactly `nbytes` bytes: `stored` itself if uncompressed, else new bytes.

    `stored` has all bytes of the record after its header, exactly one valid frame. Safe from many
    threads; decoding releases the GIL.
    """
    if not compression:
        _check_plain(stored, nbytes)
        return stored
    _check_known(compression)
    limit = _record.limit_of(compression, stored)
    if limit < nbytes:  # error codes are negative
        raise _failed(compression, min(limit, 0) or _record.WRONG_SIZE, _label(stored, nbytes))
    try:
        payload, view = new_bytes(nbytes)
    except MemoryError:
        raise _failed(compression, _record.NO_MEMORY, _label(stored, nbytes)) from None
    with view:
        code = _record.decode_into(compression, stored, view)
    if code:
        raise _failed(compression, code, _label(stored, nbytes))
    return payload


def decode_payload_into(stored: BytesLike, compression: int, out: memoryview) -> None:
    """Decode a payload as `decode_payload` into `out`, uint8 of the size of the payload.

    `out` may be partly written if an error is raised.
    """
    if not compression:
        _check_plain(stored, len(out))
        out[:] = stored
        return
    _check_known(compression)
    code = _record.decode_into(compression, stored, out)
    if code:
        raise _failed(compression, code, _label(stored, len(out)))


def _check_plain(stored: BytesLike, nbytes: int) -> None:
    if len(stored) != nbytes:
        raise CodecError(f"payload of {nbytes} bytes, not compressed: found {len(stored)} bytes")


def _check_known(compression: int) -> None:
    if compression not in _NAMES:
        raise UnsupportedError(
            f"compression {compression}: this release reads LZ4 (1) and Zstandard (2)"
        )


def _label(stored: BytesLike, nbytes: int) -> str:
    return f"payload of {nbytes} bytes, {len(stored)} stored"


def _failed(compression: int, code: int, what: str) -> CodecError:
    name = _NAMES[Compression(compression)]
    return CodecError(f"{what}, {name}: {_REFUSALS[code]}", codec=name, code=code)
