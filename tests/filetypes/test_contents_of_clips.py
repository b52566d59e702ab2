"""Contents of clips beside frames are carried or listed; lossless is bit for bit."""

import io
import json
import struct
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack import benzina
from bloscpack.exceptions import FormatError, UnsupportedError
from bloscpack.exchange import images
from bloscpack.frames.store.videoclip import VideoClip
from bloscpack.media import image
from bloscpack.vrs.format.format import RecordType

from ..conftest import SMALL_FORMATS
from ..vrs.recordings import Made, make_recording

Image = pytest.importorskip("PIL.Image")
pytest.importorskip("bloscpack.gulp", reason="it was deleted")

pytestmark = pytest.mark.filterwarnings("ignore::bloscpack.exceptions.BloscpackWarning")

PIXELS = np.random.default_rng(5).integers(0, 256, (3, 8, 10, 3)).astype("u1")


def jpeg(orientation: int = 1) -> bytes:
    exif, stream = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(PIXELS[0]).save(stream, "JPEG", exif=exif)
    return stream.getvalue()


def store_of(path: Path, clips: dict[str, Any], meta: Any = None, **attrs: Any) -> Path:
    with bp.frames.create(path, attrs=attrs) as store:
        for id_, frames in clips.items():
            store.append(id_, frames, (meta or {}).get(id_))
    return path


def left_out(source: Any, target: Path, **options: Any) -> set[str]:
    """Return what a copy lacks, after strict has refused it and left nothing."""
    found = bp.convert(source, target, **options).left_out
    if found:
        other = target.with_name(f"strict-{target.name}")
        with pytest.raises(UnsupportedError, match="strict: "):
            bp.convert(source, other, strict=True, **options)
        assert not other.exists()
    return set(found)


def test_orientation_is_that_of_the_reader_of_the_source(tmp_path: Path) -> None:
    """GulpIO2 shows images as they are stored; stores and pictures turn them by EXIF data."""
    source = store_of(tmp_path / "a.blp", {"x": [jpeg(6)], "y": [jpeg()]})
    listed = "orientation of clip 'x', whose images the reader of the copy {}".format
    done = bp.convert(source, tmp_path / "gulped", to="gulp")
    assert (done.lossless, done.left_out) == (False, (listed("does not turn upright"),))
    again = bp.convert(tmp_path / "gulped", tmp_path / "gulped-2", to="gulp", strict=True)
    assert again.lossless
    with bp.frames.open(tmp_path / "gulped") as gulp:
        expected = gulp["x"][...]
        assert expected.shape == (1, 8, 10, 3)
    for name, options in (("b.blp", {}), ("b.tar", {}), ("b", {"to": "images"})):
        done = bp.convert(tmp_path / "gulped", tmp_path / name, **options)
        assert (done.lossless, done.images) == (False, 2)
        assert listed("turns upright") in done.left_out
    # Decoded frames are those of the source.
    assert bp.convert(f"{tmp_path}/gulped::/x", tmp_path / "x.npy").lossless
    assert np.array_equal(np.load(tmp_path / "x.npy"), expected)
    assert bp.convert(tmp_path / "gulped", tmp_path / "c.bzna", tile=16).lossless
    with benzina.open(tmp_path / "c.bzna") as dataset:
        assert np.array_equal(dataset["x"][...], expected)


def test_png_that_becomes_jpeg(tmp_path: Path) -> None:
    info, stream = pytest.importorskip("PIL.PngImagePlugin").PngInfo(), io.BytesIO()
    info.add_text("Title", "a walk")
    Image.fromarray(PIXELS[0]).save(stream, "PNG", pnginfo=info)
    source = store_of(tmp_path / "a.blp", {"x": [stream.getvalue()]})
    done = bp.convert(source, tmp_path / "gulped", to="gulp", quality=90)
    assert (done.lossless, done.left_out) == (False, ("metadata 'Title' of a picture",))


