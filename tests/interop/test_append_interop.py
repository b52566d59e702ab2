"""Appending: our results compared with those of 0.16, and appending to each other's files."""

import random
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.append import append, append_fp
from bloscpack.exceptions import FormatError

Oracle = Any
Same = Callable[..., Any]
Describe = Callable[[Any], tuple[str, list[int], str, bytes]]

SMOOTH = b"".join((n * n // 7).to_bytes(4, "little") for n in range(2500)) + b"end"
NOISE = random.Random(4).randbytes(5000)

SETTINGS = (
    "None",
    "bp.BloscArgs(typesize=4, clevel=9, shuffle=2, cname='zstd')",
    "dict(typesize=None, clevel=None, shuffle=None, cname=None)",
    "dict(typesize=1, clevel=0, shuffle=False, cname='lz4')",
)

# The pieces are appended one after another, each with the next setting.
APPEND = """
file = BytesIO(data)
added = []
for piece, args in zip(pieces, settings):
    added.append(bp.append.append_fp(file, BytesIO(piece), len(piece), eval(args)))
    file.seek(0)
added, file.getvalue()
"""
APPEND_FILES = """
packed = Path(folder) / 'packed'
new = Path(folder) / 'new'
packed.write_bytes(data)
for piece, args in zip(pieces, settings):
    new.write_bytes(piece)
    assert bp.append.append(str(packed), str(new), eval(args)) is None
packed.read_bytes()
"""
UNPACK = "bp.unpack_bytes_from_bytes(data)"


def appended(same: Same, data: bytes, *pieces: bytes, settings: Any = SETTINGS) -> bytes:
    """Return the result of appending, which is equal for both."""
    settings = (settings * len(pieces))[: len(pieces)]
    _, result = same(APPEND, data=data, pieces=pieces, settings=settings)
    content, metadata = bp.unpack_bytes_from_bytes(data)
    assert bp.unpack_bytes_from_bytes(result) == (content + b"".join(pieces), metadata)
    assert bp.verify(result).ok
    return bytes(result)


class TestEqualResults:
    @pytest.mark.parametrize("nbytes", [1, 99, 100, 101, 199, 200, 201, 1050])
    @pytest.mark.parametrize("piece", [1, 49, 50, 51, 99, 100, 101, 150, 200, 250, 1000])
    def test_boundaries(self, same: Same, nbytes: int, piece: int) -> None:
        args = bp.BloscpackArgs(max_app_chunks=5000)
        data = bp.pack_bytes_to_bytes(SMOOTH[:nbytes], 100, bloscpack_args=args)
        appended(same, data, NOISE[:piece])
        appended(same, data, *[SMOOTH[:piece]] * 4)

    @pytest.mark.parametrize("settings", SETTINGS)
    @pytest.mark.parametrize("metadata", [None, {"a": list(range(200))}])
    def test_settings(self, same: Same, settings: str, metadata: Any) -> None:
        args = bp.BloscArgs(typesize=4, cname="zlib")
        data = bp.pack_bytes_to_bytes(SMOOTH, 3000, metadata, args)
        appended(same, data, NOISE, SMOOTH, b"x", settings=(settings,))

    @pytest.mark.parametrize("checksum", ["None", "crc32", "md5", "sha512"])
    def test_checksums(self, same: Same, checksum: str) -> None:
        args = bp.BloscpackArgs(checksum=checksum)
        data = bp.pack_bytes_to_bytes(SMOOTH, 1000, [1], bloscpack_args=args)
        appended(same, data, NOISE, b"x", SMOOTH)

    def test_five_times(self, same: Same) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH, 2000)
        appended(same, data, NOISE, b"a", SMOOTH, NOISE[:1999], b"b" * 4000)

    def test_until_it_is_full(self, same: Same) -> None:
        args = bp.BloscpackArgs(max_app_chunks=3)
        data = bp.pack_bytes_to_bytes(SMOOTH[:150], 100, bloscpack_args=args)
        full = appended(same, data, NOISE[:340])
        appended(same, full, b"0123456789")
        kinds, _ = same(APPEND, data=full, pieces=[b"0123456789a"], settings=["None"])
        assert kinds[0] == "NotEnoughSpace"

    def test_a_chunk_that_shrinks(self, same: Same) -> None:
        content = bytes(byte & 15 for byte in NOISE)
        store = bp.BloscArgs(clevel=0)
        data = bp.pack_bytes_to_bytes(content, 4000, blosc_args=store)
        result = appended(same, data, b"zz", settings=SETTINGS[1:])
        assert len(result) == len(data)
        # 0.16 leaves bytes after the last chunk, and overwrites them with a later append.
        appended(same, result, b"y" * 5000)

    def test_one_chunk_fixes_the_chunk_size(self, same: Same) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH[:500])
        appended(same, data, SMOOTH[:4000])
        kinds, _ = same(APPEND, data=data, pieces=[SMOOTH[:5001]], settings=["None"])
        assert kinds[0] == "NotEnoughSpace"

    def test_several_megabytes(self, same: Same) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH * 300)
        appended(same, data, SMOOTH * 400, settings=("dict(bp.BloscArgs(cname='lz4'))",))

    def test_files(self, same: Same, tmp_path: Path) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH, 3000, {"a": 1})
        pieces = [NOISE, b"x", SMOOTH]
        result = same(
            APPEND_FILES, folder=str(tmp_path), data=data, pieces=pieces, settings=SETTINGS
        )
        assert bp.unpack_bytes_from_bytes(result) == (SMOOTH + b"".join(pieces), {"a": 1})

    def test_what_0_16_packed(self, oracle: Oracle, same: Same) -> None:
        data = oracle("bp.pack_bytes_to_bytes(data, 3000, {'a': 1})", data=SMOOTH)
        appended(same, data, NOISE, SMOOTH)


