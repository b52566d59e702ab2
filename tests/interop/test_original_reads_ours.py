"""bloscpack 0.16 reads files that we write by default; it refuses version 4 cleanly."""

import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.append import append_fp
from bloscpack.format.codec import CODECS
from bloscpack.original.api import pack_stream
from bloscpack.storage.sink import open_sink

Oracle = Any
Describe = Callable[[Any], tuple[str, list[int], str, bytes]]

CHECKSUMS = ("None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
SMOOTH = b"".join((n * n // 7).to_bytes(4, "little") for n in range(2500)) + b"end"
NOISE = random.Random(2).randbytes(5000)

UNPACK = "bp.unpack_bytes_from_bytes(data)"
UNPACK_ARRAY = "describe(bp.unpack_ndarray_from_bytes(data))"


def saved(array: Any, **options: Any) -> bytes:
    file = BytesIO()
    bp.save(file, array, **options)
    return file.getvalue()


class TestBytes:
    @pytest.mark.parametrize("checksum", CHECKSUMS)
    @pytest.mark.parametrize("offsets", [True, False])
    def test_checksums_and_offsets(self, oracle: Oracle, checksum: str, offsets: bool) -> None:
        for chunk_size in (1000, "1M"):
            args = bp.BloscpackArgs(offsets=offsets, checksum=checksum)
            packed = bp.pack_bytes_to_bytes(SMOOTH, chunk_size, {"a": 1}, bloscpack_args=args)
            assert oracle(UNPACK, data=packed) == (SMOOTH, {"a": 1})

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("shuffle", [0, 1, 2])
    def test_codecs_and_filters(self, oracle: Oracle, codec: str, shuffle: int) -> None:
        if codec not in oracle.greeting["codecs"]:
            pytest.skip(f"the C-Blosc of the oracle has no {codec}")
        for data, typesize in ((SMOOTH, 4), (NOISE, 8), (b"", 1)):
            args = bp.BloscArgs(typesize, 5, shuffle, codec)
            packed = bp.pack_bytes_to_bytes(data, 4096, blosc_args=args)
            assert oracle(UNPACK, data=packed) == (data, None)

    @pytest.mark.parametrize(
        "metadata",
        [{}, [], {"b": [1, 2.5, None, True], "a": {"é": "\U0001f600"}}, "x", 0, 2.5, False, [[]]],
    )
    def test_metadata(self, oracle: Oracle, metadata: Any) -> None:
        packed = bp.pack_bytes_to_bytes(SMOOTH, metadata=metadata)
        assert oracle(UNPACK, data=packed) == (SMOOTH, metadata)

    def test_metadata_checksums(self, oracle: Oracle) -> None:
        for checksum in CHECKSUMS:
            for codec in ("None", "zlib"):
                args = bp.MetadataArgs(meta_checksum=checksum, meta_codec=codec)
                metadata = {"long": [0] * 100}
                packed = bp.pack_bytes_to_bytes(b"", metadata=metadata, metadata_args=args)
                assert oracle(UNPACK, data=packed) == (b"", metadata)

    def test_files(self, oracle: Oracle, tmp_path: Path) -> None:
        source, packed, out = (tmp_path / name for name in ("in", "packed", "out"))
        source.write_bytes(SMOOTH * 300)
        bp.pack_file_to_file(source, packed, metadata=[1])
        metadata = oracle("bp.unpack_file_from_file(packed, out)", packed=packed, out=out)
        assert metadata == [1]
        assert out.read_bytes() == SMOOTH * 300

    def test_a_stream_of_unknown_length(self, oracle: Oracle, tmp_path: Path) -> None:
        packed = tmp_path / "packed"
        with packed.open("wb") as file:
            from_pipe(SMOOTH, file, chunk_size=1000, metadata={"a": 1})
        assert oracle("bp.unpack_bytes_from_file(path)", path=packed) == (SMOOTH, {"a": 1})


def from_pipe(content: bytes, file: Any, **options: Any) -> None:
    """Pack an unseekable stream."""

    class Pipe(BytesIO):
        def seekable(self) -> bool:
            return False

    with open_sink(file) as sink:
        pack_stream(Pipe(content), sink, **options)


def every_class_of_array() -> dict[str, Any]:
    """Return arrays that 0.16 reads back unchanged, except for metadata that `save` adds."""
    ramp = np.arange(60)
    arrays: dict[str, Any] = {
        code: np.frombuffer(random.Random(3).randbytes(60 * np.dtype(code).itemsize), code)
        for code in (
            *("?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", ">i2", ">u8"),
            *("<f2", "<f4", "<f8", ">f4", "<c8", "<c16", ">c8", "S1", "S7", "V3", "V16"),
            *("<M8[ns]", ">M8[D]", "<m8[25us]", "M8"),
        )
    }
    arrays["?"] = ramp % 3 == 0
    arrays["longdouble"] = np.frombuffer(bytes(range(160)), np.longdouble)
    arrays["unicode"] = np.array(["ä", "\U0001f600bc", ""] * 20)
    arrays["struct"] = np.zeros(9, [("a", "<i4"), ("b", "<f8"), ("c", "S3")])
    arrays["nested"] = np.zeros(9, [("a", [("b", ">i4"), ("c", "<U3")]), ("d", "?")])
    arrays["sub-array"] = np.zeros(9, [("a", "<i4", (2, 3)), ("b", "<f8", (2,))])
    arrays["titles"] = np.zeros(9, [(("title", "a"), "<i4"), ("b", "<f8")])
    arrays["0-d"] = np.array(2.5)
    arrays["0-d struct"] = np.zeros((), [("a", "<i4")])
    arrays["empty"] = np.zeros(0)
    arrays["empty rows"] = np.zeros((0, 3), "<f4")
    arrays["no columns"] = np.zeros((3, 0), "<f4")
    arrays["fortran"] = np.asfortranarray(ramp.reshape(5, 12))
    arrays["fortran 3-d"] = np.asfortranarray(ramp.reshape(3, 4, 5))
    arrays["empty fortran"] = np.zeros((3, 0, 2), order="F")
    arrays["strided"] = ramp[::-7]
    arrays["moved axes"] = ramp.reshape(3, 4, 5).transpose(1, 0, 2)
    arrays["32 dimensions"] = np.arange(4).reshape((1,) * 30 + (2, 2))
    return arrays


ARRAYS = every_class_of_array()
ROWS = {name: array for name, array in ARRAYS.items() if array.ndim}


class TestArrays:
    @pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
    def test_packed(self, oracle: Oracle, describe: Describe, array: Any) -> None:
        packed = bp.pack_ndarray_to_bytes(array)
        assert oracle(UNPACK_ARRAY, data=packed) == describe(array)

    @pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
    def test_saved(self, oracle: Oracle, describe: Describe, array: Any) -> None:
        for options in ({}, {"attrs": {"unit": "m"}, "checksum": "sha256", "codec": "lz4"}):
            packed = saved(array, **options)
            assert oracle(UNPACK_ARRAY, data=packed) == describe(array)
            _, metadata = oracle(UNPACK, data=packed)
            assert metadata.get("attrs") == options.get("attrs")

    @pytest.mark.parametrize("array", ROWS.values(), ids=ROWS.keys())
    def test_saved_in_many_chunks(self, oracle: Oracle, describe: Describe, array: Any) -> None:
        packed = saved(array, chunks=2)
        assert oracle(UNPACK_ARRAY, data=packed) == describe(array)

    @pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "snappy"])
    @pytest.mark.parametrize("shuffle", ["auto", "none", "byte", "bit"])
    def test_codecs(self, oracle: Oracle, describe: Describe, codec: str, shuffle: str) -> None:
        array = np.arange(40000, dtype="<i4").reshape(200, 200)
        for clevel in (0, None, 9):
            packed = saved(array, codec=codec, shuffle=shuffle, clevel=clevel, chunks=30)
            assert oracle(UNPACK_ARRAY, data=packed) == describe(array)

    @pytest.mark.parametrize("checksum", [None, *CHECKSUMS])
    def test_checksums(self, oracle: Oracle, describe: Describe, checksum: str | None) -> None:
        array = np.arange(1000.0)
        packed = saved(array, checksum=checksum, chunks=300)
        assert oracle(UNPACK_ARRAY, data=packed) == describe(array)

    @pytest.mark.parametrize("dtype", ["<f4", ">f8", "<c8"])
    def test_rounded(self, oracle: Oracle, describe: Describe, dtype: str) -> None:
        array = np.random.default_rng(1).standard_normal(1000).astype(dtype)
        packed = saved(array, keepbits=6, chunks=300)
        assert oracle(UNPACK_ARRAY, data=packed) == describe(bp.load(packed))
        assert oracle(UNPACK, data=packed)[1]["keepbits"] == 6

    def test_several_megabytes_and_a_file(
        self, oracle: Oracle, describe: Describe, tmp_path: Path
    ) -> None:
        array = np.arange(1 << 19, dtype="<f8").reshape(-1, 128)
        path = tmp_path / "array.blp"
        bp.save(path, array, attrs={"a": [1, {"b": None}]})
        assert oracle("describe(bp.unpack_ndarray_from_file(path))", path=path) == describe(array)

    @pytest.mark.parametrize("itemsize", [3, 5, 6, 12, 24, 255])
    def test_itemsizes_that_do_not_divide_the_default_chunk(
        self, oracle: Oracle, describe: Describe, itemsize: int
    ) -> None:
        # 0.16 refuses to pack these above 1 MiB, but reads them.
        array = np.frombuffer(NOISE * 300, f"V{itemsize}", 1500000 // itemsize)
        for packed in (bp.pack_ndarray_to_bytes(array), saved(array)):
            assert oracle(UNPACK_ARRAY, data=packed) == describe(array)

    @pytest.mark.parametrize("dtype", ["<U64", "S1000", "V300"])
    def test_itemsizes_over_255(self, oracle: Oracle, describe: Describe, dtype: str) -> None:
        array = np.frombuffer(NOISE * 12, np.dtype(dtype).str.replace("U", "V"), 10)
        if dtype == "<U64":
            array = np.array(["\U0001f600" * n for n in range(10)], dtype)
        for packed in (bp.pack_ndarray_to_bytes(array), saved(array, chunks=3)):
            assert oracle(UNPACK_ARRAY, data=packed) == describe(array)

    def test_itemsize_0(self, oracle: Oracle) -> None:
        array = np.zeros(3, "V0")
        for packed in (bp.pack_ndarray_to_bytes(array), saved(array)):
            assert oracle(UNPACK, data=packed)[0] == b""


class TestArraysThatTheOriginalCannotDescribe:
    """It reads raw items of the right size; the rest is in metadata that it ignores."""

    @pytest.mark.parametrize(
        "dtype",
        [
            {"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [0, 2], "itemsize": 8},
            {"names": ["a", "b"], "formats": ["<i4", "<i2"], "offsets": [4, 0], "itemsize": 8},
        ],
        ids=["overlapping", "out of order"],
    )
    @pytest.mark.parametrize("writer", [saved, bp.pack_ndarray_to_bytes])
    def test_fields(self, oracle: Oracle, dtype: Any, writer: Callable[[Any], bytes]) -> None:
        array = np.frombuffer(NOISE, np.dtype(dtype), 100).reshape(10, 10)
        packed = writer(array)
        found = oracle(UNPACK_ARRAY, data=packed)
        assert found == ("'|V8'", [10, 10], "C", array.tobytes())
        back = bp.unpack_ndarray_from_bytes(packed)
        assert back.dtype == array.dtype
        assert back.tobytes() == array.tobytes()

    def test_padded_fields(self, oracle: Oracle) -> None:
        dtype = np.dtype([("a", "i1"), ("b", "<i4"), ("c", "<i2")], align=True)
        array = np.frombuffer(NOISE, dtype, 100)
        text, shape, order, content = oracle(UNPACK_ARRAY, data=saved(array))
        # There the padding appears as fields, as in files it packs itself.
        assert text == "[('a', '|i1'), ('f1', '|V3'), ('b', '<i4'), ('c', '<i2'), ('f4', '|V2')]"
        assert (shape, order, content) == ([100], "C", array.tobytes())

    @pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "int4"])
    def test_types_of_ml_dtypes(self, oracle: Oracle, name: str) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        dtype = np.dtype(getattr(ml_dtypes, name))
        array = np.arange(60).reshape(6, 10).astype(dtype)
        for writer in (saved, bp.pack_ndarray_to_bytes):
            packed = writer(array)
            found = oracle(UNPACK_ARRAY, data=packed)
            assert found == (f"'|V{dtype.itemsize}'", [6, 10], "C", array.tobytes())
            assert bp.unpack_ndarray_from_bytes(packed).dtype == dtype


def append_all_ways(packed: bytes, pieces: list[bytes]) -> bytes:
    """Append with each of four settings in turn."""
    file = BytesIO(packed)
    settings: list[Any] = [
        None,
        bp.BloscArgs(typesize=4, clevel=9, shuffle=2, cname="zstd"),
        {"typesize": None, "clevel": None, "shuffle": None, "cname": None},
        {"typesize": 1, "clevel": 0, "shuffle": False, "cname": "lz4"},
    ]
    for index, piece in enumerate(pieces):
        append_fp(file, BytesIO(piece), len(piece), settings[index % len(settings)])
    return file.getvalue()


class TestAppendedTo:
    @pytest.mark.parametrize("checksum", CHECKSUMS)
    def test_settings(self, oracle: Oracle, checksum: str) -> None:
        args = bp.BloscpackArgs(checksum=checksum, max_app_chunks=200)
        packed = bp.pack_bytes_to_bytes(SMOOTH, 1000, {"a": 1}, bloscpack_args=args)
        pieces = [NOISE[:10], NOISE, b"", SMOOTH, b"x", NOISE[:997], NOISE[:3000], b"y" * 2000]
        assert oracle(UNPACK, data=append_all_ways(packed, pieces)) == (
            SMOOTH + b"".join(pieces),
            {"a": 1},
        )

    @pytest.mark.parametrize("nbytes", [999, 1000, 1001, 1999, 2000])
    @pytest.mark.parametrize("piece", [0, 1, 999, 1000, 1001, 2000, 3001])
    def test_boundaries(self, oracle: Oracle, nbytes: int, piece: int) -> None:
        args = bp.BloscpackArgs(max_app_chunks=20)
        content = NOISE[:nbytes]
        packed = bp.pack_bytes_to_bytes(content, 999, bloscpack_args=args)
        result = append_all_ways(packed, [SMOOTH[:piece], SMOOTH[:piece]])
        assert oracle(UNPACK, data=result) == (content + 2 * SMOOTH[:piece], None)

    def test_until_it_is_full(self, oracle: Oracle) -> None:
        args = bp.BloscpackArgs(max_app_chunks=3)
        packed = bp.pack_bytes_to_bytes(b"a" * 150, 100, bloscpack_args=args)
        result = append_all_ways(packed, [b"b" * 350])
        assert oracle(UNPACK, data=result) == (b"a" * 150 + b"b" * 350, None)
        with pytest.raises(bp.exceptions.NotEnoughSpace):
            append_all_ways(result, [b"c"])

    def test_a_chunk_that_shrinks(self, oracle: Oracle) -> None:
        # Noise, then recompressed with a better codec: extra bytes follow the last chunk.
        content = bytes(byte & 15 for byte in NOISE)
        store = bp.BloscArgs(clevel=0)
        packed = bp.pack_bytes_to_bytes(content, 8000, blosc_args=store)
        result = append_all_ways(packed, [b"", b"zz"])
        assert len(result) == len(packed)
        assert oracle(UNPACK, data=result) == (content + b"zz", None)

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("writer", [saved, bp.pack_ndarray_to_bytes])
    def test_arrays(
        self, oracle: Oracle, describe: Describe, writer: Callable[[Any], bytes], order: str
    ) -> None:
        rows = np.arange(600.0).reshape(20, 30)
        array = rows if order == "C" else rows.T
        more = np.arange(90.0).reshape(3, 30)
        whole = np.concatenate([rows, more, more])
        result = append_all_ways(writer(array), [more.tobytes(), more.tobytes()])
        expected = whole if order == "C" else whole.T
        assert oracle(UNPACK_ARRAY, data=result) == describe(expected)


class TestVersion4:
    @pytest.mark.parametrize("checksum", ["xxh3_64", "xxh3_128"])
    def test_it_is_refused_cleanly(self, oracle: Oracle, checksum: str) -> None:
        args = bp.BloscpackArgs(checksum=checksum)
        for packed in (
            saved(np.arange(10), checksum=checksum),
            bp.pack_bytes_to_bytes(SMOOTH, 1000, {"a": 1}, bloscpack_args=args),
            bp.pack_bytes_to_bytes(
                b"", bloscpack_args=bp.BloscpackArgs(offsets=False, checksum=checksum)
            ),
        ):
            assert packed[4] == 4
            for source in (
                UNPACK,
                UNPACK_ARRAY,
                "bp.append.append_fp(BytesIO(data), BytesIO(b'new'), 3)",
            ):
                kind, (kinds, _) = oracle.outcome(source, data=packed)
                assert (kind, kinds[0]) == ("error", "FormatVersionMismatch")

    def test_by_default_it_is_not_written(self) -> None:
        assert saved(np.arange(10))[4] == 3
        assert bp.pack_bytes_to_bytes(b"abc")[4] == 3
