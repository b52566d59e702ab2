"""Datasets from our writer, read by our reader and by PyAV."""

import functools
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bloscpack import benzina
from bloscpack.benzina.codec.picture import thumbnail, yuv_planes
from bloscpack.exceptions import CodecError, FormatError, UnsupportedError

from . import vectors
from .pictures import decode_frame, noise, photo, planes_of, psnr

TILE = 32
SIZES = [(32, 32), (20, 31), (1, 1), (70, 40), (7, 65), (100, 2), (33, 32)]
PICTURES = [photo(*size, seed=seed) for seed, size in enumerate(SIZES)]
each_codec = pytest.mark.parametrize("codec", ["hevc", "h264", "av1"])


def write(path: Any, *items: Any, **options: Any) -> Any:
    """Write items (picture, target, name) and return the dataset, open."""
    with benzina.Writer(path, **{"tile": TILE, **options}) as writer:
        for item in items:
            writer.add(*item)
    return benzina.open(path)


def shown(sample: Any, track: str) -> list[Any]:
    """Return the planes of a track's picture, decoded by PyAV."""
    found = sample.layout.tracks[track]
    frame = decode_frame(found.config_kind, found.config, sample.read_track(track))
    assert (frame.width, frame.height) == found.frame
    _, _, width, height = found.clean
    planes = planes_of(frame)
    return [planes[0][:height, :width], *planes[1:]]


def pixels(sample: Any, track: str = "bzna_input") -> Any:
    """Return the picture of a lossless track as RGB."""
    found = sample.layout.tracks[track]
    frame = decode_frame(found.config_kind, found.config, sample.read_track(track))
    _, _, width, height = found.clean
    return frame.to_ndarray(format="rgb24")[:height, :width]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("written")
    for codec in ("hevc", "h264", "av1"):
        items = [(rgb, k - 2, f"{k}é.png") for k, rgb in enumerate(PICTURES)]
        write(folder / codec, *items, codec=codec).close()
    return {codec: folder / codec for codec in ("hevc", "h264", "av1")}


@each_codec
def test_our_reader(codec: str, written: dict[str, Path]) -> None:
    with benzina.open(written[codec]) as found:
        assert len(found) == len(PICTURES)
        assert list(found.names) == [f"{k}é.png" for k in range(len(PICTURES))]
        assert found.targets.tolist() == [k - 2 for k in range(len(PICTURES))]
        for rgb, sample in zip(PICTURES, found.samples(), strict=True):
            height, width = rgb.shape[:2]
            tracks = sample.layout.tracks
            assert list(tracks) == ["bzna_input", "bzna_fname", "bzna_target", "bzna_thumb"]
            assert tracks["bzna_input"].clean == (0, 0, width, height)
            assert psnr(shown(sample, "bzna_input")[0], luma(rgb)) > 36
            small = thumbnail(rgb, TILE)
            thumb = rgb if small is None else small
            assert tracks["bzna_thumb"].frame == (TILE, TILE)
            assert tracks["bzna_thumb"].clean == (0, 0, *thumb.shape[1::-1])
            assert psnr(shown(sample, "bzna_thumb")[0], luma(thumb)) > 36
            same = tracks["bzna_input"].offset == tracks["bzna_thumb"].offset
            assert same == (max(width, height) <= TILE)
            assert sample.read_track("bzna_fname") == f"{sample.index}é.png\0".encode()
            expected = (sample.index - 2).to_bytes(8, "little", signed=True)
            assert sample.read_track("bzna_target") == expected


def luma(rgb: Any) -> Any:
    """Return the Y plane of a picture, without padding."""
    height, width = rgb.shape[:2]
    return yuv_planes(rgb, width + width % 2, height + height % 2)[0][:height, :width]


@each_codec
def test_the_thumbnails_are_a_film(codec: str, written: dict[str, Path]) -> None:
    with av.open(str(written[codec])) as container, benzina.open(written[codec]) as found:
        kinds = [stream.type for stream in container.streams]
        assert kinds == ["data", "data", "data", "video"]
        (stream,) = container.streams.video
        assert stream.frames == len(PICTURES)
        assert (stream.width, stream.height, float(stream.average_rate or 0)) == (TILE, TILE, 1)
        frames = list(container.decode(stream))
        assert [float(frame.time or 0) for frame in frames] == list(range(len(PICTURES)))
        for frame, sample in zip(frames, found.samples(), strict=True):
            _, _, width, height = sample.layout.tracks["bzna_thumb"].clean
            expected = shown(sample, "bzna_thumb")[0]
            assert np.array_equal(planes_of(frame)[0][:height, :width], expected)


