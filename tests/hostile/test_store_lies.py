"""Frame stores with a false index but correct digests: values or documented errors, in bounds."""

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confined import Outcome
from crafted import chunk, memcpy_chunk
from crafted_stores import (
    IMAGE,
    RAW,
    frame,
    front,
    jpeg_with_size,
    raw_file,
    row,
    segment,
    store_file,
)
from entries import Reader, outcome
from store_entries import store_readers
from xxhash import xxh3_64_digest, xxh3_64_intdigest

import bloscpack as bp
from bloscpack.exceptions import CodecError, FormatError, UnsupportedError
from bloscpack.format.codec import CodecParams, encode
from bloscpack.media import image

ERRORS = (FormatError, CodecError, UnsupportedError)
Survive = Callable[..., dict[str, Outcome]]


@pytest.fixture
def every_way(tmp_path: Path) -> dict[str, Reader]:
    (tmp_path / "ways").mkdir()
    return store_readers(tmp_path / "ways")


def outcomes(ways: dict[str, Reader], data: bytes) -> dict[str, str]:
    """Return the outcome of each way; only documented errors may be raised."""
    found = {name: outcome(name, read, data) for name, read in ways.items()}
    faults = [f"{name}: {value!r}" for name, (what, value) in found.items() if what == "fault"]
    assert not faults, "\n".join(faults)
    return {name.removeprefix("store "): what for name, (what, _) in found.items()}


def test_the_crafted_file_is_sound(every_way: dict[str, Reader]) -> None:
    data = store_file([frame(), frame(value=9)], clip={"meta": b'{"n":1}'})
    with bp.frames.open(data) as store:
        assert store["a"].read().tolist() == [[[7] * 3] * 2, [[9] * 3] * 2]
        assert store["a"].meta == {"n": 1}
    assert bp.verify(data).ok
    assert set(outcomes(every_way, data).values()) == {"value"}


