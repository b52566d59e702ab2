"""Segments of the index as bytes: known bytes in both directions, and invalid ones."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from bloscpack.exceptions import (
    BloscpackError,
    ChecksumMismatch,
    CodecError,
    FormatError,
    UnsupportedError,
)
from bloscpack.format.header import Header
from bloscpack.frames.store import format as layout
from bloscpack.frames.store.format import (
    CLIP_SIZE,
    FORMAT_SIZE,
    TAIL_SIZE,
    Chunks,
    Clips,
    Codec,
    Content,
    FrameFormat,
    How,
    Metas,
    Section,
    Tail,
    pack_id,
    pack_segment,
    store_header,
    unpack_id,
    unpack_section,
    unpack_store_header,
)
from bloscpack.frames.store.framesperchunk import frames_per_chunk

U1, U2 = np.dtype("u1"), np.dtype("<u2")
RGB = FrameFormat(Codec.LOSSLESS, 1, False, U1, (240, 320, 3))
MIXED = FrameFormat(Codec.IMAGE, 1, True, U1, (240, 320, 3))

RGB_ROW = bytes.fromhex(
    "01 01 03 00"
    "7c 75 31 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"  # "|u1"
    "f0 00 00 00  40 01 00 00  03 00 00 00" + "00" * 20 + "00" * 8
)
MIXED_ROW = bytes.fromhex("02 01 03 01") + RGB_ROW[4:]


def content(*clips: tuple[str, int, int, int, str]) -> Content:
    """Return the content of a segment: id, offset, frames, format, metadata; chunks of 100 + k."""
    columns = list(zip(*clips, strict=True)) or [(), (), (), (), ()]
    rows = [RGB_ROW, MIXED_ROW][: max(columns[3], default=-1) + 1]
    sizes = np.arange(sum(columns[2])) + 100
    return Content(
        Clips.of(
            np.array(columns[1], "<u8"),
            np.array(columns[2], "<u4"),
            np.array(columns[3], "<u4"),
            [pack_id(each) for each in columns[0]],
            rows,
        ),
        Chunks.pack(sizes, bytes(len(sizes))),
        Metas.pack([each.encode() for each in columns[4]]),
    )


def segment(*clips: Any, offset: int = 5000, **options: Any) -> tuple[Tail, bytes]:
    given = {"first_clip": 7, "previous": 4000, "compress": False, **options}
    return pack_segment(content(*clips), offset=offset, **given)


ONE = ("walk", 300, 2, 0, '{"label":3}')
TWO = ("run", 1300, 1, 1, "{}")


class TestKnownBytes:
    def test_segment(self) -> None:
        tail, packed = segment(ONE, TWO)
        hashes = {xxh3_64_intdigest(name): number for number, name in enumerate((b"walk", b"run"))}
        clips = struct.pack("<2Q2I2I2Q", 300, 1300, 2, 1, 0, 1, 4, 7)
        clips += struct.pack("<2Q2I", *sorted(hashes), *(hashes[each] for each in sorted(hashes)))
        clips += RGB_ROW + MIXED_ROW + b"walkrun"
        chunks = bytes([100, 101, 102]) + bytes(9) + bytes(3)
        metas = struct.pack("<2Q", 11, 13) + b'{"label":3}{}'
        end = struct.pack("<8sHHI", b"BLPKFRMS", 1, 0, 2)
        end += struct.pack("<6Q", 2, 3, 7, 5000, len(packed), 4000)
        for part in (clips, chunks, metas):
            end += struct.pack("<2Q", len(part), len(part)) + xxh3_64_digest(part)
        end += bytes(8)
        assert packed == clips + chunks + metas + end + xxh3_64_digest(end)
        assert len(end) + 8 == TAIL_SIZE == 152
        assert Tail.unpack(packed[-TAIL_SIZE:], 5000 + len(packed)) == tail

    def test_rows(self) -> None:
        assert RGB.pack() == RGB_ROW
        assert MIXED.pack() == MIXED_ROW
        assert FrameFormat.unpack(RGB_ROW) == RGB
        assert FrameFormat.unpack(MIXED_ROW) == MIXED
        assert len(RGB_ROW) == FORMAT_SIZE

    def test_header(self) -> None:
        packed = store_header().pack()
        assert packed[:32] == b"blpk\4\2\0\1" + b"\xff" * 16 + bytes(8)
        assert packed[32:48] == b"BLPX" + struct.pack("<HBBII", 32, 9, 0, 1, 0)
        assert unpack_store_header(packed) == store_header()
        plain = store_header()._replace(features=0)
        with pytest.raises(UnsupportedError, match="not a frame store"):
            unpack_store_header(plain.pack())
        for other in (plain._replace(metadata=False), plain._replace(offsets=True, nchunks=1)):
            changed: Header = other._replace(features=1)
            with pytest.raises(FormatError):
                unpack_store_header(changed.pack())


class TestTail:
    tail, packed = segment(ONE, TWO)
    view = packed[-TAIL_SIZE:]

    def test_damage(self) -> None:
        for bit in range(8 * TAIL_SIZE):
            data = bytearray(self.view)
            data[bit // 8] ^= 1 << bit % 8
            with pytest.raises(FormatError):
                Tail.unpack(data, self.tail.end)
        for size in range(TAIL_SIZE):
            with pytest.raises(FormatError):
                Tail.unpack(self.view[:size], self.tail.end)

    def test_elsewhere(self) -> None:
        with pytest.raises(FormatError, match="sizes"):
            Tail.unpack(self.view, self.tail.end + 1)

    @pytest.mark.parametrize(
        "changes",
        [
            {"nclips": 3},
            {"nclips": 2**64 - 1},
            {"nchunks": 4},
            {"nchunks": 2**63},
            {"nformats": 3},
            {"nformats": 1, "nclips": 0},
            {"first_clip": 0},
            {"previous": 0},
            {"previous": 5001},
            {"offset": 0},
            {"nbytes": 2**64 - 1},
        ],
    )
    def test_sizes_that_contradict(self, changes: dict[str, int]) -> None:
        wrong = self.tail._replace(**changes)
        with pytest.raises(FormatError, match="sizes"):
            Tail.unpack(wrong.pack(), self.tail.end)

    @pytest.mark.parametrize(
        "section",
        [
            Section(0, 0, b"12345678", How.RAW),
            Section(200, 400, b"12345678", How.RAW),
            Section(200, 5001, b"12345678", How.BLOSC),
            Section(200, 200, b"12345678", 2),
        ],
    )
    def test_sections_that_cannot_be(self, section: Section) -> None:
        sections = (section, *self.tail.sections[1:])
        shift = section.stored - self.tail.sections[0].stored
        wrong = self.tail._replace(sections=sections, nbytes=self.tail.nbytes + shift)
        with pytest.raises(FormatError, match="sizes"):
            Tail.unpack(wrong.pack(), wrong.end)

    def test_later_versions(self) -> None:
        for place, value in ((8, 2), (10, 6), (10, 8)):
            data = bytearray(self.view[:-8])
            data[place] = value
            data += xxh3_64_digest(bytes(data))
            with pytest.raises(UnsupportedError, match="version"):
                Tail.unpack(data, self.tail.end)


class TestSections:
    def test_compressed_ones(self) -> None:
        many = [(f"clip {n}", 300 + n, 3, 0, "{}") for n in range(200)]
        tail, packed = segment(*many, offset=50000, compress=True)
        plain, _ = segment(*many, offset=50000)
        assert [each.how for each in tail.sections] == [How.BLOSC] * 3
        assert tail.nbytes < plain.nbytes / 2
        position = 0
        for section, other in zip(tail.sections, plain.sections, strict=True):
            stored = packed[position : position + section.stored]
            decoded = unpack_section(stored, section, "clips")
            assert xxh3_64_digest(decoded) == other.digest
            position += section.stored
            with pytest.raises(ChecksumMismatch, match="index: xxh3_64 of clips"):
                unpack_section(b"\0" + stored[1:], section, "clips")
            with pytest.raises(FormatError, match="are there"):
                unpack_section(stored[:-1], section, "clips")
            wrong = section._replace(decoded=section.decoded - 1)
            with pytest.raises(FormatError, match="decode to"):
                unpack_section(stored, wrong, "clips")

    def test_not_a_chunk(self) -> None:
        stored = bytes(100)
        section = Section(100, 1000, xxh3_64_digest(stored), How.BLOSC)
        with pytest.raises((FormatError, CodecError, UnsupportedError)):
            unpack_section(stored, section, "clips")

    def test_small_ones_stay_as_they_are(self) -> None:
        tail, _ = segment(ONE, TWO, compress=True)
        assert [each.how for each in tail.sections] == [How.RAW] * 3


class TestClips:
    def unpack(self, *clips: Any, **columns: Any) -> Clips:
        tail, packed = segment(*clips)
        section = bytearray(packed[: tail.sections[0].stored])
        starts = dict(zip(("offsets", "nframes", "formats", "id_ends", "hashes", "order", "rows"),
                          np.cumsum([0, *(len(clips) * n for n in (8, 4, 4, 8, 8, 4))]).tolist(),
                          strict=True))  # fmt: skip
        for name, (offset, value) in columns.items():
            start = starts[name] + offset
            section[start : start + len(value)] = value
        return Clips.unpack(bytes(section), tail)

    def test_find(self) -> None:
        clips = self.unpack(ONE, TWO, ("", 1500, 1, 0, "{}"))
        for number, name in enumerate((b"walk", b"run", b"")):
            assert clips.with_hash(xxh3_64_intdigest(name)) == [number]
            assert clips.id_bytes(number) == name
        assert clips.with_hash(xxh3_64_intdigest(b"runs")) == []
        assert clips.first_chunks().tolist() == [0, 2, 3, 4]

    def test_find_among_equal_hashes(self) -> None:
        ids = [b"a", b"b", b"a"]
        ones = np.ones(3, "<u4")
        clips = Clips.of(ones, ones, 0 * ones, ids, [RGB_ROW], np.array([9, 9, 9], "<u8"))
        assert (clips.with_hash(9), clips.with_hash(8)) == ([0, 1, 2], [])

    @pytest.mark.parametrize(
        "change",
        [
            {"offsets": (0, struct.pack("<Q", 5001))},
            {"formats": (4, struct.pack("<I", 2))},
            {"id_ends": (0, struct.pack("<Q", 8))},
            {"id_ends": (8, struct.pack("<Q", 6))},
            {"id_ends": (8, struct.pack("<Q", 2**64 - 1))},
            {"hashes": (0, b"\xff" * 8)},
            {"order": (4, struct.pack("<I", 2))},
            {"rows": (1, b"\0")},
        ],
    )
    def test_fields_out_of_range(self, change: Any) -> None:
        with pytest.raises(FormatError, match="index: a field of the clips"):
            self.unpack(ONE, TWO, **change)

    def test_size(self) -> None:
        tail, _ = segment(ONE, TWO)
        assert tail.sections[0].stored == 2 * CLIP_SIZE + 2 * FORMAT_SIZE + 7


class TestChunksAndMetas:
    @given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50), st.data())
    def test_chunks(self, sizes: list[int], data: st.DataObject) -> None:
        filters = data.draw(st.binary(min_size=len(sizes), max_size=len(sizes)))
        chunks = Chunks(Chunks.pack(np.array(sizes), filters))
        start = data.draw(st.integers(0, len(sizes)))
        stop = data.draw(st.integers(start, len(sizes)))
        assert chunks.cbytes(start, stop).tolist() == sizes[start:stop]
        assert chunks.filters(start, stop) == filters[start:stop]

    def test_metas(self) -> None:
        texts = [b"{}", b"", b'{"a":1}']
        packed = Metas.pack(texts)
        assert [Metas(packed, 3).text(number) for number in range(3)] == texts
        for place, value in ((0, 3), (8, 1), (16, 10), (16, 2**63)):
            wrong = packed[:place] + struct.pack("<Q", value) + packed[place + 8 :]
            with pytest.raises(FormatError, match="metadata"):
                Metas(wrong, 3).text(0)


class TestFrameFormat:
    @pytest.mark.parametrize("name", ["u1", "|b1", "<u2", ">f8", "<c16", "S7", ">U3", "V5",
                                      "<M8[25s]", "<m8[ns]", "<f2"])  # fmt: skip
    @pytest.mark.parametrize("shape", [(), (7,), (0, 3), (2, 3, 4), (1,) * 8])
    def test_round_trip(self, name: str, shape: tuple[int, ...]) -> None:
        form = FrameFormat.lossless(np.dtype(name), shape)
        again = FrameFormat.unpack(form.pack())
        assert again == form
        assert again.dtype.byteorder == form.dtype.byteorder

    def test_extension_types(self) -> None:
        ml_dtypes = pytest.importorskip("ml_dtypes")
        for name in ("bfloat16", "float8_e4m3b11fnuz", "int4"):
            form = FrameFormat.lossless(np.dtype(getattr(ml_dtypes, name)), (3,))
            assert form.pack()[4:24].rstrip(b"\0") == name.encode()
            assert FrameFormat.unpack(form.pack()) == form

    def test_groups(self) -> None:
        assert [frames_per_chunk(n) for n in (0, 1, 16, 17, 511, 512, 1 << 30)] == [
            1, 255, 255, 240, 8, 1, 1,
        ]  # fmt: skip
        assert FrameFormat.lossless(U2, (8, 8)).group == 32
        assert FrameFormat.lossless(U2, (8, 8)).nchunks(33) == 2

    @pytest.mark.parametrize("dtype", ["O", "u1,u2", "(2,)u1", "S0", "V0"])
    def test_dtypes_that_are_not_kept(self, dtype: str) -> None:
        with pytest.raises(TypeError, match="plain"):
            FrameFormat.lossless(np.dtype(dtype), (3,)).pack()

    @pytest.mark.parametrize("shape", [(1,) * 9, (2**32,), (2**32, 0), (2**31 - 16,), (2**16,) * 3])
    def test_shapes_that_are_not_kept(self, shape: tuple[int, ...]) -> None:
        with pytest.raises(ValueError, match="frame"):
            FrameFormat.lossless(U1, shape)

    @pytest.mark.parametrize(
        ("place", "value"),
        [
            (0, b"\0"),
            (0, b"\x09"),
            (1, b"\0"),
            (2, b"\2"),  # a dimension after the last one
            (2, b"\x09"),
            (3, b"\2"),
            (4, b"|O\0"),
            (4, b"|x9"),
            (4, b"\xff\xff\xff"),
            (4, b"|V0"),
            (24, b"\xff\xff\xff\xff"),
            (36, b"\1"),
            (63, b"\1"),
        ],
    )
    def test_invalid_format_rows(self, place: int, value: bytes) -> None:
        row = RGB_ROW[:place] + value + RGB_ROW[place + len(value) :]
        with pytest.raises(BloscpackError):
            FrameFormat.unpack(row)

    def test_large_groups_are_refused(self) -> None:
        small = FrameFormat(Codec.LOSSLESS, 255, False, U1, (1 << 12,))
        assert FrameFormat.unpack(small.pack()) == small
        with pytest.raises(FormatError, match="exceeds"):
            FrameFormat.unpack(small._replace(shape=(1 << 13,)).pack())
        with pytest.raises(FormatError, match="group"):
            FrameFormat.unpack(MIXED._replace(group=2).pack())


@given(st.text(st.characters() | st.characters(categories=["Cs"]), max_size=20))
def test_ids_of_any_kind(name: str) -> None:
    assert unpack_id(pack_id(name)) == name


def test_invalid_ids() -> None:
    assert pack_id("\ud800") == b"\xed\xa0\x80"
    with pytest.raises(FormatError, match="not UTF-8"):
        unpack_id(b"\xff")


def test_the_layout_says_its_sizes() -> None:
    assert layout._TAIL.size == 64
    assert layout._SECTION.size == 24
    assert layout._FORMAT.size == FORMAT_SIZE == 64
