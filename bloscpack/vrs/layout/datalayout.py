"""Metadata blocks: a data layout says how the bytes of a block are values, and back.

A block has four parts: the values and arrays of fixed size in the order of the definition, packed;
then an index with an offset and a length for every piece of variable size; then what the index
points into. Entries may leave gaps and may overlap, as the reference accepts. The part ends where
the last entry ends: a piece whose entry leads beyond that is None, "not available", and the others
are read.

A `DataLayout` is compiled once: one `struct.Struct` takes the fixed part and the index apart, and
one `itemgetter` puts the numbers together, so that a small block costs about a microsecond.
Contract: any bytes give values or a `FormatError`, and no more memory than a small multiple of the
bytes that are there. A type that is unknown here never shifts what comes after it: pieces whose
place is not known are left out. Layout of the bytes: docs/formats/vrs.md, "Data layouts".
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from operator import itemgetter
from struct import Struct, error
from typing import Any

import numpy as np

from ...exceptions import FormatError, TruncatedError, UnsupportedError
from ...types import BytesLike
from .pieces import Piece, PieceKind, format_definition, parse_definition
from .values import arrangement_of, decoder_of, describe, encoder_of, flatten, pack_numbers

INDEX_ENTRY_SIZE = 4 + 4
# The fixed part of a block; the reference has this limit, too.
MAX_FIXED_NBYTES = 1 << 30
# Entries that overlap may give this many bytes more than there are.
_MAX_OVERLAP_NBYTES = 1 << 26
_ENTRY = Struct("<II")


def _unique_keys(pieces: Iterable[Piece]) -> tuple[str, ...]:
    """Return the names of pieces: labels, with the type behind where a label has several types.

    Of pieces with the same label and type, pyvrs shows the last; the others have a number.
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
    """The compiled definition of a metadata block.

    Parameters
    ----------
    pieces : iterable of Piece
        In the order of the definition.

    Attributes
    ----------
    pieces : tuple of Piece
        All of the definition.
    keys : tuple of str
        Name of each piece in the values: its label, or ``label<type>`` where several pieces have
        the label (``x<float>``, ``x<int32>``, ``x<float_array>``), as pyvrs has it.
    fixed, variable : tuple of tuple (str, Piece)
        Keys and pieces whose place in a block is known, in the order of the bytes.
    fixed_nbytes : int
        Size of the part with values and arrays.
    prefix_nbytes : int
        Size of that part and of the index: where the variable part starts.
    undecodable : str or None
        Why a part of a block cannot be decoded, and its size is not known; None if it is.
    missing : tuple of str
        Keys of the pieces that `decode` leaves out: of unknown type, or behind one in the bytes.

    Raises
    ------
    FormatError
        The fixed part would be larger than a block can be.

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
            # Where the index starts is not known.
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
        """Compile the definition in a ``DL:`` tag; raises FormatError for any other text."""
        return cls(parse_definition(text))

    def to_json(self) -> str:
        """Return the definition as the text of a ``DL:`` tag, as the reference writes it."""
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
        # One place more, for an itemgetter of one place gives no tuple.
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
        """The fixed part as a packed structured dtype, a field for every key of `fixed`."""
        formats, offsets, offset = [], [], 0
        for _, piece in self.fixed:
            element = piece.element
            if element is not None:
                is_array = piece.kind is PieceKind.ARRAY
                dtype = element.dtype
                formats.append(np.dtype((dtype, (piece.count,))) if is_array else dtype)
            offsets.append(offset)
            offset += piece.nbytes
        return np.dtype(
            {
                "names": list(self._names),
                "formats": formats,
                "offsets": offsets,
                "itemsize": self.fixed_nbytes,
            }
        )

    def key(self, label: str, type_name: str) -> str | None:
        """Return the key of the piece with this label and type name, or None if there is none."""
        return self._by_type.get((label, type_name))

    @cached_property
    def _by_type(self) -> dict[tuple[str, str], str]:
        named = zip(self.pieces, self.keys, strict=True)
        return {(piece.label, piece.type_name): key for piece, key in named}

    def nbytes(self, view: BytesLike, offset: int = 0) -> int:
        """Return the size of the block at `offset`, which the last entry of its index gives.

        Raises
        ------
        TruncatedError
            The index is not there as a whole. What it points to need not be.
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
                f"metadata block: {max(len(view) - offset, 0)} of {end - offset} bytes are there",
                offset=offset,
            )

    def decode(self, view: BytesLike, offset: int = 0) -> tuple[dict[str, Any], int | None]:
        """Decode the block at `offset`.

        Parameters
        ----------
        view : bytes-like
            What is left of the payload may follow the block.
        offset : int, optional
            Position of the block in `view`, in bytes; not negative.

        Returns
        -------
        values : dict
            Value by key, as pyvrs gives them: numbers, ``bytes`` of length 1 for ``char``, tuples
            for points, tuples of rows for matrices, lists, dicts, ``str``. Pieces of variable size
            come last. None for a piece of variable size that is not available: its entry in the
            index leads out of the block. Those of `missing` are not in it.
        nbytes : int or None
            Size of the block; None if a piece of unknown size hides it (`undecodable` says which).

        Raises
        ------
        TruncatedError
            The block goes on after the end of `view`.
        FormatError
            What an entry of the index leads to cannot be a value of the piece, or entries claim
            far more bytes than there are.
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
        """Add the variable part at `start` to `values`, and return its size."""
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
        # A crafted index gives every piece all bytes: 100,000 pieces of a megabyte each.
        entries = zip(numbers[self._index_at :: 2], numbers[self._index_at + 1 :: 2], strict=True)
        claimed = sum(length for start, length in entries if start + length <= nbytes)
        if claimed > nbytes + _MAX_OVERLAP_NBYTES:
            raise FormatError(
                f"metadata block: the entries of the index take {claimed} bytes of the {nbytes} "
                "that are there"
            )

    def iter_values(self, view: BytesLike, offset: int = 0) -> Iterator[tuple[str, str, Any]]:
        """Decode the block at `offset`; yield label, type name and value of each piece in order.

        The value of a piece that is not available is None, as in `decode`.
        """
        values, _ = self.decode(view, offset)
        for key, piece in zip(self.keys, self.pieces, strict=True):
            if key in values:
                yield piece.label, piece.type_name, values[key]

    def defaults(self) -> dict[str, Any]:
        """Return a value for every piece: its default, or zero, or nothing.

        A default that does not fit the piece counts as none, as in the reference. Lists and dicts
        are the caller's own.
        """
        return {
            key: value.copy() if isinstance(value, list | dict) else value
            for key, value in self._defaults.items()
        }

    @cached_property
    def _defaults(self) -> Mapping[str, Any]:
        # Never handed out: the lists in it stand for what every later record leaves out.
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
            Value by key, as `decode` gives them; numpy arrays do as well. What is left out has its
            default, or is zero or empty.

        Returns
        -------
        bytes
            Without gaps, keys of maps in the order of their bytes: as the reference writes it.

        Raises
        ------
        ValueError
            No piece has such a key, or a value does not fit its piece.
        UnsupportedError
            The layout has a piece of unknown type.
        """
        if not self.missing:
            filled = values if len(values) == len(self.keys) else {**self._defaults, **values}
            try:
                if len(filled) == len(self.keys):
                    return self._encode(filled)
            except (KeyError, TypeError, ValueError, OverflowError, error):
                pass  # The slow way says which piece it is, and knows more kinds of values.
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
                # Not "+=": to that an array would add the numbers before it.
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


def _pack_fixed(piece: Piece, shape: tuple[int, ...], value: Any) -> bytes:
    if piece.element is None:
        raise ValueError("it is of unknown type")
    return pack_numbers(piece.element, shape, value)


def _fitted_default(piece: Piece, zero: Any) -> Any:
    """Return the JSON default as a value of the piece, None if it is not one."""
    default = piece.default
    layout = DataLayout([Piece("", piece.type_name, piece.size)])
    if piece.kind is PieceKind.ARRAY and isinstance(default, list):
        default = (default + zero[len(default) :])[: piece.size]
    try:
        return layout.decode(layout.encode({"": default}))[0][""]
    except ValueError:
        return None
