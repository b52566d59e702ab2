"""Arrays over HTTP: what is sent equals what numpy finds in the array."""

import resource
import struct
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.header import Header

CUBE = np.random.default_rng(5).normal(size=(7, 30, 50)).astype("f4")


@pytest.fixture
def cube(tmp_path: Path, client):
    bp.save(tmp_path / "cube.blp", CUBE, chunks=(2, 16, 16), attrs={"units": "m"})
    return client(tmp_path / "cube.blp")


def test_description(cube):
    found = cube.get("/api/0/array").json
    assert (found["shape"], found["dtype"], found["chunks"]) == (
        [7, 30, 50],
        "float32",
        [2, 16, 16],
    )
    assert found["attrs"] == {"units": "m"}


@pytest.mark.parametrize(("rows", "cols"), [(1, 2), (2, 1), (0, 2), (2, 0), (0, 1)])
def test_a_plane_is_the_slice(cube, rows, cols):
    head, (found,) = cube.get(f"/api/0/plane?index=3,4,5&rows={rows}&cols={cols}").packet
    index = [3, 4, 5]
    index[rows] = index[cols] = slice(None)
    expected = CUBE[tuple(index)]
    np.testing.assert_array_equal(found, expected if rows < cols else expected.T)
    assert head["low"] == pytest.approx(expected.min())


def test_a_large_plane_is_sampled(cube):
    query = "index=6&row_start=3&row_stop=29&col_start=1&width=10&height=7"
    head, (found,) = cube.get(f"/api/0/plane?{query}").packet
    assert (head["rows"]["start"], head["rows"]["step"]) == (3, 4)
    np.testing.assert_array_equal(found, CUBE[6, 3:29:4, 1::5])


def test_a_line_is_the_row_or_its_extremes(cube):
    head, (found,) = cube.get("/api/0/line?index=1,2&axis=2").packet
    assert head["form"] == "values"
    np.testing.assert_array_equal(found, CUBE[1, 2])
    head, (low, high) = cube.get("/api/0/line?index=1,2,0&axis=2&bins=10").packet
    assert head["form"] == "extremes"
    bins = CUBE[1, 2].reshape(10, 5)
    np.testing.assert_allclose(low, bins.min(1))
    np.testing.assert_allclose(high, bins.max(1))


def test_statistics(cube):
    found = cube.get("/api/0/statistics").json
    assert found["exact"]
    assert found["count"] == CUBE.size
    assert found["mean"] == pytest.approx(CUBE.mean(dtype="f8"))
    assert sum(found["histogram"]["counts"]) == CUBE.size
    plane = cube.get("/api/0/statistics?scope=plane&index=2").json
    assert plane["max"] == pytest.approx(CUBE[2].max())


def test_chunks(cube):
    head, (offsets, cbytes, nbytes, regions) = cube.get("/api/0/chunks?start=3&count=5").packet
    assert head["nchunks"] == 32
    with bp.open(cube.application._application.state.service.session.files[0].place) as a:
        assert list(offsets) == [a.chunk_offset(k) for k in range(3, 8)]
        assert [list(map(list, each)) for each in regions] == [
            [[side.start, side.stop] for side in a.chunk_region(k)] for k in range(3, 8)
        ]
    assert (cbytes > 0).all()
    assert nbytes[0] > 0


def test_damage_is_marked_and_the_rest_is_shown(tmp_path, client):
    path = tmp_path / "damaged.blp"
    bp.save(path, CUBE, chunks=(1, 30, 50))
    with bp.open(path) as a:
        offset = a.chunk_offset(4)
    data = bytearray(path.read_bytes())
    data[offset + 100] ^= 1
    path.write_bytes(data)
    page = client(path)
    head, (found,) = page.get("/api/0/plane?rows=0&cols=2&index=0,7,0").packet
    assert "chunk 4" in head["lost"][0]
    assert np.isnan(found[4]).all()
    np.testing.assert_array_equal(np.delete(found, 4, 0), np.delete(CUBE[:, 7], 4, 0))
    assert page.get("/api/0/chunks").packet[0]["damage"] == {}
    last = page.post("/api/0/verify").lines[-1]
    assert not last["report"]["ok"]
    marked = page.get("/api/0/chunks").packet[0]
    assert list(marked["damage"]) == ["4"]
    assert marked["verified"]
    assert not page.get("/api/0/info").json["report"]["ok"]


def test_members_of_an_archive(tmp_path, client):
    bp.savez(tmp_path / "z.blp", first=CUBE[0], second=CUBE[1, 2])
    page = client(tmp_path / "z.blp")
    found = page.get("/api/0/array?member=1").json
    assert found["members"] == ["first", "second"]
    assert found["shape"] == [50]
    np.testing.assert_array_equal(page.get("/api/0/line?member=1").packet[1][0], CUBE[1, 2])
    assert page.get("/api/0/array?member=2").status == 400


