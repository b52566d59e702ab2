"""Images of a stream as a clip, compared with the images of its records; reads are counted."""

import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bloscpack import vrs
from bloscpack.exceptions import (
    BloscpackError,
    CodecError,
    FormatError,
    NotFoundError,
    TruncatedError,
    UnsupportedError,
)
from bloscpack.frames.protocol import check_memory
from bloscpack.media import image
from bloscpack.types import AnyArray
from bloscpack.vrs import streamclips
from bloscpack.vrs.block.pixels import PixelFormat
from bloscpack.vrs.column.imageplace import IRREGULAR
from bloscpack.vrs.format.format import RecordType
from bloscpack.vrs.framesource import RecordingSource
from bloscpack.vrs.layout.datalayout import DataLayout
from bloscpack.vrs.read.decoding import StreamDecoder
from bloscpack.vrs.streamclips import StreamClip

from .recordings import STREAM, Made, counted, layout, make_recording, opened
from .vectorfiles import FOLDER, NAMES

U32, F64, STRING = "DataPieceValue<uint32_t>", "DataPieceValue<double>", "DataPieceString"


SPEC = layout(
    ("time", F64),
    ("image_width", U32),
    ("image_height", U32),
    ("image_stride", U32),
    ("image_pixel_format", U32),
)
TEXT = layout(("n", U32), ("text", STRING))


def pixels(k: int, height: int = 6, width: int = 10) -> AnyArray:
    """Return a grey image, frame k of a clip."""
    return np.add.outer(np.arange(height), 3 * np.arange(width) + 7 * k).astype(np.uint8)


def spec(k: int, width: int = 10, height: int = 6, stride: int = 0, pixel: int = 1) -> bytes:
    return struct.pack("<dIIII", k / 10, width, height, stride, pixel)


def places_of(clip: StreamClip) -> list[int]:
    """Return the form number of each image, `UNKNOWN` for images that were not requested."""
    found: list[int] = clip._places.columns.form_of.tolist()
    return found


RAW = "image/raw/10x6/pixel=grey8"
# Record formats, and the bytes before the image of a record; all have the same frames.
FORMATS = {
    "alone": ({"RF:Data:1": RAW}, lambda k: b""),
    "sized": ({"RF:Data:1": f"custom/size=9+{RAW}+custom"}, lambda k: b"123456789"),
    "fixed": ({"RF:Data:1": f"data_layout+{RAW}", "DL:Data:1:0": SPEC}, lambda k: spec(k, 99)),
    "described": ({"RF:Data:1": "data_layout+image/raw", "DL:Data:1:0": SPEC}, spec),
    "text": (
        {"RF:Data:1": f"data_layout+empty+{RAW}", "DL:Data:1:0": TEXT},
        lambda k: DataLayout.from_json(TEXT).encode({"n": k, "text": "x" * (k % 5)}),
    ),
    "both": (
        {
            "RF:Data:1": "data_layout+data_layout+image/raw",
            "DL:Data:1:0": TEXT,
            "DL:Data:1:1": SPEC,
        },
        lambda k: DataLayout.from_json(TEXT).encode({"n": k, "text": "x" * (k % 5)}) + spec(k),
    ),
}


def content(
    name: str, n: int = 20, preset: str = "none", padding: int = 0
) -> tuple[dict[str, str], list[Made]]:
    formats, front = FORMATS[name]
    if padding:
        formats = {**formats, "RF:Data:1": formats["RF:Data:1"] + "+custom"}
    return formats, [
        Made(front(k) + pixels(k).tobytes() + bytes(padding), preset=preset) for k in range(n)
    ]


STACK = np.stack([pixels(k) for k in range(20)])


@pytest.mark.parametrize("name", NAMES)
def test_images_of_the_vectors(name: str) -> None:
    with RecordingSource(FOLDER / f"{name}.vrs") as source:
        for id_ in source:
            clip = source[id_]
            for k, row in list(enumerate(clip.rows.tolist()))[:40]:
                record = source.recording[row]
                block = next(b for b in record.blocks if b.kind in ("image", "unsupported"))
                try:
                    expected = block.array()
                except BloscpackError as err:
                    with pytest.raises(type(err), match=f"record {row} of stream {id_}"):
                        clip[k]
                    continue
                frame = clip[k]
                assert (frame.shape, frame.dtype) == (expected.shape, expected.dtype)
                assert frame.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("preset", "padding"), [("none", 0), ("zfast", 300), ("fast", 300)])
