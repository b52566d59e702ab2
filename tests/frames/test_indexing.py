"""Indexing of clips along all axes, and sources as mappings."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack as bp
from bloscpack.filetypes.arrayclips import ArrayClip, Clips
from bloscpack.filetypes.arraysource import ArraySource, Rows
from bloscpack.frames import indexing
from bloscpack.media import image

from ..counting import CountingBytes
from ..sourcecontract import axis_indices, check_clip, check_index, check_source
from .imagefiles import picture
from .stores import clip, fill, made
from .test_index import opened

FRAMES = np.arange(9 * 8 * 10 * 3, dtype="<u2").reshape(9, 8, 10, 3)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("indexing") / "a.blp"
    with bp.frames.create(path, nthreads=1, attrs={"unit": "m", "part": 1}) as store:
        store.append("small", FRAMES)  # frames share a chunk
        store.append("noise", clip(3, 9, (40, 50)))
        store.append("jpeg", [image.encode_jpeg(picture(number)) for number in range(9)])
    return path


@pytest.mark.parametrize("id_", ["small", "noise", "jpeg"])
def test_a_stored_clip_is_indexed_as_its_array(path: Path, id_: str) -> None:
    with bp.frames.open(path) as store:
        check_clip(store[id_])
        check_clip(pickle.loads(pickle.dumps(store[id_])))


@given(st.data())
def test_any_index(path: Path, data: st.DataObject) -> None:
    with bp.frames.open(path) as store:
        check_index(store["small"], FRAMES, data.draw(axis_indices(FRAMES.shape)))


@pytest.mark.parametrize("frame", [np.array(3), np.array(-1), np.int64(3)])
def test_an_array_of_no_dimension_is_one_frame(path: Path, frame: Any) -> None:
    with bp.frames.open(path) as store:
        for inside in ((), (2,), (2, slice(3, 7)), (..., 1)):
            wanted = FRAMES[(int(frame), *inside)]
            assert np.array_equal(store["small"][(frame, *inside)], wanted)


def test_a_clip_of_an_array_file() -> None:
    rows = Rows(FRAMES.shape, FRAMES.dtype, lambda place: FRAMES[place])
    made = ArrayClip("a", ArraySource(rows))
    check_clip(made)
    check_source(Clips({"a": made}, "a.npy"))


def test_only_the_wanted_frames_are_read(tmp_path: Path) -> None:
    source = CountingBytes(made(tmp_path / "a.blp", 2))
    store = opened(source)
    stored = store["clip 1"]
    offset, _ = stored.chunk_extents()[2]
    source.reads.clear()
    assert np.array_equal(stored[2, 10:20, ..., 0], clip(1)[2, 10:20, ..., 0])
    assert [each[0] for each in source.reads] == [offset]
    source.reads.clear()
    stored[[2], 5]
    assert all(place >= offset for place, _ in source.reads)


def test_parts_of_many_frames_are_read_in_bands(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexing, "_BAND_NBYTES", 2 * 40 * 50)
    with bp.frames.open(path) as store:
        stored = store["noise"]
        reads: list[int] = []
        read = type(stored).read

        def note(self: Any, selection: Any = None, **options: Any) -> Any:
            found = read(self, selection, **options)
            reads.append(len(found))
            return found

        monkeypatch.setattr(type(stored), "read", note)
        whole = clip(3, 9, (40, 50))
        for index in [(slice(None), 3), ([8, 8, 1, 0, 2], slice(4), -1)]:
            reads.clear()
            check_index(stored, whole, index)
            assert len(reads) > 2
            assert max(reads) == 2
        reads.clear()
        check_index(stored, whole, (slice(1, None), ..., slice(None)))
        assert reads == [8]  # all of it is the result


def test_frames_that_differ(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append(
            "x", [image.encode_jpeg(picture(0, 24, 32)), image.encode_jpeg(picture(1, 16, 32))]
        )
    with bp.frames.open(tmp_path / "a.blp") as store:
        assert store["x"][1, :20, 3].shape == (16, 3)
        with pytest.raises(ValueError, match="read frames that differ one by one"):
            store["x"][:, 0]
        with pytest.raises(IndexError, match="axis 1 with size 16"):
            store["x"][1, 20]


def test_stores_are_mappings(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "b.blp"
    with bp.frames.create(other, attrs={"unit": "m", "part": 2}) as store:
        fill(store, 0, 1)
    with bp.frames.open(path) as store, bp.frames.open([path, other]) as many:
        check_source(store)
        check_source(many)
        assert store.attrs == {"unit": "m", "part": 1}
        assert many.attrs == {"unit": "m"}
        for name in ("attrs", "items"):
            assert hasattr(many, name)
        with pytest.raises(TypeError):
            many.attrs["unit"] = "s"
        assert dict(many.items()).keys() == set(many)


def test_a_view_reads_no_frame(tmp_path: Path) -> None:
    source = CountingBytes(made(tmp_path / "a.blp", 3))
    store = opened(source)
    source.reads.clear()
    clips = [clip.shape for clip in store.values()]
    assert len(clips) == 3
    assert source.reads == []
