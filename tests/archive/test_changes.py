"""Archives that are changed in place, against a dict of numpy arrays."""

import gc
import io
import os
import pickle
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.container import changinglog
from bloscpack.container.logreader import read_commit
from bloscpack.exceptions import (
    BloscpackError,
    BloscpackWarning,
    FileChangedError,
    FormatError,
    LockedError,
    NotFoundError,
    WrongKindError,
)
from bloscpack.format.log import (
    COPIES,
    DATA_OFFSET,
    NO_TREE,
    SLOTS,
    Row,
    Tree,
    pack_group,
    unpack_group,
)
from bloscpack.format.statistics import Statistics
from bloscpack.storage.file import FileSource
from bloscpack.storage.update import UpdateFile

from .archives import ARRAYS, ATTRS, content_of, packed

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive that was never changed."""
    path = tmp_path / "set.blp"
    path.write_bytes(packed(attrs=ATTRS))
    return path


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups of 3 nodes, so that few arrays make several."""
    monkeypatch.setattr(changinglog, "GROUP_NODES", 3)


class Model:
    """An archive, and a dict of what it should hold."""

    def __init__(self, data: st.DataObject, path: Path) -> None:
        self.draw, self.path = data.draw, path
        self.now: dict[str, Any] = {f"{n}": self.values(n + 1) for n in range(4)}
        self.attrs: dict[str, Any] = {}
        stats = self.draw(st.booleans())
        bp.savez(path, self.now, changeable=self.draw(st.booleans()), stats=stats)
        self.with_stats = {
            name for name, each in self.now.items() if stats and Statistics.are_of(each.dtype)
        }
        self.keep()
        self.file: Any = bp.open(path, "r+")

    def values(self, rows: int) -> Any:
        kind = self.draw(st.sampled_from(["f8", "u1", ">i4", "U2"]))
        return np.random.default_rng(rows).integers(0, 99, (rows, 3)).astype(kind)

    def keep(self) -> None:
        """Note the state of the file, and check it."""
        self.committed = {name: each.copy() for name, each in self.now.items()}
        self.committed_stats = {*self.with_stats}
        self.committed_attrs = dict(self.attrs)
        self.check_file()

    def name(self) -> str:
        return self.draw(st.sampled_from(list(self.now)))

    def new_name(self) -> str:
        return self.draw(st.sampled_from(["", "a", "b/c", "\u00e9", *map(str, range(12))]))

    def put(self) -> None:
        name, values = self.new_name(), self.values(self.draw(st.integers(0, 5)))
        self.file[name] = values
        self.now[name] = values.copy()
        if not Statistics.are_of(values.dtype):
            self.with_stats.discard(name)

    def delete(self) -> None:
        if self.now:
            name = self.name()
            handle = self.file[name]
            del self.file[name], self.now[name]
            self.with_stats.discard(name)
            with pytest.raises(ValueError, match="closed"):
                handle[...]

    def rename(self) -> None:
        if self.now:
            old, new = self.name(), self.new_name()
            if new in self.now and new != old:
                with pytest.raises(ValueError, match="already"):
                    self.file.rename(old, new)
                return
            self.file.rename(old, new)
            self.now = {new if name == old else name: each for name, each in self.now.items()}
            self.with_stats = {new if name == old else name for name in self.with_stats}

    def change(self) -> None:
        if self.now:
            name = self.name()
            rows = len(self.now[name])
            values = self.values(rows).astype(self.now[name].dtype)
            start = self.draw(st.integers(0, rows))
            self.file[name][start:] = values[start:]
            self.now[name][start:] = values[start:]

    def resize(self) -> None:
        if self.now:
            name, rows = self.name(), self.draw(st.integers(0, 6))
            self.file[name].resize(rows, 3)
            longer = np.zeros((rows, 3), self.now[name].dtype)
            longer[: len(self.now[name])] = self.now[name][:rows]
            self.now[name] = longer

    def set_attrs(self) -> None:
        self.attrs = {"n": self.draw(st.integers(0, 3))}
        self.file.attrs["n"] = self.attrs["n"]

    def flush(self) -> None:
        which = self.name() if self.now and self.draw(st.booleans()) else None
        (self.file if which is None else self.file[which]).flush()
        self.keep()

    def close_a_handle(self) -> None:
        if self.now:
            with self.file[self.name()] as array:
                assert array.mode == "r+"

    def fail(self) -> None:
        with suppress(ZeroDivisionError), self.file:
            self.put()
            raise ZeroDivisionError
        self.now = {name: each.copy() for name, each in self.committed.items()}
        self.with_stats = {*self.committed_stats}
        self.attrs = dict(self.committed_attrs)
        self.file = bp.open(self.path, "r+")

    def reopen(self) -> None:
        self.file.close()
        self.keep()
        self.file = bp.open(self.path, "r+")

    def step(self) -> None:
        steps = [self.put, self.put, self.delete, self.rename, self.change, self.resize]
        steps += [self.set_attrs, self.flush, self.close_a_handle, self.fail, self.reopen]
        self.draw(st.sampled_from(steps))()
        assert list(self.file) == list(self.now)
        assert content_of(self.file) == content_of(self.now)
        check_statistics(self.file, self.with_stats)
        assert self.file.attrs == self.attrs
        self.check_file()

    def check_file(self) -> None:
        """Check that other readers have the committed state."""
        with bp.open(self.path) as found:
            assert list(found) == list(self.committed)
            assert content_of(found) == content_of(self.committed)
            check_statistics(found, self.committed_stats)
            assert found.attrs == self.committed_attrs


