"""Files of the writer as read by the wheel and by our reader: pieces, blocks and placements."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bloscpack.vrs as vrs
from bloscpack.vrs.block.audio import SAMPLE_FORMATS, SampleFormat, audio_view
from bloscpack.vrs.block.pixels import (
    PIXEL_FORMATS,
    ImageFormat,
    ImageSpec,
    PixelFormat,
    image_planes,
)
from bloscpack.vrs.format.compression import PRESETS
from bloscpack.vrs.format.format import (
    FILE_HEADER_SIZE,
    INDEX_TYPE_ID,
    RECORD_HEADER_SIZE,
    RecordHeader,
)
from bloscpack.vrs.format.recordindex import SPLIT_VERSION
from bloscpack.vrs.layout.pieces import ELEMENTS, TYPES, Piece, PieceKind
from tests.oracle import Oracle

from . import manifests
from .subject import plain
from .test_layout_properties import layouts_and_values

PLACEMENTS: dict[str, dict[str, Any]] = {
    "end": {},
    "plain end": {"index_compression": "none"},
    "front": {"index": "front"},
    "front, plain": {"index": "front", "index_compression": "none"},
    "front, too small": {"index": "front", "index_room": 0},
    "chunks": {"chunk_nbytes": 2000},
    "chunks, plain": {"chunk_nbytes": 2000, "index_compression": "none"},
}
# Formats that the wheel does not know, as its library is older than they are.
UNKNOWN_TO_THE_WHEEL = {PixelFormat.BAYER10_GBRG, PixelFormat.BAYER8_GBRG}


class Pose(vrs.Layout):
    position = vrs.Value("Point3Dd", tags={"unit": "m"})
    name = vrs.String()


class Motion(vrs.Layout):
    count = vrs.Value("uint32_t", default=7)
    gyro = vrs.Array("float", 3, properties={"min": -1.0, "max": 1.0})
    pose = Pose
    samples = vrs.Vector("Point2Di")
    words = vrs.Vector("string")
    counts = vrs.StringMap("int64_t")
    extra = vrs.Value("bool", optional=True)


def write_motion(path: Path, **options: Any) -> list[dict[str, Any]]:
    """Write 150 records of two streams, one of them late; return those of the first."""
    expected = []
    with vrs.create(path, tags={"project_name": "écoute"}, **options) as recording:
        motion = recording.stream("motion", flavor="test/motion", tags={"role": "main"})
        motion.define("configuration", Motion.definition(with_optional=True), version=3)
        motion.define("data", Motion)
        motion.write("configuration", -1.0, {"extra": True}, version=3)
        for i in range(150):
            values = {
                "count": i,
                "gyro": [0.5, -0.25, float(i)],
                "pose/position": (1.0, i / 3, -2.0),
                "samples": [(i, -i)] * (i % 3 + 1),
                "pose/name": f"näme {i}",
                "words": ["a", "", "b" * i],
                "counts": {"x": i, "y": -(1 << 60)},
            }
            motion.write("data", i / 8, values)
            expected.append(values)
            if i == 75:
                late = recording.stream("imu", tags={"late": "yes"})
                late.define("state", vrs.Custom("blob"))
                late.write("state", i / 8 - 0.01, b"late \0 bytes")
        late.tags["later"] = "too"
        late.write("state", 100.0, b"")
    return expected


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_index_placements(wheel: Oracle, tmp_path: Path, placement: str) -> None:
    path = tmp_path / "a.vrs"
    expected = write_motion(path, **PLACEMENTS[placement])
    found = wheel("dump(path, checksum=False)", path=str(path))
    assert found["file_tags"] == {"project_name": "écoute"}
    assert found["n_records"] == 153
    streams = found["streams"]
    assert streams["372-1"]["tags"] == {"role": "main"}
    assert streams["372-1"]["info"]["flavor"] == "test/motion"
    assert streams["372-1"]["info"]["device_name"] == "Motion Data Class"
    assert streams["241-1"]["tags"] == {"late": "yes", "later": "too"}
    assert [len(stream["info"]["serial_number"]) for stream in streams.values()] == [36, 36]
    first, *rest = found["records"]
    assert (first["record_type"], first["format_version"]) == ("configuration", 3)
    assert first["metadata_blocks"][0]["extra"] is True
    assert first["metadata_blocks"][0]["count"] == 7
    data = [record for record in rest if record["record_type"] == "data"]
    assert [record["metadata_blocks"] for record in data] == [[plain(each)] for each in expected]
    assert [record["timestamp"] for record in data] == [i / 8 for i in range(150)]
    states = [record for record in rest if record["record_type"] == "state"]
    assert [record["timestamp"] for record in states] == [75 / 8 - 0.01, 100.0]
    assert states[0]["custom_blocks"][0][3] == b"late \0 bytes"
    with vrs.open(path) as ours:
        assert ours.report.is_clean, ours.report
        assert [record.metadata_blocks[0] for record in ours["372-1"].data] == expected
        assert ours["241-1"].tags == {"late": "yes", "later": "too"}
        assert ours.header.version == ("VRS2" if "front" in placement else "VRS1")
        assert ours.header.creation_id >> 60 == 1
        check_sizes(ours)
        front = ours.header.index_offset < ours.table.offset.min()
        assert front == (placement not in ("end", "plain end", "front, too small"))


def check_sizes(recording: vrs.Recording) -> None:
    """Check that each record has the size of the one before it, which no other test does."""
    source, offset, previous_size = recording.source, FILE_HEADER_SIZE, 0
    while offset < source.size():
        header = RecordHeader.unpack(source.read_at(offset, RECORD_HEADER_SIZE))
        assert header.previous_size == previous_size
        is_split = header.stream_id[0] == INDEX_TYPE_ID and header.format_version == SPLIT_VERSION
        # A split index is empty when the first record is written.
        previous_size = RECORD_HEADER_SIZE if is_split else header.size
        offset += header.size
    assert offset == source.size()


def test_every_piece_type(wheel: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    pieces = [
        Piece(f"{kind.name}/{name}", type_name, 2 if kind is PieceKind.ARRAY else 0)
        for type_name, (kind, element) in TYPES.items()
        for name in (element.name,)
    ]
    layout = vrs.DataLayout(sorted(pieces, key=lambda piece: piece.is_variable))
    values = {piece.label: value_of(piece) for piece in pieces}
    with vrs.create(path) as recording:
        stream = recording.stream("sample")
        stream.define("data", layout)
        stream.write("data", 1.5, values)
        stream.write("data", 2.5, {})
    first, second = wheel("dump(path)", path=str(path))["records"]
    assert first["metadata_blocks"][0] == plain(values)
    with vrs.open(path) as ours:
        assert ours[0].metadata_blocks[0] == values
        # The wheel leaves out empty vectors and maps of a block without a variable part.
        seen = second["metadata_blocks"][0]
        empty = {key: plain(value) for key, value in ours[1].metadata_blocks[0].items()}
        assert seen == {key: empty[key] for key in seen}
        assert len(seen) >= 2 * len(ELEMENTS)


def value_of(piece: Piece) -> Any:
    """Return a value whose elements all differ."""
    element = piece.element
    assert element is not None

    def one(seed: int) -> Any:
        if element.name == "string":
            return f"text {seed} é"
        numbers = [number_of(element.code, seed + i) for i in range(element.width)]
        if not element.shape:
            return numbers[0]
        n = element.shape[0]
        rows = [tuple(numbers[i : i + n]) for i in range(0, len(numbers), n)]
        return tuple(rows) if len(element.shape) == 2 else rows[0]

    if piece.kind in (PieceKind.ARRAY, PieceKind.VECTOR):
        return [one(1), one(2)]
    if piece.kind is PieceKind.STRING_MAP:
        return {"key": one(3), "ключ": one(4)}
    return one(5)


def number_of(code: str, seed: int) -> Any:
    if code == "?":
        return seed % 2 == 1
    if code == "c":
        return bytes((64 + seed,))
    return seed * 0.25 if code in "fd" else seed


@pytest.mark.parametrize("preset", PRESETS)
def test_compression(wheel: Oracle, tmp_path: Path, preset: str) -> None:
    path = tmp_path / "a.vrs"
    small, large = b"x" * 249, bytes(range(64)) * 100
    noise = np.random.default_rng(1).bytes(5000)
    with vrs.create(path, compression=preset) as recording:
        stream = recording.stream(100)
        stream.define("data", vrs.Custom())
        for i, payload in enumerate((small, large, noise)):
            stream.write("data", i, payload)
        other = recording.stream(100, compression="none")
        other.define("data", vrs.Custom())
        other.write("data", 3, large)
    found = wheel("[bytes(r.custom_blocks[0]) for r in vrs.SyncVRSReader(path)]", path=str(path))
    assert found == [small, large, noise, large]
    with vrs.open(path) as ours:
        assert [bytes(record.payload) for record in ours] == found
        sizes = [32 + len(payload) for payload in found]
        stored = ours.table.size.tolist()
        assert stored[0::2] == sizes[0::2]
        assert stored[3] == sizes[3]
        assert (stored[1] < sizes[1]) == (preset != "none")


@pytest.mark.parametrize("pixel", [each for each in PIXEL_FORMATS.values() if each])
def test_raw_images(wheel: Oracle, tmp_path: Path, pixel: PixelFormat) -> None:
    path = tmp_path / "a.vrs"
    width, height = 13, 5
    random = np.random.default_rng(int(pixel))
    specs = [ImageSpec(width, height, pixel_format=pixel, image_format=ImageFormat.RAW)]
    specs.append(dataclasses.replace(specs[0], stride=specs[0].row_nbytes + 8, stride_2=40))
    written = []
    with vrs.create(path) as recording:
        stream = recording.stream("rgb camera")
        for version, spec in enumerate(specs):
            image = vrs.Image(
                "raw", width, height, pixel, stride=spec.stride, stride_2=spec.stride_2
            )
            stream.define("data", image, version=version)
            planes = image_planes(random.bytes(spec.raw_nbytes or 0), spec)
            planes = tuple(np.nan_to_num(plane) for plane in planes)
            stream.write("data", version, planes if len(planes) > 1 else planes[0], version=version)
            written.append(planes)
    with vrs.open(path) as ours:
        for record, planes, spec in zip(ours, written, specs, strict=True):
            block = record.blocks[0]
            assert block.spec == dataclasses.replace(spec, buffer_size=spec.raw_nbytes or 0)
            for found, plane in zip(image_planes(block.data, spec), planes, strict=True):
                np.testing.assert_array_equal(found, plane)
    if pixel in UNKNOWN_TO_THE_WHEEL:
        return
    records = wheel("dump(path)", path=str(path))["records"]
    for record, planes, spec in zip(records, written, specs, strict=True):
        assert record["image_blocks"] == [plain(np.ascontiguousarray(planes[0]))]
        assert record["image_specs"][0]["stride"] == spec.row_nbytes


@pytest.mark.parametrize("sample_format", [each for each in SAMPLE_FORMATS.values() if each])
@pytest.mark.parametrize("channels", [1, 3])
def test_audio(wheel: Oracle, tmp_path: Path, sample_format: SampleFormat, channels: int) -> None:
    path = tmp_path / "a.vrs"
    random = np.random.default_rng(int(sample_format))
    plain_audio = vrs.Audio(sample_format, channels, 48000, samples=20)
    spec = plain_audio.block.audio
    stride = spec.min_frame_nbytes + 2
    padded = vrs.Audio(sample_format, channels, 48000, stride=stride)
    samples = np.nan_to_num(audio_view(random.bytes(spec.pcm_nbytes or 0), spec))
    with vrs.create(path) as recording:
        stream = recording.stream("stereo audio")
        stream.define("data", plain_audio)
        stream.define("data", padded, version=2)
        stream.write("data", 0, samples)
        stream.write("data", 1, samples[:7], version=2)
        if channels == 1:
            stream.write("data", 2, samples[:, 0].byteswap().view(samples.dtype.newbyteorder()))
    with vrs.open(path) as ours:
        np.testing.assert_array_equal(ours[0].blocks[0].array(), samples)
        np.testing.assert_array_equal(ours[1].blocks[0].array(), samples[:7])
        if channels == 1:
            np.testing.assert_array_equal(ours[2].blocks[0].array(), samples)
    if str(sample_format).endswith("be") and sample_format.name[1:3] != "24":
        source = "[r.audio_specs[0].sample_count for r in vrs.SyncVRSReader(path)]"
        assert wheel(source, path=str(path))[:2] == [20, 7]  # its samples may be wrong
        return
    records = wheel("dump(path)", path=str(path))["records"]
    if records[0]["audio_blocks"][0] is not None:
        assert records[0]["audio_blocks"] == [plain(samples)]
        assert records[1]["audio_specs"][0]["sample_frame_stride"] == stride


def test_blocks_of_every_kind_in_one_record(wheel: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    with vrs.create(path) as recording:
        stream = recording.stream("rgb camera")
        stream.define(
            "data",
            vrs.NextBlockLayout,
            vrs.Image("png"),
            Motion,
            vrs.Image("raw", 4, 4, "rgb8"),
            vrs.Custom("calibration", size=3),
            vrs.Audio("int16le", 2, 16000),
        )
        samples = np.arange(10, dtype=np.int16).reshape(5, 2)
        stream.write("data", 1, {}, pixels, Motion(count=3), pixels, b"abc", samples)
        stream.write("data", 2, {}, pixels[:2], {}, pixels, b"abc", samples[:0])
    first, second = wheel("dump(path, conversion='DECOMPRESS')", path=str(path))["records"]
    assert first["n_blocks_in_total"] == 6
    assert [block["count"] for block in first["metadata_blocks"][1:]] == [3]
    assert first["metadata_blocks"][0]["next_content_block_size"] > 20
    assert first["image_blocks"] == [plain(pixels), plain(pixels)]
    assert second["image_blocks"] == [plain(pixels[:2]), plain(pixels)]
    assert first["custom_blocks"][0][3] == b"abc"
    assert first["audio_blocks"] == [plain(samples)]
    with vrs.open(path) as ours:
        kinds = ["metadata", "image", "metadata", "image", "custom", "audio"]
        assert [block.kind for block in ours[0].blocks] == kinds
        np.testing.assert_array_equal(ours[0].blocks[1].array(), pixels)
        np.testing.assert_array_equal(ours[0].blocks[5].array(), samples)


def test_specs_in_layouts(wheel: Oracle, tmp_path: Path) -> None:
    path = tmp_path / "a.vrs"
    image = np.arange(24, dtype=np.uint16).reshape(4, 6)
    samples = np.arange(8, dtype=np.float32).reshape(4, 2)
    with vrs.create(path) as recording:
        camera = recording.stream("forward camera")
        camera.define("configuration", vrs.ImageLayout)
        camera.define("data", vrs.Image("raw"))
        camera.write(
            "configuration",
            0,
            vrs.ImageLayout(image_width=6, image_height=4, image_pixel_format=PixelFormat.GREY16),
        )
        camera.write("data", 1, image)
        sound = recording.stream("stereo audio")
        sound.define("data", vrs.AudioLayout, vrs.Audio())
        layout = vrs.AudioLayout(
            audio_sample_format=SampleFormat.F32_LE, audio_channel_count=2, audio_sample_rate=8000
        )
        sound.write("data", 2, layout, samples)
    records = wheel("dump(path)", path=str(path))["records"]
    assert records[1]["image_blocks"] == [plain(image)]
    assert records[2]["audio_blocks"] == [plain(samples)]
    with vrs.open(path) as ours:
        np.testing.assert_array_equal(ours[1].blocks[0].array(), image)
        np.testing.assert_array_equal(ours[2].blocks[1].array(), samples)


@manifests.each_vector()
def test_a_copy_of_a_vector_has_its_checksum(wheel: Oracle, tmp_path: Path, vector: str) -> None:
    path = tmp_path / "a.vrs"
    manifest = manifests.load(vector)
    with (
        vrs.open(manifests.path(vector)) as original,
        vrs.create(path, tags=original.file_tags) as copy,
    ):
        streams = {
            stream.id: copy.stream(
                stream.type_id,
                tags=stream.tags,
                vrs_tags=stream.vrs_tags,
                instance_id=stream.instance_id,
            )
            for stream in original.streams.values()
        }
        for record in original:
            streams[record.stream_id].write_payload(
                record.record_type,
                record.timestamp,
                record.payload,
                version=record.format_version,
            )
    with vrs.open(path) as ours:
        assert ours.checksum() == manifest["oracle_records_checksum"]
    checksum = wheel("vrs.records_checksum(path, False)", path=str(path))
    assert checksum == manifest["oracle_records_checksum"]


@given(layouts_and_values())
def test_generated_layouts(
    wheel: Oracle,
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[vrs.DataLayout, dict[str, Any]],
) -> None:
    path = tmp_path_factory.mktemp("generated") / "a.vrs"
    layout, values = drawn
    # Labels of the wheel depend on the other values, and it escapes bytes that are not UTF-8.
    if len({piece.label for piece in layout.pieces}) < len(layout.pieces) or not is_utf8(values):
        return
    with vrs.create(path) as recording:
        stream = recording.stream("sample")
        stream.define("data", layout)
        stream.write("data", 1.5, values)
    with vrs.open(path) as ours:
        read = ours[0].metadata_blocks[0]
        assert ours["998-1"].records[0].blocks[0].spec == layout
    ((seen,),) = wheel("[r['metadata_blocks'] for r in dump(path)['records']]", path=str(path))
    expected = {key: plain(value) for key, value in read.items()}
    assert {key: repr(seen[key]) for key in seen} == {key: repr(expected[key]) for key in seen}
    # It leaves out empty values if the whole variable part is empty.
    assert all(not read[key] for key in expected.keys() - seen.keys())


def is_utf8(value: Any) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in texts_of(value))


def texts_of(value: Any) -> str:
    if isinstance(value, dict):
        return "".join(map(texts_of, [*value, *value.values()]))
    if isinstance(value, list):
        return "".join(map(texts_of, value))
    return value if isinstance(value, str) else ""


numbers = st.integers(-(1 << 31), (1 << 31) - 1)


@given(
    st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False, width=32),
            st.sampled_from(["data", "configuration", "state"]),
            st.integers(0, 3),
            st.binary(max_size=300),
            st.lists(numbers, max_size=4),
        ),
        max_size=12,
    ),
    st.sampled_from(sorted(PLACEMENTS)),
    st.sampled_from(["none", "fast", "zfaster"]),
)
def test_generated_records(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], placement: str, preset: str
) -> None:
    path = tmp_path_factory.mktemp("generated") / "a.vrs"

    class Numbers(vrs.Layout):
        numbers = vrs.Vector("int32_t")

    with vrs.create(path, compression=preset, **PLACEMENTS[placement]) as recording:
        streams: dict[int, vrs.StreamWriter] = {}
        for timestamp, kind, number, data, listed in records:
            # Streams and definitions are added when they are needed, most of them late.
            if number not in streams:
                streams[number] = recording.stream("sensor", instance_id=number)
            streams[number].define(kind, Numbers, vrs.Custom())
            streams[number].write(kind, timestamp, {"numbers": listed}, data)
    ordered = sorted(records, key=lambda each: (each[0], each[2]))
    with vrs.open(path) as ours:
        assert ours.report.is_clean, ours.report
        assert len(ours) == len(records)
        for found, (timestamp, kind, number, data, listed) in zip(ours, ordered, strict=True):
            assert (found.timestamp, found.record_type) == (timestamp, kind)
            assert found.stream_id == f"240-{number}"
            assert found.metadata_blocks[0]["numbers"] == listed
            assert bytes(found.blocks[1].data) == data
