"""Scenarios of loaders whose workers share memory; each raises if it fails."""

import gc
import multiprocessing
import os
import signal
from contextlib import suppress
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import bloscpack as bp
from bloscpack.exceptions import BloscpackError
from bloscpack.integrations.torch import ClipSampler, FrameDataset, collate_clips
from bloscpack.parallel import sharedring

NCLIPS, NFRAMES = 24, 12


def write(path: Path) -> None:
    """Write clips of 30 KB a window; every clip and frame differs."""
    with bp.frames.create(path) as store:
        for number in range(NCLIPS):
            frames = np.empty((NFRAMES, 50, 50, 3), np.uint8)
            frames[...] = (number * NFRAMES + np.arange(NFRAMES))[:, None, None, None] % 256
            frames[:, 0, 0, 0] = np.arange(NFRAMES)
            store.append(f"clip {number}", frames, {"label": number})


def dataset(path: Path, **options: Any) -> FrameDataset:
    return FrameDataset(path, length=4, seed=3, label="label", **options)


def loader(path: Path, method: str | None, **options: Any) -> Any:
    workers = 0 if method is None else 2
    options = {"collate_fn": collate_clips, **options}
    layout = options.pop("layout", "thwc")
    transform = options.pop("transform", None)
    clips = dataset(path, layout=layout, transform=transform)
    return DataLoader(
        clips,  # type: ignore[arg-type]
        batch_sampler=ClipSampler(clips, seed=5, batch_size=4),
        num_workers=workers,
        multiprocessing_context=method,
        **options,
    )


def equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    if type(one) is not dict or list(one) != list(other):
        raise ValueError(f"{type(one)} of {list(one)}, not of {list(other)}")
    for name, value in one.items():
        pairs = [(value, other[name])] if name != "frames" else zip(value, other[name], strict=True)
        for found, expected in pairs:
            if isinstance(found, torch.Tensor):
                if found.dtype != expected.dtype:
                    raise ValueError(f"{name}: {found.dtype}, not {expected.dtype}")
                if not torch.equal(found, expected):
                    raise ValueError(f"{name} differs")
            elif found != expected:
                raise ValueError(f"{name}: {found!r:.99}, not {expected!r:.99}")


def maps() -> int:
    """Return how many slots this process maps."""
    return Path("/proc/self/maps").read_text().count("memfd:bloscpack")


def expect(condition: object, message: str) -> None:
    if not condition:
        raise ValueError(message)


class Halved:
    """Transform to floats, which new memory holds."""

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "frames": item["frames"][:, 10:40].float() / 2}


class Ragged:
    """Transform to clips of different lengths."""

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        item["frames"] = item["frames"][: 1 + item["index"] % 3]
        return item


class Conjugate:
    """Transform to tensors that torch has and numpy lacks."""

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        small = torch.ones(3).to(torch.float8_e4m3fn)
        return {**item, "frames": item["frames"].conj(), "small": small}


def other_tensors(path: Path, method: str) -> None:
    """Flags of tensors, and types that numpy lacks, arrive as they are in this process."""
    frames = np.arange(12 * 90 * 90).reshape(12, 90, 90) * (1 + 2j)
    with bp.frames.create(path) as store:
        for number in range(NCLIPS):
            store.append(f"clip {number}", frames + number, {"label": number})
    here = loader(path, None, transform=Conjugate())
    there = loader(path, method, transform=Conjugate(), timeout=240)
    for found, expected in zip(there, here, strict=True):
        expect(torch.equal(found["frames"], expected["frames"].resolve_conj()), "frames differ")
        expect(found["small"].dtype == torch.float8_e4m3fn, "another dtype")
        expect(torch.equal(found["small"].float(), expected["small"].float()), "values differ")


def same_batches(path: Path, method: str) -> None:
    """Batches of workers are those of this process, and stay as they are while they are held."""
    write(path)
    for options in (
        {},
        {"collate_fn": None},
        {"layout": "tchw"},
        {"layout": "tchw", "collate_fn": None},
        {"transform": Halved()},
        {"transform": Ragged()},
        {"persistent_workers": True, "pin_memory": True},
    ):
        alone = {**options, "persistent_workers": False}
        here, there = loader(path, None, **alone), loader(path, method, **options)
        for _ in range(2):
            held = list(there)  # more than a worker has slots for
            for found, expected in zip(held, here, strict=True):
                equal(found, expected)
                # torch's own collation gives other strides in a worker.
                if "collate_fn" not in options and isinstance(found["frames"], torch.Tensor):
                    expect(found["frames"].stride() == expected["frames"].stride(), "other strides")
        expect(maps() or "pin_memory" in options, "nothing was shared")
        del held, found, expected, there
        gc.collect()
        sharedring.drop_unused()
        expect(not maps(), f"{maps()} slots are left")