def check_statistics(file: Any, names: set[str]) -> None:
    """Check that the arrays of these names have the statistics of their items, and no others."""
    for name in file:
        array = file[name]
        found = array.stats
        assert (found is not None) == (name in names), name
        if found is not None and array.size:
            items = np.asarray(array)
            (record,) = found.ravel()
            expected = items.min(), items.max(), 0, items.sum()
            assert record.tolist() == expected


@pytest.mark.usefixtures("small_groups")
@given(data=st.data())
def test_an_archive_is_a_dict(data: st.DataObject, tmp_path_factory: Any) -> None:
    model = Model(data, tmp_path_factory.mktemp("model") / "set.blp")
    try:
        for _ in range(data.draw(st.integers(1, 15))):
            model.step()
        model.reopen()
        report = bp.verify(model.path)
        assert report.ok, report
        model.file.close()
        bp.compact(model.path)
        model.check_file()
        assert bp.verify(model.path).ok
    finally:
        model.file.close()


def test_handles_read_on_when_the_archive_is_written(path: Path) -> None:
    rng = np.random.default_rng(1)
    now = {name: rng.integers(0, 1 << 40, 3000) for name in "ab"}
    bp.savez(path, now, changeable=True)
    with bp.open(path, "r+") as z:
        a, b = z["a"], z["b"]
        for flush in (z.flush, a.flush, b.flush, z.flush):
            for name, array in (("a", a), ("b", b)):
                now[name] = rng.integers(0, 1 << 40, 3000)
                array[...] = now[name]
                assert array[9] == now[name][9]
            flush()
            assert content_of({"a": a, "b": b}) == content_of(now)


def test_a_damaged_header_is_refused_for_changes(log: Path, tmp_path: Path) -> None:
    single = tmp_path / "a.blp"
    bp.save(single, np.arange(3), changeable=True)
    for path in (log, single):
        data = bytearray(path.read_bytes())
        data[60] ^= 1
        path.write_bytes(data)
        with pytest.raises(FormatError, match="digest"):
            bp.open(path, "r+")


def test_compact_gives_the_file_of_savez(path: Path) -> None:
    before = path.read_bytes()
    with bp.open(path, "r+") as z:
        z["ramp"][0] = 99
        z["more"] = np.arange(3)
        z.attrs["unit"] = "km"
    with bp.open(path, "r+") as z:
        assert z.attrs == {"unit": "km"}
        z["ramp"][0] = ARRAYS["ramp"][0]
        del z["more"]
        z.attrs["unit"] = "m"
    assert path.read_bytes() != before
    bp.compact(path)
    assert path.read_bytes() == before
    bp.compact(path)
    assert path.read_bytes() == before


