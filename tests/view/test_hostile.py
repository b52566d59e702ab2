"""Damaged and hostile files through every view: a value or an error in JSON, never a bug."""

import random
from pathlib import Path

import pytest

from ..conftest import SMALL_FORMATS, small_vectors

TESTS = Path(__file__).parents[1]
CONFORMANCE = sorted((TESTS / "conformance").glob("*.blp"))
SEEDS = [
    *map(SMALL_FORMATS.joinpath, small_vectors("gulp_store.blp", "recording.vrs", "h264.bzna")),
    *(TESTS / "conformance" / name for name in ("array_chunks_attrs.blp", "archive_fields.blp")),
    TESTS / "conformance" / "frames_merged_index.blp",
]
VIEWS = (
    *("info", "array", "plane", "line", "statistics", "table", "chunks"),
    *("clips", "clip", "thumbnail", "frames?stop=3", "recording", "timeline", "record"),
    *("column?field=exposure&stream=1", "audio", "dataset", "samples", "sample"),
)


def ask_everything(page) -> None:
    assert page.get("/api/files").status == 200
    for view in VIEWS:
        reply = page.get(f"/api/0/{view}")
        assert reply.status in (200, 400, 404, 422), (view, reply.body[:300])
        assert reply.status == 200 or reply.json["error"]["message"]
    last = page.post("/api/0/verify").lines[-1]
    assert last.get("error", {}).get("type") != "InternalError"
    assert last.get("report") or last.get("error")


@pytest.mark.parametrize("path", CONFORMANCE, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")
def test_conformance_files(client, path):
    ask_everything(client(path))


def damaged(data: bytes, seed: int) -> bytes:
    """Return a copy with some bytes changed, cut or repeated."""
    rng = random.Random(seed)
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 6)):
        at = rng.randrange(len(changed))
        if rng.random() < 0.4:
            at = rng.randrange(min(200, len(changed)))
        changed[at] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    if rng.random() < 0.3:
        del changed[rng.randrange(1, len(changed)) :]
    return bytes(changed)


def run_damaged(client, tmp_path, seed, count):
    path = tmp_path / f"damaged{seed.suffix}"
    for number in range(count):
        path.write_bytes(damaged(seed.read_bytes(), number))
        ask_everything(client(path))


@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")
def test_damaged_files(client, tmp_path, seed):
    run_damaged(client, tmp_path, seed, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")
def test_many_damaged_files(client, tmp_path, seed):
    run_damaged(client, tmp_path, seed, 9)
