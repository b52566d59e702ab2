"""Recordings as frame sources: ids, batches, and opening by file type."""

import pickle
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import vrs
from bloscpack.display.contactsheet import contact_sheet
from bloscpack.exceptions import BloscpackWarning, NotFoundError
from bloscpack.frames.protocol import FrameSource
from bloscpack.integrations.pictures import pictures
from bloscpack.media import image
from bloscpack.parallel import threads
from bloscpack.storage import batch
from bloscpack.types import AnyArray
from bloscpack.vrs.block.pixels import unpack_ten_bits
from bloscpack.vrs.framesource import RecordingSource

from ..sourcecontract import check_clip, check_source
from .recordings import Made, make_recording

IDS = ["214-1", "214-2", "1201-1"]


def pixels(stream: int, k: int) -> AnyArray:
    values = np.arange(48) * (stream + 1) + 5 * k
    return values.astype(np.uint8).reshape(6, 8)


STACKS = {id_: np.stack([pixels(s, k) for k in range(10)]) for s, id_ in enumerate(IDS)}


def recording_bytes() -> bytes:
    formats = {id_: {"RF:Data:1": "image/raw/8x6/pixel=grey8+custom"} for id_ in IDS}
    formats["241-1"] = {"RF:Data:1": "custom"}
    formats["214-3"] = formats[IDS[0]]  # without records
    records = []
    for k in range(10):
        for stream, id_ in enumerate(IDS):
            preset = "zfast" if stream == 1 else "none"
            records.append(Made(pixels(stream, k).tobytes() + bytes(300), id_, preset=preset))
        records.append(Made(b"sensor", "241-1"))
    return make_recording(formats, records)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "sensors.vrs"
    path.write_bytes(recording_bytes())
    return path


@pytest.mark.parametrize(
    ("pixel", "shape", "listed"),
    [
        ("grey8", (4, 6), set()),
        ("rgb8", (4, 6, 3), set()),
        ("bgr8", (4, 6, 3), {"pixel format bgr8"}),
        ("yuv_i420_split", (6, 6), {"pixel format yuv_i420_split", "planes of colours"}),
    ],
)
def test_what_arrays_do_not_say_of_pixels(
    pixel: str, shape: tuple[int, ...], listed: set[str], tmp_path: Path
) -> None:
    image = np.arange(np.prod(shape), dtype=np.uint8)
    formats = {IDS[0]: {"RF:Data:1": f"image/raw/6x4/pixel={pixel}"}}
    path = tmp_path / "a.vrs"
    path.write_bytes(make_recording(formats, [Made(image.tobytes(), IDS[0])]))
    wanted = {f"{each} of stream {IDS[0]}" for each in listed}
    with RecordingSource(path) as source:
        found = {each for each in source[IDS[0]].left_out if "pixel" in each or "planes" in each}
    assert found == wanted


def test_files_of_pictures_have_red_first(tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="arrays become PNG by Pillow")
    bgr = np.arange(4 * 20, dtype=np.uint8).reshape(4, 20)
    formats = {
        IDS[0]: {"RF:Data:1": "image/raw/6x4/pixel=bgr8/stride=20"},
        IDS[1]: {"RF:Data:1": "image/raw/6x4/pixel=rgb8/stride=20"},
    }
    path = tmp_path / "a.vrs"
    presets = "none", "zfast"
    records = [Made(bgr.tobytes(), id_, preset=name) for id_ in IDS[:2] for name in presets]
    path.write_bytes(make_recording(formats, records))
    expected = bgr[:, :18].reshape(4, 6, 3)
    with RecordingSource(path) as source:
        # Arrays are as the records have them.
        assert (source[IDS[0]][:] == expected).all()
        for id_, colours in zip(IDS, (expected[..., ::-1], expected), strict=False):
            pixels = source[id_].sheet([0], columns=1, width=12).pixels
            assert (pixels == contact_sheet([colours], columns=1, width=12).pixels).all()
    for id_, colours in zip(IDS, (expected[..., ::-1], expected), strict=False):
        with pytest.warns(BloscpackWarning, match="left out"):
            done = bp.convert(f"{path}::/{id_}", tmp_path / id_, to="images")
        assert not any("pixel" in text for text in done.left_out)
        files = sorted((tmp_path / id_).rglob("*.png"))
        assert len(files) == 2
        assert all((image.decode(file.read_bytes()) == colours).all() for file in files)
    pytest.importorskip("simplejpeg", reason="arrays become JPEG by simplejpeg")
    with RecordingSource(path) as source:
        bp.frames.ingest(source, tmp_path / "raw.blp", log=str)
        bp.frames.ingest(source, tmp_path / "jpeg.blp", codec="jpeg", quality=100, log=str)
    with bp.frames.open(tmp_path / "raw.blp") as raw, bp.frames.open(tmp_path / "jpeg.blp") as jpeg:
        assert (raw[IDS[0]][:] == expected).all()
        for id_, colours in zip(IDS, (expected[..., ::-1], expected), strict=False):
            assert abs(jpeg[id_][:].astype(int) - colours).max() < 6