CLIPS = [{"id": b"a"}, {"id": b"b", "nframes": 0, "cbytes": []}]
# Changes to the index of a store of two frames, and the part that is refused: the whole file
# ("open"), the clip, its frames or nothing.
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "more clips": ({"nclips": 2}, "open"),
    "no clip": ({"nclips": 0}, "open"),
    "2**63 clips": ({"nclips": 1 << 63}, "open"),
    "2**64 - 1 clips": ({"nclips": 2**64 - 1}, "open"),
    "more chunks": ({"nchunks": 3}, "open"),
    "2**61 chunks": ({"nchunks": 1 << 61}, "open"),
    "more formats": ({"nformats": 2}, "open"),
    "2**32 - 1 formats": ({"nformats": 2**32 - 1}, "open"),
    "clips before the first": ({"first_clip": 1}, "open"),
    "2**64 - 1 clips before the first": ({"first_clip": 2**64 - 1}, "open"),
    "an end of another in the file": ({"previous": 100, "first_clip": 4}, "chain"),
    "itself before": ({"previous": 10**6, "first_clip": 1}, "open"),
    "before behind the file": ({"previous": 2**64 - 1, "first_clip": 1}, "open"),
    "another place": ({"offset": 0}, "open"),
    "a size of 0": ({"nbytes": 0}, "open"),
    "a place that overflows": ({"offset": 2**64 - 100, "nbytes": 2**63}, "open"),
    "frames for more chunks": ({"clip": {"nframes": 3}}, "open"),
    "2**32 - 1 frames": ({"clip": {"nframes": 2**32 - 1}}, "open"),
    "no frames": ({"clip": {"nframes": 0}}, "open"),
    "a group of 0": ({"rows": [row(group=0)]}, "open"),
    "a group of 2": ({"rows": [row(group=2)]}, "open"),
    "formats that are missing": ({"columns": {"formats": [1]}}, "open"),
    "an offset behind the file": ({"columns": {"offsets": [1 << 40]}}, "open"),
    "an offset of 2**64 - 1": ({"columns": {"offsets": [2**64 - 1]}}, "open"),
    "ids that end too late": ({"columns": {"id_ends": [2]}}, "open"),
    "ids that end too early": ({"columns": {"id_ends": [0]}}, "open"),
    "ids that end before they start": ({"clips": CLIPS, "columns": {"id_ends": [3, 2]}}, "open"),
    "ids that end at 2**64 - 1": ({"clips": CLIPS, "columns": {"id_ends": [2**64 - 1, 2]}}, "open"),
    "hashes that descend": ({"clips": CLIPS, "columns": {"hashes": [2, 1]}}, "open"),
    "an order out of range": ({"columns": {"order": [1]}}, "open"),
    "an order of 2**32 - 1": ({"columns": {"order": [2**32 - 1]}}, "open"),
    "an offset in the header": ({"columns": {"offsets": [3]}}, "frames"),
    "chunks behind the index": ({"clip": {"cbytes": [1000, 1000]}}, "clip"),
    "chunks of 4 GiB": ({"clip": {"cbytes": [2**32 - 1] * 2}}, "clip"),
    "chunks of no bytes": ({"clip": {"cbytes": [0, 0]}}, "frames"),
    "9 dimensions": ({"rows": [row(ndim=9)]}, "clip"),
    "255 dimensions": ({"rows": [row(ndim=255)]}, "clip"),
    "fewer dimensions than sides": ({"rows": [row(ndim=1)]}, "clip"),
    "sides of 2**32 - 1": ({"rows": [row((2**32 - 1,) * 8)]}, "clip"),
    "sides of 2**32 - 1 and one of 0": ({"rows": [row((2**32 - 1, 2**32 - 1, 0))]}, "clip"),
    "an unknown codec": ({"rows": [row(codec=9)]}, "clip"),
    "raw frames that are not aligned": ({"rows": [row(codec=RAW)]}, "clip"),
    "raw frames of no bytes": ({"rows": [row((2, 0), codec=RAW)]}, "clip"),
    "an unknown flag": ({"rows": [row(flags=2)]}, "clip"),
    "arrays that differ in shape": ({"rows": [row(flags=1)]}, "clip"),
    "images in groups": ({"rows": [row(codec=IMAGE, group=2)], "nframes": 3}, "clip"),
    "rest of a format": ({"rows": [row(rest=b"\0\0\0\0\0\0\0\1")]}, "clip"),
    "no dtype": ({"rows": [row(dtype=b"")]}, "clip"),
    "an unknown dtype": ({"rows": [row(dtype=b"<q9")]}, "clip"),
    "objects": ({"rows": [row(dtype=b"|O")]}, "clip"),
    "items of no bytes": ({"rows": [row(dtype=b"|S0")]}, "clip"),
    "items of 10**17 bytes": ({"rows": [row(dtype=b"|V100000000000000000")]}, "clip"),
    "a number with too many digits": ({"rows": [row(dtype=b"<U99999999999999999")]}, "clip"),
    "code for a dtype": ({"rows": [row(dtype=b"__import__('os')")]}, "clip"),
    "a dtype of NULs in between": ({"rows": [row(dtype=b"|u1\0|u2")]}, "clip"),
    "a dtype that is not ASCII": ({"rows": [row(dtype="|ü1".encode())]}, "clip"),
    "a dtype with fields": ({"rows": [row(dtype=b"u1,u2")]}, "clip"),
    "frames of another size": ({"rows": [row((2, 4))]}, "frames"),
    "frames of no bytes": ({"rows": [row((2, 0))]}, "nothing"),
    "frames of 2 GiB": ({"rows": [row((2**31 - 100,))]}, "frames"),
    "items of 2 GiB": ({"rows": [row((), b"|V2147483000")]}, "frames"),
    "a Blosc chunk for an array chunk": ({"clip": {"filters": [0x80, 0]}}, "frames"),
    "filters that are for others": ({"clip": {"filters": [0x3F, 0x3F]}}, "frames"),
    "a first frame that refers back": ({"clip": {"filters": [0x10, 0]}}, "frames"),
    "images that are none": ({"rows": [row(codec=IMAGE)]}, "frames"),
    "ids that are not UTF-8": ({"clip": {"id": b"\xff\xfe"}}, "ids"),
    "metadata that end too late": ({"sections": {2: struct.pack("<Q", 3) + b"{}"}}, "meta"),
    "metadata that end too early": ({"sections": {2: struct.pack("<Q", 1) + b"{}"}}, "meta"),
    "metadata that are a list": ({"clip": {"meta": b"[1]"}}, "meta"),
    "metadata that are nothing": ({"clip": {"meta": b""}}, "meta"),
    "metadata of 10**5 brackets": ({"clip": {"meta": b'{"a":' + b"[" * 100_000}}, "meta"),
    "metadata with a long number": ({"clip": {"meta": b'{"a":' + b"9" * 5000 + b"}"}}, "meta"),
    "metadata that are not UTF-8": ({"clip": {"meta": b'{"a":"\xff"}'}}, "meta"),
    "an unknown way to store a section": ({"sections": {1: (b"123", 10)}}, "chunks"),
    "a section that is not a chunk": ({"sections": {0: (bytes(200), 109)}}, "open"),
}


