"""Reading around damage: lost items are filled or left out and reported; the rest is intact."""

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.exceptions import (
    BloscpackWarning,
    ChecksumMismatch,
    FileChangedError,
    FormatError,
    LockedError,
    TruncatedError,
)

from ..arrayfiles import array_file, content_file, flipped, grid_file, saved
from ..conftest import Warned
from ..reference.file import take_apart
from ..strategies import (
    AnyArray,
    assert_same,
    chunk_shapes,
    fill,
    picking_selections,
    selections,
    smooth,
)

ARRAY = fill(np.dtype("<i4"), (20, 6), 2)
ROWS_PER_CHUNK = 3


def damaged(data: bytes, *chunks: int) -> bytes:
    """Return a file with one bit flipped in the content of each of `chunks`."""
    starts = take_apart(data).starts
    return flipped(data, *(starts[chunk] + 16 for chunk in chunks))


def rows_file(*chunks: int) -> bytes:
    return damaged(array_file(ARRAY, chunk_nbytes=24 * ROWS_PER_CHUNK), *chunks)


def lost_rows(*chunks: int) -> list[int]:
    return [row for row in range(20) if row // ROWS_PER_CHUNK in chunks]


@st.composite
def losses(draw: st.DrawFn) -> tuple[AnyArray, AnyArray, bytes, set[int]]:
    """Return (array, mask of lost items, damaged file, damaged chunks)."""
    if draw(st.booleans()):
        return draw(losses_of_array_chunks())
    shape = draw(st.sampled_from([(30,), (9, 4), (4, 3, 5)]))
    dtype = np.dtype(draw(st.sampled_from(["<i4", ">f8", "S3", [("a", "i1"), ("b", "<i4")]])))
    order: Any = draw(st.sampled_from("CF"))
    array = fill(dtype, shape, draw(st.integers(0, 99))).copy(order)
    if draw(st.booleans()):
        return draw(losses_of_chunks(array, grid_file(array, draw(chunk_shapes(shape)))))
    chunk_nbytes = draw(st.integers(1, 8)) * dtype.itemsize - draw(st.sampled_from([0, 0, 1]))
    chunk_nbytes = max(chunk_nbytes, 2)
    data = array_file(array, chunk_nbytes=chunk_nbytes, checksum="crc32")
    nchunks = len(take_apart(data).starts)
    chunks = draw(st.sets(st.integers(0, nchunks - 1), max_size=4))
    bytes_lost = np.isin(np.arange(array.nbytes) // chunk_nbytes, list(chunks))
    lost = bytes_lost.reshape(-1, dtype.itemsize).any(axis=1).reshape(shape, order=order)
    return array, lost, damaged(data, *chunks), chunks


@st.composite
def losses_of_array_chunks(draw: st.DrawFn) -> tuple[AnyArray, AnyArray, bytes, set[int]]:
    shape, chunks = draw(
        st.sampled_from(
            [
                ((700,), (200,)),
                ((40, 30), (10, 30)),
                ((60, 40), (25, 30)),
                ((9, 20, 21), (5, 9, 12)),
            ]
        )
    )
    dtype = np.dtype(draw(st.sampled_from(["<i4", "<f8", ">i8", "<u4"])))
    order: Any = draw(st.sampled_from("CF"))
    array = smooth(dtype, shape, draw(st.integers(0, 99))).copy(order)
    return draw(losses_of_chunks(array, grid_file(array, chunks, codec="auto")))


@st.composite
def losses_of_chunks(
    draw: st.DrawFn, array: AnyArray, data: bytes
) -> tuple[AnyArray, AnyArray, bytes, set[int]]:
    """Return the fields of `losses` for a file that `save` wrote."""
    lost = np.zeros(array.shape, bool)
    with bp.open(data) as opened:
        chunks = draw(st.sets(st.integers(0, opened.nchunks - 1), max_size=4))
        for chunk in chunks:
            lost[opened.chunk_region(chunk)] = True
    return array, lost, damaged(data, *chunks), chunks


@st.composite
def indices(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    return draw(selections(shape) | picking_selections(shape))


@given(losses(), st.data(), st.sampled_from(["new", "F", "strided"]))
def test_fill(
    loss: tuple[AnyArray, AnyArray, bytes, set[int]], data: st.DataObject, layout: str
) -> None:
    array, lost, file, _ = loss
    index = data.draw(indices(array.shape) | st.just(()))
    expected = np.array(array[index], array.dtype)
    expected[lost[index]] = np.zeros((), array.dtype)
    out: Any = None
    if layout != "new":
        out = np.ones(expected.shape, array.dtype, order="F")
        if layout == "strided" and expected.ndim:
            out = np.ones((*expected.shape[:-1], 2 * expected.shape[-1]), array.dtype)[..., ::2]
    with bp.open(file) as opened:
        found = opened.read(index, out=out, on_error="fill")
    assert out is None or found is out
    assert_same(found, expected)


@given(losses(), st.data())
def test_skip(loss: tuple[AnyArray, AnyArray, bytes, set[int]], data: st.DataObject) -> None:
    array, lost, file, _ = loss
    index = data.draw(indices(array.shape) | st.just(()))
    whole = np.array(array[index], array.dtype)
    with bp.open(file) as opened:
        if not whole.ndim:
            with pytest.raises(ValueError, match="needs a selection with an axis"):
                opened.read(index, on_error="skip")
            return
        found = opened.read(index, on_error="skip")
    left_out = np.array(lost[index]).reshape(len(whole), -1).any(axis=1) if whole.size else False
    assert_same(found, whole[~left_out] if whole.size else whole)


@given(losses(), st.integers(1, 3))
def test_undamaged_parts_raise_nothing(
    loss: tuple[AnyArray, AnyArray, bytes, set[int]], nthreads: int
) -> None:
    array, lost, file, chunks = loss
    with bp.open(file, nthreads=nthreads) as opened:
        for row in range(len(array)):
            if lost[row].any():
                with pytest.raises(ChecksumMismatch) as caught:
                    opened.read(row)
                assert caught.value.index in chunks
            else:
                assert_same(
                    opened.read(row, on_error="skip" if array.ndim > 1 else "fill"),
                    array[row, ...],
                )


class TestWarnings:
    def test_one_for_all_lost_chunks(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        path.write_bytes(rows_file(1, 4, 6))
        with bp.open(path) as opened, pytest.warns(BloscpackWarning) as records:
            opened.read(slice(0, 15), on_error="fill")
        (record,) = records
        assert record.filename == __file__
        text = str(record.message)
        assert text.startswith(f"{path}: 2 of 7 chunks cannot be read and are filled: chunk 1 ")
        assert "chunk 1 (bytes 72 to 144, indices 3 to 6 of axis 0): " in text
        assert "adler32" in text
        assert "; chunk 4 (bytes 288 to 360, indices 12 to 15 of axis 0): " in text

    def test_many_are_counted(self, warned: Warned) -> None:
        bp.load(rows_file(*range(6)), on_error="fill")
        assert warned.text.startswith("memory: 6 of 7 chunks cannot be read and are filled: ")
        assert warned.text.count("adler32") == 3
        assert warned.text.endswith("; and 3 more")

    def test_the_axis_that_grows(self, warned: Warned) -> None:
        data = damaged(array_file(ARRAY.copy("F"), chunk_nbytes=80 * 4), 1)
        assert bp.load(data, on_error="skip").shape == (0, 6)
        assert "chunk 1 (bytes 320 to 480, indices 4 to 6 of axis 1)" in warned.text
        assert "1 of 2 chunks cannot be read and is left out: " in warned.text

    def test_no_warning_without_loss(self, warned: Warned) -> None:
        assert_same(bp.load(rows_file(), on_error="skip"), ARRAY)
        with bp.open(rows_file(2)) as opened:
            opened.read(slice(9, 20), on_error="fill")
        assert not warned.texts


class TestLoadAndChunks:
    def test_load(self) -> None:
        for nthreads in (1, 2):
            found = bp.load(rows_file(0, 5), nthreads=nthreads, on_error="fill", fill_value=-7)
            expected = ARRAY.copy()
            expected[lost_rows(0, 5)] = -7
            assert_same(found, expected)
        found = bp.load(rows_file(0, 5), on_error="skip")
        assert_same(found, np.delete(ARRAY, lost_rows(0, 5), axis=0))
        with pytest.raises(ChecksumMismatch):
            bp.load(rows_file(0, 5))

    def test_iter_chunks(self, warned: Warned) -> None:
        with bp.open(rows_file(0, 5)) as opened:
            chunks = list(opened.iter_chunks(on_error="skip"))
            with pytest.raises(ChecksumMismatch):
                list(opened.iter_chunks())
        assert b"".join(chunks) == np.delete(ARRAY, lost_rows(0, 5), axis=0).tobytes()
        assert len(warned.texts) == 2

    def test_all_is_lost(self) -> None:
        data = rows_file(*range(7))
        assert_same(bp.load(data, on_error="fill"), np.zeros_like(ARRAY))
        assert bp.load(data, on_error="skip").shape == (0, 6)
        with bp.open(data) as opened:
            assert list(opened.iter_chunks(on_error="skip")) == []


class TestTruncated:
    @pytest.mark.parametrize("checksum", ["crc32", None])
    def test_all_whole_chunks_are_read_in_place(self, tmp_path: Path, checksum: Any) -> None:
        array = fill(np.dtype("<f4"), (1000, 50), 8)
        whole = saved(array, chunks=10, checksum=checksum)
        path = tmp_path / "cut.blp"
        path.write_bytes(whole[: len(whole) * 6 // 10])
        starts = take_apart(whole).starts
        nwhole = sum(start <= len(whole) * 6 // 10 for start in starts[1:])
        assert 50 < nwhole < 65
        rows = nwhole * 10
        with bp.open(path) as opened:
            assert_same(opened[:rows], array[:rows])
            filled = opened.read(on_error="fill", fill_value=np.nan)
            assert_same(filled[:rows], array[:rows])
            assert np.isnan(filled[rows:]).all()
            assert_same(opened.read(on_error="skip"), array[:rows])
            left = [row for row in range(999, -1, -7) if row < rows]
            assert_same(opened.read(slice(None, None, -7), on_error="skip"), array[left])
            assert len(list(opened.iter_chunks(on_error="skip"))) == nwhole
            with pytest.raises(FormatError):
                opened.read()

    def test_without_an_offset_table(self) -> None:
        data = array_file(ARRAY, chunk_nbytes=24, offsets=False)
        cut = take_apart(data).starts[12] + 5
        assert_same(bp.load(data[:cut], on_error="skip"), ARRAY[:12])

    def test_content_that_is_easily_compressed(self) -> None:
        # The array is far larger than the remaining bytes, but these decode to enough of it.
        array = np.zeros((4000, 1000), "<f8")
        data = saved(array, chunks=100)
        assert array.nbytes > 100 * len(data)
        found = bp.load(data[: len(data) * 8 // 10], on_error="fill", fill_value=1)
        assert found.shape == array.shape
        assert set(found[:, 0].tolist()) == {0.0, 1.0}


class TestNotDamage:
    def test_storage_failures(self) -> None:
        class Broken(io.BytesIO):
            broken = False

            def read(self, size: int | None = -1) -> bytes:
                if self.broken:
                    raise OSError("the disk is gone")
                return super().read(size)

        stream = Broken(rows_file())
        with bp.open(stream) as opened:
            stream.broken = True
            for words in ("fill", "skip"):
                with pytest.raises(OSError, match="the disk is gone"):
                    opened.read(on_error=words)
            with pytest.raises(OSError, match="the disk is gone"):
                list(opened.iter_chunks(on_error="skip"))

    @pytest.mark.parametrize("error", [FileChangedError, LockedError])
    def test_another_file(self, error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_: Any) -> None:
            raise error("not this file")

        with bp.open(rows_file()) as opened:
            monkeypatch.setattr(Container, "read_bytes_into", fail)
            monkeypatch.setattr(Container, "read_chunk", fail)
            for words in ("fill", "skip"):
                with pytest.raises(error, match="not this file"):
                    opened.read(slice(2, 9, 2), on_error=words)
            with pytest.raises(error, match="not this file"):
                list(opened.iter_chunks(on_error="skip"))

    def test_declared_sizes_without_data(self) -> None:
        # The header and the metadata agree on 2 GiB; the chunk has 96 bytes.
        metadata = {"dtype": "'<i4'", "shape": [2**29 - 100], "order": "C", "container": "numpy"}
        data = bytearray(content_file(bytes(96), metadata))
        data[8:16] = ((2**29 - 100) * 4).to_bytes(4, "little") * 2
        for words in ("fill", "skip"):
            tracemalloc.start()
            try:
                with pytest.raises(TruncatedError, match="too few"):
                    bp.load(bytes(data), on_error=words)
                assert tracemalloc.get_traced_memory()[1] < 16 << 20
            finally:
                tracemalloc.stop()

    def test_a_small_file_of_one_damaged_chunk_is_filled(self) -> None:
        stream = io.BytesIO()
        bp.save(stream, np.zeros(100_000), chunks=100_000)
        data = bytearray(stream.getvalue())
        with bp.open(bytes(data)) as opened:
            data[opened.chunk_offset(0) + 40] ^= 1
        assert len(data) < 8000
        with pytest.warns(BloscpackWarning, match="1 of 1 chunks cannot be read"):
            filled = bp.load(bytes(data), on_error="fill", fill_value=7)
        assert (filled == 7).all()

    def test_more_chunks_than_bytes(self) -> None:
        metadata = {"dtype": "'|u1'", "shape": [2**40], "order": "C", "container": "numpy"}
        data = bytearray(content_file(b"a", metadata, offsets=False))
        data[8:24] = (1).to_bytes(4, "little") * 2 + (2**40).to_bytes(8, "little")
        with bp.open(bytes(data)) as opened:
            for words in ("fill", "skip"):
                with pytest.raises(TruncatedError, match="too few"):
                    opened.read(slice(0, 1), on_error=words)
            with pytest.raises(TruncatedError, match="too few"):
                list(opened.iter_chunks(on_error="skip"))


class TestArguments:
    def test_words(self) -> None:
        with bp.open(rows_file()) as opened:
            for words in ("ignore", "", None, True, "RAISE"):
                wrong: Any = words
                with pytest.raises(ValueError, match="on_error must be 'raise', 'fill' or 'skip'"):
                    opened.read(on_error=wrong)
                with pytest.raises(ValueError, match="on_error"):
                    bp.load(rows_file(), on_error=wrong)
            for wrong in ("fill", "ignore"):
                with pytest.raises(ValueError, match="on_error must be 'raise' or 'skip'"):
                    opened.iter_chunks(on_error=wrong)

    def test_skip_has_no_out(self) -> None:
        with pytest.raises(ValueError, match="out must be None"):
            bp.load(rows_file(), out=np.zeros_like(ARRAY), on_error="skip")

    @pytest.mark.parametrize(
        ("dtype", "value", "expected"),
        [
            ("<i4", 0, 0),
            ("<i4", -5, -5),
            (">i2", 300, 300),
            ("u1", np.int64(255), 255),
            ("<i4", 2.0, 2),
            ("<u8", 2**64 - 1, 2**64 - 1),
            ("?", True, True),
            ("?", 1, True),
            ("<f4", 0.1, np.float32(0.1)),
            ("<f4", float("inf"), np.inf),
            ("<f8", 2**70, 2.0**70),
            ("<f2", False, 0),
            ("<c8", 1 + 2j, 1 + 2j),
            ("<U3", "ab", "ab"),
            ("<U3", 0, ""),
            ("S2", b"xy", b"xy"),
            ("S2", 0, b""),
            ("<M8[s]", np.datetime64("2001-02-03"), np.datetime64("2001-02-03", "s")),
            ("<m8[ms]", np.timedelta64(3, "s"), np.timedelta64(3000, "ms")),
            ("<M8[D]", 0, np.datetime64("1970-01-01")),
            ("V3", 0, np.void(b"\0\0\0")),
            ([("a", "<i4"), ("b", "S2")], 0, np.void(bytes(6))),
        ],
        ids=str,
    )
    def test_fill_values_that_fit(self, dtype: Any, value: Any, expected: Any) -> None:
        array = fill(np.dtype(dtype), (4,), 1)
        data = damaged(array_file(array, chunk_nbytes=array.nbytes // 2), 0)
        found = bp.load(data, on_error="fill", fill_value=value)
        assert_same(found[2:], array[2:])
        assert found.dtype == array.dtype
        if found.dtype.names:
            assert found[:2].tobytes() == bytes(12)
        else:
            assert found[0] == found[1] == expected

    def test_not_a_time(self) -> None:
        array = fill(np.dtype("<M8[s]"), (4,), 1)
        data = damaged(array_file(array, chunk_nbytes=16), 0)
        found = bp.load(data, on_error="fill", fill_value=np.datetime64("NaT", "s"))
        assert np.isnat(found[:2]).all()

    @pytest.mark.parametrize(
        ("dtype", "value", "error"),
        [
            ("u1", 256, ValueError),
            ("u1", -1, ValueError),
            ("<i4", 1.5, ValueError),
            ("<i4", float("nan"), ValueError),
            ("<i8", 2**63, ValueError),
            ("<i8", 2**70, ValueError),
            ("?", 2, ValueError),
            ("<f4", 1e300, ValueError),
            ("<f8", 10**400, ValueError),
            ("<f8", 1j, TypeError),
            ("<i4", "1", TypeError),
            ("<f8", None, TypeError),
            ("<f8", np.ma.masked, ValueError),
            ("<U3", "abcd", ValueError),
            ("<U3", b"a", TypeError),
            ("<U3", 5, TypeError),
            ("S2", "a", TypeError),
            ("S2", b"abc", ValueError),
            ("<M8[s]", 5, TypeError),
            ("<M8[D]", np.datetime64("2001-02-03T04"), ValueError),
            ("<m8[s]", np.datetime64("2001-02-03"), TypeError),
            ("V3", b"abc", ValueError),
            ([("a", "<i4")], 1, ValueError),
            ([("a", "<i4")], (1,), ValueError),
            ("<i4", [1], ValueError),
            ("<i4", {}, TypeError),
        ],
        ids=str,
    )
    def test_fill_values_that_do_not(self, dtype: Any, value: Any, error: Any) -> None:
        # Refused before reading: the file is undamaged.
        array = fill(np.dtype(dtype), (4,), 1)
        with pytest.raises(error, match="fill_value"):
            bp.load(array_file(array), on_error="fill", fill_value=value)

    def test_fill_values_of_ml_dtypes(self) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        array = np.arange(4).astype(ml_dtypes.bfloat16)
        data = damaged(array_file(array, chunk_nbytes=4), 0)
        assert bp.load(data, on_error="fill", fill_value=1.5)[0] == 1.5
        assert bp.load(data, on_error="fill")[0] == 0
        with pytest.raises(ValueError, match="fill_value"):
            bp.load(data, on_error="fill", fill_value=1e300)
