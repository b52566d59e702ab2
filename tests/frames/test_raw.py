"""Raw frames: where they are stored, when they are verified, views, damage and truncation."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack._ext import resident
from bloscpack.exceptions import ChecksumMismatch
from bloscpack.frames.store.format import FrameFormat
from bloscpack.storage.file import FileSource

from ..counting import CountingBytes
from .stores import Array, changed, tails

RNG = np.random.default_rng(12)
# Three digests of 10, 10 and 5 frames, and one for each frame.
SHARED = RNG.integers(0, 256, (25, 60, 70, 3), "u1")
LARGE = RNG.integers(0, 256, (6, 200, 250, 3), "u1")


class Recorded(CountingBytes):
    """Byte source that also records what is read into memory."""

    def read_into(self, offset: int, view: memoryview) -> int:
        view[:] = self.read_at(offset, len(view))
        return len(view)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("raw") / "raw.blp"
    with bp.frames.create(path, preset="raw") as store:
        store.append("shared", SHARED, {"n": 1})
        store.append("large", LARGE)
    return path


@pytest.fixture(params=["file", "bytes"])
def store(path: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    with bp.frames.open(path if request.param == "file" else path.read_bytes()) as store:
        yield store


def source_of(path: Path) -> tuple[Recorded, Any]:
    source = Recorded(path.read_bytes())
    store = bp.frames.FrameStore._over(source)
    store["shared"], store["large"]
    source.reads.clear()
    return source, store


def test_frames_are_adjacent_and_aligned(path: Path) -> None:
    data = path.read_bytes()
    with bp.frames.open(path) as store:
        for id_, frames in (("shared", SHARED), ("large", LARGE)):
            (start, _), *_ = store[id_].chunk_extents()
            assert start % 4096 == 0
            assert data[start : start + frames.nbytes] == frames.tobytes()
            assert (store[id_].codec, store[id_].cbytes) == ("raw", frames.nbytes)
        assert [size for _, size in store["shared"].chunk_extents()] == [126000, 126000, 63000]
        assert store.preset == "raw"


@pytest.mark.parametrize(("nbytes", "group"), [(1, 255), (600, 218), (1 << 16, 2), (70_000, 1)])
def test_frames_that_share_a_digest(nbytes: int, group: int) -> None:
    assert FrameFormat.raw(np.dtype("u1"), (nbytes,)).group == group


SELECTIONS: list[Any] = [
    None,
    3,
    -1,
    slice(1, 5),
    slice(None, None, 2),
    slice(5, None, -2),
    slice(3, 3),
    [4, 0, 0, 5],
    [2, 3, 4],
    np.arange(6) % 2 == 0,
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
@pytest.mark.parametrize("verify", [True, False])
def test_the_second_read_returns_the_same(path: Path, selection: Any, verify: bool) -> None:
    wanted = LARGE[slice(None) if selection is None else selection]
    with bp.frames.open(path, verify=verify) as store:
        out = np.empty_like(wanted)
        for _ in range(2):
            assert np.array_equal(store["large"].read(selection), wanted)
            assert np.array_equal(store["large"].read(selection, out=out), wanted)
            found = store.read([("large", selection), ("shared", 24)], nthreads=2)
            assert np.array_equal(found[0], wanted)
            assert np.array_equal(found[1], SHARED[24])


def test_an_array_that_is_not_contiguous(path: Path) -> None:
    with bp.frames.open(path) as store:
        out = np.empty((6, 200, 500, 3), "u1")[:, :, ::2]
        for _ in range(2):
            out[:] = 0
            assert store["large"].read(out=out) is out
            assert np.array_equal(out, LARGE)


@pytest.mark.parametrize("ncached", [0, 2, 3, 6])
def test_frames_that_are_partly_in_memory(
    path: Path, monkeypatch: pytest.MonkeyPatch, ncached: int
) -> None:
    copy_cached = FileSource.copy_cached

    def copy_first(source: FileSource, starts: Any, nbytes: int, out: memoryview) -> int:
        return copy_cached(source, starts[:ncached], nbytes, out)

    requests = [
        ("large", [0, 2, 4, 5, 1, 5]),
        ("large", slice(None)),
        ("large", slice(5, None, -1)),
    ]
    with bp.frames.open(path) as store:
        store["large"].read()
        monkeypatch.setattr(FileSource, "copy_cached", copy_first)
        for found, (_, selection) in zip(store.read(requests), requests, strict=True):
            np.testing.assert_array_equal(found, LARGE[selection])
        for _, selection in requests:
            np.testing.assert_array_equal(store["large"].read(selection), LARGE[selection])


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel asks Linux only")
def test_a_batch_of_verified_frames_needs_no_reads(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with bp.frames.open(path) as store:
        store["large"].read()
        monkeypatch.setattr(FileSource, "read_into", None)
        found = store.read([("large", slice(0, 6, 2)), ("large", [5, 3, 3])])
    np.testing.assert_array_equal(found, [LARGE[::2], LARGE[[5, 3, 3]]])


class TestVerification:
    """A chunk is compared with its digest once."""

    def test_the_first_read_is_of_whole_chunks(self, path: Path) -> None:
        source, store = source_of(path)
        extents = store["shared"].chunk_extents()
        digests = extents[-1][0] + extents[-1][1]
        assert np.array_equal(store["shared"].read([11, 13]), SHARED[[11, 13]])
        assert sorted(source.reads) == [extents[1], (digests, 24)]
        source.reads.clear()
        assert np.array_equal(store["shared"].read(slice(8, 14)), SHARED[8:14])
        first, second = extents[0][0], extents[1][0]
        assert sorted(source.reads) == [(first, 126000), (second, 4 * 12600)]
        source.reads.clear()
        assert np.array_equal(store["shared"][15], SHARED[15])
        assert source.reads == [(second + 5 * 12600, 12600)]

    def test_damage_afterwards_is_not_noticed(self, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / "a.blp"
        copy.write_bytes(path.read_bytes())
        with bp.frames.open(copy) as store, bp.frames.open(copy) as other:
            store["large"].read()
            (offset, _), *_ = store["large"].chunk_extents()
            with copy.open("r+b") as file:
                file.seek(offset)
                file.write(bytes([LARGE.flat[0] ^ 1]))
            assert store["large"][0].flat[0] == LARGE.flat[0] ^ 1
            with pytest.raises(ChecksumMismatch):
                other["large"].read(0)
        assert not bp.verify(copy).ok

    def test_clips_that_left_the_cache_stay_verified(self, path: Path) -> None:
        source, store = source_of(path)
        store["shared"].read()
        store._clips = {}
        source.reads.clear()
        store["shared"].read(1)
        assert [nbytes for _, nbytes in source.reads] == [12600]


class TestDamage:
    @pytest.mark.parametrize("chunk", [0, 1, 2])
    @pytest.mark.parametrize("where", ["frames", "digest"])
    def test_it_concerns_one_chunk(self, path: Path, chunk: int, where: str) -> None:
        with bp.frames.open(path) as store:
            extents = store["shared"].chunk_extents()
        offset, nbytes = extents[chunk]
        place = offset + nbytes - 1
        if where == "digest":
            place = sum(extents[-1]) + 8 * chunk
        data = changed(path.read_bytes(), place)
        sound = [k for k in range(25) if k // 10 != chunk]
        with bp.frames.open(data) as store:
            clip = store["shared"]
            with pytest.raises(ChecksumMismatch, match=f"frames {10 * chunk} to ") as caught:
                clip.read()
            assert (caught.value.index, caught.value.offset) == (10 * chunk, offset)
            for read in (
                lambda: clip.read(10 * chunk + 2),
                lambda: store.read([("large", 0), ("shared", 10 * chunk + 2)]),
                lambda: clip.read(slice(10 * chunk, 10 * chunk + 5, 2)),
                lambda: clip.read(10 * chunk + 1, copy=False),
            ):
                with pytest.raises(ChecksumMismatch, match="clip 'shared'"):
                    read()
            assert np.array_equal(clip.read(sound), SHARED[sound])
        with bp.frames.open(data, verify=False) as store:
            wrong = np.count_nonzero(store["shared"].read() != SHARED)
            assert wrong == (where == "frames")
        (found,) = bp.verify(data).damage
        lost = (10 * chunk, min(10 * chunk + 10, 25))
        assert (found.clip, found.frames, found.index, found.offset) == (
            "shared",
            lost,
            chunk,
            offset,
        )

    def test_padding_is_verified(self, path: Path) -> None:
        data = path.read_bytes()
        with bp.frames.open(path) as store:
            (start, _), *_ = store["large"].chunk_extents()
        end = max(tail.end for tail in tails(data) if tail.end <= start)
        assert data[end:start] == bytes(start - end)
        for place in {end, (end + start) // 2, start - 1}:
            report = bp.verify(changed(data, place))
            assert [each.clip for each in report.damage] == [None]
            with bp.frames.open(changed(data, place)) as store:
                assert np.array_equal(store["large"].read(), LARGE)

    def test_recovery_keeps_frames_aligned(self, path: Path, tmp_path: Path) -> None:
        with bp.frames.open(path) as store:
            offset, _ = store["shared"].chunk_extents()[1]
        broken, saved = tmp_path / "broken.blp", tmp_path / "saved.blp"
        broken.write_bytes(changed(path.read_bytes(), offset))
        report = bp.recover(broken, saved)
        assert (report.saved, report.notices) == (6, ["1 of 2 clips saved"])
        assert bp.verify(saved).ok
        with bp.frames.open(saved) as store:
            assert store["large"].chunk_extents()[0][0] == 4096
            assert np.array_equal(store["large"].read(), LARGE)


class TestViews:
    """``copy=False``."""

    @pytest.mark.parametrize("selection", [None, 2, -1, slice(1, 4), [3, 4], slice(2, 2)], ids=str)
    def test_a_view_has_the_frames(self, store: Any, selection: Any) -> None:
        wanted = LARGE[slice(None) if selection is None else selection]
        found = store["large"].read(selection, copy=False)
        assert np.array_equal(found, wanted)
        assert (found.shape, found.dtype, found.flags.writeable) == (wanted.shape, "u1", False)
        assert not found.flags.owndata

    @pytest.mark.skipif(np.__version__ < "2", reason="np.asarray has `copy` since NumPy 2")
    def test_asarray(self, store: Any) -> None:
        assert np.shares_memory(
            np.asarray(store["large"], copy=False), store["large"].read(1, copy=False)
        )
        with pytest.raises(ValueError, match="float32 without copying"):
            np.asarray(store["large"], dtype="f4", copy=False)

    @pytest.mark.parametrize("selection", [slice(0, 5, 2), slice(None, None, -1), [1, 1], [2, 1]])
    def test_frames_that_are_not_adjacent(self, store: Any, selection: Any) -> None:
        with pytest.raises(ValueError, match="adjacent frames in order"):
            store["large"].read(selection, copy=False)

    def test_other_arguments(self, store: Any) -> None:
        with pytest.raises(ValueError, match="with out or reduce"):
            store["large"].read(copy=False, out=np.empty_like(LARGE))

    def test_frames_that_must_be_decoded(self, tmp_path: Path) -> None:
        with bp.frames.create(tmp_path / "a.blp") as store:
            store.append("a", SHARED)
            with pytest.raises(ValueError, match="these are lossless"):
                store["a"].read(copy=False)

    def test_a_file_object(self, path: Path) -> None:
        with path.open("rb") as file, bp.frames.open(file) as store:
            with pytest.raises(ValueError, match="the path of a local file"):
                store["large"].read(copy=False)
            assert np.array_equal(store["large"].read(), LARGE)

    def test_a_view_outlives_the_store_and_its_file(self, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / "a.blp"
        copy.write_bytes(path.read_bytes())
        with bp.frames.open(copy) as store:
            found = store["large"].read(copy=False)
        copy.unlink()
        assert np.array_equal(found, LARGE)

    def test_clips_that_were_appended_later(self, tmp_path: Path) -> None:
        path = tmp_path / "a.blp"
        with bp.frames.create(path, preset="raw") as store:
            store.append("a", SHARED)
            first = store["a"].read(copy=False)
            store.append("b", LARGE)
            assert np.array_equal(store["b"].read(copy=False), LARGE)
            assert np.array_equal(first, SHARED)


TRUNCATED = """
import os, sys
import numpy as np
import bloscpack as bp
path, keep = sys.argv[1], int(sys.argv[2])
with bp.frames.open(path) as store, bp.frames.open(path) as fresh:
    clip = store["large"]
    clip.read(), clip[0], clip.read(copy=False)  # verified and mapped
    os.truncate(path, keep)
    for read in (
        clip.read,
        lambda: clip[5],
        lambda: clip[::2],
        lambda: clip[[5, 0]],
        lambda: clip.read(copy=False),
        lambda: store.read([("large", slice(0, 6))] * 2),
        lambda: store.read([("large", 5)], nthreads=2),
        lambda: fresh["large"].read(),
        lambda: fresh["large"].read(copy=False),
    ):
        try:
            read()
        except bp.exceptions.TruncatedError as err:
            print(type(err).__name__)