def test_nothing_is_written_without_changes(path: Path) -> None:
    before = path.read_bytes()
    with bp.open(path, "r+") as z:
        assert content_of(z) == content_of(ARRAYS)
        z.flush()
    assert path.read_bytes() == before


def test_versions_of_an_archive(path: Path) -> None:
    (only,) = bp.versions(path)
    assert (only.number, only.narrays, only.shape, only.dtype) == (0, len(ARRAYS), None, None)
    copies: list[dict[str, Any]] = []
    x = np.arange(3000.0)
    with bp.open(path, "r+", keep=3) as z:
        for number in range(6):
            if number % 2:
                z["x"][10 * number] = -1
            else:
                z[f"n{number}"] = x[: 100 * number]
                z["x"] = x
            z.flush()
            copies.append({name: array[...] for name, array in z.items()})
    found = bp.versions(path)
    assert [each.number for each in found] == [3, 4, 5, 6]
    assert [each.narrays for each in found] == [len(each) for each in copies[2:]]
    for version, copy in zip(found, copies[2:], strict=True):
        with bp.open(path, version=version.number) as z:
            assert content_of(z) == content_of(copy)
            z.refresh()
            assert content_of(z) == content_of(copy)
        with bp.open(f"{path}::/x", version=version.number) as a:
            np.testing.assert_array_equal(a[...], copy["x"])
    report = bp.verify(path)
    assert report.ok, report
    with pytest.raises(NotFoundError, match="no version 2: the file has 3 to 6"):
        bp.open(f"{path}::/x", version=2)
    with bp.open(path, "r+", keep=0):
        pass
    (only,) = bp.versions(path)
    assert (only.number, only.narrays) == (7, len(copies[-1]))
    bp.compact(path)
    (only,) = bp.versions(path)
    assert (only.number, only.narrays) == (0, len(copies[-1]))


@pytest.fixture
def log(path: Path) -> Path:
    """Return the path of an archive that was changed."""
    with bp.open(path, "r+") as z:
        z["more"] = np.arange(30).reshape(10, 3)
        z["ramp"][3] = 7
    return path


def test_all_arrays_of_a_handle_are_of_one_commit(log: Path) -> None:
    with bp.open(log) as reader:
        ramp = reader["ramp"]
        with bp.open(log, "r+") as z:
            z["ramp"][...] = 0
            z["more"][...] = 0
            del z[""]
        assert reader["more"][2, 0] == 6
        assert np.array_equal(ramp[3], reader["ramp"][3])
        assert list(reader) == [*ARRAYS, "more"]
        reader.refresh()
        assert list(reader) == [name for name in [*ARRAYS, "more"] if name]
        assert not reader["more"][...].any()
        assert ramp[3, 0] == 7
        ramp.refresh()
        assert not ramp[...].any()


def test_refresh_follows_an_archive_that_becomes_a_log_and_is_compacted(path: Path) -> None:
    with bp.open(path) as reader:
        array = reader["ramp"]
        with bp.open(path, "r+") as z:
            z["ramp"].append(ARRAYS["ramp"])
        reader.refresh()
        array.refresh()
        assert len(array) == len(reader["ramp"]) == 20
        bp.compact(path)
        reader.refresh()
        array.refresh()
        assert np.array_equal(reader["ramp"][10:], ARRAYS["ramp"])
        with bp.open(path, "r+") as z:
            del z["ramp"]
        with pytest.raises(FileChangedError, match="deleted or renamed"):
            array.refresh()


def test_pickles_are_of_a_state(log: Path) -> None:
    with bp.open(log) as z:
        stored = pickle.dumps((z, z["more"], z[""]))
    again, more, nameless = pickle.loads(stored)
    assert content_of(again)["more"] == content_of({"more": more})["more"]
    assert nameless[()] == 2.5
    again.close()
    with bp.open(log, "r+") as z:
        with pytest.raises(TypeError, match="cannot be pickled"):
            pickle.dumps(z)
        z["more"][0] = 5
    with pytest.raises(FileChangedError):
        pickle.loads(stored)


