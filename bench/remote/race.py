"""One run: its contenders, what they wrote, the servers, and the races held so far."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from peers.data import Spec
from process import Worker
from races import Case, Races, assemble, size_of

from remote.contender import TABLE, Contender, Task
from remote.data import Setting, make_frames, pick_rows
from remote.serving import publish

CODEC, LEVEL = "zstd", 3


class Bench(Races):
    """What all work shares.

    Parameters
    ----------
    setting : Setting
        How much to do.
    folder : Path
        Empty; takes what Dask writes.
    memory_folder : Path
        Empty; takes what goes to the servers, best on a file system in memory.
    servers : dict of str to Server
        Those of `serving`, empty; they get what all contenders write.
    names : list of str
        The contenders.
    say : callable
        Takes a line on the progress.

    Attributes
    ----------
    array : ndarray
        What is stored.
    sizes : dict of str to int
        Bytes of what each contender wrote.
    """

    def __init__(
        self,
        setting: Setting,
        folder: Path,
        memory_folder: Path,
        servers: dict[str, Any],
        names: list[str],
        say: Callable[[str], object],
    ) -> None:
        super().__init__(setting, *assemble(TABLE, names), say)
        self.folder = folder
        self.array = make_frames(setting)
        self._wanted = memory_folder / "wanted.npy"
        np.save(self._wanted, self.array)
        self.servers = servers
        self.sizes: dict[str, int] = {}
        self._paths: dict[str, str] = {}
        spec = Spec(CODEC, LEVEL, setting.chunk_rows, f"{setting.chunk_rows} rows")
        for one in self.contenders:
            path = one.write(memory_folder, self.array, spec, setting.nclip)
            self.sizes[one.name] = size_of(path)
            self._paths[one.name] = path.name
            for server in self.servers.values():
                publish(server, path)
        self._workers: dict[str, Worker] = {}

    def task(self, name: str, server: str, work: str, *, is_timed: bool = False) -> Task:
        """Return what a contender is told.

        `work`; `wanted`, the path of the array as a ``.npy`` file; `url` and `options`, where the
        contender finds what it wrote; `row`; `rows`, in no order; `step`; `clip`, the first row and
        the one behind the last; `niterated`, how many rows are iterated over. `rows` are fewer, and
        rows are iterated over near the beginning only, where it is timed.
        """
        setting = self.setting
        url, options = self.servers[server].place(self._paths[name])
        middle = setting.nrows // 2
        return {
            "work": work,
            "wanted": str(self._wanted),
            "url": url,
            "options": options,
            "row": middle + setting.chunk_rows // 2,
            "rows": pick_rows(setting)[: setting.nfew if is_timed else None],
            "step": setting.step,
            "clip": (middle, middle + setting.nclip),
            "niterated": setting.nnear if is_timed else setting.nrows,
        }

    def count(self, contender: Contender, server: str, work: str) -> tuple[int, int]:
        """Return how many requests a task takes with its opening, and the bytes of all answers.

        They are those of the one time that it is done to compare the result.
        """
        worker, log = self._worker(contender), self.servers[server].log
        log.clear()
        worker.prepare(**self.task(contender.name, server, work))
        return len(log), sum(request.nbytes for request in log)

    def race(self, case: Case, server: str, work: str) -> None:
        """Let all who do a kind of work take turns, while the server is slow."""
        asked = self.servers[server]
        asked.delay = self.setting.delay
        try:
            loops = {
                one.name: self._worker(one).prepare(
                    **self.task(one.name, server, work, is_timed=True)
                )
                for one in self.contenders
                if work in one.works
            }
            self.hold(case, loops, 1, self.setting.nrounds)
        finally:
            asked.delay = 0.0

    def _worker(self, contender: Contender) -> Worker:
        name = contender.name
        if name not in self._workers:
            self._workers[name] = worker = Worker("remote.worker", name)
            self.closing.callback(worker.close)
        return self._workers[name]