"""


@pytest.mark.parametrize("cut", ["in the clip", "before it"])
def test_truncation_is_an_error(path: Path, tmp_path: Path, cut: str) -> None:
    copy = tmp_path / "a.blp"
    copy.write_bytes(path.read_bytes())
    with bp.frames.open(copy) as store:
        extents = store["large"].chunk_extents()
    keep = extents[5][0] + 5 if cut == "in the clip" else 100
    done = subprocess.run(
        [sys.executable, "-c", TRUNCATED, str(copy), str(keep)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    # A stride of two leaves the last frame out.
    assert done.stdout.split() == ["TruncatedError"] * (8 if cut == "in the clip" else 9)


class TestResident:
    """The kernel that copies from a map."""

    def test_what_is_outside(self, path: Path) -> None:
        source = FileSource(path)
        size = source.size()
        out = bytearray(20)
        data = path.read_bytes()
        for starts, count in (
            ([0, 10], 2),
            ([5, size - 10], 2),
            ([5, size - 9], 1),
            ([-1, 5], 0),
            ([2**63 - 1, 5], 0),
            ([-(2**63)], 0),
            ([], 0),
        ):
            copied = source.copy_cached(np.array(starts, np.int64), 10, memoryview(out))
            assert copied == count or (sys.platform != "linux" and copied == 0)
            wanted = b"".join(data[start : start + 10] for start in starts[:copied])
            assert out[: 10 * copied] == wanted
        source.close()
        with pytest.raises(ValueError, match="closed file"):
            source.copy_cached(np.array([0], np.int64), 10, memoryview(out))

    @pytest.mark.parametrize(("count", "nbytes"), [(3, 10), (1, 0), (1, -5), (1, 2**62)])
    def test_sizes_that_do_not_fit(self, path: Path, count: int, nbytes: int) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            starts = np.zeros(count, np.int64)
            assert resident.copy(descriptor, bytes(100), starts, nbytes, bytearray(20)) == 0
            # The file is compared, too: the map may be longer than what is left of it.
            assert resident.copy(-1, bytes(100), np.zeros(1, np.int64), 10, bytearray(20)) == 0
        finally:
            os.close(descriptor)


def test_frames_from_an_iterable(tmp_path: Path) -> None:
    """Batches of an iterable end where chunks end."""
    frames: Array = np.arange(1000 * 60, dtype="<u2").reshape(1000, 60)
    with bp.frames.create(tmp_path / "a.blp", preset="raw") as store:
        store.append("a", iter(frames))
        store.append("b", frames[:, ::-1])
        assert np.array_equal(store["a"].read(), frames)
        assert np.array_equal(store["b"].read(), frames[:, ::-1])
    assert bp.verify(tmp_path / "a.blp").ok


def test_ingest_by_workers_and_convert(tmp_path: Path) -> None:
    items = {"shared": SHARED, "large": LARGE}
    report = bp.frames.ingest(items, tmp_path / "raw.blp", preset="raw", workers=2)
    assert report.nclips == 2
    bp.convert(tmp_path / "raw.blp", tmp_path / "fast.blp", to="frames", preset="fast")
    bp.convert(tmp_path / "fast.blp", tmp_path / "again.blp", to="frames", preset="raw")
    for name, codec in (("raw", "raw"), ("fast", "lossless"), ("again", "raw")):
        path = tmp_path / f"{name}.blp"
        assert bp.verify(path).ok
        with bp.frames.open(path) as store:
            for id_, frames in items.items():
                assert store[id_].codec == codec
                assert np.array_equal(store[id_].read(), frames)
    assert (tmp_path / "again.blp").read_bytes() == (tmp_path / "raw.blp").read_bytes()


def test_a_clip_without_frames(tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "a.blp", preset="raw") as store:
        store.append("none", SHARED[:0])
        store.append("a", SHARED)
        assert (store["none"].shape, store["none"].codec) == ((0, 60, 70, 3), "raw")
        assert store["none"].read(copy=False).shape == (0, 60, 70, 3)
    assert bp.verify(tmp_path / "a.blp").ok
