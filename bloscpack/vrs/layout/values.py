"""Encoding and decoding of the values of pieces: numbers, points, strings and maps.

Values have the Python types of pyvrs: numbers, ``bytes`` of length 1 for ``char``, tuples for
points, tuples of rows for matrices, lists for arrays and vectors, dicts for maps, ``str``. Decoders
take the bytes of one piece and return a value or raise `FormatError`. Encoders also accept numpy
arrays, and raise `ValueError` or `TypeError` if a value does not fit. Layout: docs/formats/vrs.md,
"Data layouts".
"""

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from struct import Struct
from typing import Any

import numpy as np

from ...plugin import FormatError
from ..format.description import decode_text, encode_text
from .pieces import Element, Piece, PieceKind

# Converts the tuple of a piece's numbers to its value.
Arrangement = Callable[[tuple[Any, ...]], Any]
Decoder = Callable[[bytes], Any]
Encoder = Callable[[Any], bytes]

_U32 = Struct("<I")
_COUNT_MAX = 0xFFFFFFFF


def _rows(n: int) -> Arrangement:
    return lambda numbers: tuple(zip(*(iter(numbers),) * n, strict=True))


def _chunks(n: int) -> Arrangement:
    return lambda numbers: list(zip(*(iter(numbers),) * n, strict=True))


def arrangement_of(element: Element, count: int | None) -> Arrangement | None:
    """Return a function from unpacked numbers to a value; None if no conversion is needed.

    `count` is the number of elements of an array; None for a single value. The element type
    ``string`` has no numbers.
    """
    shape = element.shape
    if count is None:
        return _rows(shape[0]) if len(shape) == 2 else None
    if not shape:
        return list
    if len(shape) == 1:
        return _chunks(shape[0])
    rows, chunks = _rows(shape[0]), _chunks(element.width)
    return lambda numbers: [rows(matrix) for matrix in chunks(numbers)]


def decoder_of(piece: Piece) -> Decoder:
    """Return the decoder of a piece of variable size and known type."""
    kind, element = piece.kind, piece.element
    if kind is PieceKind.STRING or element is None:
        return decode_text
    if kind is PieceKind.VECTOR:
        return _vector_decoder(element) if element.code else _text_list_decoder(piece)
    return _map_decoder(piece, element)


def _vector_decoder(element: Element) -> Decoder:
    code, nbytes, width = element.code, element.nbytes, element.width
    arrange: Callable[[tuple[Any, ...]], list[Any]] = arrangement_of(element, 0) or list
    if code == "B" and not element.shape:
        return list
    unpack_from = struct.unpack_from

    def decode(data: bytes) -> list[Any]:
        # Bytes after the last complete element are ignored, as in the reference.
        count = len(data) // nbytes
        return arrange(unpack_from(f"<{count * width}{code}", data))

    return decode


def _text_list_decoder(piece: Piece) -> Decoder:
    def decode(data: bytes) -> list[str]:
        if not data:
            return []
        end = len(data)
        count = _U32.unpack_from(data)[0] if end >= 4 else 1
        texts: list[str] = []
        at = 4
        for _ in range(count):
            start = at + 4
            at = start + _U32.unpack_from(data, at)[0] if start <= end else end + 1
            if at > end:
                raise FormatError(f"{describe(piece)}: string {len(texts)} ends outside the piece")
            texts.append(decode_text(data[start:at]))
        return texts

    return decode


def _map_decoder(piece: Piece, element: Element) -> Decoder:
    one = Struct(f"<{element.width}{element.code}") if element.code else _U32
    arrange = arrangement_of(element, None)
    is_single, is_text = not element.shape, not element.code

    def decode(data: bytes) -> dict[str, Any]:
        values: dict[str, Any] = {}
        at, end = 0, len(data)
        while at < end:
            start = at + 4
            key_end = start + _U32.unpack_from(data, at)[0] if start <= end else end
            at = key_end + one.size
            if at > end:
                raise FormatError(f"{describe(piece)}: entry {len(values)} ends outside the piece")
            numbers = one.unpack_from(data, key_end)
            if is_text:
                text_start, at = at, at + numbers[0]
                if at > end:
                    raise FormatError(
                        f"{describe(piece)}: string {len(values)} ends outside the piece"
                    )
                value: Any = decode_text(data[text_start:at])
            elif is_single:
                value = numbers[0]
            else:
                value = arrange(numbers) if arrange else numbers
            values[decode_text(data[start:key_end])] = value
        return values

    return decode