def test_kept_versions(log: Path) -> None:
    with bp.open(log, "r+", keep=3) as z:
        z["more"][0] = 99
        z.flush()
        del z["more"]
    with bp.open(log) as z, bp.open(log, version=-2) as old:
        assert "more" not in z
        assert old["more"][0, 0] == 99
        stored = pickle.dumps((old, old["more"]))
    again, more = pickle.loads(stored)
    assert np.array_equal(again["more"], more)
    assert bp.open(f"{log}::/more", version=-3)[0, 0] == 0
    assert bp.verify(log).ok
    with pytest.raises(NotFoundError):
        bp.open(log, version=-9)
    with pytest.raises(ValueError, match="only read"):
        bp.open(log, "r+", version=-2)
    with pytest.raises(ValueError, match="keep"):
        bp.Archive(log, keep=2)


def test_modes_and_kinds(log: Path, tmp_path: Path) -> None:
    with pytest.raises(WrongKindError, match="an archive"):
        bp.open(log, "a")
    with pytest.raises(WrongKindError, match="an archive"):
        bp.frames.open(log)
    with pytest.raises(WrongKindError, match="an archive"):
        bp.frames.open(log, "a")
    with pytest.raises(TypeError, match="needs a path"):
        bp.Archive(log.read_bytes(), "r+")
    with pytest.raises(ValueError, match="mode must be"):
        bp.Archive(log, "a")  # type: ignore[arg-type]
    single = tmp_path / "a.blp"
    bp.save(single, np.arange(3), changeable=True)
    with pytest.raises(WrongKindError, match="not an archive"):
        bp.Archive(single)
    with pytest.raises(WrongKindError, match="not an archive"):
        bp.Archive(single, "r+")
    with bp.open(f"{log}::/more", "a") as array:
        array.append([[1, 2, 3]])
        with pytest.raises(TypeError, match="open it with mode"):
            array[0] = 1
    assert len(bp.load(f"{log}::/more")) == 11
    with bp.open(log) as z:
        with pytest.raises(TypeError, match="open it with mode"):
            z["x"] = 1
        with pytest.raises(TypeError, match="open it with mode"):
            del z["ramp"]
        with pytest.raises(TypeError, match="open it with mode"):
            z.rename("ramp", "x")


def test_removed_arrays_are_returned(log: Path) -> None:
    items = {name: each[...] for name, each in bp.Archive(log).items()}
    with bp.Archive(log, "r+") as archive:
        first = next(iter(archive))
        archive[first].attrs = {"unit": "K"}
        assert archive.pop("no such name", None) is None
        with pytest.raises(KeyError):
            archive.pop("no such name")
        name, array = archive.popitem()
        assert name == first not in archive
        assert_array_equal(array[...], items[first])
        assert array.attrs == {"unit": "K"}
        archive.clear()
        assert not archive
        with pytest.raises(KeyError):
            archive.popitem()
    with bp.Archive(log) as archive, pytest.raises(TypeError, match="mode 'r\\+'"):
        archive.pop("no such name", None)


def test_names_and_values_that_are_refused_change_nothing(log: Path) -> None:
    with bp.open(log, "r+") as z:
        before = content_of(z)
        for name, value in ((3, 1), ("x" * 5000, 1), ("x", {"a": 1}), ("x", np.array([None]))):
            with pytest.raises((TypeError, ValueError)):
                z[name] = value
        with pytest.raises(NotFoundError):
            del z["missing"]
        with pytest.raises(NotFoundError):
            z["missing"]
        with pytest.raises(NotFoundError):
            z.rename("missing", "x")
        z.attrs["x"] = {1, 2}
        with pytest.raises(TypeError, match="attrs"):
            z.flush()
        del z.attrs["x"]
        z["ok"] = 1
    with bp.open(log) as z:
        assert content_of(z) == {**before, **content_of({"ok": np.asarray(1)})}


