"""Compiled data layouts: decoding and encoding of metadata blocks.

A block has three parts. First come the packed values and arrays of fixed size, in definition order.
Then an index with an offset and a length for every piece of variable size. Then the variable part
that the index points into. Entries may leave gaps and may overlap, as the reference accepts. The
variable part ends where the last entry ends: a piece whose entry leads beyond that is None, "not
available", and the others are decoded.

A `DataLayout` is compiled once: one `struct.Struct` unpacks the fixed part and the index, and one
`itemgetter` groups the numbers, so a small block takes about a microsecond. Contract: any bytes
give values or a `FormatError`, and memory stays within a small multiple of the bytes present. A
piece of unknown type never shifts the values of others: pieces whose position depends on it are
left out. Layout of the bytes: docs/formats/vrs.md, "Data layouts".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from struct import Struct, error
from typing import Any

import numpy as np

from ...plugin import BytesLike, FormatError, TruncatedError, UnsupportedError
from .pieces import Piece, PieceKind, format_definition, parse_definition
from .values import arrangement_of, decoder_of, describe, encoder_of, flatten, pack_numbers

INDEX_ENTRY_SIZE = 4 + 4
# Largest fixed part of a block, in bytes, as in the reference.
MAX_FIXED_NBYTES = 1 << 30
# Bytes by which the lengths of overlapping entries may exceed the variable part.
_MAX_OVERLAP_NBYTES = 1 << 26
_ENTRY = Struct("<II")


def _unique_keys(pieces: Iterable[Piece]) -> tuple[str, ...]:
    """Return a unique name for each piece: its label, with the type if a label has several types.

    If pieces have the same label and type, the last keeps the plain name, as pyvrs shows that one;
    the others get a number.
    """
    pieces = tuple(pieces)
    labels = Counter(label for label, _ in {(piece.label, piece.short_type) for piece in pieces})
    keys = [
        piece.label if labels[piece.label] == 1 else f"{piece.label}<{piece.short_type}>"
        for piece in pieces
    ]
    left = Counter(keys)
    if len(left) == len(keys):
        return tuple(keys)
    taken, numbers = set(left), Counter[str]()
    for i, key in enumerate(keys):
        left[key] -= 1
        if left[key]:
            while keys[i] in taken:
                numbers[key] += 1
                keys[i] = f"{key}#{numbers[key]}"
            taken.add(keys[i])
    return tuple(keys)


class DataLayout:
    """Compiled definition of a metadata block.

    Parameters
    ----------
    pieces : iterable of Piece
        In definition order.

    Attributes
    ----------
    pieces : tuple of Piece
        All pieces of the definition.
    keys : tuple of str
        Name of each piece in the values: its label, or ``label<type>`` if several pieces have the
        label (``x<float>``, ``x<int32>``, ``x<float_array>``), as in pyvrs.
    fixed, variable : tuple of tuple (str, Piece)
        Keys and pieces of known position in a block, in byte order.
    fixed_nbytes : int
        Bytes of the part with values and arrays.
    prefix_nbytes : int
        Bytes of that part and of the index; the variable part starts there.
    undecodable : str or None
        Why the block's size is unknown and part of it cannot be decoded; None if all of it can be.
    missing : tuple of str
        Keys of the pieces that `decode` leaves out: of unknown type, or stored after such a piece.

    Raises
    ------
    FormatError
        The fixed part exceeds `MAX_FIXED_NBYTES`.

    Notes
    -----
    Immutable, and safe to use from many threads.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self.pieces = tuple(pieces)
        self.keys = _unique_keys(self.pieces)
        self.undecodable: str | None = None
        fixed, variable = [], []
        for key, piece in zip(self.keys, self.pieces, strict=True):
            if piece.is_variable:
                variable.append((key, piece))
            elif piece.kind is None:
                self.undecodable = self.undecodable or f"{describe(piece)} is of unknown size"
            elif self.undecodable is None:
                fixed.append((key, piece))
        if self.undecodable is not None:
            # The position of the index is unknown.
            variable = []
        self.fixed, self.variable = tuple(fixed), tuple(variable)
        decoded = {key for key, piece in (*fixed, *variable) if piece.kind is not None}
        self.missing = tuple(key for key in self.keys if key not in decoded)
        self.fixed_nbytes = sum(piece.nbytes for _, piece in fixed)
        if self.fixed_nbytes > MAX_FIXED_NBYTES:
            raise FormatError(
                f"data layout: a fixed part of {self.fixed_nbytes} bytes exceeds the limit of "
                f"{MAX_FIXED_NBYTES}"
            )
        self.prefix_nbytes = self.fixed_nbytes + INDEX_ENTRY_SIZE * len(variable)
        self._compile()

    @classmethod
    def from_json(cls, text: str) -> "DataLayout":
        """Compile the definition of a ``DL:`` tag; raises FormatError if the text is not one."""
        return cls(parse_definition(text))

    def to_json(self) -> str:
        """Return the definition as text for a ``DL:`` tag, as the reference writes it."""
        return format_definition(self.pieces)

    def __eq__(self, other: object) -> bool:
        return self.pieces == other.pieces if isinstance(other, DataLayout) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.keys)

    def __repr__(self) -> str:
        return f"<DataLayout of {len(self.pieces)} pieces, {self.prefix_nbytes} bytes and more>"

    def __reduce__(self) -> tuple[type["DataLayout"], tuple[tuple[Piece, ...]]]:
        return type(self), (self.pieces,)

    def _compile(self) -> None:
        codes, places, arrangements, plan = [], [], [], []
        at = 0
        for key, piece in self.fixed:
            element, count = piece.element, piece.count
            if element is None:
                continue
            width = element.width * count
            is_single = piece.kind is PieceKind.VALUE and not element.shape
            codes.append(element.code if is_single else f"{width}{element.code}")
            places.append(at if is_single else slice(at, at + width))
            is_array = piece.kind is PieceKind.ARRAY
            arrange = arrangement_of(element, count if is_array else None)
            if arrange is not None:
                arrangements.append((key, arrange))
            plan.append((key, (count, *element.shape) if is_array else element.shape))
            at += width
        self._codec = Struct("<" + "".join(codes) + "II" * len(self.variable))
        self._names = tuple(key for key, _ in self.fixed)
        # Two extra places: an itemgetter of a single place does not return a tuple.
        self._pick = itemgetter(*places, slice(0), slice(0))
        self._arrangements = tuple(arrangements)
        self._plan = tuple(plan)
        self._index_at = at
        self._decoders = tuple(
            (key, None if piece.kind is None else decoder_of(piece)) for key, piece in self.variable
        )
        self._overlap_free = _MAX_OVERLAP_NBYTES // max(len(self.variable), 1)

    @cached_property
    def fixed_dtype(self) -> np.dtype[Any]:
        """Packed structured dtype of the fixed part, with a field for every key of `fixed`."""
        formats = []
        for _, piece in self.fixed:
            element = piece.element
            if element is not None:
                is_array = piece.kind is PieceKind.ARRAY
                dtype = element.dtype
                formats.append(np.dtype((dtype, (piece.count,))) if is_array else dtype)
        offsets = offsets_of(self)
        return np.dtype(
            {
                "names": list(self._names),
                "formats": formats,
                "offsets": [offsets[name] for name in self._names],
                "itemsize": self.fixed_nbytes,
            }
        )

    def key(self, label: str, type_name: str) -> str | None:
        """Return the key of the piece with this label and type name, or None."""
        return self._by_type.get((label, type_name))

    @cached_property
    def _by_type(self) -> dict[tuple[str, str], str]:
        named = zip(self.pieces, self.keys, strict=True)
        return {(piece.label, piece.type_name): key for piece, key in named}

    def nbytes(self, view: BytesLike, offset: int = 0) -> int:
        """Return the size in bytes of the block at `offset`, from the last entry of its index.

        Raises
        ------
        TruncatedError
            The index is cut off. The variable part is not checked.
        UnsupportedError
            A piece of unknown size stands before the index.
        """
        if self.undecodable is not None:
            raise UnsupportedError(self.undecodable)
        if not self.variable:
            return self.fixed_nbytes
        end = offset + self.prefix_nbytes
        self._check_length(view, end, offset)
        start, length = _ENTRY.unpack_from(view, end - INDEX_ENTRY_SIZE)
        return self.prefix_nbytes + int(start) + int(length)

    def _check_length(self, view: BytesLike, end: int, offset: int) -> None:
        if len(view) < end:
            raise TruncatedError(
                f"metadata block: found {max(len(view) - offset, 0)} of {end - offset} bytes",
                offset=offset,
            )

    def decode(self, view: BytesLike, offset: int = 0) -> tuple[dict[str, Any], int | None]:
        """Decode the block at `offset`.

        Parameters
        ----------
        view : bytes-like
            The block, which may be followed by other bytes of the payload.
        offset : int, optional
            Position of the block in `view`, in bytes; not negative.

        Returns
        -------
        values : dict
            Value by key, with the types of pyvrs: numbers, ``bytes`` of length 1 for ``char``,
            tuples for points, tuples of rows for matrices, lists, dicts, ``str``. Pieces of
            variable size come last. A piece of variable size is None if it is not available: its
            index entry leads out of the block. The keys of `missing` are absent.
        nbytes : int or None
            Size of the block; None if a piece has an unknown size (`undecodable` names it).

        Raises
        ------
        TruncatedError
            The block extends beyond the end of `view`.
        FormatError
            The bytes of a piece of variable size are invalid, or the index entries claim far more
            bytes than the block has.
        """
        end = offset + self.prefix_nbytes
        if len(view) < end:
            self._check_length(view, end, offset)
        numbers = self._codec.unpack_from(view, offset)
        values = dict(zip(self._names, self._pick(numbers), strict=False))
        for key, arrange in self._arrangements:
            values[key] = arrange(values[key])
        if not self._decoders:
            return values, None if self.undecodable else self.fixed_nbytes
        return values, end - offset + self._decode_variable(view, end, numbers, values)

    def _decode_variable(
        self, view: BytesLike, start: int, numbers: tuple[Any, ...], values: dict[str, Any]
    ) -> int:
        """Decode the variable part at `start` into `values` and return its size in bytes."""
        nbytes: int = numbers[-2] + numbers[-1]
        self._check_length(view, start + nbytes, start)
        if nbytes > self._overlap_free:
            self._check_overlap(numbers, nbytes)
        data = bytes(view[start : start + nbytes])
        i = self._index_at
        for key, decode in self._decoders:
            begin = numbers[i]
            end = begin + numbers[i + 1]
            i += 2
            if decode is not None:
                values[key] = decode(data[begin:end]) if end <= nbytes else None
        return nbytes

    def _check_overlap(self, numbers: tuple[Any, ...], nbytes: int) -> None:
        # A crafted index could assign all bytes to every piece: 100,000 pieces of 1 MB each.
        entries = zip(numbers[self._index_at :: 2], numbers[self._index_at + 1 :: 2], strict=True)
        claimed = sum(length for start, length in entries if start + length <= nbytes)
        if claimed > nbytes + _MAX_OVERLAP_NBYTES:
            raise FormatError(
                f"metadata block: the entries of the index claim {claimed} bytes, but the variable "
                f"part has {nbytes}"
            )

    def iter_values(self, view: BytesLike, offset: int = 0) -> Iterator[tuple[str, str, Any]]:
        """Decode the block at `offset` and yield (label, type name, value) of each piece in order.

        A piece that is not available has the value None, as in `decode`.
        """
        values, _ = self.decode(view, offset)
        for key, piece in zip(self.keys, self.pieces, strict=True):
            if key in values:
                yield piece.label, piece.type_name, values[key]

    def defaults(self) -> dict[str, Any]:
        """Return a value for every piece: its default, or zero, or an empty value.

        A default that does not fit its piece is ignored, as in the reference. Lists and dicts are
        copies, which the caller may change.
        """
        return {
            key: value.copy() if isinstance(value, list | dict) else value
            for key, value in self._defaults.items()
        }

    @cached_property
    def _defaults(self) -> Mapping[str, Any]:
        # Never returned to callers: all later records share its lists.
        values, _ = self.decode(bytes(self.prefix_nbytes))
        for key, piece in (*self.fixed, *self.variable):
            if piece.default is not None and key in values:
                value = _fitted_default(piece, values[key])
                values[key] = values[key] if value is None else value
        return values

    def encode(self, values: Mapping[str, Any]) -> bytes:
        """Encode a block.

        Parameters
        ----------
        values : mapping
            Value by key, as returned by `decode`; numpy arrays are accepted, too. A missing key
            stands for the default of its piece, or for zero or an empty value.

        Returns
        -------
        bytes
            The block as the reference writes it: without gaps, map keys sorted by their bytes.

        Raises
        ------
        ValueError
            A key has no piece, or a value does not fit its piece.
        UnsupportedError
            The layout has a piece of unknown type.
        """
        if not self.missing:
            filled = values if len(values) == len(self.keys) else {**self._defaults, **values}
            try:
                if len(filled) == len(self.keys):
                    return self._encode(filled)
            except (KeyError, TypeError, ValueError, OverflowError, error):
                pass  # The slow path accepts more types, and its errors name the piece.
        return self._encode_checked(values)

    def _encode(self, values: Mapping[str, Any]) -> bytes:
        numbers: list[Any] = []
        for key, shape in self._plan:
            value = values[key]
            if not shape:
                numbers.append(value)
            elif len(shape) == 1:
                if len(value) != shape[0]:
                    raise ValueError(key)
                # Not "+=": an ndarray on the right would turn that into an addition.
                numbers.extend(value)
            else:
                numbers += flatten(value, shape)
        if not self.variable:
            return self._codec.pack(*numbers)
        return self._join(numbers, [code(values[key]) for key, code in self._encoders])

    @cached_property
    def _encoders(self) -> tuple[tuple[str, Any], ...]:
        return tuple((key, encoder_of(piece)) for key, piece in self.variable)

    def _join(self, numbers: list[Any], parts: list[bytes]) -> bytes:
        at = 0
        for part in parts:
            numbers += at, len(part)
            at += len(part)
        return self._codec.pack(*numbers) + b"".join(parts)

    def _encode_checked(self, values: Mapping[str, Any]) -> bytes:
        if self.missing:
            piece = self.pieces[self.keys.index(self.missing[0])]
            raise UnsupportedError(self.undecodable or f"{describe(piece)} is of unknown type")
        unknown = values.keys() - set(self.keys)
        if unknown:
            raise ValueError(f"data layout: no piece is named {min(map(str, unknown))!r}")
        values = {**self._defaults, **values}
        fixed, parts = [], []
        for (key, piece), (_, shape) in zip(self.fixed, self._plan, strict=True):
            try:
                fixed.append(_pack_fixed(piece, shape, values[key]))
            except ValueError as err:
                raise ValueError(f"{describe(piece)}: {err}") from err
        for (key, piece), (_, code) in zip(self.variable, self._encoders, strict=True):
            try:
                parts.append(code(values[key]))
            except (ValueError, TypeError) as err:
                raise ValueError(f"{describe(piece)}: {err}") from err
        if sum(map(len, parts)) > 0xFFFFFFFF:
            raise ValueError("data layout: the variable part exceeds 4 GiB")
        index, at = [], 0
        for part in parts:
            index.append(_ENTRY.pack(at, len(part)))
            at += len(part)
        return b"".join((*fixed, *index, *parts))


def offsets_of(layout: DataLayout) -> dict[str, int]:
    """Return the places in a block of fixed pieces and of the index entries of others, by key."""
    found: dict[str, int] = {}
    at = 0
    for key, piece in layout.fixed:
        found[key] = at
        at += piece.nbytes
    for key, _ in layout.variable:
        found[key] = at
        at += INDEX_ENTRY_SIZE
    return found


def _pack_fixed(piece: Piece, shape: tuple[int, ...], value: Any) -> bytes:
    if piece.element is None:
        raise ValueError("it is of unknown type")
    return pack_numbers(piece.element, shape, value)


def _fitted_default(piece: Piece, zero: Any) -> Any:
    """Return the JSON default as a value of the piece; None if it does not fit."""
    default = piece.default
    layout = DataLayout([Piece("", piece.type_name, piece.size)])
    if piece.kind is PieceKind.ARRAY and isinstance(default, list):
        default = (default + zero[len(default) :])[: piece.size]
    try:
        return layout.decode(layout.encode({"": default}))[0][""]
    except ValueError:
        return None
