"""Video in damaged stores, in forked children, by HTTP, and in an append that is stopped."""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError
from bloscpack.frames.store import writer
from bloscpack.frames.video.groupdecoder import POOL

from ..faults.disk import Crash, StoppingDisk, installed, without_syncs
from ..servers import FileServer, running
from ..videofiles import Frames, moving

pytest.importorskip("av")

FRAMES = moving(12, 32, 40)


@cache
def video_store() -> bytes:
    """Return a store of one clip of three groups, and another clip behind it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.blp"
        with bp.frames.create(path, codec="video", gop=4, crf=20, nthreads=1) as store:
            store.append("walk", FRAMES, {"fps": 10})
            store.append("exact", FRAMES[:2], codec="lossless")
        return path.read_bytes()


@cache
def decoded() -> Frames:
    with bp.frames.open(video_store()) as store:
        return store["walk"].read()


def positions() -> Iterator[tuple[int, int]]:
    with bp.frames.open(video_store()) as store:
        yield from store["walk"].chunk_extents()


def test_every_flipped_byte_is_noticed() -> None:
    rng, data = Random(1), video_store()
    for _ in range(60):
        at = rng.randrange(next(positions())[0], len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        assert not bp.verify(bytes(changed)).ok, at
        try:
            with bp.frames.open(bytes(changed)) as store:
                found = store["walk"].read()
        except BloscpackError:
            continue
        assert np.array_equal(found, decoded())


def test_truncation_loses_clips_and_never_changes_frames() -> None:
    data = video_store()
    for size in range(0, len(data), 211):
        try:
            with bp.frames.open(data[:size]) as store:
                found = {name: store[name].read() for name in store}
        except BloscpackError:
            continue
        if "walk" in found:
            assert np.array_equal(found["walk"], decoded())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["group", "header"])
def test_bytes_that_lie_give_frames_or_our_errors(what: str) -> None:
    """Digests are valid, so that every field reaches the code that reads it."""
    rng, data = Random(2), video_store()
    extents = list(positions())
    with bp.frames.open(data) as store:
        text = store._index.meta(0)
        segment = store._index.segments[0].tail
    for _ in range(80):
        changed = bytearray(data)
        if what == "group":
            offset, nbytes = rng.choice(extents)
            for _ in range(rng.choice((1, 1, 4))):
                changed[offset + rng.randrange(min(nbytes, 90))] = rng.randrange(256)
            end = offset + nbytes
            changed[end : end + 8] = xxh3_64_digest(changed[offset:end])
        else:
            start = data.index(text)
            at = start + text.index(b"\0") + 1 + rng.randrange(len(text) - text.index(b"\0") - 1)
            changed[at] = rng.randrange(256)
            metas = segment.section_offset(2)
            section = segment.sections[2]
            tail = segment.end - 152
            digest = xxh3_64_digest(changed[metas : metas + section.stored])
            changed[tail + 128 : tail + 136] = digest
            changed[tail + 144 : tail + 152] = xxh3_64_digest(changed[tail : tail + 144])
        with bp.frames.open(bytes(changed)) as store:
            assert np.array_equal(store["exact"].read(), FRAMES[:2])
            try:
                clip = store["walk"]
                assert clip[5].shape == clip.shape[1:]
                assert clip.read().shape == clip.shape
                assert len(list(clip.packets())) == len(clip)
            except BloscpackError:
                pass
        bp.verify(bytes(changed))


def test_a_forked_child_reads_with_decoders_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    path.write_bytes(video_store())
    with bp.frames.open(path, nthreads=1) as store:
        store["walk"].read()
        assert len(POOL)
        child = os.fork()
        if not child:
            is_right = not len(POOL) and np.array_equal(store["walk"].read(), decoded())
            os._exit(0 if is_right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert np.array_equal(store["walk"].read(), decoded())


def test_a_group_is_one_request(tmp_path: Path) -> None:
    path = tmp_path / "a.blp"
    with bp.frames.create(path, codec="video", gop=4, crf=20) as store:
        # Neither end of the file, which opening fetches, has the clip.
        noise = np.random.default_rng(1).integers(0, 255, (2, 64, 80), "u1")
        for number in range(30):
            if number == 15:
                store.append("walk", FRAMES)
            store.append(f"noise {number}", noise, codec="lossless")
    with running(FileServer()) as server:
        server.files["/a.blp"] = path.read_bytes()
        with bp.frames.open(server.url("a.blp")) as store:
            clip = store["walk"]
            server.clear()
            assert clip.times[3] == 3 / 25
            assert clip[6].shape == (32, 40, 3)
            assert len(server.log) == 1
            assert len(clip[::2]) == 6
            assert len(server.log) == 2  # the groups are adjacent


@pytest.mark.slow
def test_a_stopped_append_leaves_the_clips_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_WRITE_NBYTES", 1000)
    seen = set()
    for step in range(40):
        path = tmp_path / f"{step}.blp"
        path.write_bytes(video_store())
        stopping = StoppingDisk(step, "crash")
        with installed(stopping), without_syncs():
            try:
                with bp.frames.open(path, "a", nthreads=1) as store:
                    meta = {"fps": 10}
                    store.append("second", FRAMES, meta, codec="video", gop=4, crf=20)
            except (OSError, Crash):
                pass
            else:
                if step >= stopping.count:
                    break
        with bp.frames.open(path) as store:
            assert np.array_equal(store["walk"].read(), decoded())
            seen.add(len(store))
            if "second" in store:
                second = store["second"].read().astype(int)
                assert np.abs(second - FRAMES).mean() < 8
    assert seen == {2, 3}