def test_one_writer(log: Path) -> None:
    with bp.open(log, "r+") as z:
        with pytest.raises(LockedError):
            bp.open(log, "r+")
        with pytest.raises(LockedError):
            bp.open(f"{log}::/more", "r+")
        with pytest.raises(LockedError):
            bp.compact(log)
        z["more"][0] = 1


def test_a_forked_child_writes_nothing(log: Path) -> None:
    with bp.open(log, "r+") as z:
        z["more"][0] = 77
        pid = os.fork()
        if not pid:
            try:
                with pytest.raises(LockedError):
                    z["more"][0] = 1
                with pytest.raises(LockedError):
                    z.flush()
                z.close()
            except BaseException:
                os._exit(1)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    assert bp.load(f"{log}::/more")[0, 0] == 77


def test_an_error_in_the_block_of_an_array_discards_all(log: Path) -> None:
    before = log.read_bytes()
    z = bp.open(log, "r+")
    z["ramp"][0] = 5
    with suppress(ZeroDivisionError), z["more"] as more:
        more[0] = 1
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="failed before"):
        z.flush()
    with pytest.warns(BloscpackWarning, match="since the last flush"):
        z.close()
    assert bp.load(log).keys() == {*ARRAYS, "more"}
    assert bp.load(f"{log}::/ramp")[0, 0] == 0
    assert log.read_bytes()[:8448] == before[:8448]


def test_no_array_can_be_changed_after_one_has_failed(log: Path, monkeypatch: Any) -> None:
    def fail(*_: object) -> None:
        raise KeyError

    z = bp.open(log, "r+")
    z["ramp"][0] = 5
    with monkeypatch.context() as patch:
        patch.setattr(type(z["more"]._rows), "_assign_pieces", fail)
        with pytest.raises(KeyError):
            z["more"][0] = 1
    with pytest.raises(ValueError, match="failed before"):
        z["ramp"][1] = 6
    with pytest.raises(ValueError, match="failed before"):
        z["ramp"].append(z["ramp"][:1])
    with pytest.warns(BloscpackWarning, match="since the last flush"):
        z.close()
    assert bp.load(f"{log}::/ramp")[0, 0] == 0


def test_an_archive_that_is_not_closed_says_so(log: Path) -> None:
    z = bp.open(log, "r+")
    z["more"][0] = 5  # each refers to the other
    del z
    with pytest.warns(ResourceWarning, match="the archive was never closed"):
        gc.collect()
    assert bp.load(f"{log}::/more")[0, 0] == 0


