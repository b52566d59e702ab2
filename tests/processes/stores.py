"""Scenarios with frame stores: forks, pools, threads, and a writer in another process."""

import multiprocessing
import os
import pickle
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import sharing
from forks import in_child, wait_for

import bloscpack as bp

NCLIPS = 24
NFRAMES = 16
SHAPE = (60, 80, 3)


def clip(number: int) -> "np.ndarray[Any, Any]":
    """Return frames that compress well, some of which refer to others or are array chunks."""
    if number % 6 == 5:
        wave = np.sin(np.arange(60 * 80 * 4) / 90).reshape(60, 80, 4) * 30 + number
        return np.stack([np.round(wave + k / 7, 1) for k in range(NFRAMES)]).astype("f4")
    first = np.add.outer(np.arange(60) * 3 + number, np.arange(80))[:, :, None] + np.zeros(3)
    frames = np.repeat(first[None].astype("u1"), NFRAMES, 0)
    frames[:, 0, 0, 0] = np.arange(NFRAMES)
    return frames


def make(folder: Path) -> list[Path]:
    """Make three stores of NCLIPS clips in total."""
    paths = [folder / f"{number}.blp" for number in range(3)]
    for number, path in enumerate(paths):
        with bp.frames.create(path, preset="small") as store:
            for each in range(number, NCLIPS, len(paths)):
                preset = "raw" if each % 5 == 4 else "small"
                store.append(str(each), clip(each), {"number": each}, preset=preset)
    return paths


def opened(path: Path, kind: str) -> Any:
    """Open the stores beside `path` in one of the supported ways."""
    if kind == "several":
        return bp.frames.open(sorted(path.parent.glob("?.blp")))
    if kind == "few open":
        return bp.frames.ManyStores(sorted(path.parent.glob("?.blp")), max_open=1)
    if kind == "bytes":
        return bp.frames.open(path.read_bytes())
    return bp.frames.open(path)


def check(source: Any, seed: int) -> int:
    """Read clips in all ways, and compare; return the process id."""
    rng = Random(seed)
    ids = list(source)
    requests = [(rng.choice(ids), slice(rng.randrange(4), None, 3)) for _ in range(6)]
    for (id_, selection), found in zip(requests, source.read(requests, nthreads=4), strict=True):
        if not np.array_equal(found, clip(int(id_))[selection]):
            raise ValueError(f"clip {id_}: {selection} differs")
    for _ in range(10):
        id_, index = rng.choice(ids), rng.randrange(NFRAMES)
        if not np.array_equal(source[id_][index], clip(int(id_))[index]):
            raise ValueError(f"clip {id_}: frame {index} differs")
        if source[id_].meta != {"number": int(id_)}:
            raise ValueError(f"clip {id_}: other metadata")
    return os.getpid()


def fork_after_use(path: Path, kind: str) -> None:
    sharing.fork_after_use(opened(path, kind), check)


def fork_while_reading(path: Path, kind: str) -> None:
    sharing.fork_while_reading(opened(path, kind), check)


def threads_share_a_handle(path: Path, kind: str) -> None:
    sharing.read_in_threads(opened(path, kind), check)


def travel(path: Path, kind: str, method: str) -> None:
    with opened(path, kind) as source:
        sharing.travel(source, check, method)


def write(path: Path, started: Any, is_read: Any, nclips: int) -> None:
    """Append clips to a new store, with a flush now and then; wait halfway until it is read."""
    with bp.frames.create(path, nthreads=1) as store:
        started.set()
        for number in range(nclips):
            if number == nclips // 2:
                is_read.wait()
            store.append(str(number), clip(number)[:2], {"number": number})
            if number % 7 == 3:
                store.flush()


def read_beside_a_writer(path: Path, method: str) -> None:
    """Open, refresh and verify while another process appends: always complete clips, in order."""
    context = multiprocessing.get_context(method)
    started, is_read, nclips = context.Event(), context.Event(), 150
    target = path.with_name(f"grows.{method}")
    writer = context.Process(target=write, args=(target, started, is_read, nclips), daemon=True)
    writer.start()
    started.wait()
    kept, rounds = bp.frames.open(target), 0
    before, pickled = len(kept), pickle.dumps(kept)
    count = 0
    while True:
        is_done = not writer.is_alive()
        with bp.frames.open(target) as store:
            found = list(store)
        kept.refresh()
        for ids in (found, list(kept)):
            if ids != [str(number) for number in range(len(ids))] or len(ids) < count:
                raise ValueError(f"not a prefix, or fewer than before: {ids}")
            count = len(ids)
        for number in range(max(0, count - 3), count):
            if not np.array_equal(kept[str(number)].read(), clip(number)[:2]):
                raise ValueError(f"clip {number} differs")
        report = bp.verify(target, nthreads=1)
        if not report.ok or report.nchunks < 2 * count:
            raise ValueError(report)
        rounds += 1
        is_read.set()
        if is_done:
            break
    writer.join()
    if count != nclips or writer.exitcode or rounds < 2:
        raise ValueError((count, writer.exitcode, rounds))
    if len(pickle.loads(pickled)) != before:
        raise ValueError("a handle sees more than it saw")


def fork_of_a_writer(path: Path) -> None:
    """A child can read its parent's writes, but can neither append nor close the store."""
    store = bp.frames.create(path.with_name("written"))
    store.append("0", clip(0), {"number": 0})

    def use() -> None:
        check(store, 0)
        try:
            store.append("1", clip(1))
        except bp.exceptions.LockedError:
            pass
        else:
            raise ValueError("a child appends")
        store.close()

    wait_for([in_child(use), in_child(use)])
    store.append("1", clip(1), {"number": 1})
    store.close()
    with bp.frames.open(path.with_name("written")) as again:
        check(again, 1)
        if list(again) != ["0", "1"]:
            raise ValueError(list(again))
