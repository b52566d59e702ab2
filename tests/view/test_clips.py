"""Clips over HTTP: frames equal those of the store, and a client that leaves stops the work."""

from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.view.clips import FRAME_HEADER

from ..conftest import SMALL_FORMATS, small_vectors
from .asgiclient import Client, anyio

FORMATS = SMALL_FORMATS
RNG = np.random.default_rng(3)
WALK = RNG.integers(0, 255, (40, 24, 32, 3), "u1")
DEPTH = RNG.integers(500, 4000, (10, 24, 32), "u2")
MASK = RNG.integers(0, 5, (10, 24, 32), "u1")


def frames_of(body: bytes) -> list[tuple[int, int, bytes, tuple[int, ...]]]:
    """Return (index, kind, data, (height, width)) of each frame of a response."""
    found, at = [], 0
    while at < len(body):
        index, kind, width, height, nbytes = FRAME_HEADER.unpack_from(body, at)
        at += FRAME_HEADER.size
        found.append((index, kind, body[at : at + nbytes], (height, width)))
        at += nbytes
    assert at == len(body)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    with bp.frames.create(tmp_path / "clips.blp") as made:
        made.append("walk", WALK, {"fps": 25, "<b>": "<script>"})
        made.append("depth", DEPTH)
        made.append("mask", MASK)
        made.append("flags", MASK > 2)
        made.append("Walk back", WALK[::-1])
    return tmp_path / "clips.blp"


def test_list_and_search(store, client):
    page = client(store)
    found = page.get("/api/0/clips").json
    assert found["total"] == 5
    assert [each["id"] for each in found["clips"]] == [
        "walk",
        "depth",
        "mask",
        "flags",
        "Walk back",
    ]
    found = page.get("/api/0/clips?search=WALK&count=1&start=1").json
    assert (found["total"], [each["ordinal"] for each in found["clips"]]) == (2, [4])


@pytest.mark.parametrize("outer", [(), (6,), (2, 3)])
@pytest.mark.parametrize("channels", [3, 4])
def test_an_array_of_pictures_is_a_clip(tmp_path, client, outer, channels):
    pictures = RNG.integers(0, 255, (*outer, 24, 32, channels), "u1")
    bp.save(tmp_path / "a.blp", pictures, attrs={"fps": 12})
    page = client(tmp_path / "a.blp")
    flat = pictures.reshape(-1, 24, 32, channels)
    assert page.get("/api/0/array").json["pictures"] == len(flat)
    about = page.get("/api/0/clip").json
    assert (about["id"], about["fps"], about["nframes"]) == ("a", 12, len(flat))
    for step in (1, 4):
        found = frames_of(page.get(f"/api/0/frames?step={step}").body)
        assert [each[0] for each in found] == [*range(0, len(flat), step)]
        assert [each[1:3] for each in found] == [
            (channels, each.tobytes()) for each in flat[::step]
        ]


def test_other_arrays_are_not_clips(tmp_path, client):
    bp.savez(tmp_path / "a.blp", a=DEPTH, b=WALK)
    page = client(tmp_path / "a.blp")
    assert page.get("/api/0/clips").status == 404
    assert page.get("/api/0/frames").status == 400
    assert len(frames_of(page.get("/api/0/frames?clip=1").body)) == len(WALK)
    assert page.get("/api/0/frames?clip=2").status == 400


def test_description(store, client):
    found = client(store).get("/api/0/clip?clip=0").json
    assert (found["nframes"], found["fps"], found["meta"]["<b>"]) == (40, 25, "<script>")
    assert client(store).get("/api/0/clip?clip=5").status == 400


def test_frames_are_those_of_the_store(store, client):
    found = frames_of(client(store).get("/api/0/frames?clip=0&start=3&stop=30&step=4").body)
    assert [each[0] for each in found] == list(range(3, 30, 4))
    for index, kind, data, size in found:
        assert (kind, size) == (3, (24, 32))
        np.testing.assert_array_equal(np.frombuffer(data, "u1"), WALK[index].ravel())