@each_codec
def test_metadata_are_packets(codec: str, written: dict[str, Path]) -> None:
    packets: dict[int, list[bytes]] = {}
    with av.open(str(written[codec])) as container:
        names = [stream.metadata["handler_name"] for stream in container.streams]
        for packet in container.demux(list(container.streams)[:3]):
            packets.setdefault(packet.stream.index, []).append(bytes(packet))
    assert names == ["bzna_input", "bzna_target", "bzna_fname", "bzna_thumb"]
    with benzina.open(written[codec]) as found:
        assert [data for data in packets[0] if data] == [s.data for s in found.samples()]
    targets = [int.from_bytes(data, "little", signed=True) for data in packets[1] if data]
    assert targets == [k - 2 for k in range(len(PICTURES))]
    assert [data.decode() for data in packets[2] if data] == [
        f"{k}é.png\0" for k in range(len(PICTURES))
    ]


@each_codec
def test_each_sample_is_a_file(codec: str, written: dict[str, Path]) -> None:
    with benzina.open(written[codec]) as found:
        for sample in found.samples():
            for track in ("bzna_input", "bzna_thumb"):
                with av.open(io.BytesIO(sample.data)) as container:
                    (stream,) = [
                        stream
                        for stream in container.streams.video
                        if stream.metadata["handler_name"] == track
                    ]
                    (frame,) = container.decode(stream)
                    assert np.array_equal(planes_of(frame)[1], shown(sample, track)[1])


@pytest.mark.parametrize("codec", ["hevc", "h264"])
def test_lossless(codec: str, tmp_path: Path) -> None:
    pictures = [noise(*size, seed=3) for size in [*SIZES, (2000, 3)]]
    items = [(rgb,) for rgb in pictures]
    with write(tmp_path / "a.bzna", *items, codec=codec, lossless=True) as found:
        for rgb, sample in zip(pictures, found.samples(), strict=True):
            small = thumbnail(rgb, TILE)
            thumb = rgb if small is None else small
            for track, expected in (("bzna_input", rgb), ("bzna_thumb", thumb)):
                assert np.array_equal(pixels(sample, track), expected)
                assert np.array_equal(sample.decode(track), expected)


@each_codec
def test_colours(codec: str, tmp_path: Path) -> None:
    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (250, 200, 20), (9, 9, 9), (255, 255, 255)]
    flat = [np.full((21, 35, 3), colour, "u1") for colour in colours]
    with write(tmp_path / "a.bzna", *[(rgb,) for rgb in flat], codec=codec) as found:
        for rgb, sample in zip(flat, found.samples(), strict=True):
            for track in ("bzna_input", "bzna_thumb"):
                shown = sample.decode(track)
                assert np.abs(shown.astype(int) - rgb[: shown.shape[0], : shown.shape[1]]).max() < 4


@settings(max_examples=20)
@given(st.integers(1, 70), st.integers(1, 70), st.sampled_from([16, 32, 48]))
def test_any_size_without_loss(width: int, height: int, tile: int) -> None:
    rgb = noise(width, height, width * 99 + height)
    stream = io.BytesIO()
    with benzina.Writer(stream, lossless=True, preset="ultrafast", tile=tile) as writer:
        writer.add(rgb)
    with benzina.open(stream.getvalue()) as found:
        track = found[0].layout.tracks["bzna_input"]
        assert track.frame == (-(-width // tile) * tile, -(-height // tile) * tile)
        assert np.array_equal(pixels(found[0]), rgb)


NAMES = st.one_of(
    st.none(),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
    st.binary(max_size=20).filter(lambda name: b"\0" not in name),
)
TARGETS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))


@given(st.lists(st.tuples(TARGETS, NAMES), max_size=6))
def test_any_targets_and_names(items: list[tuple[int | None, str | bytes | None]]) -> None:
    stream, sample = io.BytesIO(), small_sample()
    with benzina.Writer(stream, tile=16) as writer:
        for target, name in items:
            writer.add_encoded(sample, target, name)
    with benzina.open(stream.getvalue()) as found:
        assert len(found) == len(items)
        expected = [-1 if target is None else target for target, _ in items]
        assert found.targets.tolist() == expected
        assert ("bzna_target" in found.tracks) == any(t is not None for t, _ in items)
        has_names = any(name is not None for _, name in items)
        assert ("bzna_fname" in found.tracks) == has_names
        for (_, name), read in zip(items, found.samples(), strict=True):
            stored = name.encode() if isinstance(name, str) else name or b""
            assert read.name_bytes == (stored if has_names else None)
            assert read.data == sample


@functools.cache
def small_sample() -> bytes:
    writer = benzina.Writer(io.BytesIO(), tile=16)
    writer.abort()
    return writer.encode(photo(9, 9))


