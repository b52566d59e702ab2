"""Names, index text and frame locations of a Gulp directory, without files."""

import io
import json
import tracemalloc
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.gulp.chunk import format as gulp_format
from bloscpack.gulp.chunk.format import (
    ImgInfo,
    dump_meta,
    frame_info,
    list_chunks,
    load_meta,
    padding,
)
from bloscpack.gulp.chunk.textindex import parse_meta_data, parse_triplets, scan_index
from bloscpack.gulp.gulperrors import DirectoryError

# Values that survive a round trip through JSON, except NaN.
KEYS = st.text(max_size=5) | st.sampled_from(["\ud800", "\0", "a/b", '"', "\\", "☃", ""])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
METADATA = st.dictionaries(KEYS, VALUES, max_size=4)
TRIPLETS = st.tuples(st.integers(0, 2**50), st.integers(0, 3), st.integers(4, 2**40))
ITEMS = st.dictionaries(
    KEYS,
    st.tuples(st.lists(TRIPLETS, max_size=4), st.lists(METADATA, min_size=1, max_size=2)),
    max_size=5,
)


def index(items: dict[str, Any]) -> OrderedDict[str, Any]:
    return OrderedDict(
        (id_, OrderedDict(frame_info=[ImgInfo(*t) for t in triplets], meta_data=meta))
        for id_, (triplets, meta) in items.items()
    )


@pytest.mark.slow
@given(ITEMS)
def test_text_is_that_of_json_dump(items: dict[str, Any]) -> None:
    thing = index(items)
    stream = io.StringIO()
    json.dump(thing, stream)
    text = dump_meta(thing)
    assert text == stream.getvalue()
    loaded = load_meta(text.encode())
    assert loaded == json.loads(text, object_pairs_hook=OrderedDict)
    assert repr(loaded) == repr(json.loads(text, object_pairs_hook=OrderedDict))


@pytest.mark.slow
@given(ITEMS, st.booleans())
def test_scanning_an_index_equals_parsing_it(items: dict[str, Any], indented: bool) -> None:
    thing = json.loads(dump_meta(index(items)))
    data = json.dumps(thing, indent=1).encode() if indented else dump_meta(thing).encode()
    text, places = scan_index(data)
    assert [place.id for place in places] == list(thing)
    for id_, frames, meta_data in places:
        triplets = parse_triplets(text[slice(*frames)])
        assert triplets.dtype == np.int64
        assert triplets.tolist() == thing[id_]["frame_info"]
        assert parse_meta_data(text[slice(*meta_data)]) == thing[id_]["meta_data"][0]


def test_numbers_of_numpy_are_written_as_pythons() -> None:
    meta = {
        "i": np.int64(3),
        "f": np.float32(0.5),
        "b": np.bool_(True),
        "a": np.arange(3),
        np.int64(7): [{np.int32(8): np.uint8(9)}],
    }
    assert dump_meta(meta) == ('{"i": 3, "f": 0.5, "b": true, "a": [0, 1, 2], "7": [{"8": 9}]}')


@pytest.mark.parametrize("value", [{1, 2}, object(), b"x", np.array([1j]), {(1, 2): 3}])
def test_values_that_json_lacks(value: Any) -> None:
    with pytest.raises(TypeError):
        dump_meta({"a": value})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b'{"a": }',
        b"{} {}",
        b"\xff\xfe{\0}\0",
        b"\xef\xbb\xbf{}",
        b'{"a": "\n"}',
        b"[" * 100_000,
        b"[" * 10_000,
        b'{"a":' * 10_000,
        b'{"a": {"frame_info": [], "meta_data": [' + b"[" * 10_000,
        b"1" * 5000,
        b'{"a": 1, "a": 2}',
    ],
)
def test_damaged_text(data: bytes) -> None:
    with pytest.raises(FormatError):
        load_meta(data)
    with pytest.raises(FormatError):
        scan_index(data)


@pytest.mark.parametrize("part", [b"[],", b"{},", b'{"":{}},'])
def test_memory_for_an_index_is_bounded_by_its_size(part: bytes) -> None:
    data = b"[" + part * 500_000 + b"0]"
    for read in (load_meta, scan_index):
        tracemalloc.start()
        try:
            with pytest.raises(FormatError, match="objects"):
                read(data)
            assert tracemalloc.get_traced_memory()[1] < 4 * len(data)
        finally:
            tracemalloc.stop()


@pytest.mark.slow
def test_a_dense_index_is_read() -> None:
    thing = {str(k): {"frame_info": [[0, 0, 4]], "meta_data": [{}]} for k in range(20_000)}
    assert len(load_meta(json.dumps(thing).encode())) == 20_000
    assert len(scan_index(json.dumps(thing, separators=(",", ":")).encode())[1]) == 20_000


def test_an_index_of_no_size_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gulp_format, "MAX_META_NBYTES", 10)
    assert load_meta(b"[12345678]") == [12345678]
    with pytest.raises(UnsupportedError):
        load_meta(b"[123456789]")


