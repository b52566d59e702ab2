"""VRS recordings that crash the reference, keep it busy or make it allocate 4 GB, but not us.

Each file is read in every way, in a separate process: the result is a value or a documented error,
within memory proportional to the file. The crashes of the reference are those of version 1.2.2.
"""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xxhash
import zstandard
from recording_entries import recording_readers

from bloscpack import vrs
from bloscpack.exceptions import FormatError
from bloscpack.media import image
from bloscpack.vrs import pyvrs
from bloscpack.vrs.format.compression import encode_frame
from bloscpack.vrs.format.format import Compression
from tests.vrs.memorysource import encode, layout
from tests.vrs.recordingfiles import Built, Rec, build, numbered

Survive = Callable[..., dict[str, dict[str, str]]]
IMU = (241, 1)
U32, U64 = 0xFFFFFFFF, (1 << 64) - 1
NEXT = layout(next_content_block_size="DataPieceValue<uint32_t>")
SIZES = {f"image_{name}": "DataPieceValue<uint32_t>" for name in ("width", "height")}
RAW = layout(**SIZES, image_pixel_format="DataPieceValue<uint32_t>")
RUN = struct.pack("<I", (128 << 10) << 3 | 1 << 1)[:3] + b"\0"
"""A block of Zstandard that becomes 128 KiB of zeros."""
FEW = ("records", "columns", "strict")


