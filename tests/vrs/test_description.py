"""Tags of files and streams: packed as in the vectors, derived serial numbers, hostile bytes."""

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.exceptions import FormatError, TruncatedError, UnsupportedError
from bloscpack.vrs.format.description import (
    SERIAL_NUMBER_TAG,
    Description,
    StreamTags,
    pack_description,
    pack_tags_record,
    strip_name_number,
    synthesise_serials,
    unpack_description,
    unpack_tags_record,
)
from bloscpack.vrs.format.format import RecordType, StreamId

from .vectorfiles import NAMES, VectorFile

# Vectors whose streams are not sorted or have legacy ids.
UNSORTED = {"enc_ids"}

texts = st.binary(max_size=12).map(lambda data: data.decode("utf-8", "surrogateescape"))
tag_maps = st.dictionaries(texts, texts, max_size=4)
stream_tags = st.builds(StreamTags, tag_maps, tag_maps)
numbers = st.integers(0, 0xFFFF)
descriptions = st.builds(
    Description, st.dictionaries(st.builds(StreamId, numbers, numbers), stream_tags), tag_maps
)


def read(file: VectorFile) -> tuple[Description, int, bytes]:
    header, payload = file.record(file.header.description_offset)
    return unpack_description(payload, header.format_version), header.format_version, payload


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNSORTED))
def test_packing_gives_the_same_bytes(name: str) -> None:
    file = VectorFile(name)
    description, version, payload = read(file)
    if version == 2:
        assert pack_description(description) == payload
    for payload in file.payloads_of_type(RecordType.TAGS):
        assert pack_tags_record(unpack_tags_record(payload)) == payload


# As the wheel shows them (vrs 1.2.2, `get_stream_info`).
@pytest.mark.parametrize(
    ("name", "serials"),
    [
        ("enc_no_serial", {"240-1": "3294ec62bbdf75c2", "240-5": "dff45d758fe94d14"}),
        ("enc_legacy_description", {"100-1": "b2148bcbdfced713", "100-2": "30b48b909aacecc8"}),
    ],
)
def test_missing_serials_are_those_of_the_reference(name: str, serials: dict[str, str]) -> None:
    if name not in NAMES:
        pytest.skip("no vectors")
    stored = read(VectorFile(name))[0]
    found = synthesise_serials(stored).streams
    assert {str(key): tags.vrs[SERIAL_NUMBER_TAG] for key, tags in found.items()} == serials
    assert not any(SERIAL_NUMBER_TAG in tags.vrs for tags in stored.streams.values())


def test_only_the_first_2000_bytes_of_user_tags_make_the_serial() -> None:
    def serial(file: str, user: str, vrs: str) -> str:
        tags = StreamTags({"k": user}, {"k": vrs})
        made = synthesise_serials(Description({StreamId(1, 1): tags}, {"k": file}))
        return made.streams[StreamId(1, 1)].vrs[SERIAL_NUMBER_TAG]

    long = "x" * 2000
    assert serial(long, long, long) == serial(long + "a", long + "b", long)
    assert serial(long, long, long) != serial(long, long, long + "a")
    assert serial(long, long, long) != serial(long[1:], long, long)


def test_a_serial_that_is_there_stays() -> None:
    tags = StreamTags(vrs={SERIAL_NUMBER_TAG: "mine"})
    made = synthesise_serials(Description({StreamId(1, 1): tags, StreamId(1, 2): StreamTags()}))
    alone = synthesise_serials(Description({StreamId(1, 9): StreamTags()}))
    assert made.streams[StreamId(1, 1)].vrs[SERIAL_NUMBER_TAG] == "mine"
    # Only streams without one are counted.
    assert made.streams[StreamId(1, 2)] == alone.streams[StreamId(1, 9)]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Camera #2", "Camera"),
        ("Camera #", "Camera"),
        ("Camera #2 #3", "Camera #2"),
        ("Camera #2b", "Camera #2b"),
        ("Camera #\u0662", "Camera #\u0662"),
        ("Camera #1\n", "Camera #1\n"),
        ("Camera#1", "Camera#1"),
        ("x #1", "x"),
        (" #1", " #1"),
        ("\u00e9 #", "\u00e9"),
        ("", ""),
    ],
)
def test_strip_name_number(name: str, expected: str) -> None:
    assert strip_name_number(name) == expected


