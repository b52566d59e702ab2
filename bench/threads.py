"""Measure what a decoded byte of each kind of clip costs, and what a second thread costs and saves.

The first figure is processor time on one thread. Its ratio to that of the preset "fast" is in
`decode_cost` of clips (`bloscpack/frames/store/clip.py`), and `LEAST_NBYTES` in
`bloscpack/storage/batch.py` is from the others. Clips are 320 x 240 RGB frames, in the page cache;
reads with one and with two threads take turns. ``python bench/threads.py``
"""

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from frames.data import load_animation

import bloscpack as bp
from bloscpack.parallel import threads

KINDS: dict[str, dict[str, Any]] = {
    "fast": {"preset": "fast"},
    "small": {"preset": "small"},
    "jpeg": {"codec": "jpeg"},
    "raw": {"preset": "raw"},
    "array chunks": {"preset": "small"},
}
COUNTS = (1, 8, 32, 128)
ROUNDS = 40


def make_clip(kind: str) -> np.ndarray:
    """Return 128 frames: of an animation, or decimals for array chunks."""
    frames = load_animation(64)
    frames = np.concatenate([frames, frames[::-1]])
    if kind != "array chunks":
        return frames
    return np.round(frames[..., 0] / np.float32(10), 1)


def measure(path: Path, count: int) -> dict[str, float]:
    """Return seconds of one thread, and the ratios of two threads to one."""
    wall: dict[int, list[float]] = {1: [], 2: []}
    cpu: dict[int, list[float]] = {1: [], 2: []}
    with bp.frames.open(path) as store:
        (clip,) = store.values()
        out = np.empty((count, *clip.shape[1:]), clip.dtype)
        for _ in range(ROUNDS):
            for nthreads in (1, 2):
                # Two threads even where there is less work than for two.
                with patch.object(threads, "MIN_NBYTES_PER_THREAD", 1):
                    began, used = time.perf_counter(), time.process_time()
                    store.read([(clip.id, slice(count))], out=[out], nthreads=nthreads)
                    cpu[nthreads].append(time.process_time() - used)
                    wall[nthreads].append(time.perf_counter() - began)
    one, two = (statistics.median(cpu[nthreads]) for nthreads in (1, 2))
    return {
        "seconds": one,
        "ns per byte": one / out.nbytes * 1e9,
        "more seconds of two threads": two - one,
        "processor time of two threads": two / one,
        "wall time of two threads": statistics.median(wall[2]) / statistics.median(wall[1]),
    }


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kind, options in KINDS.items():
            path = Path(folder) / f"{kind}.blp"
            with bp.frames.create(path, **options) as store:
                store.append("clip", make_clip(kind))
            for count in COUNTS:
                found = measure(path, count)
                text = ", ".join(f"{value:.3g} {name}" for name, value in found.items())
                print(f"{kind}, {count} frames: {text}")


if __name__ == "__main__":
    main()
