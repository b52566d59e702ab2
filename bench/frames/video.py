"""Measure video in a frame store: bytes, and processor time of a strided clip and a random frame.

One clip of 320 x 240 is encoded in groups of 8 frames. Its packets are in a frame store and in an
mp4 file. Contenders read the same frames from these, in turns, in one process, on one thread each,
after they were compared. torchcodec takes part if it is installed. ``python -m frames.video`` in
``bench/``
"""

import json
import random
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import av
import numpy as np

import bloscpack as bp
from bloscpack.frames.video.videoencoder import encoded, numbered
from bloscpack.media import image
from frames.data import load_animation

CRF, GOP, RATE = 18, 8, 25
NFRAMES = 64
STRIDE = 2
ROUNDS = 9

Read = Callable[[list[int]], Any]


def psnr(one: np.ndarray, two: np.ndarray) -> float:
    return float(10 * np.log10(255**2 / np.mean((one.astype("f4") - two) ** 2)))


def jpeg_nbytes(frames: np.ndarray, target: float) -> float:
    """Return the bytes of JPEG 4:2:0 with this PSNR, between two qualities."""
    before = None
    for quality in range(30, 100):
        coded = [image.encode_jpeg(each, quality=quality, subsampling="420") for each in frames]
        found = psnr(np.stack([image.decode(each) for each in coded]), frames)
        now = found, float(sum(map(len, coded)))
        if found >= target:
            if before is None:
                return now[1]
            part = (target - before[0]) / (now[0] - before[0])
            return before[1] + part * (now[1] - before[1])
        before = now
    raise ValueError(f"no quality of JPEG gives {target:.1f} dB")


def with_pyav(path: Path) -> Read:
    """Read frames as most programs do: seek, decode, and keep the frames that are wanted."""

    def read(wanted: list[int]) -> np.ndarray:
        found = {}
        with av.open(str(path)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            step = round(1 / (stream.average_rate * stream.time_base))
            container.seek(wanted[0] * step, stream=stream)
            left = set(wanted)
            for frame in container.decode(stream):
                number = round(frame.pts / step)
                if number in left:
                    found[number] = frame.to_ndarray(format="rgb24")
                    left.remove(number)
                    if not left:
                        break
        return np.stack([found[number] for number in wanted])

    return read


def with_torchcodec(path: Path, *, is_kept: bool) -> Read | None:
    try:
        import torch
        from torchcodec.decoders import VideoDecoder
    except (ImportError, OSError, RuntimeError):
        return None
    torch.set_num_threads(1)

    def opened() -> Any:
        return VideoDecoder(
            str(path), dimension_order="NHWC", num_ffmpeg_threads=1, seek_mode="exact"
        )

    decoder = opened() if is_kept else None

    def read(wanted: list[int]) -> np.ndarray:
        found = decoder if decoder is not None else opened()
        return found.get_frames_at(wanted).data.numpy()

    return read


def race(reads: dict[str, Read], requests: list[list[int]]) -> dict[str, float]:
    """Return the CPU time per frame of each contender in microseconds: the median of rounds."""
    times: dict[str, list[float]] = {name: [] for name in reads}
    nframes = sum(map(len, requests))
    for _ in range(ROUNDS):
        for name, read in reads.items():
            start = process_time()
            for wanted in requests:
                read(wanted)
            times[name].append((process_time() - start) / nframes * 1e6)
    return {name: round(median(each), 1) for name, each in times.items()}


def measure(frames: np.ndarray, preset: str, folder: Path) -> dict[str, Any]:
    store_path, mp4 = folder / f"{preset}.blp", folder / f"{preset}.mp4"
    with encoded(
        numbered(frames), Fraction(1, RATE), crf=CRF, gop=GOP, encoder="h264", preset=preset
    ) as file:
        mp4.write_bytes(file.read())
    with bp.frames.create(store_path) as store:
        store.append_video("clip", mp4)
    with bp.frames.open(store_path, nthreads=1) as store:
        clip = store["clip"]
        quality = psnr(clip.read(), frames)
        nbytes = {"store": store_path.stat().st_size, "mp4": mp4.stat().st_size}
        nbytes["jpeg"] = round(jpeg_nbytes(frames, quality))
        result = {"psnr": round(quality, 2), "nbytes": nbytes}
        result["store / mp4"] = round(nbytes["store"] / nbytes["mp4"], 3)
        result["store / jpeg 4:2:0"] = round(nbytes["store"] / nbytes["jpeg"], 3)
        reads: dict[str, Read | None] = {
            "bloscpack": clip.read,
            "PyAV": with_pyav(mp4),
            "torchcodec, decoder kept": with_torchcodec(mp4, is_kept=True),
            "torchcodec, opened for each clip": with_torchcodec(mp4, is_kept=False),
        }
        there = {name: read for name, read in reads.items() if read is not None}
        strided = [list(range(0, NFRAMES, STRIDE))]
        draw = random.Random(1)
        singles = [[draw.randrange(NFRAMES)] for _ in range(48)]
        for name, read in there.items():
            worst = np.abs(read(strided[0]).astype(int) - clip.read(strided[0])).mean()
            if worst > 2:  # libraries differ in rounding and in chroma
                raise ValueError(f"{name} reads other frames: they differ by {worst:.1f}")
        for what, requests in (("strided", strided), ("random", singles)):
            times = race(there, requests)
            result[f"{what}, us a frame"] = times
            result[f"{what}, bloscpack / other"] = {
                name: round(times["bloscpack"] / each, 2) for name, each in times.items()
            }
    return result


def main() -> None:
    frames = load_animation(NFRAMES)
    result: dict[str, Any] = {"clip": list(frames.shape), "crf": CRF, "gop": GOP}
    with tempfile.TemporaryDirectory() as folder:
        for preset in ("fast", "small"):
            result[preset] = measure(frames, preset, Path(folder))
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