@pytest.mark.parametrize("name", LIES)
def test_lies(every_way: dict[str, Reader], name: str) -> None:
    lies, refused = LIES[name]
    data = store_file([frame(), frame()], **lies)
    found = outcomes(every_way, data)
    if refused == "open":
        assert found.pop("verify") == found.pop("recover") == "refused"
        assert set(found.values()) == {"refused"}, found
    elif refused == "chain":
        assert found.pop("recover") == "value"
        assert set(found.values()) == {"refused"}, found
    elif refused == "nothing":
        assert set(found.values()) == {"value"}, found
    else:
        assert found["lookup"] == "value" or refused == "ids"
        assert found["verify"] == "refused"
        assert found["recover"] == "refused"
        assert found["clips"] == ("value" if refused == "frames" else "refused")
        assert found["frames"] == ("value" if refused == "meta" else "refused")


# Changes to the index of a store of two raw frames of 6 bytes at offset 4096.
RAW_LIES: dict[str, dict[str, Any]] = {
    "fewer bytes": {"clip": {"cbytes": [6, 5]}},
    "more bytes": {"clip": {"cbytes": [7, 5]}},
    "filters": {"clip": {"filters": [0, 1]}},
    "larger frames": {"rows": [row((2, 4), codec=RAW)]},
    "frames of 2 GiB": {"rows": [row((2**31 - 100,), codec=RAW)]},
    "another place": {"clip": {"offset": 4097}},
    "no place for digests": {"ndigests": 1},
    "images that differ in shape": {"rows": [row(codec=RAW, flags=1)]},
}


@pytest.mark.parametrize("name", RAW_LIES)
def test_lies_about_raw_frames(every_way: dict[str, Reader], name: str) -> None:
    frames = [bytes([7] * 6), bytes([9] * 6)]
    found = outcomes(every_way, raw_file(frames, **RAW_LIES[name]))
    assert found["lookup"] == "value"
    assert {found[way] for way in ("clips", "frames", "verify", "recover")} == {"refused"}


def test_the_crafted_raw_file_is_sound(every_way: dict[str, Reader]) -> None:
    data = raw_file([bytes([7] * 6), bytes([9] * 6)])
    with bp.frames.open(data) as store:
        assert store["a"].read().tolist() == [[[7] * 3] * 2, [[9] * 3] * 2]
    assert bp.verify(data).ok
    assert set(outcomes(every_way, data).values()) == {"value"}


class TestSections:
    """Compressed sections."""

    def test_one_that_grows_too_much(self, survive_store: Survive) -> None:
        """A megabyte of zeros in a few bytes, in a small file."""
        bomb = encode(bytes(100 << 20), CodecParams("zstd", 9, 0, 1))
        sections = {2: (bomb, 100 << 20)}
        found = survive_store(store_file([frame()], sections=sections))
        assert {one.what for one in found.values()} == {"refused"}

    def test_one_that_is_as_large_as_the_file(self, survive_store: Survive) -> None:
        """A larger file may expand as much; the memory is released afterwards."""
        size = 4 << 20
        bomb = encode(bytes(size - 8 - 100), CodecParams("zstd", 9, 0, 1))
        data = store_file(
            [memcpy_chunk(bytes(size))], rows=[row((size,))], sections={2: (bomb, size - 108)}
        )
        found = survive_store(data, 8 * size)
        assert found["frames"].what == "value"
        assert found["clips"].what == found["verify"].what == "refused"

    def test_a_size_that_differs(self, every_way: dict[str, Reader]) -> None:
        data = store_file([frame()] * 300)
        with bp.frames.open(data):
            pass
        planes = np.array([22] * 300, "<u4").view("u1").reshape(-1, 4).T.tobytes() + bytes(300)
        for wrong in (planes[:-1], planes + b"\0"):
            packed = encode(wrong, CodecParams("zstd", 3, 0, 1))
            found = outcomes(every_way, store_file([frame()] * 300, sections={1: (packed, 1500)}))
            assert found["clips"] == found["frames"] == found["verify"] == "refused"


