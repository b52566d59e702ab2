"""Loading: batches of clips through torch's DataLoader with two workers.

Each contender has a process with its loader for each way to start workers; they pass over their
clips in turns. `Contender.open` reads the clips of all but the loaders of bloscpack. A process that
does not finish is a hang.
"""

from contextlib import ExitStack
from multiprocessing import get_all_start_methods
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from race.races import Case, Task, require, require_equal
from race.timing import Loop, loop_of
from race.worker import WorkerError

from frames.contenders import GULPIO2, LOADING, STORE_FAST, Contender, is_near

if TYPE_CHECKING:
    from frames.cases import Clips

WORKERS = 2
# Batches of the store of the preset fast as NumPy arrays, on as many threads.
THREADS_FAST = f"{STORE_FAST}, FrameBatches"
_ALL_METHODS = (GULPIO2, STORE_FAST)  # the others take part with the first only
_TIMEOUT = 240  # seconds
_PASSES = 8  # over the clips, in a turn


class WindowDataset:
    """Windows of the clips of a contender, as one would write it; torch stacks a batch.

    Each worker opens the files for itself.
    """

    def __init__(self, contender: Contender, task: Task) -> None:
        self._contender, self._path = contender, Path(task["path"])
        self._ids, self._length, self._nframes = task["ids"], task["length"], task["nframes"]
        self._read: Any = None

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        import torch

        if self._read is None:
            self._opened = self._contender.open(self._path)
            self._read = self._opened.__enter__()
        start = int(torch.randint(self._nframes - self._length + 1, ()))
        key = self._ids[index]
        frames = self._read(key, slice(start, start + self._length))
        if not isinstance(frames, np.ndarray):
            frames = np.stack(frames)
        return {"frames": torch.from_numpy(frames), "id": key}


def measure_loading(races: "Clips") -> None:
    """Race the loaders for each way to start workers, and find the memory of their processes."""
    try:
        import torch  # noqa: F401
    except ImportError as err:
        races.absent["torch"] = f"not installed ({err})"
        return
    clip, setting = races.clips[0], races.setting
    wanted = races.save_wanted(clip)
    chosen = {one.name: one for one in races.contenders if LOADING in one.works}
    if STORE_FAST in chosen:
        chosen[THREADS_FAST] = chosen[STORE_FAST]
    memory = races.found.setdefault("memory", {})
    for turn, method in enumerate(setting.methods):
        if method not in get_all_start_methods():
            continue
        case = Case(f"loading/{method}", f"loader, {method}", 0)
        loops: dict[str, Loop] = {}
        with ExitStack() as stack:
            for name, one in chosen.items():
                if turn and name not in _ALL_METHODS:
                    continue
                worker = races.worker(one.name, (method, name), _TIMEOUT)
                stack.callback(worker.close)
                try:
                    loops[name] = worker.prepare(
                        path=races.write(one, clip),
                        wanted=wanted[one.pixels],
                        ids=races.ids * _PASSES,
                        method=method,
                        is_threaded=name == THREADS_FAST,
                        nframes=setting.nframes,
                        length=setting.batch_window,
                        batch=setting.batch,
                    )
                    main, *helpers = worker.memory()
                except WorkerError as err:
                    case.skipped[name] = str(err).strip().splitlines()[-1]
                else:
                    largest = max(helpers, default=0)
                    memory.setdefault(method, {})[name] = {"main": main, "worker": largest}
            nframes = len(races.ids) * _PASSES * setting.batch_window
            races.hold(case, loops, nframes, setting.nepochs)
    races.forget(clip)


def prepare_loader(contender: Contender, task: Task, stack: ExitStack) -> Loop:
    """Return the loop of passes over all batches, after checking each of the first pass."""
    wanted = np.load(task["wanted"], mmap_mode="r")
    loader = make_loader(contender, task)
    ids, length = task["ids"], task["length"]
    seen = []
    is_right = is_near if contender.pixels == "video" else np.array_equal
    for batch in loader:
        seen += batch["id"]
        for frames in np.asarray(batch["frames"]):
            is_there = any(
                is_right(frames[:1], wanted[k : k + 1]) and is_right(frames, wanted[k : k + length])
                for k in range(len(wanted) - length + 1)
            )
            require(is_there, contender.name, "a window")
    require_equal(sorted(seen), sorted(ids), contender.name, "the ids of a pass")

    def load() -> None:
        nframes = 0
        for batch in loader:
            nframes += batch["frames"].shape[0] * batch["frames"].shape[1]
        require(nframes == len(ids) * length, contender.name, f"a pass of {nframes} frames")

    return loop_of(load)


def make_loader(contender: Contender, task: Task) -> Any:
    """Return a loader with persistent workers."""
    from torch.utils.data import DataLoader

    from bloscpack.integrations.batches import FrameBatches
    from bloscpack.integrations.torch import FrameDataset

    path, length, batch = task["path"], task["length"], task["batch"]
    dataset: Any
    if task["is_threaded"]:
        return FrameBatches(path, batch, clips=task["ids"], length=length, threads=WORKERS)
    if contender.name.startswith("bloscpack"):
        dataset = FrameDataset(path, clips=task["ids"], length=length)
    else:
        dataset = WindowDataset(contender, task)
    return DataLoader(
        dataset,
        batch_size=batch,
        shuffle=True,
        num_workers=WORKERS,
        multiprocessing_context=task["method"],
        persistent_workers=True,
    )