@each_codec
def test_no_samples(codec: str) -> None:
    stream = io.BytesIO()
    with write(stream, codec=codec):
        pass
    data = stream.getvalue()
    with benzina.open(data) as found:
        assert (len(found), list(found.tracks), found.targets.tolist()) == (0, ["bzna_input"], [])
    with av.open(io.BytesIO(data)) as container:
        assert [stream.frames for stream in container.streams] == [0]


def test_without_thumbnails(tmp_path: Path) -> None:
    with write(tmp_path / "a.bzna", (PICTURES[0],), (PICTURES[3],), thumb=False) as found:
        for sample in found.samples():
            tracks = sample.layout.tracks
            assert tracks["bzna_thumb"][1:] == tracks["bzna_input"][1:]
        # Frames of two sizes cannot be one film.
        assert "bzna_thumb" not in found.tracks
    with write(tmp_path / "b.bzna", (PICTURES[0],), (PICTURES[1],), thumb=False) as found:
        assert len(found.tracks["bzna_thumb"]) == 2


def test_samples_of_other_datasets(tmp_path: Path, written: dict[str, Path]) -> None:
    with benzina.open(written["hevc"]) as one, benzina.open(written["av1"]) as other:
        for sources, has_film in (([one], True), ([one, other], False)):
            with benzina.Writer(tmp_path / "a.bzna", overwrite=True) as writer:
                for source in sources:
                    for sample in source.samples():
                        writer.add_encoded(sample.data, sample.target, sample.name_bytes)
            with benzina.open(tmp_path / "a.bzna") as found:
                expected = [sample.data for source in sources for sample in source.samples()]
                assert [sample.data for sample in found.samples()] == expected
                assert ("bzna_thumb" in found.tracks) == has_film
        # The same dataset again, byte by byte.
        with benzina.Writer(tmp_path / "b.bzna") as writer:
            for sample in one.samples():
                writer.add_encoded(memoryview(sample.data), sample.target, sample.name)
        assert (tmp_path / "b.bzna").read_bytes() == written["hevc"].read_bytes()


def test_samples_of_the_reference(tmp_path: Path) -> None:
    data = vectors.data("tail8.bzna")
    with benzina.open(data) as source, benzina.Writer(tmp_path / "a.bzna") as writer:
        for sample in source.samples():
            target = sample.target if sample.index < 5 else None
            writer.add_encoded(sample.data, target, sample.name_bytes)
        expected = [(s.data, s.target, s.name) for s in source.samples()]
    with benzina.open(tmp_path / "a.bzna") as found:
        assert [(s.data, s.target, s.name) for s in found.samples()] == expected
        assert len(found.tracks["bzna_target"]) == len(expected)  # five in the source


def test_invalid_samples(tmp_path: Path, written: dict[str, Path]) -> None:
    with benzina.open(written["hevc"]) as source:
        good = source[0].data
    with benzina.Writer(tmp_path / "a.bzna", tile=TILE) as writer:
        for bad, message in [
            (b"", "no box 'moov'"),
            (good[:-1], "exceeds"),
            (good.replace(b"bzna_input", b"bzna_other"), "no track 'bzna_input'"),
        ]:
            with pytest.raises(FormatError, match=message):
                writer.add_encoded(bad)
        without = good.replace(b"bzna_thumb", b"some_thumb")
        writer.add_encoded(good)
        writer.add_encoded(without)
        writer.add(photo(5, 5))
    with benzina.open(tmp_path / "a.bzna") as found:
        assert len(found) == 3
        assert (found[0].data, found[1].data) == (good, without)
        assert "bzna_thumb" not in found.tracks


