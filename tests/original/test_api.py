"""The functions of bloscpack 0.16, and its bugs, which must not return.

Equality with 0.16 itself is tested in tests/interop.
"""

import os
import struct
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
import bloscpack.container.writer as writer
from bloscpack.exceptions import (
    BloscpackError,
    ChecksumMismatch,
    ChunkSizeTypeSizeMismatch,
    FormatError,
    NotBloscpackError,
    ObjectNumpyArrayRejection,
    TruncatedError,
)

from ..openfiles import open_files

SMOOTH = b"".join((n * n // 7).to_bytes(4, "little") for n in range(2500)) + b"end"
HEADER = struct.Struct("<4sBBBBiiqq")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which no temporary file may remain."""
    yield tmp_path
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".tmp")] == []


def fail_at_chunk(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Make the codec fail at that chunk."""
    left = iter(range(count))
    encode = writer.encode_measured

    def fail(*args: Any) -> tuple[bytes, bytes]:
        if next(left, None) is None:
            raise MemoryError("no more chunks")
        return encode(*args)

    monkeypatch.setattr(writer, "encode_measured", fail)


class TestBuffers:
    """0.16 counted items instead of bytes, and kept only an eighth of the content."""

    @pytest.mark.parametrize(
        "content",
        [
            np.arange(1000.0),
            memoryview(np.arange(1000.0)),
            memoryview(np.arange(1000.0).reshape(10, 100)),
            np.arange(1000, dtype="<u2"),
            np.zeros(7, "S3"),
            memoryview(bytes(range(256))).cast("c"),
            memoryview(bytes(range(256))).cast("B", (16, 16)),
            np.zeros(0),
            np.zeros((3, 0)),
            np.float64(3.5),
        ],
        ids=range(10),
    )
    def test_all_bytes_are_packed(self, content: Any, tmp_path: Path) -> None:
        expected = memoryview(content).tobytes()
        packed = bp.pack_bytes_to_bytes(content, chunk_size=1000)
        assert packed == bp.pack_bytes_to_bytes(expected, chunk_size=1000)
        assert bp.unpack_bytes_from_bytes(packed) == (expected, None)
        bp.pack_bytes_to_file(content, tmp_path / "out", chunk_size=1000)
        assert (tmp_path / "out").read_bytes() == packed

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, np.frombuffer])
    def test_unpacking_takes_any_buffer(self, kind: Callable[..., Any]) -> None:
        packed = bp.pack_bytes_to_bytes(SMOOTH, 1000, [1])
        source = np.frombuffer(packed, "u1") if kind is np.frombuffer else kind(packed)
        assert bp.unpack_bytes_from_bytes(source) == (SMOOTH, [1])
        packed = bp.pack_ndarray_to_bytes(np.arange(5))
        source = np.frombuffer(packed, "u1") if kind is np.frombuffer else kind(packed)
        assert bp.unpack_ndarray_from_bytes(source).tolist() == [0, 1, 2, 3, 4]

    def test_a_buffer_with_gaps_is_refused(self) -> None:
        with pytest.raises(TypeError, match="contiguous"):
            bp.pack_bytes_to_bytes(np.arange(10)[::2])

    def test_results_are_new_and_writable(self) -> None:
        array = np.arange(10)
        back = bp.unpack_ndarray_from_bytes(bp.pack_ndarray_to_bytes(array))
        back[:] = 0
        assert array.tolist() == list(range(10))


class TestSameFile:
    """0.16 truncated its input."""

    @pytest.fixture(params=["same", "other spelling", "symbolic link", "hard link"])
    def names(self, request: pytest.FixtureRequest, folder: Path) -> tuple[Path, Path]:
        path, link = folder / "file", folder / "link"
        path.write_bytes(bp.pack_bytes_to_bytes(SMOOTH))
        if request.param == "symbolic link":
            link.symlink_to(path)
        elif request.param == "hard link":
            link.hardlink_to(path)
        elif request.param == "other spelling":
            (folder / "sub").mkdir()
            link = folder / "sub" / ".." / "file"
        else:
            link = path
        return path, link

    @pytest.mark.parametrize("function", [bp.pack_file_to_file, bp.unpack_file_from_file])
    def test_it_is_refused(self, names: tuple[Path, Path], function: Any) -> None:
        path, link = names
        before = path.read_bytes()
        for one, two in ((path, link), (link, path)):
            with pytest.raises(ValueError, match="same file"):
                function(str(one), str(two))
        assert path.read_bytes() == before