class TestEqualErrors:
    @pytest.mark.parametrize(
        "given", ["dict(typesize=8)", "dict(bp.BloscArgs(), extra=1)", "5", "'text'"]
    )
    def test_blosc_args(self, oracle: Oracle, outcome: Any, given: str) -> None:
        # 0.16 raises KeyError or ValueError here, depending on which is missing.
        source = f"bp.append.append_fp(BytesIO(data), BytesIO(b'new'), 3, {given})"
        data = bp.pack_bytes_to_bytes(b"old")
        assert oracle.outcome(source, data=data)[0] == "error"
        kind, (kinds, _) = outcome(source, data=data)
        assert kind == "error"
        assert "ValueError" in kinds or "TypeError" in kinds

    @pytest.mark.parametrize(
        "arguments",
        ["typesize=0", "typesize=256", "clevel=10", "clevel='7'", "shuffle=3", "cname='nope'"],
    )
    def test_blosc_arguments(self, same: Same, arguments: str) -> None:
        source = (
            f"bp.append.append_fp(BytesIO(data), BytesIO(b'new'), 3, bp.BloscArgs({arguments}))"
        )
        same(source, data=bp.pack_bytes_to_bytes(b"old"))

    def test_no_offsets(self, same: Same) -> None:
        args = bp.BloscpackArgs(offsets=False)
        data = bp.pack_bytes_to_bytes(b"old", bloscpack_args=args)
        kinds, _ = same(APPEND, data=data, pieces=[b"new"], settings=["None"])
        assert "RuntimeError" in kinds

    def test_empty_content(self, same: Same) -> None:
        kinds, _ = same(
            APPEND, data=bp.pack_bytes_to_bytes(b""), pieces=[b"new"], settings=["None"]
        )
        assert "ValueError" in kinds

    @pytest.mark.parametrize("data", [b"", b"blpk", b"foreign" * 10])
    def test_foreign(self, same: Same, data: bytes) -> None:
        kinds, _ = same(APPEND, data=data, pieces=[b"new"], settings=["None"])
        assert "ValueError" in kinds

    def test_absent_files(self, same: Same, tmp_path: Path) -> None:
        (tmp_path / "packed").write_bytes(bp.pack_bytes_to_bytes(b"old"))
        same("bp.append.append(folder / 'packed', folder / 'absent')", folder=tmp_path)
        same("bp.append.append(folder / 'absent', folder / 'packed')", folder=tmp_path)


