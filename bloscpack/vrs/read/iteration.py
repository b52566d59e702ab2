"""Iteration over records in batches for several threads, and past damaged records."""

from collections.abc import Iterator

import numpy as np

from ...exceptions import BloscpackError
from ...types import IntArray
from ..sequence import RecordSequence
from .record import Record

# Work of a thread at a time: at most this many stored bytes (or one record) and records.
_BATCH_NBYTES = 1 << 20
_BATCH_RECORDS = 512


def batches_of(records: RecordSequence) -> Iterator[IntArray]:
    """Yield the positions of records in batches, each the work of a thread at a time."""
    sizes = records.stored_nbytes
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        limit = (int(ends[start - 1]) if start else 0) + _BATCH_NBYTES
        stop = max(start + 1, int(np.searchsorted(ends, limit, side="right")))
        stop = min(stop, start + _BATCH_RECORDS)
        yield np.arange(start, stop)
        start = stop


def iter_readable(records: RecordSequence) -> Iterator[tuple[int, Record | BloscpackError]]:
    """Yield (position, record) of every record, with the exception in place of a damaged one."""
    for places in batches_of(records):
        start, stop = int(places[0]), int(places[-1]) + 1
        while start < stop:
            try:
                for record in records[start:stop]:
                    yield start, record
                    start += 1
            except BloscpackError as err:
                yield start, err
                start += 1
