"""Appending in place: a refused append leaves the file unchanged, others keep arrays consistent.

Equality with 0.16 itself is tested in tests/interop/test_append_interop.py.
"""

import os
import threading
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.append import _rewrite_metadata_fp, _seek_to_metadata, append, append_fp
from bloscpack.exceptions import (
    ChecksumLengthMismatch,
    ChecksumMismatch,
    FormatError,
    MetadataSectionTooSmall,
    NoChangeInMetadata,
    NoMetadataFound,
    NoSuchChecksum,
    NoSuchCodec,
    NoSuchSerializer,
    NotBloscpackError,
    NotEnoughSpace,
)

from ..arrayfiles import saved

SMOOTH = b"".join((n * n // 7).to_bytes(4, "little") for n in range(2500)) + b"end"
CHUNK = 1000


def pack(content: bytes = SMOOTH, metadata: Any = None, **options: Any) -> bytes:
    """Return a file of chunks of 1000 bytes."""
    args = bp.BloscpackArgs(**options)
    return bp.pack_bytes_to_bytes(content, CHUNK, metadata, bloscpack_args=args)


def appended(data: bytes, *pieces: bytes, blosc_args: Any = None) -> bytes:
    file = BytesIO(data)
    for piece in pieces:
        append_fp(file, BytesIO(piece), len(piece), blosc_args)
    return file.getvalue()


def refused(
    data: bytes, error: Any, match: str | None, content: bytes = b"new", **options: Any
) -> None:
    """Check that appending is refused and leaves every byte of the file unchanged."""
    file = BytesIO(data)
    options = {"new_size": len(content), "blosc_args": None, **options}
    with pytest.raises(error, match=match):
        append_fp(file, BytesIO(content), **options)
    assert file.getvalue() == data


class TestResults:
    @pytest.mark.sampled(5)
    @pytest.mark.parametrize("nbytes", [1, 999, 1000, 1001, 2500])
    @pytest.mark.parametrize("piece", [1, 500, 999, 1000, 1001, 1500, 3000])
    @pytest.mark.parametrize("checksum", ["None", "adler32", "sha512", "xxh3_64"])
    def test_the_content_grows(self, nbytes: int, piece: int, checksum: str) -> None:
        data = pack(SMOOTH[:nbytes], {"a": 1}, checksum=checksum, max_app_chunks=7000)
        result = appended(data, SMOOTH[:piece], SMOOTH[:piece])
        expected = SMOOTH[:nbytes] + 2 * SMOOTH[:piece]
        assert bp.unpack_bytes_from_bytes(result) == (expected, {"a": 1})
        assert bp.verify(result).ok
        with bp.open(result) as array:
            # Read by the offset table, not sequentially.
            step = array.header.chunk_size
            for index in reversed(range(array.nchunks)):
                assert array.read_chunk(index) == expected[index * step : (index + 1) * step]

    def test_the_number_of_new_chunks_is_returned(self) -> None:
        file = BytesIO(pack(SMOOTH[:1500]))
        for piece, added in ((400, 0), (100, 0), (1, 1), (999, 0), (3000, 3), (1001, 2)):
            assert append_fp(file, BytesIO(SMOOTH), piece) == added

    def test_header_and_table(self) -> None:
        before, after = pack(SMOOTH[:1500]), appended(pack(SMOOTH[:1500]), SMOOTH[:2000])
        with bp.open(before) as old, bp.open(after) as new:
            assert (old.header.nchunks, old.header.max_app_chunks) == (2, 20)
            assert (new.header.nchunks, new.header.max_app_chunks) == (4, 18)
            assert (new.header.chunk_size, new.header.last_chunk) == (1000, 500)
            assert new.chunk_offset(0) == old.chunk_offset(0)

    def test_parts_and_positions(self) -> None:
        # Only `new_size` bytes are read, from the current position of the content.
        file, content = BytesIO(pack()), BytesIO(b"skipped" + SMOOTH)
        content.seek(7)
        file.seek(0, 2)
        append_fp(file, content, 100)
        assert content.tell() == 107
        assert bp.unpack_bytes_from_bytes(file.getvalue())[0] == SMOOTH + SMOOTH[:100]

    def test_content_that_cannot_seek(self) -> None:
        class Pipe(BytesIO):
            def seekable(self) -> bool:
                return False

        file = BytesIO(pack())
        append_fp(file, Pipe(SMOOTH), len(SMOOTH))
        assert bp.unpack_bytes_from_bytes(file.getvalue())[0] == 2 * SMOOTH

    @pytest.mark.parametrize("kind", [dict, bp.BloscArgs])
    def test_settings(self, kind: Callable[..., Any]) -> None:
        args = kind(typesize=4, clevel=None, shuffle=2, cname="zstd")
        before = dict(args)
        result = appended(pack(), SMOOTH, blosc_args=args)
        assert dict(args) == before
        assert bp.unpack_bytes_from_bytes(result)[0] == 2 * SMOOTH
        with bp.open(result) as array:
            flags = [result[array.chunk_offset(index) + 2] for index in range(array.nchunks)]
        # The old chunks stay, except the last one, which is compressed again.
        assert {flag >> 5 for flag in flags[:10]} == {0}
        assert {flag >> 5 for flag in flags[10:]} == {4}

    def test_files(self, tmp_path: Path) -> None:
        packed, new = tmp_path / "packed", tmp_path / "new"
        packed.write_bytes(pack())
        new.write_bytes(SMOOTH)
        append(packed, new)
        append(str(packed), str(new), {**dict(bp.BloscArgs()), "cname": "lz4"})
        assert bp.unpack_bytes_from_file(packed)[0] == 3 * SMOOTH
        assert new.read_bytes() == SMOOTH


class TestNothing:
    """0.16 compressed the last chunk again, and then divided by zero."""

    @pytest.mark.parametrize("data", [pack(), pack(SMOOTH[:1000]), saved(np.arange(10))])
    def test_it_changes_nothing(self, data: bytes, tmp_path: Path) -> None:
        file = BytesIO(data)
        assert append_fp(file, BytesIO(), 0) == 0
        assert append_fp(file, BytesIO(b"not asked for"), 0) == 0
        assert file.getvalue() == data
        (tmp_path / "packed").write_bytes(data)
        (tmp_path / "new").write_bytes(b"")
        append(tmp_path / "packed", tmp_path / "new")
        assert (tmp_path / "packed").read_bytes() == data


class TestRefused:
    def test_no_offsets(self) -> None:
        refused(pack(offsets=False), RuntimeError, "offset table")

    def test_empty_content(self) -> None:
        refused(pack(b""), ValueError, "empty")

    def test_foreign_files(self) -> None:
        refused(b"foreign" * 10, NotBloscpackError, "magic")
        refused(b"", NotBloscpackError, "it is empty")

    @pytest.mark.parametrize("spare", [0, 1, 3])
    def test_not_enough_space(self, spare: int) -> None:
        data = pack(SMOOTH[:1500], max_app_chunks=spare)
        refused(data, NotEnoughSpace, "max_app_chunks", SMOOTH[: 500 + spare * 1000 + 1])
        full = appended(data, SMOOTH[: 500 + spare * 1000])
        assert bp.verify(full).ok
        refused(full, NotEnoughSpace, "max_app_chunks", b"x")

    @pytest.mark.parametrize("promised", [4, 500, 1500, 9000])
    def test_a_source_that_is_too_short(self, promised: int) -> None:
        refused(pack(), ValueError, "3 bytes left", new_size=promised)

    @pytest.mark.parametrize("promised", [4, 500, 1500, 9000])
    def test_a_pipe_that_ends_early(self, promised: int) -> None:
        class Pipe(BytesIO):
            def seekable(self) -> bool:
                return False

        data = pack()
        file = BytesIO(data)
        with pytest.raises(ValueError, match="early"):
            append_fp(file, Pipe(b"new"), promised)
        assert file.getvalue() == data

    def test_a_negative_size(self) -> None:
        refused(pack(), ValueError, "new_size", new_size=-1)

    @pytest.mark.parametrize(
        "blosc_args",
        [
            {"typesize": 8},
            dict(bp.BloscArgs(), extra=1),
            bp.BloscArgs(cname="nope"),
            bp.BloscArgs(typesize=0),
            bp.BloscArgs(clevel=10),
            bp.BloscArgs(shuffle=3),
        ],
    )
    def test_blosc_args(self, blosc_args: Any) -> None:
        refused(pack(), ValueError, None, blosc_args=blosc_args)

    def test_itself(self, tmp_path: Path) -> None:
        packed = tmp_path / "packed"
        packed.write_bytes(pack())
        (tmp_path / "link").symlink_to(packed)
        for name in ("packed", "link"):
            with pytest.raises(ValueError, match="itself"):
                append(packed, tmp_path / name)
        assert packed.read_bytes() == pack()

    def test_the_old_versions(self) -> None:
        for version in (1, 2):
            data = bytearray(pack(offsets=False, checksum=None))
            data[4] = version
            if version == 1:
                data[5:8] = bytes(3)
                data[8:16] = data[16:24]
                del data[16:32]
            assert bp.unpack_bytes_from_bytes(data)[0] == SMOOTH
            refused(bytes(data), RuntimeError, "version")


class TestDamage:
    """0.16 gave a damaged last chunk a new digest, and wrote to a wrong offset."""

    @pytest.mark.parametrize("checksum", ["adler32", "crc32", "md5", "sha512", "xxh3_128"])
    def test_the_last_chunk_is_checked(self, checksum: str) -> None:
        data = pack(checksum=checksum)
        with bp.open(data) as array:
            start = array.chunk_offset(array.nchunks - 1) + 16
        for position in (start, start + 1, len(data) - 1):
            damaged = bytearray(data)
            damaged[position] ^= 1
            refused(bytes(damaged), ChecksumMismatch, "chunk 10", b"x")
            refused(bytes(damaged), ChecksumMismatch, "chunk 10", SMOOTH)

    def test_damage_in_the_size_of_the_last_chunk(self) -> None:
        data = bytearray(pack())
        with bp.open(bytes(data)) as array:
            start = array.chunk_offset(array.nchunks - 1)
        data[start + 12] ^= 1
        refused(bytes(data), FormatError, "chunk 10")

    def test_an_undecodable_last_chunk_without_checksum(self) -> None:
        data = pack(SMOOTH[:1900], checksum=None)
        with bp.open(data) as array:
            start = array.chunk_offset(1)
        garbage = b"\xff" * (len(data) - start - 16)
        damaged = data[: start + 16] + garbage
        refused(damaged, bp.exceptions.BloscpackError, "chunk 1")

    @pytest.mark.parametrize("to", [0, 9, -1, 12345])
    def test_a_wrong_last_offset(self, to: int) -> None:
        data = bytearray(pack())
        with bp.open(bytes(data)) as array:
            wrong = array.chunk_offset(to) if to in (0, 9) else to
        data[32 + 8 * 10 : 32 + 8 * 11] = wrong.to_bytes(8, "little", signed=True)
        # The content can still be read; only appending needs the table.
        assert bp.unpack_bytes_from_bytes(data)[0] == SMOOTH
        refused(bytes(data), FormatError, "offset table")

    def test_a_wrong_offset_before_the_last(self) -> None:
        data = bytearray(pack())
        data[32 + 8 * 5 : 32 + 8 * 6] = (12345).to_bytes(8, "little")
        refused(bytes(data), FormatError, "offset table")

    def test_a_truncated_file(self) -> None:
        data = pack()
        for end in (31, 100, len(data) - 1, len(data) - 4):
            refused(data[:end], FormatError, None)

    def test_a_wrong_last_chunk_size(self) -> None:
        data = bytearray(pack())
        data[12:16] = (5).to_bytes(4, "little")
        refused(bytes(data), FormatError, "promises 5")

    def test_damaged_metadata(self) -> None:
        data = bytearray(pack(metadata={"a": 1}))
        data[64] ^= 1
        refused(bytes(data), ChecksumMismatch, "metadata")


WRITERS = [saved, bp.pack_ndarray_to_bytes]


class TestArrays:
    """0.16 did not update the shape; reading such a file overran the heap."""

    @pytest.mark.parametrize("writer", WRITERS)
    @pytest.mark.parametrize("fortran", [False, True])
    @pytest.mark.parametrize("rows", [1, 2, 7, 100])
    def test_the_shape_grows(self, writer: Any, fortran: bool, rows: int) -> None:
        old = np.arange(60.0).reshape(5, 3, 4)
        new = np.arange(rows * 12.0).reshape(rows, 3, 4)
        data = writer(old.T if fortran else old)
        try:
            result = appended(data, new.tobytes(), new.tobytes())
        except NotEnoughSpace:
            # One chunk of 480 bytes with ten spare entries, as 0.16 makes it.
            assert writer is bp.pack_ndarray_to_bytes
            assert rows == 100
            return
        expected = np.concatenate([old, new, new])
        expected = expected.T if fortran else expected
        for array in (bp.unpack_ndarray_from_bytes(result), bp.load(result)):
            assert array.shape == expected.shape
            assert array.flags.f_contiguous == fortran
            assert np.array_equal(array, expected)
        with bp.open(result) as lazy:
            last = (..., -1) if fortran else -1
            assert np.array_equal(lazy[last], expected[last])
        assert bp.verify(result).ok

    @pytest.mark.parametrize("writer", WRITERS)
    def test_one_dimension(self, writer: Any) -> None:
        result = appended(writer(np.arange(10)), *[np.arange(n).tobytes() for n in (1, 2, 30)])
        expected = [*range(10), 0, *range(2), *range(30)]
        assert bp.unpack_ndarray_from_bytes(result).tolist() == expected

    def test_attrs_stay(self) -> None:
        attrs = {"unit": "m", "nested": [1, {"a": None}]}
        result = appended(saved(np.arange(10), attrs=attrs), bytes(80))
        with bp.open(result) as array:
            assert array.attrs == attrs
            assert array.shape == (20,)

    @pytest.mark.parametrize("writer", WRITERS)
    @pytest.mark.parametrize("nbytes", [1, 7, 8, 23, 25, 95, 97])
    def test_content_that_is_not_whole_rows(self, writer: Any, nbytes: int) -> None:
        for array in (np.zeros((5, 3, 4)), np.zeros((4, 3, 5), order="F")):
            refused(writer(array), ValueError, "whole rows", bytes(nbytes))

    @pytest.mark.parametrize("writer", WRITERS)
    def test_no_rows_to_count(self, writer: Any) -> None:
        refused(writer(np.array(3.5)), ValueError, None, bytes(8))
        refused(writer(np.zeros((3, 0))), ValueError, None, bytes(8))

    def test_rows_for_an_array_without_rows(self) -> None:
        result = appended(saved(np.zeros((0, 3))), np.arange(6.0).tobytes())
        assert bp.unpack_ndarray_from_bytes(result).tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_a_shape_that_is_wrong_already(self) -> None:
        metadata = {"dtype": "'<f8'", "shape": [3], "order": "C", "container": "numpy"}
        refused(bp.pack_bytes_to_bytes(bytes(80), metadata=metadata), FormatError, None, bytes(8))

    def test_metadata_without_room(self) -> None:
        args = bp.MetadataArgs(meta_codec="None", max_meta_size=lambda nbytes: nbytes)
        data = bp.pack_ndarray_to_bytes(np.arange(9), metadata_args=args)
        refused(data, MetadataSectionTooSmall, None, bytes(8))

    def test_a_file_on_disk(self, tmp_path: Path) -> None:
        packed, new = tmp_path / "packed", tmp_path / "new"
        bp.save(packed, np.arange(12).reshape(4, 3))
        new.write_bytes(np.arange(6).tobytes())
        append(packed, new)
        assert bp.load(packed).shape == (6, 3)


OLD = {"a": 1, "long": "x" * 200}


def rewritten(data: bytes, metadata: Any, **options: Any) -> bytes:
    file = BytesIO(data)
    assert _seek_to_metadata(file) == file.tell()
    _rewrite_metadata_fp(file, metadata, **options)
    return file.getvalue()


class TestMetadataRewrite:
    @pytest.mark.parametrize("metadata", [{}, None, [1, {"b": "é"}], {"long": [0] * 1000}])
    def test_results(self, metadata: Any) -> None:
        data = pack(metadata=OLD)
        result = rewritten(data, metadata)
        assert len(result) == len(data)
        assert bp.unpack_bytes_from_bytes(result) == (SMOOTH, metadata)

    def test_options(self) -> None:
        data = pack(metadata=OLD)
        for options in ({"checksum": "crc32"}, {"codec": "None"}, {"level": 0}, {"codec": None}):
            result = rewritten(data, {"b": 2}, **options)
            assert bp.unpack_bytes_from_bytes(result) == (SMOOTH, {"b": 2})

    @pytest.mark.parametrize(
        ("error", "metadata", "options"),
        [
            (NoChangeInMetadata, OLD, {}),
            (MetadataSectionTooSmall, {"long": [0] * 3000}, {"codec": "None"}),
            (ChecksumLengthMismatch, {}, {"checksum": "sha1"}),
            (NoSuchChecksum, {}, {"checksum": "nope"}),
            (NoSuchCodec, {}, {"codec": "nope"}),
            (NoSuchSerializer, {}, {"magic_format": b"NOPE"}),
            (ValueError, {}, {"level": 10}),
            (TypeError, object(), {}),
        ],
    )
    def test_errors_change_nothing(self, error: Any, metadata: Any, options: Any) -> None:
        file = BytesIO(pack(metadata=OLD))
        with pytest.raises(error):
            _rewrite_metadata_fp(file, metadata, **options)
        assert file.getvalue() == pack(metadata=OLD)

    def test_no_metadata(self) -> None:
        for call in (_seek_to_metadata, lambda file: _rewrite_metadata_fp(file, {})):
            with pytest.raises(NoMetadataFound):
                call(BytesIO(pack()))


def test_a_pipe_is_appended_whole(tmp_path: Path) -> None:
    original, pipe = tmp_path / "a.blp", tmp_path / "pipe"
    bp.pack_bytes_to_file(b"x" * 5000, original)
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"tail"))
    writer.start()
    append(original, pipe)
    writer.join()
    assert bp.unpack_bytes_from_file(original)[0] == b"x" * 5000 + b"tail"


def test_an_invalid_spare_entry_is_reset() -> None:
    file = BytesIO(pack(b"x" * CHUNK))
    header = 32
    file.seek(header + 8 * 3)  # the third of the ten spare entries
    file.write(bytes(8))
    assert append_fp(file, BytesIO(b"y" * 2 * CHUNK), 2 * CHUNK) == 2
    assert bp.unpack_bytes_from_bytes(file.getvalue())[0] == b"x" * CHUNK + b"y" * 2 * CHUNK
