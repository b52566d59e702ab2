"""Video files: H.264 in groups of 8 frames in mp4 files by three libraries, and FFV1.

The packets in the mp4 files are those that our frame store keeps.
"""

import io
from collections.abc import Sequence
from ctypes.util import find_library
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from race.quality import lowest_quality, psnr

from bloscpack.frames.video.videoencoder import encoded, numbered
from bloscpack.media import image
from frames.contenders import CLIP, CRF, EPISODES, GOP, LOADING, SINGLE, ClipFiles

_RATE = 25


class VideoFiles(ClipFiles):
    """An mp4 file for each clip."""

    files, pixels, suffix = "mp4", "video", ".mp4"

    def encode(self, frames: np.ndarray) -> bytes:
        return encode_mp4(frames)


class PyAv(VideoFiles):
    """A file that is opened for each read: seek, decode, keep what is wanted, as most programs."""

    works = (CLIP, SINGLE)
    note = "the mp4 files, opened for each read: seek, decode, convert frames wanted; one thread"
    libraries = "PyAV {av}"
    modules = ("av",)

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        wanted = range(selection.start, selection.stop, selection.step or 1)
        frames = []
        with self.lib.open(str(clip)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            step = round(1 / (stream.average_rate * stream.time_base))
            container.seek(wanted[0] * step, stream=stream)
            for frame in container.decode(stream):
                number = round(frame.pts / step)
                if number in wanted:
                    frames.append(frame.to_ndarray(format="rgb24"))
                if number >= wanted[-1]:
                    break
        return np.stack(frames)


class TorchCodec(VideoFiles):
    """A decoder for each clip, kept; imported by its own process only, as it takes long."""

    works = (CLIP, SINGLE, LOADING, EPISODES)
    note = "the mp4 files, a decoder kept for each, seek mode exact; one thread"
    libraries = "torchcodec {torchcodec}"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        version("torchcodec")  # an ImportError if it is not installed
        if find_library("avcodec") is None:
            raise ImportError("torchcodec needs the shared libraries of FFmpeg 4 to 8")

    def open_clip(self, path: Path) -> Any:
        import torch
        from torchcodec.decoders import VideoDecoder

        torch.set_num_threads(1)
        return VideoDecoder(
            str(path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact"
        )

    def read_clip(self, clip: Any, selection: slice) -> np.ndarray:
        wanted = [*range(selection.start, selection.stop, selection.step or 1)]
        return clip.get_frames_at(wanted).data.numpy()


class Ffv1(ClipFiles):
    note = (
        "a Matroska file for each clip, every frame a key frame; only those wanted are decoded; "
        "one array; threads as PyAV chooses"
    )
    libraries = "PyAV {av}"
    modules = ("av",)
    suffix = ".mkv"

    def encode(self, frames: np.ndarray) -> bytes:
        return encode_ffv1(frames)

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        with self.lib.open(str(clip)) as container:
            packets = packets_of(container)[selection]
            context = container.streams.video[0].codec_context
            frames = decode_packets(context, packets)
            if len(frames) < len(packets):  # threads hold some back
                frames += [one.to_ndarray(format="rgb24") for one in context.decode(None)]
        return np.stack(frames)


def encode_ffv1(frames: np.ndarray) -> bytes:
    """Return a Matroska file of RGB frames, each a key frame."""
    import av

    target = io.BytesIO()
    with av.open(target, "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=25, options={"level": "3"})
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "bgr0"
        stream.codec_context.gop_size = 1
        for frame in frames:
            picture = av.VideoFrame.from_ndarray(frame, format="rgb24").reformat(format="bgr0")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return target.getvalue()


def packets_of(container: Any) -> list[Any]:
    return [packet for packet in container.demux(video=0) if packet.size]


def decode_packets(context: Any, packets: Sequence[Any]) -> list[np.ndarray]:
    return [
        picture.to_ndarray(format="rgb24")
        for packet in packets
        for picture in context.decode(packet)
    ]


def encode_mp4(frames: np.ndarray) -> bytes:
    """Return frames as an mp4 file by the encoder of the frame store."""
    with encoded(
        numbered(frames), Fraction(1, _RATE), crf=CRF, gop=GOP, encoder="h264", preset="fast"
    ) as file:
        return file.read()


def decode_mp4(mp4: bytes) -> np.ndarray:
    """Return the frames of an mp4 file as PyAV decodes them."""
    import av

    with av.open(io.BytesIO(mp4)) as container:
        frames = [one.to_ndarray(format="rgb24") for one in container.decode(video=0)]
    return np.stack(frames)


def jpeg_nbytes(frames: np.ndarray, target: float) -> float | None:
    """Return the bytes a frame of JPEG 4:2:0 with this PSNR, interpolated between two qualities.

    None if no quality reaches it.
    """

    def at(quality: int) -> tuple[float, float]:
        coded = [image.encode_jpeg(each, quality=quality, subsampling="420") for each in frames]
        return psnr(frames, list(map(image.decode, coded))), sum(map(len, coded)) / len(frames)

    quality = lowest_quality(lambda quality: at(quality)[0], target)
    if not 1 < quality <= 100:
        return None
    decibels, sizes = zip(at(quality - 1), at(quality), strict=True)
    return float(np.interp(target, decibels, sizes))
