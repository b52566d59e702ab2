"""Chunks: writing, appending, reading, iterating."""

import io
import json
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack.exceptions import FileChangedError, FormatError, TruncatedError
from bloscpack.gulp import ChunkWriter, GulpChunk, fileio
from bloscpack.gulp.fileio import calculate_chunk_slices, extract_input_for_getitem
from bloscpack.gulp.utils import img_to_jpeg_bytes, jpeg_bytes_to_img
from bloscpack.media import image
from bloscpack.storage import disk

from .conftest import frames


def make(path: Path, **items: list[Any]) -> GulpChunk:
    chunk = GulpChunk(path / "data_0.gulp", path / "meta_0.gmeta")
    with chunk.open("wb"):
        for id_, images in items.items():
            chunk.append(id_, {"name": id_}, images)
    return chunk


def again(chunk: GulpChunk) -> GulpChunk:
    return GulpChunk(chunk.data_file_path, chunk.meta_file_path)


def ids(chunk: GulpChunk) -> list[str]:
    with chunk.open():
        return [meta["name"] for _, meta in chunk]


def test_chunk_round_trip(tmp_path: Path) -> None:
    written = frames(5, 12, 16, 3)
    chunk = again(make(tmp_path, a=written, b=frames(2, 9, 7)))
    assert "a" in chunk
    assert 0 not in chunk
    with chunk.open():
        found, meta = chunk["a"]
        assert chunk.read_frames("b", [1])[0][0].shape == (9, 7)
    assert meta == {"name": "a"}
    expected = [jpeg_bytes_to_img(img_to_jpeg_bytes(frame)) for frame in written]
    np.testing.assert_array_equal(found, expected)
    assert [type(frame) for frame in found] == [np.ndarray] * 5


def test_records_are_aligned_and_padded_with_nul(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(8, 9, 10, 3))
    data = Path(chunk.data_file_path).read_bytes()
    end = 0
    pads = set()
    for loc, pad, length in json.loads(Path(chunk.meta_file_path).read_text())["a"]["frame_info"]:
        assert (loc, length % 4) == (end, 0)
        assert data[loc + length - pad : loc + length] == bytes(pad)
        assert data[loc + length - pad - 2 : loc + length - pad] == b"\xff\xd9"
        end = loc + length
        pads.add(pad)
    assert end == len(data)
    assert len(pads) > 1


@pytest.mark.parametrize(
    "selector",
    [
        None,
        slice(None),
        slice(1, 4, 2),
        slice(None, None, -1),
        slice(-2, 99),
        slice(7, 9),
        [],
        [3, 3, -1],
        [True],
        np.array([4, 0]),
        np.array([], int),
    ],
)
def test_selectors(tmp_path: Path, selector: Any) -> None:
    chunk = make(tmp_path, a=frames(5, 12, 16, 3))
    with chunk.open():
        whole, _ = chunk["a"]
        picked, _ = chunk["a", selector]
    positions = list(range(5))
    if selector is None:
        pass
    elif isinstance(selector, slice):
        positions = positions[selector]
    else:
        positions = [positions[k] for k in selector]
    assert [frame.tobytes() for frame in picked] == [whole[k].tobytes() for k in positions]


@pytest.mark.parametrize(
    ("selector", "error"),
    [
        ([5], IndexError),
        ([-6], IndexError),
        (3, TypeError),
        ((1, 2), TypeError),
        (range(2), TypeError),
        (..., TypeError),
        (np.ones(5, bool), TypeError),
        ([1.0], TypeError),
        ([slice(2)], TypeError),
        ("a", TypeError),
    ],
)
def test_invalid_selections(tmp_path: Path, selector: Any, error: type[Exception]) -> None:
    chunk = make(tmp_path, a=frames(5, 12, 16, 3))
    with chunk.open(), pytest.raises(error):
        chunk.read_frames("a", selector)


def test_inputs_of_getitem() -> None:
    assert extract_input_for_getitem(3) == ("3", None)
    assert extract_input_for_getitem((3, [1])) == ("3", [1])
    for wrong in (0.5, b"a", np.int64(1), (1, 2, 3), None):
        with pytest.raises(TypeError, match="id or"):
            extract_input_for_getitem(wrong)


