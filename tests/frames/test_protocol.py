"""Selections, batches and the mapping of ids, common to all sources of frames."""

import pickle
from collections.abc import KeysView, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.frames.protocol import FrameSource, frame_indices, read_batch
from bloscpack.storage.coalescing import LOCAL

from ..counting import CountingBytes
from ..strategies import slices
from .stores import Array, clip, fill
from .test_index import opened


@st.composite
def selections(draw: st.DrawFn, length: int) -> Any:
    if not length or draw(st.booleans()):
        return draw(slices(length))
    place = st.integers(-length, length - 1)
    listed = draw(st.lists(place, max_size=9))
    kinds = ["u1", "i2", ">i8", "u8"] if min(listed, default=0) >= 0 else ["i1", ">i8"]
    mask = draw(st.lists(st.booleans(), min_size=length, max_size=length))
    return draw(
        st.sampled_from(
            [listed, np.array(listed, draw(st.sampled_from(kinds))), mask, np.array(mask)]
        )
        | place
        | place.map(np.int16)
    )


@given(st.integers(0, 30).flatmap(lambda n: st.tuples(st.just(n), selections(n))))
def test_indices_are_numpys(case: tuple[int, Any]) -> None:
    length, selection = case
    expected = np.arange(length)[selection]
    found = frame_indices(selection, length)
    assert found.is_single == (np.ndim(expected) == 0)
    assert found.indices.dtype == np.int64
    assert found.indices.tolist() == np.atleast_1d(expected).tolist()


