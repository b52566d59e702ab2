"""Frames that are decoded on a device: the same path with ``device="cpu"``, against plain reads.

torchcodec is used where it is installed, and a stand-in with its interface everywhere. CUDA itself
has not been tested.
"""

import io
import sys
from fractions import Fraction
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("av", reason="needs PyAV")
pytest.importorskip("simplejpeg", reason="needs simplejpeg")

import av
import simplejpeg
import torch
from torch.utils.data import DataLoader

import bloscpack as bp
from bloscpack.exceptions import ChecksumMismatch, CodecError
from bloscpack.integrations.torch import FrameDataset, FrameLoader, collate_clips, read_frames
from bloscpack.integrations.training.devicedecoder import VideoGroup
from bloscpack.media.image import encode_jpeg

from ..videofiles import MATRICES, moving, set_matrix, write_video

FRAMES = moving(16, 32, 48)
GOP = "keyint=8:min-keyint=8:scenecut=0:threads=1"
# Two decoders may round and scale chroma differently.
LEAST_PSNR = 38.0


class Decoder:
    """Stand-in for torchcodec's `VideoDecoder`, by PyAV."""

    files: ClassVar[list[bytes]] = []

    def __init__(self, source: bytes, *, dimension_order: str, device: Any) -> None:
        assert (type(source), dimension_order) == (bytes, "NHWC")
        self.files.append(source)
        with av.open(io.BytesIO(source)) as file:
            frames = [each.to_ndarray(format="rgb24") for each in file.decode(video=0)]
        self._frames = torch.from_numpy(np.stack(frames)).to(device)
        self.metadata = SimpleNamespace(width=frames[0].shape[1], height=frames[0].shape[0])

    def get_frames_at(self, indices: list[int]) -> Any:
        return SimpleNamespace(data=self._frames[indices])


def decode_jpeg(files: list[Any], *, mode: str, device: Any) -> list[Any]:
    """Do what torchvision does, by simplejpeg."""
    assert mode == "UNCHANGED"
    found = []
    for file in files:
        data = file.numpy().tobytes()
        space = simplejpeg.decode_jpeg_header(data)[2]
        pixels = simplejpeg.decode_jpeg(data, "GRAY" if space == "Gray" else "RGB")
        found.append(torch.from_numpy(pixels).permute(2, 0, 1).to(device))
    return found


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = SimpleNamespace(UNCHANGED="UNCHANGED")
    decoders: Any = ModuleType("torchcodec.decoders")
    decoders.VideoDecoder = Decoder
    vision: Any = ModuleType("torchvision")
    vision.io = SimpleNamespace(decode_jpeg=decode_jpeg, ImageReadMode=modes)
    monkeypatch.setitem(sys.modules, "torchcodec", ModuleType("torchcodec"))
    monkeypatch.setitem(sys.modules, "torchcodec.decoders", decoders)
    monkeypatch.setitem(sys.modules, "torchvision", vision)
    monkeypatch.setattr(Decoder, "files", [])


