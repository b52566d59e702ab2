"""Loading: batches of clips through torch's DataLoader with two workers.

`measure_loading` starts one process for each way to start workers. The loaders of all contenders
live in it and pass over their clips in turns. A process that does not finish is a hang.
"""

import json
import subprocess
import sys
from multiprocessing import get_all_start_methods
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from race.worker import last_line

from frames.contenders import (
    GULP_SOURCE,
    GULPIO2,
    MEMMAP,
    STORE_FAST,
    STORE_JPEG,
    STORE_RAW,
    STORE_SMALL,
)

if TYPE_CHECKING:
    from frames.cases import Clips

WORKERS = 2
# Batches of the store of the preset fast as NumPy arrays, on as many threads.
THREADS_FAST = f"{STORE_FAST}, FrameBatches"
_NAMES = (GULPIO2, GULP_SOURCE, MEMMAP, STORE_JPEG, STORE_FAST, STORE_SMALL, STORE_RAW)
_TIMEOUT = 240  # seconds
_SEED = 4
_PASSES = 8  # over the clips, in a turn


class GulpDataset:
    """Windows of the clips of a Gulp directory, by GulpIO2, as one would write it.

    Each worker opens the directory for itself; torch stacks a batch.
    """

    def __init__(self, path: str, ids: list[str], length: int, nframes: int) -> None:
        self._path, self._ids = path, ids
        self._length, self._nframes = length, nframes
        self._directory: Any = None

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch
        from gulpio2 import GulpDirectory

        if self._directory is None:
            self._directory = GulpDirectory(self._path)
        start = int(torch.randint(self._nframes - self._length + 1, ()))
        key = self._ids[index]
        frames, _ = self._directory[key, slice(start, start + self._length)]
        return {"frames": torch.from_numpy(np.stack(frames)), "id": key}


class MapDataset:
    """Windows of mapped ``.npy`` files, as one would write it; torch stacks a batch."""

    def __init__(self, path: str, ids: list[str], length: int, nframes: int) -> None:
        self._path, self._ids = path, ids
        self._length, self._nframes = length, nframes
        self._clips: dict[str, np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch

        key = self._ids[index]
        if key not in self._clips:
            self._clips[key] = np.load(f"{self._path}/{key}.npy", mmap_mode="r")
        start = int(torch.randint(self._nframes - self._length + 1, ()))
        frames = np.array(self._clips[key][start : start + self._length])
        return {"frames": torch.from_numpy(frames), "id": key}


def measure_loading(races: "Clips") -> None:
    """Find the seconds per frame, or a failure, by way to start workers."""
    if not _has_torch(races):
        return
    clip = races.clips[0]
    paths = {
        one.name: str(races.write(one, clip)) for one in races.contenders if one.name in _NAMES
    }
    if STORE_FAST in paths:
        paths[THREADS_FAST] = paths[STORE_FAST]
    found: dict[str, Any] = {}
    for method in races.setting.methods:
        if method not in get_all_start_methods():
            continue
        races.say(f"loader, workers by {method}")
        found[method] = _load(races, method, paths)
        paths = {name: path for name, path in paths.items() if name in (GULPIO2, STORE_FAST)}
    races.found["loading"] = found
    races.forget(clip)


def _load(races: "Clips", method: str, paths: dict[str, str]) -> dict[str, list[float]] | str:
    """Return the seconds per frame of each round by contender, or the failure."""
    names = ("nepochs", "batch", "batch_window", "nframes")
    setting = {name: getattr(races.setting, name) for name in names}
    order = {"method": method, "paths": paths, "ids": races.ids, "setting": setting}
    try:
        seconds: dict[str, list[float]] = last_line(
            "frames.loading", input=json.dumps(order), timeout=_TIMEOUT
        )
    except subprocess.TimeoutExpired:
        return f"did not finish within {_TIMEOUT} s"
    except subprocess.CalledProcessError as err:
        return f"failed: {err.stderr.strip().splitlines()[-1]}"
    return seconds


def _has_torch(races: "Clips") -> bool:
    try:
        import torch  # noqa: F401
    except ImportError as err:
        races.absent["torch"] = f"not installed ({err})"
        return False
    return True


def main() -> int:
    """Pass over the clips as standard input says, print the seconds; return the status."""
    order = json.load(sys.stdin)
    setting = order["setting"]
    ids = order["ids"] * _PASSES
    loaders = {
        name: make_loader(name, path, ids, order["method"], setting)
        for name, path in order["paths"].items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in loaders}
    for epoch in range(setting["nepochs"] + 1):
        for name, loader in loaders.items():
            start = perf_counter()
            nframes = 0
            for batch in loader:
                frames = batch["frames"]
                if frames.shape[1] != setting["batch_window"] or not len(batch["id"]):
                    raise RuntimeError(f"{name}: a batch of shape {tuple(frames.shape)}")
                nframes += frames.shape[0] * frames.shape[1]
            if nframes != len(ids) * setting["batch_window"]:
                raise RuntimeError(f"{name}: {nframes} frames")
            if epoch:  # the first starts the workers
                seconds[name].append((perf_counter() - start) / nframes)
    print(json.dumps(seconds))
    return 0


def make_loader(name: str, path: str, ids: list[str], method: str, setting: dict[str, int]) -> Any:
    """Return a loader with persistent workers."""
    from torch.utils.data import DataLoader

    from bloscpack.integrations.batches import FrameBatches
    from bloscpack.integrations.torch import FrameDataset

    length = setting["batch_window"]
    dataset: Any
    if name == THREADS_FAST:
        return FrameBatches(path, setting["batch"], clips=ids, length=length, threads=WORKERS)
    if name in (GULPIO2, MEMMAP):
        make = GulpDataset if name == GULPIO2 else MapDataset
        dataset = make(path, ids, length, setting["nframes"])
    else:
        dataset = FrameDataset(path, clips=ids, length=length)
    return DataLoader(
        dataset,
        batch_size=setting["batch"],
        shuffle=True,
        num_workers=WORKERS,
        multiprocessing_context=method,
        persistent_workers=True,
    )


if __name__ == "__main__":
    sys.exit(main())
