"""Clips: frames with a stride at random places, single frames, and what the files take."""

from pathlib import Path

import numpy as np
from races import Case, size_of

from frames.contender import (
    BARE_JPEG,
    GULPIO2,
    ONE_THREAD,
    PNG,
    STORE_FAST,
    STORE_JPEG,
    STORE_SMALL,
)
from frames.data import Clip
from frames.race import Bench, jpeg_pixels

BARE = "bare decoding of "
STORES = (STORE_JPEG, STORE_FAST, STORE_SMALL)
_SINGLES = (GULPIO2, *STORES, PNG, "h5py, Blosc lz4")
_PER_CALL = 16


def race_clips(bench: Bench) -> None:
    """Read frames of each clip by everyone."""
    sizes = bench.found.setdefault("sizes", {})
    for clip in bench.clips:
        wanted = {False: bench.folder / "frames.npy", True: bench.folder / "pixels.npy"}
        np.save(wanted[False], clip.frames)
        np.save(wanted[True], jpeg_pixels(clip.frames))
        for contender in bench.contenders:
            bench.write(contender, clip)
        race_windows(bench, clip, wanted)
        race_singles(bench, clip, wanted)
        sizes[clip.name] = measure_sizes(bench, clip)
        bench.forget(clip)


def measure_sizes(bench: Bench, clip: Clip) -> dict[str, float]:
    """Return bytes a frame, of the whole files, by contender."""
    nframes = bench.setting.nclips * len(clip.frames)
    sizes = {"raw": float(clip.frames[0].nbytes)}
    for contender in bench.contenders:
        if contender.name != BARE_JPEG and not contender.name.endswith(ONE_THREAD):
            sizes[contender.name] = size_of(bench.write(contender, clip)) / nframes
    return sizes


def race_windows(bench: Bench, clip: Clip, wanted: dict[bool, Path]) -> None:
    """Read many frames with a stride, of a clip at random."""
    nframes = bench.setting.window
    loops = {}
    for one in bench.contenders:
        loops[one.name] = bench.reader(one.name).prepare(
            path=str(bench.write(one, clip)),
            wanted=str(wanted[one.is_lossy]),
            places=bench.windows(),
            per_call=1,
            bare=False,
        )
    case = Case(f"clip/{clip.name}", f"{clip.name}, {nframes} frames", clip.frames[0].nbytes)
    bench.race(case, loops, nframes)


def race_singles(bench: Bench, clip: Clip, wanted: dict[bool, Path]) -> None:
    """Read a frame at random, beside decoding the same chunks in memory."""
    loops = {}
    for one in bench.contenders:
        if one.name not in _SINGLES:
            continue
        for bare in (False, True) if one.name in STORES else (False,):
            loops[BARE * bare + one.name] = bench.reader(one.name, bare=bare).prepare(
                path=str(bench.write(one, clip)),
                wanted=str(wanted[one.is_lossy]),
                places=bench.places(),
                per_call=_PER_CALL,
                bare=bare,
            )
    case = Case(f"single/{clip.name}", f"{clip.name}, one frame", clip.frames[0].nbytes)
    bench.race(case, loops, _PER_CALL)
