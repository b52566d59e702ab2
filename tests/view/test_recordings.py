"""Recordings over HTTP: what is sent equals what the library reads."""

from pathlib import Path

import numpy as np
import pytest

from bloscpack import vrs

FORMATS = Path(__file__).parents[1] / "vectors" / "formats"


@pytest.fixture
def page(client):
    return client(FORMATS / "recording.vrs")


def test_streams(page):
    found = page.get("/api/0/recording").json
    assert [each["id"] for each in found["streams"]] == ["101-1", "214-1", "214-2", "241-1"]
    camera = found["streams"][1]
    assert camera["clip"] == 0
    assert camera["tags"] == {"place": "front"}
    assert {"type": "data", "name": "exposure", "block": None} in camera["fields"]
    assert not [each for each in camera["fields"] if each["name"] == "names"]  # text has no plot
    assert camera["layouts"][1]["fields"][0] == "exposure: float"
    assert found["streams"][0]["audio"]


def test_time_line_counts_every_record(page):
    head, (counts,) = page.get("/api/0/timeline?bins=7").packet
    with vrs.open(FORMATS / "recording.vrs") as recording:
        assert counts.sum() == len(recording)
        assert (head["start"], head["stop"]) == recording.time_range
        assert counts.sum(1).tolist() == [len(each.records) for each in recording.streams.values()]


def test_the_record_and_the_image_at_a_time(page):
    found = page.get("/api/0/record?stream=1&time=0.29").json
    with vrs.open(FORMATS / "recording.vrs") as recording:
        nearest = recording.nearest(0.29, "214-1", "data")
        assert found["record"]["record"] == nearest.record_index
        assert found["frame"] == 3
        expected = recording.streams["214-1"].frames.read(3)
    body = page.get("/api/0/frames?clip=0&start=3&stop=4").body
    assert body.endswith(expected.tobytes())


def test_columns(page):
    head, (times, values) = page.get("/api/0/column?stream=1&field=where").packet
    with vrs.open(FORMATS / "recording.vrs") as recording:
        stream = recording.streams["214-1"]
        np.testing.assert_array_equal(times, stream.timestamps)
        np.testing.assert_array_equal(values, stream.field("where").T)
    assert head["form"] == "values"
    _, (_, low, high) = page.get("/api/0/column?stream=1&field=where&bins=2").packet
    np.testing.assert_array_equal(np.nanmax(high, 1), values.max(1))
    np.testing.assert_array_equal(np.nanmin(low, 1), values.min(1))
    assert page.get("/api/0/column?stream=1&field=names").status == 422
    assert page.get("/api/0/column?stream=1&field=nothing").status == 404
    assert page.get("/api/0/column?stream=1").status == 400


class Old(vrs.Layout):
    gain = vrs.Value("float")
    label = vrs.String()


class New(vrs.Layout):
    gain = vrs.Array("float", 2)
    heat = vrs.Value("double")


class Unused(vrs.Layout):
    unused = vrs.Value("int32_t")


def test_fields_of_some_versions(client, tmp_path):
    """Records without a field are left out; a field that no record has is an empty plot."""
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream("imu")
        stream.define("data", Old, version=1)
        stream.define("data", New, version=2)
        stream.define("state", New, version=2)
        stream.define("data", Unused, version=3)
        stream.write("data", 1.0, {"gain": 5.0, "label": "x"}, version=1)
        stream.write("data", 2.0, {"gain": [1.0, 2.0], "heat": 7.0}, version=2)
    page = client(tmp_path / "a.vrs")
    fields = page.get("/api/0/recording").json["streams"][0]["fields"]
    assert [(each["type"], each["name"]) for each in fields] == [
        ("data", "gain"), ("data", "heat"), ("data", "unused"),
    ]  # fmt: skip
    head, (times, values) = page.get("/api/0/column?field=gain").packet
    assert (times.tolist(), head["missing"]) == ([1.0, 2.0], [])
    np.testing.assert_array_equal(values, [[5, 1], [np.nan, 2]])
    head, (times, values) = page.get("/api/0/column?field=heat").packet
    assert (times.tolist(), values.tolist(), head["missing"]) == ([2.0], [[7.0]], [1])
    head, (times, values) = page.get("/api/0/column?field=unused").packet
    assert (times.size, values.size, head["missing"]) == (0, 0, [1, 2])
    assert page.get("/api/0/column?field=label").status == 422


def test_a_field_in_two_blocks(client, tmp_path):
    with vrs.create(tmp_path / "a.vrs") as recording:
        stream = recording.stream("imu")
        stream.define("data", New, New)
        stream.write("data", 1.0, {"heat": 3.0}, {"heat": 4.0})
    page = client(tmp_path / "a.vrs")
    fields = page.get("/api/0/recording").json["streams"][0]["fields"]
    assert {"type": "data", "name": "heat", "block": 1} in fields
    _, (_, values) = page.get("/api/0/column?field=heat&block=1").packet
    assert values.tolist() == [[4.0]]


def test_audio(page):
    _, (times, low, high) = page.get("/api/0/audio?stream=0").packet
    with vrs.open(FORMATS / "recording.vrs") as recording:
        blocks = [each.audio_blocks[0] for each in recording.streams["101-1"].data]
    assert high.max() == max(each.max() for each in blocks)
    assert low.min() == min(each.min() for each in blocks)
    assert (np.diff(times) > 0).all()
    assert page.get("/api/0/audio?stream=1").status == 400
