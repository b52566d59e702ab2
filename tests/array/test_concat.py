"""Several files as one array."""

import multiprocessing
import pickle
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.array.concat import ManyArrays
from bloscpack.exceptions import FileChangedError, FormatError
from bloscpack.storage.folder.filelist import expanded

from ..openfiles import open_files
from ..servers import FileServer, S3Server, running

LENGTHS = [7, 1, 12, 5, 3]
WHOLE = np.arange(sum(LENGTHS) * 12, dtype="<i4").reshape(-1, 4, 3)
STARTS = [0, 7, 8, 20, 25, 28]


def shards() -> Iterator[tuple[str, np.ndarray]]:
    for number, (start, stop) in enumerate(pairwise(STARTS)):
        yield f"shard-{number}.blp", WHOLE[start:stop]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    for number, (name, part) in enumerate(shards()):
        # One in Fortran order: each file may have its own memory order.
        array = np.asfortranarray(part) if number == 2 else part
        bp.save(folder / name, array, chunks=2, attrs={"number": number})
    (folder / "other.txt").touch()
    return folder


@pytest.fixture
def many(folder: Path) -> Iterator[ManyArrays]:
    with bp.open_many(folder / "shard-*.blp") as many:
        yield many


def test_facts(many: ManyArrays, folder: Path) -> None:
    assert many.shape == (28, 4, 3)
    assert many.dtype == np.dtype("<i4")
    assert (many.ndim, many.size, many.nbytes, len(many)) == (3, 336, 1344, 28)
    assert many.attrs == {"number": 0}
    assert many.starts == STARTS
    assert many.names == [str(folder / f"shard-{n}.blp") for n in range(5)]
    assert repr(many) == "<bloscpack.ManyArrays of 5 files shape=(28, 4, 3) dtype=int32>"
    assert many.chunks is None


def test_common_chunks(folder: Path) -> None:
    paths = [folder / f"shard-{n}.blp" for n in (0, 1, 3)]
    with bp.open_many(paths) as many:
        assert many.chunks == (2, 4, 3)


