"""Offsets and sizes of samples from the tables of a track."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.locations import Chunking, Locations
from bloscpack.exceptions import FormatError


def runs(*entries: tuple[int, int]) -> "np.ndarray[Any, np.dtype[Any]]":
    return np.array([(*entry, 1) for entry in entries], ">u4").reshape(-1, 3)


@st.composite
def tracks(draw: st.DrawFn) -> tuple[Any, Any, Any, list[tuple[int, int]]]:
    """Return sizes, chunks, runs, and where each sample lies, found sample by sample."""
    per_chunk = draw(st.lists(st.integers(1, 4), max_size=12))
    count = sum(per_chunk)
    constant = draw(st.booleans())
    size = st.integers(1, 2**32 - 1)
    sizes = (
        [draw(size)] * count
        if constant
        else draw(st.lists(st.integers(0, 2**32 - 1), min_size=count, max_size=count))
    )
    wide = draw(st.booleans())
    chunks = draw(
        st.lists(
            st.integers(0, 2**45 if wide else 2**32 - 1),
            min_size=len(per_chunk),
            max_size=len(per_chunk),
        )
    )
    entries = [
        (k + 1, n)
        for k, n in enumerate(per_chunk)
        if not k or draw(st.booleans()) or n != per_chunk[k - 1]
    ]
    expected, sample = [], 0
    for start, n in zip(chunks, per_chunk, strict=True):
        for _ in range(n):
            expected.append((start, sizes[sample]))
            start += sizes[sample]
            sample += 1
    table = sizes[0] if constant and count else np.array(sizes, ">u4")
    return table, np.array(chunks, ">u8" if wide else ">u4"), runs(*entries), expected


@given(tracks())
def test_samples_lie_where_counting_puts_them(case: Any) -> None:
    sizes, chunks, entries, expected = case
    count = len(expected)
    found = Locations(count, sizes, chunks, Chunking(entries, len(chunks), count))
    assert len(found) == count
    assert [found[k] for k in range(count)] == expected
    order = np.random.default_rng(1).permutation(count)
    assert found.offsets(order).tolist() == [expected[k][0] for k in order]
    assert found.sizes(order).tolist() == [expected[k][1] for k in order]
    assert found.offsets(order).dtype == found.sizes(order).dtype == np.int64


@pytest.mark.parametrize(
    ("entries", "nchunks", "count", "message"),
    [
        ([], 1, 1, "1 chunks of stco hold 0 samples"),
        ([(1, 1)], 0, 1, "0 chunks of stco hold 0 samples"),
        ([(0, 1)], 2, 2, "do not divide"),
        ([(2, 1)], 2, 1, "do not divide"),
        ([(1, 1), (1, 2)], 2, 4, "do not divide"),
        ([(1, 1), (3, 1), (2, 1)], 4, 4, "do not divide"),
        ([(1, 1), (3, 1)], 2, 2, "do not divide"),
        ([(1, 0)], 2, 0, "do not divide"),
        ([(1, 1)], 2, 3, "2 chunks of stco hold 2 samples, stsz has 3"),
        ([(1, 2**32 - 1)], 2**32 - 1, 1, "hold 18446744065119617025 samples"),
    ],
)
def test_tables_that_disagree(
    entries: list[tuple[int, int]], nchunks: int, count: int, message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        Chunking(runs(*entries), nchunks, count)


def test_offsets_beyond_int64() -> None:
    plain = Locations(2, 7, np.array([2**64 - 1, 5], ">u8"), Chunking(runs((1, 1)), 2, 2))
    assert plain[0] == (2**64 - 1, 7)
    assert plain.offsets(np.arange(2)).tolist() == [2**62, 5]
    grouped = Locations(2, 7, np.array([2**64 - 1], ">u8"), Chunking(runs((1, 2)), 1, 2))
    assert grouped[1] == (2**62 + 7, 7)


def test_no_samples() -> None:
    for entries in (runs(), runs((1, 1))):
        none = Locations(0, np.zeros(0, "u4"), np.zeros(0, "u4"), Chunking(entries, 0, 0))
        assert len(none) == 0
        assert none.offsets(np.arange(0)).tolist() == []


def test_no_memory_for_samples_that_no_table_has() -> None:
    count = 2**32 - 1
    many = Locations(count, 3, np.array([9], ">u4"), Chunking(runs((1, count)), 1, count))
    assert many[count - 1] == (9 + 3 * (count - 1), 3)
