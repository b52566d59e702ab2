"""Verification and recovery of files whose chunks form a grid."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import FormatError
from bloscpack.format.codec import ARRAY_CHUNK_VERSION

from ..arrayfiles import flipped, grid_file
from ..reference.file import take_apart
from ..strategies import AnyArray, assert_same, fill, smooth


@st.composite
def losses(draw: st.DrawFn) -> tuple[AnyArray, bytes, list[tuple[slice, ...]], list[int]]:
    """Return (array, damaged file, regions of its chunks, damaged chunks)."""
    order: Any = draw(st.sampled_from("CF"))
    seed = draw(st.integers(0, 9))
    if draw(st.booleans()):
        shape = draw(st.lists(st.integers(2, 6), min_size=2, max_size=3).map(tuple))
        array = fill(np.dtype("<u8"), shape, seed).copy(order)
        lengths = [draw(st.integers(1, length - 1)) for length in shape]
        data = grid_file(array, tuple(lengths))
    else:
        array = smooth(np.dtype("<u8"), (40, 50), seed).copy(order)
        chunks = draw(st.sampled_from([(21, 30), (30, 20), (25, 40)]))
        data = grid_file(array, chunks, codec="auto")
        assert ARRAY_CHUNK_VERSION in {data[start] for start in take_apart(data).starts}
    with bp.open(data) as a:
        regions = [a.chunk_region(index) for index in range(a.nchunks)]
    lost = draw(st.sets(st.integers(0, len(regions) - 1), min_size=1, max_size=3))
    starts = take_apart(data).starts
    return array, flipped(data, *(starts[i] + 16 for i in lost)), regions, sorted(lost)


@given(losses())
def test_verify_names_the_indices_along_every_axis(
    loss: tuple[AnyArray, bytes, list[tuple[slice, ...]], list[int]],
) -> None:
    array, data, regions, lost = loss
    report = bp.verify(data)
    assert [damage.index for damage in report.damage] == lost
    for damage, index in zip(report.damage, lost, strict=True):
        assert damage.region == tuple((side.start, side.stop) for side in regions[index])
        growing = damage.region[-1 if array.flags.f_contiguous else 0]
        assert damage.rows == growing
        assert damage.first is not None
        assert damage.last is not None
        assert damage.last - damage.first == array[regions[index]].nbytes
        sides = ", ".join(f"{side.start}:{side.stop}" for side in regions[index])
        assert f"indices [{sides}]" in str(damage)


@given(losses())
def test_recover_keeps_all_other_chunks(
    loss: tuple[AnyArray, bytes, list[tuple[slice, ...]], list[int]],
) -> None:
    array, data, regions, lost = loss
    if len(lost) == len(regions):
        return
    path = "recovered.blp"
    report = bp.recover(data, path)
    assert report.saved == len(regions) - len(lost)
    assert {damage.index for damage in report.damage} <= set(lost)
    expected = array.copy()
    for index in lost:
        expected[regions[index]] = 0
    found = bp.load(path)
    axis = -1 if array.flags.f_contiguous else 0
    rows = found.shape[axis]
    keep = (slice(rows),) if axis == 0 else (..., slice(rows))
    assert np.array_equal(found, expected[keep])
    left = expected[slice(rows, None) if axis == 0 else (..., slice(rows, None))]
    assert not left.any(), "only lost chunks are cut off"
    assert bp.verify(path).ok
    with bp.open(path) as a, bp.open(data) as b:
        assert a.chunks == b.chunks


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestFront:
    ARRAY = fill(np.dtype("<i4"), (7, 10, 9), 5)
    DATA = grid_file(ARRAY, (2, 4, 5))

    @pytest.mark.parametrize("position", [9, 30, 70, 130])
    def test_the_copy_in_the_trailer_is_used(self, position: int) -> None:
        data = flipped(self.DATA, position)
        assert not bp.verify(data).ok
        bp.recover(data, "a")
        assert_same(bp.load("a"), self.ARRAY)

    def test_without_metadata_nothing_can_be_placed(self) -> None:
        trailing = len(take_apart(self.DATA).trailing)
        data = flipped(self.DATA[:-trailing], 130)
        with pytest.raises(FormatError, match="without the shape of the chunk grid"):
            bp.recover(data, "a")

    @pytest.mark.parametrize("end", [0.3, 0.6, 0.9])
    def test_a_cut_file(self, end: float) -> None:
        parts = take_apart(self.DATA)
        at = parts.starts[int(len(parts.starts) * end)]
        report = bp.recover(self.DATA[:at], "a")
        found = bp.load("a")
        assert not report.ok
        whole = found.shape[0] - found.shape[0] % 2 - 2
        assert_same(found[:whole], self.ARRAY[:whole])

    @pytest.mark.parametrize("what", ["trailer", "table"])
    def test_fix(self, what: str) -> None:
        parts = take_apart(self.DATA)
        position = len(self.DATA) - 100 if what == "trailer" else 64 + len(parts.section) + 17
        Path("a").write_bytes(flipped(self.DATA, position))
        assert bp.verify("a", fix=True).ok
        assert Path("a").read_bytes() == self.DATA
