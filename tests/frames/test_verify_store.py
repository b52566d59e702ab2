"""Verifying a store: each damage is reported with its clip, frames and bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import BloscpackError, NotBloscpackError, UnsupportedError
from bloscpack.frames.store import clipverifier
from bloscpack.frames.store.format import TAIL_SIZE
from bloscpack.media import image
from tests.conftest import Some

from ..conftest import Warned
from .stores import changed, clip, decimals, fill, made, name, tails


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clips.blp"


def test_an_empty_clip_hides_no_overlap() -> None:
    first, empty, second = (
        clipverifier.Place(*each) for each in ((0, 100, 300), (1, 150, 150), (2, 200, 250))
    )
    assert clipverifier.split_overlapping([second, empty, first]) == (
        [first, empty],
        [(second, first)],
    )


def extents(data: bytes, number: int) -> list[tuple[int, int]]:
    with bp.frames.open(data) as store:
        return store[name(number)].chunk_extents()


def every_kind(path: Path) -> bytes:
    """A store with clips of every kind."""
    rng = np.random.default_rng(3)
    with bp.frames.create(path, attrs={"a": 1}) as store:
        still = np.repeat(rng.integers(0, 256, (1, 24, 32, 3), "u1"), 19, 0)
        still[:, 0, 0, 0] = np.arange(19)
        store.append("still", still, {"n": 1}, preset="small")
        store.append("array", decimals(3))
        store.append("mask", rng.integers(0, 2, (600, 5, 4)).astype(bool))
        store.append("no frame", np.zeros((0, 3)))
        store.append("no byte", np.zeros((4, 0, 3)))
        store.append("jpeg", rng.integers(0, 255, (5, 24, 32, 3), dtype="u1"), codec="jpeg")
        store.append("raw", rng.integers(0, 255, (300, 5, 4), dtype="u1"), preset="raw")
        images = [rng.integers(0, 255, shape, dtype="u1") for shape in ((16, 16, 3), (16, 20, 3))]
        store.append("mixed", [image.encode_jpeg(images[0]), image.encode_png(images[1])])
    return path.read_bytes()


class TestSound:
    def test_every_kind(self, path: Path) -> None:
        every_kind(path)
        before = path.stat()
        seen: list[tuple[int, int]] = []
        report = bp.verify(path, progress=lambda done, total: seen.append((done, total)))
        assert report.ok
        assert not report.notices
        assert report.trailer == "valid"
        nbytes = 19 * 24 * 32 * 3 + 3 * 160 * 160 * 4 + 600 * 20 + 5 * 24 * 32 * 3 + 2 * 16 * 16 * 3
        nbytes += 300 * 20
        assert (report.path, report.nbytes, report.saved) == (str(path), nbytes, None)
        assert report.nchunks == 19 + 3 + 3 + 4 + 5 + 2 + 2
        assert seen[-1] == (nbytes, nbytes)
        after = path.stat()
        assert (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size)

    def test_empty(self, path: Path) -> None:
        made(path)
        report = bp.verify(path)
        assert (report.ok, report.nchunks, report.nbytes) == (True, 0, 0)

    @pytest.mark.parametrize("kind", ["bytes", "file", "view"])
    def test_from_anywhere(self, path: Path, kind: str) -> None:
        data = made(path, 3)
        if kind == "file":
            with path.open("rb") as file:
                assert bp.verify(file).ok
        else:
            assert bp.verify(data if kind == "bytes" else memoryview(data)).ok

    def test_while_it_grows(self, path: Path, monkeypatch: Any) -> None:
        """Clips appended during the verification are not checked."""
        monkeypatch.setattr(clipverifier, "_BATCH_NBYTES", 1)
        with bp.frames.create(path) as store:
            fill(store, 0, 1)
            numbers = iter(range(2, 9))
            report = bp.verify(path, progress=lambda *_: fill(store, next(numbers, 100 + id(_))))
        assert report.ok
        assert report.nchunks == 6

    def test_an_unfinished_append_is_not_damage(self, path: Path) -> None:
        data = made(path, 1, 1)
        start, end = extents(data, 1)[0][0], len(data)
        report = bp.verify(data[: start + 1000])
        assert report.ok
        assert report.nchunks == 3
        assert report.notices == [
            (
                f"1000 bytes after the last clip, at offset {start}, are not a whole clip: "
                "an append that was not finished"
            )
        ]
        assert end > start + 1000

    def test_fix_says_that_it_does_nothing(self, path: Path) -> None:
        data = made(path, 1)
        assert bp.verify(path, fix=True).notices == []
        path.write_bytes(changed(data, extents(data, 0)[0][0] + 50))
        report = bp.verify(path, fix=True)
        assert not report.ok
        assert "recover" in report.notices[-1]
        assert path.read_bytes() == changed(data, extents(data, 0)[0][0] + 50)


class TestDamage:
    def test_a_frame(self, path: Path) -> None:
        data = made(path, 3)
        offset, cbytes = extents(data, 1)[2]
        report = bp.verify(changed(data, offset + 99))
        (damage,) = report.damage
        assert (damage.clip, damage.frames, damage.index) == ("clip 1", (2, 3), 2)
        assert (damage.offset, damage.end) == (offset, offset + cbytes)
        assert str(damage).startswith(
            f"clip 'clip 1': frame 2 (bytes {offset} to {offset + cbytes})"
        )
        assert (report.nchunks, report.trailer) == (9, "valid")

    def test_frames_that_need_it(self, path: Path) -> None:
        data = every_kind(path)
        with bp.frames.open(data) as store:
            offset, _ = store["still"].chunk_extents()[8]
        report = bp.verify(changed(data, offset + 30))
        assert [damage.frames for damage in report.damage] == [(k, k + 1) for k in range(8, 16)]
        assert {damage.clip for damage in report.damage} == {"still"}
        assert all("frame 8 (bytes" in damage.what for damage in report.damage)

    def test_frames_that_share_a_chunk(self, path: Path) -> None:
        data = every_kind(path)
        with bp.frames.open(data) as store:
            offset, _ = store["mask"].chunk_extents()[1]
        (damage,) = bp.verify(changed(data, offset + 20)).damage
        assert (damage.clip, damage.frames, damage.index) == ("mask", (204, 408), 1)

    @pytest.mark.parametrize("id_", ["array", "no byte", "jpeg", "mixed"])
    def test_other_kinds(self, path: Path, id_: str) -> None:
        data = every_kind(path)
        with bp.frames.open(data) as store:
            offset, cbytes = store[id_].chunk_extents()[1]
        (damage,) = bp.verify(changed(data, offset + cbytes)).damage
        assert (damage.clip, damage.frames, damage.index) == (id_, (1, 2), 1)

    def test_a_chunk_with_the_right_digest_is_decoded(self, path: Path) -> None:
        data = made(path, 2)
        offset, cbytes = extents(data, 1)[0]
        chunk = changed(data[offset : offset + cbytes], 4)  # nbytes
        report = bp.verify(changed(data, offset, chunk + xxh3_64_digest(chunk)))
        (damage,) = report.damage
        assert (damage.clip, damage.frames) == ("clip 1", (0, 1))

    def test_several_are_all_named(self, path: Path) -> None:
        data = made(path, 4)
        for number, frame in ((0, 1), (2, 0), (2, 2)):
            data = changed(data, extents(data, number)[frame][0] + 40)
        found = [(damage.clip, damage.frames) for damage in bp.verify(data).damage]
        assert found == [("clip 0", (1, 2)), ("clip 2", (0, 1)), ("clip 2", (2, 3))]

    def test_the_header(self, path: Path) -> None:
        data = made(path, 2)
        for place in (0, 12, 40, 60):
            (damage,) = bp.verify(changed(data, place)).damage
            assert (damage.offset, damage.end, damage.clip) == (0, 64, None)

    def test_the_metadata(self, path: Path) -> None:
        data = made(path, 2)
        report = bp.verify(changed(data, 110))
        (damage,) = report.damage
        assert damage.what.startswith("metadata: xxh3_64")
        assert damage.offset == 64
        assert damage.end == tails(data)[0].offset

    def test_segments_that_are_never_read(self, path: Path) -> None:
        data = made(path, 1, 1, 1)
        for tail in tails(data)[:-1]:
            report = bp.verify(changed(data, tail.end - 100))
            (damage,) = report.damage
            assert damage.what == "index: no whole segment"
            assert damage.offset is not None
            assert damage.offset <= tail.offset
            assert (damage.end, report.trailer) == (tail.end, "damaged")

    def test_the_last_segment(self, path: Path, warned: Warned) -> None:
        data = made(path, 2)
        last = tails(data)[-1]
        for place in (last.offset, last.end - 1, last.end - TAIL_SIZE, last.end - TAIL_SIZE + 20):
            report = bp.verify(changed(data, place))
            (damage,) = report.damage
            assert damage.what.startswith("index: damaged")
            assert (damage.offset, damage.end) == (last.offset, last.end)
            assert (report.nchunks, report.trailer) == (6, "damaged")

    def test_a_broken_chain(self, path: Path) -> None:
        """Data after a lost segment were once valid: they are not an unfinished append."""
        data = made(path, 6)
        last = tails(data)[-1]
        for tail in tails(data):
            if tail.total == 3:
                broken = changed(data[: last.offset], tail.end - 1)
        report = bp.verify(broken)
        (damage,) = report.damage
        assert damage.what.startswith("index: damaged; clips may be missing that recover finds")
        assert (report.nchunks, report.notices) == (6, [])

    def test_no_segment(self, path: Path) -> None:
        data = made(path, 1)
        for tail in tails(data):
            data = changed(data, tail.end - 1)
        report = bp.verify(data)
        assert not report.ok
        assert (report.nchunks, report.trailer) == (0, "absent")

    def test_metadata_of_a_clip(self, path: Path) -> None:
        """Damage that loses no frame."""
        data = made(path, 1)
        bare = data.replace(b'{"number":0}', b'{"number":0,')
        for tail in tails(bare):
            if tail.nclips:
                meta = bare[tail.section_offset(2) :][: tail.sections[2].stored]
                sections = list(tail.sections)
                sections[2] = sections[2]._replace(digest=xxh3_64_digest(meta))
                packed = tail._replace(sections=tuple(sections)).pack()
                bare = changed(bare, tail.end - TAIL_SIZE, packed)
        (damage,) = bp.verify(bare).damage
        assert (damage.clip, damage.frames) == ("clip 0", None)
        assert "metadata: not JSON" in damage.what

    def test_every_bit_that_means_something(self, path: Path, some: Some) -> None:
        """A flipped bit is found anywhere, except in unused bytes of the metadata header."""
        with bp.frames.create(path) as store:
            for number in range(2):
                store.append(name(number), clip(number, 2, (3, 4)), {"number": number})
        data = path.read_bytes()
        idle = {72, 75, *range(88, 96)}  # options, level and user_codec of the metadata
        for place in some(range(len(data)), 5):
            if place in idle:
                continue
            try:
                report = bp.verify(changed(data, place, bytes([data[place] ^ 1 << place % 8])))
            except BloscpackError:
                assert place == 4  # another version
            else:
                assert not report.ok, place


class TestOthers:
    def test_a_file_of_another_kind(self, path: Path) -> None:
        with pytest.raises(NotBloscpackError):
            bp.verify(b"something else" * 100)
        bp.save(path, np.arange(10))
        assert bp.verify(path).ok

    def test_a_header_that_looks_like_another_kind(self, path: Path) -> None:
        """One flipped bit makes the header that of an array; the end still shows the store."""
        data = bytearray(made(path, 1))
        assert data[4] == 4
        for version in (1, 2, 3):
            data[4] = version
            report = bp.verify(bytes(data))
            assert not report.ok
            assert report.damage[0].end == 64

    def test_a_feature_of_the_future(self, path: Path) -> None:
        data = bytearray(made(path, 1))
        data[40] |= 2
        data[56:64] = xxh3_64_digest(bytes(data[:56]))
        with pytest.raises(UnsupportedError):
            bp.verify(bytes(data))

    def test_without_the_library_digests_are_compared(self, path: Path, monkeypatch: Any) -> None:
        data = every_kind(path)

        def missing() -> None:
            raise ImportError("JPEG images need simplejpeg")

        monkeypatch.setattr(image, "import_simplejpeg", missing)
        report = bp.verify(data)
        assert report.ok
        assert report.notices == ["not decoded, only compared: JPEG images need simplejpeg"]
        with bp.frames.open(data) as store:
            offset, _ = store["jpeg"].chunk_extents()[3]
        (damage,) = bp.verify(changed(data, offset + 100)).damage
        assert (damage.clip, damage.index) == ("jpeg", 3)
