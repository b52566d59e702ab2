"""Writing archives: names, options, streaming, and a file that appears only when it is whole."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.archive.writer import ArchiveWriter
from bloscpack.container.members import read_index
from bloscpack.exceptions import FileChangedError, ObjectNumpyArrayRejection, UnsupportedError
from bloscpack.storage.memory import MemorySink, MemorySource
from bloscpack.types import BytesLike

from ..faults.disk import Crash, StoppingDisk, installed, without_syncs
from ..strategies import arrays, assert_same
from .archives import ARRAYS, content_of, packed, read

NAMES = st.text(st.characters(codec="utf-8"), max_size=40)


@given(content=st.dictionaries(NAMES, arrays(), max_size=4), codec=st.sampled_from(["lz4", "auto"]))
def test_any_names_dtypes_and_shapes(content: dict[str, Any], codec: str) -> None:
    data = packed(content, codec=codec)
    with bp.Archive(data) as archive:
        assert list(archive) == list(content)
        for name, array in content.items():
            assert_same(archive[name].read_whole(), np.asarray(array))
    assert bp.verify(data).ok


def test_names_are_those_of_numpy(tmp_path: Path) -> None:
    one, two = np.arange(3), np.eye(2)
    bp.savez(tmp_path / "a.blp", one, two, mask=two > 0)
    np.savez(tmp_path / "a.npz", one, two, mask=two > 0)
    with np.load(tmp_path / "a.npz") as npz:
        assert content_of(bp.load(tmp_path / "a.blp")) == content_of(npz)
        assert content_of(bp.load(packed(npz))) == content_of(npz)


def test_options_apply_to_all_arrays() -> None:
    data = packed(ARRAYS, chunks=2, codec="lz4", clevel=9, checksum="xxh3_64", attrs={"a": [1]})
    with bp.Archive(data) as archive:
        assert archive.attrs == {"a": [1]}
        assert archive["ramp"].chunks == (2, 7)
        assert {array.header.checksum.name for array in archive.values()} == {"xxh3_64"}
        assert archive[""].shape == ()


def test_a_member_is_a_file_as_save_writes_it() -> None:
    saved = io.BytesIO()
    bp.save(saved, ARRAYS["ramp"])
    data = packed()
    member = bp.Archive(data)._members.named["ramp"]
    assert data[member.offset : member.end] == saved.getvalue()


def test_a_member_in_one_piece_is_one_write() -> None:
    """The record of a member in pieces is written again with its size."""

    class Noting(MemorySink):
        def write(self, data: BytesLike) -> None:
            calls.append("write")
            super().write(data)

        def write_at(self, offset: int, data: BytesLike) -> None:
            calls.append("write_at")
            super().write_at(offset, data)

    calls: list[str] = []
    sink = Noting()
    writer = ArchiveWriter(sink, {})
    large = bytes(5000)
    written = [[b"one" + large], [b"two ", b"small pieces"], [b"two", large], [memoryview(large)]]
    for pieces in written:
        with writer.member(f"{pieces!r:.20}") as member:
            for piece in pieces:
                member.write(piece)
            if len(pieces) == 2:
                member.write_at(0, b"TWO")
    writer.finish()
    # Header, first member; second; third, its begin, its size; fourth; index.
    begun = ["write", "write", "write_at"]
    assert calls == ["write", "write", "write", *begun, "write_at", *begun, "write"]
    source = MemorySource(sink.getvalue())
    members, _ = read_index(source)
    contents = [bytes(source.read_at(one.offset, one.nbytes)) for one in members.values()]
    assert contents == [b"one" + large, b"TWO small pieces", b"TWO" + large, large]
    for one in members.values():
        assert bytes(source.read_at(one.at, one.offset - one.at)) == one.pack()


def test_the_file_of_an_array_is_copied_byte_for_byte(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", ARRAYS["ramp"], chunks=3, codec="lz4", attrs={"unit": "K"})
    with bp.open(tmp_path / "a.blp") as array:
        data = packed({"copy": array})
        again = packed({"more": np.arange(2), **bp.Archive(data)})
    for each in (data, again):
        member = bp.Archive(each)._members.named["copy"]
        assert each[member.offset : member.end] == (tmp_path / "a.blp").read_bytes()
    assert bp.Archive(again)["copy"].attrs == {"unit": "K"}


def test_a_file_that_grows_is_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.save(path, np.arange(10))
    with bp.open(path) as array:
        with bp.open(path, "a") as grown:
            grown.append(np.arange(5))
        with pytest.raises(FileChangedError, match="reopen"):
            bp.savez(tmp_path / "b.blp", a=array)
    assert not (tmp_path / "b.blp").exists()


def test_labels_of_a_dataset_are_stored() -> None:
    xarray = pytest.importorskip("xarray")
    table = xarray.Dataset({"t": (("x", "y"), np.eye(3), {"unit": "K"})})
    with bp.Archive(packed(table)) as archive:
        assert archive["t"].attrs["dims"] == ["x", "y"]
        assert archive["t"].attrs["unit"] == "K"


def test_pairs_are_taken_one_at_a_time() -> None:
    alive: list[str] = []

    class Counted(np.ndarray):
        def __del__(self) -> None:
            alive.remove("array")

    def pairs() -> Iterator[tuple[str, Any]]:
        for number in range(4):
            assert len(alive) <= 1
            alive.append("array")
            yield str(number), np.zeros(1000).view(Counted)

    assert list(bp.load(packed(pairs()))) == ["0", "1", "2", "3"]


@pytest.mark.parametrize(
    ("arguments", "named", "error", "message"),
    [
        ((np.zeros(1),), {"arr_0": 1}, ValueError, "two arrays have the name 'arr_0'"),
        (({"a": 1}, {"a": 2}), {}, ValueError, "two arrays have the name 'a'"),
        (({3: 1},), {}, TypeError, "name of an array must be a str, not 3"),
        (({"x" * 4097: 1},), {}, ValueError, "has 4097 bytes; the limit is 4096"),
        (({"\ud800": 1},), {}, ValueError, "Unicode"),
        ((), {"a": np.array([None])}, ObjectNumpyArrayRejection, "object"),
        ((), {"a": {"b": 1}}, TypeError, "it is a mapping; bloscpack.savez stores all"),
        ((), {"a": 1, "attrs": [3]}, TypeError, "attrs must be a mapping"),
        ((), {"a": 1, "codec": "none"}, ValueError, "none"),
        ((iter([1, 2]),), {}, TypeError, "an iterator must give pairs of name and array, not 1"),
    ],
)
def test_what_cannot_be_stored_leaves_no_file(
    arguments: Any, named: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        bp.savez(tmp_path / "a.blp", *arguments, **named)
    assert not list(tmp_path.iterdir())


def test_save_names_savez() -> None:
    with pytest.raises(TypeError, match=r"bloscpack.savez .*: x\['a'\]"):
        bp.save("x", {"a": 1})


def test_other_places(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="web server"):
        bp.savez("https://example.org/a.blp", a=1)
    with pytest.raises(ValueError, match="storage_options"):
        bp.savez(tmp_path / "a.blp", a=1, storage_options={"key": 1})
    pytest.importorskip("fsspec")
    bp.savez("memory://archive.blp", ARRAYS)
    assert content_of(bp.load("memory://archive.blp")) == content_of(ARRAYS)


NEW = {"new": np.arange(3), "b": np.ones(100)}


@pytest.mark.parametrize("kind", ["error", "crash", "torn"])
@pytest.mark.parametrize("exists", [True, False])
def test_stopped_at_every_step_it_is_the_old_file_or_the_new_one(
    kind: str, exists: bool, tmp_path: Path
) -> None:
    old, new = (content_of(ARRAYS) if exists else None), content_of(NEW)
    seen = []
    for step in range(100):
        folder = tmp_path / str(step)
        folder.mkdir()
        path = folder / "a.blp"
        if exists:
            with without_syncs():
                bp.savez(path, ARRAYS)
        stopping = StoppingDisk(step, kind)
        with installed(stopping):
            try:
                bp.savez(path, NEW)
            except (OSError, Crash):
                pass
            else:
                if step >= stopping.count:
                    break
        seen.append(read(path)[0] if path.exists() else None)
        assert seen[-1] in (old, new)
        if kind == "error" and stopping.names[step] not in ("unlink", "sync_folder"):
            assert {each.name for each in folder.iterdir()} <= {"a.blp"}
    assert step > 4
    assert old in seen
    assert [each.name for each in folder.iterdir()] == ["a.blp"]


@pytest.mark.parametrize(
    "option",
    [
        *("chunks", "codec", "clevel", "checksum", "attrs", "nthreads", "overwrite", "stats"),
        "storage_options",
    ],
)
def test_an_array_by_the_name_of_an_option_is_refused(option: str, tmp_path: Path) -> None:
    path, rows = tmp_path / "a.blp", np.arange(3)
    bp.savez(path, x=rows)
    with pytest.raises(TypeError, match=f"{option} must be .*give an array of this name"):
        bp.savez(path, **{option: rows})
    assert list(bp.load(path)) == ["x"]
    bp.savez(path, {option: rows})
    assert list(bp.load(path)) == [option]
