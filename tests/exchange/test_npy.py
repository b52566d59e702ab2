"""Arrays copied to and from ``.npy`` files, and clips of frames."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning, FormatError, NotFoundError, UnsupportedError
from bloscpack.filetypes import arraysource

from ..strategies import dtypes, fill, shapes
from .conversions import (
    assert_differences_are_found,
    assert_interrupted_run_leaves_nothing,
    assert_same,
)


@given(
    dtype=dtypes, shape=shapes, order=st.sampled_from("CF"), nbytes=st.sampled_from([9, 1 << 20])
)
def test_any_array(dtype: Any, shape: Any, order: Any, nbytes: int, tmp_path_factory: Any) -> None:
    folder = tmp_path_factory.getbasetemp()
    array = np.asarray(fill(dtype, shape, 1), order=order)
    bp.save(folder / "a.blp", array)
    array = bp.load(folder / "a.blp")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arraysource, "PART_NBYTES", nbytes)
        try:
            done = bp.convert(folder / "a.blp", folder / "a.npy", overwrite=True)
        except UnsupportedError as err:
            assert "cannot hold items of" in str(err)  # noqa: PT017 - a type of ml_dtypes
            return
    assert (done.kind, done.clips, done.lossless) == ("npy", 1, True)
    found = np.load(folder / "a.npy")
    assert_same(found, array)
    assert found.flags.f_contiguous == array.flags.f_contiguous


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("chunks", [None, 3, (4, 5, 6)])
def test_parts_of_all_chunks(order: Any, chunks: Any, tmp_path: Path, monkeypatch: Any) -> None:
    array = np.asarray(fill(np.dtype("<i4"), (11, 13, 17), 1), order=order)
    bp.save(tmp_path / "a.blp", array, chunks=chunks)
    for nbytes in (1, 500, 5000):
        monkeypatch.setattr(arraysource, "PART_NBYTES", nbytes)
        bp.convert(tmp_path / "a.blp", tmp_path / "a.npy", overwrite=True)
        assert_same(np.load(tmp_path / "a.npy"), array)


def test_attrs_are_reported_as_lost(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(3), attrs={"unit": "K"})
    with pytest.warns(BloscpackWarning, match="left out: attribute 'unit' of the array"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.npy")


def test_no_trace_of_a_copy_that_fails(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(arraysource, "PART_NBYTES", 1000)
    bp.save(tmp_path / "a.blp", np.arange(1000))
    assert_interrupted_run_leaves_nothing(tmp_path / "a.blp", "b.npy", monkeypatch)
    assert_differences_are_found(tmp_path / "a.blp", "b.npy", monkeypatch)


def test_options_of_other_types(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(8.0))
    for options in ({"keepbits": 3}, {"chunks": 2}, {"codec": "lz4"}, {"clevel": 1}):
        with pytest.raises(ValueError, match=r"is for a copy of type .*, not of type 'npy'"):
            bp.convert(tmp_path / "a.blp", tmp_path / "a.npy", to="npy", **options)
    with pytest.raises(ValueError, match="preset is for a copy of type 'frames'"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.npy", preset="small")
    assert [path.name for path in tmp_path.iterdir()] == ["a.blp"]


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': (",
        "{[]: 1}",
        "{1: 2, 'a': 3}",
        "{'descr': ('a',), 'fortran_order': False, 'shape': (1,)}",
        "{'descr': 'zz', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': ('<i4', (2, 2)), 'fortran_order': False, 'shape': (1,)}",
        # numpy divides by it, and ends the process
        "{'descr': '<M8[D/0]', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<M8[0s]', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': [('t', 'timedelta64[s\\x2f0]')], 'fortran_order': False, 'shape': (1L,)}",
    ],
)
def test_damaged_headers(header: str, tmp_path: Path) -> None:
    head = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little")
    (tmp_path / "a.npy").write_bytes(head + header.encode() + bytes(64))
    with pytest.raises(FormatError, match=r"a\.npy: \.npy file: "):
        bp.convert(tmp_path / "a.npy", tmp_path / "a.blp")


def test_integers_as_python_2_wrote_them(tmp_path: Path) -> None:
    header = b"{'descr': [('5L, m/s', '<i4')], 'fortran_order': False, 'shape': (2L, 1L)}"
    head = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
    (tmp_path / "a.npy").write_bytes(head + bytes(8))
    bp.convert(tmp_path / "a.npy", tmp_path / "a.blp")
    assert bp.load(tmp_path / "a.blp").shape == (2, 1)


def test_more_axes_than_numpy_has(tmp_path: Path) -> None:
    header = repr({"descr": "|u1", "fortran_order": False, "shape": (1,) * 65}).encode()
    head = b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header
    (tmp_path / "a.npy").write_bytes(head + b"\7")
    with pytest.raises(FormatError, match=r"a\.npy: \.npy file: .*65"):
        bp.convert(tmp_path / "a.npy", tmp_path / "a.blp")


class TestClips:
    """Arrays of frames become clips, and clips become arrays."""

    @pytest.fixture
    def frames(self) -> Any:
        return fill(np.dtype("<u2"), (9, 6, 8, 3), 1)

    def test_both_ways(self, frames: Any, tmp_path: Path) -> None:
        np.save(tmp_path / "walk.npy", frames)
        done = bp.convert(tmp_path / "walk.npy", tmp_path / "walk.blp", to="frames")
        assert (done.kind, done.clips, done.frames) == ("frames", 1, 9)
        with bp.frames.open(tmp_path / "walk.blp") as store:
            assert list(store) == ["walk"]
            assert_same(store["walk"][:], frames)
        bp.convert(tmp_path / "walk.blp", tmp_path / "again.npy")
        assert_same(np.load(tmp_path / "again.npy"), frames)

    def test_the_clip_is_named(self, frames: Any, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "clips.blp") as store:
            store.append("a/b", frames, {"label": 1})
            store.append("c", frames[:2])
        bp.convert(f"{tmp_path}/clips.blp::/a/b", tmp_path / "b.blp", to="array")
        with bp.open(tmp_path / "b.blp") as a:
            assert_same(a[...], frames)
            assert a.attrs == {"label": 1}
        with pytest.raises(NotFoundError, match="'d'"):
            bp.convert(f"{tmp_path}/clips.blp::/d", tmp_path / "d.npy")
        with pytest.raises(ValueError, match=r"2 clips.*name it, such as .*clips\.blp::/a/b'"):
            bp.convert(tmp_path / "clips.blp", tmp_path / "d.npy")

    def test_an_array_that_is_not_of_frames(self, tmp_path: Path) -> None:
        np.save(tmp_path / "a.npy", np.zeros((3, 3)))
        with pytest.raises(ValueError, match=r"shape \(3, 3\) is not a clip of frames"):
            bp.convert(tmp_path / "a.npy", tmp_path / "a.blp", to="frames")


NAMES = ("\u6e29", "größe", "\U0001f600", "a'b\\c", "tab\t", "\ud800")


@pytest.mark.filterwarnings("ignore:Stored array in format")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_names_of_fields_in_any_script(name: str, order: Any, tmp_path: Path) -> None:
    array = np.zeros((2, 3), [(name, "<f4"), ("\u6e29\u5ea6", ">i2", (2,))], order=order)
    array["\u6e29\u5ea6"] = 7
    np.save(tmp_path / "a.npy", array)
    bp.convert(tmp_path / "a.npy", tmp_path / "a.blp", strict=True)
    assert_same(bp.load(tmp_path / "a.blp"), array)
    bp.convert(tmp_path / "a.blp", tmp_path / "b.npy", strict=True)
    assert (tmp_path / "b.npy").read_bytes()[6] == (tmp_path / "a.npy").read_bytes()[6]
    assert_same(np.load(tmp_path / "b.npy"), array)
    assert_same(np.load(tmp_path / "b.npy", mmap_mode="r"), array)


@pytest.mark.filterwarnings("ignore:Stored array in format")
def test_many_names_of_fields(tmp_path: Path) -> None:
    array = np.zeros(2, [(f"{k}\u6e29\u6e29\u6e29", "<f4") for k in range(450)])
    np.save(tmp_path / "a.npy", array)
    bp.convert(tmp_path / "a.npy", tmp_path / "a.blp")
    bp.convert(tmp_path / "a.blp", tmp_path / "b.npy")
    assert np.load(tmp_path / "b.npy").dtype == array.dtype


@pytest.mark.parametrize("array", [np.arange(3), np.asfortranarray(np.eye(3)), np.array(5), []])
def test_what_follows_the_array(array: Any, tmp_path: Path) -> None:
    for rest, listed in (
        (b"", ()),
        (b"x", ("trailing bytes: 1 bytes",)),
        (bytes(5), ("trailing bytes: 5 bytes",)),
    ):
        np.save(tmp_path / "a.npy", array)
        with (tmp_path / "a.npy").open("ab") as file:
            file.write(rest)
        done = bp.convert(tmp_path / "a.npy", tmp_path / "a.blp", overwrite=True)
        assert done.left_out == listed
    with (tmp_path / "two.npy").open("wb") as file:
        np.save(file, array)
        start = file.tell()
        np.save(file, [3, 4])
        rest = file.tell() - start
    with pytest.warns(BloscpackWarning, match="left out: a second array"):
        done = bp.convert(tmp_path / "two.npy", tmp_path / "b.blp")
    assert done.left_out == (f"a second array: {rest} bytes",)
    with pytest.raises(UnsupportedError, match="strict"):
        bp.convert(tmp_path / "two.npy", tmp_path / "c.blp", strict=True)
    assert not (tmp_path / "c.blp").exists()