def test_other_contents_of_a_gulp_directory(tmp_path: Path) -> None:
    source = store_of(tmp_path / "a.blp", {"x": [jpeg()]}, label2idx={"a": 1})
    bp.convert(source, tmp_path / "gulped", strict=True)
    (tmp_path / "gulped" / "opts.json").write_text("{}")
    meta = tmp_path / "gulped" / "meta_0.gmeta"
    entries = json.loads(meta.read_text())
    entries["x"]["more"] = 5
    meta.write_text(json.dumps(entries))
    expected = {"file 'opts.json'", "entry 'more' of clip 'x'"}
    assert left_out(tmp_path / "gulped", tmp_path / "b.blp") == expected
    clip = f"{tmp_path}/gulped::/x"
    assert left_out(clip, tmp_path / "x.blp") == {"entry 'more' of clip 'x'"}
    assert "entry 'more' of clip 'x'" in left_out(clip, tmp_path / "x.npy")
    entries["x"]["meta_data"] = {"label": 1}
    meta.write_text(json.dumps(entries))
    expected.add("entry 'meta_data' of clip 'x'")
    assert left_out(tmp_path / "gulped", tmp_path / "list.blp") == expected
    assert left_out(tmp_path / "gulped", tmp_path / "list", to="gulp") == expected
    (tmp_path / "gulped" / "label2idx.json").write_text("{")
    expected.add("file 'label2idx.json'")
    assert left_out(tmp_path / "gulped", tmp_path / "c.blp") == expected


def test_errors_name_the_clip(tmp_path: Path) -> None:
    bp.convert(store_of(tmp_path / "a.blp", {"x": [jpeg()]}), tmp_path / "gulped", to="gulp")
    data = tmp_path / "gulped" / "data_0.gulp"
    data.write_bytes(bytes(data.stat().st_size))
    with pytest.raises(FormatError, match="gulped: clip 'x': neither a JPEG nor a PNG"):
        bp.convert(tmp_path / "gulped", tmp_path / "b.blp")
    (tmp_path / "c").mkdir()
    deep = np.arange(80, dtype="u2").reshape(8, 10)
    with tarfile.open(tmp_path / "c.tar", "w") as archive:
        for number, pixels in enumerate((PIXELS[0, ..., 0], deep)):
            (tmp_path / "c" / "c.png").write_bytes(image.encode_png(pixels))
            archive.add(tmp_path / "c" / "c.png", f"walk.{number}.png")
    with pytest.raises(ValueError, match="clip 'walk': frame 1 is uint16, those before uint8"):
        bp.convert(tmp_path / "c.tar", tmp_path / "c.blp")


def test_datasets(tmp_path: Path) -> None:
    with benzina.Writer(tmp_path / "a.bzna", lossless=True, tile=16) as writer:
        writer.add(PIXELS[0], name=b"\xff")
        writer.add(PIXELS[1], name="same")
        writer.add(PIXELS[2], name="same")
    listed = "bytes of the name of sample 0, which is not text"
    assert left_out(tmp_path / "a.bzna", tmp_path / "b.blp") == {listed}
    with benzina.open(tmp_path / "a.bzna") as dataset:
        bad, good = (f"{tmp_path}/a.bzna::/{id_}" for id_ in list(dataset)[:2])
    assert left_out(bad, tmp_path / "bad.blp") == {listed}
    assert left_out(good, tmp_path / "good.blp") == set()
    assert left_out(tmp_path / "b.blp", tmp_path / "c.bzna", tile=16) == set()
    assert left_out(tmp_path / "a.bzna", tmp_path / "d.bzna") == set()
    clips = {"x": PIXELS[:1], "walk": PIXELS, "gray": PIXELS[:1, ..., :1], "odd": PIXELS[:1]}
    meta = {"x": {"name": "other"}, "odd": {"name": 5}}
    source = store_of(tmp_path / "e.blp", clips, meta)
    assert left_out(source, tmp_path / "e.bzna", tile=16) == {
        "id of clip 'x', which is named 'other'",
        "shape (8, 10, 1) of the frames of clip 'gray'",
        "attribute 'name' of clip 'odd'",
    }
    with benzina.open(tmp_path / "e.bzna") as dataset:
        assert dataset.names[-1] == "odd"
    # Colours that are stored as YUV are converted to RGB.
    with benzina.Writer(tmp_path / "lossy.bzna", crf=10, tile=16) as writer:
        writer.add(PIXELS[0], name="x")
    for target in ("lossy.blp", "lossy.npy"):
        assert not bp.convert(tmp_path / "lossy.bzna", tmp_path / target).lossless
        assert bp.convert(f"{tmp_path}/a.bzna::/same#1", tmp_path / f"a-{target}").lossless