def test_other_dtypes_are_scaled_or_sent_as_labels(store, client):
    page = client(store)
    depth = frames_of(page.get("/api/0/frames?clip=1").body)
    pixels = np.array([np.frombuffer(each[2], "u1") for each in depth])
    assert (pixels.min(), pixels.max()) == (0, 255)
    assert (np.diff(pixels.ravel()[np.argsort(DEPTH, None)].astype(int)) >= 0).all()
    raw = frames_of(page.get("/api/0/frames?clip=2&values=raw").body)
    np.testing.assert_array_equal(np.frombuffer(raw[0][2], "u1"), MASK[0].ravel())
    flags = frames_of(page.get("/api/0/frames?clip=3").body)
    np.testing.assert_array_equal(np.frombuffer(flags[0][2], "u1"), (MASK[0] > 2).ravel() * 255)


def test_thumbnail(store, client):
    (pixels,) = client(store).get("/api/0/thumbnail?clip=0&width=8").packet[1]
    np.testing.assert_array_equal(pixels, WALK[20, ::4, ::4])


def test_a_damaged_frame_is_named_and_the_others_are_sent(store, client):
    data = bytearray(store.read_bytes())
    with bp.frames.open(store) as opened:
        piece = next(iter(opened["walk"].pieces(np.array([7]), np.empty((1, 24, 32, 3), "u1"))))
    data[piece.offset + 40] ^= 1
    store.write_bytes(data)
    found = frames_of(client(store).get("/api/0/frames?clip=0").body)
    assert [each[0] for each in found if each[1] == 0] == [7]
    assert b"frame 7" in found[7][2]
    np.testing.assert_array_equal(np.frombuffer(found[8][2], "u1"), WALK[8].ravel())


def test_a_client_that_leaves_stops_the_work(tmp_path, client):
    large = np.broadcast_to(RNG.integers(0, 255, (1, 240, 320, 3), "u1"), (200, 240, 320, 3))
    with bp.frames.create(tmp_path / "clips.blp") as made:
        made.append("long", large)
    page = client(tmp_path / "clips.blp")
    service = page.application._application.state.service
    reply = anyio.run(
        lambda: page.request("GET", "/api/0/frames", leaves=lambda body: len(body) > 1_000_000)
    )
    assert len(reply.body) < 4_000_000  # of 46 million
    assert 0 < service.nsteps < 60  # of 200 frames and 23 groups
    before = service.nsteps
    anyio.run(lambda: page.request("GET", "/api/0/clips", leaves=lambda body: True))
    assert service.nsteps - before <= 1


def test_fifty_clients_at_once(store, client):
    page = client(store)
    replies = []

    async def ask(k: int) -> None:
        target = f"/api/0/frames?clip=0&start={k % 40}&stop={k % 40 + 1}"
        replies.append((k % 40, await page.request("GET", target)))

    async def all_of_them() -> None:
        async with anyio.create_task_group() as group:
            for k in range(50):
                group.start_soon(ask, k)

    anyio.run(all_of_them)
    assert len(replies) == 50
    for index, reply in replies:
        assert frames_of(reply.body)[0][2] == WALK[index].tobytes()


@pytest.mark.parametrize(
    "name",
    small_vectors("gulp", "gulp_store.blp", "recording.vrs", "recording_store.blp", "h264.bzna"),
)
def test_every_kind_of_vector(client, name):
    """Each kind lists its clips, and shows the same pixels as the library."""
    page: Client = client(FORMATS / name)
    clips = page.get("/api/0/clips").json["clips"]
    assert clips
    with bp.frames.open(FORMATS / name) as source:
        for row in clips:
            clip = source[row["id"]]
            assert page.get(f"/api/0/clip?clip={row['ordinal']}").status == 200
            found = frames_of(page.get(f"/api/0/frames?clip={row['ordinal']}&stop=1").body)
            if found and found[0][1] and clip.dtype == np.uint8:
                expected = clip.read(0)
                assert np.array_equal(np.frombuffer(found[0][2], "u1"), expected.ravel())


@pytest.mark.parametrize(
    "name", small_vectors("gulp", "gulp_store.blp", "recording.vrs", "h264.bzna")
)
def test_verification_of_every_kind(client, name):
    lines = client(FORMATS / name).post("/api/0/verify").lines
    assert lines[-1]["report"]["ok"], lines[-1]