INDICES: list[Any] = [
    0,
    -1,
    7,
    -28,
    np.int64(8),
    slice(None),
    slice(3, 26),
    slice(3, 26, 4),
    slice(None, None, -1),
    slice(25, 2, -3),
    slice(5, 5),
    slice(7, 8),
    ...,
    (..., 1),
    (slice(2, 22, 5), slice(None), -1),
    (9, slice(None), slice(None, None, -2)),
    ([27, 0, 8, 8, 19, 7],),
    ([3, 4, 20], slice(1, 3)),
    ([],),
    (slice(None), [2, 0], 1),
    np.arange(28) % 3 == 0,
    (None, 5, None),
    (13, 2, 1),
    np.array([[1, 2], [26, 9]]),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_it_indexes_as_numpy(many: ManyArrays, index: Any) -> None:
    found, expected = many[index], WHOLE[index]
    assert np.array_equal(found, expected)
    assert np.shape(found) == np.shape(expected)
    assert np.array_equal(many.read(index), expected)
    out = np.empty(np.shape(expected), "<i4")
    assert many.read(index, out=out) is out
    assert np.array_equal(out, expected)


@given(st.data())
def test_any_rows(folder: Path, data: st.DataObject) -> None:
    bound = st.none() | st.integers(-40, 40)
    index = data.draw(
        st.builds(slice, bound, bound, st.none() | st.sampled_from([1, 2, 5, -1, -3, -30]))
        | st.lists(st.integers(-28, 27), max_size=12).map(lambda rows: np.array(rows, int))
    )
    with bp.open_many(folder / "shard-*.blp") as many:
        assert np.array_equal(many[index], WHOLE[index])


@pytest.mark.parametrize("index", [28, -29, (0, 4), [28], (0, 0, 0, 0)])
def test_out_of_bounds(many: ManyArrays, index: Any) -> None:
    with pytest.raises(IndexError):
        many[index]


def test_everything(many: ManyArrays) -> None:
    assert np.array_equal(np.asarray(many), WHOLE)
    assert np.array_equal(many.read_whole(), WHOLE)
    assert np.asarray(many, "f8").dtype == np.float64
    assert np.array_equal(np.stack(list(many)), WHOLE)
    with pytest.raises(ValueError, match="copy"):
        many.__array__(copy=False)
    with pytest.raises(TypeError, match="cannot be changed in place"):
        many[0] = 1


@pytest.mark.parametrize("max_open", [1, 2, 64])
def test_few_are_open(folder: Path, max_open: int) -> None:
    paths = sorted(folder.glob("*.blp"))
    many = ManyArrays(paths, max_open=max_open, nthreads=1)
    for _ in range(3):
        assert np.array_equal(many[::3], WHOLE[::3])
        assert len(many._open) <= max_open
        assert len(open_files(folder)) <= min(max_open, 5)
    assert np.array_equal(ManyArrays(paths, max_open=max_open, nthreads=4)[:], WHOLE)


def test_a_list_keeps_its_order(folder: Path) -> None:
    paths = [str(folder / "shard-3.blp"), folder / "shard-0.blp"]
    with bp.open_many(paths) as many:
        assert np.array_equal(many[:], np.concatenate([WHOLE[20:25], WHOLE[:7]]))
        assert many.attrs == {"number": 3}


def test_bytes(folder: Path) -> None:
    contents = [path.read_bytes() for path in sorted(folder.glob("*.blp"))]
    with bp.open_many(contents) as many:
        assert np.array_equal(many[5:9], WHOLE[5:9])
        assert np.array_equal(pickle.loads(pickle.dumps(many))[5:9], WHOLE[5:9])


def test_a_handle_travels(many: ManyArrays, folder: Path) -> None:
    data = pickle.dumps(many)
    assert len(data) < 3000
    again = pickle.loads(data)
    assert len(again._open) == 0
    assert np.array_equal(again[::5], WHOLE[::5])
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.array_equal(pool.apply(many.__getitem__, (9,)), WHOLE[9])


def test_a_file_that_was_replaced(folder: Path, tmp_path: Path) -> None:
    for name, part in shards():
        bp.save(tmp_path / name, part, chunks=2)
    many = bp.open_many(tmp_path / "*.blp")
    again = pickle.loads(pickle.dumps(many))
    bp.save(tmp_path / "shard-2.blp", -WHOLE[8:20], chunks=2)
    assert np.array_equal(again[:8], WHOLE[:8])
    with pytest.raises(FileChangedError, match=r"shard-2\.blp"):
        again[9]


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    for name, part in shards():
        bp.save(tmp_path / name, part, chunks=2)
    with bp.open(tmp_path / "shard-3.blp") as array:
        place = array.chunk_offset(1) + 40
    many = bp.open_many(tmp_path / "*.blp")
    with (tmp_path / "shard-3.blp").open("r+b") as stream:
        stream.seek(place)
        stream.write(b"\xff\x00\xff")
    with pytest.raises(FormatError, match=r"shard-3\.blp: chunk 1"):
        many[:]
    assert np.array_equal(many[:22], WHOLE[:22])


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (WHOLE.astype("<i8"), "int64"),
        (WHOLE[:, :2], r"shape \(2, 3\)"),
        (np.float32(3), "without dimensions"),
    ],
)
def test_files_must_agree(folder: Path, tmp_path: Path, other: Any, words: str) -> None:
    bp.save(tmp_path / "x.blp", other)
    with pytest.raises(ValueError, match=rf"x\.blp: .*{words}"):
        bp.open_many([folder / "shard-0.blp", tmp_path / "x.blp"])