def test_splits(tmp_path: Path) -> None:
    splits = {"train": (0, 2), "é": slice(2, None), "none": range(0)}
    with write(tmp_path / "a.bzna", *[(rgb,) for rgb in PICTURES[:3]], splits=splits) as found:
        assert {name: len(found.split(name)) for name in splits} == {"train": 2, "é": 1, "none": 0}
        assert found.split("é")[0].data == found[2].data
    with av.open(str(tmp_path / "a.bzna")) as container:
        assert len(list(container.decode(video=0))) == 3
    with pytest.raises(ValueError, match=r"'train': .* is not within 1 samples"):
        write(tmp_path / "b.bzna", (PICTURES[0],), splits={"train": (0, 2)})
    with pytest.raises(ValueError, match="has no step"):
        benzina.Writer(tmp_path / "b.bzna", splits={"train": slice(0, 4, 2)})
    assert [path.name for path in tmp_path.iterdir()] == ["a.bzna"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"name": "a\0b"}, ValueError, "contains NUL"),
        ({"name": b"a\0"}, ValueError, "contains NUL"),
        ({"name": "\ud800"}, ValueError, "UTF-8"),
        ({"name": 7}, TypeError, "a name must be"),
        ({"target": 2**63}, ValueError, "64 bits"),
        ({"target": -(2**63) - 1}, ValueError, "64 bits"),
        ({"target": 0.5}, TypeError, "a target must be"),
        ({"target": "1"}, TypeError, "a target must be"),
        ({"picture": b"no picture"}, CodecError, "cannot identify"),
        ({"picture": "/nowhere.png"}, FileNotFoundError, "nowhere"),
        ({"picture": np.zeros((2, 2))}, ValueError, "float64"),
        ({"picture": np.zeros((33, 33), "u1")}, UnsupportedError, "more than 1024 pixels"),
        ({"picture": np.zeros((1, 65), "u1")}, UnsupportedError, "frame of 96x32"),
    ],
    ids=range(13),
)
def test_a_bad_picture_leaves_the_writer_as_it_was(
    arguments: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    with benzina.Writer(tmp_path / "a.bzna", tile=TILE, max_pixels=TILE * TILE) as writer:
        assert writer.add(PICTURES[0], np.int64(3), "first") == 0
        with pytest.raises(error, match=message):
            writer.add(**{"picture": PICTURES[1], **arguments})
        assert writer.add(PICTURES[1], np.array(4, "u1"), "second") == 1
        assert len(writer) == 2
    with benzina.open(tmp_path / "a.bzna") as found:
        assert (list(found.names), found.targets.tolist()) == (["first", "second"], [3, 4])


def test_names_of_files_that_are_not_text(tmp_path: Path) -> None:
    with write(tmp_path / "a.bzna", (PICTURES[0], 1, "a\udcff")) as found:
        assert (found[0].name_bytes, found[0].name) == (b"a\xff", "a\\xff")


def test_a_frame_that_is_too_wide(tmp_path: Path) -> None:
    wide = np.zeros((1, 65537), "u1")
    message = "65537x1 needs a frame of 65552x16"
    with (
        benzina.Writer(tmp_path / "a.bzna", tile=16) as writer,
        pytest.raises(UnsupportedError, match=message),
    ):
        writer.add(wide)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tile": 8}, "tile 8: a multiple of 16"),
        ({"tile": 40}, "tile 40"),
        ({"tile": 64, "max_pixels": 4095}, "at most 4095"),
        ({"codec": "vp9"}, "codec .*'vp9'"),
        ({"profile": "other"}, "profile must be"),
        ({"profile": "reference", "codec": "av1"}, "not 'av1' and 512"),
        ({"profile": "reference", "tile": 256}, "not 'hevc' and 256"),
        ({"profile": "reference", "lossless": True}, "leave out lossless"),
        ({"profile": "reference", "thumb": False}, "leave out lossless"),
        ({"profile": "reference", "splits": {}}, "leave out lossless"),
    ],
    ids=range(10),
)
def test_options_out_of_range(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        benzina.Writer(tmp_path / "a.bzna", **options)
    assert not list(tmp_path.iterdir())


def test_a_file_that_exists(tmp_path: Path) -> None:
    path = tmp_path / "a.bzna"
    path.write_text("old")
    with pytest.raises(FileExistsError, match="pass overwrite=True"):
        benzina.Writer(path)
    with benzina.Writer(path, overwrite=True) as writer:
        writer.add(photo(5, 5))
        assert path.read_text() == "old"
    assert len(benzina.open(path)) == 1


def test_what_an_exception_leaves(tmp_path: Path) -> None:
    path = tmp_path / "a.bzna"
    path.write_text("old")

    def stop() -> None:
        with benzina.Writer(path, overwrite=True, tile=TILE) as writer:
            writer.add(photo(5, 5))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    writer = benzina.Writer(path, overwrite=True, tile=TILE)
    writer.add(photo(5, 5))
    assert len(list(tmp_path.iterdir())) == 2
    writer.abort()
    writer.abort()
    writer.close()
    for add in (writer.add, writer.add_encoded):
        with pytest.raises(ValueError, match="closed"):
            add(b"")
    forgotten = [benzina.Writer(path, overwrite=True)]
    with pytest.warns(ResourceWarning, match="never closed"):
        forgotten.clear()
    assert [(found.name, found.read_text()) for found in tmp_path.iterdir()] == [("a.bzna", "old")]


def test_adding_from_many_threads(tmp_path: Path) -> None:
    with benzina.Writer(tmp_path / "a.bzna", tile=16) as writer, ThreadPoolExecutor(4) as pool:
        samples = [writer.encode(photo(8, 8, seed)) for seed in range(40)]

        def add(number: int) -> int:
            return writer.add_encoded(samples[number], number, str(number))

        ordinals = list(pool.map(add, range(40)))
    with benzina.open(tmp_path / "a.bzna") as found:
        assert sorted(ordinals) == list(range(40))
        for number, ordinal in enumerate(ordinals):
            sample = found[ordinal]
            assert (sample.data, sample.target) == (samples[number], number)
            assert sample.name == str(number)
