"""Damaged directories: any bytes give values or documented errors, and memory stays bounded."""

import json
import struct
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.gulp import GulpDirectory
from bloscpack.gulp.clipsource import GulpSource
from bloscpack.gulp.sanity_utils import check_data_file_size
from bloscpack.media import image

DOCUMENTED = (FormatError, CodecError, UnsupportedError)
JUNK = [b"", b"[", b"]", b"{", b"}", b'"', b"\\", b"-", b".", b"e9", b"null", b"0", b"99999999999"]
Outcome = dict[tuple[str, int], bytes]


def directory_outcome(folder: Path) -> Outcome:
    """Return the pixels of every frame that GulpDirectory reads."""
    found: Outcome = {}
    try:
        directory = GulpDirectory(folder)
    except DOCUMENTED:
        return found
    for id_ in directory.merged_meta_dict:
        try:
            number = len(directory[id_, []][0]) or len(
                directory.merged_meta_dict[id_]["frame_info"]
            )
        except DOCUMENTED:
            continue
        for k in range(number):
            try:
                found[id_, k] = directory[id_, [k]][0][0].tobytes()
            except DOCUMENTED:
                continue
    return found


def source_outcome(folder: Path) -> Outcome:
    """Return the pixels of every frame that GulpSource reads."""
    found: Outcome = {}
    try:
        source = GulpSource(folder)
    except DOCUMENTED:
        return found
    for id_ in source:
        clip = source[id_]
        for read in (lambda clip: clip.meta, lambda clip: clip.shape, lambda clip: clip[:]):
            try:
                read(clip)
            except (*DOCUMENTED, ValueError) as err:
                assert isinstance(err, DOCUMENTED) or "one by one" in str(err)  # noqa: PT017
        try:
            number = len(clip)
        except DOCUMENTED:
            continue
        for k in range(number):
            try:
                found[id_, k] = clip[k].tobytes()
            except DOCUMENTED:
                continue
    return found


@pytest.fixture
def whole(folder: Path) -> Outcome:
    found = directory_outcome(folder)
    assert len(found) == 12
    assert source_outcome(folder) == found
    return found


def mutated(data: bytes, draw: st.DataObject) -> bytes:
    """Return `data` with a few bytes changed, inserted, deleted or repeated."""
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3))):
        at = draw.draw(st.integers(0, len(changed)))
        end = at + draw.draw(st.integers(0, 20))
        kind = draw.draw(st.sampled_from(["junk", "bytes", "cut", "repeat"]))
        if kind == "junk":
            changed[at:end] = draw.draw(st.sampled_from(JUNK))
        elif kind == "bytes":
            changed[at:end] = draw.draw(st.binary(max_size=20))
        elif kind == "repeat":
            changed[at:at] = changed[at:end]
        else:
            del changed[at:]
    return bytes(changed)


