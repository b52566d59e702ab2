"""Named arrays copied between archives and ``.npz`` files, and arrays out of them."""

import errno
import io
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.exceptions import (
    BloscpackWarning,
    FormatError,
    NotFoundError,
    ObjectNumpyArrayRejection,
    UnsupportedError,
)
from bloscpack.exchange import npz
from bloscpack.filetypes import copyjob
from bloscpack.filetypes.arraysource import ArraySource, Rows
from bloscpack.storage import disk

from ..strategies import arrays, assert_same_bits, scalars
from .conversions import assert_interrupted_steps_leave_nothing, npy

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0\\"), max_size=20).filter(
    lambda name: not {"", ".", ".."} & set(name.split("/"))
)
FIELDS: dict[str, Any] = {
    "arr_0": np.arange(5),
    "mask": np.eye(3, dtype="?"),
    "group/f": np.asfortranarray(np.arange(12.0).reshape(3, 4)),
    "scalar": np.array(np.float32(3)),
}


def assert_fields(found: Any, expected: Any = FIELDS) -> None:
    assert list(found) == list(expected)
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert_same_bits(np.asarray(found[name]), array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_all_arrays_there_and_back(save: Any, tmp_path: Path) -> None:
    save(tmp_path / "a.npz", **FIELDS)
    done = bp.convert(tmp_path / "a.npz", tmp_path / "b.blp", codec="auto", chunks=2)
    assert (done.kind, done.clips, done.frames, done.lossless) == ("archive", 4, 13, True)
    with bp.Archive(tmp_path / "b.blp") as archive:
        assert_fields(archive)
        assert archive["mask"].chunks == (2, 3)
        assert archive["group/f"].is_fortran
    done = bp.convert(tmp_path / "b.blp", tmp_path / "c.npz")
    assert (done.kind, done.clips) == ("npz", 4)
    with np.load(tmp_path / "c.npz", allow_pickle=False) as found:
        assert_fields(found)
        assert found["group/f"].flags.f_contiguous
    bp.convert(tmp_path / "b.blp", tmp_path / "d.blp", codec="lz4")
    assert_fields(bp.load(tmp_path / "d.blp"))


def test_a_copy_is_written_once_and_synced_once(tmp_path: Path, monkeypatch: Any) -> None:
    """Whatever the number of arrays; a run that is killed leaves one temporary folder."""
    np.savez(tmp_path / "a.npz", **FIELDS)
    synced: list[str] = []
    beside = set[str]()
    for name in ("sync", "sync_folder"):
        call = getattr(disk, name)
        monkeypatch.setattr(
            disk, name, lambda what, name=name, call=call: (synced.append(name), call(what))
        )

    def look(done: int, total: int) -> None:
        beside.update(
            each.name for each in tmp_path.iterdir() if each.suffix not in (".npz", ".blp")
        )
        inside.update(each.name for each in tmp_path.glob(".bloscpack-*.tmp/*"))

    for source, target in ("a.npz", "all.blp"), ("a.npz::/mask", "one.blp"):
        inside: set[str] = set()
        beside.clear()
        synced.clear()
        bp.convert(tmp_path / source, tmp_path / target, progress=look)
        assert synced == ["sync", "sync_folder"]
        assert len(beside) == 1
        assert inside == {"content"}


@given(content=st.dictionaries(NAMES, arrays(scalars), max_size=3))
def test_any_names_and_arrays(content: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.getbasetemp()
    content = {name: np.array(array) for name, array in content.items()}
    bp.savez(folder / "a.blp", content)
    bp.convert(folder / "a.blp", folder / "a.npz", overwrite=True)
    bp.convert(folder / "a.npz", folder / "b.blp", overwrite=True)
    assert_fields(bp.load(folder / "b.blp"), content)


def test_arrays_named_as_files_of_a_zarr_store(tmp_path: Path) -> None:
    content = {"zarr.json": np.arange(3), "group/.zarray": np.ones(2)}
    np.savez(tmp_path / "a.npz", **content)
    assert bp.convert(tmp_path / "a.npz", tmp_path / "a.blp").left_out == ()
    assert_fields(bp.load(tmp_path / "a.blp"), content)


def test_one_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **FIELDS)
    bp.convert(f"{tmp_path}/a.npz::/mask", tmp_path / "mask.blp")
    assert np.array_equal(bp.load(tmp_path / "mask.blp"), FIELDS["mask"])
    bp.convert(tmp_path / "mask.blp", tmp_path / "one.npz")
    assert_fields(np.load(tmp_path / "one.npz"), {"arr_0": FIELDS["mask"]})
    bp.convert(tmp_path / "mask.blp", f"{tmp_path}/named.npz::/m")
    assert_fields(np.load(tmp_path / "named.npz"), {"m": FIELDS["mask"]})
    bp.convert(tmp_path / "mask.blp", f"{tmp_path}/named.blp::/m", to="archive")
    assert_fields(bp.load(tmp_path / "named.blp"), {"m": FIELDS["mask"]})
    bp.convert(f"{tmp_path}/named.blp::/m", tmp_path / "m.npy")
    assert np.array_equal(np.load(tmp_path / "m.npy"), FIELDS["mask"])
    with pytest.raises(ValueError, match=r"4 arrays; name one, such as '.*a.npz::/arr_0'"):
        bp.convert(tmp_path / "a.npz", tmp_path / "x.npy")
    with pytest.raises(NotFoundError, match=r"no array 'other' in a \.npz file: it has arr_0"):
        bp.convert(f"{tmp_path}/a.npz::/other", tmp_path / "x.npy")
    with pytest.raises(ValueError, match=r"codec is for a copy .*, not of type 'npz'"):
        bp.convert(tmp_path / "a.npz", tmp_path / "x.npz", codec="lz4")
    assert not list(tmp_path.glob("x.*"))


def test_attrs_are_kept_or_reported(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.arange(3), attrs={"unit": "K"})
    with bp.open(tmp_path / "a.blp") as array:
        bp.savez(tmp_path / "b.blp", a=array, attrs={"title": "x"})
    bp.convert(tmp_path / "b.blp", tmp_path / "c.blp")
    with bp.Archive(tmp_path / "c.blp") as archive:
        assert (archive.attrs, archive["a"].attrs) == ({"title": "x"}, {"unit": "K"})
    lost = ("attribute 'title' of the file", "attribute 'unit' of 'a'")
    with pytest.raises(UnsupportedError, match=r"d\.npz: strict: .* 'title' .*; .* 'unit' of 'a'"):
        bp.convert(tmp_path / "b.blp", tmp_path / "d.npz", strict=True)
    assert not (tmp_path / "d.npz").exists()
    with pytest.warns(BloscpackWarning) as found:
        assert bp.convert(tmp_path / "b.blp", tmp_path / "d.npz").left_out == lost
    name = tmp_path / "d.npz"
    assert [str(each.message) for each in found] == [f"{name}: left out: {each}" for each in lost]


@pytest.mark.parametrize("name", ["../x", "/x", "a\\b", "a\0b", "a/../../b", ""])
def test_names_that_are_not_safe_are_refused(name: str, tmp_path: Path) -> None:
    bp.savez(tmp_path / "a.blp", {name: 1})
    with pytest.raises(UnsupportedError, match="npz cannot hold an array of the name"):
        bp.convert(tmp_path / "a.blp", tmp_path / "x.npz")
    assert not (tmp_path / "x.npz").exists()


def test_damage_is_found(tmp_path: Path) -> None:
    for save in (np.savez, np.savez_compressed):
        stream = io.BytesIO()
        save(stream, a=np.arange(300))
        data = stream.getvalue()
        for place in range(60, len(data) - 150, 61):
            (tmp_path / "a.npz").write_bytes(
                data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
            )
            with pytest.raises(FormatError, match=r"a \.npz file"):
                bp.convert(tmp_path / "a.npz", tmp_path / "x.blp")
        (tmp_path / "a.npz").write_bytes(data[:-30])
        with pytest.raises(FormatError, match=r"a \.npz file"):
            bp.convert(tmp_path / "a.npz", tmp_path / "x.blp")
    assert [each.name for each in tmp_path.iterdir()] == ["a.npz"]


def test_objects_and_other_files_in_it(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.array([None]))
    np.savez(tmp_path / "mixed.npz", a=np.array([None]), b=np.arange(3))
    for source in ("a.npz", "mixed.npz::/a"):
        for target in ("x.blp", "x.npy"):
            with pytest.raises(ObjectNumpyArrayRejection, match=r"npz: array 'a': .* objects"):
                bp.convert(f"{tmp_path}/{source}", tmp_path / target)
    np.savez(tmp_path / "b.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "b.npz", "a") as file:
        file.writestr("notes.txt", "text")
    with pytest.warns(BloscpackWarning, match=r"left out: file 'notes.txt'"):
        bp.convert(tmp_path / "b.npz", tmp_path / "b.blp")
    assert list(bp.load(tmp_path / "b.blp")) == ["a"]


@pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")
@pytest.mark.filterwarnings("ignore:Stored array in format")
def test_one_of_each(tmp_path: Path) -> None:
    """A file with one of each thing that it can hold; what is carried goes back, and is equal."""
    carried = {
        **FIELDS,
        "words": np.array(["a", "größe"]),
        "table": np.zeros(3, [("\u6e29", "<f4"), ("b", ">i2", (2,))]),
        "times": np.array(["2026-01-01", "NaT"], "M8[D]"),
        "big": np.arange(3, dtype=">u4"),
        "nan": np.array([np.nan, -0.0, np.inf]),
        "empty": np.empty((0, 3)),
        "größe": np.array(1),
    }
    np.savez_compressed(tmp_path / "a.npz", **carried, objects=np.array([None]))
    with zipfile.ZipFile(tmp_path / "a.npz", "a", compression=zipfile.ZIP_LZMA) as file:
        file.comment = b"of the file"
        commented = zipfile.ZipInfo("noted.npy")
        commented.comment = b"of a member"
        file.writestr(commented, npy([1]))
        file.writestr("twice.npy", npy([1, 2]) + npy([3, 4]))
        file.writestr("bare", npy([5]))  # numpy reads it, too
        file.writestr("fake.npy", b"text")
        file.writestr("notes.txt", b"text")
        file.writestr("folder/", b"")
        secret = zipfile.ZipInfo("secret.npy")
        file.writestr(secret, npy([6]))
        secret.flag_bits |= 1
    done = bp.convert(tmp_path / "a.npz", tmp_path / "a.blp")
    assert sorted(done.left_out) == sorted(
        [
            "comment of 'noted.npy'",
            "comment of the file",
            "encrypted file 'secret.npy'",
            "file 'fake.npy'",
            "file 'notes.txt'",
            "folder 'folder/'",
            "array 'objects' of Python objects",
            f"'twice': a second array: {len(npy([3, 4]))} bytes",
        ]
    )
    others = {"noted": np.array([1]), "twice": np.array([1, 2]), "bare": np.array([5])}
    assert_fields(bp.load(tmp_path / "a.blp"), carried | others)
    with pytest.raises(UnsupportedError, match=r"strict: .*encrypted file 'secret.npy'"):
        bp.convert(tmp_path / "a.npz", tmp_path / "b.blp", strict=True)
    assert not (tmp_path / "b.blp").exists()
    bp.convert(tmp_path / "a.blp", tmp_path / "b.npz", strict=True)
    with np.load(tmp_path / "b.npz") as found:
        assert_fields(found, carried | others)


def test_bytes_around_the_zip_file_are_listed(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=[1, 2])
    data = (tmp_path / "a.npz").read_bytes()
    path = tmp_path / "b.npz"
    for before, behind, lost in (
        (b"", b"junk", ("4 bytes behind the ZIP file",)),
        (b"PK\3\4xx", b"", ("6 bytes before the ZIP file",)),
        (
            b"PK\3\4",
            b"j" * 60_000,
            ("4 bytes before the ZIP file", "60000 bytes behind the ZIP file"),
        ),
    ):
        path.write_bytes(before + data + behind)
        result = bp.convert(path, tmp_path / "b.blp", to="archive", overwrite=True)
        assert result.left_out == lost


def test_no_array_that_can_be_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("notes.txt", b"text")
    with pytest.raises(UnsupportedError, match=r"without arrays: file 'notes.txt'"):
        bp.convert(tmp_path / "a.zip", tmp_path / "a.blp")
    np.savez(tmp_path / "empty.npz")
    assert bp.convert(tmp_path / "empty.npz", tmp_path / "a.blp").clips == 0


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", ["a.npy", "a"])
def test_two_arrays_of_one_name(name: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
        file.writestr(name, npy([1]))
    with pytest.raises(UnsupportedError, match="two arrays have the name 'a'"):
        bp.convert(tmp_path / "a.npz", tmp_path / "a.blp")


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    head = npy(np.empty(0, "u1")).replace(b"(0,)", f"({4 << 30},)".encode())
    with zipfile.ZipFile(tmp_path / "a.npz", "w", compression=zipfile.ZIP_DEFLATED) as file:
        file.writestr("a.npy", head)
    content = (tmp_path / "a.npz").read_bytes()
    declared = len(head).to_bytes(4, "little"), (3 << 30).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(content.replace(*declared))
    with pytest.raises(FormatError, match=r"array 'a': 3221225472 bytes, too many for"):
        bp.convert(tmp_path / "a.npz", tmp_path / "a.blp")
    np.savez_compressed(tmp_path / "b.npz", a=np.zeros(1 << 20))  # 1000 times smaller
    bp.convert(tmp_path / "b.npz", tmp_path / "b.blp")
    monkeypatch.setattr(npz, "disk_usage", lambda path: SimpleNamespace(free=1 << 20))
    with pytest.raises(OSError, match="TMPDIR names another folder") as caught:
        bp.convert(tmp_path / "b.npz", tmp_path / "c.blp")
    assert caught.value.errno == errno.ENOSPC


def test_a_damaged_array_is_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
        file.writestr("b.npy", file.read("a.npy")[:-1])
    with pytest.raises(FormatError, match=r"a\.npz: array 'b': \.npy file: found 23 of 24 bytes"):
        bp.convert(tmp_path / "a.npz", tmp_path / "x.blp")


@pytest.mark.parametrize(("one", "two"), [("a.npz", "b.blp"), ("b.blp", "c.npz")])
def test_an_interrupted_run_leaves_nothing(
    one: str, two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez(tmp_path / "a.npz", **FIELDS)
    if one != "a.npz":
        bp.convert(tmp_path / "a.npz", tmp_path / one)
    assert_interrupted_steps_leave_nothing(tmp_path / one, two, 4)
    with monkeypatch.context() as patch:
        patch.setattr(copyjob.disk, "sync_folder", lambda name: (_ for _ in ()).throw(OSError(28)))
        with pytest.raises(OSError, match="28"):
            bp.convert(tmp_path / one, tmp_path / two)


def test_a_copy_that_differs_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(tmp_path / "a.npz", **FIELDS)
    write = npz.write_npy

    def wrong(stream: Any, source: Any, add: Any) -> None:
        rows = source.rows
        others = Rows(rows.shape, rows.dtype, lambda place: np.zeros_like(rows.read(place)))
        write(stream, ArraySource(others), add)

    monkeypatch.setattr(npz, "write_npy", wrong)
    with pytest.raises(FormatError, match="removed: array 'arr_0': the items"):
        bp.convert(tmp_path / "a.npz", tmp_path / "b.npz")
    assert not (tmp_path / "b.npz").exists()