@pytest.mark.parametrize(
    "data",
    [
        b"[]",
        b"null",
        b"3",
        b'{"a": {"frame_info": [], "meta_data": [{}]}, "\\u0061": {}}',
        b'{"a": {"frame_info": [], "meta_data": [{}]}, "a": {"frame_info": [], "meta_data": []}}',
        b'{"a": {"frame_info": [], "meta_data": [{}]}',
        b'{"a": {"frame_info": [], "meta_data": [{}]}}x',
        b'{"a": {"frame_info": [], "meta_data": [{}]}, }',
        b'{"a": {"frame_info": [[0, 0 4]], "meta_data": [{}]}}',
        b'{"a": {"frame_info": [[0, 0, 4],], "meta_data": [{}]}}',
        b'{"a": {"frame_info": [[00, 0, 4]], "meta_data": [{}]}}',
    ],
)
def test_an_index_must_be_an_object_of_items(data: bytes) -> None:
    with pytest.raises(FormatError):
        scan_index(data)


@pytest.mark.parametrize(
    "frame",
    [
        "[-1, 0, 4]",
        "[0, -1, 4]",
        "[0, 0, -4]",
        "[0, 5, 4]",
        "[0, 0]",
        "[0, 0, 4, 4]",
        "[0.0, 0, 4]",
        "[true, 0, 4]",
        '["0", 0, 4]',
        "[null, 0, 4]",
        "null",
        "7",
        "{}",
        "[1000000000000000000000, 0, 4]",
        "[0, 0, 1000000000000000000]",
    ],
)
def test_invalid_places(frame: str) -> None:
    with pytest.raises(FormatError):
        frame_info(json.loads(frame))
    good = "[8, 1, 16]"
    data = f'{{"a": {{"frame_info": [{good}, {frame}, {good}], "meta_data": [{{}}]}}}}'
    text, [place] = scan_index(data.encode())
    # The other items can be read.
    assert parse_triplets(text[slice(*place.frames)]).tolist() == [
        [8, 1, 16],
        [-1, -1, -1],
        [8, 1, 16],
    ]


@pytest.mark.parametrize(
    "item", ["{}", "[]", "3", "null", '{"frame_info": 3, "meta_data": 3}', '{"frame_info": {}}']
)
def test_invalid_items(item: str) -> None:
    text, [other, place] = scan_index(
        f'{{"b": {{"frame_info": [], "meta_data": [{{"k": 1}}]}}, "a": {item}}}'.encode()
    )
    assert parse_meta_data(text[slice(*other.meta_data)]) == {"k": 1}
    with pytest.raises(FormatError):
        parse_triplets(text[slice(*place.frames)])
    with pytest.raises(FormatError):
        parse_meta_data(text[slice(*place.meta_data)])


@pytest.mark.parametrize("meta_data", ["[]", "[3]", "[null]", '["ab"]', "[[1]]"])
def test_invalid_metadata(meta_data: str) -> None:
    with pytest.raises(FormatError):
        parse_meta_data(meta_data)


def test_metadata_may_be_pairs() -> None:
    assert parse_meta_data('[[["a", 1]]]') == {"a": 1}


@pytest.mark.parametrize(("nbytes", "pad"), [(0, 0), (1, 3), (2, 2), (3, 1), (4, 0), (5, 3)])
def test_padding(nbytes: int, pad: int) -> None:
    assert padding(nbytes) == pad


def names(*numbers: object) -> list[str]:
    return [f"data_{n}.gulp" for n in numbers] + [f"meta_{n}.gmeta" for n in numbers]


def test_chunks_are_in_the_order_of_their_names_as_text() -> None:
    listing = list_chunks([*names(*range(12)), "label2idx.json", ".data_5.gulp", "data_5.gulp~"])
    assert [chunk.number for chunk in listing.chunks] == [0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9]
    assert listing.chunks[2] == (10, "data_10.gulp", "meta_10.gmeta")
    assert (listing.orphans, listing.next_number) == ([], 12)


def test_the_first_digits_are_the_number() -> None:
    listing = list_chunks(["data7x9.gulp", "metadata_007.gmeta"])
    assert listing.chunks == [(7, "data7x9.gulp", "metadata_007.gmeta")]


def test_data_without_an_index_are_left_out_and_counted() -> None:
    listing = list_chunks([*names(0, 2), "data_5.gulp"])
    assert [chunk.number for chunk in listing.chunks] == [0, 2]
    assert (listing.orphans, listing.next_number) == (["data_5.gulp"], 6)
    assert list_chunks([]) == ([], [], 0)


@pytest.mark.parametrize(
    ("listed", "said"),
    [
        ([*names(0), "meta_1.gmeta"], "meta_1.gmeta"),
        ([*names(0), "data_00.gulp"], "both chunk 0"),
        ([*names(0), "meta_00.gmeta"], "both chunk 0"),
        (["data.gulp", "meta.gmeta"], "number"),
    ],
)
def test_names_that_do_not_fit(listed: list[str], said: str) -> None:
    with pytest.raises(DirectoryError, match=said) as caught:
        list_chunks(listed)
    assert isinstance(caught.value, AssertionError)
    assert isinstance(caught.value, ValueError)
