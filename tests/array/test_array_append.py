"""Appending rows to an array in a file: accepted rows, refused rows, and the file afterwards."""

import os
import pickle
import signal
import threading
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch, FileChangedError, LockedError, UnsupportedError
from bloscpack.format.codec import ChunkHeader
from bloscpack.format.trailer import unpack_trailer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.blp"


def trailer_of(path: Path) -> Any:
    data = path.read_bytes()
    trailer, missing = unpack_trailer(data, len(data))
    assert missing == 0
    return trailer


def check_trailer(path: Path) -> None:
    """Check that the trailer describes the current file, as completely as possible."""
    trailer = trailer_of(path)
    with bp.open(path) as a:
        head = path.read_bytes()[: a.chunk_offset(0) - a.header.table_size]
        assert trailer is not None
        assert trailer.head_digest == xxh3_64_digest(head)
        assert trailer.nchunks == a.nchunks


class TestRows:
    @given(
        pieces=st.lists(st.integers(0, 40), max_size=6),
        chunks=st.integers(1, 9),
        fortran=st.booleans(),
        nthreads=st.sampled_from([1, 3]),
    )
    def test_as_saved_at_once(
        self,
        pieces: list[int],
        chunks: int,
        fortran: bool,
        nthreads: int,
        tmp_path_factory: pytest.TempPathFactory,
    ) -> None:
        path = tmp_path_factory.mktemp("rows") / "a.blp"
        whole = np.arange((4 + sum(pieces)) * 6, dtype="f4").reshape(-1, 3, 2)
        bp.save(path, whole[:4].T if fortran else whole[:4], chunks=chunks)
        done = 4
        with bp.open(path, "a", nthreads=nthreads) as a:
            for number, piece in enumerate(pieces):
                rows = whole[done : done + piece]
                a.append(rows.T if fortran else rows)
                done += piece
                if number % 2:
                    a.flush()
                expected = whole[:done].T if fortran else whole[:done]
                assert a.shape == expected.shape
                assert np.array_equal(a[...], expected)
        loaded = bp.load(path)
        assert loaded.flags.f_contiguous == fortran
        assert np.array_equal(loaded, whole.T if fortran else whole)
        assert bp.verify(path).ok

    def test_the_chunks_are_those_of_save(self, path: Path, tmp_path: Path) -> None:
        whole = np.arange(1000, dtype="i4")
        bp.save(path, whole[:250], chunks=100)
        with bp.open(path, "a") as a:
            a.append(whole[250:700])
            a.append(whole[700:])
        bp.save(tmp_path / "b.blp", whole, chunks=100)
        with bp.open(path) as one, bp.open(tmp_path / "b.blp") as two:
            assert [one._container.fetch(n).data for n in range(10)] == [
                two._container.fetch(n).data for n in range(10)
            ]
        check_trailer(path)

    def test_one_row(self, path: Path) -> None:
        bp.save(path, np.zeros((2, 3, 4), order="F"))
        with bp.open(path, "a") as a:
            a.append(np.ones((2, 3)))
            assert a.shape == (2, 3, 5)
            assert (a[..., -1] == 1).all()
        bp.save(path, np.zeros(3))
        with bp.open(path, "a") as a:
            a.append(5.0)
            assert a[:].tolist() == [0, 0, 0, 5]

    def test_appended_memory_may_be_reused(self, path: Path) -> None:
        bp.save(path, np.zeros((1, 100)), chunks=2)
        rows = np.ones((5, 100))
        with bp.open(path, "a", nthreads=4) as a:
            a.append(rows)
            rows[:] = 7
            assert (a[1:] == 1).all()

    @pytest.mark.parametrize(
        ("rows", "error"),
        [
            (np.zeros((2, 4), "f4"), ValueError),
            (np.zeros(2, "f4"), ValueError),
            (np.zeros((1, 2, 3), "f4"), ValueError),
            (np.zeros((2, 3), complex), TypeError),
            (np.zeros((2, 3), "f8"), TypeError),
            (np.zeros((2, 3), object), TypeError),
            (None, TypeError),
        ],
    )
    def test_rows_that_do_not_fit_are_refused(self, path: Path, rows: Any, error: Any) -> None:
        bp.save(path, np.zeros((2, 3), "f4"))
        before = path.read_bytes()
        with bp.open(path, "a") as a:
            with pytest.raises(error):
                a.append(rows)
            a.append(np.ones((1, 3), "i1"))  # safe to cast
            assert a.shape == (3, 3)
            with pytest.raises(error):
                a.append(rows)
            assert a.shape == (3, 3)
        assert path.read_bytes() != before
        assert bp.load(path)[2].tolist() == [1, 1, 1]

    def test_other_dtypes(self, path: Path) -> None:
        kind = np.dtype([("a", "<i2"), ("b", "S3")], align=True)
        for whole in (
            np.array([(1, b"x"), (2, b"yy"), (3, b"zzz")], kind),
            np.array(["a", "bcd", "e"]),
            np.array(["2020", "2021", "2022"], "M8[Y]"),
            np.array([1, 2, 3], ">u4"),
        ):
            bp.save(path, whole[:1])
            with bp.open(path, "a") as a:
                a.append(whole[1:])
            assert (bp.load(path) == whole).all()

    def test_a_file_of_bytes(self, path: Path) -> None:
        bp.pack_bytes_to_file(b"abc" * 100, path, metadata={"k": 1})
        with bp.open(path, "a") as a:
            a.append(np.frombuffer(b"def", "u1"))
        assert bp.unpack_bytes_from_file(path) == (b"abc" * 100 + b"def", {"k": 1})

    def test_how_chunks_are_compressed(self, path: Path) -> None:
        bp.save(path, np.arange(100000), chunks=10000, codec="lz4", shuffle="bit", checksum="sha1")
        with bp.open(path, "a") as a:
            a.append(np.arange(20000))
        data = path.read_bytes()
        with bp.open(path) as a:
            headers = [ChunkHeader.unpack(data, a.chunk_offset(n)) for n in (9, 10, 11)]
            assert a.header.checksum.name == "sha1"
        assert {each.codec for each in headers} == {"lz4"}
        assert len({each[2:4] + each[5:6] for each in headers}) == 1

    @pytest.mark.parametrize("codec", ["zstd", "lz4", "blosclz", "zlib"])
    @pytest.mark.parametrize("kind", ["u1", "i2", "f4", "f8", "c16", "S20"])
    @pytest.mark.parametrize("nbytes", [300_000, 5_000_000])
    def test_block_size_is_preserved(self, path: Path, codec: str, kind: str, nbytes: int) -> None:
        rows = np.zeros(nbytes // np.dtype(kind).itemsize, kind)
        rows[::7] = 1
        bp.save(path, rows, codec=codec, chunks=100_000 // rows.itemsize)
        with bp.open(path, "a") as a:
            a.append(rows)
        with bp.open(path) as a:
            sizes = [a.container.fetch(n).header.blocksize for n in range(a.nchunks - 1)]
        assert len(sizes) > 4
        assert len(set(sizes)) == 1

    def test_appending_nothing(self, path: Path) -> None:
        bp.save(path, np.zeros((2, 3)))
        before = path.read_bytes()
        with bp.open(path, "a") as a:
            a.append(np.zeros((0, 3)))
            a.flush()
            assert os.listdir(path.parent) == ["a.blp"]
        assert path.read_bytes() == before

    def test_rows_for_an_array_without_rows(self, path: Path) -> None:
        bp.save(path, np.zeros((0, 3)))
        with bp.open(path, "a") as a:
            assert a.shape == (0, 3)
            a.append(np.ones((2, 3)))
        assert bp.load(path).tolist() == [[1, 1, 1]] * 2
        check_trailer(path)


class TestTrailer:
    def test_a_file_that_becomes_shorter(self, path: Path) -> None:
        noise = np.random.default_rng(1).integers(0, 256, 1000, "u1")
        bp.save(path, noise, codec="lz4", clevel=0, chunks=5000)
        with bp.open(path, "a") as a:
            a.append(noise[:1])
            a.update_attrs({"a": 1})
        before = path.stat().st_size
        # Incompressible and stored; compressed with a level it may shrink, never grow by much.
        bp.save(path, np.zeros(1000, "u1"), codec="lz4", clevel=0, chunks=5000)
        assert path.stat().st_size > 1000
        with bp.open(path, "a") as a:
            a.append(np.zeros(10, "u1"))
        assert path.stat().st_size < 1000 < before
        check_trailer(path)

    def test_a_file_without_a_trailer_gets_one(self, path: Path) -> None:
        bp.pack_ndarray_to_file(np.arange(1000, dtype="i4"), path, 400)
        assert trailer_of(path) is None
        with bp.open(path, "a") as a:
            a.append(np.arange(10, dtype="i4"))
        check_trailer(path)
        # The digests of earlier chunks are unknown, and must not be invented.
        trailer = trailer_of(path)
        offset, nbytes = trailer.page_extent(0)
        digests = path.read_bytes()[offset : offset + nbytes]
        assert digests[:80] == bytes(80)
        assert digests[80:] != bytes(8)

    def test_an_invalid_spare_entry_is_reset(self, path: Path) -> None:
        bp.save(path, np.arange(100, dtype="i4"), chunks=100)
        with bp.open(path) as a:
            third = a.chunk_offset(0) - 8 * 8
        data = bytearray(path.read_bytes())
        data[third : third + 8] = bytes(8)
        path.write_bytes(data)
        with bp.open(path, "a") as a:
            a.append(np.arange(200, dtype="i4"))
        assert len(bp.load(path)) == 300


class TestRefused:
    def test_kinds_of_files(self, path: Path) -> None:
        for array in (np.array(3.0), np.zeros((3, 0)), np.ndarray(3, "S0")):
            bp.save(path, array)
            with pytest.raises(ValueError, match=r"without dimensions|zero bytes|no chunk size"):
                bp.open(path, "a")
        bp.pack_bytes_to_file(b"", path)
        with pytest.raises(ValueError, match="empty"):
            bp.open(path, "a")
        args = bp.BloscpackArgs(offsets=False)
        bp.pack_bytes_to_file(b"x", path, bloscpack_args=args)
        with pytest.raises(UnsupportedError, match="offset table"):
            bp.open(path, "a")
        # A refused file must not stay locked.
        bp.save(path, np.zeros(3))
        bp.open(path, "a").close()

    def test_only_paths_are_accepted(self, path: Path, tmp_path: Path) -> None:
        bp.save(path, np.zeros(3))
        for where in (path.read_bytes(), BytesIO(path.read_bytes())):
            with pytest.raises(TypeError, match="path"):
                bp.open(where, "a")
        with pytest.raises(FileNotFoundError):
            bp.open(tmp_path / "none", "a")
        with pytest.raises(OSError):
            bp.open(os.devnull, "a")

    def test_the_wrong_mode(self, path: Path) -> None:
        bp.save(path, np.zeros(3))
        with bp.open(path) as a:
            assert a.mode == "r"
            for call in (lambda: a.append([1.0]), a.flush, lambda: a.update_attrs({})):
                with pytest.raises(ValueError, match="mode 'a'"):
                    call()
        a = bp.open(path, "a")
        assert a.mode == "a"
        a.close()
        a.close()
        for call in (lambda: a.append([1.0]), a.flush, lambda: a[0]):
            with pytest.raises(ValueError, match="closed"):
                call()

    def test_damage_in_the_last_chunk(self, path: Path) -> None:
        bp.save(path, np.arange(30), chunks=20)
        with bp.open(path) as a:
            position = a.chunk_offset(1) + 20
        data = bytearray(path.read_bytes())
        data[position] ^= 1
        path.write_bytes(data)
        with pytest.raises(ChecksumMismatch, match="chunk 1"):
            bp.open(path, "a")
        assert path.read_bytes() == data


class TestAttrs:
    def test_update(self, path: Path) -> None:
        bp.save(path, np.zeros(3), attrs={"a": 1})
        with bp.open(path, "a") as a:
            a.update_attrs({"b": [2]})
            assert a.attrs == {"a": 1, "b": [2]}
            with pytest.raises(TypeError):
                a.update_attrs({"c": object()})
        assert bp.open(path).attrs == {"a": 1, "b": [2]}

    def test_attrs_larger_than_their_section(self, path: Path) -> None:
        bp.save(path, np.arange(300), chunks=100)
        inode = path.stat().st_ino
        long = {str(n): n * n for n in range(1000)}
        with bp.open(path, "a") as a, bp.open(path) as old:
            a.append(np.arange(300, 350))
            a.update_attrs(long)
            a.flush()
            a.append(np.arange(350, 360))
            assert a[:].tolist() == [*range(360)]
            assert old[:].tolist() == [*range(300)]
            with pytest.raises(LockedError):
                bp.open(path, "a")
            old.refresh()
            assert old.shape == (350,)
            assert old.attrs == long
        assert path.stat().st_ino != inode
        assert bp.load(path).tolist() == [*range(360)]
        check_trailer(path)


class TestEnds:
    def test_an_error_discards_unflushed_rows(self, path: Path) -> None:
        bp.save(path, np.arange(100), chunks=10)
        original = path.read_bytes()
        with pytest.raises(KeyError), bp.open(path, "a") as a:  # noqa: PT012
            a.append(np.arange(100, 200))
            a[:]
            raise KeyError
        assert path.read_bytes() == original
        with pytest.raises(KeyError), bp.open(path, "a") as a:  # noqa: PT012
            a.append(np.arange(100, 155))
            a.flush()
            a.append(np.arange(155, 200))
            raise KeyError
        assert bp.load(path).tolist() == [*range(155)]
        assert os.listdir(path.parent) == ["a.blp"]

    @pytest.mark.parametrize("is_busy", [False, True])
    def test_a_forked_child_leaves_it_alone(self, path: Path, is_busy: bool) -> None:
        bp.save(path, np.arange(100), chunks=10)
        a = bp.open(path, "a")
        a.append(np.arange(100, 125))
        is_held, is_forked = threading.Event(), threading.Event()

        def work() -> None:
            with a._writable_rows()._lock:
                is_held.set()
                is_forked.wait()

        thread = threading.Thread(target=work)
        if is_busy:  # so that the child inherits a lock of a thread that it does not have
            thread.start()
            is_held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(240)
            refused = 0
            try:
                for call in (lambda: a.append([1]), a.flush, lambda: a.update_attrs({"a": 1})):
                    with suppress(LockedError):
                        call()
                        refused -= 1
                    refused += 1
                a.close()
            finally:
                os._exit(3 - refused)
        is_forked.set()
        assert os.waitpid(child, 0)[1] == 0
        if is_busy:
            thread.join()
        with pytest.raises(LockedError):
            bp.open(path, "a")
        a.append(np.arange(125, 130))
        a.close()
        assert bp.load(path).tolist() == [*range(130)]


class TestPickle:
    def test_an_array_open_for_appending_is_not_pickled(self, path: Path) -> None:
        bp.save(path, np.zeros(3))
        with bp.open(path, "a") as a, pytest.raises(TypeError, match="appending"):
            pickle.dumps(a)

    def test_beside_a_writer(self, path: Path) -> None:
        bp.save(path, np.arange(300), chunks=100)
        with bp.open(path, "a", nthreads=1) as a:
            a.append(np.arange(300, 700))
            with bp.open(path) as reader:
                travelled = pickle.loads(pickle.dumps(reader))
            assert travelled[:].tolist() == [*range(300)]
            travelled.close()
            a.flush()
            with bp.open(path) as reader:
                data = pickle.dumps(reader)
                pickle.loads(data).close()
                a.append([1])
                a.flush()
                with pytest.raises(FileChangedError):
                    pickle.loads(data)


class TestRefresh:
    def test_another_file(self, path: Path) -> None:
        bp.save(path, np.arange(100), chunks=10)
        a = bp.open(path)
        bp.save(path, np.arange(1, 300), chunks=10)
        with pytest.raises(FileChangedError, match=r"a\.blp"):
            a.refresh()
        assert a[:].tolist() == [*range(100)]  # the one that was opened
        bp.save(path, np.arange(300), chunks=10)
        a.refresh()
        assert a.shape == (300,)
        bp.save(path, np.arange(100), chunks=10)
        with pytest.raises(FileChangedError):
            a.refresh()

    def test_nothing_new(self, path: Path) -> None:
        bp.save(path, np.arange(100))
        for where in (path, path.read_bytes(), BytesIO(path.read_bytes())):
            with bp.open(where) as a:
                a.refresh()
                assert a[-1] == 99


def test_numbers_of_python_take_the_dtype_of_the_array(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.array([1, 2], "<i2"))
    with bp.open(path, "a") as a:
        a.append([3])
        a.append([])
        for wrong in ([1 << 20], [0.5], [True, 70000]):
            with pytest.raises(TypeError, match="without loss"):
                a.append(wrong)
        with pytest.raises(TypeError, match="without loss"):
            a.append(np.array([3]))  # an array has a dtype, and int64 does not fit
    np.testing.assert_array_equal(bp.load(path), np.array([1, 2, 3], "<i2"))
    bp.save(path, np.zeros((1, 2), "<f4"))
    with bp.open(path, "a") as a:
        a.append([[0.1, float("nan")]])
        a.append([1, 2])
    expected = np.array([[0, 0], [0.1, np.nan], [1, 2]], "<f4")
    np.testing.assert_array_equal(bp.load(path), expected)


class TestChangedAttrs:
    def test_attrs_set_on_an_open_array_are_written(self, path: Path) -> None:
        bp.save(path, np.arange(3), attrs={"a": 1, "deep": {"list": [1]}})
        with bp.open(path, "a") as array:
            array.attrs["b"] = 2
            array.attrs["deep"]["list"].append({"c": 3})
            del array.attrs["a"]
            array.append([3])
        expected = {"deep": {"list": [1, {"c": 3}]}, "b": 2}
        with bp.open(path) as opened:
            assert opened.attrs == array.attrs == expected
            assert opened[:].tolist() == [0, 1, 2, 3]
        with pytest.raises(TypeError, match="mode 'a'"):
            array.attrs["late"] = 1
        check_trailer(path)

    def test_attrs_of_an_array_saved_without_any(self, path: Path) -> None:
        bp.save(path, np.arange(3))
        with bp.open(path, "a") as array:
            array.attrs["b"] = 2
            array.flush()
            with bp.open(path) as opened:
                assert opened.attrs == {"b": 2}
            array.attrs = {"c": 3}
        with bp.open(path) as opened:
            assert opened.attrs == {"c": 3}

    def test_attrs_of_an_array_open_for_reading_cannot_be_changed(self, path: Path) -> None:
        bp.save(path, np.arange(3), attrs={"a": 1, "deep": {"list": [1]}})
        with bp.open(path) as array:
            for change in (
                lambda: array.attrs.update(b=2),
                lambda: array.attrs["deep"].pop("list"),
                lambda: array.attrs["deep"]["list"].append(2),
                lambda: setattr(array, "attrs", {}),
            ):
                with pytest.raises(TypeError, match=r"the file would not change: .*mode 'a'"):
                    change()
            assert array.attrs == {"a": 1, "deep": {"list": [1]}}

    def test_an_error_goes_back_to_the_attrs_of_the_last_flush(self, path: Path) -> None:
        bp.save(path, np.arange(3), attrs={"a": 1})
        with suppress(KeyError), bp.open(path, "a") as array:
            array.attrs["a"] = 2
            array.flush()
            array.attrs["a"] = 3
            raise KeyError
        with bp.open(path) as opened:
            assert opened.attrs == array.attrs == {"a": 2}

    def test_attrs_of_a_file_that_cannot_store_them(self, path: Path) -> None:
        bp.pack_bytes_to_file(b"abc" * 100, path)
        with bp.open(path, "a") as array:
            with pytest.raises(TypeError, match="no metadata section"):
                array.attrs["a"] = 1
            with pytest.raises(ValueError, match="no metadata section"):
                array.attrs = {"a": 1}
        bp.pack_bytes_to_file(b"abc" * 100, path, metadata={"a": 1})
        with bp.open(path, "a") as array:
            array.attrs["a"] = 2
        with bp.open(path) as opened:
            assert opened.attrs == {"a": 2}


def test_metadata_keep_their_checksum(tmp_path: Path) -> None:
    """In their place, and in a new file if they no longer fit there."""
    path = tmp_path / "a.blp"
    metadata_args = bp.MetadataArgs(meta_checksum="sha1", max_meta_size=200)
    bp.pack_ndarray_to_file(np.arange(3), str(path), metadata_args=metadata_args)
    for text in ("short", "x" * 999):
        with bp.open(path, "a") as array:
            array.update_attrs({"note": text})
        assert bp.load(path).tolist() == [0, 1, 2]
        assert path.read_bytes()[32 + 9] == 4  # the id of SHA-1 in the metadata header