class TestAtomicOutput:
    """0.16 truncated the old output and left half of the new one."""

    WRITES: tuple[tuple[str, Callable[[Path, Path], Any]], ...] = (
        ("file", lambda folder, out: bp.pack_file_to_file(folder / "in", out, 1000)),
        ("bytes", lambda _, out: bp.pack_bytes_to_file(SMOOTH, out, 1000)),
        ("array", lambda _, out: bp.pack_ndarray_to_file(np.arange(1000), out, 800)),
        ("save", lambda _, out: bp.save(out, np.arange(1000), chunks=100)),
    )

    @pytest.mark.parametrize("write", [case for _, case in WRITES], ids=[n for n, _ in WRITES])
    @pytest.mark.parametrize("at", [0, 1, 5])
    def test_a_failing_pack(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, write: Any, at: int
    ) -> None:
        (folder / "in").write_bytes(SMOOTH)
        out = folder / "out"
        fail_at_chunk(monkeypatch, at)
        with pytest.raises(MemoryError):
            write(folder, out)
        assert sorted(path.name for path in folder.iterdir()) == ["in"]
        out.write_bytes(b"old")
        with pytest.raises(MemoryError):
            write(folder, out)
        assert out.read_bytes() == b"old"
        monkeypatch.undo()
        write(folder, out)
        assert out.read_bytes().startswith(b"blpk")
        assert sorted(path.name for path in folder.iterdir()) == ["in", "out"]

    @pytest.mark.parametrize(
        "options",
        [
            {"chunk_size": 0},
            {"metadata": object()},
            {"blosc_args": bp.BloscArgs(cname="nope")},
            {"blosc_args": bp.BloscArgs(clevel=10)},
            {"bloscpack_args": bp.BloscpackArgs(checksum="nope")},
            {"bloscpack_args": bp.BloscpackArgs(max_app_chunks=-1)},
            {"metadata": [1], "metadata_args": bp.MetadataArgs(max_meta_size=1)},
        ],
        ids=lambda options: " ".join(options),
    )
    def test_wrong_arguments(self, folder: Path, options: dict[str, Any]) -> None:
        out = folder / "out"
        out.write_bytes(b"old")
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            bp.pack_bytes_to_file(SMOOTH, out, **options)
        with pytest.raises((ValueError, TypeError, RuntimeError)):
            bp.pack_bytes_to_file(SMOOTH, folder / "new", **options)
        assert out.read_bytes() == b"old"
        assert [path.name for path in folder.iterdir()] == ["out"]

    def test_an_array_that_does_not_fit_its_chunks(self, folder: Path) -> None:
        with pytest.raises(ChunkSizeTypeSizeMismatch):
            bp.pack_ndarray_to_file(np.arange(100), folder / "out", chunk_size=12)
        with pytest.raises(ObjectNumpyArrayRejection):
            bp.pack_ndarray_to_file(np.array([None]), folder / "out")
        assert list(folder.iterdir()) == []

    @pytest.mark.parametrize("position", [-1, -500, 6, 1010])
    def test_a_failing_unpack(self, folder: Path, position: int) -> None:
        packed = bytearray(bp.pack_bytes_to_bytes(SMOOTH, 1000))
        packed[position] ^= 0x55
        (folder / "in").write_bytes(packed)
        out = folder / "out"
        for old in (None, b"old"):
            if old is not None:
                out.write_bytes(old)
            with pytest.raises(BloscpackError):
                bp.unpack_file_from_file(folder / "in", out)
            assert (out.read_bytes() if out.exists() else None) == old

    def test_an_absent_input(self, folder: Path) -> None:
        for function in (bp.pack_file_to_file, bp.unpack_file_from_file):
            with pytest.raises(FileNotFoundError):
                function(folder / "absent", folder / "out")
        assert list(folder.iterdir()) == []