REWRITE = """
file = BytesIO(data)
bp.append._seek_to_metadata(file)
bp.append._rewrite_metadata_fp(file, metadata, **options)
file.getvalue()
"""
OLD = {"a": 1, "long": "x" * 200}


class TestMetadataRewrite:
    @pytest.mark.parametrize("metadata", [{}, [1], None, {"a": 2}, {"b": list(range(300))}, "x"])
    @pytest.mark.parametrize(
        "options",
        [
            *({}, {"codec": None}, {"codec": "None"}, {"level": None}, {"level": 0}),
            *({"level": 9}, {"checksum": "crc32"}, {"magic_format": b"JSON"}),
        ],
    )
    def test_results(self, same: Same, metadata: Any, options: dict[str, Any]) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH, metadata=OLD)
        result = same(REWRITE, data=data, metadata=metadata, options=options)
        if isinstance(result, bytes):
            assert bp.unpack_bytes_from_bytes(result) == (SMOOTH, metadata)

    def test_uncompressed_to_start_with(self, same: Same) -> None:
        args = bp.MetadataArgs(meta_codec="None", meta_checksum="sha1", meta_level=3)
        data = bp.pack_bytes_to_bytes(SMOOTH, metadata=OLD, metadata_args=args)
        for options in ({}, {"codec": None}, {"level": None}):
            same(REWRITE, data=data, metadata=[0] * 500, options=options)

    @pytest.mark.parametrize(
        ("kind", "metadata", "options"),
        [
            ("NoChangeInMetadata", OLD, {}),
            ("MetadataSectionTooSmall", {"noise": NOISE.hex()}, {}),
            ("MetadataSectionTooSmall", [0] * 3000, {"codec": "None"}),
            ("ChecksumLengthMismatch", {}, {"checksum": "md5"}),
            ("ChecksumLengthMismatch", {}, {"checksum": "None"}),
            ("NoSuchChecksum", {}, {"checksum": "nope"}),
            ("NoSuchCodec", {}, {"codec": "nope"}),
            ("NoSuchSerializer", {}, {"magic_format": b"NOPE"}),
            ("ValueError", {}, {"level": 10}),
            ("TypeError", {}, {"level": "6"}),
            ("TypeError", {"a": object}, {}),
        ],
    )
    def test_errors(self, same: Same, kind: str, metadata: Any, options: dict[str, Any]) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH, metadata=OLD)
        kinds, _ = same(REWRITE, data=data, metadata=metadata, options=options)
        assert kind in kinds

    def test_no_metadata(self, same: Same) -> None:
        kinds, _ = same(REWRITE, data=bp.pack_bytes_to_bytes(b""), metadata={}, options={})
        assert "NoMetadataFound" in kinds

    def test_position(self, same: Same) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH, metadata=OLD)
        source = "file = BytesIO(data)\nbp.append._seek_to_metadata(file), file.tell()"
        assert same(source, data=data) == (32, 32)


