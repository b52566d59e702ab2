"""The kinds of work: counting requests, timing them, and Dask."""

from typing import Any

import numpy as np
from harness import signal
from races import Case

from remote import blocks
from remote.contender import CLIP, ITERATE, OPEN, ROW, ROWS, STRIDED, WORK
from remote.data import Setting
from remote.race import Bench
from remote.serving import S3

COUNTS = "counts"


def title_of(work: str, setting: Setting, *, is_timed: bool = False) -> str:
    """Return what a task does, in words."""
    npicked = setting.nfew if is_timed else setting.npicked
    niterated = setting.nnear if is_timed else setting.nrows
    return {
        OPEN: "open",
        ROW: "one row",
        ROWS: f"{npicked:,} rows at random",
        STRIDED: f"every {setting.step}th row",
        CLIP: f"{setting.nclip} rows in turn",
        ITERATE: f"iteration over {niterated:,} rows",
    }[work]


def count_requests(bench: Bench) -> None:
    """Count requests and bytes on every server.

    What is found is a dict: by server and by task, its ``title``, and ``found``, which has for each
    contender the requests and the bytes of opening, or of reading through an open handle.
    """
    counts: dict[str, Any] = {}
    for server in bench.servers:
        bench.say(f"requests, {server}")
        titles = {work: title_of(work, bench.setting) for work in WORK}
        by_work: dict[str, Any] = {
            work: {"title": title, "found": {}} for work, title in titles.items()
        }
        for one in bench.contenders:
            bench.count(one, server, OPEN)  # makes its clients
            opened = bench.count(one, server, OPEN)
            by_work[OPEN]["found"][one.name] = opened
            for work in one.works:
                if work != OPEN:
                    both = bench.count(one, server, work)
                    more = [total - before for total, before in zip(both, opened, strict=True)]
                    by_work[work]["found"][one.name] = more
        counts[server] = by_work
    bench.found[COUNTS] = counts


def time_requests(bench: Bench) -> None:
    """Time each task on S3 that is slow to answer."""
    for work in WORK:
        title = title_of(work, bench.setting, is_timed=True)
        bench.race(Case(f"time/{work}", title, 0), S3, work)


def race_dask(bench: Bench) -> None:
    """Write and read arrays of blocks."""
    setting = bench.setting
    source = bench.folder / "source.npy"
    np.save(source, signal(setting.dask_nbytes, "f4").reshape(-1, blocks.ROW_NBYTES // 4))
    for where in setting.schedulers:
        with blocks.scheduler(where):
            for codec in setting.codecs:
                blocks.race(bench, source, codec, where)
    source.unlink()
