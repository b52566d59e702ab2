"""Clips of a store that are removed, replaced, renamed and given other metadata."""

import gc
import os
import pickle
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import bloscpack as bp
from bloscpack.exceptions import (
    FileChangedError,
    FormatError,
    LockedError,
    NotFoundError,
    WrongKindError,
)
from bloscpack.frames.store import index as index_module
from bloscpack.frames.store import writer as writer_module
from bloscpack.frames.store.format import Tail
from bloscpack.frames.store.recoverstore import compact_store
from bloscpack.storage import lock

from ..conftest import Warned
from ..reference import frame_reader
from .stores import Array, changed, check, clip, fill, made, name, tails

# Frames of more than a page, so that holes can be seen.
SHAPE = (100, 130)
Model = dict[str, tuple[Array, dict[str, Any]]]
needs_leases = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has leases")


def state_of(store: Any) -> Model:
    return {each: (store[each].read(), store[each].meta) for each in store}


def assert_is(store: Any, model: Model) -> None:
    """Check that a store has the clips of a model, in its order, by every way to find them."""
    assert list(store) == list(store.keys()) == list(model)
    assert len(store) == len(model)
    assert store.nframes == sum(len(frames) for frames, _ in model.values())
    for number, (each, (frames, meta)) in enumerate(model.items()):
        assert each in store
        assert store.keys()[number] == each
        assert np.array_equal(store[each].read(), frames)
        assert store[each].meta == meta
    assert "missing" not in store
    assert store.summary().nclips == len(model)
    assert store.summary().nframes == store.nframes


def replaced_key(model: Model, old: str, new: str) -> Model:
    """Return a dict with one key renamed in its place."""
    return {new if key == old else key: value for key, value in model.items()}


def build(path: Path, count: int = 6) -> Model:
    model: Model = {}
    with bp.frames.create(path, nthreads=1) as store:
        for number in range(count):
            preset = ("fast", "raw")[number % 2]
            model[name(number)] = clip(number, 3, SHAPE), {"number": number}
            store.append(name(number), *model[name(number)], preset=preset)
    return model


def change(store: bp.frames.FrameStore, model: Model) -> Model:
    """Make one change of each kind, in the store and in the model."""
    model = dict(model)
    del store[name(1)], model[name(1)]
    model[name(2)] = clip(50, 2, SHAPE), {"is": "new"}
    store.replace(name(2), *model[name(2)])
    store[name(3)].meta = {"label": 4}
    model[name(3)] = model[name(3)][0], {"label": 4}
    store.rename(name(4), "other")
    model = replaced_key(model, name(4), "other")
    model["last"] = clip(51, 2, SHAPE), {}
    store.append("last", model["last"][0])
    return model


def with_changes(path: Path) -> Model:
    model = build(path)
    with bp.frames.open(path, "a", nthreads=1) as store:
        return change(store, model)