def test_one_member_by_name(tmp_path, client):
    bp.savez(tmp_path / "z.blp", first=CUBE[0], second=CUBE[1, 2])
    assert client(f"{tmp_path}/z.blp::/second").get("/api/0/array").json["shape"] == [50]


DTYPES = {
    "bool": CUBE > 0,
    "complex": (CUBE + 1j).astype("c8"),
    "date": np.arange(20).astype("M8[s]").reshape(4, 5),
    "u8": np.arange(20, dtype="u8").reshape(4, 5),
    "big": CUBE[0].astype(">f8"),
    "half": CUBE[0].astype("f2"),
}


def test_the_range_of_a_sample_is_that_of_the_array(tmp_path: Path, client):
    array = np.arange(3 << 20, dtype="f4")
    array[7], array[9], array[100_001] = -5, np.nan, 1e9
    for stats in (False, True):
        bp.save(tmp_path / "large.blp", array, stats=stats)
        found = client(tmp_path / "large.blp").get("/api/0/statistics").json
        assert not found["exact"]
        assert ((found["min"], found["max"]) == (-5, 1e9)) == stats
        edges = found["histogram"]["edges"]
        assert (edges[0], edges[-1]) == (found["min"], found["max"])


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(tmp_path, client, name):
    values = DTYPES[name]
    bp.save(tmp_path / "a.blp", values)
    found = client(tmp_path / "a.blp").get("/api/0/plane?part=imag").packet[1][0]
    plane = values.reshape(-1, *values.shape[-2:])[0]
    expected = plane.imag if name == "complex" else plane.astype("f8")
    np.testing.assert_array_equal(found, expected)


def test_fields_of_records(tmp_path, client):
    records = np.zeros(6, [("a", "f4"), ("in", [("b", "i2", (3,))]), ("text", "S3")])
    records["in"]["b"] = np.arange(18).reshape(6, 3)
    bp.save(tmp_path / "a.blp", records)
    page = client(tmp_path / "a.blp")
    assert page.get("/api/0/array").json["fields"] == ["a", "in/b"]
    np.testing.assert_array_equal(
        page.get("/api/0/plane?field=in/b").packet[1][0], records["in"]["b"]
    )
    assert page.get("/api/0/line").status == 400
    assert page.get("/api/0/line?field=text").status == 400
    assert "[0, 1, 2]" in page.get("/api/0/table").json["cells"][0][0]


def test_bounded_json(tmp_path, client):
    attrs = {"long": "x" * 100_000, "many": list(range(100_000)), "big": 2**70, "deep": []}
    for _ in range(60):
        attrs["deep"] = [attrs["deep"]]
    bp.save(tmp_path / "a.blp", CUBE, attrs=attrs)
    reply = client(tmp_path / "a.blp").get("/api/0/array")
    assert len(reply.body) < 20_000
    assert reply.json["attrs"]["big"] == str(2**70)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (1, 1, 1)])
def test_small_shapes(tmp_path, client, shape):
    bp.save(tmp_path / "a.blp", np.ones(shape))
    page = client(tmp_path / "a.blp")
    for view in ("array", "plane", "line", "statistics", "table", "chunks", "info"):
        assert page.get(f"/api/0/{view}").status in (200, 400)
    assert page.get("/api/0/array").json["shape"] == list(shape)
    assert page.get("/api/0/statistics").json["count"] == int(np.prod(shape))


@pytest.mark.slow
def test_memory_is_bounded_for_a_sparse_file_of_100_gb(tmp_path, client):
    """Chunks of 64 MiB of zeros, stored as they are: holes of the file."""
    nbytes, count = 64 << 20, 1600
    path = tmp_path / "sparse.blp"
    head = Header(3, True, False, CHECKSUMS[0], 1, nbytes, nbytes, count, 0).pack()
    offsets = len(head) + 8 * count + np.arange(count, dtype="<i8") * (nbytes + 16)
    with path.open("wb") as file:
        file.write(head + offsets.tobytes())
        for offset in offsets.tolist():
            file.seek(offset)
            file.write(struct.pack("<4B3I", 2, 1, 2, 1, nbytes, nbytes, nbytes + 16))
        file.truncate(int(offsets[-1]) + nbytes + 16)
    page = client(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for view in ("line", "statistics", "table", "chunks", "info"):
        assert page.get(f"/api/0/{view}").status == 200
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown << 10 < 512 << 20
