"""Archives that are changed in place, against a dict of numpy arrays."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.container import changes
from bloscpack.storage import disk

from .archives import ARRAYS, ATTRS, content_of, packed


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk."""
    monkeypatch.setattr(disk, "sync", lambda _: None)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the path of an archive that was never changed."""
    path = tmp_path / "set.blp"
    path.write_bytes(packed(attrs=ATTRS))
    return path


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make groups of 3 nodes, so that few arrays make several."""
    monkeypatch.setattr(changes, "GROUP_NODES", 3)


class Model:
    """An archive, and a dict of what it should hold."""

    def __init__(self, data: st.DataObject, path: Path) -> None:
        self.draw, self.path = data.draw, path
        self.now: dict[str, Any] = {f"{n}": self.values(n + 1) for n in range(4)}
        self.attrs: dict[str, Any] = {}
        bp.savez(path, self.now, changeable=self.draw(st.booleans()))
        self.keep()
        self.file: Any = bp.open(path, "r+")

    def values(self, rows: int) -> Any:
        kind = self.draw(st.sampled_from(["f8", "u1", ">i4", "U2"]))
        return np.random.default_rng(rows).integers(0, 99, (rows, 3)).astype(kind)

    def keep(self) -> None:
        """Note the state of the file, and check it."""
        self.committed = {name: each.copy() for name, each in self.now.items()}
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

    def delete(self) -> None:
        if self.now:
            name = self.name()
            handle = self.file[name]
            del self.file[name], self.now[name]
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
        assert self.file.attrs == self.attrs
        self.check_file()

    def check_file(self) -> None:
        """Check that other readers have the committed state."""
        with bp.open(self.path) as found:
            assert list(found) == list(self.committed)
            assert content_of(found) == content_of(self.committed)
            assert found.attrs == self.committed_attrs


@pytest.mark.usefixtures("small_groups")
@settings(deadline=None, max_examples=60)
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
    with pytest.raises(bp.exceptions.NotFoundError, match="no version 2: the file has 3 to 6"):
        bp.open(f"{path}::/x", version=2)
    with bp.open(path, "r+", keep=0):
        pass
    (only,) = bp.versions(path)
    assert (only.number, only.narrays) == (7, len(copies[-1]))
    bp.compact(path)
    (only,) = bp.versions(path)
    assert (only.number, only.narrays) == (0, len(copies[-1]))