def describe(piece: Piece) -> str:
    """Return a label of the piece for messages; long names are shortened."""
    label = piece.label if len(piece.label) <= 60 else piece.label[:57] + "..."
    return f"data layout: piece {label!a} ({piece.type_name[:60]!a})"


def flatten(value: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return the numbers of a nested sequence or array, which must have exactly this shape."""
    if isinstance(value, np.ndarray):
        if value.shape != shape:
            raise ValueError(f"expected an array of shape {shape}, got shape {value.shape}")
        return value.ravel().tolist()
    if not shape:
        return [value]
    if isinstance(value, str) or len(value) != shape[0]:
        raise ValueError(f"expected a sequence of length {shape[0]}, got length {len(value)}")
    if len(shape) == 1:
        return list(value)
    return [number for row in value for number in flatten(row, shape[1:])]


def _to_char(value: Any) -> bytes:
    # Definitions store a char as a number; numpy strips the NUL of b"\0".
    if isinstance(value, bytes):
        return value or b"\0"
    return bytes((value & 0xFF,))


def pack_numbers(element: Element, shape: tuple[int, ...], value: Any) -> bytes:
    """Encode a value of `shape` as numbers of the type `element`."""
    try:
        numbers: Iterable[Any] = flatten(value, shape)
        if element.code == "c":
            numbers = map(_to_char, numbers)
        return struct.pack(f"<{math.prod(shape)}{element.code}", *numbers)
    except (struct.error, TypeError, OverflowError) as err:
        raise ValueError(str(err)) from err


def encoder_of(piece: Piece) -> Encoder:
    """Return the encoder of a piece of variable size and known type.

    The encoder raises ValueError or TypeError for a value that does not fit.
    """
    kind, element = piece.kind, piece.element
    if kind is PieceKind.STRING or element is None:
        return _encode_string
    if kind is PieceKind.VECTOR:
        return _vector_encoder(element) if element.code else _encode_text_list
    return _map_encoder(element)


def _encode_string(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is not a string")
    return encode_text(value)


def _with_length(value: Any) -> bytes:
    data = _encode_string(value)
    if len(data) > _COUNT_MAX:
        raise ValueError(f"a string of {len(data)} bytes does not fit")
    return _U32.pack(len(data)) + data


def _vector_encoder(element: Element) -> Encoder:
    dtype, is_byte = element.dtype, element.code in "Bbc" and not element.shape
    base, shape = (dtype.subdtype or (dtype, ()))[0], element.shape

    def encode(value: Any) -> bytes:
        if is_byte and isinstance(value, bytes | bytearray):
            return bytes(value)
        if isinstance(value, np.ndarray):
            if value.shape[1:] != shape or value.ndim != len(shape) + 1:
                raise ValueError(
                    f"expected an array of shape (n, {shape}), got shape {value.shape}"
                )
            try:
                return value.astype(base, casting="same_kind", copy=False).tobytes()
            except TypeError as err:
                raise ValueError(str(err)) from err
        if not shape and isinstance(value, list):
            try:
                return struct.pack(f"<{len(value)}{element.code}", *value)
            except struct.error:
                pass  # The slow path accepts more types and has better messages.
        return pack_numbers(element, (len(value), *shape), value)

    return encode


def _encode_text_list(value: Any) -> bytes:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{type(value).__name__} is not a sequence of strings")
    return _U32.pack(len(value)) + b"".join(map(_with_length, value))


def _map_encoder(element: Element) -> Encoder:
    def encode_one(value: Any) -> bytes:
        if not element.code:
            return _with_length(value)
        return pack_numbers(element, element.shape, value)

    def encode(value: Any) -> bytes:
        if not isinstance(value, Mapping):
            raise TypeError(f"{type(value).__name__} is not a mapping")
        # Sorted by the bytes of the keys, as in the reference: a reader may rely on it.
        entries = {_with_length(key): encode_one(one) for key, one in value.items()}
        return b"".join(
            key + entries[key] for key in sorted(entries, key=itemgetter(slice(4, None)))
        )

    return encode