def test_items_must_have_one_meaning(tmp_path: Path) -> None:
    attrs: dict[str, Any] = {"units": "K", "_FillValue": float("nan"), "note": "a"}
    for name, changes in (("a", {}), ("b", {"note": "b"}), ("c", {"units": "degC"})):
        bp.save(tmp_path / f"{name}.blp", WHOLE, attrs=attrs | changes)
    bp.save(tmp_path / "d.blp", WHOLE)
    with bp.open_many([tmp_path / "a.blp", tmp_path / "b.blp"]) as many:
        assert many.attrs["note"] == "a"
    for name, words in (("c", "'degC'.* differ from .*'K'"), ("d", "{} differ from .*'K'")):
        with pytest.raises(ValueError, match=rf"{name}\.blp: the attrs .*{words}"):
            bp.open_many([tmp_path / "a.blp", tmp_path / f"{name}.blp"])
    for name, values in (("e", [1, 2]), ("f", [1, 3])):
        bp.save(tmp_path / f"{name}.blp", WHOLE, attrs=attrs | {"flag_values": values})
    with pytest.raises(ValueError, match=r"'flag_values': \[1, 3\].* differ"):
        bp.open_many([tmp_path / "e.blp", tmp_path / "f.blp"])


def test_coordinates_of_rows_are_those_of_one_file(tmp_path: Path) -> None:
    even = {"dims": ["t"], "dtype": "<i8", "data": {"start": 0, "step": 1}}
    coords: dict[str, Any] = {"t": even, "run": 3, "x": [1, 2, 3], "far": even}
    labels = {"dims": ["t", "y", "x"], "coords": coords}
    for name in "ab":
        bp.save(tmp_path / f"{name}.blp", WHOLE[:5], attrs=labels)
    with bp.open_many(tmp_path / "[ab].blp") as many:
        bp.save(tmp_path / "c.blp", many)
    with bp.open(tmp_path / "c.blp") as both:
        assert both.shape[0] == 10
        assert {*both.coords} == {"run", "x"}
    with bp.open_many(tmp_path / "a.blp") as one:
        assert one.attrs == labels


def test_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"shard-\*"):
        bp.open_many(tmp_path / "shard-*.blp")
    with pytest.raises(FileNotFoundError):
        bp.open_many(tmp_path / "shard.blp")
    with pytest.raises(ValueError, match="at least one"):
        bp.open_many([])
    for wrong in (b"bytes", 5, None):
        with pytest.raises(TypeError):
            bp.open_many(wrong)  # type: ignore[arg-type]


def test_closed(many: ManyArrays) -> None:
    many.close()
    many.close()
    assert many.shape == WHOLE.shape
    assert "closed" in repr(many)
    for use in (lambda: many[3], lambda: many[:], lambda: pickle.dumps(many), lambda: [*many]):
        with pytest.raises(ValueError, match="closed"):
            use()


def test_empty_files(tmp_path: Path) -> None:
    for number in range(3):
        bp.save(tmp_path / f"{number}.blp", np.zeros((0, 3)))
    with bp.open_many(tmp_path / "*.blp") as many:
        assert many.shape == (0, 3)
        assert many[:].shape == (0, 3)
        assert list(many) == []


class TestPatterns:
    def test_in_folders(self, tmp_path: Path) -> None:
        for number in (3, 1, 2):
            (tmp_path / str(number)).mkdir()
            bp.save(tmp_path / str(number) / "a.blp", np.full((2, 2), number))
        with bp.open_many(tmp_path / "**" / "a.blp") as many:
            assert many[::2, 0].tolist() == [1, 2, 3]
        found = expanded([tmp_path / "2" / "a.blp", tmp_path / "[13]" / "*.blp"])
        assert [Path(path).parent.name for path in found] == ["2", "1", "3"]

    def test_a_name_that_looks_like_one(self, tmp_path: Path) -> None:
        bp.save(tmp_path / "a[1].blp", WHOLE)
        with bp.open_many(tmp_path / "a[1].blp") as many:
            assert np.array_equal(many[:], WHOLE)

    def test_of_frame_stores(self, tmp_path: Path) -> None:
        for number in range(3):
            with bp.frames.create(tmp_path / f"{number}.blp") as store:
                store.append(f"c{number}", WHOLE)
        with bp.frames.open(tmp_path / "?.blp") as stores:
            assert list(stores) == ["c0", "c1", "c2"]
        with pytest.raises(ValueError, match="mode"):
            bp.frames.open(tmp_path / "?.blp", "a")

    def test_of_frame_stores_behind_urls(self, server: S3Server, tmp_path: Path) -> None:
        for number in range(3):
            with bp.frames.create(tmp_path / "a.blp", overwrite=True) as store:
                store.append(f"c{number}", WHOLE)
            server.put(f"part-{number}.blp", (tmp_path / "a.blp").read_bytes())
        with bp.frames.open("s3://box/part-*.blp", storage_options=server.options) as stores:
            assert list(stores) == ["c0", "c1", "c2"]
            assert np.array_equal(stores["c1"][2:4], WHOLE[2:4])


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[S3Server]:
    with running(S3Server()) as server:
        for path in folder.glob("*.blp"):
            server.put(path.name, path.read_bytes())
        yield server


