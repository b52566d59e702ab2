"""Scenarios with torch's DataLoader for `tests.processes.scenario`; each raises if it fails."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from bloscpack.integrations.torch import ClipSampler, FrameDataset, collate_clips
from tests.frames.memory_source import MemorySourceOfClips

NCLIPS, NFRAMES = 21, 12


def source() -> MemorySourceOfClips:
    """Return clips whose pixels encode clip and frame."""
    frames = np.empty((NCLIPS, NFRAMES, 4, 6, 3), np.uint8)
    frames[...] = (np.arange(NCLIPS)[:, None] * NFRAMES + np.arange(NFRAMES))[..., None, None, None]
    return MemorySourceOfClips({f"clip {number}": each for number, each in enumerate(frames)})


def dataset() -> FrameDataset:
    return FrameDataset(source, length=3, stride=2, seed=5)


class AddProcess:
    """Transform that adds the process id."""

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        info = torch.utils.data.get_worker_info()
        return {**item, "worker": -1 if info is None else info.id}


def batches(loader: Any) -> list[dict[str, Any]]:
    found = []
    for batch in loader:
        first = batch["frames"][:, 0, 0, 0, 0].tolist()
        expected = (batch["index"] * NFRAMES + batch["start"]).tolist()
        if first != [number % 256 for number in expected]:
            raise ValueError(f"frames {first} are not {expected}")
        found.append(batch)
    return found


def plain(batches: list[dict[str, Any]]) -> list[Any]:
    """Return batches without the worker, for comparison."""
    return [
        [
            value.tolist() if isinstance(value, torch.Tensor) else value
            for name, value in batch.items()
            if name != "worker"
        ]
        for batch in batches
    ]


def same_order(_: Path, method: str, num_workers: str) -> None:
    """Compare two epochs in workers, the second resumed in its middle, with one process."""
    alone = ClipSampler(NCLIPS, seed=2, batch_size=4)
    expected = [
        plain(batches(DataLoader(dataset(), batch_sampler=alone, collate_fn=collate_clips)))
        for _ in range(2)
    ]
    if expected[0] == expected[1]:
        raise ValueError("the epochs are alike")
    in_workers = FrameDataset(source, length=3, stride=2, seed=5, transform=AddProcess())

    def loader(sampler: ClipSampler) -> Any:
        return DataLoader(
            in_workers,
            batch_sampler=sampler,
            num_workers=int(num_workers),
            multiprocessing_context=method,
            persistent_workers=True,
            collate_fn=collate_clips,
        )

    sampler = ClipSampler(NCLIPS, seed=2, batch_size=4)
    shared = loader(sampler)
    first = batches(shared)
    if plain(first) != expected[0]:
        raise ValueError("workers give another first epoch")
    if {number for batch in first for number in batch["worker"].tolist()} != set(
        range(int(num_workers))
    ):
        raise ValueError("not all workers worked")
    begun, state = [], None
    for batch in shared:
        begun.append(batch)
        if len(begun) == 2:
            state = sampler.state_dict(seen=8)
    if plain(begun) != expected[1]:
        raise ValueError("workers give another second epoch")
    if state is None or state["position"] != 8:
        raise ValueError(f"the state is {state}")
    resumed = ClipSampler(NCLIPS, batch_size=4)
    resumed.load_state_dict(state)
    rest = batches(DataLoader(dataset(), batch_sampler=resumed, collate_fn=collate_clips))
    if plain(begun[:2] + rest) != expected[1]:
        raise ValueError("resumed is not uninterrupted")
