"""Arrays in files as Zarr arrays: the same items, bit for bit, or the error of the file."""

import io
import json
import pickle
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import (
    ChecksumMismatch,
    FileChangedError,
    FormatError,
    LockedError,
    RemoteError,
    TruncatedError,
    UnsupportedError,
)

from ..arrayfiles import NotingFile, array_file, bytes_read_per_chunk, uneven_file
from ..conftest import SMALL_VECTORS, Vectors, server_fixture
from ..servers import FileServer
from .arrays import DTYPES, RECORDS, SHAPE, UNSUPPORTED, array_of, check_equal

zarr = pytest.importorskip("zarr")
orders = pytest.mark.parametrize("order", ["C", "F"])
RAMP = np.arange(40 * 6 * 50, dtype="<i4").reshape(40, 6, 50)


@pytest.fixture
def ramp(tmp_path: Path) -> Path:
    """Write an array of 40 rows in chunks of 7: five whole ones and one of 5 rows."""
    bp.save(tmp_path / "ramp.blp", RAMP, chunks=7, attrs={"unit": "m", "ñ": [1, None]})
    return tmp_path / "ramp.blp"


http = server_fixture(FileServer)


def in_order(array: Any, order: str) -> Any:
    return np.asfortranarray(array) if order == "F" else array


