"""Columns: one field of all records, compared with the values of each record."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import (
    CodecError,
    FormatError,
    NotFoundError,
    TruncatedError,
    UnsupportedError,
)
from bloscpack.storage.memory import MemorySource
from bloscpack.vrs.column.numberfields import NumberField, iter_columns, read_numbers
from bloscpack.vrs.column.ragged import Ragged, Strings
from bloscpack.vrs.format.format import RecordType
from bloscpack.vrs.layout.datalayout import DataLayout

from .recordings import STREAM, Made, counted, layout, make_recording, opened
from .vectorfiles import FOLDER, NAMES

F32, F64, U32 = "DataPieceValue<float>", "DataPieceValue<double>", "DataPieceValue<uint32_t>"
STRING, VECTOR = "DataPieceString", "DataPieceVector<uint16_t>"
IMU = layout(("t", F64), ("acc", "DataPieceArray<float>", 3), ("ok", "DataPieceValue<Bool>"))


def same(column: Any, expected: Any) -> bool:
    """Return whether a value of a column equals that of a record."""
    if isinstance(column, np.ndarray | np.generic):
        column = column.tolist()
    if isinstance(expected, list | tuple):
        return len(column) == len(expected) and all(map(same, column, expected))
    if isinstance(expected, dict):
        return list(column) == list(expected) and all(
            same(column[key], value) for key, value in expected.items()
        )
    if isinstance(expected, bytes):  # numpy drops the NUL of b"\0"
        return bool(column == expected.rstrip(b"\0"))
    return bool(column == expected or (column != column and expected != expected))


@pytest.mark.parametrize("name", NAMES)
def test_columns_of_the_vectors(name: str) -> None:
    with vrs.open(FOLDER / f"{name}.vrs") as recording:
        for stream in recording.streams.values():
            for kind in ("data", "configuration", "state"):
                compare(recording, stream, kind)


def compare(recording: vrs.Recording, stream: vrs.Stream, kind: str) -> None:
    records = list(recording.filter(stream.id, kind))
    versions = stream.versions(kind)
    assert versions.tolist() == [record.format_version for record in records]
    for version in np.unique(versions).tolist():
        chosen = [record for record in records if record.format_version == version]
        blocks = [block for block in chosen[0].blocks if block.kind == "metadata"]
        for block in blocks:
            assert isinstance(block.spec, DataLayout)
            index = next(k for k, each in chosen[0]._decoder.layouts.items() if each is block.spec)
            values = [
                next(each for each in record.blocks if each.spec is block.spec).values()
                for record in chosen
            ]
            for key in block.spec.keys:
                column = stream.field(key, kind, block=index, version=version)
                assert len(column) == len(chosen)
                for k, row in enumerate(values):
                    assert same(column[k], row[key]), f"{stream.id}, {kind} {k}, {key}"


def imu(k: int) -> bytes:
    return struct.pack("<d3f?", k / 8, k, -k, k / 2, k % 2)


def imus(n: int, preset: str = "none", padding: int = 0) -> tuple[dict[str, str], list[Made]]:
    formats = {"RF:Data:1": "data_layout+custom", "DL:Data:1:0": IMU}
    return formats, [Made(imu(k) + bytes(padding), preset=preset) for k in range(n)]


@pytest.mark.parametrize("preset", ["none", "zfast", "fast"])
def test_fields_of_fixed_size(preset: str) -> None:
    stream = opened(*imus(50, preset, 300)).streams[STREAM]
    acc = stream.field("acc")
    assert isinstance(acc, np.ndarray)
    assert (acc.dtype, acc.shape) == (np.dtype("<f4"), (50, 3))
    k = np.arange(50)
    assert acc.tolist() == np.stack([k, -k, k / 2], axis=1).tolist()
    assert acc.flags.c_contiguous
    assert acc.flags.writeable
    times = stream.field("t")
    assert isinstance(times, np.ndarray)
    assert times.tolist() == (k / 8).tolist()
    flags = stream.field("ok")
    assert isinstance(flags, np.ndarray)
    assert flags.dtype == np.bool_
    assert flags.tolist() == (k % 2 == 1).tolist()


def test_headers_are_read_once_and_payloads_in_runs() -> None:
    recording, reads = counted(*imus(5000))
    reads.clear()
    stream = recording.streams[STREAM]
    stream.field("acc")
    size = recording.source.size()
    assert len(reads) == 4  # 290 kB twice: headers, then values
    assert sum(nbytes for _, nbytes in reads) < 2 * size
    reads.clear()
    recording.streams[STREAM].field("t")
    assert len(reads) == 2


def test_true_is_any_byte_but_zero() -> None:
    records = [Made(imu(0)[:-1] + bytes([byte])) for byte in (0, 1, 2, 255)]
    stream = opened({"RF:Data:1": "data_layout", "DL:Data:1:0": IMU}, records).streams[STREAM]
    flags = stream.field("ok")
    assert isinstance(flags, np.ndarray)
    assert flags.view(np.uint8).tolist() == [0, 1, 1, 1]


TEXTS = layout(
    ("n", U32),
    ("text", STRING),
    ("values", VECTOR),
    ("names", "DataPieceVector<string>"),
    ("map", "DataPieceStringMap<float>"),
    ("maps", "DataPieceStringMap<string>"),
    ("points", "DataPieceVector<Point2Di>"),
)


def text_values(k: int) -> dict[str, Any]:
    return {
        "n": k,
        "text": "é" * (k % 3) + "\udcff" * (k % 2),
        "values": list(range(k % 4)),
        "names": [f"n{i}" for i in range(k % 3)],
        "map": {f"k{i}": i / 2 for i in range(k % 3)},
        "maps": {"a": "x" * k, "b": ""} if k % 2 else {},
        "points": [(k, -1)] * (k % 2),
    }


@pytest.mark.parametrize("preset", ["none", "zfast"])
@pytest.mark.parametrize("lead", ["", "custom/size=5+", "data_layout+"])
def test_fields_of_variable_size(preset: str, lead: str) -> None:
    definition = DataLayout.from_json(TEXTS)
    first = layout(("lead", STRING))
    block = 1 if lead else 0
    formats = {"RF:Data:1": f"{lead}data_layout+custom", f"DL:Data:1:{block}": TEXTS}
    records = []
    for k in range(30):
        front = b""
        if lead.startswith("custom"):
            front = b"front"
        elif lead:
            formats["DL:Data:1:0"] = first
            front = DataLayout.from_json(first).encode({"lead": "y" * (k % 7)})
        payload = front + definition.encode(text_values(k)) + bytes(300)
        # Some records of a stream may be compressed, and others not.
        records.append(Made(payload, preset=preset if k % 3 else "none"))
    stream = opened(formats, records).streams[STREAM]
    for key in definition.keys:
        column = stream.field(key)
        assert [same(column[k], text_values(k)[key]) for k in range(30)] == [True] * 30
    text, values, mapped = stream.field("text"), stream.field("values"), stream.field("map")
    assert isinstance(text, Strings)
    assert text.tolist() == [text_values(k)["text"] for k in range(30)]
    assert isinstance(values, Ragged)
    assert isinstance(values.values, np.ndarray)
    assert values.values.dtype == np.dtype("<u2")
    assert values.lengths.tolist() == [k % 4 for k in range(30)]
    assert isinstance(mapped, Ragged)
    assert isinstance(mapped.keys, Strings)
    points = stream.field("points")
    assert isinstance(points, Ragged)
    assert isinstance(points.values, np.ndarray)
    assert points.values.shape == (15, 2)


def test_bytes_after_the_last_whole_element_are_left_alone() -> None:
    formats = {"RF:Data:1": "data_layout", "DL:Data:1:0": layout(("v", VECTOR))}
    data = [b"", b"\1", b"\1\0\2", b"\1\0\2\0"]
    records = [Made(struct.pack("<II", 0, len(each)) + each) for each in data]
    column = opened(formats, records).streams[STREAM].field("v")
    assert isinstance(column, Ragged)
    assert [row.tolist() for row in column] == [[], [], [1], [1, 2]]


def versions_recording() -> vrs.Recording:
    formats = {
        "RF:Data:1": "data_layout",
        "DL:Data:1:0": layout(("x", F32), ("same", U32), ("s", STRING)),
        "RF:Data:2": "data_layout",
        "DL:Data:2:0": layout(("same", U32), ("x", F64), ("new", U32), ("s", STRING)),
    }
    one, two = (DataLayout.from_json(formats[f"DL:Data:{k}:0"]) for k in (1, 2))
    records = []
    for k in range(12):
        if k % 3:
            records.append(Made(one.encode({"x": k, "same": k, "s": "a" * k})))
        else:
            values = {"x": k, "same": k, "new": k, "s": "b" * k}
            records.append(Made(two.encode(values), version=2))
    return opened(formats, records)


def test_versions_that_agree_on_a_field_give_one_column() -> None:
    stream = versions_recording().streams[STREAM]
    same_field = stream.field("same")
    assert isinstance(same_field, np.ndarray)
    assert same_field.tolist() == list(range(12))
    text = stream.field("s")
    assert list(text) == [("a" if k % 3 else "b") * k for k in range(12)]
    assert stream.versions().tolist() == [2, 1, 1] * 4


def test_versions_that_differ_are_chosen() -> None:
    stream = versions_recording().streams[STREAM]
    with pytest.raises(
        ValueError, match=r"float> in version 1, .*double> in version 2: .*version="
    ):
        stream.field("x")
    with pytest.raises(NotFoundError, match=r"version 1 of the data records .* no field 'new'"):
        stream.field("new")
    for version, dtype in ((1, "<f4"), (2, "<f8")):
        column = stream.field("x", version=version)
        assert isinstance(column, np.ndarray)
        assert column.dtype == np.dtype(dtype)
        assert column.tolist() == np.flatnonzero(stream.versions() == version).tolist()
    new = stream.field("new", version=2)
    assert isinstance(new, np.ndarray)
    assert new.tolist() == [0, 3, 6, 9]
    with pytest.raises(NotFoundError, match=r"no version 7, only \[1, 2\]"):
        stream.field("x", version=7)


def test_labels_that_are_not_clear() -> None:
    twice = layout(("x", F32), ("x", U32))
    formats = {
        "RF:Data:1": "data_layout+data_layout",
        "DL:Data:1:0": layout(("x", F32), ("y", F32)),
        "DL:Data:1:1": twice,
    }
    records = [Made(struct.pack("<fffI", k, k, k, k)) for k in range(3)]
    stream = opened(formats, records).streams[STREAM]
    with pytest.raises(ValueError, match=r"in blocks \[0, 1\]: choose with block="):
        stream.field("x")
    with pytest.raises(ValueError, match="x<float> or x<uint32>"):
        stream.field("x", block=1)
    column = stream.field("x<uint32>", block=1)
    assert isinstance(column, np.ndarray)
    assert (column.dtype.str, column.tolist()) == ("<u4", [0, 1, 2])
    with pytest.raises(NotFoundError, match="block 2 of version 1"):
        stream.field("x", block=2)
    with pytest.raises(NotFoundError, match="no field 'z'; it has x, y, x<float>, x<uint32>"):
        stream.field("z")
    with pytest.raises(ValueError, match="record type 'tags'"):
        stream.field("x", "tags")


def test_a_type_that_is_unknown() -> None:
    definition = layout(("a", U32), ("b", "DataPieceValue<Quaternion>"), ("c", U32), ("s", STRING))
    formats = {"RF:Data:1": "data_layout", "DL:Data:1:0": definition}
    stream = opened(formats, [Made(bytes(range(64)))]).streams[STREAM]
    column = stream.field("a")
    assert isinstance(column, np.ndarray)
    assert column.tolist() == [0x03020100]
    for name in "bcs":
        with pytest.raises(UnsupportedError, match=r"Quaternion"):
            stream.field(name)


def test_no_records() -> None:
    formats = {
        "RF:Data:1": "data_layout",
        "DL:Data:1:0": layout(("x", F32)),
        "RF:Data:2": "data_layout",
        "DL:Data:2:0": layout(("x", "DataPieceArray<double>", 4), ("s", STRING), ("v", VECTOR)),
        "RF:Data:x": "data_layout",
    }
    stream = opened(formats, []).streams[STREAM]
    column = stream.field("x")
    assert isinstance(column, np.ndarray)
    assert (column.shape, column.dtype) == ((0, 4), np.dtype("<f8"))
    assert len(stream.field("s")) == 0
    assert len(stream.field("v")) == 0
    with pytest.raises(NotFoundError, match="no state records"):
        stream.field("x", "state")


def test_configuration_records_have_fields_too() -> None:
    formats = {"RF:Configuration:1": "data_layout", "DL:Configuration:1:0": layout(("x", U32))}
    records = [Made(struct.pack("<I", k), record_type=RecordType.CONFIGURATION) for k in range(4)]
    column = opened(formats, records).streams[STREAM].field("x", "configuration")
    assert isinstance(column, np.ndarray)
    assert column.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("preset", ["none", "zfast"])
@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((0, 400, 0, 400), "variable part of 400 bytes|metadata block of 416"),
        ((0, 0xFFFFFFFF, 0, 4), "ends beyond the metadata block"),
        ((0xFFFFFFFF, 0xFFFFFFFF, 0, 4), "ends beyond the metadata block"),
        ((1, 4, 0, 4), "ends beyond the metadata block"),
        ((0, 4, 0xFFFFFFFF, 0xFFFFFFFF), "variable part of 8589934590|block of 8589934606"),
    ],
)
def test_entries_that_lie(preset: str, entries: tuple[int, ...], message: str) -> None:
    formats = {"RF:Data:1": "data_layout", "DL:Data:1:0": layout(("a", STRING), ("b", STRING))}
    good = struct.pack("<4I", 0, 4, 0, 4) + bytes(364)
    bad = struct.pack("<4I", *entries) + bytes(364)
    records = [Made(good, preset=preset), Made(bad, preset=preset)]
    stream = opened(formats, records).streams[STREAM]
    with pytest.raises(FormatError, match=rf"record 1 of stream {STREAM}: .*({message})"):
        stream.field("a")


@pytest.mark.parametrize("preset", ["none", "zfast"])
def test_records_that_are_too_short(preset: str) -> None:
    formats = {"RF:Data:1": "custom/size=290+data_layout", "DL:Data:1:1": IMU}
    records = [Made(bytes(290) + imu(0)), Made(bytes(305), preset=preset)]
    stream = opened(formats, records).streams[STREAM]
    with pytest.raises(TruncatedError, match=rf"record 1 of stream {STREAM}"):
        stream.field("acc")


def test_a_header_that_contradicts_the_index() -> None:
    data = bytearray(make_recording({STREAM: {}}, [Made(imu(k)) for k in range(20)]))
    with vrs.open(bytes(data)) as recording:
        place = int(recording.table.offset[7])
        source = recording.source.parts[0].source
        assert isinstance(source, MemorySource)
        formats = {"RF:Data:1": "data_layout", "DL:Data:1:0": IMU}
        tags = recording._content.tags_of(0)
        tags.vrs.update(formats)
        data[place + 16 : place + 24] = struct.pack("<d", 7.5)
        recording.source.parts = (
            recording.source.parts[0]._replace(source=MemorySource(bytes(data))),
        )
        recording.source._note_parts()
        with pytest.raises(FormatError, match=rf"record 7 of stream {STREAM}: .*timestamp 7.5"):
            recording.streams[STREAM].field("acc")


def test_a_payload_that_does_not_decode_names_its_record() -> None:
    formats = {"RF:Data:1": "data_layout+custom", "DL:Data:1:0": IMU}
    records = [Made(imu(k) + bytes(500), preset="zfast") for k in range(5)]
    data = bytearray(make_recording({STREAM: formats}, records))
    with vrs.open(bytes(data)) as recording:
        place = int(recording.table.offset[3])
    data[place + 32 + 9] ^= 0xFF
    stream = vrs.open(bytes(data)).streams[STREAM]
    with pytest.raises(CodecError, match=rf"record 3 of stream {STREAM}"):
        stream.field("acc")


def test_a_field_of_a_gigabyte_in_small_records_is_refused_before_it_is_made() -> None:
    definition = layout(("big", "DataPieceArray<double>", 1 << 26))
    formats = {"RF:Data:1": "data_layout", "DL:Data:1:0": definition}
    records = [Made(bytes(300), preset=preset) for preset in ("none", "zfast", "none")]
    stream = opened(formats, records).streams[STREAM]
    with pytest.raises(TruncatedError, match=rf"record \d of stream {STREAM}"):
        stream.field("big")


class Number(vrs.Layout):
    x = vrs.Value("uint32")


class Text(vrs.Layout):
    x = vrs.String()


def test_numbers_of_versions_that_disagree(tmp_path: Path) -> None:
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream("imu")
        stream.define("data", Number, version=1)
        stream.define("data", Text, version=2)
        stream.define("data", Number, Number, version=3)
        stream.write("data", 0, {"x": 3}, version=1)
        stream.write("data", 1, {"x": "a"}, version=2)
        stream.write("data", 2, {"x": 4}, {"x": 5}, version=3)
    with vrs.open(tmp_path / "a.vrs") as read:
        found = [
            (name, times.tolist(), numbers.ravel().tolist())
            for _, name, times, numbers in iter_columns(read)
        ]
        assert found == [("x", [0], [3]), ("x", [0, 2], [3, 4]), ("x", [2], [5])]
        assert read_numbers(read.streams["241-1"], NumberField("data", "x"))[2] == [2, 3]
    with vrs.create(tmp_path / "b.vrs") as recording:
        texts = recording.stream("imu")
        texts.define("data", Text)
        texts.write("data", 0, {"x": "a"})
    with (
        vrs.open(tmp_path / "b.vrs") as read,
        pytest.raises(ValueError, match="not a number or an array of numbers"),
    ):
        read_numbers(read.streams["241-1"], NumberField("data", "x"))


def test_strings_and_ragged_rows() -> None:
    texts = ["", "aé", "\udcff", "b"]
    strings = Strings.pack(texts)
    assert list(strings) == texts
    assert [strings[k] for k in range(-4, 4)] == texts + texts
    assert strings[1:3].tolist() == texts[1:3]
    assert strings[3:1].tolist() == []
    with pytest.raises(ValueError, match="step must be 1"):
        strings[::2]
    with pytest.raises(IndexError, match="row 4 of 4"):
        strings[4]
    rows = Ragged(np.array([0, 2, 2, 4]), strings)
    assert list(rows) == [texts[:2], [], texts[2:]]
    assert rows[-1] == texts[2:]
    with pytest.raises(IndexError, match="row -4 of 3"):
        rows[-4]