@pytest.mark.parametrize(
    ("mode", "listed"),
    [
        ("RGBA", "transparency of a picture"),
        ("LA", "transparency of a picture"),
        ("I;16", "depth of a picture, of which 8 bits are kept"),
        ("CMYK", "colours of a picture, which are CMYK"),
        ("RGB", ""),
    ],
)
def test_pictures_that_a_dataset_changes(mode: str, listed: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    Image.new(mode, (8, 8)).save(tmp_path / "folder" / "a.tif")
    (tmp_path / "folder" / "notes.txt").write_text("")
    report = benzina.pack(tmp_path / "folder", tmp_path / "a.bzna", lossless=True, tile=16)
    assert report.lossless is not bool(listed)
    assert (listed in report.left_out) is bool(listed)
    assert report.left_out[0] == "file 'notes.txt'"
    done = bp.convert(tmp_path / "folder", tmp_path / "b.bzna", tile=16)
    assert (done.lossless, done.left_out) == (report.lossless, report.left_out)
    data = (tmp_path / "folder" / "a.tif").read_bytes()
    with Image.open(tmp_path / "folder" / "a.tif") as opened:
        for given in (data, bytearray(data), memoryview(data), opened, Image.new(mode, (8, 8))):
            report = benzina.pack([given], tmp_path / "c.bzna", lossless=True, overwrite=True)
            assert (report.lossless, listed in report.left_out) == (not listed, bool(listed))


def test_a_picture_of_16_bits_that_pillow_reads_as_8(tmp_path: Path) -> None:
    def chunk(name: bytes, data: bytes) -> bytes:
        crc = struct.pack(">I", zlib.crc32(name + data))
        return struct.pack(">I", len(data)) + name + data + crc

    head = struct.pack(">IIBBBBB", 5, 4, 16, 2, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(range(30)) for _ in range(4)))
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    report = benzina.pack([png], tmp_path / "a.bzna", lossless=True, tile=16)
    assert not report.lossless
    assert report.left_out == ("depth of a picture, of which 8 bits are kept",)


def test_a_store_that_differs_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = store_of(tmp_path / "a.blp", {"x": PIXELS}, {"x": {"k": 1}})
    changes: dict[str, Any] = {
        "the ids of the clips": lambda id_, frames, meta: ("other", frames, meta),
        "the metadata": lambda id_, frames, meta: (id_, frames, {}),
        "the frames": lambda id_, frames, meta: (id_, np.concatenate([frames, frames]), meta),
        "the pixels of frame 0": lambda id_, frames, meta: (id_, frames.view("i1"), meta),
        "the pixels of frame 2": lambda id_, frames, meta: (id_, frames[[0, 1, 1]], meta),
    }
    for what, change in changes.items():

        def append(store: Any, id_: str, clip: Any, meta: Any, change: Any = change) -> None:
            store.append(*change(id_, clip[...], meta))

        monkeypatch.setattr(bp.frames.FrameStore, "_append_clip", append)
        with pytest.raises(FormatError, match=f"differs from its source .*{what}$"):
            bp.convert(source, tmp_path / "b.blp")
        assert not (tmp_path / "b.blp").exists()