@pytest.mark.parametrize("selection", [None, ..., slice(None)])
def test_everything(selection: Any) -> None:
    assert frame_indices(selection, 3).indices.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("selection", "kind"),
    [
        (3, IndexError), (-4, IndexError), ([0, 3], IndexError), ([True, False], IndexError),
        (np.ones(4, bool), IndexError), (np.array([2**63], "u8"), IndexError),
        (np.array([2**64 - 1], "u8"), IndexError),
        (True, TypeError), (np.True_, TypeError), (1.0, TypeError), ("1", TypeError),
        (b"1", TypeError), ((0, 1), TypeError), ([1.0], TypeError), ([[0]], TypeError),
        (np.zeros((1, 1), int), TypeError), ({0}, TypeError), (object(), TypeError),
    ],
)  # fmt: skip
def test_invalid_selections(selection: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        frame_indices(selection, 3)


@pytest.fixture
def store(tmp_path: Path) -> bp.frames.FrameStore:
    path = tmp_path / "a.blp"
    with bp.frames.create(path, nthreads=1) as made:
        fill(made, *range(4))
        made.append("other", clip(9, 3).astype("<u2"))
        made.append("wide", clip(8, 3, (24, 26)))
    return bp.frames.open(path)


def test_a_store_is_a_source(store: bp.frames.FrameStore) -> None:
    source: FrameSource = store
    assert source.name is not None
    with source as entered:
        assert entered is source
        assert [each in source for each in source] == [True] * len(source)


class TestBatches:
    def test_one_array_or_several(self, store: bp.frames.FrameStore) -> None:
        one = store.read([("clip 0", 0), ("clip 1", 2)])
        assert isinstance(one, np.ndarray)
        assert one.shape == (2, 24, 25)
        for second in ("other", "wide"):
            several = store.read([("clip 0", 0), (second, 0)])
            assert isinstance(several, list)
            assert [part.dtype for part in several] == [np.dtype("u1"), store[second].dtype]
        lengths = store.read([("clip 0", [0]), ("clip 0", [0, 1])])
        assert [part.shape[0] for part in lengths] == [1, 2]
        mixed = store.read([("clip 0", 0), ("clip 0", [0])])
        assert [part.ndim for part in mixed] == [2, 3]

    def test_requests_may_come_one_by_one(self, store: bp.frames.FrameStore) -> None:
        found = store.read(("clip 1", number) for number in range(3))
        assert np.array_equal(found, clip(1))

    def test_out(self, store: bp.frames.FrameStore) -> None:
        asked = [("clip 0", slice(0, 2)), ("clip 3", [2, 1])]
        expected = store.read(asked)
        spread = np.zeros((2, 2, 24, 50), "u1")[..., ::2]
        assert store.read(asked, out=spread) is spread
        assert np.array_equal(spread, expected)
        parts: list[Array] = [np.zeros((2, 24, 25), "u1") for _ in range(2)]
        found = store.read(asked, out=parts)
        assert all(one is two for one, two in zip(found, parts, strict=True))
        assert np.array_equal(np.stack(parts), expected)
        for wrong, kind in (
            (parts[:1], ValueError),
            (np.zeros((3, 2, 24, 25), "u1"), ValueError),
            (np.zeros((2, 2, 24, 25), "i1"), ValueError),
            ([parts[0], None], TypeError),
        ):
            with pytest.raises(kind):
                store.read(asked, out=wrong)  # type: ignore[arg-type]
        spread.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            store.read(asked, out=spread)

    def test_clips_of_several_sources(self, store: bp.frames.FrameStore, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "b.blp") as second:
            fill(second, 7)
            asked = [(second["clip 7"], 1), (store["clip 2"], 0), (second["clip 7"], 0)]
            found = read_batch(asked, out=None, nthreads=2)
        assert np.array_equal(found, [clip(7)[1], clip(2)[0], clip(7)[0]])

    def test_reads_are_sorted_and_joined(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        with bp.frames.create(path) as made:
            for number in range(8):
                made.append(str(number), clip(number, 4, (100, 150)))
        source = CountingBytes(path.read_bytes())
        store = opened(source)
        extents = {key: store[key].chunk_extents() for key in store}
        source.reads.clear()
        store.read([(key, frame) for frame in (3, 0, 2, 1) for key in ("1", "0")])
        start, stop = extents["0"][0][0], sum(extents["1"][3]) + 8
        assert stop - start < LOCAL.max_nbytes
        assert source.reads == [(start, stop - start)]
        source.reads.clear()
        store.read([("7", 0), ("0", 0)])
        assert source.reads == [(extents[key][0][0], 100 * 150 + 24) for key in "07"]

    @given(st.lists(st.tuples(st.integers(0, 3), selections(3)), min_size=1, max_size=5))
    def test_a_batch_is_its_parts(self, asked: list[tuple[int, Any]]) -> None:
        if not hasattr(TestBatches, "shared"):
            data = CountingBytes(_four_clips())
            TestBatches.shared = opened(data)  # type: ignore[attr-defined]
        store = TestBatches.shared  # type: ignore[attr-defined]
        found = store.read([(f"clip {number}", selection) for number, selection in asked])
        assert len(found) == len(asked)
        for part, (number, selection) in zip(found, asked, strict=True):
            assert np.array_equal(part, clip(number)[selection])


def _four_clips() -> bytes:
    from tempfile import TemporaryDirectory

    from .stores import made

    with TemporaryDirectory() as folder:
        return made(Path(folder) / "a.blp", 4)


@pytest.mark.parametrize("is_many", [False, True])
def test_a_source_is_a_mapping(tmp_path: Path, is_many: bool) -> None:
    path = tmp_path / "a.blp"
    with bp.frames.create(path) as store:
        for number, id_ in enumerate(("walk", "run")):
            store.append(id_, clip(number))
    with bp.frames.open([path] if is_many else path) as source, bp.frames.open(path) as other:
        assert isinstance(source, Mapping)
        keys = source.keys()
        assert isinstance(keys, KeysView)
        assert isinstance(keys, Sequence)
        assert keys & {"run", "fly"} == {"run"}
        assert keys | {"fly"} == {"walk", "run", "fly"}
        assert keys - {"walk"} == {"run"}
        assert keys == other.keys() == {"run", "walk"}
        assert keys == ["walk", "run"] != keys[::-1]
        assert "fly" not in keys
        assert (keys[-1], list(reversed(keys)), len(keys)) == ("run", ["run", "walk"], 2)
        again = pickle.loads(pickle.dumps(keys))
        assert (type(again), list(again)) == (type(keys), ["walk", "run"])
        assert [id_ for id_, _ in pickle.loads(pickle.dumps(source.items()))] == ["walk", "run"]
        match source:
            case {"walk": found, **rest}:
                assert (found.id, list(rest)) == ("walk", ["run"])
            case _:
                pytest.fail("not matched as a mapping")
        assert source == source != other  # without reading frames
        assert len({source, other}) == 2
        assert source._ipython_key_completions_() == ["walk", "run"]