def test_raw_images(name: str, preset: str, padding: int) -> None:
    recording = opened(*content(name, preset=preset, padding=padding))
    clip = recording.streams[STREAM].frames
    assert (clip.shape, clip.dtype) == ((20, 6, 10), np.uint8)
    assert (clip[:] == STACK).all()
    for selection in (slice(3, 17, 4), [5, 5, 0, 19, -1], 7, slice(0, 0), STACK[:, 0, 0] > 40):
        found = clip[selection]
        assert found.shape == STACK[selection].shape
        assert (found == STACK[selection]).all()
    # Records are decoded one by one only if the form of the image depends on compressed metadata.
    known = preset == "none" or name in ("alone", "sized", "fixed")
    assert places_of(clip) == ([0] * 20 if known else [IRREGULAR] * 20)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_for_some_frames(name: str) -> None:
    recording, reads = counted(*content(name, 1000))
    clip = recording.streams[STREAM].frames
    clip[0]
    reads.clear()
    clip[500:504]
    assert len(reads) <= 7
    assert sum(nbytes for _, nbytes in reads) < 5000
    reads.clear()
    clip[500:504]
    assert len(reads) == 1
    assert reads[0][1] < 4 * (60 + 32 + 60)


def test_large_images_are_read_straight_to_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.vrs"
    frames = np.arange(3 * 300 * 400, dtype=np.uint16).reshape(3, 300, 400)
    formats = {"RF:Data:1": "data_layout+image/raw/400x300/pixel=grey16", "DL:Data:1:0": TEXT}
    records = [Made(struct.pack("<III", k, 0, 0) + frames[k].tobytes()) for k in range(3)]
    path.write_bytes(make_recording({STREAM: formats}, records))
    with vrs.open(path) as recording:
        clip = recording.streams[STREAM].frames
        assert clip.shape == (3, 300, 400)
        out = np.empty((3, 300, 400), np.uint16)

        def refuse(nbytes: int) -> None:
            raise AssertionError(f"{nbytes} bytes are read to somewhere else")

        clip._places.load(np.arange(3))
        clip._records.load()
        monkeypatch.setattr("bloscpack.storage.batch.Scratch", refuse)
        assert clip.read(out=out) is out
        assert (out == frames).all()


@pytest.mark.parametrize("preset", ["none", "zfast"])
def test_padding_planes_and_types(preset: str) -> None:
    rng = np.random.default_rng(1)
    cases = {
        "image/raw/5x4/pixel=rgb8/stride=20": ((4, 5, 3), "u1", 80),
        "image/raw/5x4/pixel=grey10": ((4, 5), "<u2", 40),
        "image/raw/5x4/pixel=rgb12/stride=40": ((4, 5, 3), "<u2", 160),
        "image/raw/5x4/pixel=depth32f": ((4, 5), "<f4", 80),
        "image/raw/5x4/pixel=scalar64F/stride=48": ((4, 5), "<f8", 192),
        "image/raw/5x4/pixel=yuv_420_nv12/stride=8/stride_2=8": ((4, 5), "u1", 48),
        "image/raw/5x4/pixel=yuy2": ((4, 5, 2), "u1", 48),
        "image/raw/5x4/pixel=raw10/stride=16": ((4, 10), "u1", 64),
        "image/raw/size=99/5x4/pixel=grey8": ((4, 5), "u1", 20),
    }
    for text, (shape, dtype, nbytes) in cases.items():
        # Half of the bytes are zero, so that they can be compressed.
        payloads = [rng.bytes(nbytes) + bytes(400) for _ in range(4)]
        records = [Made(payload, preset=preset) for payload in payloads]
        recording = opened({"RF:Data:1": f"{text}+custom"}, records)
        clip = recording.streams[STREAM].frames
        assert (clip.shape, clip.dtype) == ((4, *shape), np.dtype(dtype)), text
        found = clip[:]
        assert places_of(clip) == [0] * 4
        for k in range(4):
            assert found[k].tobytes() == recording[k].blocks[0].array().tobytes()