class TestArgumentsAreNotChanged:
    """0.16 put the item size into BloscArgs and dropped the codec of MetadataArgs."""

    def test_arrays(self) -> None:
        blosc, bloscpack, metadata = bp.BloscArgs(), bp.BloscpackArgs(), bp.MetadataArgs()
        before = [dict(args) for args in (blosc, bloscpack, metadata)]
        for dtype in ("<f8", "<i2"):
            bp.pack_ndarray_to_bytes(np.zeros(9, dtype), "1M", blosc, bloscpack, metadata)
        assert [dict(args) for args in (blosc, bloscpack, metadata)] == before

    def test_metadata_that_do_not_compress(self) -> None:
        args = bp.MetadataArgs()
        small = bp.pack_bytes_to_bytes(b"", metadata=[1], metadata_args=args)
        assert args.meta_codec == "zlib"
        large: Any = {"long": [0] * 1000}
        packed = bp.pack_bytes_to_bytes(b"", metadata=large, metadata_args=args)
        assert small[32 + 10] == 0
        assert packed[32 + 10] == 1
        assert large == {"long": [0] * 1000}

    def test_the_typesize_counts_for_bytes_only(self) -> None:
        array = np.arange(100, dtype="<i2")
        args = bp.BloscArgs(typesize=8)
        assert bp.pack_ndarray_to_bytes(array, blosc_args=args)[7] == 2
        assert bp.pack_bytes_to_bytes(array, blosc_args=args)[7] == 8