@pytest.mark.parametrize("pixel", ["raw10", "grey10packed"])
@pytest.mark.parametrize("stride", [10, 12])
def test_files_of_pictures_have_unpacked_pixels(tmp_path: Path, pixel: str, stride: int) -> None:
    pytest.importorskip("PIL", reason="arrays become PNG by Pillow")
    stored = np.arange(4 * stride, dtype=np.uint8).reshape(4, stride) * np.uint8(5)
    formats = {IDS[0]: {"RF:Data:1": f"image/raw/6x4/pixel={pixel}/stride={stride}"}}
    path = tmp_path / "a.vrs"
    path.write_bytes(make_recording(formats, [Made(stored.tobytes(), IDS[0])] * 3))
    with vrs.open(path) as recording:
        (block,) = recording[0].blocks
        expected = unpack_ten_bits(block.data, block.spec)
    with RecordingSource(path) as source:
        assert source[IDS[0]].as_pictures()[:].tolist() == [expected.tolist()] * 3
        assert (source[IDS[0]][:] == stored[:, :10]).all()  # the bytes, as in the records
    with pytest.warns(BloscpackWarning, match=f"pixel format {pixel}"):
        bp.convert(path, tmp_path / "all", to="images")
    for file in (tmp_path / "all").rglob("*.png"):
        assert (image.decode(file.read_bytes()) == expected).all()


def test_streams_with_images_are_clips(path: Path) -> None:
    with RecordingSource(path) as source:
        checked: FrameSource = source
        assert list(checked) == list(checked.keys()) == IDS
        assert len(source) == 3
        assert IDS[0] in source
        assert "241-1" not in source
        assert source.name == str(path)
        for id_ in IDS:
            assert (source[id_][:] == STACKS[id_]).all()
            check_clip(source[id_])
        check_source(source)
        assert source[IDS[0]].meta == {"name": "RGB Camera Class", "flavor": "", "tags": {}}
        with pytest.raises(NotFoundError, match="no stream '214-9'"):
            source["214-9"]
        with pytest.raises(NotFoundError, match="241-1 has no images"):
            source["241-1"]


@pytest.mark.parametrize("nthreads", [None, 1, 3])
def test_batches_of_many_streams(path: Path, nthreads: int | None) -> None:
    with RecordingSource(path, nthreads=nthreads) as source:
        requests = [(id_, slice(k, k + 4)) for id_ in IDS for k in (5, 0, 2)]
        expected = np.stack([STACKS[id_][part] for id_, part in requests])
        found = source.read(requests)
        assert isinstance(found, np.ndarray)
        assert (found == expected).all()
        out = np.zeros_like(expected)
        assert source.read(requests, out=out, nthreads=nthreads) is out
        assert (out == expected).all()


def test_a_recording_of_the_caller_stays_open(path: Path) -> None:
    with vrs.open(path) as recording:
        with RecordingSource(recording) as source:
            assert source.recording is recording
        assert len(recording[0].payload)
        assert pickle.loads(pickle.dumps(RecordingSource(recording))).keys() == tuple(IDS)
    with RecordingSource(path) as source:
        clip = source[IDS[0]]
    with pytest.raises(ValueError, match="closed"):
        clip[0]


def test_opened_by_what_it_is(path: Path) -> None:
    for where in (path, str(path), path.read_bytes()):
        with bp.frames.open(where) as source:
            assert isinstance(source, RecordingSource)
            assert (source[IDS[2]][::3] == STACKS[IDS[2]][::3]).all()
    with pytest.raises(ValueError, match="mode must be 'r' for a VRS recording"):
        bp.frames.open(path, "a")


def test_fields_that_are_numbers_are_columns(tmp_path: Path) -> None:
    motion = type("Motion", (vrs.Layout,), {"turn": vrs.Array("float", 3), "note": vrs.String()})
    with vrs.create(tmp_path / "a.vrs") as recording:
        imu = recording.stream("imu")
        imu.define("data", motion)
        for k in (2, 1):
            imu.write("data", k / 4, {"turn": [k, 2, 3]})
    with pictures(tmp_path / "a.vrs") as (found, columns):
        assert list(found) == []
        [(stream, field, times, numbers)] = columns
    assert (stream, field, times.tolist()) == ("241-1", "turn", [0.25, 0.5])
    assert numbers.tolist() == [[1, 2, 3], [2, 2, 3]]


def test_to_another_type_only_its_clips_of_frames_are_copied(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("PIL", reason="pictures are written by Pillow")
    copied = bp.convert(path, tmp_path / "pictures", to="images")
    assert (copied.kind, copied.clips, copied.frames) == ("images", 3, 30)
    assert len(list((tmp_path / "pictures").rglob("*.png"))) == 30


@pytest.mark.parametrize(("preset", "wanted"), [("none", 1), ("fast", 1), ("zfast", 4)])
def test_threads_by_the_compression(
    preset: str, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Zstandard takes four times as long as LZ4, so 10 MB of it are worth several threads."""
    found: list[int] = []
    monkeypatch.delenv("BLOSCPACK_NTHREADS", raising=False)
    monkeypatch.setattr(threads, "available_cpus", lambda: 8)
    monkeypatch.setattr(threads, "in_worker", lambda: False)
    monkeypatch.setattr(batch, "run_indexed", lambda task, indices, count: found.append(count))
    path = tmp_path / "grey.vrs"
    with vrs.create(path, compression=preset) as writer:
        stream = writer.stream("rgb camera")
        stream.define("data", vrs.Image("raw", 640, 480, "grey8"))
        stream.write("data", 0.0, np.full((480, 640), 7, "u1"))
    with vrs.open(path) as recording:
        (camera,) = recording.streams.values()
        camera.frames.read([0])
        camera.frames.read([0] * 34)
    assert found == [1, wanted]
