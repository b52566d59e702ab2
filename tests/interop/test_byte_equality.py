"""For the same arguments our pack functions write the same bytes as 0.16.

Header, metadata and offsets are canonical; so are chunks, as both use C-Blosc 1.21.
"""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Same = Callable[..., Any]

CODECS = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
NAMES = ("None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512")
CHECKSUMS = (None, *NAMES)
SMOOTH = b"".join((n * n // 7).to_bytes(4, "little") for n in range(2500)) + b"end"
NOISE = random.Random(1).randbytes(5000)

# Arguments are passed as the text of calls and evaluated on either side: callables do not pickle.
PACK = """
bp.pack_bytes_to_bytes(
    data,
    chunk_size=chunk_size,
    metadata=metadata,
    blosc_args=eval(blosc_args),
    bloscpack_args=eval(bloscpack_args),
    metadata_args=eval(metadata_args),
)
"""
DEFAULTS = {
    "data": SMOOTH,
    "chunk_size": "1M",
    "metadata": None,
    "blosc_args": "None",
    "bloscpack_args": "None",
    "metadata_args": "None",
}


def pack(same: Same, **values: Any) -> Any:
    return same(PACK, **{**DEFAULTS, **values})


class TestBytes:
    def test_defaults(self, same: Same) -> None:
        packed = same("bp.pack_bytes_to_bytes(data)", data=SMOOTH)
        assert packed == pack(same)
        assert packed.startswith(b"blpk\3")

    @pytest.mark.parametrize("nbytes", [0, 1, 2, 15, 16, 127, 128, 4095, 4096, 4097, 8192, 10003])
    @pytest.mark.parametrize("chunk_size", [1000, 4096, "4K", "1.5K", "1024B", 2**31 - 17, "1G"])
    def test_sizes(self, same: Same, nbytes: int, chunk_size: int | str) -> None:
        pack(same, data=SMOOTH[:nbytes], chunk_size=chunk_size)
        pack(same, data=NOISE[:nbytes], chunk_size=chunk_size)

    @pytest.mark.parametrize("chunk_size", [1, 2, 7, "1B"])
    def test_tiny_chunks(self, same: Same, chunk_size: int | str) -> None:
        pack(same, data=SMOOTH[:100], chunk_size=chunk_size)

    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("shuffle", [False, True, 0, 1, 2])
    def test_codecs_and_filters(self, same: Same, codec: str, shuffle: int) -> None:
        for clevel, typesize in itertools.product((0, 1, 3, 5, 7, 9), (1, 2, 4, 8)):
            args = f"bp.BloscArgs({typesize}, {clevel}, {shuffle}, {codec!r})"
            pack(same, blosc_args=args, chunk_size=4096)

    @pytest.mark.parametrize("typesize", [1, 2, 3, 5, 6, 7, 8, 12, 16, 24, 32, 100, 254, 255])
    def test_typesizes(self, same: Same, typesize: int) -> None:
        for data in (SMOOTH, NOISE):
            pack(same, data=data, blosc_args=f"bp.BloscArgs(typesize={typesize})")

    @pytest.mark.parametrize("checksum", CHECKSUMS)
    @pytest.mark.parametrize("offsets", [True, False])
    def test_checksums_and_offsets(self, same: Same, checksum: str | None, offsets: bool) -> None:
        for chunk_size, metadata in itertools.product((3000, "1M"), (None, {"a": 1})):
            pack(
                same,
                chunk_size=chunk_size,
                metadata=metadata,
                bloscpack_args=f"bp.BloscpackArgs({offsets}, {checksum!r})",
            )

    @pytest.mark.parametrize("spare", ["0", "1", "1000", "lambda n: 0", "lambda n: n * n", "True"])
    @pytest.mark.parametrize("offsets", [True, False])
    def test_spare_offsets(self, same: Same, spare: str, offsets: bool) -> None:
        args = f"bp.BloscpackArgs(offsets={offsets}, max_app_chunks={spare})"
        pack(same, chunk_size=700, bloscpack_args=args)

    @pytest.mark.parametrize("spare", ["None", "-1", "'many'", "3.5", "lambda n: -n"])
    def test_spare_offsets_do_not_matter_without_a_table(self, same: Same, spare: str) -> None:
        pack(same, bloscpack_args=f"bp.BloscpackArgs(offsets=False, max_app_chunks={spare})")

    def test_content_that_takes_several_threads(self, same: Same) -> None:
        # 9 chunks of the default size, packed on all available threads.
        data = SMOOTH * 900
        assert len(pack(same, data=data, blosc_args="bp.BloscArgs(cname='lz4')")) < len(data)

    @pytest.mark.parametrize("kind", ["bytes", "bytearray", "memoryview"])
    def test_buffers(self, same: Same, kind: str) -> None:
        same(f"bp.pack_bytes_to_bytes({kind}(data), 999)", data=SMOOTH)

    def test_positional_arguments(self, same: Same) -> None:
        same(
            "bp.pack_bytes_to_bytes(data, 3000, {'k': [1]}, bp.BloscArgs(4, 9, 2, 'zstd'),"
            " bp.BloscpackArgs(True, 'sha1', 3), bp.MetadataArgs(b'JSON', 'md5', 'None', 0, 100))",
            data=SMOOTH,
        )


METADATA = {
    "empty object": {},
    "empty list": [],
    "object": {"b": 1, "a": {"z": [1, 2.5, None, True, "x"]}},
    "list": [1, "two", None],
    "integer": 0,
    "large integer": 2**80,
    "float": 1e-7,
    "nan": [float("nan"), float("inf"), -float("inf")],
    "text": "text",
    "empty text": "",
    "unicode": {"ключ": "värde \U0001f600 \u2028 \x00"},
    "false": False,
    "tuple": (1, (2,)),
    "keys": {7: "int", None: "none", True: "bool", 2.5: "float"},
    "long": {"text": "abc " * 2000},
    "noise": NOISE.hex(),
}


class TestMetadata:
    @pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA.keys())
    def test_values(self, same: Same, metadata: Any) -> None:
        pack(same, metadata=metadata)
        pack(same, metadata=metadata, data=b"")
        pack(same, metadata=metadata, bloscpack_args="bp.BloscpackArgs(offsets=False)")

    @pytest.mark.parametrize("checksum", NAMES)
    @pytest.mark.parametrize("codec", ["None", "zlib"])
    def test_checksums_and_codecs(self, same: Same, checksum: str, codec: str) -> None:
        for metadata in ({"a": 1}, {"long": [0] * 1000}):
            args = f"bp.MetadataArgs(meta_checksum={checksum!r}, meta_codec={codec!r})"
            pack(same, metadata=metadata, metadata_args=args)

    @pytest.mark.parametrize("level", range(10))
    def test_levels(self, same: Same, level: int) -> None:
        args = f"bp.MetadataArgs(meta_level={level})"
        pack(same, metadata={"long": list(range(500))}, metadata_args=args)

    @pytest.mark.parametrize("reserve", ["5000", "lambda n: n", "lambda n: n + 13", "9", "True"])
    def test_reserves(self, same: Same, reserve: str) -> None:
        # 8 bytes of JSON: the last does not fit, and both report that.
        pack(same, metadata=[1, 2, 3], metadata_args=f"bp.MetadataArgs(max_meta_size={reserve})")

    def test_reserve_below_the_size_that_compression_makes_enough(self, same: Same) -> None:
        args = "bp.MetadataArgs(max_meta_size=100)"
        pack(same, metadata={"long": [0] * 1000}, metadata_args=args)

    def test_arguments_without_metadata(self, same: Same) -> None:
        pack(same, metadata_args="bp.MetadataArgs(meta_checksum='nonsense')")


# Expressions of arrays that 0.16 can pack.
ARRAYS = {
    "0-d": "np.array(3.5)",
    "scalar": "np.float32(3.5)",
    "1-d": "np.arange(1000, dtype='<i4')",
    "2-d": "np.arange(600.0).reshape(20, 30)",
    "5-d": "np.arange(720, dtype='<u2').reshape(2, 3, 4, 5, 6)",
    "fortran": "np.asfortranarray(np.arange(600.0).reshape(20, 30))",
    "fortran 3-d": "np.asfortranarray(np.arange(60).reshape(3, 4, 5))",
    "both orders": "np.asfortranarray(np.arange(30.0).reshape(1, 30))",
    "empty": "np.zeros(0)",
    "empty rows": "np.zeros((0, 3), '<f4')",
    "empty columns": "np.zeros((3, 0), '<f4')",
    "empty fortran": "np.zeros((3, 0, 2), '<f4', order='F')",
    "strided": "np.arange(1000)[::3]",
    "reversed": "np.arange(1000)[::-1]",
    "transposed": "np.arange(600.0).reshape(20, 30).T",
    "part of fortran": "np.asfortranarray(np.arange(600.0).reshape(20, 30))[3:9, 4:8]",
    "broadcast": "np.broadcast_to(np.arange(5), (4, 5))",
    "moved axes": "np.arange(60).reshape(3, 4, 5).transpose(1, 0, 2)",
    "bool": "np.arange(100) % 3 == 0",
    "int8": "np.arange(100, dtype='i1')",
    "uint64": "np.arange(100, dtype='<u8') << np.uint64(40)",
    "big-endian": "np.arange(100, dtype='>i4')",
    "float16": "np.linspace(0, 1, 100, dtype='<f2')",
    "longdouble": "np.frombuffer(bytes(range(160)), np.longdouble)",
    "complex": "np.exp(1j * np.arange(100))",
    "complex64": "np.exp(1j * np.arange(100)).astype('>c8')",
    "bytes": "np.array([b'a', b'bcd', b'']*30)",
    "unicode": "np.array(['a', 'bcd\\u00e9', '']*30)",
    "void": "np.arange(100, dtype='<i8').view('V8')",
    "datetime": "np.arange(100).astype('M8[us]')",
    "timedelta": "np.arange(100).astype('<m8[25s]')",
    "bare datetime": "np.zeros(3, 'M8')",
    "itemsize 3": "np.zeros(100, 'S3')",
    "itemsize 255": "np.zeros(10, 'S255')",
    "itemsize 252": "np.zeros(10, 'U63')",
    "struct": "np.zeros(9, [('a', '<i4'), ('b', '<f8')])",
    "nested": "np.zeros(9, [('a', [('b', '<i4'), ('c', 'S3')]), ('d', '?')])",
    "sub-array": "np.zeros(9, [('a', '<i4', (2, 3)), ('b', '<f8', 2)])",
    "titles": "np.zeros(9, [(('title', 'a'), '<i4'), ('b', '<f8')])",
    "padded": "np.zeros(9, np.dtype([('a', 'i1'), ('b', '<i4'), ('c', '<i2')], align=True))",
    "record": "np.rec.array([(1, 2.5), (3, 4.5)], dtype=[('a', '<i4'), ('b', '<f8')])",
    "unicode field": "np.zeros(3, [('\\u00e9', '<i4')])",
    "odd names": "np.zeros(3, [(\"it's\", '<i4'), ('say \"so\"', '<f8'), ('', 'i1')])",
    "matrix": "np.arange(6.0).reshape(2, 3).view(np.matrix)",
    "fortran matrix": "np.arange(6.0).reshape(2, 3).view(np.matrix).T",
    "not masked": "np.ma.masked_equal(np.arange(10), 30)",
    "not masked fortran": "np.ma.masked_equal(np.arange(6).reshape(2, 3), 30).T",
    "read-only": "np.frombuffer(bytes(80), '<f8')",
}


class TestArrays:
    @pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
    def test_arrays(self, same: Same, array: str) -> None:
        same(f"bp.pack_ndarray_to_bytes({array})")
        # Blosc arguments are used, except the typesize.
        same(f"bp.pack_ndarray_to_bytes({array}, blosc_args=bp.BloscArgs(3, 9, 2, 'zstd'))")

    @pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
    def test_chunks(self, same: Same, array: str) -> None:
        source = f"a = {array}\nbp.pack_ndarray_to_bytes(a, chunk_size=3 * a.itemsize)"
        same(source)

    @pytest.mark.parametrize("checksum", CHECKSUMS)
    @pytest.mark.parametrize("offsets", [True, False])
    def test_bloscpack_arguments(self, same: Same, checksum: str | None, offsets: bool) -> None:
        args = f"bp.BloscpackArgs({offsets}, {checksum!r}, 5)"
        same(f"bp.pack_ndarray_to_bytes(np.arange(1000), 800, None, {args})")

    @pytest.mark.parametrize("codec", ["None", "zlib"])
    def test_metadata_arguments(self, same: Same, codec: str) -> None:
        args = f"bp.MetadataArgs(meta_codec={codec!r}, meta_checksum='sha256', max_meta_size=500)"
        same(f"bp.pack_ndarray_to_bytes(np.arange(1000), metadata_args={args})")

    def test_units_that_numpy_takes_for_equal(self, same: Same) -> None:
        same("bp.pack_ndarray_to_bytes(np.zeros(3, 'M8[s]'))")
        same("bp.pack_ndarray_to_bytes(np.zeros(3, 'M8[1000ms]'))")

    def test_several_megabytes(self, same: Same) -> None:
        same("bp.pack_ndarray_to_bytes(np.arange(1 << 20, dtype='<f8').reshape(1024, 1024))")
        same("bp.pack_ndarray_to_bytes(np.arange(1 << 20).reshape(1024, 1024).T)")


class TestFiles:
    @pytest.mark.parametrize("nbytes", [0, 1, 5000, 10003])
    def test_files_and_bytes(self, same: Same, tmp_path: Path, nbytes: int) -> None:
        source, out = str(tmp_path / "in"), str(tmp_path / "out")
        Path(source).write_bytes(SMOOTH[:nbytes])
        arguments = "5000, {'m': 1}, bp.BloscArgs(4), bp.BloscpackArgs(checksum='crc32')"
        written = same(
            f"bp.pack_file_to_file(source, out, {arguments})\nPath(out).read_bytes()",
            source=source,
            out=out,
        )
        assert written == same(
            f"bp.pack_bytes_to_file(data, out, {arguments})\nPath(out).read_bytes()",
            data=SMOOTH[:nbytes],
            out=out,
        )
        assert written == same(f"bp.pack_bytes_to_bytes(data, {arguments})", data=SMOOTH[:nbytes])

    def test_arrays(self, same: Same, tmp_path: Path) -> None:
        same(
            "a = np.arange(1000).reshape(10, 100)\n"
            "bp.pack_ndarray_to_file(a, out, 1600, bp.BloscArgs(cname='zlib'))\n"
            "Path(out).read_bytes()",
            out=str(tmp_path / "out"),
        )

    def test_several_megabytes(self, same: Same, tmp_path: Path) -> None:
        source, out = str(tmp_path / "in"), str(tmp_path / "out")
        Path(source).write_bytes(SMOOTH * 500)
        same("bp.pack_file_to_file(source, out)\nPath(out).read_bytes()", source=source, out=out)

    def test_path_objects(self, same: Same, tmp_path: Path) -> None:
        (tmp_path / "in").write_bytes(SMOOTH)
        same(
            "bp.pack_file_to_file(folder / 'in', folder / 'packed')\n"
            "result = bp.unpack_file_from_file(folder / 'packed', folder / 'out')\n"
            "result, (folder / 'out').read_bytes(), (folder / 'packed').read_bytes()",
            folder=tmp_path,
        )
