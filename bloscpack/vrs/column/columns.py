"""Reading of one field of many records as one array, without an object per record.

The layouts of a stream, record type and format version determine the position of a field in a
payload, usually the same for all records. The bytes are then gathered from the file (`extents`), or
from the decoded payloads if records are compressed. Records are decoded one by one only if blocks
of varying size come before the field. Before a field is read, its position is compared with the
size of the payload; that size comes from the record header, which was compared with the index.

The file stores values in numpy's format, so a column of fixed size is a copy of the bytes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from ...plugin import (
    AnyArray,
    ErrorsAt,
    FormatError,
    IntArray,
    NotFoundError,
    TruncatedError,
    fetch,
)
from ...plugin import Piece as StoredPiece
from ..format.compression import decode_payload
from ..layout.datalayout import INDEX_ENTRY_SIZE, DataLayout
from ..layout.pieces import Piece, PieceKind
from ..layout.values import decoder_of
from ..read.extents import Bytes, read_ragged, read_rows
from ..read.record import Record
from ..read.recordset import RecordSet
from .fieldplace import FieldPlace, find_places
from .ragged import Ragged, Strings, joined

Column: TypeAlias = AnyArray | Ragged | Strings

# Cost of a decoded byte relative to Blosc; scales the number of threads.
_DECODE_COST = 2


def read_field(
    records: RecordSet,
    name: str,
    *,
    block: int | None = None,
    version: int | None = None,
    nthreads: int | None = None,
) -> Column:
    """Read a field of all records of a set.

    Parameters
    ----------
    records : RecordSet
        All records of one stream and type.
    name : str
        Label of a piece; ``label<type>`` if several pieces have the label.
    block : int, optional
        Index of the metadata block in the record format; needed if several blocks have the label.
    version : int, optional
        Read only the records of this format version. By default, all versions are read and must
        agree on the type of the field.
    nthreads : int, optional
        Number of threads that read and decode; see `threads.resolve_nthreads`.

    Returns
    -------
    ndarray, Ragged or Strings
        New memory, a row for each record in time order. Values ``(N,)``, arrays ``(N, k)``,
        points ``(N, 3)``, matrices ``(N, 4, 4)``, arrays of points ``(N, k, 3)``, all in the dtype
        of the file (``char`` is ``S1``); vectors and maps as `Ragged`, strings as `Strings`.

    Raises
    ------
    NotFoundError
        The field does not exist, or not in every version.
    ValueError
        Versions have different types of the field, or several blocks have it.
    UnsupportedError
        The position of the field is unknown, as a piece of unknown type comes before it.
    FormatError, CodecError
        A record is damaged; the message names it.
    """
    if nthreads is None:
        nthreads = records.content.nthreads
    records.load(nthreads=nthreads)
    versions = records.headers.versions
    found = np.unique(versions).tolist()
    if version is not None:
        if len(records) and version not in found:
            raise NotFoundError(f"{records.label} have no version {version}, only {found}")
        found = [version]
    places = find_places(records, found, name, block)
    chosen: IntArray = np.arange(len(records))
    if version is not None:
        chosen = np.flatnonzero(versions == version)
    parts = [
        (place, chosen[versions[chosen] == place.version] if len(places) > 1 else chosen)
        for place in places
    ]
    if places[0].piece.is_variable:
        return _read_variable(records, parts, chosen, nthreads)
    return _read_fixed(records, parts, chosen, nthreads)


_Part: TypeAlias = tuple[FieldPlace, IntArray]


def _read_fixed(
    records: RecordSet, parts: Sequence[_Part], chosen: IntArray, nthreads: int | None
) -> AnyArray:
    """Read a field of fixed size for the records `chosen`; `parts` groups them by version."""
    place = parts[0][0]
    base, shape = _item_of(place.layout.fixed_dtype[place.key])
    rows = [_fixed_rows(records, *part, nthreads) for part in parts]
    data = rows[0]
    if len(parts) > 1:
        data = np.empty((len(chosen), place.piece.nbytes), np.uint8)
        for (_, indices), found in zip(parts, rows, strict=True):
            data[np.searchsorted(chosen, indices)] = found
    return _typed(data.reshape(-1), base).reshape(len(chosen), *shape)


def _item_of(dtype: np.dtype[Any]) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the base dtype and the full shape of a dtype of nested subarrays."""
    shape: tuple[int, ...] = ()
    while dtype.subdtype is not None:
        dtype, inner = dtype.subdtype
        shape += inner
    return dtype, shape


def _typed(data: Bytes, dtype: np.dtype[Any]) -> AnyArray:
    if dtype.kind == "b":  # in a file any byte but 0 is true; numpy requires 0 or 1
        values: AnyArray = data != 0
        return values
    return data.view(dtype)