class TestRemote:
    def test_a_pattern(self, server: S3Server) -> None:
        server.clear()
        with bp.open_many("s3://box/shard-*.blp", storage_options=server.options) as many:
            assert many.names == [f"s3://box/shard-{n}.blp" for n in range(5)]
            gets = [request for request in server.log if request.range]
            assert len(gets) == 5
            assert np.array_equal(many[::3], WHOLE[::3])
            # They are so small that opening fetches them whole.
            assert len([request for request in server.log if request.range]) == 5
            data = pickle.dumps(many)
        assert len(data) < 4000
        assert np.array_equal(pickle.loads(data)[9], WHOLE[9])

    def test_a_pattern_without_files(self, server: S3Server) -> None:
        with pytest.raises(FileNotFoundError, match=r"s3://box/none-\*"):
            bp.open_many("s3://box/none-*.blp", storage_options=server.options)

    def test_a_pattern_is_looked_for_each_time(self, server: S3Server) -> None:
        pattern = "s3://box/later-*"
        server.put("later-0", b"")
        assert expanded(pattern, server.options) == ["s3://box/later-0"]
        server.put("later-1", b"")
        assert expanded(pattern, server.options) == ["s3://box/later-0", "s3://box/later-1"]

    def test_files_that_match_a_pattern(self) -> None:
        """As for local paths: no folders, and hidden files only if the pattern names them."""
        memory = fsspec.filesystem("memory")
        for name in ("a-0", "a-1", "[2]", ".hid", "sub/b", "sub/.hid", ".sub/c"):
            memory.pipe_file(f"/patterns/{name}", b"")
        root = "memory://patterns/"
        for pattern, names in {
            "*": ["[2]", "a-0", "a-1"],
            "**": ["[2]", "a-0", "a-1", "sub/b"],
            "**/b": ["sub/b"],
            ".*": [".hid"],
            "[[]2]": ["[2]"],
            "a-[1-9]*": ["a-1"],
        }.items():
            assert expanded(root + pattern) == [root + name for name in names], pattern
        with pytest.raises(FileNotFoundError, match="none"):
            expanded(root + "none*")

    def test_a_pattern_keeps_the_place(self) -> None:
        """Some file systems list names without the host; the result must still contain it."""
        implementation = type(fsspec.filesystem("memory"))

        class Hosted(implementation):  # type: ignore[misc, valid-type]
            protocol = "hosted"

            @classmethod
            def _strip_protocol(cls, path: str) -> str:
                return "/" + path.removeprefix("hosted://").partition("/")[2].rstrip("/")

        fsspec.register_implementation("hosted", Hosted, clobber=True)
        fsspec.filesystem("memory").pipe_file("/place/a-0", b"")
        found = expanded("hosted://me@host:22/place/*")
        assert found == ["hosted://me@host:22/place/a-0"]

    def test_options_are_for_the_urls_of_a_list(self, server: S3Server, folder: Path) -> None:
        paths = [folder / "shard-0.blp", "s3://box/shard-1.blp"]
        with bp.open_many(paths, storage_options=server.options) as many:
            assert np.array_equal(many[:], WHOLE[:8])
        with pytest.raises(ValueError, match="storage_options"):
            bp.open_many(paths[:1], storage_options=server.options)

    def test_urls_and_paths(self, folder: Path) -> None:
        with running(FileServer()) as server:
            server.files["/a.blp"] = (folder / "shard-1.blp").read_bytes()
            with bp.open_many([folder / "shard-0.blp", server.url("a.blp?key=[1]*")]) as many:
                assert np.array_equal(many[:], WHOLE[:8])
                assert len(server.log) == 1