def u32(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def described(tags: dict[str, str], *payloads: bytes) -> Built:
    """Return a recording of data records that `tags` describe."""
    streams = {IMU: {"user": {}, "vrs": tags}}
    return build([Rec(float(k), data) for k, data in enumerate(payloads)], streams=streams)


def formatted(text: str, *payloads: bytes, **layouts: str) -> bytes:
    """Return a recording of a record format; layouts are named by their block: ``_0``."""
    tags = {f"DL:Data:1:{key[1:]}": value for key, value in layouts.items()}
    return bytes(described({"RF:Data:1": text, **tags}, *payloads).data)


def packed(built: Built, at: int, form: str, *values: float) -> bytes:
    """Return the file with the numbers at a place replaced."""
    data = bytearray(built.data)
    struct.pack_into(form, data, at, *values)
    return bytes(data)


@pytest.fixture
def survive_recordings(survive_files: Callable[..., Survive]) -> Survive:
    return survive_files("vrs ", tuple(recording_readers(Path())))


def test_a_sound_recording_is_read_in_every_way(survive_recordings: Survive) -> None:
    data = formatted("data_layout+custom", u32(2) + b"ab", _0=NEXT)
    assert set(survive_recordings({"": data})[""].values()) == {"value"}


class TestCrashesOfTheReference:
    def test_an_index_entry_of_an_unlisted_stream(self, survive_recordings: Survive) -> None:
        built = build(numbered(5))
        data = packed(built, built.index_offset + 32 + 4, "<i", 999)  # in the list of ids
        assert survive_recordings({"": data})[""]["records"] == "value"
        with vrs.open(data) as recording:
            assert [record.payload for record in recording] == [r.payload for r in built.records]

    def test_pieces_that_are_none(self, survive_recordings: Survive) -> None:
        """Pieces that are not objects, or lack required keys."""
        pieces = [
            *(
                "1",
                "null",
                '"text"',
                "[]",
                "[[1]]",
                "1,2,{}",
                '{"name":1,"type":2}',
                '{"name":"a"}',
            ),
            '{"type":"DataPieceValue<double>"}',
            '{"name":"a","type":"DataPieceArray<char>","size":-1}',
            '{"name":"a","type":"DataPieceArray<char>","size":1e300}',
            '{"name":"a","type":"DataPieceArray<char>","size":[1]}',
        ]
        files = {
            each: formatted("data_layout+custom", bytes(40), _0=f'{{"data_layout":[{each}]}}')
            for each in pieces
        }
        survive_recordings(files)

    def test_an_array_of_four_billion(self, survive_recordings: Survive) -> None:
        files = {}
        for of in ("Bool", "double", "Matrix4Dd"):
            text = f'{{"name":"a","type":"DataPieceArray<{of}>","size":4294967295}}'
            files[of] = formatted("data_layout", bytes(40), _0=f'{{"data_layout":[{text}]}}')
        for found in survive_recordings(files).values():
            assert found["records"] == found["columns"] == "refused"

    def test_texts_that_are_not_utf_8(self, survive_recordings: Survive) -> None:
        text = '{"data_layout":[{"name":"\udcff\udcfe","type":"DataPieceStringMap<string>"}]}'
        payload = vrs.DataLayout.from_json(text).encode({"\udcff\udcfe": {"\udce9": "\udc80"}})
        data = formatted("data_layout", payload, _0=text)
        assert set(survive_recordings({"": data})[""].values()) == {"value"}
        with vrs.open(data) as recording:
            assert recording[0].metadata_blocks == ({"\udcff\udcfe": {"\udce9": "\udc80"}},)

    def test_a_vector_of_four_billion_strings(self, survive_recordings: Survive) -> None:
        text = layout(names="DataPieceVector<string>")
        counts = (U32, U32 - 1, 1 << 31, 1 << 24, 3)
        files = {
            str(count): formatted("data_layout", u32(0, 12, count, 0, 0), _0=text)
            for count in counts
        }
        for found in survive_recordings(files).values():
            assert found["records"] == found["columns"] == "refused"

    def test_a_format_of_20_000_blocks(self, survive_recordings: Survive) -> None:
        texts = ["custom+", "data_layout+", "image/raw/1x1/pixel=grey8+", "audio/pcm+"]
        files = {text: formatted(text * 20_000, bytes(40)) for text in texts}
        for found in survive_recordings(files).values():
            assert found["records"] == "refused"
        # Missing blocks at the end of a text are ignored.
        assert survive_recordings({"": formatted("+" * 20_000)})[""]["records"] == "value"

    def test_json_that_is_too_deep(self, survive_recordings: Survive) -> None:
        texts = ['{"a":', "[", '{"data_layout":[{"default":[']
        files = {text: formatted("data_layout", bytes(9), _0=text * 100_000) for text in texts}
        for found in survive_recordings(files).values():
            assert found["records"] == "refused"

    def test_legacy_tags_that_are_too_deep(self, survive_recordings: Survive) -> None:
        built = build(numbered(3))
        texts = [b'{"tags":' * 50_000, b"[" * 100_000]
        payload = u32(1) + struct.pack("<iH", *IMU)
        payload += b"".join(u32(len(text)) + text for text in texts)
        head = struct.pack("<IIiIdHBBI", 32 + len(payload), 0, 2, 1, 1e300, 1, 3, 0, 0)
        data = built.data[:80] + head + payload + built.data[built.offsets[0] :]
        data[24:32] = bytes(8)
        assert survive_recordings({"": bytes(data)})[""]["records"] == "value"

    def test_times_of_any_bits(self, survive_recordings: Survive) -> None:
        values = [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308]
        built = build([Rec(value, b"x" * k) for k, value in enumerate(values)])
        assert set(survive_recordings({"": bytes(built.data)})[""].values()) == {"value"}

    def test_a_record_before_one_past_the_end(self, tmp_path: Path) -> None:
        """`read_prev_record` with an index past the end, and other invalid indices."""

        path = tmp_path / "a.vrs"
        path.write_bytes(bytes(build(numbered(4)).data))
        with pyvrs.SyncVRSReader(path) as reader:
            for index in (4, 5, 1 << 31, U32, U64, -1, -5, -(1 << 40)):
                for read in (reader.read_prev_record, reader.read_next_record):
                    try:
                        found = read("241-1", pyvrs.RecordType.DATA, index)
                    except (IndexError, ValueError):
                        continue
                    assert found is None or 0 <= found.record_index < 4


class TestMemory:
    """Declared sizes of up to 4 GB that the file does not have."""

    def test_sizes_in_the_format(self, survive_recordings: Survive) -> None:
        texts = [
            "custom/size=4294967295",
            "custom/size=18446744073709551615",
            "custom/size=2147483648+custom/size=2147483648+custom",
            "image/raw/65535x65535/pixel=rgba32F",
            "image/raw/4294967295x4294967295/pixel=grey8/stride=4294967295",
            "image/raw/8x8/pixel=grey8/stride=4294967295/stride_2=4294967295",
            "image/raw/65535x1/pixel=yuv_i420_split/stride=1/stride_2=4294967295",
            "image/size=4294967295/jpg",
            "image/size=4294967295/video/codec=H.264",
            "audio/pcm/int16le/channels=255/samples=4294967295",
            "audio/size=4294967295/pcm/float64be/channels=2",
            "data_layout/size=4294967295+custom",
        ]
        files = {text: formatted(text, *[bytes(100)] * 20, _0=NEXT) for text in texts}
        survive_recordings(files)

    def test_the_size_of_the_next_block(self, survive_recordings: Survive) -> None:
        texts = ("custom", "image/jpg", "image/raw/8x8/pixel=grey8", "image/video", "audio")
        payload = u32(U32) + bytes(64)
        files = {text: formatted(f"data_layout+{text}", *[payload] * 20, _0=NEXT) for text in texts}
        survive_recordings(files)

    def test_sizes_of_images_in_metadata(self, survive_recordings: Survive) -> None:
        payloads = [
            encode(RAW, image_width=w, image_height=h, image_pixel_format=pixel) + bytes(99)
            for w in (1, 65536, U32)
            for h in (1, 65536, U32)
            for pixel in (1, 5, 16, 18, 22, U32)
        ]
        files = {
            f"{k} {how}": formatted(f"data_layout+image/{how}", *payloads[k:], _0=RAW)
            for k in (0, 8, 16)
            for how in ("raw", "video/codec=H.264")
        }
        survive_recordings(files)

    @pytest.mark.parametrize("nbytes", [U32, 1 << 28])
    def test_an_uncompressed_size(self, survive_recordings: Survive, nbytes: int) -> None:
        """Frames of a few bytes that declare a huge size, or no size."""
        zstd = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(999))
        lz4 = encode_frame(bytes(999), Compression.LZ4, 0)
        sized = lz4[:4] + bytes([lz4[4] | 8]) + lz4[5:6] + u32(nbytes, 0)
        sized += bytes([_lz4_check(sized[4:])])
        frames = {
            "zstd": (2, b"\x28\xb5\x2f\xfd\xa0" + u32(nbytes) + zstd[6:]),
            "zstd unsized": (2, zstd),
            "lz4": (1, sized + lz4[7:]),
            "lz4 unsized": (1, lz4),
        }
        files = {
            name: self._compressed(stored, code, nbytes) for name, (code, stored) in frames.items()
        }
        for found in survive_recordings(files, only=(*FEW, "checksum")).values():
            assert found["records"] == found["checksum"] == "refused"

    def _compressed(self, stored: bytes, compression: int, nbytes: int, count: int = 20) -> bytes:
        built = build([Rec(float(k), stored) for k in range(count)], "end")
        for offset in built.offsets:
            struct.pack_into("<BI", built.data, offset + 27, compression, nbytes)
        return bytes(built.data)

    def test_zeros_that_are_there(self, survive_recordings: Survive) -> None:
        """Frames of runs that really decode to 64 MB each: read one after the other."""
        nbytes = 64 << 20
        last = bytes([RUN[0] | 1]) + RUN[1:]
        stored = b"\x28\xb5\x2f\xfd\xa0" + u32(nbytes) + RUN * (nbytes // (128 << 10) - 1) + last
        assert len(stored) < 3000
        data = self._compressed(stored, 2, nbytes, count=3)
        found = survive_recordings({"": data}, 2 * nbytes, only=("in a row", "checksum"))
        assert set(found[""].values()) == {"value"}

    def test_a_window_of_gigabytes(self, survive_recordings: Survive) -> None:
        files = {}
        for log in (27, 31, 41):
            stored = b"\x28\xb5\x2f\xfd\x00" + bytes([(log - 10) << 3]) + b"\x01\x00\x00"
            for nbytes in (0, 1, 1 << 30):
                files[f"{log} {nbytes}"] = self._compressed(stored, 2, nbytes, count=2)
        survive_recordings(files, only=("records", "in a row"))

    def test_counts_of_the_index(self, survive_recordings: Survive) -> None:
        built = build(numbered(5))
        files = {
            f"{at} {count}": packed(built, built.index_offset + 32 + at, "<I", count)
            for at in (0, 4, 10)
            for count in (U32, 1 << 31, 1 << 28, 500_000_000)
        }
        for found in survive_recordings(files, only=FEW).values():
            assert found["records"] == "value"

    def test_an_index_of_four_gigabytes(self, survive_recordings: Survive) -> None:
        """Declared size of the index, and its declared decoded size."""
        files = {}
        for index in ("end", "front", "split"):
            built = build(numbered(5), index, zstd=True)
            for at, value in ((0, U32), (28, U32), (28, U32 // 19 * 19)):
                files[f"{index} {at} {value}"] = packed(built, built.index_offset + at, "<I", value)
        for found in survive_recordings(files, only=FEW).values():
            assert found["records"] == "value"

    def test_counts_of_the_description(self, survive_recordings: Survive) -> None:
        built = described({"RF:Data:1": "custom"}, b"abc")
        files = {
            f"{at} {value}": packed(built, 80 + 32 + at, "<I", value)
            for at in (0, 10, 14, 18)
            for value in (U32, 1 << 31, 1 << 28)
        }
        for found in survive_recordings(files, only=(*FEW, "pyvrs")).values():
            assert found["records"] == "value"

    def test_records_of_four_gigabytes(self, survive_recordings: Survive) -> None:
        files = {}
        for index in ("none", "end", "front"):
            built = build(numbered(4), index)
            for at in (80, built.offsets[0], built.offsets[2], built.offsets[3]):
                for field in (0, 4):
                    files[f"{index} {at} {field}"] = packed(built, at + field, "<I", U32)
        for found in survive_recordings(files, only=(*FEW, "no resync")).values():
            assert found["records"] in ("value", "refused")

    def test_places_beyond_any_file(self, survive_recordings: Survive) -> None:
        built = build(numbered(4), "front")
        files = {
            f"{at} {value}": packed(built, at, "<Q", value)
            for at in (24, 32, 40)
            for value in (U64, 1 << 63, (1 << 63) - 1, 1 << 40, 1)
        }
        for found in survive_recordings(files, only=FEW).values():
            assert found["records"] == "value"

    def test_images_that_say_they_are_large(self, survive_recordings: Survive) -> None:
        jpeg = bytearray(image.encode_jpeg(np.zeros((8, 8, 3), "u1")))
        struct.pack_into(">HH", jpeg, jpeg.index(b"\xff\xc0") + 5, 65500, 65500)
        png = bytearray(image.encode_png(np.zeros((8, 8, 3), "u1")))
        struct.pack_into(">II", png, 16, 65500, 65500)
        texts = ("image/jpg", "image/png", "image")
        files = {text: formatted(text, *[bytes(jpeg), bytes(png)] * 5) for text in texts}
        for found in survive_recordings(files).values():
            assert found["columns"] == "refused"

    def test_values_that_share_their_bytes(self, survive_recordings: Survive) -> None:
        """A thousand texts of a megabyte each, stored once."""
        pieces = [{"name": f"s{k}", "type": "DataPieceString"} for k in range(1000)]
        payload = u32(0, 1 << 20) * 1000 + bytes(1 << 20)
        data = formatted("data_layout", payload, _0=json.dumps({"data_layout": pieces}))
        found = survive_recordings({"": data}, 8 << 20)[""]
        assert found["records"] == "refused"

    @pytest.mark.slow
    def test_many_formats_in_one_recording(self, survive_recordings: Survive) -> None:
        """Each record has its own version, and each version the largest number of blocks."""
        versions = range(100)
        tags = {f"RF:Data:{k}": "+".join(["custom/size=1"] * 999) for k in versions}
        records = [Rec(float(k), bytes(999), version=k) for k in versions]
        built = build(records, streams={IMU: {"user": {}, "vrs": tags}})
        survive_recordings(
            {"": bytes(built.data)}, 4 * len(built.data), only=("records", "columns")
        )


class TestTime:
    @pytest.mark.slow
    def test_many_streams_and_tags_records(self, survive_recordings: Survive) -> None:
        first = -1.7976931348623157e308
        ids = [(1000 + k % 5000, 1 + k // 5000) for k in range(20_000)]
        built = build([Rec(first, u32(0, 0, 0, 0), id_, 4) for id_ in ids], "none")
        survive_recordings({"": bytes(built.data)}, 60 << 20, only=("records", "columns"))

    def test_names_with_numbers_without_end(self, survive_recordings: Survive) -> None:
        name = "a" + " #1" * 200_000 + " #" + "1" * 100_000
        built = described({"VRS_Original_Recordable_Name": name}, b"abc")
        survive_recordings({"": bytes(built.data)}, 8 << 20, only=("records", "columns"))

    @pytest.mark.slow
    def test_headers_everywhere(self, survive_recordings: Survive) -> None:
        """All 32-byte pieces look like a header, but do not lead to the next one."""
        one = struct.pack("<IIiIdHBBI", 33, 32, 241, 1, 0.0, 1, 3, 0, 0)
        data = bytes(build(numbered(2), "none").data) + one * 50_000
        survive_recordings({"": data}, 8 << 20, only=("records",))


def _lz4_check(descriptor: bytes) -> int:
    return int(xxhash.xxh32(descriptor).intdigest()) >> 8 & 0xFF


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    built = build(numbered(5))
    built.data[built.offsets[2] + 27] = 9
    with vrs.open(bytes(built.data[:-30])) as recording:
        assert not recording.report.is_clean
        assert len(recording) == 4
    with pytest.raises(FormatError):
        vrs.open(b"VisionRe" + bytes(90))
    assert capfd.readouterr() == ("", "")
