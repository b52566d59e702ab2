"""Files of array chunks: every way of writing and reading them, beside files of Blosc chunks."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch, UnsupportedError
from bloscpack.format.codec import ChunkHeader
from bloscpack.format.header import FEATURE_ARRAY_CHUNKS, FEATURE_GRID

from ..arrayfiles import saved
from ..strategies import AnyArray, assert_same, chunk_shapes, fill, selections

DTYPES = [
    "?",
    "u1",
    "<i2",
    "<u4",
    "<i8",
    "<f2",
    "<f4",
    "<f8",
    "<c8",
    "<M8[s]",
    ">i2",
    ">f4",
    ">c16",
]


def smooth(shape: tuple[int, ...], dtype: str = "<i2", order: Any = "C") -> AnyArray:
    """Return an array that array chunks store much smaller than Blosc chunks."""
    ramp = sum(np.ix_(*(np.arange(n) * (3 + axis) for axis, n in enumerate(shape))))
    noise = np.random.default_rng(1).integers(0, 5, shape)
    return np.asarray((ramp + noise).astype(dtype), order=order)


def kinds(path: Any) -> list[str]:
    """Return the codec of each chunk of a file."""
    with bp.open(path) as a:
        container = a.container
        return [container.fetch(index).header.codec for index in range(container.nchunks)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.blp"


@pytest.fixture
def array() -> AnyArray:
    return smooth((120, 40, 50))


@pytest.mark.parametrize("order", ["C", "F"])
def test_smaller_and_the_same(path: Path, order: Any) -> None:
    array = smooth((120, 40, 50), order=order)
    bp.save(path, array, chunks=30)
    plain = path.stat().st_size
    bp.save(path, array, chunks=30, codec="auto")
    assert path.stat().st_size < 0.8 * plain
    assert set(kinds(path)) == {"array"}
    assert_same(bp.load(path), array)
    with bp.open(path) as a:
        assert a.header.format_version == 4
        assert a.header.features == FEATURE_ARRAY_CHUNKS
        assert a.is_fortran == (order == "F")
    assert bp.verify(path).ok


def test_default_is_version_3(path: Path, array: AnyArray) -> None:
    bp.save(path, array)
    assert path.read_bytes()[4] == 3
    assert "array" not in kinds(path)


@pytest.mark.parametrize("dtype", ["S5", "U3", "V3", "i4,f4"])
def test_items_without_array_chunks_make_version_3(path: Path, dtype: str) -> None:
    array = fill(np.dtype(dtype), (30, 7), 2)
    bp.save(path, array)
    expected = path.read_bytes()
    bp.save(path, array, codec="auto")
    assert path.read_bytes() == expected


def test_noise_is_stored_as_blosc_chunks(path: Path) -> None:
    array = np.frombuffer(np.random.default_rng(2).bytes(80_000), "<i8")
    bp.save(path, array, codec="auto")
    auto = path.stat().st_size
    assert kinds(path) == ["zstd"]
    bp.save(path, array)
    assert auto == path.stat().st_size + 2 * 32  # the extended header, and its copy in the trailer
    assert_same(bp.load(path), array)


@st.composite
def files(draw: st.DrawFn) -> tuple[AnyArray, bytes]:
    shape = draw(st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple))
    dtype, order = draw(st.sampled_from(DTYPES)), draw(st.sampled_from("CF"))
    kind = draw(st.sampled_from(["bits", "smooth", "same"]))
    if kind == "bits":  # NaN payloads, infinities and denormals among them
        array = fill(np.dtype(dtype), shape, 3)
    else:
        array = smooth(shape, "i8").astype(dtype) if kind == "smooth" else np.zeros(shape, dtype)
    array = np.asarray(array, order=order)
    chunks = draw(st.none() | st.integers(1, 9) | chunk_shapes(shape))
    return array, saved(array, chunks=chunks, codec="auto")


@given(files())
def test_any_array_comes_back_bit_for_bit(case: tuple[AnyArray, bytes]) -> None:
    array, data = case
    assert_same(bp.load(data), array)
    assert bp.verify(data).ok


@given(st.data())
def test_any_selection(data: st.DataObject) -> None:
    array, stored = data.draw(files())
    with bp.open(stored) as a:
        for _ in range(3):
            index = data.draw(selections(array.shape))
            assert_same(a[index], array[index])


@pytest.mark.parametrize("chunks", [30, (30, 17, 50), (30, 40, 25)])
class TestWays:
    def test_grid(self, path: Path, array: AnyArray, chunks: Any) -> None:
        bp.save(path, array, chunks=chunks, codec="auto")
        assert set(kinds(path)) == {"array"}
        assert_same(bp.load(path), array)
        with bp.open(path) as a:
            grid = FEATURE_GRID if isinstance(chunks, tuple) else 0
            assert a.header.features == FEATURE_ARRAY_CHUNKS | grid

    def test_any_number_of_threads_writes_the_same(
        self, path: Path, array: AnyArray, chunks: Any
    ) -> None:
        found = []
        for nthreads in (1, 3):
            bp.save(path, array, chunks=chunks, codec="auto", nthreads=nthreads)
            found.append(path.read_bytes())
        assert found[0] == found[1]

    def test_append_and_writer_write_the_chunks_of_save(
        self, path: Path, array: AnyArray, chunks: Any
    ) -> None:
        bp.save(path, array, chunks=chunks, codec="auto")
        expected = stored(path)
        options = {"chunks": chunks, "codec": "auto"}
        with bp.Writer(path, dtype=array.dtype, shape=(None, 40, 50), **options) as w:
            for row in array:
                w.append(row)
        assert stored(path) == expected
        bp.save(path, array[:47], chunks=chunks, codec="auto")
        with bp.open(path, "a") as a:
            a.append(array[47:])
        assert stored(path) == expected
        assert_same(bp.load(path), array)

    def test_parts(self, path: Path, array: AnyArray, chunks: Any) -> None:
        bp.save(path, array, chunks=chunks, codec="auto")
        expected = path.read_bytes()
        options = {"chunks": chunks, "codec": "auto"}
        with bp.parts(path, shape=array.shape, dtype=array.dtype, **options) as job:
            job.commit([job.write(start, array[start : start + 30]) for start in (90, 0, 30, 60)])
        assert path.read_bytes() == expected

    def test_keepbits(self, path: Path, array: AnyArray, chunks: Any) -> None:
        values = array.astype("f4") / 7
        bp.save(path, values, keepbits=9)
        expected = bp.load(path)
        bp.save(path, values[:50], keepbits=9, chunks=chunks, codec="auto")
        with bp.open(path, "a") as a:
            a.append(values[50:])
        assert "array" in kinds(path)
        assert_same(bp.load(path), expected)

    def test_damage_is_named_and_the_rest_is_kept(
        self, path: Path, array: AnyArray, chunks: Any, tmp_path: Path
    ) -> None:
        bp.save(path, array, chunks=chunks, codec="auto")
        with bp.open(path) as a:
            region = a.chunk_region(1)
            place = a.container.fetch(1)
        data = bytearray(path.read_bytes())
        data[place.offset + len(place.data) // 2] ^= 1
        path.write_bytes(data)
        with pytest.raises(ChecksumMismatch, match="chunk 1"):
            bp.load(path)
        report = bp.verify(path)
        assert [damage.index for damage in report.damage] == [1]
        bp.recover(path, tmp_path / "b.blp")
        expected = array.copy()
        expected[region] = 0
        assert_same(bp.load(tmp_path / "b.blp"), expected)

    def test_recovery_without_the_table(
        self, path: Path, array: AnyArray, chunks: Any, tmp_path: Path
    ) -> None:
        bp.save(path, array, chunks=chunks, codec="auto", checksum="xxh3_64")
        with bp.open(path) as a:
            first = a.container.fetch(0).offset
            ntable = 8 * (a.nchunks + a.header.max_app_chunks)
        data = bytearray(path.read_bytes())
        data[first - ntable : first] = bytes(ntable)
        path.write_bytes(data)
        bp.recover(path, tmp_path / "b.blp")
        assert_same(bp.load(tmp_path / "b.blp"), array)


def stored(path: Path) -> list[bytes]:
    """Return the chunks of a file, as stored."""
    with bp.open(path) as a:
        container = a.container
        return [bytes(container.fetch(index).data) for index in range(container.nchunks)]


def test_handles_see_their_state_while_a_chunk_grows(path: Path, array: AnyArray) -> None:
    bp.save(path, array[:20], chunks=30, codec="auto")
    with bp.open(path) as before, bp.open(path, "a") as a:
        a.append(array[20:40])
        a.flush()
        assert_same(before[...], array[:20])
        assert_same(a[...], array[:40])
    assert kinds(path) == ["array", "array"]


def test_only_blocks_are_read_once_a_chunk_was_checked(path: Path) -> None:
    array = smooth((512, 1024))
    bp.save(path, array, chunks=512, codec="auto")
    with bp.open(path) as a:
        source = a.container.source
        assert_same(a[5], array[5])
        sizes = []
        read_at = source.read_at

        def noted(offset: int, nbytes: int) -> Any:
            sizes.append(nbytes)
            return read_at(offset, nbytes)

        source.read_at = noted  # type: ignore[method-assign]
        assert_same(a[400, 3:9], array[400, 3:9])
    assert sum(sizes) < path.stat().st_size / 8


def test_a_file_of_mixed_chunks(path: Path, array: AnyArray) -> None:
    array[30:60] = np.random.default_rng(3).integers(-(2**15), 2**15, (30, 40, 50))
    bp.save(path, array, chunks=30, codec="auto")
    assert kinds(path) == ["array", "zstd", "array", "array"]
    assert_same(bp.load(path), array)
    assert_same(bp.open(path)[29:61, ::3], array[29:61, ::3])


def test_header_of_a_later_revision(path: Path, array: AnyArray) -> None:
    bp.save(path, array, chunks=30, codec="auto", checksum="None")
    with bp.open(path) as a:
        at = a.container.fetch(0).offset
    data = bytearray(path.read_bytes())
    data[at + 1] = 2
    with pytest.raises(UnsupportedError, match=r"revision 2"):
        bp.load(bytes(data))


def test_header_of_array_chunks_is_that_of_any_chunk(path: Path, array: AnyArray) -> None:
    bp.save(path, array, chunks=30, codec="auto")
    header = ChunkHeader.unpack(stored(path)[0])
    assert (header.is_array, header.is_split, header.is_memcpy) == (True, False, False)
    assert (header.typesize, header.nbytes) == (2, 30 * 40 * 50 * 2)
