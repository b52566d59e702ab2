"""Where videos end: made by FFmpeg, and by hand for what it does not write."""

import io
import struct
from fractions import Fraction
from pathlib import Path

import pytest

from bloscpack.media.video import read_video
from bloscpack.media.videoextent import read_extent

from ..videofiles import moving

av = pytest.importorskip("av")

KINDS = {"mp4": "libx264", "mov": "png", "mkv": "libx264", "webm": "libvpx", "avi": "mpeg4"}
KINDS |= {"flv": "flv1", "wmv": "wmv2", "mxf": "mpeg2video", "ivf": "libvpx", "ogg": "libvpx"}
KINDS |= {"gif": "gif", "ts": "libx264", "m2ts": "libx264"}
KINDS |= {"y4m": "wrapped_avframe", "nut": "ffv1", "mpg": "mpeg2video", "h264": "libx264"}
UNKNOWN = ("y4m", "nut", "mpg", "h264")


def write(path: Path, count: int = 6) -> bytes:
    """Write a video of the kind that its suffix says, and return its bytes."""
    codec = KINDS[path.suffix[1:]]
    options = {"movflags": "faststart"} if codec == "libx264" else {}
    with av.open(str(path), "w", options=options) as container:
        stream = container.add_stream(codec, rate=25)
        stream.height, stream.width = 48, 64
        stream.pix_fmt = {"png": "rgb24", "gif": "rgb8", "ffv1": "bgr0"}.get(codec, "yuv420p")
        for number, pixels in enumerate(moving(count)):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            frame = frame.reformat(format=stream.pix_fmt)
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path.read_bytes()


def end_of(data: bytes) -> int | None:
    return read_extent(io.BytesIO(data))[0]


@pytest.mark.parametrize("suffix", KINDS)
def test_a_whole_video_ends_with_its_file(suffix: str, tmp_path: Path) -> None:
    data = write(tmp_path / f"a.{suffix}")
    if suffix in UNKNOWN:
        assert end_of(data) is None
        return
    assert end_of(data) == len(data)
    if suffix != "ivf":  # it has no mark of a frame, so that this looks like a cut one
        assert end_of(data + b"something else" * 100) == len(data)
    if suffix not in ("ts", "m2ts", "ogg"):  # made to be joined
        assert end_of(data * 2) == len(data)