def test_gray_of_three_axes_and_other_byte_orders_as_pictures(tmp_path: Path) -> None:
    deep = np.arange(60, dtype=">u2").reshape(3, 4, 5)
    source = store_of(tmp_path / "a.blp", {"gray": PIXELS[..., :1], "deep": deep})
    expected = {"shape (8, 10, 1) of the frames of clip 'gray'"}
    assert left_out(source, tmp_path / "out", to="images") == expected


def test_rates_of_videos(tmp_path: Path) -> None:
    pytest.importorskip("av")
    for rate, lost in ((25, ""), (3, "gif"), (2000, "gif mp4"), ("fast", "gif mp4")):
        source = store_of(tmp_path / f"{rate}.blp", {"x": PIXELS}, {"x": {"fps": rate}})
        for kind in ("gif", "mp4"):
            expected = {"attribute 'fps' of clip 'x'"} if kind in lost else set()
            assert left_out(source, tmp_path / f"{rate}.{kind}") == expected


RECORDING = SMALL_FORMATS / "recording.vrs"
OF_STREAM = {
    "times of the frames of stream 214-1",
    "1 configuration records of stream 214-1",
    "block 0 of stream 214-1, version 1: data_layout",
    "serial number of stream 214-1",
}
OF_FILE = {
    "tag 'made' of the file",
    "stream 101-1, with 6 records",
    "stream 241-1, with 6 records",
}


def test_recordings(tmp_path: Path) -> None:
    assert left_out(f"{RECORDING}::/214-1", tmp_path / "a.blp") == OF_STREAM
    attrs = {f"attribute {key!r} of the array" for key in ("name", "flavor", "tags")}
    assert left_out(f"{RECORDING}::/214-1", tmp_path / "a.npy") == OF_STREAM | attrs
    found = left_out(RECORDING, tmp_path / "a", to="images")
    assert found >= OF_FILE | OF_STREAM
    assert len(found) == len(OF_FILE) + len(OF_STREAM) + 3  # and of another stream
    # A store holds all records and tags, and with verbatim all bytes.
    assert left_out(RECORDING, tmp_path / "b.blp") == set()
    split = SMALL_FORMATS / "recording_split.vrs"
    assert left_out(split, tmp_path / "c.blp") == {"division into 5 files"}
    assert left_out(split, tmp_path / "d.blp", verbatim=True) == set()
    (tmp_path / "junk.vrs").write_bytes(RECORDING.read_bytes() + b"junk")
    (junk,) = left_out(tmp_path / "junk.vrs", tmp_path / "e.blp")
    assert junk.endswith("are not a record: bytes after the last record")
    with bp.frames.open(tmp_path / "b.blp", "a") as store:
        store.append("extra", PIXELS)
    assert left_out(tmp_path / "b.blp", tmp_path / "b.vrs") == {"clip 'extra'"}
    refused: list[dict[str, Any]] = [{"chunks": 3}, {"crf": 20}, {"quality": 90}]
    for options in refused:
        with pytest.raises(ValueError, match=r"is for .*, not of a VRS recording"):
            bp.convert(RECORDING, tmp_path / "x.blp", **options)


def test_records_of_a_stream_beside_its_images(tmp_path: Path) -> None:
    """Each type of record is counted, and records of a version without images."""
    formats = {"RF:Data:1": "image/raw/3x2/pixel=grey8", "RF:Data:2": "custom/size=4"}
    kinds = [RecordType.CONFIGURATION, *[RecordType.STATE] * 2]
    records = [
        *(Made(b"abcd", record_type=kind, version=2) for kind in kinds),
        *(Made(bytes(6)) for _ in range(4)),
        *(Made(b"abcd", version=2) for _ in range(3)),
    ]
    (tmp_path / "a.vrs").write_bytes(make_recording({"1201-1": formats}, records))
    assert left_out(f"{tmp_path}/a.vrs::/1201-1", tmp_path / "a.npy") >= {
        "times of the frames of stream 1201-1",
        "1 configuration records of stream 1201-1",
        "2 state records of stream 1201-1",
        "3 data records without images of stream 1201-1",
    }
    assert left_out(tmp_path / "a.vrs", tmp_path / "a.blp") == set()


