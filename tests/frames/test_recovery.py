"""Recovering a store: all intact clips, however much of the index is damaged."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import FileChangedError, FormatError, NotBloscpackError
from bloscpack.frames.store import format as format_module
from bloscpack.frames.store import recoverstore
from bloscpack.frames.store.format import TAIL_SIZE, Section, Tail
from bloscpack.media import image
from bloscpack.storage.memory import MemorySource

from ..counting import CountingBytes
from .stores import changed, check, clip, fill, made, name, tails
from .test_verify_store import every_kind, extents


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "clips.blp"


def commented(comment: bytes) -> bytes:
    """Return an image with a comment, which must be stored unchanged."""
    bare = image.encode_jpeg(np.zeros((8, 8, 3), "u1"))
    return bare[:2] + b"\xff\xfe" + (len(comment) + 2).to_bytes(2, "big") + comment + bare[2:]


def recovered(data: bytes) -> tuple[bp.Report, bytes]:
    """Recover a file, and check that the new one is undamaged."""
    target = io.BytesIO()
    report = bp.recover(data, target)
    new = target.getvalue()
    again = bp.verify(new)
    assert again.ok
    assert not again.notices
    assert again.trailer == "valid"
    assert again.nchunks == report.saved
    return report, new


class TestSound:
    def test_every_kind(self, path: Path, tmp_path: Path) -> None:
        data = every_kind(path)
        report = bp.recover(path, tmp_path / "new.blp")
        assert report.ok
        assert report.saved == report.nchunks == 38
        assert report.notices == ["8 of 8 clips saved"]
        with bp.frames.open(path) as one, bp.frames.open(tmp_path / "new.blp") as two:
            assert list(one) == list(two)
            assert (two.attrs, two.codec) == (one.attrs, one.codec)
            for id_ in one:
                assert one[id_].meta == two[id_].meta
                assert one[id_].shape == two[id_].shape
                assert one[id_].dtype == two[id_].dtype
                assert [one._source.read_at(*each) for each in one[id_].chunk_extents()] == [
                    two._source.read_at(*each) for each in two[id_].chunk_extents()
                ]
            assert np.array_equal(one["still"].read(), two["still"].read())
            assert np.array_equal(one["raw"].read(), two["raw"].read())
        assert path.read_bytes() == data

    def test_empty(self, path: Path) -> None:
        report, new = recovered(made(path))
        assert report.ok
        assert report.saved == 0
        with bp.frames.open(new) as store:
            assert len(store) == 0

    def test_appended_to_afterwards(self, path: Path, tmp_path: Path) -> None:
        made(path, 3, 2)
        bp.recover(path, tmp_path / "new.blp")
        with bp.frames.open(tmp_path / "new.blp", "a") as store:
            fill(store, 5)
            check(store, *range(6))
        assert bp.verify(tmp_path / "new.blp").ok

    def test_long_index(self, path: Path, monkeypatch: Any) -> None:
        """A segment has a limited size; those of the new store form a chain."""
        data = made(path, 10)
        for limit, value in (("MAX_CLIPS", 3), ("MAX_CHUNKS", 8), ("MAX_METAS_NBYTES", 30)):
            with monkeypatch.context() as patch:
                patch.setattr(recoverstore, limit, value)
                _, new = recovered(data)
            assert [tail.nclips for tail in tails(new)] == [3, 3, 3, 1]
            with bp.frames.open(new) as store:
                check(store, *range(10))

    def test_an_index_larger_than_the_frames(self, path: Path) -> None:
        """The new file has it only once, and no section decodes to more bytes than precede it."""
        with bp.frames.create(path) as store:
            for number in range(60):
                store.append(name(number), np.full((1, 2), number, "u1"))
        _, new = recovered(path.read_bytes())
        with bp.frames.open(new) as store:
            assert len(store) == 60

    def test_a_dtype_whose_package_is_missing(self, path: Path, monkeypatch: Any) -> None:
        """The chunks are intact by their digests, so they are recovered without decoding."""
        ml_dtypes = pytest.importorskip("ml_dtypes")
        with bp.frames.create(path) as store:
            fill(store, 0)
            store.append("half", np.ones((3, 30, 40), ml_dtypes.bfloat16))
        data = path.read_bytes()
        unpack = format_module.unpack_scalar

        def missing(text: str) -> Any:
            if text == "bfloat16":
                raise ImportError("dtype bfloat16 needs ml_dtypes")
            return unpack(text)

        with monkeypatch.context() as patch:
            patch.setattr(format_module, "unpack_scalar", missing)
            target = io.BytesIO()
            report = bp.recover(data, target)
            assert report.ok
            assert report.saved == 6
            assert "not decoded, only compared: dtype bfloat16 needs ml_dtypes" in report.notices
            assert bp.verify(data).ok
            with bp.frames.open(data) as store, bp.frames.open([data]) as many:
                for source in (store, many):
                    assert list(pickle.loads(pickle.dumps(source))) == ["clip 0", "half"]
        with bp.frames.open(target.getvalue()) as store:
            assert np.array_equal(store["half"].read(), np.ones((3, 30, 40)))

    def test_progress(self, path: Path) -> None:
        data = made(path, 4)
        seen: list[tuple[int, int]] = []
        bp.recover(data, io.BytesIO(), progress=lambda *pair: seen.append(pair))
        assert len(seen) == 12
        assert seen[-1][0] == seen[-1][1]


class TestDamage:
    def test_a_clip_with_a_damaged_frame_is_left_out(self, path: Path) -> None:
        data = made(path, 4)
        data = changed(data, extents(data, 2)[1][0] + 9)
        report, new = recovered(data)
        (damage,) = report.damage
        assert (damage.clip, damage.frames) == ("clip 2", (1, 2))
        assert (report.saved, report.nchunks) == (9, 12)
        assert "3 of 4 clips saved" in report.notices
        with bp.frames.open(new) as store:
            check(store, 0, 1, 3)
        # Its other frames can still be read.
        with bp.frames.open(data) as store:
            assert np.array_equal(store["clip 2"][[0, 2]], clip(2)[[0, 2]])

    def test_the_header(self, path: Path) -> None:
        every_kind(path)
        data = changed(path.read_bytes(), 3, b"\xff" * 9)
        report, new = recovered(data)
        assert [(each.offset, each.end) for each in report.damage] == [(0, 64)]
        with bp.frames.open(new) as store:
            assert store.attrs == {"a": 1}
            assert len(store) == 8

    def test_the_metadata(self, path: Path) -> None:
        every_kind(path)
        report, new = recovered(changed(path.read_bytes(), 100))
        (damage,) = report.damage
        assert "the attributes of the store are lost" in damage.what
        with bp.frames.open(new) as store:
            assert store.attrs == {}
            assert len(store) == 8

    def test_each_segment_that_stands_for_several(self, path: Path) -> None:
        """Then the segments that were merged into it are found."""
        data = made(path, 4, 1, 3)
        for tail in tails(data):
            if tail.nclips == 1:
                continue
            for place in (
                tail.offset,
                tail.section_offset(1),
                tail.section_offset(2),
                tail.end - 1,
            ):
                report, new = recovered(changed(data, place))
                assert report.ok
                with bp.frames.open(new) as store:
                    check(store, *range(8))

    def test_all_that_stand_for_several_and_one_more(self, path: Path) -> None:
        """No chain leads to the clips after a lost one, but they are found."""
        data = made(path, 6)
        found = tails(data)
        for tail in found:
            if tail.nclips > 1 or (tail.nclips, tail.first_clip) == (1, 2):
                data = changed(data, tail.end - 1)
        with bp.frames.open(data) as store:
            check(store, 0, 1)
        report, new = recovered(data)
        with bp.frames.open(new) as store:
            check(store, 0, 1, 3, 4, 5)
        (damage,) = report.damage
        assert damage.what == "clip 2 of 6: no whole index locates them"
        assert "5 of 6 clips saved" in report.notices

    def test_every_segment_is_damaged(self, path: Path) -> None:
        data = made(path, 2)
        for tail in tails(data):
            data = changed(data, tail.end - 1)
        target = io.BytesIO()
        with pytest.raises(FormatError, match="nothing can be saved"):
            bp.recover(data, target)
        assert target.getvalue() == b""

    def test_no_clip_is_whole(self, path: Path, tmp_path: Path) -> None:
        data = made(path, 1)
        path.write_bytes(changed(data, extents(data, 0)[0][0] + 9))
        with pytest.raises(FormatError, match="nothing can be saved"):
            bp.recover(path, tmp_path / "new.blp")
        assert not (tmp_path / "new.blp").exists()

    def test_cut_anywhere(self, path: Path) -> None:
        data = made(path, 3)
        ends = [tail.end for tail in tails(data) if tail.nclips == 1]
        for size in range(ends[0], len(data), 61):
            count = sum(end <= size for end in ends)
            report, new = recovered(data[:size])
            assert report.ok
            with bp.frames.open(new) as store:
                check(store, *range(count))

    def test_a_store_inside_another(self, path: Path, tmp_path: Path) -> None:
        """Segments inside the content of a clip do not describe clips of this file."""
        inner = made(tmp_path / "inner", 2, 2)
        with bp.frames.create(path) as store:
            fill(store, 0)
            store.append("inner", [commented(inner)], {"meta": inner[:500].hex()})
            fill(store, 1)
        data = path.read_bytes()
        assert inner in data
        for broken in (data, changed(data, len(data) - 1)):
            report, new = recovered(broken)
            assert report.ok
            with bp.frames.open(new) as store:
                assert list(store) == ["clip 0", "inner", "clip 1"]
                assert store["inner"].read_images() == [commented(inner)]

    def test_a_forged_segment_inside_an_image(self, path: Path) -> None:
        """This holds even if the segment was crafted for its offset, inside a known clip."""
        data = made(path, 1, 1)
        last = tails(data)[-1]
        place = len(data) + len(b"\xff\xd8\xff\xfe12")
        moved = last._replace(offset=place, first_clip=2, previous=last.end).pack()
        forged = data[last.offset : -TAIL_SIZE].replace(b"clip 0", b"forged") + moved
        sections = list(last.sections)
        sections[0] = sections[0]._replace(digest=xxh3_64_digest(forged[: sections[0].stored]))
        moved = last._replace(
            offset=place, first_clip=2, previous=last.end, sections=tuple(sections)
        ).pack()
        forged = forged[:-TAIL_SIZE] + moved
        with bp.frames.open(path, "a") as store:
            store.append("image", [commented(forged)])
        data = path.read_bytes()
        assert data.find(forged) == place
        report, new = recovered(changed(data, len(data) - 1))
        assert report.ok
        with bp.frames.open(new) as store:
            assert list(store) == ["clip 0", "clip 1", "image"]
        # It is intact: without the index of the image, and of later clips, it would be found.
        report, new = recovered(data[: place + len(forged)])
        with bp.frames.open(new) as store:
            assert "forged" in store

    @pytest.mark.parametrize("nbytes", range(150, 165))
    def test_across_blocks_of_the_search(self, path: Path, monkeypatch: Any, nbytes: int) -> None:
        monkeypatch.setattr(recoverstore, "_FIRST_BLOCK_NBYTES", nbytes)
        monkeypatch.setattr(recoverstore, "_BLOCK_NBYTES", nbytes)
        data = made(path, 1)
        assert len(recoverstore.Salvage(MemorySource(data + b"x")).clips) == 1

    def test_a_search_ends(self, path: Path) -> None:
        """The search is bounded, although each of many damaged segments claims the whole file."""
        data = made(path, 2)
        start = len(data)
        data += bytes(1 << 16)
        for _ in range(300):
            nbytes = len(data) - start
            sections = (
                Section(nbytes, nbytes, bytes(8), 0),
                *[Section(0, 0, bytes(8), 0)] * 2,
            )
            data += Tail(0, 0, 0, 0, start, nbytes + TAIL_SIZE, 0, sections).pack()
        source = CountingBytes(data)
        salvage = recoverstore.Salvage(source)
        assert len(salvage.clips) == 0
        assert sum(nbytes for _, nbytes in source.reads) < 40 * len(data)

    def test_a_long_gap(self, path: Path) -> None:
        """Segments are found after megabytes of damage."""
        data = made(path, 3)
        last = tails(data)[-1]
        data = data[: last.offset] + bytes(3 << 20)
        report, new = recovered(data)
        with bp.frames.open(new) as store:
            check(store, 0, 1, 2)
        assert f"{(3 << 20)} bytes after the last index were dropped" in report.notices


class TestArguments:
    def test_same_file(self, path: Path) -> None:
        made(path, 1)
        with pytest.raises(ValueError, match="same file"):
            bp.recover(path, path)

    def test_other_files(self, path: Path) -> None:
        with pytest.raises(NotBloscpackError):
            bp.recover(b"something else" * 50, io.BytesIO())
        bp.save(path, np.arange(10))
        assert bp.recover(path, io.BytesIO()).ok

    def test_a_file_that_changes(self, path: Path, tmp_path: Path) -> None:
        data = made(path, 2)
        place = extents(data, 1)[0][0] + 50

        def change(*_: int) -> None:
            path.write_bytes(changed(data, place))

        with pytest.raises(FileChangedError):
            bp.recover(path, tmp_path / "new.blp", progress=change)
        assert not (tmp_path / "new.blp").exists()