class TestChains:
    def chained(self, *specs: dict[str, Any]) -> bytes:
        """Return a file with several segments of one clip each; the specs replace true values."""
        data = front()
        previous = 0
        for number, spec in enumerate(specs):
            each = frame(value=number)
            offset = len(data)
            data += each + xxh3_64_digest(each)
            clip = {"id": b"%d" % number, "offset": offset, "nframes": 1, "cbytes": [len(each)]}
            fields = {"first_clip": number, "previous": previous} | spec
            if callable(fields["previous"]):
                fields["previous"] = fields["previous"](len(data))
            clip |= fields.pop("clip", {})
            data += segment(len(data), [clip], **fields)
            previous = len(data)
        return data

    def test_sound(self, every_way: dict[str, Reader]) -> None:
        data = self.chained(*[{}] * 5)
        with bp.frames.open(data) as store:
            assert list(store) == [str(number) for number in range(5)]
        assert set(outcomes(every_way, data).values()) == {"value"}

    @pytest.mark.parametrize(
        "previous",
        [
            lambda offset: offset,  # just before it, where no segment ends
            lambda offset: offset + 1,
            lambda offset: offset + 400,  # about its own end
            lambda offset: 1,
            lambda offset: 2**63,
        ],
    )
    def test_a_link_that_leads_nowhere(self, every_way: dict[str, Reader], previous: Any) -> None:
        """The previous segment is found without the link, if the link is a possible one."""
        data = self.chained({}, {}, {"previous": previous}, {})
        found = outcomes(every_way, data)
        with bp.frames.open(data) as store:
            assert list(store) in (["0", "1"], ["0", "1", "2", "3"])
        assert found["lookup"] == "value"

    def test_circles(self, survive_store: Survive) -> None:
        """A segment that names itself as its predecessor, and two that name each other."""
        for specs in (
            [{}, {"first_clip": 2}, {"first_clip": 1}],
            [{}, {"first_clip": 1}, {"first_clip": 1}],
            [{"first_clip": 1, "previous": 5}, {"first_clip": 2}],
        ):
            found = survive_store(self.chained(*specs))
            assert found["lookup"].what in ("value", "refused")

    def test_an_id_that_is_there_twice(self, every_way: dict[str, Reader]) -> None:
        """One of the two is read, and verify reports the duplicate."""
        data = self.chained({}, {"clip": {"id": b"0"}})
        found = outcomes(every_way, data)
        assert found["frames"] == "value"
        assert found["verify"] == "refused"
        (damage,) = bp.verify(data).damage
        assert "is that of clip 1, too" in damage.what

    @pytest.mark.slow
    def test_many_that_lead_nowhere(self, survive_store: Survive) -> None:
        """The search for a chain ends although thousands of segments are intact."""
        data = front()
        for number in range(3000):
            clip = {"id": b"%d" % number, "offset": 0, "nframes": 0, "cbytes": []}
            data += segment(len(data), [clip], first_clip=number + 1, previous=100)
        found = survive_store(data)
        assert found["lookup"].what == "refused"

    def test_many_that_claim_all_before_them(self, survive_store: Survive) -> None:
        """Overlapping segments, so that checking each means reading everything before it."""
        data = bytearray(front() + bytes(1 << 20))
        for _ in range(2000):
            start = len(front())
            # The digest of the section is wrong, which is found only after reading all of it.
            lies = {"nbytes": len(data) - start + 152}
            part = segment(start, [], rows=[], **lies)
            tail = bytearray(part[-152:])
            for number, nbytes in enumerate((len(data) - start, 0, 0)):
                struct.pack_into("<QQ", tail, 64 + 24 * number, nbytes, nbytes)
            struct.pack_into("<Q", tail, 16, 0)
            tail[-8:] = xxh3_64_digest(bytes(tail[:-8]))
            data += tail
        found = survive_store(bytes(data), len(data))
        assert found["lookup"].what == "refused"


class TestOverlaps:
    def test_clips_that_share_chunks(self, survive_store: Survive) -> None:
        """They can be read; checking them all would take too long, so it is not done."""
        many = [{"id": b"%d" % number} for number in range(3000)]
        data = store_file([memcpy_chunk(bytes(1 << 20))], rows=[row((1 << 20,))], clips=many)
        found = survive_store(data, 50 << 20)
        assert found["clips"].what == found["frames"].what == "value"
        report = bp.verify(data)
        assert len(report.damage) == 2999
        assert "overlap those of clip '0'" in report.damage[0].what
        assert report.nbytes == 3000 * (1 << 20)
        assert found["recover"].what == "value"

    def test_chunks_in_the_index_of_another(self, every_way: dict[str, Reader]) -> None:
        data = store_file([frame()], columns={"offsets": [10]})
        found = outcomes(every_way, data)
        assert found["frames"] == found["verify"] == "refused"