def test_other_tracks_of_a_dataset(tmp_path: Path) -> None:
    """They have a name of ours or any other; both are of all samples and of each."""
    with benzina.Writer(tmp_path / "a.bzna", lossless=True, tile=16) as writer:
        writer.add(PIXELS[0], name="x", target=3)
    data = (tmp_path / "a.bzna").read_bytes()
    assert data.count(b"bzna_target") == 2  # in the sample, and of the file
    for name in ("bzna_depth_", "other_track"):
        path = tmp_path / f"{name}.bzna"
        head, _, tail = data.rpartition(b"bzna_target")
        path.write_bytes(head + name.encode() + tail)
        for source in (path, f"{path}::/x"):
            expected = {f"track {name!r}"}
            assert left_out(source, tmp_path / f"{name}.blp", overwrite=True) == expected
        assert left_out(path, tmp_path / f"{name}-copy.bzna") == {f"track {name!r}"}
    at = data.rindex(b"moov") - 4
    size = int.from_bytes(data[at : at + 4], "big")
    assert at + size == len(data)
    many = tmp_path / "many.bzna"
    many.write_bytes(data[:at] + (size + 8 * 70).to_bytes(4, "big") + data[at + 4 :])
    with many.open("ab") as file:
        file.write(b"\0\0\0\x08trak" * 70)
    assert left_out(many, tmp_path / "many.blp") == {"track ''", "6 more tracks"}


def test_pictures_that_differ_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of pictures is compared with its source: images as bytes, arrays as pixels."""
    clips = {"arrays": PIXELS, "images": [jpeg(), jpeg(3)]}
    source = store_of(tmp_path / "a.blp", clips)
    encode = images._encode
    for id_, number in (("arrays", 2), ("images", 1)):

        def changed(frame: Any, id_: str = id_, number: int = number) -> Any:
            found, file = encode(frame)
            if (frame.clip.id, frame.number) == (id_, number):
                file = file._replace(content=encode(frame._replace(read=other))[1].content)
            return found, file

        def other(id_: str = id_) -> Any:
            return clips[id_][0]

        monkeypatch.setattr(images, "_encode", changed)
        with pytest.raises(FormatError, match=f"differs .* clip '{id_}': frame {number}$"):
            bp.convert(source, tmp_path / "out", to="images")
        assert not (tmp_path / "out").exists()
        bp.convert(source, tmp_path / f"unchecked-{id_}", to="images", verify=False)


@pytest.mark.parametrize(("count", "what"), [(3, "other frames from 0 on"), (2, "instead of")])
def test_packets_that_differ_are_removed(
    count: int, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("av")
    with bp.frames.create(tmp_path / "a.blp") as store:
        store.append("x", np.repeat(PIXELS[:1], 3, axis=0), codec="video")
    source = store_of(tmp_path / "b.blp", {"y": PIXELS[1:2].repeat(count, axis=0)})
    bp.convert(source, tmp_path / "b.mp4")
    other = (tmp_path / "b.mp4").read_bytes()

    def write(clip: Any, path: str, **_: Any) -> None:
        Path(path).write_bytes(other)

    monkeypatch.setattr(VideoClip, "to_mp4", write)
    with pytest.raises(FormatError, match=f"differs from its source .*{what}"):
        bp.convert(tmp_path / "a.blp", tmp_path / "a.mp4")
    assert not (tmp_path / "a.mp4").exists()
