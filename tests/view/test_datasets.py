"""Datasets over HTTP: what is sent equals what the library reads."""

from pathlib import Path

import pytest

from bloscpack import benzina

FORMATS = Path(__file__).parents[1] / "vectors" / "formats"


@pytest.fixture
def page(client):
    return client(FORMATS / "h264.bzna")


def test_dataset(page):
    found = page.get("/api/0/dataset").json
    assert found["splits"] == {"train": [0, 2]}
    assert found["targets"] == [[0, 1], [1, 1], [2, 1]]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", [0, 1, 2]),
        ("split=train", [0, 1]),
        ("target=2", [2]),
        ("split=train&target=2", []),
        ("search=1.P", [1]),
        ("start=1&count=1", [1]),
    ],
)
def test_samples_by_split_target_and_name(page, query, expected):
    found = page.get(f"/api/0/samples?{query}").json
    assert [each["ordinal"] for each in found["samples"]] == expected


def test_sample(page):
    found = page.get("/api/0/sample?clip=2").json
    with benzina.open(FORMATS / "h264.bzna") as dataset:
        sample = dataset[2]
        assert (found["name"], found["target"]) == (sample.name, sample.target)
        assert (found["offset"], found["size"]) == (sample.location, sample.size)
        assert set(found["tracks"]) == set(sample.layout.tracks)
        body = page.get("/api/0/frames?clip=2").body
        assert body.endswith(sample.read(0).tobytes())
    assert page.get("/api/0/samples?split=x").status == 400
    assert page.get("/api/0/sample?clip=3").status == 400
