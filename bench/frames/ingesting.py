"""Ingest: folders of JPEG images become a Gulp directory or a frame store, by two processes."""

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from time import perf_counter

import numpy as np
from harness import Loop, take_turns
from races import Case, remove

import bloscpack as bp
from bloscpack.frames import listing
from bloscpack.gulp import GulpIngestor
from bloscpack.gulp.adapters import Custom20BNCsvJpegAdapter
from bloscpack.media import image
from frames.contender import GULPIO2
from frames.race import Bench, jpeg_pixels, require_frames
from frames.with_bloscpack import encode_frames

WORKERS = 2
OURS_STORE = "bloscpack, frame store"
OURS_GULP = "bloscpack.gulp, images as they are"
OURS_GULP_AGAIN = "bloscpack.gulp, encoded again"
_ITEMS_PER_CHUNK = 4

Ingest = Callable[[Path], object]


def race_ingest(bench: Bench) -> None:
    """Ingest a folder of folders of images."""
    clip = bench.clips[0]
    images = encode_frames(clip.frames)
    root, table = bench.folder / "images", bench.folder / "images.csv"
    ids = [f"clip_{number:03d}" for number in range(bench.setting.ningested)]
    for key in ids:
        (root / key).mkdir(parents=True)
        for number, data in enumerate(images):
            (root / key / f"{number:05d}.jpg").write_bytes(data)
    table.write_text("".join(f"{key};label\n" for key in ids), "ascii")
    once = jpeg_pixels(clip.frames)
    # GulpIO2 decodes with Pillow, slower and more exactly, and encodes that.
    again = jpeg_pixels(np.stack([image.decode(data, fast=False) for data in images]))
    ways: dict[str, tuple[Ingest, np.ndarray]] = {}
    if bench.has(GULPIO2):
        ways[GULPIO2] = (lambda target: by_gulpio2(table, root, target), again)
    ways[OURS_STORE] = (lambda target: to_store(root, target), once)
    ways[OURS_GULP] = (lambda target: to_gulp(table, root, target, keep=True), once)
    ways[OURS_GULP_AGAIN] = (lambda target: to_gulp(table, root, target, keep=False), again)
    for name, (ingest, wanted) in ways.items():
        target = bench.folder / f"ingested by {name}"
        ingest(target)
        with bp.frames.open(target) as source:
            for key in (ids[0], ids[-1]):
                require_frames(source[key].read(), wanted, name, f"{key} after ingest")
        remove(target)
    case = Case("ingest", f"ingest of {len(ids)} clips of {len(images)} JPEG images", 0)
    bench.say(case.title)
    case.skipped.update(dict.fromkeys(bench.absent, "not there"))
    loops = {name: _loop(bench.folder, ingest) for name, (ingest, _) in ways.items()}
    timings = take_turns(loops, len(ids) * len(images), min(5, bench.setting.nrounds))
    case.seconds = {name: list(timing.seconds) for name, timing in timings.items()}
    bench.cases.append(case)
    remove(root)


def _loop(folder: Path, ingest: Ingest) -> Loop:
    """Return the loop that ingests to a new place each time; removing it is not timed."""

    def loop(count: int) -> float:
        seconds = 0.0
        for _ in range(count):
            target = folder / "ingested"
            start = perf_counter()
            ingest(target)
            seconds += perf_counter() - start
            remove(target)
        return seconds

    return loop


def by_gulpio2(table: Path, root: Path, target: Path) -> None:
    """Let GulpIO2 ingest, its progress bar out of sight."""
    from gulpio2 import GulpIngestor as Ingestor
    from gulpio2.adapters import Custom20BNCsvJpegAdapter as Adapter

    target.mkdir()
    adapter = Adapter(str(table), str(root), str(target))
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere), redirect_stdout(nowhere):
        Ingestor(adapter, str(target), _ITEMS_PER_CHUNK, WORKERS)()


def to_gulp(table: Path, root: Path, target: Path, *, keep: bool) -> None:
    """Ingest by the same names; with `keep` images are stored as they are."""
    target.mkdir()
    adapter = Custom20BNCsvJpegAdapter(str(table), str(root), str(target), keep_jpegs=keep)
    GulpIngestor(adapter, target, _ITEMS_PER_CHUNK, WORKERS)()


def to_store(root: Path, target: Path) -> None:
    """Ingest the folders as clips of a frame store."""
    report = bp.frames.ingest(listing.folders(root), target, codec="jpeg", workers=WORKERS)
    if report.skipped:
        sys.exit(f"frames were skipped: {report.skipped[0]}")
