"""Iteration over records in batches for several threads, and past damaged records."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from ...plugin import BloscpackError
from ..sequence import RecordSequence, Selection
from .record import Record

Item = TypeVar("Item")

# Work of a thread at a time: at most this many stored bytes (or one record) and records.
_BATCH_NBYTES = 1 << 20
_BATCH_RECORDS = 512


def batches_of(records: RecordSequence) -> Iterator[Selection]:
    """Yield records in batches, each the work of a thread at a time."""
    sizes = records.stored_nbytes
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        limit = (int(ends[start - 1]) if start else 0) + _BATCH_NBYTES
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        stop = min(stop, start + _BATCH_RECORDS)
        yield records[start:stop]
        start = stop


def batches_by_size(
    items: Iterable[Item], nbytes_of: Callable[[Item], int]
) -> Iterator[list[Item]]:
    """Yield lists of items of about 1 MiB, enough work for a thread."""
    batch: list[Item] = []
    nbytes = 0
    for item in items:
        batch.append(item)
        nbytes += nbytes_of(item)
        if nbytes >= _BATCH_NBYTES:
            yield batch
            batch, nbytes = [], 0
    if batch:
        yield batch


def iter_readable(records: RecordSequence) -> Iterator[tuple[int, Record | BloscpackError]]:
    """Yield (position, record) of every record, with the exception in place of a damaged one."""
    place = 0
    for batch in batches_of(records):
        stop = place + len(batch)
        while place < stop:
            try:
                for record in records[place:stop]:
                    yield place, record
                    place += 1
            except BloscpackError as err:
                yield place, err
                place += 1
