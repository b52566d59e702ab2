"""Ingest: folders of JPEG images become a Gulp directory or a frame store, by two processes."""

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from race.races import Case, remove, require_equal
from race.timing import Loop, timed_loop

import bloscpack as bp
from bloscpack.frames import listing
from bloscpack.media import image
from frames.contenders import GULP_SOURCE, GULPIO2
from frames.data import encode_frames, jpeg_pixels

if TYPE_CHECKING:
    from frames.cases import Clips

WORKERS = 2
OURS_STORE = "bloscpack, frame store"
OURS_GULP = "bloscpack.gulp, images as they are"
OURS_GULP_AGAIN = "bloscpack.gulp, encoded again"
_ITEMS_PER_CHUNK = 4

Ingest = Callable[[Path], object]


def race_ingest(races: "Clips") -> None:
    """Ingest a folder of folders of images."""
    clip = races.clips[0]
    images = encode_frames(clip.frames)
    root, table = races.folder / "images", races.folder / "images.csv"
    ids = [f"clip_{number:03d}" for number in range(races.setting.ningested)]
    for key in ids:
        (root / key).mkdir(parents=True)
        for number, data in enumerate(images):
            (root / key / f"{number:05d}.jpg").write_bytes(data)
    table.write_text("".join(f"{key};label\n" for key in ids), "ascii")
    once = jpeg_pixels(clip.frames)
    # GulpIO2 decodes with Pillow, slower and more exactly, and encodes that.
    again = jpeg_pixels(np.stack([image.decode(data, fast=False) for data in images]))
    ways: dict[str, tuple[Ingest, np.ndarray]] = {}
    if races.has(GULPIO2):
        ways[GULPIO2] = (lambda target: by_gulpio2(table, root, target), again)
    ways[OURS_STORE] = (lambda target: to_store(root, target), once)
    if races.has(GULP_SOURCE):
        ways[OURS_GULP] = (lambda target: to_gulp(table, root, target, keep=True), once)
        ways[OURS_GULP_AGAIN] = (lambda target: to_gulp(table, root, target, keep=False), again)
    for name, (ingest, wanted) in ways.items():
        target = races.folder / f"ingested by {name}"
        ingest(target)
        with bp.frames.open(target) as source:
            for key in (ids[0], ids[-1]):
                require_equal(source[key].read(), wanted, name, f"{key} after ingest")
        remove(target)
    case = Case("ingest", f"ingest of {len(ids)} clips of {len(images)} JPEG images", 0)
    loops = {name: _loop(races.folder / "ingested", ingest) for name, (ingest, _) in ways.items()}
    races.hold(case, loops, len(ids) * len(images), min(5, races.setting.nrounds))
    remove(root)


def _loop(target: Path, ingest: Ingest) -> Loop:
    return timed_loop(lambda: ingest(target), after=lambda: remove(target))


def by_gulpio2(table: Path, root: Path, target: Path) -> None:
    from gulpio2 import GulpIngestor as Ingestor
    from gulpio2.adapters import Custom20BNCsvJpegAdapter as Adapter

    target.mkdir()
    adapter = Adapter(str(table), str(root), str(target))
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere), redirect_stdout(nowhere):
        Ingestor(adapter, str(target), _ITEMS_PER_CHUNK, WORKERS)()


def to_gulp(table: Path, root: Path, target: Path, *, keep: bool) -> None:
    from bloscpack.gulp import GulpIngestor
    from bloscpack.gulp.adapters import Custom20BNCsvJpegAdapter

    target.mkdir()
    adapter = Custom20BNCsvJpegAdapter(str(table), str(root), str(target), keep_jpegs=keep)
    GulpIngestor(adapter, target, _ITEMS_PER_CHUNK, WORKERS)()


def to_store(root: Path, target: Path) -> None:
    report = bp.frames.ingest(listing.folders(root), target, codec="jpeg", workers=WORKERS)
    if report.skipped:
        sys.exit(f"frames were skipped: {report.skipped[0]}")