class TestSizes:
    """Memory that a read may take before the bytes are examined."""

    @pytest.mark.slow
    def test_many_frames_of_2_gib(self, survive_store: Survive) -> None:
        data = store_file([frame()] * 5000, rows=[row((2**31 - 100,))])
        found = survive_store(data)
        for way in ("frames", "frames(path)", "batch", "verify", "recover"):
            assert found[way].what == "refused"

    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("filters", [0x02, 0x05, 0x3F, 0x10, 0x12, 0x80, 0x90])
    def test_with_filters(self, survive_store: Survive, filters: int) -> None:
        clip = {"filters": [0] + [filters] * 99}
        data = store_file([frame()] * 100, rows=[row((26000, 27000, 3))], clip=clip)
        found = survive_store(data)
        assert found["frames"].what == found["batch"].what == "refused"

    def test_frames_that_share_a_chunk(self, survive_store: Survive) -> None:
        """255 frames of 8 MiB in a chunk of a few bytes."""
        data = store_file([frame()] * 1000, nframes=255 * 1000, rows=[row((8 << 20,), group=255)])
        found = survive_store(data)
        assert found["frames"].what == found["batch"].what == "refused"

    def test_frames_of_no_bytes(self, survive_store: Survive) -> None:
        """Their number is bounded by the chunks they share."""
        data = store_file([b""] * 1000, nframes=255_000, rows=[row((2**20, 0), group=255)])
        survive_store(data)

    def test_chunks_that_promise_it_too(self, survive_store: Survive) -> None:
        """A chunk cannot declare more than its codec can expand."""
        lying = chunk(0x90, 1, 2**31 - 100, 1 << 20, [[b"123"]])
        data = store_file([lying] * 50, rows=[row((2**31 - 100,))])
        found = survive_store(data)
        assert found["frames"].what == found["batch"].what == "refused"


def png_with_size(height: int, width: int) -> bytes:
    data = bytearray(image.encode_png(np.zeros((8, 8, 3), "u1")))
    struct.pack_into(">II", data, 16, width, height)
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    return bytes(data)


class TestImages:
    @pytest.mark.sampled(3)
    @pytest.mark.parametrize("bomb", [jpeg_with_size(65500, 65500), png_with_size(65500, 65500)])
    @pytest.mark.parametrize("shape", [(65500, 65500, 3), (8, 8, 3)])
    @pytest.mark.parametrize("flags", [0, 1])
    def test_bombs(
        self, survive_store: Survive, bomb: bytes, shape: tuple[int, ...], flags: int
    ) -> None:
        """One image, or many, that declare 12 GiB of pixels."""
        data = store_file([bomb] * 20, rows=[row(shape, codec=IMAGE, flags=flags)])
        found = survive_store(data)
        assert found["clips"].what == ("value" if shape[0] == 8 else "refused")
        for way in ("frames", "frames(path)", "batch", "verify", "recover"):
            assert found[way].what == "refused"

    @pytest.mark.slow
    def test_many_that_are_small_and_say_they_are_not(self, survive_store: Survive) -> None:
        """Each image is below the limit, but all together exceed it."""
        data = store_file(
            [jpeg_with_size(4000, 5000)] * 12, rows=[row((4000, 5000, 3), codec=IMAGE)]
        )
        found = survive_store(data, 4 * 60_000_000)
        assert found["frames"].what in ("value", "refused")

    def test_of_another_shape_than_the_index_says(self, every_way: dict[str, Reader]) -> None:
        data = store_file([jpeg_with_size(8, 8)], rows=[row((8, 9, 3), codec=IMAGE)])
        found = outcomes(every_way, data)
        assert found["images"] == "value"
        assert found["frames"] == found["verify"] == "refused"

    @pytest.mark.parametrize("filter_id", [1, 2, 255])
    def test_of_another_kind_than_the_index_says(
        self, every_way: dict[str, Reader], filter_id: int
    ) -> None:
        data = store_file(
            [jpeg_with_size(8, 8)],
            rows=[row((8, 8, 3), codec=IMAGE)],
            clip={"filters": [filter_id]},
        )
        outcomes(every_way, data)


def test_hashes_are_those_of_the_ids(every_way: dict[str, Reader]) -> None:
    """A clip with a wrong hash is listed but not found; verify reports it."""
    data = store_file([frame()], columns={"hashes": [xxh3_64_intdigest(b"b")]})
    outcomes(every_way, data)
    many = [{"id": b"%d" % number, "nframes": 0, "cbytes": []} for number in range(100)]
    data = store_file([], clips=many, columns={"hashes": list(range(100))})
    found = outcomes(every_way, data)
    assert found["verify"] == "refused"
    assert len(bp.verify(data).damage) == 100