def test_an_array_of_another_file_is_copied_as_stored(log: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.blp"
    bp.save(other, np.arange(600).reshape(20, 30), chunks=(7, 9), codec="auto", attrs={"a": 1})
    with bp.open(log, "r+") as z, bp.open(other) as array:
        z["grid"] = array
        z["again"] = z["grid"]
        assert z["grid"].chunks == (7, 9)
        z["grid"].resize(25, 40)
    with bp.open(log) as z:
        assert z["grid"].shape == (25, 40)
        assert z["again"].attrs == {"a": 1}
        assert np.array_equal(z["again"], bp.load(other))
    bp.compact(log)
    with bp.open(log) as z:
        assert z["grid"].chunks == (7, 9)


def test_deleting_one_of_many_writes_little(tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "many.blp"
    bp.savez(path, {f"{n}": np.arange(9) for n in range(1000)}, changeable=True)
    written = []
    write = UpdateFile.write_at

    def counted(self: UpdateFile, offset: int, *parts: Any) -> None:
        written.append(sum(map(len, parts)))
        write(self, offset, *parts)

    monkeypatch.setattr(UpdateFile, "write_at", counted)
    with bp.open(path, "r+") as z:
        del z["500"]
    assert 0 < sum(written) < 1 << 18
    with bp.open(path) as z:
        assert list(z) == [f"{n}" for n in range(1000) if n != 500]


def test_the_space_of_what_is_deleted_is_used_again(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    rng = np.random.default_rng(1)
    bp.savez(path, keep=np.arange(9), changeable=True)
    sizes = []
    for _ in range(30):
        with bp.open(path, "r+") as z:
            z["large"] = rng.integers(0, 256, 200_000, "u1")
        sizes.append(path.stat().st_size)
    assert max(sizes) < 900_000
    with bp.open(path, "r+") as z:
        del z["large"]
    assert bp.verify(path).ok


def rewritten(log: Path, change: Any) -> bytes:
    """Return an archive whose group has the bytes that `change` makes of its nodes."""
    data = log.read_bytes()
    commit = read_commit(FileSource(log))
    root = commit.groups.root
    group = change(unpack_group(data[root.offset : root.end]))
    row = Row(len(data), len(group), xxh3_64_digest(group))
    new = commit._replace(end=row.end, sequence=commit.sequence + 1, groups=Tree(row, 0, 1))
    found = bytearray(data + group)
    for at in (SLOTS[new.slot], COPIES[new.slot]):
        found[at : at + len(new.pack())] = new.pack()
    return bytes(found)


HOSTILE: dict[str, Any] = {
    "no nodes": lambda nodes: b"",
    "no attrs": lambda nodes: pack_group(nodes[1:]),
    "two of one name": lambda nodes: pack_group([*nodes, nodes[-1]]),
    "a long name": lambda nodes: pack_group([*nodes, nodes[1]._replace(name="x" * 4097)]),
    "a cut node": lambda nodes: pack_group(nodes)[:-3],
    "no UTF-8": lambda nodes: pack_group(nodes).replace(b"ramp", b"\xff\xff\xff\xff"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_groups(name: str, log: Path) -> None:
    data = rewritten(log, HOSTILE[name])
    log.write_bytes(data)
    for call in (bp.open, lambda path: bp.open(path, "r+"), bp.Archive):
        with pytest.raises(FormatError):
            call(log)
    with pytest.raises(FormatError):
        bp.Archive(data)
    assert not bp.verify(log).ok


@pytest.mark.parametrize(
    "tree", [NO_TREE, Tree(Row(8448, 100, bytes(8)), 1, 1000), Tree(Row(2**60, 9, bytes(8)), 0, 1)]
)
def test_hostile_trees(tree: Tree, log: Path) -> None:
    data = rewritten(log, lambda nodes: pack_group([*nodes[:-1], nodes[-1]._replace(chunks=tree)]))
    with bp.Archive(data) as z:
        with pytest.raises(FormatError):
            z["more"][...]
        assert np.array_equal(z["ramp"][1], ARRAYS["ramp"][1])
    assert not bp.verify(data).ok


def test_arrays_that_share_chunks_are_reported(log: Path) -> None:
    twice = lambda nodes: pack_group([*nodes, nodes[-1]._replace(name="twin")])  # noqa: E731
    data = rewritten(log, twice)
    with bp.Archive(data) as z:
        assert np.array_equal(z["twin"], z["more"])
    report = bp.verify(data)
    assert any("in the next one" in each.what for each in report.damage), report


def recovered(data: bytes) -> tuple[Any, Any]:
    """Return the arrays that are recovered, and the report."""
    stream = io.BytesIO()
    report = bp.recover(data, stream)
    with bp.Archive(stream.getvalue()) as z:
        return content_of(z), report


def test_a_damaged_group_is_taken_from_the_commit_before(log: Path) -> None:
    with bp.open(log, "r+") as z:
        z["last"] = np.arange(5)
    data = bytearray(log.read_bytes())
    before = content_of(bp.load(log))
    commit = read_commit(FileSource(log))
    data[commit.groups.root.offset + 3] ^= 1
    with pytest.raises(FormatError):
        bp.Archive(bytes(data))
    report = bp.verify(bytes(data))
    assert not report.ok
    found, report = recovered(bytes(data))
    assert found == before
    assert "log: a page or a group is damaged; restored from its copy" in report.notices
    data[DATA_OFFSET + 40] ^= 1
    found, report = recovered(bytes(data))
    assert found == {name: each for name, each in before.items() if name != "last"}
    assert any("may be older" in each.what for each in report.damage)


def test_a_damaged_array_harms_no_other(log: Path) -> None:
    with bp.open(log, "r+") as z:
        z["cut"] = np.arange(1000)
    with bp.open(log) as z:
        at = z["cut"].container.fetch(0).offset
        expected = content_of({name: each for name, each in z.items() if name != "cut"})
    data = bytearray(log.read_bytes())
    data[at + 20] ^= 1
    report = bp.verify(bytes(data))
    assert [each.member for each in report.damage] == ["cut"]
    with bp.Archive(bytes(data)) as z, pytest.raises(FormatError):
        z["cut"][...]
    found, report = recovered(bytes(data))
    assert found == expected
    assert [each.member for each in report.damage] == ["cut"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_damage_is_never_other_content(seed: int, log: Path, some: Any) -> None:
    """Flips and cuts give the content, an error, or that of the commit before with a warning."""
    with bp.open(log, "r+") as z:
        z["more"][0] = 55
        z["last"] = np.arange(400)
    whole = log.read_bytes()
    expected = content_of(bp.load(log))
    rng = np.random.default_rng(seed)
    for _ in range(25):
        data = bytearray(whole)
        if rng.random() < 0.2:
            data = data[: rng.integers(0, len(data))]
        else:
            for at in rng.integers(0, len(data), rng.integers(1, 3)):
                data[at] ^= 1 << rng.integers(8)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = content_of(bp.load(bytes(data)))
            except (BloscpackError, ValueError):
                found = None
        if found is not None and found != expected:
            assert any("later changes may be missing" in str(each.message) for each in caught)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                saved, report = recovered(bytes(data))
            except BloscpackError:
                continue
        for name in saved:
            if saved[name] != expected.get(name):
                assert report.damage, name


def test_an_archive_without_a_commit_is_not_an_empty_one(log: Path) -> None:
    data = log.read_bytes()
    for cut in (*(data[:size] for size in (64, 70, 170, 200)), data[:64] + bytes(len(data) - 64)):
        with pytest.raises(FormatError):
            bp.Archive(cut)
        assert not bp.verify(cut).ok
        with pytest.raises(FormatError):
            bp.recover(cut, io.BytesIO())


def test_a_damaged_page_hinders_no_change_of_another_array(log: Path) -> None:
    deep = log.with_name("deep.blp")
    bp.save(deep, np.arange(2100), chunks=1)
    with bp.open(log, "r+") as z, bp.open(deep) as array:
        z["deep"] = array
    with bp.open(log) as z:
        rows = z["deep"].container.front.table.rows
        assert rows.depth == 2
    data = bytearray(log.read_bytes())
    data[rows.root.offset] ^= 1
    log.write_bytes(data)
    with bp.open(log, "r+") as z:
        z["more"][0] = 55
    with bp.open(log) as z:
        assert (z["more"][0] == 55).all()
        with pytest.raises(FormatError):
            z["deep"][3]


def test_the_first_block_is_not_needed(log: Path) -> None:
    data = log.read_bytes()
    expected = content_of(bp.load(log))
    found, _ = recovered(bytes(4096) + data[4096:])
    assert found == expected


def test_a_damaged_header_is_restored(log: Path) -> None:
    data = bytearray(log.read_bytes())
    expected = content_of(bp.load(log))
    for at in (0, 5, 41, 60):
        broken = bytearray(data)
        broken[at] ^= 0xFF
        assert not bp.verify(bytes(broken)).ok
        found, _ = recovered(bytes(broken))
        assert found == expected


def test_pages_of_a_deleted_array_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    bp.savez(path, many=np.arange(2500, dtype="u1"), few=np.arange(3), chunks=1, changeable=True)
    with bp.open(path, "r+") as z:
        z["many"][7] = 9  # has pages that are not committed, too
        del z["many"]
    report = bp.verify(path)  # counts what is in use
    assert report.ok, report
    assert bp.load(path).keys() == {"few"}
