"""Fields of records that are numbers, over time: what viewers plot.

Versions of a record format may differ: a field is read from the records of each version that has
it, and the other records are left out.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ...plugin import AnyArray, BloscpackError, NotFoundError
from ..export.documents import stream_formats
from ..layout.datalayout import DataLayout
from ..recording import Recording
from ..stream import Stream

# Most records of which a viewer is given a column.
_MAX_RECORDS = 1 << 21


class NumberField(NamedTuple):
    """Field of numbers in the records of a type."""

    type: Any  # name of the record type
    name: str
    block: int | None = None  # of the metadata block, if several have a field of this name


def number_fields(stream: Stream) -> list[NumberField]:
    """Return the fields that are numbers, or arrays of numbers, in records that exist."""
    found: dict[NumberField, None] = {}
    for each in stream_formats(stream):
        blocks: dict[str, list[int]] = {}
        for block, definition in each.layouts.items() if stream.counts[each.record_type] else ():
            for key in _numbers_of(definition):
                blocks.setdefault(key, []).append(block)
        for key, where in blocks.items():
            chosen = where if len(where) > 1 else [None]
            found |= dict.fromkeys(NumberField(each.record_type, key, block) for block in chosen)
    return list(found)


def _numbers_of(definition: str) -> list[str]:
    """Return the fields of fixed size in a layout that are numbers, or arrays of numbers."""
    try:
        layout = DataLayout.from_json(definition)
    except BloscpackError:
        return []
    return [
        key
        for key, piece in layout.fixed
        if key not in layout.missing
        and piece.element is not None
        and piece.element.dtype.base.kind in "biuf"
    ]


def read_numbers(stream: Stream, field: NumberField) -> tuple[AnyArray, AnyArray, list[int]]:
    """Read a field of all records that have it, in the order of time.

    Returns
    -------
    times : ndarray
        Time stamps in seconds, float64 ``(N,)``; records without a finite one are left out.
    numbers : ndarray
        Values, float64 ``(N, k)``; NaN where a version has fewer than others.
    missing : list of int
        Versions of records that do not have the field, or not as one field of numbers.

    Raises
    ------
    NotFoundError
        No definition has the field.
    ValueError
        The field is not of numbers, or ambiguous, in every version.
    FormatError, CodecError
        A record is damaged.
    """
    kind, name, block = field
    times = stream.records.filter(None, kind).timestamps
    versions = stream.versions(kind)
    parts: dict[int, AnyArray] = {}
    missing: list[int] = []
    fault: ValueError | None = None
    for version in np.unique(versions).tolist():
        try:
            values = stream.field(name, kind, block=block, version=version)
        except NotFoundError:
            if not (fault or any(each[:2] == (kind, name) for each in number_fields(stream))):
                raise
            missing.append(version)
            continue
        except BloscpackError:  # some are ValueErrors, too
            raise
        except ValueError as err:
            fault = err  # several fields have this name
            missing.append(version)
            continue
        count = int((versions == version).sum())
        if not isinstance(values, np.ndarray) or values.dtype.kind not in "biuf":
            fault = ValueError(f"field {name!r:.80} is not a number or an array of numbers")
            missing.append(version)
            continue
        parts[version] = values.reshape(count, -1).astype("f8")
    if fault is not None and not parts:
        raise fault
    width = max((each.shape[1] for each in parts.values()), default=1)
    numbers: AnyArray = np.full((len(times), width), np.nan)
    for version, part in parts.items():
        numbers[versions == version, : part.shape[1]] = part
    is_shown = np.isfinite(times) & ~np.isin(versions, missing)
    times, numbers = times[is_shown], numbers[is_shown]
    order = np.argsort(times, kind="stable")
    return times[order], numbers[order], missing


def iter_columns(recording: Recording) -> Iterator[tuple[str, str, AnyArray, AnyArray]]:
    """Yield stream, field, times and numbers of each field of data records that can be read."""
    for stream in recording.streams.values():
        for field in number_fields(stream):
            if field.type != "data" or stream.counts["data"] > _MAX_RECORDS:
                continue
            try:
                times, numbers, _ = read_numbers(stream, field)
            except BloscpackError:
                continue
            yield stream.id, field.name, times, numbers