def test_an_unknown_item_is_a_type_error_and_a_key_error(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=[])
    for error in (TypeError, KeyError):
        with chunk.open(), pytest.raises(error, match="no item 'x'"):
            chunk["x"]


def test_a_chunk_is_read_while_it_is_open_only(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(1, 8, 8))
    with pytest.raises(ValueError, match="is closed"):
        chunk["a"]
    chunk = again(chunk)
    assert chunk.fp is None
    with pytest.raises(ValueError, match="is not open"):
        chunk["a"]
    with pytest.raises(ValueError, match="is not open"):
        chunk.append("b", {}, frames(1, 8, 8))
    with chunk.open("ab"), pytest.raises(io.UnsupportedOperation):
        chunk["a"]


def test_unknown_flags(tmp_path: Path) -> None:
    with pytest.raises(NotImplementedError, match="r\\+"), make(tmp_path).open("r+"):
        pass


def test_a_file_set_by_the_caller_is_used(tmp_path: Path) -> None:
    chunk = GulpChunk(tmp_path / "no.gulp", tmp_path / "no.gmeta")
    chunk.fp = io.BytesIO()
    chunk.append("a", {}, frames(2, 8, 8))
    assert len(chunk.read_frames("a")[0]) == 2


def test_append_to_a_chunk_and_to_an_item(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    chunk = again(chunk)
    with chunk.open("ab"):
        chunk.append("b", {"name": "b"}, frames(1, 8, 8, seed=1))
        chunk.append("a", {"name": "second"}, frames(3, 8, 8, seed=2))
    chunk = again(chunk)
    assert ids(chunk) == ["a", "b"]
    assert chunk.meta_dict["a"]["meta_data"] == [{"name": "a"}, {"name": "second"}]
    with chunk.open():
        assert [len(chunk[id_][0]) for id_ in "ab"] == [5, 1]


def test_overwriting_empties_the_chunk(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    stale = again(chunk)
    with stale.open("wb"):
        # A crash here must not leave the old index for new data.
        assert not Path(chunk.meta_file_path).exists()
        stale.append("b", {"name": "b"}, frames(1, 8, 8))
    assert ids(again(chunk)) == ids(stale) == ["b"]


def test_numbers_of_numpy_in_metadata(tmp_path: Path) -> None:
    chunk = make(tmp_path)
    with chunk.open("ab"):
        chunk.append("a", {"label": np.int64(3), "box": np.arange(2.0)}, frames(1, 8, 8))
    with again(chunk).open():
        assert again(chunk).meta_dict["a"]["meta_data"] == [{"label": 3, "box": [0.0, 1.0]}]


@pytest.mark.parametrize(
    ("meta", "images", "error"),
    [
        ({"x": object()}, frames(1, 8, 8), TypeError),
        (None, frames(1, 8, 8), TypeError),
        ([1], frames(1, 8, 8), TypeError),
        ([("name", "b")], frames(1, 8, 8), TypeError),
        ({1: 2, "1": 3}, frames(1, 8, 8), TypeError),
        ({"x": [{None: 2, "null": 3}]}, frames(1, 8, 8), TypeError),
        ({}, [*frames(1, 8, 8), np.zeros((8, 8), "f4")], ValueError),
        ({}, [np.zeros((8, 8, 4), "u1")], ValueError),
        ({}, [np.zeros((2, 8, 8, 3), "u1")], ValueError),
        ({}, [b"no jpeg"], ValueError),
    ],
)
def test_an_item_is_written_whole_or_not_at_all(
    tmp_path: Path, meta: Any, images: list[Any], error: type[Exception]
) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    with chunk.open("ab"):
        with pytest.raises(error):
            chunk.append("b", meta, images)
        chunk.append("c", {"name": "c"}, frames(1, 8, 8))
    assert ids(again(chunk)) == ids(chunk) == ["a", "c"]


def test_the_metadata_may_be_used_again(tmp_path: Path) -> None:
    chunk, meta = make(tmp_path), {"name": "a", "box": [1]}
    with chunk.open("ab"):
        for name in "ab":
            meta["name"], meta["box"][0] = name, name  # type: ignore[index]
            chunk.append(name, meta, frames(1, 8, 8))
    found = again(chunk).meta_dict
    assert [found[name]["meta_data"][0]["box"] for name in "ab"] == [["a"], ["b"]]
    assert ids(again(chunk)) == ["a", "b"]


def test_one_block_writes_at_a_time(tmp_path: Path) -> None:
    """The second would write from the end of the file, where the frames of the first belong."""
    chunk = make(tmp_path)
    for flag in ("wb", "ab"):
        with chunk.open("ab"):
            chunk.append(flag, {"name": flag}, frames(1, 8, 8))
            with pytest.raises(ValueError, match="open for writing already"), chunk.open(flag):
                pass
            with chunk.open("rb"):
                pass
    assert ids(again(chunk)) == ["wb", "ab"]


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_appended_without_a_block_that_writes(tmp_path: Path, count: int) -> None:
    chunk = make(tmp_path, a=frames(1, 8, 8))
    with chunk.open("rb"), pytest.raises(io.UnsupportedOperation, match="not open for writing"):
        chunk.append("b", {"name": "b"}, frames(count, 8, 8))
    with pytest.raises(ValueError, match="not open for writing"):
        chunk.append("b", {"name": "b"}, frames(count, 8, 8))
    unopened = again(chunk)
    with pytest.raises(ValueError, match="is not open"):
        unopened.append("b", {"name": "b"}, frames(count, 8, 8))
    assert list(chunk.meta_dict) == list(unopened.meta_dict) == ["a"]


def append_around(chunk: GulpChunk, other: GulpChunk) -> None:
    with chunk.open("ab"):
        chunk.append("b", {"name": "b"}, frames(1, 8, 8))
        with other.open("ab"):
            other.append("c", {"name": "c"}, frames(1, 8, 8))


def test_items_of_another_writer_are_not_lost(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(1, 8, 8))
    other, late = again(chunk), again(chunk)
    with pytest.raises(FileChangedError, match="changed since"):
        append_around(other, chunk)
    with pytest.raises(FileChangedError, match="changed since"), late.open("ab"):
        pass
    assert ids(again(chunk)) == ids(other) == ["a", "c"]
    with other.open("ab"):
        other.append("d", {"name": "d"}, frames(1, 8, 8))
    assert ids(again(chunk)) == ["a", "c", "d"]


def test_arrays_of_any_strides_and_iterators_of_frames(tmp_path: Path) -> None:
    colour = frames(1, 9, 8, 3)[0]
    chunk = make(
        tmp_path,
        a=[np.asfortranarray(colour), colour[..., :1], colour[..., 0] > 127],
        b=iter(frames(2, 8, 8)),
        c=np.stack(frames(2, 8, 8)),
    )
    with chunk.open():
        assert [frame.shape for frame in chunk["a"][0]] == [(9, 8, 3), (9, 8), (9, 8)]
        assert [len(chunk[id_][0]) for id_ in "bc"] == [2, 2]


def test_an_encoder_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    threads = set()

    def encoder(frame: Any) -> bytes:
        given.append(frame)
        threads.add(threading.get_ident())
        return image.encode_jpeg(np.full((8, 8), 40 * len(given), "u1"))

    monkeypatch.setenv("BLOSCPACK_NTHREADS", "4")
    monkeypatch.setattr(fileio, "img_to_jpeg_bytes", encoder)
    large = list(np.zeros((4, 1 << 20), "u1"))  # large enough for threads, which are not allowed
    chunk = make(tmp_path, a=["one", None, *large])
    assert [id(frame) for frame in given[2:]] == [id(frame) for frame in large]
    assert given[:2] == ["one", None]
    assert threads == {threading.get_ident()}
    with chunk.open():
        assert [round(frame.mean() / 40) for frame in chunk["a"][0]] == [1, 2, 3, 4, 5, 6]


def test_jpegs_are_kept_as_they_are(tmp_path: Path) -> None:
    jpegs = [image.encode_jpeg(frame, quality=50) for frame in frames(3, 9, 8, 3)]
    chunk = make(tmp_path, a=[jpegs[0], bytearray(jpegs[1]), memoryview(jpegs[2])])
    data = Path(chunk.data_file_path).read_bytes()
    for (loc, pad, length), jpeg in zip(chunk.meta_dict["a"]["frame_info"], jpegs, strict=True):
        assert data[loc : loc + length - pad] == jpeg


def append_and_fail(chunk: GulpChunk, flag: str) -> None:
    with chunk.open(flag):
        chunk.append("b", {"name": "b"}, frames(1, 8, 8))
        raise KeyError


def test_an_error_while_appending_takes_everything_back(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    before = Path(chunk.meta_file_path).read_bytes()
    with pytest.raises(KeyError):
        append_and_fail(chunk, "ab")
    assert Path(chunk.meta_file_path).read_bytes() == before
    assert ids(chunk) == ids(again(chunk)) == ["a"]
    # The data of b are still in the file; the next append goes after them.
    with chunk.open("ab"):
        chunk.append("c", {"name": "c"}, frames(1, 8, 8, seed=3))
    assert ids(again(chunk)) == ["a", "c"]


def test_an_error_while_overwriting_leaves_no_file(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    with pytest.raises(KeyError):
        append_and_fail(chunk, "wb")
    assert os.listdir(tmp_path) == []
    assert chunk.meta_dict == {}


def test_data_are_durable_before_the_index_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []

    def noted(name: str) -> Any:
        original = getattr(disk, name)

        def call(*args: Any) -> Any:
            what = (
                os.path.basename(os.readlink(f"/proc/self/fd/{args[0]}"))
                if (name == "sync")
                else os.path.basename(args[-1])
            )
            if what == tmp_path.name:
                what = "folder"
            elif not what.startswith(("data", "meta")):
                what = "temporary"
            calls.append(f"{name} {what}")
            return original(*args)

        return call

    chunk = make(tmp_path, a=frames(1, 8, 8))
    for name in ("sync", "sync_folder", "replace"):
        monkeypatch.setattr(disk, name, noted(name))
    with chunk.open("ab"):
        chunk.append("b", {}, frames(1, 8, 8))
    assert calls == [
        *("sync data_0.gulp", "sync temporary"),
        *("replace meta_0.gmeta", "sync_folder folder"),
    ]


def test_a_failed_index_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk = make(tmp_path, a=frames(1, 8, 8))
    before = Path(chunk.meta_file_path).read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(disk, "write_at", full)
    with pytest.raises(OSError, match="No space"), chunk.open("ab"):
        chunk.append("b", {}, frames(1, 8, 8))
    assert Path(chunk.meta_file_path).read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["data_0.gulp", "meta_0.gmeta"]


def test_iteration(tmp_path: Path) -> None:
    chunk = make(tmp_path, b=frames(1, 8, 8), a=frames(2, 8, 8), c=[])
    assert [(len(found), meta["name"]) for found, meta in chunk] == [(1, "b"), (2, "a"), (0, "c")]
    assert [meta["name"] for _, meta in chunk.iter_all(["c", "b", "x"])] == ["b", "c"]
    np.random.seed(3)
    shuffled = [meta["name"] for _, meta in chunk.iter_all(shuffle=True)]
    np.random.seed(3)
    expected = ["b", "a", "c"]
    np.random.shuffle(expected)
    assert shuffled == expected


def test_reading_and_iterating_at_once(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8), b=frames(2, 8, 8), c=frames(1, 8, 8))
    first, second = iter(chunk), iter(chunk)
    next(first)
    next(second)
    with chunk.open():
        assert len(chunk["c"][0]) == 1
    assert [meta["name"] for _, meta in first] == ["b", "c"]
    assert [meta["name"] for _, meta in second] == ["b", "c"]
    assert chunk.fp is not None
    assert chunk.fp.closed


def test_reading_while_appending(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    with chunk.open("ab"):
        iterator = iter(chunk)
        with chunk.open():
            assert len(chunk["a"][0]) == 2
            chunk.append("b", {"name": "b"}, frames(1, 8, 8))
        assert len(next(iterator)[0]) == 2
        chunk.append("c", {"name": "c"}, frames(1, 8, 8))
        iterator.close()
    assert ids(again(chunk)) == ["a", "b", "c"]


def test_an_iteration_that_is_left_closes_the_file(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8), b=[])
    iterator = iter(chunk)
    next(iterator)
    file = chunk.fp
    iterator.close()
    assert file is not None
    assert file.closed


def test_decoders_of_the_caller(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(3, 9, 8, 3))
    given: list[bytes] = []

    def decoder(data: bytes) -> int:
        given.append(data)
        return len(given)

    chunk = GulpChunk(chunk.data_file_path, chunk.meta_file_path, jpeg_decoder=decoder)
    with chunk.open():
        # In the requested order.
        assert chunk["a", [2, 0, 1]][0] == [1, 2, 3]
    assert [type(data) for data in given] == [bytes] * 3
    images = [img_to_jpeg_bytes(frame) for frame in frames(3, 9, 8, 3)]
    assert given == [images[2], images[0], images[1]]


def test_metadata_are_copied(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=[])
    with chunk.open():
        chunk["a"][1]["name"] = "changed"
        assert chunk["a"][1] == {"name": "a"}


def test_a_chunk_pickles_also_while_it_is_open(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    with chunk.open():
        copy = pickle.loads(pickle.dumps(chunk))
    with copy.open():
        assert len(copy["a"][0]) == 2


@pytest.mark.parametrize(
    ("item", "selector", "said"),
    [
        ({"frame_info": [[0, 0, 4], [-4, 0, 4]], "meta_data": [{}]}, [1], "frame 1"),
        ({"frame_info": [[0, 0, 2**40]], "meta_data": [{}]}, None, "ends at byte"),
        ({"frame_info": [[2**61, 0, 4]], "meta_data": [{}]}, None, "loc"),
        ({"frame_info": [[0, 0, 4]], "meta_data": [{}]}, None, "frame 0"),
        ({"frame_info": [], "meta_data": []}, None, "meta_data"),
        ({"frame_info": []}, None, "meta_data"),
        ({"frame_info": {}, "meta_data": [{}]}, None, "frame_info"),
        ([], None, "item 'x'"),
        (3, None, "item 'x'"),
    ],
)
def test_damaged_items_do_not_harm_others(
    tmp_path: Path, item: Any, selector: Any, said: str
) -> None:
    chunk = make(tmp_path, a=frames(2, 8, 8))
    index = json.loads(Path(chunk.meta_file_path).read_text())
    Path(chunk.meta_file_path).write_text(json.dumps({**index, "x": item}))
    chunk = again(chunk)
    with chunk.open():
        with pytest.raises(ValueError, match=said) as caught:
            chunk["x", selector]
        assert "data_0.gulp" in str(caught.value)
        assert len(chunk["a"][0]) == 2


def test_a_cut_file(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=frames(3, 8, 8))
    with open(chunk.data_file_path, "r+b") as file:
        file.truncate(chunk.meta_dict["a"]["frame_info"][2].loc + 5)
    with chunk.open():
        assert len(chunk["a", slice(2)][0]) == 2
        with pytest.raises(TruncatedError, match="frame 2"):
            chunk["a"]


def test_a_damaged_index_is_named(tmp_path: Path) -> None:
    chunk = make(tmp_path, a=[])
    Path(chunk.meta_file_path).write_bytes(b"")
    with pytest.raises(FormatError, match=r"meta_0\.gmeta"):
        again(chunk)


class Adapter:
    """The adapter methods that a ChunkWriter uses."""

    def __init__(self, *ids: object) -> None:
        self.items = [{"id": id_, "meta": {"name": id_}, "frames": frames(1, 8, 8)} for id_ in ids]

    def iter_data(self, selected: slice) -> Any:
        return iter(self.items[selected])


def test_a_chunk_writer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adapter = Adapter(*"abcd")
    adapter.items[2]["frames"] = []
    chunk = make(tmp_path, old=frames(1, 8, 8))
    ChunkWriter(adapter).write_chunk(chunk, slice(1, 4))
    assert ids(again(chunk)) == ["b", "d"]
    assert "c; no frames" in capsys.readouterr().out


def test_a_chunk_writer_refuses_an_id_that_comes_twice(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two items of id '1'"):
        ChunkWriter(Adapter(1, 2, "1")).write_chunk(make(tmp_path), slice(3))
    assert os.listdir(tmp_path) == []


def test_slices_of_chunks() -> None:
    assert calculate_chunk_slices(2, 5) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    for wrong in ((0, 1), (1, 0), (-1, 1)):
        with pytest.raises(AssertionError):
            calculate_chunk_slices(*wrong)