def lists_of_items(path: Path, method: str) -> None:
    """An item of a list stays as it is while others of its batch are dropped."""
    write(path)
    kept = []
    for items in loader(path, method, collate_fn=list, prefetch_factor=1):
        kept.append(items[-1])
        del items
    for item in kept:
        first = item["label"] * NFRAMES + item["start"]
        found = item["frames"][:, 1, 1, 1].tolist()
        expect(found == [(first + k) % 256 for k in range(4)], f"{item['id']} was overwritten")


def memory_is_reused(path: Path, method: str) -> None:
    """The memory that is mapped does not grow, and a held batch keeps its own."""
    write(path)
    batches = loader(path, method, persistent_workers=True)
    first, copy = None, None
    for _ in range(6):
        for batch in batches:
            if first is None:
                first, copy = batch, batch["frames"].clone()
            places = maps()
            expect(0 < places <= 10, f"{places} slots are mapped")
            batch["frames"].zero_() if batch is not first else None
    assert first is not None
    expect(torch.equal(first["frames"], copy), "a held batch has changed")
    part = first["frames"][1, 2:]
    del first, batch, batches
    gc.collect()
    sharedring.drop_unused()
    expect(maps() == 1, f"{maps()} slots are mapped for one view")
    expect(torch.equal(part, copy[1, 2:]), "a view has changed")


def stops_early(path: Path, method: str) -> None:
    """A break, an error in the loop, and an error of a worker leave nothing behind."""
    write(path)
    for batch in loader(path, method):
        del batch
        break
    with suppress(ZeroDivisionError):
        for batch in loader(path, method):
            1 // (batch["frames"].numel() - batch["frames"].numel())
    try:
        list(loader(path, method, transform=Failing()))
    except ZeroDivisionError as err:
        expect("Original Traceback" in str(err), f"the error is {err}")
    del batch
    gc.collect()
    sharedring.drop_unused()
    expect(not maps(), f"{maps()} slots are left")
    expect(not multiprocessing.active_children(), "workers are left")


class Failing:
    def __call__(self, item: dict[str, Any]) -> Any:
        return 1 // (item["index"] - 7)


def killed(path: Path, method: str) -> None:
    """A killed worker is torch's error, and what was received stays."""
    write(path)
    batches = loader(path, method)
    running = iter(batches)
    batch = next(running)
    copy = batch["frames"].clone()
    for process in multiprocessing.active_children():
        if process.pid is not None:
            os.kill(process.pid, signal.SIGKILL)
    try:
        while True:
            next(running)
    except RuntimeError as err:
        expect("is killed by signal" in str(err) or "exited unexpectedly" in str(err), str(err))
    expect(torch.equal(batch["frames"], copy), "the batch has changed")
    del batch, running, batches
    gc.collect()
    sharedring.drop_unused()
    expect(not maps(), f"{maps()} slots are left")


def damaged(path: Path, method: str) -> None:
    """Damage of a frame is the same error in a worker."""
    write(path)
    with path.open("r+b") as file:
        file.seek(400)
        file.write(bytes(range(100)))
    errors = []
    for batches in (loader(path, None), loader(path, method)):
        try:
            list(batches)
        except BloscpackError as err:
            errors.append(err)
    expect(len(errors) == 2 and type(errors[0]) is type(errors[1]), f"the errors are {errors}")
    expect(str(errors[0]) in str(errors[1]), f"{errors[0]} is not in {errors[1]}")


def pickled_items(path: Path, method: str) -> None:
    """A dict that a worker sends elsewhere, by plain pickle, has its own memory."""
    import pickle

    write(path)
    item = dataset(path)[3]
    for copy in (
        pickle.loads(pickle.dumps(item)),
        ForkingPickler.loads(ForkingPickler.dumps(item)),
    ):
        equal(dict(copy), dict(item))
    single = DataLoader(
        dataset(path), batch_size=None, num_workers=1, multiprocessing_context=method
    )  # type: ignore[arg-type]
    for found, expected in zip(single, dataset(path), strict=True):  # type: ignore[call-overload]
        equal(dict(found), dict(expected))