class TestTheOriginalAppendsToOurs:
    def append(self, oracle: Oracle, data: bytes, *pieces: bytes) -> bytes:
        settings = (SETTINGS * len(pieces))[: len(pieces)]
        _, result = oracle(APPEND, data=data, pieces=pieces, settings=settings)
        return bytes(result)

    def test_bytes(self, oracle: Oracle) -> None:
        data = bp.pack_bytes_to_bytes(SMOOTH, 1000, {"a": 1})
        result = self.append(oracle, data, NOISE, b"x", SMOOTH)
        assert bp.unpack_bytes_from_bytes(result) == (SMOOTH + NOISE + b"x" + SMOOTH, {"a": 1})
        assert bp.verify(result).ok
        with bp.open(result) as array:
            assert array[-5:].tobytes() == SMOOTH[-5:]
            assert array[len(SMOOTH) : len(SMOOTH) + 10].tobytes() == NOISE[:10]

    def test_what_we_appended_to(self, oracle: Oracle) -> None:
        file = BytesIO(bp.pack_bytes_to_bytes(SMOOTH, 1000))
        append_fp(file, BytesIO(NOISE), len(NOISE))
        result = self.append(oracle, file.getvalue(), SMOOTH)
        file = BytesIO(result)
        append_fp(file, BytesIO(NOISE), len(NOISE))
        expected = SMOOTH + NOISE + SMOOTH + NOISE
        assert bp.unpack_bytes_from_bytes(file.getvalue()) == (expected, None)
        assert oracle(UNPACK, data=file.getvalue()) == (expected, None)

    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("chunks", [None, 4])
    def test_arrays(self, oracle: Oracle, order: str, chunks: int | None) -> None:
        rows = np.arange(600.0).reshape(20, 30)
        file = BytesIO()
        bp.save(file, rows if order == "C" else rows.T, chunks=chunks, attrs={"unit": "m"})
        more = np.arange(90.0).reshape(3, 30)
        result = self.append(oracle, file.getvalue(), more.tobytes())
        # The bytes are there, but 0.16 has not updated the shape.
        content, metadata = bp.unpack_bytes_from_bytes(result)
        assert content == rows.tobytes() + more.tobytes()
        assert metadata["shape"] == ([20, 30] if order == "C" else [30, 20])
        for read in (bp.unpack_ndarray_from_bytes, bp.load, bp.open):
            with pytest.raises(FormatError, match=r"shape \[.*\] .*needs 4800 bytes.* hold 5520"):
                read(result)

    def test_an_array_file_says_which(self, oracle: Oracle, tmp_path: Path) -> None:
        path = tmp_path / "array.blp"
        bp.save(path, np.arange(10.0))
        path.write_bytes(self.append(oracle, path.read_bytes(), bytes(8)))
        for read in (bp.unpack_ndarray_from_file, bp.load, bp.open):
            with pytest.raises(FormatError, match=r"array\.blp: metadata: shape"):
                read(path)

    def test_an_array_without_rows(self, oracle: Oracle) -> None:
        file = BytesIO()
        bp.save(file, np.zeros((0, 3)))
        result = self.append(oracle, file.getvalue(), bytes(24))
        assert bp.unpack_bytes_from_bytes(result)[0] == bytes(24)


class TestWeAppendToTheirs:
    @pytest.mark.parametrize("order", ["C", "F"])
    @pytest.mark.parametrize("chunk_size", ["1M", 960])
    def test_arrays(
        self, oracle: Oracle, describe: Describe, order: str, chunk_size: int | str
    ) -> None:
        before = np.arange(600.0).reshape(20, 30)
        more = np.arange(90.0).reshape(3, 30)
        transposed = "" if order == "C" else ".T"
        array = f"np.arange(600.0).reshape(20, 30){transposed}"
        file = BytesIO(oracle(f"bp.pack_ndarray_to_bytes({array}, size)", size=chunk_size))
        append_fp(file, BytesIO(more.tobytes()), more.nbytes)
        expected = np.concatenate([before, more])
        expected = expected if order == "C" else expected.T
        assert describe(bp.unpack_ndarray_from_bytes(file.getvalue())) == describe(expected)
        source = "describe(bp.unpack_ndarray_from_bytes(data))"
        assert oracle(source, data=file.getvalue()) == describe(expected)

    def test_with_a_file(self, oracle: Oracle, tmp_path: Path) -> None:
        packed, new = tmp_path / "packed", tmp_path / "new"
        oracle("bp.pack_bytes_to_file(data, path, 1000)", data=SMOOTH, path=packed)
        new.write_bytes(NOISE)
        append(packed, new)
        assert oracle("bp.unpack_bytes_from_file(path)", path=packed) == (SMOOTH + NOISE, None)