class TestChanges:
    def test_all_of_them(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        with bp.frames.open(path, "a") as store:
            after = change(store, model)
            assert_is(store, after)
        with bp.frames.open(path) as store:
            assert_is(store, after)
        report = bp.verify(path)
        assert report.ok, report
        assert "bytes of removed clips" in report.notices[-1]
        found = frame_reader.Store(path.read_bytes())
        assert [each.id for each in found.clips] == list(after)
        assert all(found.clip(each.id) is each for each in found.clips)
        assert found.clip(name(1)) is None

    def test_nothing_is_seen_before_a_flush(self, tmp_path: Path, warned: Warned) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        with bp.frames.open(path) as reader, bp.frames.open(path, "a") as store:
            after = change(store, model)
            reader.refresh()
            assert_is(reader, model)
            store.flush()
            assert_is(reader, model)
            reader.refresh()
            assert_is(reader, after)
        assert warned  # of the bytes after the last index

    def test_an_exception_forgets_the_block(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        before = path.read_bytes()

        def fail(*, flushes: bool) -> None:
            with suppress(ZeroDivisionError), bp.frames.open(path, "a") as store:
                after.update(change(store, model))
                if flushes:
                    store.flush()
                    del store["last"]
                raise ZeroDivisionError

        after: Model = {}
        fail(flushes=False)
        assert path.read_bytes() == before
        fail(flushes=True)
        with bp.frames.open(path) as store:
            assert_is(store, after)

    def test_an_error_forgets_only_its_change(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        with bp.frames.open(path, "a") as store:
            with pytest.raises(NotFoundError, match="missing"):
                del store["missing"]
            with pytest.raises(NotFoundError, match="missing"):
                store.replace("missing", clip(1))
            with pytest.raises(NotFoundError, match="missing"):
                store.rename("missing", "new")
            with pytest.raises(ValueError, match="already"):
                store.rename(name(0), name(1))
            with pytest.raises(TypeError, match="an id must be a str"):
                store.rename(name(0), 3)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="must be a mapping"):
                store[name(0)].meta = 3  # type: ignore[assignment]
            with pytest.raises(TypeError):
                store.replace(name(0), iter([np.zeros(3), object()]))
            assert_is(store, model)
            del store[name(0)]
            model.pop(name(0))
            with pytest.raises(TypeError):
                store.replace(name(1), iter([np.zeros(3), object()]))
        with bp.frames.open(path) as store:
            assert_is(store, model)
            with pytest.raises(ValueError, match="open for reading"):
                del store[name(2)]
            with pytest.raises(ValueError, match="open for reading"):
                store[name(2)].meta = {}

    def test_the_same_clip_many_times(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path, 3)
        with bp.frames.open(path, "a") as store:
            for number in range(5):
                store[name(1)].meta = {"turn": number}
                store.rename(name(1), "x")
                store.rename("x", name(1))
                store.replace(name(0), clip(number, 2, SHAPE))
                del store[name(2)]
                store.append(name(2), clip(number, 1, SHAPE))
        model[name(1)] = model[name(1)][0], {"turn": 4}
        model[name(0)] = clip(4, 2, SHAPE), {}
        model[name(2)] = clip(4, 1, SHAPE), {}
        with bp.frames.open(path) as store:
            assert_is(store, model)
        assert bp.verify(path).ok
        with bp.frames.open(path, "a") as store:
            for each in list(store):
                del store[each]
            store.flush()
            assert_is(store, {})
            store.append("new", model[name(0)][0])
        with bp.frames.open(path) as store:
            assert_is(store, {"new": model[name(0)]})
        assert bp.verify(path).ok

    def test_a_clip_obtained_before_keeps_its_frames(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        with bp.frames.open(path, "a") as store:
            old, mapped = store[name(2)], store[name(1)].read(copy=False)
            change(store, model)
            store.flush()
            assert np.array_equal(old.read(), model[name(2)][0])
            assert np.array_equal(mapped, model[name(1)][0])
            with pytest.raises(FileChangedError, match="removed"):
                _ = old.meta
        # The map keeps the chunks of the removed clip.
        assert np.array_equal(mapped, model[name(1)][0])

    def test_a_clip_obtained_before_changes_no_other(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        build(path)
        with bp.frames.open(path, "a") as store:
            renamed, replaced = store[name(0)], store[name(1)]
            store.rename(name(0), "renamed")
            store.append(name(0), clip(1, 3, SHAPE), {"label": 1})
            store.replace(name(1), clip(2, 3, SHAPE), {"label": 2})
            for old in (renamed, replaced):
                with pytest.raises(FileChangedError, match="read it from the store again"):
                    old.meta = {"label": 3}
            store[name(1)].meta = {"label": 4}
            store[name(1)].meta = {**store[name(1)].meta, "more": 5}
        with bp.frames.open(path) as store:
            assert [store[name(each)].meta["label"] for each in range(2)] == [1, 4]
            assert store[name(1)].meta["more"] == 5

    def test_many_changes_in_one_block(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(writer_module, "_MAX_SINGLE", 5)
        path = tmp_path / "a.blp"
        made(path, 100)
        with bp.frames.open(path, "a") as store:
            for number in range(0, 100, 3):
                store[name(number)].meta = {"number": -number}
                assert len(store._index.segments) <= 8
            for number in range(1, 100, 3):
                del store[name(number)]
            assert [store[each].meta["number"] for each in list(store)[:4]] == [0, 2, -3, 5]
        with bp.frames.open(path) as store:
            assert [store[each].meta["number"] for each in list(store)[:4]] == [0, 2, -3, 5]
            assert len(store._index.segments) == 1
            assert len(store) == 67
        assert bp.verify(path).ok

    def test_many_stores_as_one(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"{number}.blp" for number in range(3)]
        models = [build(path) for path in paths]
        for number, path in enumerate(paths):
            with bp.frames.open(path, "a") as store:
                for each in list(store):
                    store.rename(each, f"{number}/{each}")
            models[number] = {f"{number}/{key}": value for key, value in models[number].items()}
        with bp.frames.open(paths) as many:
            assert_many(many, models)
            with bp.frames.open(paths[1], "a") as store:
                del store[f"1/{name(2)}"]
            del models[1][f"1/{name(2)}"]
            assert f"1/{name(2)}" in many
            many.refresh()
            assert_many(many, models)

    def test_videos_keep_their_header(self, tmp_path: Path) -> None:
        pytest.importorskip("av")
        path = tmp_path / "a.blp"
        frames = np.repeat(clip(1, 9, (32, 32, 1)), 3, axis=3)
        with bp.frames.create(path, codec="video") as store:
            store.append("a", frames, {"fps": 10})
            before = store["a"].read()
        with bp.frames.open(path, "a") as store:
            store["a"].meta = {"fps": 20}
            store.rename("a", "b")
        with bp.frames.open(path) as store:
            assert store["b"].meta == {"fps": 20}
            assert np.array_equal(store["b"].read(), before)
        assert bp.verify(path).ok


def assert_many(many: Any, models: list[Model]) -> None:
    model = {key: value for each in models for key, value in each.items()}
    assert list(many) == list(model)
    assert len(many) == len(model)
    for key, (frames, meta) in model.items():
        assert np.array_equal(many[key].read(), frames)
        assert many[key].meta == meta


@needs_leases
class TestSpace:
    def disk_nbytes(self, path: Path) -> int:
        return os.stat(path).st_blocks * 512

    def test_chunks_become_holes(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        before = self.disk_nbytes(path)
        with bp.frames.open(path, "a") as store:
            del store[name(1)], store[name(2)]
        dead = sum(model[name(number)][0].nbytes for number in (1, 2))
        assert before - self.disk_nbytes(path) > dead - 5 * 4096
        with bp.frames.open(path) as store:
            assert dead < store._index.dead < dead + 1000
            assert_is(store, {k: v for k, v in model.items() if k not in (name(1), name(2))})
        assert bp.verify(path).ok

    @pytest.mark.parametrize("keep", ["store", "clip", "map", "fork", "file"])
    def test_not_beside_a_reader(self, keep: str, tmp_path: Path) -> None:
        """A handle of any kind keeps all frames that it can still read."""
        path = tmp_path / "a.blp"
        model = build(path)
        data = path.read_bytes()
        reader = bp.frames.open(path, verify=False)
        kept: Any = reader[name(1)]
        if keep == "map":
            kept = kept.read(copy=False)
            reader.close()
            del reader
            gc.collect()
        if keep == "file":
            kept = path.open("rb")
        child = None
        if keep == "fork":
            child = subprocess.Popen(
                [sys.executable, "-c", "import sys; sys.stdin.read()"],
                stdin=subprocess.PIPE,
                pass_fds=[int(reader._source._descriptor)],  # type: ignore[attr-defined]
            )
            reader.close()
        with bp.frames.open(path, "a") as store:
            del store[name(1)]
            store.replace(name(2), clip(9, 1, SHAPE))
        assert path.read_bytes()[: len(data)] == data
        if keep in ("store", "clip"):
            assert_is(reader, model)
            reader.close()
        if keep == "map":
            assert np.array_equal(kept, model[name(1)][0])
        if keep == "file":
            kept.close()
        if child is not None:
            child.communicate()

    def test_the_signal_of_a_lease_is_harmless(self, tmp_path: Path) -> None:
        """Readers that open the file all the time do not end the writer by SIGIO."""
        path = tmp_path / "a.blp"
        made(path, 30)
        code = f"while True: open({str(path)!r}, 'rb').close()"
        child = subprocess.Popen([sys.executable, "-c", code])
        try:
            for number in range(30):
                with bp.frames.open(path, "a") as store:
                    del store[name(number)]
        finally:
            child.kill()
            child.wait()
        assert bp.verify(path).ok

    def test_a_pickle_of_an_earlier_state(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = build(path)
        with bp.frames.open(path, verify=False) as store:
            stored, stored_clip = pickle.dumps(store), pickle.dumps(store[name(1)])
        with bp.frames.open(path, "a") as store:
            store[name(1)].meta = {}
        with pickle.loads(stored) as store:
            assert_is(store, model)
        with bp.frames.open(path, "a") as store:
            del store[name(1)]
        for each in (stored, stored_clip):
            with pytest.raises(FileChangedError, match="removed"):
                pickle.loads(each)

    def test_a_file_that_a_pool_closed(self, tmp_path: Path) -> None:
        paths = [tmp_path / f"{number}.blp" for number in range(2)]
        for number, path in enumerate(paths):
            with bp.frames.create(path, preset="raw") as store:
                store.append(f"{number}", clip(number, 3, SHAPE))
                store.append(f"{number} too", clip(number, 3, SHAPE))
        with bp.frames.ManyStores(paths, max_open=1, verify=False) as many:
            first = many["0"]
            first.read()
            many["1"].read()  # closes the first file
            with bp.frames.open(paths[0], "a") as store:
                store.append("0 more", clip(5, 3, SHAPE))
            assert np.array_equal(first.read(), clip(0, 3, SHAPE))
            many["1"].read()
            with bp.frames.open(paths[0], "a") as store:
                del store["0"]
            with pytest.raises(FileChangedError, match="refresh"):
                first.read()
            many["1"].read()
            many.refresh()
            assert list(many) == ["0 too", "0 more", "1", "1 too"]
            assert np.array_equal(many["0 too"].read(), clip(0, 3, SHAPE))

    def test_a_system_without_leases(self, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setattr(lock, "is_only_opened", lambda fd: False)
        path = tmp_path / "a.blp"
        model = build(path)
        data = path.read_bytes()
        with bp.frames.open(path, "a") as store:
            del store[name(1)]
        assert path.read_bytes()[: len(data)] == data
        compact_store(path)
        del model[name(1)]
        with bp.frames.open(path) as store:
            assert_is(store, model)
            assert store._index.dead == 0


class TestDamage:
    def test_a_lost_change_is_not_hidden(self, tmp_path: Path, warned: Warned) -> None:
        """Without the segment of a change the state before is found, with a warning."""
        path = tmp_path / "a.blp"
        build(path, 20)
        with bp.frames.open(path) as kept, bp.frames.open(path, "a") as store:
            del store[name(3)]
            store.replace(name(5), clip(1))
            assert kept
        data = path.read_bytes()
        path.write_bytes(changed(data, tails(data)[-1].offset + 3))
        with bp.frames.open(path) as store:
            assert len(store) == 20
        assert "not a whole clip" in warned.text
        report = bp.verify(path)
        assert not report.ok
        report = bp.recover(path, tmp_path / "b.blp")
        assert any("replaced or removed" in each for each in report.notices)

    def test_no_merged_segment_stands_for_another_state(self, tmp_path: Path) -> None:
        """Whichever segments are damaged, each state that is found is one that was committed."""
        path = tmp_path / "a.blp"
        states: list[list[tuple[str, Any]]] = [[]]

        def note() -> None:
            with bp.frames.open(path) as store:
                states.append([(each, store[each].meta) for each in store])

        made(path, 2)
        note()
        with bp.frames.open(path) as kept, bp.frames.open(path, "a", nthreads=1) as store:
            for number in range(2, 9):
                fill(store, number)
                note()
                store.flush()
                del store[name(number - 2)]
                store.flush()
                note()
                store[name(number - 1)].meta = {"turn": number}
                store.flush()
                note()
            assert kept
        data = path.read_bytes()
        found = tails(data)
        other = tmp_path / "b.blp"
        rng = np.random.default_rng(1)
        for _ in range(60):
            broken = data
            for number in rng.integers(0, len(found), 3):
                section = int(rng.integers(0, 3))
                broken = changed(broken, found[number].section_offset(section))
            other.write_bytes(broken)
            try:
                store = bp.frames.open(other)
            except FormatError:
                continue
            with store:
                try:
                    seen = [(each, store[each].meta) for each in store]
                except FormatError:
                    continue
            assert seen in states
            report = bp.recover(other, tmp_path / "c.blp")
            if not any("replaced or removed" in each for each in report.notices):
                with bp.frames.open(tmp_path / "c.blp") as again:
                    assert list(again) == [each for each, _ in states[-1]]

    def test_recover_and_compact_give_the_live_clips(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        model = with_changes(path)
        report = bp.recover(path, tmp_path / "b.blp")
        assert report.ok
        assert f"{len(model)} of {len(model)} clips saved" in report.notices
        size = path.stat().st_size
        compact_store(path)
        assert path.read_bytes() == (tmp_path / "b.blp").read_bytes()
        assert path.stat().st_size < size
        with bp.frames.open(path) as store:
            assert_is(store, model)
        assert all(not each.extra for each in tails(path.read_bytes()))
        assert bp.verify(path).ok
        with bp.frames.open(path, "a"), pytest.raises(LockedError):
            compact_store(path)

    def test_compact_refuses_damage(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        build(path)
        data = path.read_bytes()
        for place in (100, tails(data)[0].offset - 100, tails(data)[-1].offset):
            broken = changed(data, place)
            path.write_bytes(broken)
            with pytest.raises((FormatError, FileChangedError)):
                compact_store(path)
            assert path.read_bytes() == broken

    def test_flipped_bytes_are_found(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        made(path, 8)
        with bp.frames.open(path) as kept, bp.frames.open(path, "a") as store:
            del store[name(2)]
            store[name(3)].meta = {"x": 1}
            store.replace(name(4), clip(9))
            assert kept
        data = path.read_bytes()
        with bp.frames.open(path) as store:
            dead = store._index.dead
        missed = 0
        for place in range(70, len(data), 211):
            path.write_bytes(changed(data, place))
            missed += bp.verify(path, nthreads=1).ok
        assert missed * 211 < dead + 2000

    def test_lies_about_changes(self, tmp_path: Path) -> None:
        tail = Tail(0, 2, 0, 10, 1000, 200, 500, (), 5)
        for ordinals, places, removed, dead in (
            ([10, 10], [1, 1], [], 0),
            ([9, 10], [1, 1], [], 0),
            ([10, 17], [1, 1], [], 0),
            ([10, 11], [11, 1], [], 0),
            ([10, 11], [1, 1], [3, 3], 0),
            ([10, 11], [1, 1], [17], 0),
            ([10, 11], [1, 1], [-1], 0),
            ([10, 11], [1, 1], [], 1001),
        ):
            columns = (np.array(each, np.int64) for each in (ordinals, places, removed))
            packed = index_module.Changes(*columns, dead).pack()
            with pytest.raises(FormatError, match="changes"):
                index_module.Changes.unpack(packed + bytes(72), tail)
        good = index_module.Changes(
            np.array([10, 12]), np.array([1, 12]), np.array([0, 11]), 7
        ).pack()
        found, end = index_module.Changes.unpack(good + bytes(72), tail)
        assert (found.pack(), end) == (good, len(good))
        for stop in range(len(good)):
            with pytest.raises(FormatError):
                index_module.Changes.unpack((good + bytes(71))[:stop], tail)


class Machine(RuleBasedStateMachine):
    """A store and a dict, with the same operations."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        folder = os.environ["BLOSCPACK_TEST_FOLDER"]
        self.path = Path(folder) / f"{len(os.listdir(folder))}.blp"
        bp.frames.create(self.path).close()
        self.reader = bp.frames.open(self.path)
        self.store = bp.frames.open(self.path, "a", nthreads=1)
        self.model: dict[str, tuple[int, Any]] = {}
        self.committed: dict[str, tuple[int, Any]] = {}
        self.is_changed = False

    def teardown(self) -> None:
        self.reader.close()
        self.store.close()
        assert bp.verify(self.path, nthreads=1).ok
        compact_store(self.path)
        with bp.frames.open(self.path) as store:
            assert seen(store) == self.model
        data = self.path.read_bytes()
        assert [each.id for each in frame_reader.Store(data).clips] == list(self.model)
        self.path.unlink()
        self.path.touch()

    def frames(self) -> tuple[int, Array, Any]:
        self.count += 1
        frames = np.full((1 + self.count % 3, 2), self.count % 251, "u1")
        return self.count, frames, {"count": self.count}

    def done(self, *, changed: bool) -> None:
        self.is_changed |= changed
        if not self.is_changed:
            self.committed = dict(self.model)

    def pick(self, data: Any) -> str:
        return str(data.draw(st.sampled_from(sorted(self.model))))

    @rule(key=st.sampled_from("abcdefghijkl"), raw=st.booleans())
    def append(self, key: str, raw: bool) -> None:
        if key in self.model:
            return
        count, frames, meta = self.frames()
        self.store.append(key, frames, meta, preset="raw" if raw else "fast")
        self.model[key] = count, meta
        self.done(changed=False)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        key = self.pick(data)
        del self.store[key], self.model[key]
        self.done(changed=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def replace(self, data: Any) -> None:
        key = self.pick(data)
        count, frames, meta = self.frames()
        self.store.replace(key, frames, meta)
        self.model[key] = count, meta
        self.done(changed=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), new=st.sampled_from("mnopqr"))
    def rename(self, data: Any, new: str) -> None:
        key = self.pick(data)
        if new in self.model:
            return
        self.store.rename(key, new)
        self.model = {new if each == key else each: v for each, v in self.model.items()}
        self.done(changed=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=st.integers())
    def set_meta(self, data: Any, value: int) -> None:
        key = self.pick(data)
        self.store[key].meta = {"value": value}
        self.model[key] = self.model[key][0], {"value": value}
        self.done(changed=True)

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.is_changed = False
        self.done(changed=False)

    @rule(fails=st.booleans())
    def reopen(self, fails: bool) -> None:
        with suppress(ZeroDivisionError), self.store:
            assert 1 // (not fails)
        if fails:
            self.model = dict(self.committed)
        self.is_changed = False
        self.done(changed=False)
        self.store = bp.frames.open(self.path, "a", nthreads=1)

    @rule()
    def compact(self) -> None:
        self.reader.close()
        self.store.close()
        compact_store(self.path)
        self.is_changed = False
        self.done(changed=False)
        self.store = bp.frames.open(self.path, "a", nthreads=1)
        self.reader = bp.frames.open(self.path)

    @invariant()
    def agrees(self) -> None:
        assert seen(self.store) == self.model
        self.reader.refresh()
        assert seen(self.reader) == self.committed


def seen(store: bp.frames.FrameStore) -> dict[str, tuple[int, Any]]:
    """Return the number that each clip was made of, and its metadata, in order."""
    found = {}
    for key in store:
        frames = store[key].read()
        count = int(frames[0, 0])
        assert (frames == count).all()
        assert len(frames) == 1 + count % 3
        found[key] = count, store[key].meta
    return found


@pytest.mark.filterwarnings("ignore:.*are not a whole clip")
def test_any_changes(tmp_path: Path, monkeypatch: Any, no_sync: None) -> None:
    monkeypatch.setenv("BLOSCPACK_TEST_FOLDER", str(tmp_path))
    monkeypatch.setattr(writer_module, "_MAX_SINGLE", 4)
    monkeypatch.setattr(index_module, "_FEW_CLIPS", 3)
    nexamples = settings().max_examples // 4
    Machine.TestCase.settings = settings(max_examples=nexamples, stateful_step_count=40)
    Machine.TestCase("runTest").runTest()


def test_a_removal_does_not_copy_those_before(tmp_path: Path) -> None:
    count = 3000
    with bp.frames.create(tmp_path / "a.blp", nthreads=1) as store:
        for number in range(count):
            store.append(name(number), np.zeros((1, 1), "u1"))
        store.flush()
        for number in range(count - 50):
            del store[name(number)]
        tracemalloc.start()
        for number in range(count - 50, count - 1):
            del store[name(number)]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < count * 10  # a set of them has 130 KB
        assert list(store) == [name(count - 1)]


def test_unchanged_stores_have_no_changes(tmp_path: Path) -> None:
    data = made(tmp_path / "a.blp", 3, 2)
    assert all(not each.extra for each in tails(data))
    with bp.frames.open(tmp_path / "a.blp", "a"):
        pass
    assert (tmp_path / "a.blp").read_bytes() == data
    with bp.frames.open(tmp_path / "a.blp") as store:
        check(store, 0, 1, 2, 3, 4)


@pytest.mark.parametrize("options", [{"codec": "auto"}, {"changeable": True}])
def test_an_array_of_format_version_4_is_not_a_store(tmp_path: Path, options: Any) -> None:
    bp.save(tmp_path / "a.blp", np.arange(90.0).reshape(30, 3), **options)
    for mode in ("r", "a"):
        with pytest.raises(WrongKindError, match="file of an array or bytes, not a frame store"):
            bp.frames.open(tmp_path / "a.blp", mode)
