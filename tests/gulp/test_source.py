"""A Gulp directory as a source of clips."""

import copy
import io
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from bloscpack.exceptions import (
    CodecError,
    FormatError,
    NotBloscpackError,
    NotFoundError,
    TruncatedError,
)
from bloscpack.frames.protocol import Clip, FrameSource
from bloscpack.gulp import GulpDirectory
from bloscpack.gulp import clipsource as gulp_source
from bloscpack.gulp.clipsource import GulpSource
from bloscpack.media import image
from bloscpack.storage.file import FileSource

from ..sourcecontract import check_clip, check_source
from .conftest import frames, write


@pytest.fixture
def source(folder: Path) -> Iterator[GulpSource]:
    with GulpSource(folder) as source:
        yield source


def test_it_is_a_source(source: GulpSource, folder: Path) -> None:
    as_source: FrameSource = source
    clip: Clip = as_source["a"]
    assert list(source) == list(source.keys()) == ["a", "b", "c"]
    assert source.keys()[-1] == "c"
    assert len(source) == 3
    assert "b" in source
    assert "x" not in source
    assert 3 not in source
    assert [] not in source
    assert source.name == str(folder)
    assert (clip.id, clip.shape, clip.dtype, len(clip)) == ("a", (5, 12, 16, 3), np.uint8, 5)
    assert source["b"].shape == (3, 9, 7)
    check_source(source)
    check_clip(source["a"])
    check_clip(source["b"])


@pytest.mark.parametrize("key", ["x", "", 3, None, []])
def test_an_unknown_clip(source: GulpSource, key: Any) -> None:
    with pytest.raises(NotFoundError, match="no clip"):
        source[key]


def test_metadata_are_read_only(source: GulpSource) -> None:
    clip = source["a"]
    with pytest.raises(TypeError, match="the file would not change"):
        clip.meta["name"] = "changed"
    assert clip.meta == {"name": "a"}
    assert clip.meta_data is not None
    with pytest.raises(TypeError, match="the file would not change"):
        clip.meta_data[0]["name"] = "changed"


@pytest.mark.parametrize(
    "selection",
    [
        None,
        slice(1, 4, 2),
        slice(None, None, -2),
        slice(9, 9),
        [3, 3, -1],
        [],
        np.array([4, 0]),
        2,
        -1,
        np.int64(1),
        np.array([True, False, True, True, False]),
    ],
)
def test_selections(source: GulpSource, folder: Path, selection: Any) -> None:
    expected = np.array(GulpDirectory(folder)["a"][0])
    expected = expected[() if selection is None else selection]
    if isinstance(selection, list) and not selection:
        expected = np.empty((0, 12, 16, 3), "u1")
    clip = source["a"]
    found = clip.read(selection)
    np.testing.assert_array_equal(found, expected)
    assert found.shape == expected.shape
    out = np.zeros_like(expected)
    assert clip.read(selection, out=out) is out
    np.testing.assert_array_equal(out, expected)
    decoded = [image.decode(data) for data in clip.read_images(selection)]
    np.testing.assert_array_equal(np.array(decoded).reshape(expected.shape), expected)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.lists(st.integers(-3, 2), max_size=4)
            | st.builds(slice, st.integers(-4, 4), st.integers(-4, 4), st.sampled_from([1, 2, -1])),
        ),
        max_size=5,
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_batch_is_its_parts(folder: Path, requests: list[Any]) -> None:
    with GulpSource(folder) as source:
        expected = [source[id_].read(selection) for id_, selection in requests]
        for nthreads in (1, 2):
            found = source.read(requests, nthreads=nthreads)
            assert len(found) == len(expected)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(one, other)


def test_a_batch_of_one_shape_is_one_array(source: GulpSource) -> None:
    found = source.read([("a", slice(2)), ("c", [3, 0])])
    assert isinstance(found, np.ndarray)
    assert found.shape == (2, 2, 12, 16, 3)
    out = np.zeros_like(found)
    assert source.read([("a", slice(2)), ("c", [3, 0])], out=out) is out
    np.testing.assert_array_equal(out, found)


def test_frames_that_differ_are_read_one_by_one(tmp_path: Path) -> None:
    images = [*frames(2, 8, 9), *frames(1, 9, 8), *frames(1, 8, 9, 3)]
    write(tmp_path, 0, {"a": images})
    clip = GulpSource(tmp_path)["a"]
    assert clip.shape == (4, 8, 9)
    assert [clip[k].shape for k in range(4)] == [(8, 9), (8, 9), (9, 8), (8, 9, 3)]
    assert clip[[3, 3]].shape == (2, 8, 9, 3)
    with pytest.raises(ValueError, match=r"frame 2 has shape.*frame 0") as caught:
        clip[:3]
    assert not isinstance(caught.value, FormatError)
    assert len(clip.read_images()) == 4


def test_a_clip_without_frames(tmp_path: Path) -> None:
    write(tmp_path, 0, {"a": []})
    clip = GulpSource(tmp_path)["a"]
    assert (clip.shape, len(clip), clip[:].shape, clip.read_images()) == ((0,), 0, (0,), [])
    with pytest.raises(IndexError):
        clip[0]


