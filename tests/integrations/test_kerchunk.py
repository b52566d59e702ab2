"""References to the chunks of a file: other readers read the same array."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.array.arraymetadata import array_metadata
from bloscpack.exceptions import ChecksumMismatch, FormatError, UnsupportedError
from bloscpack.format.codec import ChunkHeader, CodecParams, Shuffle, encode
from bloscpack.format.metadata import pack_section
from bloscpack.storage.remote.source import HEAD_NBYTES

from ..arrayfiles import array_file, uneven_file
from ..conftest import Vectors, Warned, server_fixture
from ..reference.file import assemble
from ..servers import FileServer
from .arrays import DTYPES, RECORDS, UNSUPPORTED, array_of, check_equal

zarr = pytest.importorskip("zarr")
orders = pytest.mark.parametrize("order", ["C", "F"])
either_way = pytest.mark.parametrize("verify", [True, False])
RAMP = np.arange(40 * 6 * 50, dtype="<i4").reshape(40, 6, 50)


def in_order(array: Any, order: str) -> Any:
    return np.asfortranarray(array) if order == "F" else array


def group_of(refs: dict[str, Any]) -> Any:
    """Return the group of Zarr that reads by references, through JSON."""
    refs_as_store = pytest.importorskip("kerchunk.utils").refs_as_store
    store = refs_as_store(json.loads(json.dumps(refs)), read_only=True)
    return zarr.open_group(store, mode="r", zarr_format=2)


def read(path: Any, **options: Any) -> Any:
    refs = bp.kerchunk_references(path, **options)
    found = group_of(refs)["data"]
    # zarr reads a chunk without a reference as fill values.
    count = np.prod([-(-n // k) for n, k in zip(found.shape, found.chunks, strict=True)])
    assert sum(key.startswith("data/") for key in refs["refs"]) == 2 + count
    return found


class TestSameItems:
    @orders
    @either_way
    @pytest.mark.parametrize("rows", [5, 8, 40, 1])
    def test_orders_and_last_chunks(
        self, tmp_path: Path, rows: int, order: str, verify: bool
    ) -> None:
        array = RAMP.T.copy(order="F") if order == "F" else RAMP
        for checksum in ("crc32", "sha512", "xxh3_64", None):
            bp.save(tmp_path / "a.blp", array, chunks=rows, checksum=checksum)
            check_equal(read(tmp_path / "a.blp", verify=verify), array)

    @orders
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype(self, tmp_path: Path, dtype: str, order: str) -> None:
        array = in_order(array_of(dtype), order)
        bp.save(tmp_path / "a.blp", array, chunks=4)
        check_equal(read(tmp_path / "a.blp"), array)

    @pytest.mark.parametrize("name", RECORDS)
    def test_records(self, tmp_path: Path, name: str) -> None:
        bp.save(tmp_path / "a.blp", array_of(RECORDS[name]), chunks=4)
        check_equal(read(tmp_path / "a.blp"), array_of(RECORDS[name]))

    @pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0, 2), (5,), (1, 1, 4, 1)], ids=str)
    def test_small_shapes(self, tmp_path: Path, shape: tuple[int, ...]) -> None:
        bp.save(tmp_path / "a.blp", array_of("<f8", shape))
        check_equal(read(tmp_path / "a.blp"), array_of("<f8", shape))

    @pytest.mark.parametrize("codec", ["zstd", "lz4", "lz4hc", "blosclz", "zlib"])
    @pytest.mark.parametrize(("clevel", "shuffle"), [(0, "byte"), (9, "bit"), (5, "none")])
    def test_every_codec(self, tmp_path: Path, codec: str, clevel: int, shuffle: str) -> None:
        bp.save(tmp_path / "a.blp", RAMP, chunks=7, codec=codec, clevel=clevel, shuffle=shuffle)
        check_equal(read(tmp_path / "a.blp"), RAMP)

    def test_rows_of_several_chunks(self) -> None:
        data = array_file(RAMP, chunk_nbytes=3 * 50 * 4)
        url = memory_url(data)
        check_equal(read(data, url=url), RAMP)

    def test_files_of_the_original(self, vectors: Vectors) -> None:
        nread = 0
        for entry in vectors.manifest["vectors"]:
            path = vectors.folder / entry["file"]
            if entry.get("optional") or entry["file_size"] > 50_000:
                continue
            with bp.open(path) as array:
                expected = array.read()
                chunks = array.chunks
            try:
                found = read(path, name="data")
            except UnsupportedError:
                refused = path.name.startswith("snappy") or expected.dtype.names
                assert refused or chunks is None, path.name
                continue
            assert np.asarray(found).tobytes() == expected.tobytes()
            nread += 1
        assert nread > 120


class TestReferences:
    def test_chunks_are_named_where_they_lie(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, RAMP, chunks=7)
        refs = bp.kerchunk_references(path)["refs"]
        data = path.read_bytes()
        with bp.open(path) as array:
            for index in range(5):
                where, offset, nbytes = refs[f"data/{index}.0.0"]
                assert (where, offset) == (os.fspath(path), array.chunk_offset(index))
                assert ChunkHeader.unpack(data, offset).cbytes == nbytes
        # Five rows, padded and stored in the references.
        assert refs["data/5.0.0"].startswith("base64:")

    def test_verified_or_not_references_are_equal(self, tmp_path: Path) -> None:
        for rows in (7, 8):
            bp.save(tmp_path / "a.blp", RAMP, chunks=rows)
            refs = [
                bp.kerchunk_references(tmp_path / "a.blp", verify=each) for each in (False, True)
            ]
            assert refs[0] == refs[1]

    def test_names(self, tmp_path: Path) -> None:
        attrs = {"dims": ["t", "y", "x"], "name": "field", "unit": "m"}
        bp.save(tmp_path / "a.blp", RAMP, chunks=7, attrs=attrs)
        refs = bp.kerchunk_references(tmp_path / "a.blp")["refs"]
        found = json.loads(refs["field/.zattrs"])
        assert found == {"unit": "m", "_ARRAY_DIMENSIONS": ["t", "y", "x"]}
        refs = bp.kerchunk_references(tmp_path / "a.blp", name="b", dims=list("uvw"))["refs"]
        assert json.loads(refs["b/.zattrs"])["_ARRAY_DIMENSIONS"] == ["u", "v", "w"]

    @pytest.mark.parametrize("name", ["", ".zattrs", "a/b", "../a"])
    def test_names_that_are_not_keys(self, tmp_path: Path, name: str) -> None:
        bp.save(tmp_path / "a.blp", RAMP, attrs={"name": name})
        with pytest.raises(UnsupportedError, match="name"):
            bp.kerchunk_references(tmp_path / "a.blp")
        bp.save(tmp_path / "a.blp", RAMP, attrs={"coords": {name: 3}})
        with pytest.raises(UnsupportedError, match="name"):
            bp.kerchunk_references(tmp_path / "a.blp")

    def test_progress(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", RAMP, chunks=7)
        calls: list[tuple[int, int]] = []
        bp.kerchunk_references(tmp_path / "a.blp", progress=lambda *call: calls.append(call))
        assert calls == [(done, 6) for done in range(1, 7)]

    def test_a_path_or_url_is_needed(self) -> None:
        with pytest.raises(TypeError, match="url"):
            bp.kerchunk_references(array_file(RAMP))


class TestRefused:
    @pytest.mark.parametrize("nbytes", [70, 104, 1240, 2399])
    def test_chunks_that_cut_rows(self, nbytes: int) -> None:
        data = array_file(RAMP, chunk_nbytes=nbytes)
        with pytest.raises(UnsupportedError, match=r"not whole rows.*bloscpack\.load"):
            bp.kerchunk_references(data, url="a.blp")

    def test_rows_cut_into_as_many_chunks_as_a_grid_has(self) -> None:
        """2 by 5 rows cut in threes make 4 chunks, as many as a grid, but not those of the grid."""
        array = np.arange(2 * 5 * 4, dtype="<i4").reshape(2, 5, 4)
        with pytest.raises(UnsupportedError, match="not whole rows"):
            bp.kerchunk_references(array_file(array, chunk_nbytes=3 * 16), url="a.blp")

    def test_a_last_chunk_that_is_larger(self) -> None:
        with pytest.raises(UnsupportedError, match="not whole rows"):
            bp.kerchunk_references(uneven_file(bytes(900), [100, 100, 700]), url="a.blp")

    def test_one_chunk_of_snappy_among_others(self) -> None:
        params = CodecParams("lz4", 5)
        chunks = [bytearray(encode(RAMP[row].tobytes(), params)) for row in range(40)]
        chunks[7][2] = chunks[7][2] & 0x1F | 2 << 5
        section = pack_section(array_metadata(RAMP.dtype, RAMP.shape, False), level=1)
        with pytest.raises(UnsupportedError, match="snappy"):
            bp.kerchunk_references(assemble(chunks, section=section), url="a.blp")

    def test_one_stored_chunk_of_snappy(self, tmp_path: Path) -> None:
        """A stored chunk needs no codec."""
        params = CodecParams("lz4", 0)
        chunks = [bytearray(encode(RAMP[row].tobytes(), params)) for row in range(40)]
        assert ChunkHeader.unpack(chunks[0]).is_memcpy
        for chunk in chunks:
            chunk[2] = chunk[2] & 0x1F | 2 << 5
        section = pack_section(array_metadata(RAMP.dtype, RAMP.shape, False), level=1)
        path = tmp_path / "a.blp"
        path.write_bytes(assemble(chunks, section=section))
        check_equal(read(path), RAMP)

    def test_a_short_last_chunk_with_an_item_size_of_0(self, tmp_path: Path) -> None:
        """The chunk headers give the item size; it does not matter without a filter."""
        parts = [RAMP[row : row + 7].tobytes() for row in range(0, 40, 7)]
        chunks = [bytearray(encode(part, CodecParams("lz4", 5, Shuffle.NONE))) for part in parts]
        for chunk in chunks:
            chunk[3] = 0
        section = pack_section(array_metadata(RAMP.dtype, RAMP.shape, False), level=1)
        path = tmp_path / "a.blp"
        path.write_bytes(assemble(chunks, section=section))
        with bp.open(path) as array:
            check_equal(array[:], RAMP)
        assert bp.kerchunk_references(path)["refs"]["data/5.0.0"].startswith("base64:")

    def test_one_chunk_more_than_the_header_counts(self) -> None:
        chunks = [encode(RAMP[row].tobytes(), CodecParams("lz4", 5)) for row in range(40)]
        section = pack_section(array_metadata(RAMP.dtype, (39, *RAMP.shape[1:]), False), level=1)
        data = bytearray(assemble(chunks, section=section, offsets=False))
        struct.pack_into("<q", data, 16, 39)
        with pytest.raises(FormatError, match="another chunk follows"):
            bp.kerchunk_references(bytes(data), url="a.blp")

    @pytest.mark.parametrize("name", UNSUPPORTED)
    def test_dtypes(self, tmp_path: Path, name: str) -> None:
        bp.save(tmp_path / "a.blp", np.ndarray((3, 2), UNSUPPORTED[name]))
        with pytest.raises(UnsupportedError, match=r"a\.blp: Zarr has no dtype"):
            bp.kerchunk_references(tmp_path / "a.blp")

    @either_way
    def test_snappy(self, vectors: Vectors, verify: bool) -> None:
        paths = sorted(vectors.folder.glob("snappy_*.blp"))
        assert paths
        for path in paths:
            with pytest.raises(UnsupportedError, match=r"snappy.*numcodecs"):
                bp.kerchunk_references(path, verify=verify)

    def test_damage(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        bp.save(path, RAMP, chunks=7)
        data = bytearray(path.read_bytes())
        with bp.open(path) as array:
            data[array.chunk_offset(3) + 50] ^= 1
        path.write_bytes(data)
        with pytest.raises(ChecksumMismatch, match=r"a\.blp: chunk 3"):
            bp.kerchunk_references(path)
        assert bp.kerchunk_references(path, verify=False)["version"] == 1

    def test_damage_of_the_table(self, tmp_path: Path) -> None:
        """Chunks are found without the table, or the table raises an error."""
        path = tmp_path / "a.blp"
        bp.save(path, RAMP, chunks=7)
        expected = bp.kerchunk_references(path)
        data = bytearray(path.read_bytes())
        with bp.open(path) as array:
            data[array.container.front.table_offset + 8 * 3] ^= 1
        path.write_bytes(data)
        assert bp.kerchunk_references(path) == expected
        with pytest.raises(FormatError, match="offset table"):
            bp.kerchunk_references(path, verify=False)

    @pytest.mark.parametrize("first", [1, 5])
    def test_a_table_that_leads_elsewhere(self, tmp_path: Path, first: int) -> None:
        """The table ascends to an offset beyond the end of the file."""
        path = tmp_path / "a.blp"
        bp.save(path, RAMP, chunks=7)
        data = bytearray(path.read_bytes())
        with bp.open(path) as array:
            place = array.container.front.table_offset
        del data[-200:]  # with the trailer, the table would be checked against it
        for entry in range(first, 6):
            at = place + 8 * entry
            struct.pack_into("<q", data, at, struct.unpack_from("<q", data, at)[0] + 10**12)
        path.write_bytes(data)
        with pytest.raises(FormatError, match="offset table"):
            bp.kerchunk_references(path, verify=False)

    def test_a_table_whose_chunks_have_no_room(self, tmp_path: Path) -> None:
        """The entries ascend by one byte, without a trailer to check them against."""
        path = tmp_path / "a.blp"
        bp.pack_ndarray_to_file(RAMP, str(path), chunk_size=7 * RAMP[0].nbytes)
        with bp.open(path) as array:
            place, (first, *_) = (
                array.container.front.table_offset,
                array.container.stored.offsets(),
            )
        data = bytearray(path.read_bytes())
        struct.pack_into("<2q", data, place + 8, first + 1, first + 2)
        path.write_bytes(data)
        with pytest.raises(FormatError, match="offset table"):
            bp.kerchunk_references(path, verify=False)


class TestUrls:
    @either_way
    def test_requests(self, http: FileServer, tmp_path: Path, verify: bool) -> None:
        """Without verification: the front, the first and the last chunk."""
        array = np.random.default_rng(5).integers(0, 256, (40, 1 << 17), "u1")
        bp.save(tmp_path / "a.blp", array, chunks=2, codec="lz4")
        http.files["/a.blp"] = (tmp_path / "a.blp").read_bytes()
        http.clear()
        refs = bp.kerchunk_references(http.url("a.blp"), verify=verify)
        first = refs["refs"]["data/0.0"]
        assert first[0] == http.url("a.blp")
        if not verify:
            assert len(http.log) == 3
            assert http.nbytes < HEAD_NBYTES + 3 * (1 << 18)
        else:
            assert http.nbytes > array.nbytes
            assert len(http.log) < 8

    def test_reading_by_http(self, http: FileServer, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", RAMP, chunks=7)
        http.files["/a.blp"] = (tmp_path / "a.blp").read_bytes()
        check_equal(read(http.url("a.blp")), RAMP)

    def test_reading_elsewhere(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a.blp", RAMP, chunks=7)
        url = memory_url((tmp_path / "a.blp").read_bytes())
        check_equal(read(tmp_path / "a.blp", url=url), RAMP)
        check_equal(read(url), RAMP)

    @either_way
    @pytest.mark.parametrize(
        "options", [{"chunks": 7}, {"chunks": (8, 3, 25)}, {"chunks": 7, "codec": "auto"}]
    )
    def test_a_log(self, tmp_path: Path, warned: Warned, options: Any, verify: bool) -> None:
        path, now = tmp_path / "a.blp", RAMP.copy()
        bp.save(path, now, **options)
        for row in (3, 30, 12):
            with bp.open(path, "r+") as a:
                a[row] = now[row] = row
        check_equal(read(path, verify=verify), now)
        assert warned.texts == [f"{path}: the next change makes these references wrong"]
        bp.compact(path)
        check_equal(read(path, verify=verify), now)
        assert len(warned.texts) == 1

    @either_way
    def test_an_array_of_an_archive(self, tmp_path: Path, warned: Warned, verify: bool) -> None:
        path, now = tmp_path / "a.blp", RAMP.copy()
        bp.savez(path, first=RAMP, second=RAMP * 2, chunks=7)
        check_equal(read(f"{path}::/second", verify=verify), RAMP * 2)
        with bp.open(path, "r+") as z:
            z["first"][:20] = now[:20] = 0
            z["second"][3] = 1
        check_equal(read(f"{path}::/first", verify=verify), now)
        assert len(warned.texts) == 1

    @either_way
    def test_a_small_array_that_is_compressed_with_others(
        self, tmp_path: Path, warned: Warned, verify: bool
    ) -> None:
        """Its chunks are in the references, as no bytes of the file are equal to them."""
        small = np.arange(70, dtype="<i2").reshape(35, 2)
        bp.savez(tmp_path / "a.blp", {f"m{n}": small + n for n in range(20)}, chunks=7)
        name = f"{tmp_path}/a.blp::/m5"
        assert bp.open(name).container.source.origin is None
        check_equal(read(name, verify=verify), small + 5)
        refs = bp.kerchunk_references(name, verify=verify)["refs"]
        assert all(isinstance(each, str) for each in refs.values())


http = server_fixture(FileServer)


def memory_url(data: bytes) -> str:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").pipe_file("/kerchunk/a.blp", data)
    return "memory://kerchunk/a.blp"