class TestSameItems:
    @orders
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype(self, tmp_path: Path, dtype: str, order: str) -> None:
        array = in_order(array_of(dtype), order)
        for rows in (4, array.shape[-1 if order == "F" else 0], 1):
            bp.save(tmp_path / "a.blp", array, chunks=rows)
            found = bp.as_zarr(tmp_path / "a.blp")
            check_equal(found, bp.load(tmp_path / "a.blp"))
            check_equal(found[1:, :, -2], array[1:, :, -2])
            expected = (SHAPE[0], SHAPE[1], rows) if order == "F" else (rows, *SHAPE[1:])
            assert found.chunks == tuple(map(min, expected, SHAPE))
            found.store.close()

    @orders
    @pytest.mark.parametrize("name", RECORDS)
    def test_records(self, tmp_path: Path, name: str, order: str) -> None:
        array = in_order(array_of(RECORDS[name]), order)
        bp.save(tmp_path / "a.blp", array, chunks=4)
        found = bp.as_zarr(tmp_path / "a.blp")
        check_equal(found, array)
        check_equal(found[5:9, 1], array[5:9, 1])

    @pytest.mark.parametrize("name", UNSUPPORTED)
    def test_dtypes_that_zarr_does_not_have(self, tmp_path: Path, name: str) -> None:
        bp.save(tmp_path / "a.blp", np.ndarray((3, 2), UNSUPPORTED[name]))
        with pytest.raises(UnsupportedError, match=r"a\.blp: Zarr has no dtype.*bloscpack\.load"):
            bp.as_zarr(tmp_path / "a.blp")

    def test_types_of_ml_dtypes(self, tmp_path: Path) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        bp.save(tmp_path / "a.blp", np.ones(3, ml_dtypes.bfloat16))
        with pytest.raises(UnsupportedError, match="bfloat16"):
            bp.as_zarr(tmp_path / "a.blp")

    @orders
    @pytest.mark.parametrize(
        "shape", [(), (1,), (0,), (0, 3), (3, 0, 2), (5,), (1, 1, 4, 1)], ids=str
    )
    def test_small_shapes(self, tmp_path: Path, shape: tuple[int, ...], order: str) -> None:
        # zarr makes a scalar of an array without dimensions; numpy scalars have native byte order.
        array = in_order(array_of(">f8" if shape else "<f8", shape), order)
        bp.save(tmp_path / "a.blp", array)
        found = bp.as_zarr(tmp_path / "a.blp")
        check_equal(found, array)
        check_equal(found[...], array)

    @orders
    @pytest.mark.parametrize("codec", ["zstd", "lz4", "lz4hc", "blosclz", "zlib"])
    @pytest.mark.parametrize("clevel", [0, 9])
    def test_every_codec(self, tmp_path: Path, codec: str, clevel: int, order: str) -> None:
        array = in_order(RAMP, order)
        bp.save(tmp_path / "a.blp", array, chunks=3, codec=codec, clevel=clevel, shuffle="bit")
        check_equal(bp.as_zarr(tmp_path / "a.blp"), array)

    @orders
    @pytest.mark.parametrize("nbytes", [70, 104, 600, 1240, 2399, 7000])
    def test_chunks_that_cut_rows(self, nbytes: int, order: str) -> None:
        """They are read in whole rows of about as many bytes; chunks may even cut items."""
        array = in_order(RAMP, order)
        data = array_file(array, chunk_nbytes=nbytes)
        with bp.open(data) as opened:
            aligned = opened.chunks
        found = bp.as_zarr(data)
        check_equal(found, array)
        check_equal(found[3:5, 2:, 7:30:4], array[3:5, 2:, 7:30:4])
        chunk_nbytes = int(np.prod(found.chunks)) * 4
        assert found.chunks == aligned or nbytes / 2 < chunk_nbytes <= nbytes

    def test_rows_of_several_chunks(self) -> None:
        """Chunks divide rows, and are chunks of the Zarr array along the second axis."""
        data = array_file(RAMP, chunk_nbytes=3 * 50 * 4)
        found = bp.as_zarr(data)
        assert found.chunks == (1, 3, 50)
        check_equal(found, RAMP)

    def test_a_last_chunk_that_is_larger(self) -> None:
        content = RAMP.tobytes()[:10_000]
        found = bp.as_zarr(uneven_file(content, [2000, 2000, 6000]))
        assert found.chunks == (2000,)
        check_equal(found, np.frombuffer(content, "u1"))

    def test_attrs_that_are_nested_too_deep(
        self, ramp: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Zarr recurses deeper into the attrs than our check of them."""

        def open_array(**_: Any) -> None:
            raise RecursionError

        monkeypatch.setattr(zarr, "open_array", open_array)
        with pytest.raises(UnsupportedError, match=r"\.blp: attrs: nested too deep for Zarr"):
            bp.as_zarr(ramp)

    def test_keys_are_few(self) -> None:
        """Chunks that cut rows, and chunks of unknown size, do not multiply the keys."""
        data = bytearray(array_file(RAMP, chunk_nbytes=1241, offsets=False))
        struct.pack_into("<i", data, 8, -1)
        found = bp.as_zarr(bytes(data))
        check_equal(found, RAMP)
        assert found.nchunks == 40

    def test_a_file_of_bytes(self, tmp_path: Path) -> None:
        bp.pack_bytes_to_file(bytes(range(250)), tmp_path / "a.blp", chunk_size=100)
        found = bp.as_zarr(tmp_path / "a.blp")
        assert (found.shape, found.chunks, found.dtype) == ((250,), (100,), np.dtype("u1"))
        assert bytes(found[:]) == bytes(range(250))

    @pytest.mark.parametrize("path", sorted(SMALL_VECTORS.glob("*.blp")), ids=lambda p: p.name)
    def test_files_of_the_original(self, path: Path) -> None:
        with bp.open(path) as array:
            expected = array.read()
        if path.name == "struct_titles.blp":
            with pytest.raises(UnsupportedError, match="titles"):
                bp.as_zarr(path)
        else:
            check_equal(bp.as_zarr(path), expected)

    def test_all_files_of_the_original(self, vectors: Vectors) -> None:
        """Every version, codec (also Snappy), checksum and dtype; with and without offsets."""
        nread = 0
        for entry in vectors.manifest["vectors"]:
            path = vectors.folder / entry["file"]
            if entry.get("optional") or entry["file_size"] > 100_000:
                continue
            with bp.open(path) as array:
                expected = array.read()
            try:
                found = bp.as_zarr(path)
            except UnsupportedError:
                assert expected.dtype.names, path.name
                continue
            check_equal(found, expected)
            found.store.close()
            nread += 1
        assert nread > 150


class TestView:
    def test_attributes(self, ramp: Path) -> None:
        found = bp.as_zarr(ramp)
        assert isinstance(found, zarr.Array)
        assert (found.shape, found.chunks, found.dtype) == (RAMP.shape, (7, 6, 50), RAMP.dtype)
        assert dict(found.attrs) == {"unit": "m", "ñ": [1, None]}
        assert found.read_only
        assert found.nbytes == RAMP.nbytes
        assert found.nbytes_stored() == ramp.stat().st_size
        assert "ramp.blp" in repr(found)

    def test_selections(self, ramp: Path) -> None:
        found = bp.as_zarr(ramp)
        assert np.array_equal(found[-1], RAMP[-1])
        assert np.array_equal(found[33:, ::2, 5], RAMP[33:, ::2, 5])
        assert np.array_equal(
            found.oindex[[39, 2], :, [1, 4]], RAMP[np.ix_([39, 2], range(6), [1, 4])]
        )
        assert np.array_equal(found.vindex[[39, 2], [5, 0], [1, 4]], RAMP[[39, 2], [5, 0], [1, 4]])
        assert np.array_equal(found.blocks[5], RAMP[35:])

    @orders
    def test_only_chunks_that_are_needed_are_read(self, order: str) -> None:
        noise = np.random.default_rng(2).integers(0, 256, (40, 1 << 14), "u1")
        array = noise.T.copy(order="F") if order == "F" else noise
        with io.BytesIO() as saved:
            bp.save(saved, array, chunks=3)
            stream = NotingFile(saved.getvalue())
        found = bp.as_zarr(stream)
        for rows, chunks in ((8, {2}), (slice(8, 13), {2, 3, 4}), (39, {13}), (slice(9, 9), set())):
            stream.reads.clear()
            selection = (slice(5, 7), rows) if order == "F" else (rows, slice(5, 7))
            assert np.array_equal(found[selection], array[selection])
            assert {chunk for chunk, n in bytes_read_per_chunk(stream).items() if n > 100} == chunks

    @orders
    def test_an_array_that_is_open_is_shared(self, tmp_path: Path, order: str) -> None:
        bp.save(tmp_path / "a.blp", in_order(RAMP, order), chunks=9)
        with bp.open(tmp_path / "a.blp") as array:
            found = bp.as_zarr(array)
            assert np.array_equal(found[:], RAMP)
        with pytest.raises(ValueError, match="closed"):
            found[0]

    def test_rows_that_come_later_are_not_seen(self, ramp: Path) -> None:
        with bp.open(ramp, "a") as array:
            found = bp.as_zarr(array)
            array.append(RAMP[:9])
            assert np.array_equal(found[:], RAMP)
            assert np.array_equal(bp.as_zarr(array)[40:], RAMP[:9])

    def test_appending_while_open(self, ramp: Path) -> None:
        found = bp.as_zarr(ramp)
        with bp.open(ramp, "a") as array:
            array.append(RAMP[:9])
        assert np.array_equal(found[:], RAMP)

    def test_closing(self, ramp: Path) -> None:
        found = bp.as_zarr(ramp)
        found.store.close()
        found.store.close()
        with pytest.raises(ValueError, match="closed"):
            found[0]

    def test_zarr_is_named_where_it_is_missing(
        self, ramp: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "zarr", None)
        monkeypatch.delitem(sys.modules, "bloscpack.integrations.zarr")
        monkeypatch.delitem(vars(bp), "as_zarr", raising=False)
        with pytest.raises(ImportError, match=r"bloscpack\[zarr\]"):
            bp.as_zarr(ramp)


class TestReadOnly:
    @pytest.mark.parametrize(
        "write",
        [
            lambda found: found.__setitem__(0, 1),
            lambda found: found.append(RAMP),
            lambda found: found.resize((3, 6, 50)),
            lambda found: found.attrs.put({"unit": "km"}),
            lambda found: zarr.open_array(found.store, mode="r+")[...].sum() and None,
            lambda found: zarr.create_array(found.store, shape=3, dtype="u1", overwrite=True),
            lambda found: found.store.with_read_only(False),
        ],
        ids=["items", "append", "resize", "attrs", "reopen", "overwrite", "store"],
    )
    def test_writes_are_refused(self, ramp: Path, write: Any) -> None:
        before = ramp.read_bytes()
        with pytest.raises((UnsupportedError, ValueError), match=r"read.only"):
            write(bp.as_zarr(ramp))
        assert ramp.read_bytes() == before


class TestDamage:
    def test_a_damaged_chunk(self, ramp: Path) -> None:
        data = bytearray(ramp.read_bytes())
        with bp.open(bytes(data)) as array:
            data[array.chunk_offset(2) + 40] ^= 1
        ramp.write_bytes(data)
        found = bp.as_zarr(ramp)
        for selection in (14, slice(0, 20), ..., (slice(None), 2, 3)):
            with pytest.raises(ChecksumMismatch, match=r"ramp\.blp: chunk 2 at offset"):
                found[selection]
        assert np.array_equal(found[21:], RAMP[21:])
        assert np.array_equal(found[:14], RAMP[:14])

    def test_a_file_that_is_cut(self, ramp: Path) -> None:
        with bp.open(ramp) as array:
            end = array.chunk_offset(4) + 20
        ramp.write_bytes(ramp.read_bytes()[:end])
        found = bp.as_zarr(ramp)
        assert np.array_equal(found[:28], RAMP[:28])
        for row in (28, 39):
            with pytest.raises(FormatError):
                found[row]

    def test_without_checks(self, ramp: Path) -> None:
        bp.save(ramp, RAMP, chunks=7, clevel=0, codec="lz4")
        data = bytearray(ramp.read_bytes())
        with bp.open(bytes(data)) as array:
            data[array.chunk_offset(0) + 16] ^= 1
        with pytest.raises(ChecksumMismatch):
            bp.as_zarr(bytes(data))[0]
        assert bp.as_zarr(bytes(data), verify=False)[0, 0, 0] == RAMP[0, 0, 0] ^ 1

    def test_other_files(self, tmp_path: Path) -> None:
        with pytest.raises(bp.exceptions.NotBloscpackError):
            bp.as_zarr(b"something else")
        with pytest.raises(FileNotFoundError):
            bp.as_zarr(tmp_path / "none.blp")
        with pytest.raises(TruncatedError):
            bp.as_zarr(b"blpk")

    def test_shapes_that_numpy_does_not_support(self) -> None:
        data = array_file(np.zeros((0, 3)), shape=[0, 2**62, 2**62])
        with pytest.raises(FormatError, match="shape"):
            bp.as_zarr(data)


class TestStore:
    """Zarr's requirements on a store."""

    @pytest.fixture
    def store(self, ramp: Path) -> Any:
        return bp.as_zarr(ramp).store

    def test_keys(self, store: Any) -> None:
        async def keys() -> dict[str, list[str]]:
            return {
                "list": [key async for key in store.list()],
                "2": [key async for key in store.list_prefix("2")],
                "top": [key async for key in store.list_dir("")],
                "below": [key async for key in store.list_dir("c")],
            }

        found = zarr.core.sync.sync(keys())
        chunks = [f"{index}.0.0" for index in range(6)]
        assert found["list"] == found["top"] == [".zarray", ".zattrs", *chunks]
        assert (found["2"], found["below"]) == (["2.0.0"], [])
        for key in found["list"]:
            assert zarr.core.sync.sync(store.exists(key))

    @pytest.mark.parametrize(
        "key",
        [
            "6.0.0",
            "0.1.0",
            "0.0",
            "0.0.0.0",
            "-1.0.0",
            "",
            "a",
            "zarr.json",
            "0/0/0",
            "1e0.0.0",
            "²" + ".0.0",
            "٣.0.0",
            "9" * 5000 + ".0.0",
            " 0.0.0",
            "0_0.0.0",
        ],
        ids=lambda k: ascii(k[:9]),
    )
    def test_no_keys(self, store: Any, key: str) -> None:
        assert not zarr.core.sync.sync(store.exists(key))
        assert value_of(store, key) is None
        with pytest.raises(FileNotFoundError):
            zarr.core.sync.sync(store.getsize(key))

    def test_values(self, store: Any) -> None:
        from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest

        whole = RAMP[7:14].tobytes()
        assert value_of(store, "1.0.0") == whole
        assert value_of(store, "1.0.0", RangeByteRequest(5, 90)) == whole[5:90]
        assert value_of(store, "1.0.0", OffsetByteRequest(77)) == whole[77:]
        assert value_of(store, "1.0.0", SuffixByteRequest(10)) == whole[-10:]
        assert value_of(store, "1.0.0", SuffixByteRequest(len(whole) + 5)) == whole
        assert value_of(store, "5.0.0") == RAMP[35:].tobytes() + bytes(2 * RAMP[0].nbytes)
        assert zarr.core.sync.sync(store.getsize("5.0.0")) == len(whole)

    def test_equality(self, store: Any, ramp: Path, tmp_path: Path) -> None:
        assert store == bp.as_zarr(ramp).store == pickle.loads(pickle.dumps(store))
        bp.save(tmp_path / "b.blp", RAMP)
        assert store != bp.as_zarr(tmp_path / "b.blp").store
        assert store != 3
        data = ramp.read_bytes()
        assert bp.as_zarr(data).store == bp.as_zarr(data).store
        stream = bp.as_zarr(NotingFile(data)).store
        assert stream == stream
        assert stream != store


def value_of(store: Any, key: str, part: Any = None) -> bytes | None:
    prototype = zarr.core.buffer.default_buffer_prototype()
    found = zarr.core.sync.sync(store.get(key, prototype, part))
    parts = zarr.core.sync.sync(store.get_partial_values(prototype, [(key, part)]))
    values = [None if each is None else each.to_bytes() for each in (found, *parts)]
    assert values[0] == values[1]
    return values[0]


class TestThreadsAndProcesses:
    def test_threads(self, ramp: Path) -> None:
        found = bp.as_zarr(ramp)
        with ThreadPoolExecutor(8) as pool:
            rows = list(pool.map(lambda row: found[row % 40], range(200)))
        assert all(np.array_equal(row, RAMP[number % 40]) for number, row in enumerate(rows))

    def test_pickled_handles_are_small(self, ramp: Path) -> None:
        found = bp.as_zarr(ramp)
        data = pickle.dumps(found)
        assert len(data) < 2000
        again = pickle.loads(data)
        assert np.array_equal(again[:], RAMP)
        assert again.store == found.store

    def test_a_handle_of_another_file(self, ramp: Path) -> None:
        data = pickle.dumps(bp.as_zarr(ramp))
        bp.save(ramp, RAMP + 1, chunks=7)
        with pytest.raises(FileChangedError):
            pickle.loads(data)

    @pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
    def test_dask(self, ramp: Path, scheduler: str) -> None:
        da = pytest.importorskip("dask.array")
        lazy = da.from_zarr(bp.as_zarr(ramp))
        assert lazy.chunks == ((7, 7, 7, 7, 7, 5), (6,), (50,))
        total = (lazy[3:].astype("i8") * 2).sum()
        options = {"num_workers": 2} if scheduler == "processes" else {}
        assert int(total.compute(scheduler=scheduler, **options)) == 2 * int(RAMP[3:].sum())

    def test_names_of_dask(self, ramp: Path, tmp_path: Path) -> None:
        tokenize = pytest.importorskip("dask.base").tokenize
        bp.save(tmp_path / "b.blp", RAMP + 1, chunks=7)
        first, again, other = (bp.as_zarr(path) for path in (ramp, ramp, tmp_path / "b.blp"))
        assert tokenize(first) == tokenize(again) != tokenize(other)


class TestUrls:
    @pytest.fixture
    def large(self, http: FileServer, tmp_path: Path) -> np.ndarray[Any, Any]:
        """Hardly compressible rows in 20 chunks of 256 KB, most of them beyond the first read."""
        array = np.random.default_rng(5).integers(0, 256, (40, 1 << 17), "u1")
        bp.save(tmp_path / "a.blp", array, chunks=2, codec="lz4")
        http.files["/a.blp"] = (tmp_path / "a.blp").read_bytes()
        http.clear()
        return array

    def test_requests(self, http: FileServer, large: np.ndarray[Any, Any]) -> None:
        found = bp.as_zarr(http.url("a.blp"))
        assert len(http.log) == 1
        assert np.array_equal(found[9], large[9])
        assert len(http.log) == 2
        assert np.array_equal(found[30:36], large[30:36])
        assert len(http.log) == 5
        http.clear()
        assert np.array_equal(bp.as_zarr(http.url("a.blp"))[:], large)
        assert len(http.log) == 21
        assert http.nbytes < large.nbytes + 300_000

    def test_handles_are_pickled(self, http: FileServer, large: np.ndarray[Any, Any]) -> None:
        found = pickle.loads(pickle.dumps(bp.as_zarr(http.url("a.blp"))))
        assert np.array_equal(found[3:9], large[3:9])

    @pytest.mark.usefixtures("large", "retries_at_once")
    def test_failures(self, http: FileServer) -> None:
        """Every failure raises an error: a missing object must not be read as fill values."""

        found = bp.as_zarr(http.url("a.blp"))
        http.always = "500"
        with pytest.raises(RemoteError):
            found[30]
        http.always = ""
        data = http.files.pop("/a.blp")
        with pytest.raises(OSError, match=r"a\.blp"):
            found[31]
        http.files["/a.blp"] = data[:-1] + b"!"
        with pytest.raises(FileChangedError):
            found[32]

    def test_memory_urls(self, ramp: Path) -> None:
        fsspec = pytest.importorskip("fsspec")
        fsspec.filesystem("memory").pipe_file("/zarr/a.blp", ramp.read_bytes())
        assert np.array_equal(bp.as_zarr("memory://zarr/a.blp")[:], RAMP)


LAYOUTS: dict[str, dict[str, Any]] = {
    "rows": {"chunks": 7},
    "one chunk": {},
    "grid": {"chunks": (7, 4, 20)},
    "array chunks": {"chunks": 7, "codec": "auto"},
}


class TestChanges:
    @orders
    @pytest.mark.parametrize("name", LAYOUTS)
    def test_it_is_as_numpy(self, tmp_path: Path, name: str, order: str) -> None:
        path, now = tmp_path / "a.blp", in_order(RAMP.copy(), order)
        bp.save(path, now, **LAYOUTS[name])
        z = bp.as_zarr(path, "r+")
        assert (z.read_only, z.store.supports_writes) == (False, True)
        z[3] = now[3] = 5
        z[7:14] = now[7:14] = -RAMP[7:14]
        z[::3, 2, 10:40:7] = now[::3, 2, 10:40:7] = 1
        z.oindex[[0, 39], :, 3] = now[[0, 39], :, 3] = 8
        z.vindex[[1, 2], [3, 4], [5, 6]] = now[[1, 2], [3, 4], [5, 6]] = 9
        z[35:] = now[35:] = 0
        z.attrs["unit"] = "K"
        check_equal(z, now)
        check_equal(bp.load(path), in_order(RAMP, order))
        z.store.flush()
        check_equal(bp.load(path), now)
        axis = 2 if order == "F" else 0
        for length in (45, 3, 70):
            shape = [*now.shape]
            shape[axis] = length
            after = np.zeros(shape, now.dtype, order=order)
            kept = tuple(slice(min(a, b)) for a, b in zip(shape, now.shape, strict=True))
            after[kept] = now[kept]
            z.resize(shape)
            now = after
            check_equal(z, now)
        more = now[[1, 0]] if axis == 0 else now[..., [1, 0]]
        z.append(more, axis=axis)
        now = in_order(np.concatenate([now, more], axis), order)
        z.attrs.put({"a": [1, None, "\u00f1"]})
        check_equal(z, now)
        z.store.close()
        with bp.open(path) as found:
            check_equal(found, now)
            assert found.attrs == {"a": [1, None, "\u00f1"]}
        assert bp.verify(path).ok

    @orders
    @pytest.mark.parametrize("dtype", [*DTYPES, *RECORDS])
    def test_every_dtype(self, tmp_path: Path, dtype: str, order: str) -> None:
        array = in_order(array_of(RECORDS.get(dtype, dtype)), order)
        bp.save(tmp_path / "a.blp", array, chunks=4)
        with bp.as_zarr(tmp_path / "a.blp", "r+").store as store:
            z = bp.as_zarr(store._array, "r+")
            z[2:7, 1:] = array[2:7, 1:] = array[1:6, 1:].copy()
            z[-1] = array[-1] = array[0]
            z.attrs["a"] = 1
        check_equal(bp.load(tmp_path / "a.blp"), array)

    @pytest.mark.parametrize("shape", [(), (1,), (0, 3), (5,), (1, 1, 4, 1)], ids=str)
    def test_small_shapes(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        array = array_of("<f8", shape)
        bp.save(tmp_path / "a.blp", array)
        z = bp.as_zarr(tmp_path / "a.blp", "r+")
        z[...] = array[...] = array + 1
        z.store.close()
        check_equal(bp.load(tmp_path / "a.blp"), array)

    @pytest.mark.parametrize("nbytes", [600, 1240, 7000])
    def test_chunks_that_cut_rows(self, tmp_path: Path, nbytes: int) -> None:
        path, now = tmp_path / "a.blp", RAMP.copy()
        path.write_bytes(array_file(RAMP, chunk_nbytes=nbytes))
        z = bp.as_zarr(path, "r+")
        z[2:31, 1:3] = now[2:31, 1:3] = 0
        z[5:9] = now[5:9] = 3
        z.store.close()
        check_equal(bp.load(path), now)

    @pytest.mark.parametrize(
        "zero", [np.float64(-0.0), np.datetime64("NaT", "s"), np.datetime64(0, "s"), np.str_("")]
    )
    @pytest.mark.parametrize("is_default", [False, True])
    def test_chunks_of_fill_values(self, tmp_path: Path, zero: Any, is_default: bool) -> None:
        """Zarr deletes such chunks by default, and reads them as fill values."""
        array = np.full(10, zero)
        array = np.ones(10, "f8") if array.dtype.kind == "f" else np.full(10, 7).astype(array.dtype)
        array = np.full(10, "ab") if isinstance(zero, str) else array
        bp.save(tmp_path / "a.blp", array, chunks=4)
        z = bp.as_zarr(tmp_path / "a.blp", "r+")
        if is_default:
            z = zarr.open(z.store)
        z[:4] = array[:4] = zero
        check_equal(z, array)
        z.store.flush()
        check_equal(bp.load(tmp_path / "a.blp"), array)
        z[4:8] = array[4:8] = zero
        z[5] = array[5] = array[9]
        z.resize((7,))
        z.store.close()
        check_equal(bp.load(tmp_path / "a.blp"), array[:7])

    @pytest.mark.parametrize(
        "refused",
        [
            lambda z: zarr.create_array(z.store, name="b", shape=3, dtype="i4"),
            lambda z: zarr.create_array(z.store, shape=3, dtype="i4", overwrite=True),
            lambda z: zarr.create_array(
                z.store, shape=z.shape, dtype=z.dtype, chunks=z.chunks, zarr_format=3
            ),
            lambda z: zarr.open(z.store, mode="w", shape=3, dtype="i4"),
            lambda z: zarr.open_group(z.store, mode="w"),
            lambda z: zarr.core.sync.sync(z.store.clear()),
            lambda z: zarr.core.sync.sync(z.store.delete(".zattrs")),
            lambda z: _set_document(z, compressor={"id": "zlib", "level": 1}),
            lambda z: _set_document(z, dtype="<i8"),
            lambda z: _set_document(z, chunks=[1, 6, 50]),
            lambda z: _set_document(z, fill_value=1),
            lambda z: _set_document(z, order="F"),
        ],
    )
    def test_what_the_file_does_not_have_is_refused(self, ramp: Path, refused: Any) -> None:
        with bp.as_zarr(ramp, "r+").store as store:
            z = bp.as_zarr(store._array, "r+")
            z[3] = 1
            with pytest.raises((UnsupportedError, ValueError), match=r"cannot|exists"):
                refused(z)
        now = RAMP.copy()
        now[3] = 1
        check_equal(bp.load(ramp), now)

    def test_a_shape_that_the_chunks_do_not_allow(self, tmp_path: Path) -> None:
        """Zarr deletes chunks before it sets the shape."""
        path = tmp_path / "a.blp"
        path.write_bytes(array_file(RAMP, chunk_nbytes=3 * 50 * 4))
        z = bp.as_zarr(path, "r+")
        z[0] = 1
        z.store.flush()
        z[1] = 1
        with pytest.raises(ValueError, match="only the first axis can change"):
            z.resize((40, 3, 50))
        with pytest.raises(ValueError, match="has failed before"):
            z[2] = 1
        z.store.close()
        now = RAMP.copy()
        now[0] = 1
        check_equal(bp.load(path), now)

    def test_a_store_that_only_reads_sees_chunks_that_are_back(self, tmp_path: Path) -> None:
        array = np.arange(1, 61, dtype="i4").reshape(20, 3)
        bp.save(tmp_path / "a.blp", array, chunks=5)
        changed = bp.as_zarr(tmp_path / "a.blp", "r+")
        view = zarr.open_array(changed.store, mode="r", zarr_format=2)
        changed.resize((10, 3))
        changed.append(np.full((10, 3), 7, "i4"))
        changed.store.flush()
        assert view[12].tolist() == [7, 7, 7]
        changed.store.close()

    def test_an_exception_in_a_block_undoes(self, ramp: Path) -> None:
        with pytest.raises(KeyError), bp.as_zarr(ramp, "r+").store as store:  # noqa: PT012
            zarr.open(store)[3] = 1
            zarr.open(store)[:7] = 0
            raise KeyError
        check_equal(bp.load(ramp), RAMP)

    def test_readers_keep_the_state_that_they_opened(self, ramp: Path) -> None:
        before, z, now = bp.as_zarr(ramp), bp.as_zarr(ramp, "r+"), RAMP.copy()
        z[:] = now[:] = 2
        z.resize((44, 6, 50))
        view = zarr.open(z.store, mode="r")
        assert (view.read_only, view.shape) == (True, z.shape)
        check_equal(view[:40], now)
        with pytest.raises((UnsupportedError, ValueError), match="read-only"):
            view[0] = 1
        z.store.close()
        with pytest.raises(FileChangedError):  # it was copied to a new file
            pickle.loads(pickle.dumps(before))
        check_equal(before, RAMP)

    def test_threads(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", np.zeros((64, 100)), chunks=(4, 50))
        z, now = bp.as_zarr(tmp_path / "a.blp", "r+"), np.zeros((64, 100))

        def change(row: int) -> None:
            z[row : row + 4, ::3] = now[row : row + 4, ::3] = row + 1
            assert (z[row : row + 4, ::3] == row + 1).all()
            if row % 16 == 0:
                z.store.flush()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(change, range(0, 64, 4)))
        z.store.close()
        check_equal(bp.load(tmp_path / "a.blp"), now)

    def test_who_may_change(self, ramp: Path) -> None:
        z = bp.as_zarr(ramp, "r+")
        with pytest.raises(LockedError):
            bp.as_zarr(ramp, "r+")
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(z)
        z.store.close()
        with bp.open(ramp) as array, pytest.raises(ValueError, match="mode 'r', not 'r\\+'"):
            bp.as_zarr(array, "r+")
        with pytest.raises(ValueError, match="'r' or 'r\\+', not 'a'"):
            bp.as_zarr(ramp, "a")
        with pytest.raises(UnsupportedError, match="behind a URL cannot be changed"):
            bp.as_zarr("http://127.0.0.1:1/a.blp", "r+")
        with bp.open(ramp, "r+") as array:
            shared = bp.as_zarr(array, "r+")
            shared[0, 0] = 7
            assert (array[0, 0] == 7).all()
            assert bp.as_zarr(array).read_only
            array[0, 1] = 8
            assert (shared[0, 1] == 8).all()
        assert (bp.load(ramp)[0, :2] == np.array([[7], [8]])).all()


def _set_document(z: Any, **changes: Any) -> None:
    document = json.loads(bytes(z.store._value(".zarray"))) | changes
    value = zarr.core.buffer.default_buffer_prototype().buffer.from_bytes(
        json.dumps(document).encode()
    )
    zarr.core.sync.sync(z.store.set(".zarray", value))