def _fixed_rows(
    records: RecordSet, place: FieldPlace, indices: IntArray, nthreads: int | None
) -> Bytes:
    """Return the bytes of a field of fixed size, one row per record."""
    at, nbytes, prefix = place.offset, place.piece.nbytes, place.layout.prefix_nbytes
    direct, others = _split(records, place, indices)
    _check_prefix(records, place, direct)
    offsets = records.headers.offsets[direct] + (place.start or 0) + at
    gathered = read_rows(records.content.source, offsets, nbytes, nthreads=nthreads)
    if not len(others):
        return gathered
    pieces = [b""] * len(others)

    def take(k: int, view: memoryview) -> None:
        if len(view) < prefix:
            raise TruncatedError(f"found {len(view)} of {prefix} bytes of its metadata")
        pieces[k] = bytes(view[at : at + nbytes])

    _take_blocks(records, place, others, take, nthreads)
    # Allocated only here, after every size was compared with bytes that were read.
    data = np.empty((len(indices), nbytes), np.uint8)
    data[np.searchsorted(indices, direct)] = gathered
    data[np.searchsorted(indices, others)] = joined(pieces)[1].reshape(len(others), nbytes)
    return data


def _split(records: RecordSet, place: FieldPlace, indices: IntArray) -> tuple[IntArray, IntArray]:
    """Return the records to gather from the file, and those to decode first."""
    if place.start is None:
        return indices[:0], indices
    plain = records.headers.compressions[indices] == 0
    return indices[plain], indices[~plain]


def _check_prefix(records: RecordSet, place: FieldPlace, indices: IntArray) -> None:
    """Raise if a payload is too short for the fixed part and index of its metadata block."""
    needed = (place.start or 0) + place.layout.prefix_nbytes
    found = records.headers.nbytes[indices]
    if bool((found < needed).any()):
        k = int((found < needed).argmax())
        fault = f"its metadata ends at byte {needed}, but the payload has {found[k]} bytes"
        raise TruncatedError(fault).at(*records.where(int(indices[k])))


def _take_blocks(
    records: RecordSet,
    place: FieldPlace,
    indices: IntArray,
    take: Callable[[int, memoryview], None],
    nthreads: int | None,
) -> None:
    """Call ``take(k, view)`` for each record; `view` starts with its metadata block."""
    start = place.start
    if start is None:
        for k, index in enumerate(indices.tolist()):
            with ErrorsAt(records.where, index):
                take(k, _block_of(records.record(index), place.layout))
        return
    headers = records.headers
    compressions, sizes = headers.compressions[indices].tolist(), headers.nbytes[indices].tolist()
    offsets, stored = headers.offsets[indices].tolist(), headers.stored[indices].tolist()

    def decode(k: int, data: memoryview) -> None:
        with (
            ErrorsAt(records.where, indices[k]),
            memoryview(decode_payload(data, compressions[k], sizes[k])) as payload,
        ):
            take(k, payload[start:])

    pieces = []
    for k, nbytes in enumerate(stored):
        source, offset = records.content.source.locate(offsets[k], nbytes)
        pieces.append(StoredPiece(source, offset, nbytes, partial(decode, k)))
    fetch(pieces, nthreads=nthreads, nbytes=_DECODE_COST * sum(sizes))


def _block_of(record: Record, layout: DataLayout) -> memoryview:
    """Return the bytes of the metadata block with the layout `layout`."""
    for block in record.blocks:
        if block.kind == "metadata" and block.spec is layout:
            return block.data
    raise FormatError(f"it has no such metadata block: {record.note}")


def _read_variable(
    records: RecordSet, parts: Sequence[_Part], chosen: IntArray, nthreads: int | None
) -> Column:
    """Read a field of variable size; parameters as for `_read_fixed`."""
    found = [_variable_bytes(records, *part, nthreads) for part in parts]
    ends, data = found[0]
    if len(parts) > 1:
        pieces: list[memoryview | bytes] = [b""] * len(chosen)
        for (_, indices), (bounds, content) in zip(parts, found, strict=True):
            rows = np.searchsorted(chosen, indices).tolist()
            for k, piece in zip(rows, _parts_of(content, bounds), strict=True):
                pieces[k] = piece
        ends, data = joined(pieces)
    return _arranged(records, parts[0][0].piece, chosen, ends, data)


def _parts_of(data: Bytes, ends: IntArray) -> list[memoryview]:
    view = data.data
    return [view[low:high] for low, high in pairwise(ends.tolist())]