@given(descriptions)
def test_round_trip(description: Description) -> None:
    assert unpack_description(pack_description(description), 2) == description


@given(stream_tags)
def test_tags_record_round_trip(tags: StreamTags) -> None:
    assert unpack_tags_record(pack_tags_record(tags)) == tags


def test_keys_are_in_the_order_of_their_bytes() -> None:
    # As text, a byte that is not UTF-8 sorts after U+20AC; as bytes, it sorts before.
    tags = {"\udc80": "", "\u20ac": "", "a": ""}
    packed = pack_description(Description(file_tags=tags))
    assert packed.index(b"a") < packed.index(b"\x80\0\0\0\0") < packed.index("\u20ac".encode())


def test_every_prefix_is_truncated() -> None:
    tags = StreamTags({"a": "b"}, {"c": "d"})
    packed = pack_description(Description({StreamId(1, 1): tags}, {"e": "f"}))
    for end in range(len(packed)):
        with pytest.raises(TruncatedError):
            unpack_description(packed[:end], 2)
    packed = pack_tags_record(tags)
    for end in range(len(packed)):
        with pytest.raises(TruncatedError):
            unpack_tags_record(packed[:end])


def test_a_tags_record_whose_map_ends_within_a_tag() -> None:
    payload = struct.pack("<4I", 0, 5, 5, 0) + b"\1\0\0\0k"
    with pytest.raises(TruncatedError):
        unpack_tags_record(payload)


def test_bytes_after_the_last_tag_are_ignored() -> None:
    assert unpack_description(pack_description(Description()) + b"more", 2) == Description()


def legacy(stream: bytes, file: bytes = b"{}") -> bytes:
    parts = struct.pack("<IiHI", 1, 100, 1, len(stream)), stream, struct.pack("<I", len(file)), file
    return b"".join(parts)


def test_legacy_values_that_are_not_text_are_dropped() -> None:
    payload = legacy(b'{"name": "A #1", "tags": {"a": "b", "c": 1}}', b'{"x": null, "y": "z"}')
    description = unpack_description(payload, 1)
    assert description.file_tags == {"y": "z"}
    tags = StreamTags({"a": "b"}, {"VRS_Original_Recordable_Name": "A"})
    assert description.streams == {StreamId(100, 1): tags}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b'{"name": "\\ud800"}',
        b"[" * 100_000,
        b'{"a": ' * 100_000,
        b'{"tags": {"a": 1' + b"0" * 5000 + b"}}",
    ],
    ids=range(8),
)
def test_legacy_json_that_is_not_json(text: bytes) -> None:
    with pytest.raises(FormatError):
        unpack_description(legacy(text), 1)
    with pytest.raises(FormatError):
        unpack_description(legacy(b"{}", text), 1)


def test_other_versions() -> None:
    with pytest.raises(UnsupportedError, match="version 3"):
        unpack_description(b"\0" * 8, 3)


def test_counts_are_not_believed() -> None:
    with pytest.raises(FormatError, match="streams"):
        unpack_description(b"\xff" * 4, 2)
    with pytest.raises(TruncatedError):
        unpack_description(b"\0\0\0\0" + b"\xff" * 4, 2)


@given(st.binary(max_size=60), st.sampled_from([1, 2]))
def test_any_bytes(data: bytes, version: int) -> None:
    for unpack in (lambda: unpack_description(data, version), lambda: unpack_tags_record(data)):
        with contextlib.suppress(FormatError):
            unpack()


def test_text_that_has_no_bytes() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        pack_description(Description(file_tags={"a": "\ud800"}))
