"""Reading all records there are, some of which may be damaged, on several threads."""

from collections.abc import Iterator

import numpy as np

from ...exceptions import BloscpackError
from ...types import IntArray
from ..sequence import RecordSequence
from .record import Record

# What a thread takes up at once: so many bytes, as stored, and at most so many records.
_BATCH_NBYTES = 1 << 20
_BATCH_RECORDS = 512


def batches_of(records: RecordSequence) -> Iterator[IntArray]:
    """Yield places of records, a few at a time: what a thread takes up at once."""
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
    """Yield the place of every record with the record, or with what is wrong with it.

    Damage of one record does not end the iteration.
    """
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
