"""Clips: frames with a stride at random places, single frames, and what the files take."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
from peers.contender import size_of

from frames.bare import bare_frames
from frames.contender import (
    GULPIO2,
    ONE_THREAD,
    PNG,
    STORE_FAST,
    STORE_JPEG,
    STORE_SMALL,
    ReadClip,
)
from frames.data import Clip
from frames.race import Bench, Case, cycling, jpeg_pixels, require_frames

BARE = "bare decoding of "
STORES = (STORE_JPEG, STORE_FAST, STORE_SMALL)
_SINGLES = (GULPIO2, *STORES, PNG, "h5py, Blosc lz4")
_PER_CALL = 16


def race_clips(bench: Bench) -> None:
    """Read frames of each clip by everyone."""
    sizes = bench.found.setdefault("sizes", {})
    for clip in bench.clips:
        pixels = jpeg_pixels(clip.frames)
        for contender in bench.contenders:
            bench.write(contender, clip)
        race_windows(bench, clip, pixels)
        race_singles(bench, clip, pixels)
        sizes[clip.name] = measure_sizes(bench, clip)
        bench.forget(clip)


def measure_sizes(bench: Bench, clip: Clip) -> dict[str, float]:
    """Return bytes a frame, of the whole files, by contender."""
    nframes = bench.setting.nclips * len(clip.frames)
    sizes = {"raw": float(clip.frames[0].nbytes)}
    for contender in bench.contenders:
        if not contender.name.endswith(ONE_THREAD):
            sizes[contender.name] = size_of(bench.write(contender, clip)) / nframes
    return sizes


def race_windows(bench: Bench, clip: Clip, pixels: np.ndarray) -> None:
    """Read many frames with a stride, of a clip at random."""
    windows = bench.windows()
    calls = {}
    with ExitStack() as stack:
        for contender in bench.contenders:
            read = bench.open(contender, clip, stack)
            wanted = pixels if contender.is_lossy else clip.frames
            for key, selection in windows[:3]:
                what = f"{clip.name}, {key}, {selection}"
                require_frames(read(key, selection), wanted[selection], contender.name, what)
            calls[contender.name] = cycling(read, windows)
        nframes = bench.setting.window
        case = Case(f"clip/{clip.name}", f"{clip.name}, {nframes} frames", clip.frames[0].nbytes)
        bench.race(case, calls, nframes)


def race_singles(bench: Bench, clip: Clip, pixels: np.ndarray) -> None:
    """Read a frame at random, beside decoding the same chunks in memory."""
    places = bench.places()
    calls: dict[str, Callable[[], object]] = {}

    def add(name: str, read: Callable[[str, int], Any], *, is_lossy: bool) -> None:
        wanted = pixels if is_lossy else clip.frames
        for key, number in places[:20]:
            what = f"{clip.name}, {key}, frame {number}"
            require_frames([read(key, number)], wanted[number : number + 1], name, what)
        calls[name] = cycling(read, places, _PER_CALL)

    with ExitStack() as stack:
        for contender in bench.contenders:
            name, is_lossy = contender.name, contender.is_lossy
            if name not in _SINGLES:
                continue
            read: Any = bench.open(contender, clip, stack)
            if name in STORES:  # an int picks a frame
                add(name, read, is_lossy=is_lossy)
                add(BARE + name, bare_frames(bench.write(contender, clip)), is_lossy=is_lossy)
            else:
                add(name, _single(read), is_lossy=is_lossy)
        case = Case(f"single/{clip.name}", f"{clip.name}, one frame", clip.frames[0].nbytes)
        bench.race(case, calls, _PER_CALL)


def _single(read: ReadClip) -> Callable[[str, int], Any]:
    """Return what reads a frame by slices, which everyone has."""
    return lambda key, number: read(key, slice(number, number + 1))[0]
