"""FFV1 video, key frames only, by PyAV."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import av
import numpy as np

from frames.contenders import FFV1, ClipFiles


def encode_ffv1(frames: np.ndarray) -> bytes:
    """Return a Matroska file of RGB frames, each a key frame."""
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


class Ffv1(ClipFiles):
    """A file for each clip."""

    name = files = FFV1
    note = (
        "a Matroska file for each clip, every frame a key frame; only those wanted are decoded; "
        "one array; threads as PyAV chooses"
    )
    libraries = "PyAV {av}"
    suffix = ".mkv"

    def encode(self, frames: np.ndarray) -> bytes:
        return encode_ffv1(frames)

    def read_clip(self, clip: Path, selection: slice) -> np.ndarray:
        with av.open(str(clip)) as container:
            packets = packets_of(container)[selection]
            context = container.streams.video[0].codec_context
            frames = decode_packets(context, packets)
            if len(frames) < len(packets):  # threads hold some back
                frames += [one.to_ndarray(format="rgb24") for one in context.decode(None)]
        return np.stack(frames)