class TestItems:
    """0.16 refused these arrays; the first ones only above 1 MiB."""

    @pytest.mark.parametrize("itemsize", [3, 5, 6, 7, 12, 24, 100, 255])
    def test_sizes_that_do_not_divide_a_mebibyte(self, itemsize: int, tmp_path: Path) -> None:
        array = np.frombuffer((SMOOTH * 200)[: 1500000 // itemsize * itemsize], f"V{itemsize}")
        packed = bp.pack_ndarray_to_bytes(array)
        assert bp.unpack_ndarray_from_bytes(packed).tobytes() == array.tobytes()
        with bp.open(packed) as lazy:
            assert lazy.nchunks == 2
            assert lazy.header.chunk_size == 2**20 // itemsize * itemsize
        bp.pack_ndarray_to_file(array, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == packed

    @pytest.mark.parametrize("chunk_size", ["1M", 2560])
    def test_sizes_over_255(self, chunk_size: int | str) -> None:
        array = np.array(["\U0001f600" * n for n in range(65)], "<U64")
        assert array.dtype.itemsize == 256
        back = bp.unpack_ndarray_from_bytes(bp.pack_ndarray_to_bytes(array, chunk_size))
        assert back.dtype == array.dtype
        assert back.tolist() == array.tolist()

    def test_an_item_larger_than_the_default_chunk(self) -> None:
        array = np.frombuffer(SMOOTH[:10000] * 330, "V1100000")
        back = bp.unpack_ndarray_from_bytes(bp.pack_ndarray_to_bytes(array))
        assert back.dtype == array.dtype
        assert back.tobytes() == array.tobytes()

    @pytest.mark.parametrize("dtype", ["V0", "S0", "U0", []])
    def test_size_0(self, dtype: Any) -> None:
        array: Any = np.ndarray((2, 3), dtype)
        assert array.dtype.itemsize == 0
        back = bp.unpack_ndarray_from_bytes(bp.pack_ndarray_to_bytes(array))
        assert (back.dtype, back.shape) == (array.dtype, array.shape)

    @pytest.mark.parametrize("typesize", [0, 256, 1000, None])
    def test_any_typesize_given_is_ignored(self, typesize: Any) -> None:
        array = np.zeros(10, "U64")
        args = bp.BloscArgs(typesize=typesize)
        assert bp.pack_ndarray_to_bytes(array, blosc_args=args) == bp.pack_ndarray_to_bytes(array)

    def test_order_and_subclass(self) -> None:
        base = np.arange(6).reshape(2, 3)
        for array in (base, base.T, base[:, ::2], base.view(np.matrix), base.view(np.matrix).T):
            back = bp.unpack_ndarray_from_bytes(bp.pack_ndarray_to_bytes(array))
            assert type(back) is np.ndarray
            assert back.tolist() == array.tolist()
            assert back.flags.f_contiguous == array.flags.f_contiguous

    @pytest.mark.parametrize("chunk_size", [24, "1K", 10**6])
    def test_strided_arrays_are_packed_as_their_copies(self, chunk_size: int | str) -> None:
        base = np.arange(24 * 20 * 10, dtype="i4").reshape(24, 20, 10)
        for array in (base[:, ::3], base.transpose(1, 0, 2), base[::-1].T, base[5:, 1, ::2]):
            assert not array.flags.c_contiguous
            found = bp.pack_ndarray_to_bytes(array, chunk_size)
            assert found == bp.pack_ndarray_to_bytes(array.copy("C"), chunk_size)

    def test_memory_holds_a_few_chunks_of_a_strided_array(self, tmp_path: Path) -> None:
        array = np.broadcast_to(np.arange(1000.0)[::2], (16_000, 500))
        tracemalloc.start()
        try:
            bp.pack_ndarray_to_file(array, tmp_path / "a.blp")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert (array.nbytes, peak < 24_000_000) == (64_000_000, True)
        assert np.array_equal(bp.load(tmp_path / "a.blp"), array)

    @pytest.mark.parametrize("dtype", ["O", [("a", "<i4"), ("b", "O")]])
    def test_objects_are_refused(self, dtype: Any) -> None:
        with pytest.raises(ObjectNumpyArrayRejection):
            bp.pack_ndarray_to_bytes(np.zeros(3, dtype))


def array_file(metadata: dict[str, Any], content: bytes = bytes(80), **options: Any) -> bytes:
    described = {"dtype": "'<f8'", "shape": [10], "order": "C", "container": "numpy"}
    return bp.pack_bytes_to_bytes(content, metadata={**described, **metadata}, **options)


def with_header(packed: bytes, **fields: int) -> bytes:
    """Replace fields of the header of version 3."""
    names = ("magic", "version", "options", "checksum", "typesize", "chunk_size", "last_chunk")
    values = dict(zip((*names, "nchunks", "spare"), HEADER.unpack_from(packed), strict=True))
    values.update(fields)
    return HEADER.pack(*values.values()) + packed[HEADER.size :]


class TestHostileFiles:
    """Files that made 0.16 crash, exhaust memory, or silently return wrong data."""

    @pytest.mark.parametrize(
        "metadata",
        [
            {"shape": [9]},
            {"shape": [11]},
            {"shape": []},
            {"shape": [0]},
            {"shape": [-10]},
            {"shape": [2**28]},
            {"shape": [2**62, 2**62]},
            {"shape": [1] * 100},
            {"shape": "10"},
            {"shape": [10.0]},
            {"dtype": "'<f4'"},
            {"dtype": "'<c16'"},
            {"dtype": "'<f9'"},
            {"dtype": "__import__('os')"},
            {"dtype": None},
            {"order": "X"},
        ],
        ids=str,
    )
    def test_metadata_that_do_not_fit(self, metadata: dict[str, Any]) -> None:
        packed = array_file(metadata)
        tracemalloc.start()
        try:
            with pytest.raises(FormatError):
                bp.unpack_ndarray_from_bytes(packed)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()
        assert bp.unpack_bytes_from_bytes(packed)[0] == bytes(80)

    @pytest.mark.parametrize("dtype", ["'|O'", "'O'", "[('a', '|O')]", "[('a', [('b', 'O8')])]"])
    def test_objects_are_never_made(self, dtype: str) -> None:
        with pytest.raises(BloscpackError):
            bp.unpack_ndarray_from_bytes(array_file({"dtype": dtype}))

    def test_a_chunk_that_decodes_to_more(self) -> None:
        packed = with_header(bp.pack_bytes_to_bytes(bytes(10**8)[:-1], "64M"), chunk_size=1000)
        packed = with_header(packed, last_chunk=1000)
        tracemalloc.start()
        try:
            with pytest.raises(FormatError, match="promises 1000"):
                bp.unpack_bytes_from_bytes(packed)
            assert tracemalloc.get_traced_memory()[1] < 1 << 20
        finally:
            tracemalloc.stop()

    def test_metadata_that_decompress_to_more(self) -> None:
        bomb = zlib.compress(bytes(10**8))
        for declared in (10, 10**8, 2**32 - 1):
            packed = bp.pack_bytes_to_bytes(b"abc", bloscpack_args=bp.BloscpackArgs(False))
            section = struct.pack(
                "<8sBBBBIII8s", b"JSON", 0, 0, 1, 6, declared, len(bomb), len(bomb), b""
            )
            packed = with_header(packed[:32] + section + bomb + packed[32:], options=2)
            tracemalloc.start()
            try:
                with pytest.raises(FormatError):
                    bp.unpack_bytes_from_bytes(packed)
                assert tracemalloc.get_traced_memory()[1] < 1 << 22
            finally:
                tracemalloc.stop()

    def test_a_huge_offset_table(self) -> None:
        packed = bp.pack_bytes_to_bytes(SMOOTH, 1000)
        for spare in (2**30, 2**60, 2**63 - 12):
            with pytest.raises(FormatError):
                bp.unpack_bytes_from_bytes(with_header(packed, spare=spare))

    @pytest.mark.parametrize("checksum", ["adler32", "md5", "sha512"])
    def test_a_file_cut_by_its_last_digest(self, checksum: str) -> None:
        args = bp.BloscpackArgs(checksum=checksum)
        packed = bp.pack_bytes_to_bytes(SMOOTH, 1000, bloscpack_args=args)
        for size in {"adler32": (1, 4), "md5": (1, 16), "sha512": (1, 64)}[checksum]:
            with pytest.raises(TruncatedError):
                bp.unpack_bytes_from_bytes(packed[:-size])

    @pytest.mark.parametrize("offsets", [True, False])
    @pytest.mark.parametrize("nchunks", [0, 1, 10, 12])
    def test_another_number_of_chunks(self, offsets: bool, nchunks: int) -> None:
        args = bp.BloscpackArgs(offsets=offsets, max_app_chunks=100)
        packed = bp.pack_bytes_to_bytes(SMOOTH[:11000], 1000, bloscpack_args=args)
        with pytest.raises(BloscpackError):
            bp.unpack_bytes_from_bytes(with_header(packed, nchunks=nchunks))

    def test_an_unknown_number_of_chunks_is_counted(self) -> None:
        args = bp.BloscpackArgs(offsets=False)
        packed = bp.pack_bytes_to_bytes(SMOOTH, 1000, bloscpack_args=args)
        unknown = with_header(packed, nchunks=-1, chunk_size=-1, last_chunk=-1)
        assert bp.unpack_bytes_from_bytes(unknown)[0] == SMOOTH
        with pytest.raises(FormatError):
            bp.unpack_bytes_from_bytes(unknown[:-1])

    @pytest.mark.parametrize("fields", [{"chunk_size": 999}, {"chunk_size": 1001}])
    @pytest.mark.parametrize("last", [2, 4, 1000])
    def test_other_sizes(self, fields: dict[str, int], last: int) -> None:
        packed = bp.pack_bytes_to_bytes(SMOOTH, 1000)
        with pytest.raises(FormatError):
            bp.unpack_bytes_from_bytes(with_header(packed, **fields))
        with pytest.raises(FormatError):
            bp.unpack_bytes_from_bytes(with_header(packed, last_chunk=last))

    def test_a_chunk_of_zero_bytes(self) -> None:
        args = bp.BloscpackArgs(checksum=None)
        packed = bytearray(bp.pack_bytes_to_bytes(SMOOTH, 4000, bloscpack_args=args))
        with bp.open(bytes(packed)) as array:
            start = array.chunk_offset(1)
        packed[start + 4 : start + 8] = bytes(4)
        with pytest.raises(FormatError, match="chunk 1 at offset"):
            bp.unpack_bytes_from_bytes(packed)

    def test_wrong_offsets_do_not_hide_the_content(self) -> None:
        packed = bytearray(bp.pack_bytes_to_bytes(SMOOTH, 1000))
        packed[32 + 8 : 32 + 16] = (12345).to_bytes(8, "little")
        assert bp.unpack_bytes_from_bytes(packed)[0] == SMOOTH
        assert not bp.verify(packed).ok

    def test_foreign_files_are_value_errors(self, tmp_path: Path) -> None:
        path = tmp_path / "foreign"
        for content in (b"", b"bl", b"PK\3\4" + bytes(100), bytes(32), b"blpk", b"blpk\3"):
            path.write_bytes(content)
            for read in (bp.unpack_bytes_from_file, bp.unpack_ndarray_from_file, bp.load):
                with pytest.raises(ValueError, match="foreign: ") as caught:
                    read(path)
                if len(content) >= 32:
                    assert isinstance(caught.value, NotBloscpackError)

    def test_damage_names_file_and_chunk(self, tmp_path: Path) -> None:
        path = tmp_path / "damaged.blp"
        packed = bytearray(bp.pack_bytes_to_bytes(SMOOTH, 1000))
        packed[-1] ^= 1
        path.write_bytes(packed)
        with pytest.raises(ChecksumMismatch, match=r"damaged\.blp: chunk 10 .* bytes \d+ to \d+"):
            bp.unpack_bytes_from_file(path)
        with pytest.raises(RuntimeError):
            bp.unpack_file_from_file(path, tmp_path / "out")


class TestFiles:
    def test_a_path_is_not_content(self, tmp_path: Path) -> None:
        packed = bp.pack_bytes_to_bytes(SMOOTH)
        (tmp_path / "file").write_bytes(packed)
        with pytest.raises((TypeError, OSError, ValueError)) as caught:
            bp.unpack_bytes_from_file(packed)  # type: ignore[arg-type]
        assert not isinstance(caught.value, NotBloscpackError)
        assert bp.unpack_bytes_from_file(bytes(tmp_path / "file"))[0] == SMOOTH  # type: ignore[arg-type]

    def test_pipes(self, folder: Path) -> None:
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        sender = threading.Thread(target=pipe.write_bytes, args=(SMOOTH * 30,))
        sender.start()
        bp.pack_file_to_file(pipe, folder / "packed", chunk_size=100000)
        sender.join()
        expected = bp.pack_bytes_to_bytes(SMOOTH * 30, chunk_size=100000)
        assert (folder / "packed").read_bytes() == expected
        assert pipe.is_fifo()

    def test_empty_content(self, folder: Path) -> None:
        (folder / "in").write_bytes(b"")
        bp.pack_file_to_file(folder / "in", folder / "packed", metadata={})
        assert bp.unpack_file_from_file(folder / "packed", folder / "out") == {}
        assert (folder / "out").read_bytes() == b""
        assert len(bp.pack_bytes_to_bytes(b"")) == 32 + 11 * 8 + 16 + 4

    def test_files_are_closed(self, folder: Path) -> None:
        bp.pack_ndarray_to_file(np.arange(10), folder / "out")
        arrays = [bp.unpack_ndarray_from_file(folder / "out") for _ in range(5)]
        assert open_files(folder) == []
        assert len(arrays) == 5

    def test_nothing_is_printed(self, capfd: pytest.CaptureFixture[str]) -> None:
        bp.unpack_bytes_from_bytes(bp.pack_bytes_to_bytes(SMOOTH, 1000, {"a": 1}))
        bp.append.append_fp(BytesIO(bp.pack_bytes_to_bytes(b"old")), BytesIO(b"new"), 3)
        assert capfd.readouterr() == ("", "")

    def test_a_url(self, folder: Path) -> None:
        """A file is unpacked from a URL as bytes and arrays are."""
        pytest.importorskip("fsspec")
        url = "memory://unpacked/a.blp"
        bp.pack_bytes_to_file(SMOOTH, url, metadata={"a": 1})
        assert bp.unpack_file_from_file(url, folder / "out") == {"a": 1}
        assert (folder / "out").read_bytes() == SMOOTH