def _variable_bytes(
    records: RecordSet, place: FieldPlace, indices: IntArray, nthreads: int | None
) -> tuple[IntArray, Bytes]:
    """Return the row bounds (N + 1,) and the joined bytes of a field of variable size."""
    direct, others = _split(records, place, indices)
    if not len(others):
        return _gathered(records, place, direct, nthreads)
    pieces: list[memoryview | bytes] = [b""] * len(indices)
    if len(direct):
        ends, data = _gathered(records, place, direct, nthreads)
        rows = np.searchsorted(indices, direct).tolist()
        for k, piece in zip(rows, _parts_of(data, ends), strict=True):
            pieces[k] = piece
    targets, layout, at = np.searchsorted(indices, others), place.layout, place.offset

    def take(k: int, view: memoryview) -> None:
        nbytes = layout.nbytes(view)
        if nbytes > len(view):
            raise TruncatedError(f"metadata block of {nbytes} bytes: found only {len(view)}")
        offset, length = np.frombuffer(view[at : at + INDEX_ENTRY_SIZE], "<u4").tolist()
        if layout.prefix_nbytes + offset + length > nbytes:
            raise _outside(place)
        start = layout.prefix_nbytes + offset
        pieces[targets[k]] = bytes(view[start : start + length])

    _take_blocks(records, place, others, take, nthreads)
    return joined(pieces)


def _outside(place: FieldPlace) -> FormatError:
    return FormatError(f"field {place.key!a:.80} ends beyond the metadata block")


def _gathered(
    records: RecordSet, place: FieldPlace, indices: IntArray, nthreads: int | None
) -> tuple[IntArray, Bytes]:
    """Do the work of `_variable_bytes` for records that are gathered from the file."""
    source, layout = records.content.source, place.layout
    starts = records.headers.offsets[indices] + (place.start or 0)
    _check_prefix(records, place, indices)

    def entries(at: int) -> AnyArray:
        found = read_rows(source, starts + at, INDEX_ENTRY_SIZE, nthreads=nthreads)
        return found.view("<u4").astype(np.int64)

    last_at = layout.prefix_nbytes - INDEX_ENTRY_SIZE
    own = entries(place.offset)
    nbytes = (own if place.offset == last_at else entries(last_at)).sum(axis=1)
    left = records.headers.nbytes[indices] - (place.start or 0) - layout.prefix_nbytes
    if bool((nbytes > left).any()):
        k = int((nbytes > left).argmax())
        fault = f"variable part of {nbytes[k]} bytes: found only {left[k]}"
        raise TruncatedError(fault).at(*records.where(int(indices[k])))
    wrong = own.sum(axis=1) > nbytes
    if bool(wrong.any()):
        raise _outside(place).at(*records.where(int(indices[wrong.argmax()])))
    offsets = starts + layout.prefix_nbytes + own[:, 0]
    return read_ragged(source, offsets, own[:, 1], nthreads=nthreads)


def _arranged(
    records: RecordSet, piece: Piece, chosen: IntArray, ends: IntArray, data: Bytes
) -> Column:
    """Convert the bytes of a field of variable size to a column of its type."""
    element = piece.element
    if piece.kind is PieceKind.STRING or element is None:
        return Strings(ends, data)
    if piece.kind is PieceKind.VECTOR and element.code:
        lengths = np.diff(ends)
        # Bytes after the last complete element are ignored, as in the reference.
        if bool((lengths % element.nbytes).any()):
            whole = (lengths - lengths % element.nbytes).tolist()
            rows = _parts_of(data, ends)
            ends, data = joined([row[:n] for row, n in zip(rows, whole, strict=True)])
        base, shape = _item_of(element.dtype)
        return Ragged(ends // element.nbytes, _typed(data, base).reshape(-1, *shape))
    return _parsed(records, piece, chosen, ends, data)


def _parsed(
    records: RecordSet, piece: Piece, chosen: IntArray, ends: IntArray, data: Bytes
) -> Ragged:
    """Decode vectors of strings and maps, row by row."""
    decode = decoder_of(piece)
    keys: list[str] = []
    values: list[Any] = []
    offsets = [0]
    with ErrorsAt(lambda: records.where(chosen[len(offsets) - 1])):
        for stored in _parts_of(data, ends):
            row = decode(bytes(stored))
            if isinstance(row, dict):
                keys.extend(row)
                row = row.values()
            values.extend(row)
            offsets.append(len(values))
    bounds = np.array(offsets, np.int64)
    element = piece.element
    if element is None or not element.code:
        found: AnyArray | Strings = Strings.pack(values)
    else:
        base, shape = _item_of(element.dtype)
        found = np.array(values, base).reshape(-1, *shape)
    is_map = piece.kind is PieceKind.STRING_MAP
    return Ragged(bounds, found, Strings.pack(keys) if is_map else None)