def test_only_requested_frames_are_read(
    source: GulpSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, int]] = []
    monkeypatch.setattr(gulp_source, "_HEADER_NBYTES", 700)  # more than these headers have
    original = FileSource.read_into

    def noted(self: FileSource, offset: int, view: memoryview) -> int:
        read.append((offset, len(view)))
        return original(self, offset, view)

    monkeypatch.setattr(FileSource, "read_into", noted)
    clip = source["a"]
    places = clip._triplets().tolist()
    clip[[2, 1]]
    # One call for two adjacent records.
    assert read == [(places[1][0], places[1][2] + places[2][2])]


def test_a_header_behind_long_comments(tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.fromarray(frames(1, 8, 9, 3)[0]).save(stream, "JPEG", comment=b"x" * 9000)
    write(tmp_path, 0, {"a": [stream.getvalue()] * 2})
    assert GulpSource(tmp_path)["a"].shape == (2, 8, 9, 3)


def test_few_files_are_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gulp_source, "MAX_OPEN_FILES", 3)
    for number in range(8):
        write(tmp_path, number, {str(number): frames(1, 8, 8, seed=number)})
    with GulpSource(tmp_path) as source:
        assert len(source._files) == 0
        for _ in range(2):
            for id_ in source:
                assert source[id_][0].shape == (8, 8)
                assert len(source._files) <= 3
        # More files at once than may stay open.
        assert source.read([(id_, 0) for id_ in source]).shape == (8, 8, 8)


def test_a_closed_source(source: GulpSource) -> None:
    clip = source["a"]
    source.close()
    source.close()
    with pytest.raises(ValueError, match="closed"):
        clip[0]


def test_it_pickles_as_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    source = GulpSource(folder.name)
    data = pickle.dumps(source)
    assert len(data) < 300
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(pickle.loads(data)["a"][:], source["a"][:])
    assert list(copy.copy(source)) == list(source)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        GulpSource(tmp_path / "no")
    with pytest.raises(NotBloscpackError, match="not a Gulp directory: it is empty"):
        GulpSource(tmp_path)


def test_damage_is_named_and_loses_that_frame_only(folder: Path) -> None:
    data = bytearray((folder / "data_0.gulp").read_bytes())
    with GulpSource(folder) as source:
        expected = source["a"][:]
        loc, _, length = source["a"]._triplets()[2].tolist()
    data[loc + length - 60 : loc + length] = bytes(60)
    loc = source["a"]._triplets()[0, 0]
    data[loc : loc + 2] = b"PN"
    (folder / "data_0.gulp").write_bytes(data)
    clip = GulpSource(folder)["a"]
    for frame, error in ((2, CodecError), (0, FormatError)):
        with pytest.raises(error, match=rf"data_0\.gulp: clip 'a', frame {frame}: "):
            clip[[frame]]
    with pytest.raises(CodecError, match="frame 2"):
        clip[1:]
    np.testing.assert_array_equal(clip[[1, 3, 4]], expected[[1, 3, 4]])


def test_only_jpeg_images_are_frames(folder: Path) -> None:
    png = image.encode_png(frames(1, 12, 16, 3)[0])
    data = (folder / "data_1.gulp").read_bytes()
    (folder / "data_1.gulp").write_bytes(data + png)
    text = (folder / "meta_1.gmeta").read_text()
    end = text.index("]], ") + 1
    (folder / "meta_1.gmeta").write_text(f"{text[:end]}, [{len(data)}, 0, {len(png)}]{text[end:]}")
    clip = GulpSource(folder)["c"]
    assert len(clip) == 5
    for selection in ([4], [0, 4]):
        with pytest.raises(FormatError, match="frame 4: no JPEG"):
            clip[selection]
    with pytest.raises(ValueError, match="frame 4: no JPEG"):
        GulpDirectory(folder)["c"]


def test_a_cut_file(folder: Path) -> None:
    clip = GulpSource(folder)["c"]
    loc = int(clip._triplets()[3, 0])
    with (folder / "data_1.gulp").open("r+b") as file:
        file.truncate(loc + 4)
    assert clip[:3].shape[0] == 3
    for read in (clip.read, clip.read_images):
        with pytest.raises(TruncatedError, match=r"data_1\.gulp: clip 'c', frame 3"):
            read([2, 3])


@pytest.mark.parametrize("text", ["[0, 0, 1099511627776]", "[-4, 0, 4]", "[0, 5, 4]", "[0, 0, 0]"])
def test_places_outside_the_file(folder: Path, text: str) -> None:
    path = folder / "meta_1.gmeta"
    path.write_text(f'{{"c": {{"frame_info": [{text}, [0, 0, 8]], "meta_data": []}}, "d": {{}}}}')
    source = GulpSource(folder)
    for read in (source["c"].read, lambda _: source["c"].shape):
        with pytest.raises(FormatError, match="clip 'c', frame 0"):
            read([0])
    with pytest.raises(FormatError, match=r"meta_1\.gmeta: clip 'c': .*meta_data"):
        _ = source["c"].meta
    with pytest.raises(FormatError, match=r"meta_1\.gmeta: clip 'd': .*frame_info"):
        len(source["d"])
    assert len(source["a"]) == 5