@settings(
    max_examples=2 * settings().max_examples,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_any_index(folder: Path, draw: st.DataObject) -> None:
    path = folder / "meta_0.gmeta"
    data = path.read_bytes()
    path.write_bytes(mutated(data, draw))
    try:
        one, other = directory_outcome(folder), source_outcome(folder)
    finally:
        path.write_bytes(data)
    # Both read the same frames, except of items whose metadata are not an object.
    assert {key: other[key] for key in one} == one


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_data(folder: Path, draw: st.DataObject) -> None:
    path = folder / "data_0.gulp"
    data = path.read_bytes()
    path.write_bytes(mutated(data, draw))
    try:
        assert directory_outcome(folder) == source_outcome(folder)
    finally:
        path.write_bytes(data)


def test_every_cut_of_an_index_is_an_error_when_it_is_opened(folder: Path, whole: Outcome) -> None:
    path = folder / "meta_0.gmeta"
    data = path.read_bytes()
    for end in range(len(data)):
        path.write_bytes(data[:end])
        for opened in (GulpDirectory, GulpSource):
            with pytest.raises(FormatError):
                opened(folder)


def test_a_cut_of_the_data_loses_the_frames_behind_it(folder: Path, whole: Outcome) -> None:
    path = folder / "data_1.gulp"
    data = path.read_bytes()
    places = GulpDirectory(folder).merged_meta_dict["c"]["frame_info"]
    for end in range(0, len(data), 97):
        path.write_bytes(data[:end])
        left = {("c", k) for k, (loc, _, length) in enumerate(places) if loc + length <= end}
        expected = {key: value for key, value in whole.items() if key[0] != "c" or key in left}
        assert directory_outcome(folder) == expected
        assert source_outcome(folder) == expected


@pytest.fixture
def memory() -> Iterator[list[int]]:
    """Peak of traced memory, available after the test."""
    peak: list[int] = []
    tracemalloc.start()
    try:
        yield peak
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def huge_jpeg() -> bytes:
    data = image.encode_jpeg(np.zeros((8, 8, 3), "u1"))
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", 65500, 65500) + data[at + 4 :]


@pytest.mark.parametrize(
    "info",
    [
        [0, 0, 2**40],
        [0, 2**40, 2**40],
        [2**40, 0, 8],
        [0, 0, 2**62],
        [2**64, 0, 8],
        [0, 0, 10**30],
        [0, 0, -1],
        [0, -(2**40), 8],
        "huge JPEG",
    ],
)
def test_sizes_that_lie_take_no_memory(
    folder: Path, memory: list[int], info: list[int] | str
) -> None:
    if isinstance(info, str):
        data = huge_jpeg()
        (folder / "data_1.gulp").write_bytes(data)
        info = [0, 0, len(data)]
    text = json.dumps({"x": {"frame_info": [info], "meta_data": [{}]}})
    (folder / "meta_1.gmeta").write_text(text)
    directory, clip = GulpDirectory(folder), GulpSource(folder)["x"]
    reads: list[Any] = [
        lambda: directory["x"],
        lambda: clip[0],
        lambda: clip[:],
        lambda: clip.shape,
    ]
    if info[2] > 2000 or info[0]:
        reads.append(clip.read_images)
    for read in reads:
        with pytest.raises(DOCUMENTED):
            read()


def test_many_frames_of_one_record_take_no_memory(
    folder: Path, memory: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "MAX_NBYTES", 1 << 16)
    monkeypatch.setattr(image, "MAX_EXPANSION", 100)
    data = image.encode_jpeg(np.zeros((64, 64, 3), "u1"))
    (folder / "data_1.gulp").write_bytes(data)
    frame_info = [[0, 0, len(data)]] * 4000
    text = json.dumps({"x": {"frame_info": frame_info, "meta_data": [{}]}})
    (folder / "meta_1.gmeta").write_text(text)
    directory, clip = GulpDirectory(folder), GulpSource(folder)["x"]
    for read in (lambda: directory["x"], lambda: clip[:]):
        with pytest.raises(FormatError, match="can hold"):
            read()
    # Frames that the caller repeats are not limited.
    assert len(directory["x", [3999] * 50][0]) == 50
    assert len(clip[[3999] * 50]) == 50


@pytest.mark.parametrize(
    "item", [None, [1], {}, {"frame_info": []}, {"frame_info": {}, "meta_data": [{}]}]
)
def test_items_without_lists_are_errors_wherever_they_are_used(folder: Path, item: Any) -> None:
    path = folder / "meta_1.gmeta"
    path.write_text(json.dumps({"c": item}))
    directory = GulpDirectory(folder)
    assert "FormatError" in directory._repr_html_()
    with pytest.raises(FormatError, match=r"meta_1\.gmeta.*item 'c'"):
        check_data_file_size(directory)
    chunk = directory.chunk_objs_lookup[1]
    data = (folder / "data_1.gulp").read_bytes()
    with pytest.raises(FormatError, match="item 'c'"), chunk.open("ab"):
        chunk.append("c", {}, [np.zeros((8, 8), np.uint8)])
    assert (folder / "data_1.gulp").read_bytes() == data
    assert json.loads(path.read_text()) == {"c": item}


def test_a_wrong_triplet_is_an_error_of_the_check_of_sizes(folder: Path) -> None:
    items = {"c": {"frame_info": [[0, "4"]], "meta_data": [{}]}}
    (folder / "meta_1.gmeta").write_text(json.dumps(items))
    with pytest.raises(FormatError, match=r"meta_1\.gmeta.*three integers"):
        check_data_file_size(GulpDirectory(folder))


@pytest.mark.parametrize("text", ['{"walk": 1', "[" * 100_000, "\x1f"])
def test_damaged_label_numbers_are_an_error(folder: Path, text: str) -> None:
    (folder / "label2idx.json").write_text(text)
    with pytest.raises(FormatError, match=r"label2idx\.json: not JSON"):
        GulpDirectory(folder)._load_label_dict()