def test_the_configuration_that_was_before() -> None:
    formats = {
        "RF:Data:1": "image/raw",
        "RF:Configuration:1": "data_layout",
        "DL:Configuration:1:0": SPEC,
    }
    records = [Made(bytes(20))]
    for width, height in ((4, 5), (5, 4), (4, 5)):
        config = Made(spec(0, width, height), record_type=RecordType.CONFIGURATION)
        records += [config] + [Made(bytes(range(20)))] * 3
    clip = opened(formats, records).streams[STREAM].frames
    assert len(clip) == 10
    with pytest.raises(UnsupportedError, match=f"record 0 of stream {STREAM}"):
        clip[0]
    assert clip[1:4].shape == (3, 5, 4)
    assert clip[4:7].shape == (3, 4, 5)
    assert clip[[1, 9]].shape == (2, 5, 4)
    assert places_of(clip) == [IRREGULAR, 0, 0, 0, 1, 1, 1, -2, -2, 0]
    with pytest.raises(
        ValueError, match=r"frame 4 is uint8 \(4, 5\), not uint8 \(5, 4\) as frame 1"
    ):
        clip[1:]
    clip = opened(formats, records).streams[STREAM].frames
    clip._places.load(np.arange(10))
    assert places_of(clip) == [IRREGULAR, 0, 0, 0, 1, 1, 1, 0, 0, 0]


def test_images_that_differ_in_type() -> None:
    payloads = [spec(k, 2, 2, 0, pixel) for k, pixel in enumerate((1, 1, 11, 11, 3))]
    formats = FORMATS["described"][0]
    records = [Made(payload + bytes(range(16))) for payload in payloads]
    clip = opened(formats, records).streams[STREAM].frames
    assert clip.dtype == np.uint8
    assert clip[0:2].dtype == np.uint8
    assert clip[2:4].dtype == np.dtype("<u2")
    assert clip[4].dtype == np.dtype("<f4")
    with pytest.raises(ValueError, match=r"frame 2 is uint16 .*, not uint8 .* as frame 1"):
        clip[1:3]
    with pytest.raises(ValueError, match="out is"):
        clip.read(slice(0, 2), out=np.zeros((2, 2, 2), np.uint16))
    clip = opened(formats, records).streams[STREAM].frames
    clip._places.load(np.arange(5))
    assert places_of(clip) == [0, 0, 2, 2, 1]


def test_many_sizes_are_taken_apart() -> None:
    formats = FORMATS["described"][0]
    sizes = [(k + 1, 2) for k in range(100)]
    records = [Made(spec(k, w, h) + bytes(range(w * h))) for k, (w, h) in enumerate(sizes)]
    clip = opened(formats, records).streams[STREAM].frames
    for k, (width, height) in enumerate(sizes):
        assert clip[k].tobytes() == bytes(range(width * height))
        assert clip[k].shape == (height, width)
    clip = opened(formats, records).streams[STREAM].frames
    with pytest.raises(ValueError, match="frame 1 is"):
        clip[:]
    assert places_of(clip) == [IRREGULAR] * 100


def jpegs(preset: str = "none") -> tuple[dict[str, str], list[Made], list[bytes]]:
    """Return formats and records of images, and their files."""
    files = [image.encode_jpeg(pixels(k, 24, 32)) for k in range(6)]
    front = DataLayout.from_json(TEXT)
    records = [
        Made(front.encode({"n": k, "text": "x" * 300}) + file, preset=preset)
        for k, file in enumerate(files)
    ]
    return {"RF:Data:1": "data_layout+image/jpg", "DL:Data:1:0": TEXT}, records, files


