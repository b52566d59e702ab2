"""Cases: counting requests, timing them, and Dask."""

from importlib.metadata import version
from typing import Any

import numpy as np
from race.races import Benchmark, Case, Races, Setting, Task, file_system, size_of
from race.timing import signal

from remote import blocks
from remote.contenders import BY_GRID, BY_ROWS, OPEN, SERIES, TABLE, TILE, WHOLE, WORK, Contender
from remote.data import ABOUT, CODEC, LEVEL, SETTINGS, make_frames, pick_rows
from remote.serving import S3, publish, serving

COUNTS = "counts"
_LIBRARIES = ("s3fs", "aiohttp", "moto", "dask", "distributed")


class Arrays(Races):
    """Races over one array on every server.

    Attributes
    ----------
    array : ndarray
        The stored array.
    servers : dict of str to Server
        The servers of `serving`, which have the files of all contenders.
    sizes : dict of str to int
        Bytes that each contender wrote.
    """

    folder_name, table = "remote", TABLE

    def make_data(self) -> None:
        setting = self.setting
        self.found["dask_notes"] = {name: one.note for name, one in blocks.CONTENDERS.items()}
        self.servers: dict[str, Any] = self.closing.enter_context(serving())
        self.array = make_frames(setting)
        self._wanted = self.memory_folder / "wanted.npy"
        np.save(self._wanted, self.array)
        self.sizes: dict[str, int] = {}
        for layout, chunks in (
            (BY_ROWS, (setting.chunk_rows, *self.array.shape[1:])),
            (BY_GRID, (*setting.grid_chunk, self.array.shape[-1])),
        ):
            for one in self.contenders:
                if all(layout != _layout_of(work) for work in one.works):
                    continue
                path = self.memory_folder / f"{layout}{one.suffix}"
                if not path.exists():
                    one.write(path, self.array, chunks)
                    for server in self.servers.values():
                        publish(server, path)
                if layout == BY_ROWS:
                    self.sizes[one.name] = size_of(path)

    def about(self) -> dict[str, str]:
        setting = self.setting
        about = super().about([f"{name} {version(name)}" for name in _LIBRARIES])
        about["array"] = (
            f"uint8, {' x '.join(map(str, self.array.shape))}, {self.array.nbytes / 1e6:,.1f} MB "
            f"in chunks of {setting.chunk_rows} rows, for tiles and series in chunks of "
            f"{' x '.join(map(str, setting.grid_chunk))} x {self.array.shape[-1]}; Blosc with "
            f"{CODEC}, level {LEVEL}; {ABOUT}"
        )
        about["stored"] = ", ".join(
            f"{name} {nbytes / 1e6:,.1f} MB" for name, nbytes in self.sizes.items()
        )
        about["files"] = f"of Dask in {file_system(self.folder)}, in the page cache"
        about["rounds"] = f"{setting.nrounds}; {setting.ndask_rounds} under Dask"
        return about

    def task(self, one: Contender, server: str, work: str, *, is_timed: bool = False) -> Task:
        """Return a task of a contender.

        Its members are `work`; `wanted`, the path of the array as a ``.npy`` file; `url` and
        `options` of the contender's file; `row`; `rows`, in random order; `step`; `clip`, start
        and stop; `niterated`, the number of rows to iterate over; `tile`, start and stop of three
        axes; `point`, an item of the second and third. Timed tasks have fewer `rows`, and iterate
        only over rows near the beginning.
        """
        setting = self.setting
        url, options = self.servers[server].place(f"{_layout_of(work)}{one.suffix}")
        middle = setting.nrows // 2
        # The tile lies across the borders of chunks.
        starts = (middle - setting.tile[0] // 2, setting.tile[1] // 2, setting.tile[2] // 2)
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
            "tile": [
                (start, start + length) for start, length in zip(starts, setting.tile, strict=True)
            ],
            "point": (setting.height // 3, setting.width // 3),
        }

    def count(self, contender: Contender, server: str, work: str) -> tuple[int, int]:
        """Return the requests of a task with its opening, and the bytes of all answers.

        The task runs once, to check its result.
        """
        worker, log = self.worker(contender.name), self.servers[server].log
        log.clear()
        worker.prepare(**self.task(contender, server, work))
        return len(log), sum(request.nbytes for request in log)

    def race(self, case: Case, server: str, work: str) -> None:
        """Race all contenders that do a kind of work, while the server is slow."""
        asked = self.servers[server]
        asked.delay = self.setting.delay
        asked.rate = self.setting.rate if work == WHOLE else None
        try:
            self.hold_work(case, work, lambda one: self.task(one, server, work, is_timed=True))
        finally:
            asked.delay, asked.rate = 0.0, None


def _layout_of(work: str) -> str:
    """Return which file of a contender a kind of work reads."""
    return BY_GRID if work in (TILE, SERIES) else BY_ROWS


def title_of(work: str, setting: Setting, *, is_timed: bool = False) -> str:
    """Return a task in words."""
    npicked = setting.nfew if is_timed else setting.npicked
    niterated = setting.nnear if is_timed else setting.nrows
    titles = (
        "open",
        "one row",
        f"{npicked:,} rows at random",
        f"every {setting.step}th row",
        f"{setting.nclip} rows in turn",
        f"iteration over {niterated:,} rows",
        f"tile of {' x '.join(map(str, setting.tile))}",
        "series of a point",
        "whole",
    )
    return dict(zip(WORK, titles, strict=True))[work]


def count_requests(races: Arrays) -> None:
    """Count requests and bytes on every server.

    The result has by server and by task a ``title`` and ``found``: for each contender the requests
    and the bytes of opening, or of reading through an open handle.
    """
    counts: dict[str, Any] = {}
    for server in races.servers:
        races.say(f"requests, {server}")
        by_work: dict[str, Any] = {
            work: {"title": title_of(work, races.setting), "found": {}} for work in WORK
        }
        for one in races.contenders:
            if server not in one.servers:
                continue
            races.count(one, server, OPEN)  # makes its clients
            opened = races.count(one, server, OPEN)
            by_work[OPEN]["found"][one.name] = opened
            for work in one.works:
                if work != OPEN:
                    both = races.count(one, server, work)
                    more = [total - before for total, before in zip(both, opened, strict=True)]
                    by_work[work]["found"][one.name] = more
        counts[server] = by_work
    races.found[COUNTS] = counts


def time_requests(races: Arrays) -> None:
    """Time each task on S3 that is slow to answer."""
    for work in WORK:
        title = title_of(work, races.setting, is_timed=True)
        key, nbytes = ("whole", races.array.nbytes) if work == WHOLE else (f"time/{work}", 0)
        races.race(Case(key, title, nbytes), S3, work)


def race_dask(races: Arrays) -> None:
    """Write and read arrays of blocks."""
    setting = races.setting
    source = races.folder / "source.npy"
    np.save(source, signal(setting.dask_nbytes, "f4").reshape(-1, blocks.ROW_NBYTES // 4))
    for where in setting.schedulers:
        with blocks.scheduler(where):
            for codec in setting.codecs:
                blocks.race(races, source, codec, where)
    source.unlink()


BENCHMARK = Benchmark(
    Arrays,
    {"requests": count_requests, "times": time_requests, "dask": race_dask},
    SETTINGS,
)