@pytest.mark.parametrize("suffix", [kind for kind in KINDS if kind not in ("h264", "nut")])
def test_a_cut_video_is_never_taken_for_a_whole_one(suffix: str, tmp_path: Path) -> None:
    data = write(path := tmp_path / f"a.{suffix}")
    with av.open(str(path)) as container:
        packets = [(each.pos, each.size) for each in container.demux() if each.size]
    # Within frames, and where no frame is cut: a container without sizes looks whole there.
    places = {(pos or 0) + size // 2 for pos, size in packets}
    places |= {size * len(data) // 17 for size in range(1, 17)}
    if suffix not in (*UNKNOWN, "ts", "m2ts"):
        places |= {pos + part for pos, size in packets for part in (0, size)}
    if suffix in ("ts", "m2ts"):
        width = 188 if suffix == "ts" else 192
        places = {each for each in places if each % width > 4}  # within a packet
    for place in sorted(places - {0, len(data)}):
        path.write_bytes(data[:place])
        try:
            with read_video(path) as video:
                count = sum(1 for _ in video)
        except ValueError:
            continue
        assert not video.report.ok or count in (0, 6), place


def test_a_cut_mxf_file_whose_start_does_not_say_where_its_end_is(tmp_path: Path) -> None:
    data = bytearray(write(path := tmp_path / "a.mxf"))
    footer = 16 + 4 + 24  # behind the key, its length in 4 bytes, and 3 numbers
    assert int.from_bytes(data[footer : footer + 8], "big") > len(data) // 2
    data[footer : footer + 8] = bytes(8)
    path.write_bytes(data)
    with read_video(path) as video:
        assert sum(1 for _ in video) == 6
    assert video.report.ok
    with av.open(str(path)) as container:
        ends = [each.pos + each.size for each in container.demux() if each.size]
    path.write_bytes(data[: ends[3]])
    with read_video(path) as video:
        assert sum(1 for _ in video) < 6
    assert any("it ends after" in each for each in video.report.messages)


def test_the_part_of_y4m_behind_its_frames_is_not_dropped(tmp_path: Path) -> None:
    data = write(path := tmp_path / "a.y4m")
    path.write_bytes(data[:-1])
    with read_video(path) as video:
        assert sum(1 for _ in video) == 5
    assert video.report.is_cut
    assert video.report.describe() == (f"{path}: cut short (it ends after 0.20 of 0.24 seconds)")


def box(kind: bytes, content: bytes = b"", size: int | None = None) -> bytes:
    return struct.pack(">I4s", len(content) + 8 if size is None else size, kind) + content


def riff(kind: bytes, content: bytes, size: int | None = None) -> bytes:
    return b"RIFF" + struct.pack("<I", len(content) + 4 if size is None else size) + kind + content


def flv(number: float) -> bytes:
    content = b"\0\x08filesize\0" + struct.pack(">d", number)
    tag = b"\x12" + len(content).to_bytes(3, "big") + bytes(7) + content
    return b"FLV\1\1\0\0\0\x09\0\0\0\0" + tag + len(tag).to_bytes(4, "big")


EBML = b"\x1a\x45\xdf\xa3\x84" + b"Head"
SEGMENT = b"\x18\x53\x80\x67"
ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c") + struct.pack("<Q", 24)
ASF_DATA = bytes.fromhex("3626b2758e66cf11a6d900aa0062ce6c")
GIF = b"GIF89a\1\0\1\0\x80\0\0" + bytes(6)  # with a table of two colours
IMAGE = b",\0\0\0\0\1\0\1\0\0\2\2\x4c\1\0"
PACKET, OTHER = b"G" + bytes(187), bytes(188)
MP4 = box(b"ftyp", b"isom")


@pytest.mark.parametrize(
    ("data", "end"),
    [
        (b"", None),
        (b"GIF89a", 14),
        (bytes.fromhex("060e2b34020501010d0102010102") + bytes(2), None),
        (b"DKIF", None),
        (box(b"ftyp", size=7), None),
        (MP4 + box(b"mdat", bytes(4)) + box(b"moov"), 32),
        (MP4 + box(b"mdat", bytes(4), size=0), 24),  # to the end of the file
        (MP4 + box(b"mdat", struct.pack(">Q", 20) + bytes(4), size=1), 32),
        (MP4 + box(b"mdat", struct.pack(">Q", 1 << 40) + bytes(4), size=1), 12 + (1 << 40)),
        (MP4 + box(b"priv", bytes(4)) + box(b"moov"), 32),  # known to another program
        (MP4 + box(b"moov") + bytes(40), 20),
        (MP4 + box(b"moov") + b"ab", 20),
        (EBML + SEGMENT + b"\x83" + b"abc", 17),
        (EBML + SEGMENT + b"\x01\0\0\0\0\0\0\x09" + b"abc", 30),
        (EBML + SEGMENT + b"\x01" + b"\xff" * 7 + b"abc", 24),  # written without going back
        (EBML + SEGMENT + b"\xff" + b"abc", 17),
        (EBML + SEGMENT + b"\0abc", 9),
        (riff(b"AVI ", b"abcd") + riff(b"AVIX", b"abc") + b"\0", 32),  # OpenDML, padded
        (riff(b"AVI ", b"abcd", size=0), 16),
        (riff(b"AVI ", b"abcd", size=16), 16),  # the whole file
        (riff(b"AVI ", b"abcd", size=17), 26),
        (riff(b"WAVE", b"abcd"), None),
        (ASF + ASF_DATA + struct.pack("<Q", 0) + b"abc", 51),
        (ASF + ASF_DATA + struct.pack("<Q", 99) + b"abc", 123),
        (flv(0.0), 47),
        (flv(4000.0), 4000),
        (flv(float("nan")), 47),
        (flv(float("inf")), 47),
        (flv(40.0), 47),
        (b"DKIF\0\0\x20\0" + bytes(24) + struct.pack("<IQ", 3, 0) + b"abc", 47),
        (b"DKIF\0\0\x20\0" + bytes(24) + struct.pack("<IQ", 4, 0) + b"abc", 48),
        (GIF + b"!\xfe\3abc\0" + IMAGE + b";" + b"more", 42),
        (GIF + IMAGE, 35),  # without its end
        (GIF + IMAGE[:-3], 35),
        (PACKET * 9, 9 * 188),
        (PACKET * 9 + b"G", 10 * 188),
        (PACKET * 9 + OTHER * 9, 9 * 188),
        (PACKET * 9 + b"more" + PACKET * 3, None),  # FFmpeg finds them
        (PACKET * 5000, 5000 * 188),
    ],
)
def test_structures_by_hand(data: bytes, end: int | None) -> None:
    assert end_of(data) == end