def test_compressed_images_are_decoded_straight_to_their_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(nbytes: int) -> None:
        raise AssertionError(f"{nbytes} bytes are decoded to somewhere else")

    formats = {"RF:Data:1": "image/raw/40x30/pixel=grey8"}
    frames = np.stack([pixels(k, 30, 40) // 16 for k in range(4)])
    records = [Made(frame.tobytes(), preset="zmedium") for frame in frames]
    clip = opened(formats, records).streams[STREAM].frames
    monkeypatch.setattr("bloscpack.vrs.streamclips.Scratch", refuse)
    monkeypatch.setattr("bloscpack.vrs.streamclips.decode_payload", refuse)
    assert (clip[:] == frames).all()
    assert clip._records.headers.compressions.tolist() == [2] * 4


def test_a_single_image_is_read_once() -> None:
    pytest.importorskip("simplejpeg")
    *content, files = jpegs()
    recording, reads = counted(*content)
    reads.clear()
    assert recording.streams[STREAM].frames[3].shape == (24, 32)
    assert sum(nbytes >= len(files[3]) for _, nbytes in reads) == 1


@pytest.mark.parametrize("preset", ["none", "zfast"])
def test_jpegs(preset: str) -> None:
    pytest.importorskip("simplejpeg")
    *content_of_jpegs, files = jpegs(preset)
    clip = opened(*content_of_jpegs).streams[STREAM].frames
    assert clip.shape == (6, 24, 32)
    expected = np.stack([image.decode(file, fast=False) for file in files])
    assert (clip[:] == expected).all()
    assert (clip[3] == expected[3]).all()
    assert clip.read_images() == files
    assert clip.read_images([4, 1]) == [files[4], files[1]]
    assert clip.read_images(2) == [files[2]]
    assert opened(*content("alone")).streams[STREAM].frames.read_images() is None


def test_pngs_of_all_kinds() -> None:
    pillow = pytest.importorskip("PIL.Image")
    arrays = [pixels(k).astype("<u2") * 77 for k in range(3)]
    files = [image.encode_png(array) for array in arrays]
    clip = opened({"RF:Data:1": "image/png"}, [Made(f) for f in files]).streams[STREAM].frames
    assert clip.dtype == np.dtype("<u2")
    assert (clip[:] == np.stack(arrays)).all()
    bits = image.encode_png(pixels(0) > 20)
    clip = opened({"RF:Data:1": "image/png"}, [Made(bits)]).streams[STREAM].frames
    assert clip.dtype == np.uint8
    assert (clip[0] == (pixels(0) > 20) * np.uint8(255)).all()
    assert pillow


def test_a_damaged_first_frame_does_not_hide_the_others() -> None:
    pytest.importorskip("simplejpeg")
    files = [b"no image", image.encode_jpeg(pixels(1, 24, 32)), b"\xff\xd8\xff"]
    clip = opened({"RF:Data:1": "image/jpg"}, [Made(f) for f in files]).streams[STREAM].frames
    assert clip[1].shape == (24, 32)
    assert clip[1:2].shape == (1, 24, 32)
    with pytest.raises(FormatError, match=f"record 0 of stream {STREAM}"):
        clip[0]
    with pytest.raises(FormatError, match=f"record 2 of stream {STREAM}"):
        clip[1:]
    assert clip.read_images([1]) == [files[1]]


def test_only_versions_with_images_are_frames() -> None:
    formats = {"RF:Data:1": RAW, "RF:Data:2": "data_layout", "DL:Data:2:0": TEXT}
    records = []
    for k in range(9):
        text = struct.pack("<III", k, 0, 0)
        records.append(Made(pixels(k).tobytes()) if k % 3 else Made(text, version=2))
    clip = opened(formats, records).streams[STREAM].frames
    assert clip.rows.tolist() == [1, 2, 4, 5, 7, 8]
    assert clip.timestamps.tolist() == [1, 2, 4, 5, 7, 8]
    assert (clip[:] == STACK[[1, 2, 4, 5, 7, 8]]).all()


def test_which_image_of_a_record() -> None:
    formats = {"RF:Data:1": f"{RAW}+empty+{RAW}+custom/size=4"}
    payloads = [pixels(k).tobytes() + pixels(k + 1).tobytes() + b"tail" for k in range(5)]
    stream = opened(formats, [Made(payload) for payload in payloads]).streams[STREAM]
    assert (stream.frames[:] == STACK[:5]).all()
    assert (stream.clip(2)[:] == STACK[1:6]).all()
    with pytest.raises(NotFoundError, match=f"stream {STREAM} has no images in block 3"):
        stream.clip(3)


def test_streams_without_images_or_frames() -> None:
    with pytest.raises(NotFoundError, match="has no images"):
        opened({"RF:Data:1": "custom"}, [Made(b"x")]).streams[STREAM].frames  # noqa: B018
    stream = opened({"RF:Data:1": RAW}, []).streams[STREAM]
    assert not stream.has_images
    assert stream.frames.shape == (0,)
    assert len(stream.frames[:]) == 0


def test_damage_names_the_record(tmp_path: Path) -> None:
    records = [Made(pixels(k).tobytes() + bytes(300), preset="zfast") for k in range(5)]
    data = bytearray(make_recording({STREAM: {"RF:Data:1": f"{RAW}+custom"}}, records))
    with vrs.open(bytes(data)) as recording:
        place = int(recording.table.offset[3])
    data[place + 32 + 12] ^= 0xFF
    path = tmp_path / "damaged.vrs"
    path.write_bytes(data)
    with vrs.open(path) as recording:
        clip = recording.streams[STREAM].frames
        assert (clip[:3] == STACK[:3]).all()
        with pytest.raises(CodecError, match=f"record 3 of stream {STREAM}") as info:
            clip[1:]
        assert info.value.path == str(path)


@pytest.mark.parametrize("front", ["", "data_layout+"])
def test_payloads_that_are_too_short(front: str) -> None:
    formats = {"RF:Data:1": f"{front}image/raw/10x6/pixel=grey8", "DL:Data:1:0": TEXT}
    text = struct.pack("<III", 1, 0, 3) + b"abc" if front else b""
    records = [Made(text + pixels(k).tobytes()[: 60 - (k == 3)]) for k in range(5)]
    clip = opened(formats, records).streams[STREAM].frames
    assert (clip[:3] == STACK[:3]).all()
    with pytest.raises(TruncatedError, match=f"record 3 of stream {STREAM}"):
        clip[3]
    clip = opened(formats, records).streams[STREAM].frames
    with pytest.raises(TruncatedError, match=f"record 3 of stream {STREAM}"):
        clip[:]
    if front:
        short = opened(formats, [*records[:2], Made(b"abc")]).streams[STREAM].frames
        with pytest.raises(FormatError, match=f"record 2 of stream {STREAM}"):
            short[:]
        records[2] = Made(struct.pack("<III", 1, 0xFFFFFFFF, 0xFFFFFFFF) + pixels(2).tobytes())
        clip = opened(formats, records).streams[STREAM].frames
        with pytest.raises(FormatError, match=f"record 2 of stream {STREAM}: .* 72 left"):
            clip[2]


def test_a_file_that_shrinks_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "shrinks.vrs"
    records = [Made(bytes(300 * 400)) for _ in range(4)]
    path.write_bytes(
        make_recording({STREAM: {"RF:Data:1": "image/raw/400x300/pixel=grey8"}}, records)
    )
    with vrs.open(path) as recording:
        clip = recording.streams[STREAM].frames
        assert clip[:].shape == (4, 300, 400)
        with path.open("r+b") as stream:
            stream.truncate(path.stat().st_size - 10)
        assert clip[:3].shape == (3, 300, 400)
        with pytest.raises(TruncatedError):
            clip[:]


def test_compressed_frames_cannot_claim_more_than_the_file_can_hold() -> None:
    black = bytes(6000 * 6000)
    formats = {"RF:Data:1": "image/raw/6000x6000/pixel=grey8"}
    records = [Made(black, preset="zfast")] * 2
    data = make_recording({STREAM: formats}, records)
    stored = vrs.open(data).table.size.tolist()
    assert max(stored) < 4000
    # Enough records for 3.6 TB of frames if each held such an image.
    clip = vrs.open(data).streams[STREAM].frames
    source, expansion = clip._content.source, streamclips._MAX_EXPANSION
    with pytest.raises(FormatError, match="far more than"):
        check_memory("clip", np.arange(100_000), 36_000_000, source, expansion)
    check_memory("clip", np.zeros(100_000, np.int64), 1000, source, expansion)


def test_clips_can_be_pickled(tmp_path: Path) -> None:
    path = tmp_path / "some.vrs"
    formats = {"RF:Data:1": f"{RAW}+{RAW}"}
    records = [Made(pixels(k).tobytes() + pixels(k + 1).tobytes()) for k in range(5)]
    path.write_bytes(make_recording({STREAM: formats}, records))
    with vrs.open(path) as recording:
        clip = recording.streams[STREAM].clip(1)
        clip[0]
        copy = pickle.loads(pickle.dumps(clip))
    assert (copy[:] == STACK[1:6]).all()
    assert copy.id == STREAM
    with pytest.raises(ValueError, match="closed"):
        clip[:]


def test_pixel_formats_of_specs_in_records() -> None:
    for pixel in PixelFormat:
        if not pixel:
            continue
        payload = spec(0, 8, 6, 0, pixel) + bytes(range(256)) * 4
        recording = opened(FORMATS["described"][0], [Made(payload)])
        expected = recording[0].blocks[1].array()
        clip = recording.streams[STREAM].frames
        assert clip[0].tobytes() == expected.tobytes()
        assert places_of(clip) == [0]


def test_a_clip_without_its_recording_compiles_each_layout_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clip keeps the decoders of its recording alive."""
    path = tmp_path / "some.vrs"
    records = [Made(pixels(k).tobytes() + pixels(k + 1).tobytes()) for k in range(5)]
    path.write_bytes(make_recording({STREAM: {"RF:Data:1": f"{RAW}+{RAW}"}}, records))
    made = []
    init = StreamDecoder.__init__

    def counted(self: StreamDecoder, *args: Any) -> None:
        made.append(args[:3])
        init(self, *args)

    monkeypatch.setattr(StreamDecoder, "__init__", counted)
    clip = vrs.open(path).streams[STREAM].clip(1)
    for index in range(5):
        assert (clip[index] == STACK[index + 1]).all()
    assert (clip[:] == STACK[1:6]).all()
    assert len(made) == 1
