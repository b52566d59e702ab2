"""JPEG files through Pillow in the worker processes of torch's DataLoader."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from race.races import Contender, Task, exhaust
from race.timing import Call
from torch.utils.data import DataLoader, Dataset

from benzina.checks import require_batches
from benzina.contenders import LOAD
from benzina.jpeg import DEVIATION, MEAN, load, path_of


class Files(Dataset[Any]):
    """`count` pictures of a folder and their numbers, cropped at random or in the middle."""

    def __init__(self, folder: Path, count: int, side: int, *, is_random: bool) -> None:
        self._folder, self._count, self._side = folder, count, side
        self._is_random = is_random
        self._mean = torch.tensor(MEAN).view(-1, 1, 1)
        self._deviation = torch.tensor(DEVIATION).view(-1, 1, 1)
        self._rng: np.random.Generator | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        if self._is_random and self._rng is None:
            self._rng = np.random.default_rng()
        image = load(path_of(self._folder, number), self._side, self._rng)
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()
        return tensor.to(torch.float32).div(255).sub_(self._mean).div_(self._deviation), number


class TorchWorkers(Contender):
    """The usual script for torch, with torchvision's transforms in the place of ours."""

    note = (
        "the same in a Dataset of torch, whose DataLoader has as many worker processes as others "
        "have threads, and keeps them"
    )
    works = (LOAD,)

    def version(self) -> str:
        return f"torch {torch.__version__}"

    def load(self, task: Task, stack: ExitStack) -> Call:
        def loader(*, is_random: bool) -> DataLoader[Any]:
            files = Files(Path(task["jpegs"]), task["nsamples"], task["shape"], is_random=is_random)
            return DataLoader(
                files,
                task["batch"],
                shuffle=is_random,
                num_workers=task["nthreads"],
                persistent_workers=True,
            )

        checked = ((images.numpy(), numbers.numpy()) for images, numbers in loader(is_random=False))
        require_batches(checked, task, self.name)
        random = loader(is_random=True)
        return lambda: exhaust(random)