def video(
    folder: Path,
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    params: str = "",
    matrix: str = "none",
    number: int = 0,
) -> Path:
    path = folder / f"{number}.mp4"
    frames = np.roll(FRAMES, 3 * number, axis=2)
    write_video(path, frames, codec=codec, options=options or {"x264-params": GOP + params})
    set_matrix(path, matrix)
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Write clips of video, JPEG, gray JPEG, PNG, raw and lossless frames."""
    path = tmp_path / "mixed.blp"
    gray = [encode_jpeg(frame[..., 0]) for frame in FRAMES]
    color = [encode_jpeg(frame, subsampling="420") for frame in FRAMES]
    with bp.frames.create(path) as store:
        store.append_video("video", video(tmp_path))
        store.append("gray", gray)
        store.append("color", color)
        store.append("lossless", FRAMES)
        store.append("floats", FRAMES[..., 0].astype("f4"))
    return path


def psnr(one: Any, other: Any) -> float:
    error = np.mean((np.asarray(one, float) - np.asarray(other, float)) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else np.inf


@pytest.fixture(params=["stand-in", "torchcodec"])
def decoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torchcodec":
        for name in ("torchcodec", "torchcodec.decoders"):
            monkeypatch.delitem(sys.modules, name)
        try:
            import torchcodec.decoders  # noqa: F401
        except (ImportError, OSError, RuntimeError) as err:
            pytest.skip(f"no torchcodec: {err!s:.99}")


@pytest.mark.usefixtures("decoder")
class TestVideo:
    @pytest.mark.parametrize("matrix", MATRICES)
    def test_frames_are_upright(self, matrix: str, tmp_path: Path) -> None:
        self.same(tmp_path, matrix=matrix)

    @pytest.mark.parametrize(
        "colours",
        [
            "colormatrix=bt709:range=tv",
            "colormatrix=bt709:range=pc",
            "colormatrix=smpte170m:range=tv",
            "colormatrix=smpte170m:range=pc",
            "bframes=0",
        ],
    )
    def test_colours(self, colours: str, tmp_path: Path) -> None:
        self.same(tmp_path, params=f":{colours}")

    @pytest.mark.parametrize(
        ("codec", "options"),
        [
            ("libx265", {"x265-params": "keyint=8:open-gop=0:cutree=0:log-level=none:pools=1"}),
            ("libvpx-vp9", {"g": "8", "lag-in-frames": "16", "auto-alt-ref": "1"}),
            ("libsvtav1", {"svtav1-params": "keyint=8:lp=1"}),
        ],
    )
    def test_codecs(self, codec: str, options: dict[str, str], tmp_path: Path) -> None:
        self.same(tmp_path, codec=codec, options=options)

    @pytest.mark.parametrize("ngood", [0, 4])
    def test_frames_of_another_size(self, ngood: int, tmp_path: Path) -> None:
        params = f"{GOP}:bframes=0:repeat-headers=1"
        small, large = tmp_path / "small.mp4", tmp_path / "large.mp4"
        for path, frames in ((small, FRAMES), (large, moving(16, 64, 96))):
            write_video(path, frames, codec="libx264", options={"x264-params": params})
        file = io.BytesIO()
        with av.open(str(small)) as one, av.open(str(large)) as other:
            packets = [*islice(one.demux(video=0), ngood), *islice(other.demux(video=0), 8 - ngood)]
            with av.open(file, "w", format="mp4") as target:
                stream = target.add_stream_from_template(one.streams.video[0])
                for number, packet in enumerate(packets):
                    packet.pts = packet.dts = number * 512
                    packet.stream = stream
                    target.mux(packet)
        group = VideoGroup("clip", file.getvalue(), (48, 32), 0, False, [*range(8)])
        with pytest.raises((ValueError, RuntimeError), match=r"48|64x96|same shape"):
            group.decode(torch.device("cpu"))

    def same(self, folder: Path, **options: Any) -> None:
        path = folder / "video.blp"
        with bp.frames.create(path) as store:
            store.append_video("walk", video(folder, **options))
        with bp.frames.open(path) as store:
            for selection in (None, 3, slice(14, 2, -3), [9, 9, 1]):
                found = read_frames(store["walk"], selection, device="cpu")
                expected = store["walk"].read(selection)
                assert found.shape == expected.shape
                assert psnr(found, expected) >= LEAST_PSNR


def test_every_kind_of_clip(mixed: Path) -> None:
    with bp.frames.open(mixed, exact=True) as store:
        for clip in store.values():
            found = read_frames(clip, slice(3, None, 2), device="cpu")
            assert found.dtype == torch.from_numpy(np.empty(0, clip.dtype)).dtype
            assert np.array_equal(found, clip[3::2]) or psnr(found, clip[3::2]) >= LEAST_PSNR
            assert np.array_equal(found, clip[3::2]) or clip.codec == "video"


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_batches_are_those_of_the_processor(workers: int, mixed: Path) -> None:
    def options() -> dict[str, Any]:
        clips = ["video", "color", "lossless"] * 3
        return {"clips": clips, "length": 4, "short": "wrap", "seed": 4, "transform": half}

    source = partial(bp.frames.open, mixed, exact=True)
    plain = FrameLoader(FrameDataset(source, **options()), 4, seed=1)
    loader = FrameLoader(
        FrameDataset(source, device="cpu", layout="tchw", **options()),
        4,
        seed=1,
        num_workers=workers,
    )
    for _ in range(2):
        for found, expected in zip(loader, plain, strict=True):
            assert (type(found), found["id"]) == (dict, expected["id"])
            assert torch.equal(found["seed"], expected["seed"])
            frames = torch.stack(list(found["frames"])).permute(0, 1, 3, 4, 2)
            assert psnr(frames, torch.stack(list(expected["frames"]))) >= LEAST_PSNR
    assert loader.epoch == plain.epoch == 2
    found, expected = loader.state_dict(), plain.state_dict()
    assert (found["items"].pop("layout"), expected["items"].pop("layout")) == ("tchw", "thwc")
    assert found == expected


def half(item: dict[str, Any]) -> dict[str, Any]:
    assert isinstance(item["frames"], torch.Tensor)
    return item


def test_a_group_is_decoded_once(tmp_path: Path) -> None:
    path = tmp_path / "video.blp"
    with bp.frames.create(path) as store:
        for number in range(2):
            store.append_video(str(number), video(tmp_path, number=number))
    dataset = FrameDataset(path, clips=["0", "1", "0"], length=5, stride=2, device="cpu")
    batch = collate_clips(dataset.__getitems__([0, 1, 2]))
    assert batch["frames"].is_contiguous()
    assert len(Decoder.files) == len(set(Decoder.files)) <= 4
    with bp.frames.open(path) as store:
        for k, name in enumerate(batch["id"]):
            start = batch["start"][k]
            assert psnr(batch["frames"][k], store[name][start : start + 9 : 2]) >= LEAST_PSNR


def test_stored_bytes_are_verified_first(mixed: Path) -> None:
    with bp.frames.open(mixed) as store:
        offsets = [store[name].chunk_extents()[1][0] for name in ("video", "color")]
    with mixed.open("r+b") as file:
        for offset in offsets:
            file.seek(offset + 100)
            file.write(b"damaged")
    dataset = FrameDataset(mixed, device="cpu")
    for index in (0, 2):
        with pytest.raises(ChecksumMismatch, match=r"clip '(video|color)': frame"):
            dataset[index]
    assert not Decoder.files


def test_errors(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = FrameDataset(mixed, device="cpu")
    with pytest.raises(RuntimeError, match="pass the dataset to FrameLoader"):
        list(DataLoader(dataset, num_workers=1))  # type: ignore[arg-type]
    for device in ("mps", "gpu", "", -1):
        with pytest.raises(ValueError, match="device must be 'cuda'"):
            FrameDataset(mixed, device=device)  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="finds no CUDA device; without device, frames are"):
            FrameDataset(mixed, device="cuda")[3]
    monkeypatch.setattr(Decoder, "get_frames_at", lambda *_: torch.empty(0)[1])
    with pytest.raises(CodecError, match=r"'video': h264 of yuv420p: cpu cannot decode it: .*with"):
        dataset[0]
    for index, package in ((0, "torchcodec.decoders"), (2, "torchvision")):
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(ImportError, match=f"pip install {package.partition('.')[0]}; without"):
            dataset[index]


def test_times_of_a_group_begin_at_zero(tmp_path: Path) -> None:
    path = tmp_path / "video.blp"
    with bp.frames.create(path) as store:
        store.append_video("walk", video(tmp_path))
    with bp.frames.open(path) as store:
        clip: Any = store["walk"]
        read_frames(clip, 12, device="cpu")
        times = clip.times[8:16] - clip.times[8]
    with av.open(io.BytesIO(Decoder.files[0])) as file:
        found = [each.pts * Fraction(each.time_base) for each in file.decode(video=0)]
    assert np.allclose(np.array(found, float), times)
