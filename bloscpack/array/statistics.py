"""Statistics of the chunks of an array: least and greatest item, number of NaN, sum.

They are in a file that was saved with ``stats=True``. Without them, the extremes are found by
reading the chunks one after the other.
"""

import operator
from collections.abc import Iterator
from contextlib import suppress
from functools import reduce
from typing import Any

import numpy as np

from ..container.reader import Container
from ..exceptions import FormatError
from ..types import AnyArray, IntArray
from .arraymetadata import Description, statistics_type

_NAT = np.iinfo("i8").min
_COMPARISONS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def chunk_statistics(container: Container, described: Description) -> AnyArray | None:
    """Return a record for each chunk in the order of the file.

    None if the file has none, or if rows were appended to it since it was opened. Those of chunks
    that a writer has in memory are computed.

    Raises
    ------
    FormatError
        They are damaged, or cannot be those of such an array.
    """
    source, chunks = container.source, container.stored
    if not chunks.has_statistics:
        return None
    statistics = statistics_type().stored(described[0], container.chunk_size)
    held = {index: statistics.record(content) for index, content in chunks.held.items()}
    try:
        stored = chunks.read_statistics(held)
    except FormatError:
        if container.front.commit is None and source.is_live and source.is_changed():
            return None
        raise
    return statistics.unpack(stored, _counts(container) // described[0].itemsize)


def _counts(container: Container) -> IntArray:
    """Return the decoded size of each chunk in bytes."""
    grid = container.grid
    if grid is None:
        sizes = np.full(container.nchunks, container.chunk_size)
        sizes[-1] = container.last_chunk
        return sizes
    lengths = [
        np.minimum(step, length - step * np.arange(max(count, 1)))
        for count, step, length in zip(grid.counts, grid.chunks, grid.shape, strict=True)
    ]
    return reduce(np.multiply.outer, lengths).ravel() * grid.itemsize


def extreme(container: Container, described: Description, name: str) -> Any:
    """Return the least ("min") or greatest ("max") item, as numpy does: NaN if any item is NaN."""
    dtype = described[0].newbyteorder("=")
    records = chunk_statistics(container, described)
    if records is None or not container.nbytes:
        found = [getattr(items, name)() for items in _iter_items(container, described[0])]
        return getattr(np.array(found, dtype), name)()
    if records["nan"].any():
        # numpy warns of the text "NaT" as times without a unit.
        is_time = dtype.kind in "mM"
        return (np.array(_NAT).view(dtype) if is_time else np.array(np.nan, dtype))[()]
    return getattr(records[name], name)()


def whole_statistics(container: Container, described: Description) -> dict[str, Any] | None:
    """Return ``min``, ``max`` and ``nan`` of the array from the statistics of its chunks.

    None without statistics. The extremes are those of the items other than NaN: numbers, text for
    times and infinities, and None without such items. Raises as `chunk_statistics` does.
    """
    records = chunk_statistics(container, described)
    if records is None:
        return None
    # One with only NaN has no extremes; an array without items has a single chunk, which has none.
    known = records[records["min"] == records["min"]] if container.nbytes else records[:0]
    found: dict[str, Any] = {"min": None, "max": None, "nan": int(records["nan"].sum())}
    for name in ("min", "max") if len(known) else ():
        value, kind = getattr(known[name], name)(), described[0].kind
        if kind in "mM" or not np.isfinite(value):
            found[name] = str(value)
        else:
            found[name] = float(value) if kind in "fV" else value.item()
    return found


def _iter_items(container: Container, dtype: "np.dtype[Any]") -> Iterator[AnyArray]:
    """Yield the items chunk by chunk, those that are cut with the chunk that has their end."""
    rest = b""
    for chunk in container.iter_chunks():
        content = rest + chunk if rest else chunk
        end = len(content) - len(content) % dtype.itemsize
        rest = content[end:]
        if end:
            yield np.frombuffer(content[:end], dtype)


def matching_chunks(records: AnyArray, conditions: dict[str, Any]) -> IntArray:
    """Return the indices of the records that fulfil all conditions, as for `Array.chunks_where`."""
    found = np.ones(len(records), bool)
    for name, condition in conditions.items():
        if name not in (records.dtype.names or ()):
            raise TypeError(f"conditions are min, max, nan and sum, not {name!r}")
        if not isinstance(condition, tuple) or len(condition) != 2:
            raise TypeError(
                f"{name} must be a comparison and a value, such as ('<', 300), not {condition!r}"
            )
        sign, value = condition
        if sign not in _COMPARISONS:
            raise ValueError(f"{name}: {sign!r} is not one of {', '.join(_COMPARISONS)}")
        # NumPy cannot compare bool with integers of more than 63 bits.
        values = records[name].view("u1") if records.dtype[name].kind == "b" else records[name]
        try:
            found &= _matches(values, sign, value)
        except (TypeError, ValueError) as err:  # numpy has one of both for times and numbers
            raise TypeError(
                f"{name} cannot be compared with {value!r:.80}: it has dtype {values.dtype}"
            ) from err
    return np.flatnonzero(found)


def _matches(values: AnyArray, sign: str, value: Any) -> AnyArray:
    """Return whether each value of a field fulfils a condition."""
    scalar = np.array(None)
    with suppress(OverflowError):  # of integers that no time has
        convert = {"M": np.datetime64, "m": np.timedelta64}.get(values.dtype.kind, np.asarray)
        scalar = np.asarray(convert(value))
    kind = scalar.dtype.kind
    if kind == "O" and type(value) is int and values.dtype.kind in "iufV":
        # Beyond 64 bits: Python compares any numbers by their values.
        numbers = values.astype("f8") if values.dtype.kind == "V" else values
        values, kind = numbers.astype(object), "i"
    if scalar.ndim or kind not in "biufmM":
        raise ValueError("neither a number nor a time")
    # The number itself, as numpy then compares it with items of any type by its value.
    with np.errstate(invalid="ignore"):  # NumPy 1 warns of NaN among objects
        matches: AnyArray = _COMPARISONS[sign](values, value if kind in "biuf" else scalar[()])
    return matches
