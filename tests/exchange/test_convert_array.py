"""Copies of arrays: every value and attribute, rounded only on demand, or an error."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.array.parts import PartsJob
from bloscpack.container.reader import Container
from bloscpack.exceptions import (
    BloscpackError,
    FormatError,
    NoSuchCodec,
    NotBloscpackError,
    ObjectNumpyArrayRejection,
    TruncatedError,
    UnsupportedError,
    WrongKindError,
)
from bloscpack.filetypes import arraycopy
from bloscpack.filetypes.convert import open_array
from bloscpack.format.header import FEATURE_ARRAY_CHUNKS, FEATURE_GRID
from bloscpack.format.rounding import ATTRIBUTE
from bloscpack.storage.file import Place

from ..strategies import AnyArray, chunk_shapes, dtypes, fill, shapes


@pytest.fixture
def array() -> AnyArray:
    return np.random.default_rng(2).standard_normal((50, 30)).astype("f4")


def is_same(one: AnyArray, other: AnyArray) -> bool:
    # In memory order: copies need not have the bytes between the fields of a structured dtype.
    found = [(each.dtype, each.shape, each.tobytes("A")) for each in (one, other)]
    return found[0] == found[1]


@given(
    dtype=dtypes, shape=shapes, order=st.sampled_from("CF"), suffix=st.sampled_from(["npy", "b"])
)
def test_any_array(dtype: Any, shape: Any, order: Any, suffix: str, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    array = np.asarray(fill(dtype, shape, 1), order=order)
    source = folder / f"array.{suffix}"
    if suffix == "npy":
        try:
            np.save(source, array)
        except ValueError:  # overlapping fields
            assume(False)
        array = np.load(source)  # a dtype that .npy cannot express comes back as another
    else:
        bp.save(source, array, attrs={"a": [1]})
    done = bp.convert(source, folder / "copy.blp", to="array", overwrite=True)
    nrows = 1 if not shape else shape[-1 if bp.open(folder / "copy.blp").is_fortran else 0]
    assert (done.kind, done.clips, done.frames, done.lossless) == ("array", 1, nrows, True)
    with bp.open(folder / "copy.blp") as copy:
        assert is_same(copy[...] if copy.ndim else copy.read(), array)
        assert copy.attrs == ({} if suffix == "npy" else {"a": [1]})


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("form", ["npy", "blp", "bytes"])
def test_the_bytes_of_save(form: str, order: Any, tmp_path: Path) -> None:
    """Blocks of several chunks, and an array large enough to try block sizes."""
    array = np.random.default_rng(2).standard_normal((1100, 1001)).astype("f4")
    array = np.asarray(array, order=order)
    source: Any = tmp_path / "source"
    if form == "blp":
        bp.save(source, array, chunks=100, attrs={"unit": "K"})
    else:
        with source.open("wb") as stream:
            np.save(stream, array)
    seen: list[tuple[int, int]] = []
    done = bp.convert(
        source.read_bytes() if form == "bytes" else source,
        tmp_path / "copy.blp",
        keepbits=9,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert not done.lossless
    assert seen[-1] == (2 * array.nbytes, 2 * array.nbytes)
    options: Any = {"chunks": 100, "attrs": {"unit": "K"}} if form == "blp" else {}
    bp.save(tmp_path / "saved.blp", array, keepbits=9, **options)
    assert (tmp_path / "copy.blp").read_bytes() == (tmp_path / "saved.blp").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.blp", "saved.blp", "source"]


def test_chunks_that_cut_rows(tmp_path: Path, array: AnyArray) -> None:
    bp.pack_ndarray_to_file(array, tmp_path / "a.blp", chunk_size=1000)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="array")
    assert is_same(bp.load(tmp_path / "b.blp"), array)


class TestRoundedBefore:
    @pytest.fixture
    def path(self, tmp_path: Path, array: AnyArray) -> Path:
        bp.save(tmp_path / "a.blp", array, keepbits=9)
        return tmp_path / "a.blp"

    @pytest.mark.parametrize("keepbits", [None, 9])
    def test_equal(self, keepbits: int | None, path: Path) -> None:
        done = bp.convert(path, path.parent / "b.blp", to="array", keepbits=keepbits)
        assert done.lossless
        assert (path.parent / "b.blp").read_bytes() == path.read_bytes()

    def test_fewer(self, path: Path, array: AnyArray) -> None:
        assert not bp.convert(path, path.parent / "b.blp", keepbits=4).lossless
        bp.save(path.parent / "c.blp", bp.load(path), keepbits=4)
        assert (path.parent / "b.blp").read_bytes() == (path.parent / "c.blp").read_bytes()

    def test_more(self, path: Path) -> None:
        with pytest.raises(ValueError, match=f"{ATTRIBUTE} is 9.*keepbits=12"):
            bp.convert(path, path.parent / "b.blp", keepbits=12)
        assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("rows", [slice(0, 1), slice(49, 50)])
@pytest.mark.parametrize("keepbits", [None, 5])
def test_comparison(
    keepbits: int | None, rows: slice, tmp_path: Path, array: AnyArray, monkeypatch: Any
) -> None:
    """A copy that differs is found and removed."""
    np.save(tmp_path / "a.npy", array)
    stored = PartsJob._stored

    def wrong(self: Any, block: Any) -> Any:
        block = block.copy()
        block[rows] *= 2
        return stored(self, block)

    monkeypatch.setattr(PartsJob, "_stored", wrong)
    with pytest.raises(FormatError, match=r"the copy differs .*: the items \[0:50, 0:30\]"):
        bp.convert(tmp_path / "a.npy", tmp_path / "b.blp", to="array", keepbits=keepbits)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npy"]
    bp.convert(tmp_path / "a.npy", tmp_path / "b.blp", to="array", verify=False)
    assert not is_same(bp.load(tmp_path / "b.blp"), array)


def test_lost_attrs(tmp_path: Path, array: AnyArray, monkeypatch: Any) -> None:
    bp.save(tmp_path / "a.blp", array, attrs={"unit": "K"})
    monkeypatch.setattr(arraycopy, "PartsJob", lambda *a, **o: PartsJob(*a, **{**o, "attrs": {}}))
    with pytest.raises(FormatError, match="was removed: the attrs"):
        bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="array")


@pytest.mark.parametrize(("codec", "features"), [("auto", FEATURE_ARRAY_CHUNKS), ("lz4", 0)])
def test_codec(array: AnyArray, tmp_path: Path, codec: str, features: int) -> None:
    bp.save(tmp_path / "a.blp", array)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="array", codec=codec)
    assert bp.load(tmp_path / "b.blp").tobytes() == array.tobytes()
    with bp.open(tmp_path / "b.blp") as a:
        assert a.header.features == features


class TestChunks:
    @pytest.fixture(params=["C", "F"])
    def cube(self, request: Any) -> AnyArray:
        return np.asarray(fill(np.dtype("<i2"), (20, 31, 17), 1), order=request.param)

    @pytest.mark.parametrize("chunks", [(7, 8, 9), 3, None])
    def test_those_of_the_source(self, chunks: Any, tmp_path: Path, cube: AnyArray) -> None:
        bp.save(tmp_path / "a.blp", cube, chunks=chunks, attrs={"a": 1})
        bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="array")
        assert (tmp_path / "a.blp").read_bytes() == (tmp_path / "b.blp").read_bytes()

    @pytest.mark.parametrize(
        "options",
        [
            {"chunks": (5, 31, 4)},
            {"chunks": 4},
            {"chunks": "auto", "access": "tiles"},
            {"chunks": 4, "codec": "lz4", "clevel": 9, "shuffle": "bit"},
        ],
    )
    def test_others(self, options: Any, tmp_path: Path, cube: AnyArray) -> None:
        bp.save(tmp_path / "a.blp", cube, chunks=(7, 8, 9))
        np.save(tmp_path / "a.npy", cube)
        bp.save(tmp_path / "saved.blp", cube, **options)
        for name in ("a.blp", "a.npy"):
            bp.convert(tmp_path / name, tmp_path / "b.blp", overwrite=True, **options)
            assert (tmp_path / "b.blp").read_bytes() == (tmp_path / "saved.blp").read_bytes()

    def test_each_chunk_of_a_grid_is_decoded_twice_at_most(
        self, tmp_path: Path, cube: AnyArray, monkeypatch: Any
    ) -> None:
        bp.save(tmp_path / "a.blp", cube, chunks=(7, 8, 9))
        monkeypatch.setattr(arraycopy, "PART_NBYTES", 1)
        with bp.open(tmp_path / "a.blp") as a:
            nchunks = a.nchunks
        seen = []
        fetch = Container.fetch

        def counted(self: Container, index: int, *args: Any, **options: Any) -> Any:
            seen.append(index)
            return fetch(self, index, *args, **options)

        monkeypatch.setattr(Container, "fetch", counted)
        bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="v3", chunks=2, verify=False)
        monkeypatch.undo()
        assert max(seen.count(index) for index in range(nchunks)) <= 2
        assert is_same(bp.load(tmp_path / "b.blp"), cube)


@pytest.mark.parametrize("order", ["C", "F"])
def test_parts_of_a_npy_file(tmp_path: Path, order: Any) -> None:
    array = np.arange(4 * 5 * 6).reshape(4, 5, 6)
    array = array if order == "C" else array.T
    np.save(tmp_path / "a.npy", array)
    step = 1 if order == "C" else -1
    every = slice(None)
    with open_array(Place(tmp_path / "a.npy")) as source:
        rows = source.rows
        for stored in (
            (every, every, every),
            (slice(1, 3), every, every),
            (slice(2, 3), slice(1, 4), every),
            (slice(3, 4), slice(2, 3), slice(2, 5)),
            (slice(1, 1), every, every),
        ):
            place = stored[::step]
            found = rows.read(place)
            assert found.shape == array[place].shape
            assert np.array_equal(found, array[place])
        place = (slice(0, 2), slice(1, 3), slice(2, 6))[::step]  # items that are not adjacent
        assert np.array_equal(rows.read(place), array[place])


class TestVersion3:
    @given(
        dtype=dtypes,
        shape=shapes,
        order=st.sampled_from("CF"),
        codec=st.sampled_from(["auto", "zstd"]),
        data=st.data(),
    )
    def test_the_bytes_of_save(
        self, dtype: Any, shape: Any, order: Any, codec: str, data: Any, tmp_path_factory: Any
    ) -> None:
        folder = tmp_path_factory.getbasetemp()
        array = np.asarray(fill(dtype, shape, 1), order=order)
        chunks = data.draw(chunk_shapes(shape)) if shape else None
        bp.save(folder / "a.blp", array, chunks=chunks, codec=codec, attrs={"a": [1]})
        bp.convert(folder / "a.blp", folder / "v3.blp", to="v3", overwrite=True)
        with bp.open(folder / "a.blp") as source:
            if source.header.features & FEATURE_GRID or not array.nbytes:
                chunks = None
        array = bp.load(folder / "a.blp")  # with the same bytes between fields
        bp.save(folder / "saved.blp", array, chunks=chunks, attrs={"a": [1]})
        assert (folder / "v3.blp").read_bytes() == (folder / "saved.blp").read_bytes()
        with bp.open(folder / "v3.blp") as copy:
            assert copy.header.format_version == 3

    @pytest.mark.parametrize("options", [{"codec": "auto"}, {"chunks": (20, 7)}])
    def test_what_needs_version_4(self, options: Any, tmp_path: Path, array: AnyArray) -> None:
        bp.save(tmp_path / "a.blp", array)
        with pytest.raises(ValueError, match="version 3 has chunks of whole rows"):
            bp.convert(tmp_path / "a.blp", tmp_path / "b.blp", to="v3", **options)
        assert [path.name for path in tmp_path.iterdir()] == ["a.blp"]


class TestErrors:
    @pytest.fixture
    def path(self, tmp_path: Path, array: AnyArray) -> Path:
        np.save(tmp_path / "a.npy", array)
        return tmp_path / "a.npy"

    def fails(self, path: Any, kind: type[Exception], message: str, **options: Any) -> None:
        folder = Path(path if isinstance(path, str | Path) else path[0]).parent
        before = sorted(folder.iterdir())
        with pytest.raises(kind, match=message):
            bp.convert(path, folder / "b.blp", **{"to": "array", **options})
        assert sorted(folder.iterdir()) == before

    def test_options(self, path: Path) -> None:
        given = {"keepbits": 3, "chunks": 5, "access": "rows", "clevel": 1, "shuffle": "bit"}
        for name, value in given.items():
            message = f"{name} is for a copy of type 'array' .*, not of type 'frames'"
            self.fails(path, ValueError, message, to="frames", **{name: value})
        self.fails(path, ValueError, "needs chunks='auto'", access="rows")
        for name, value in (("crf", 3), ("preset", "fast"), ("preset", "")):
            self.fails(path, ValueError, f"{name} is for .*, not of type 'array'", **{name: value})
        self.fails(path, NoSuchCodec, "codec 'hevc' does not exist", codec="hevc")
        self.fails([path, path], UnsupportedError, "from one file")
        self.fails(path, ValueError, "keepbits must be 1 to 23", keepbits=24)
        self.fails(path, TypeError, "keepbits must be an integer", keepbits="3")

    def test_dtype(self, path: Path) -> None:
        np.save(path, np.arange(3))
        self.fails(path, UnsupportedError, "keepbits rounds float16", keepbits=3)
        np.save(path, np.array([{}]), allow_pickle=True)
        for target in ("blp", "npy", "npz"):
            with pytest.raises(ObjectNumpyArrayRejection, match=r"npy: .* of Python objects"):
                bp.convert(path, path.with_name(f"x.{target}"))

    def test_other_files(self, path: Path) -> None:
        path.write_bytes(b"PAR1" + bytes(100))
        self.fails(path, WrongKindError, "Parquet")
        with bp.frames.create(path.parent / "clips.blp") as store:
            store.append("a", np.zeros((3, 4, 4), "u1"))
            store.append("b", np.zeros((3, 4, 4), "u1"))
        self.fails(path.parent / "clips.blp", ValueError, "2 clips, and an array is made of one")
        (path.parent / "folder").mkdir()
        self.fails(path.parent / "folder", NotBloscpackError, "folder: a folder.*: it is empty")
        self.fails(path.parent / "missing", FileNotFoundError, "missing")

    def test_target(self, path: Path, array: AnyArray) -> None:
        (path.parent / "b.blp").write_text("mine")
        self.fails(path, FileExistsError, "exists already")
        bp.convert(path, path.parent / "b.blp", to="array", overwrite=True)
        assert is_same(bp.load(path.parent / "b.blp"), array)

    def test_truncated(self, path: Path) -> None:
        data = path.read_bytes()
        for nbytes in (6, 8, 9, 100, 128, len(data) - 1):
            path.write_bytes(data[:nbytes])
            self.fails(path, FormatError, r"\.npy file")
        self.fails(path, TruncatedError, "found 5999 of 6000 bytes of items")

    def test_npy_versions(self, path: Path) -> None:
        data = path.read_bytes()
        path.write_bytes(data[:6] + b"\4" + data[7:])
        self.fails(path, UnsupportedError, r"version \(4, 0\)")

    def test_hostile_headers(self, path: Path) -> None:
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }"
        shapes = [
            b"-1,",
            b"2,-3",
            b"10**30,",
            b"9" * 30 + b",",
            b"2.5,",
            b"1" + b",1" * 80,
            b"True,",
            b"0,%d" % 10**30,
            b"0,%d" % 2**63,
        ]
        for shape in shapes:
            text = header % shape
            path.write_bytes(b"\x93NUMPY\1\0" + len(text).to_bytes(2, "little") + text + bytes(64))
            with pytest.raises(BloscpackError):
                bp.convert(path, path.parent / "b.blp", to="array")
