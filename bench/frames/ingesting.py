"""Ingest: folders of JPEG images become a Gulp directory or a frame store, by two processes."""

import os
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from race.races import Case, remove, require_equal
from race.timing import timed_loop

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
        ways[GULPIO2] = (partial(to_gulp, "gulpio2", table, root), again)
    ways[OURS_STORE] = (partial(to_store, root), once)
    if races.has(GULP_SOURCE):
        ours = partial(to_gulp, "bloscpack.gulp", table, root)
        ways[OURS_GULP] = (partial(ours, keep_jpegs=True), once)
        ways[OURS_GULP_AGAIN] = (partial(ours, keep_jpegs=False), again)
    for name, (ingest, wanted) in ways.items():
        target = races.folder / f"ingested by {name}"
        ingest(target)
        with bp.frames.open(target) as source:
            for key in (ids[0], ids[-1]):
                require_equal(source[key].read(), wanted, name, f"{key} after ingest")
        remove(target)
    case = Case("ingest", f"ingest of {len(ids)} clips of {len(images)} JPEG images", 0)
    target = races.folder / "ingested"
    loops = {
        name: timed_loop(partial(ingest, target), after=partial(remove, target))
        for name, (ingest, _) in ways.items()
    }
    races.hold(case, loops, len(ids) * len(images), min(5, races.setting.nrounds))
    remove(root)


def to_gulp(library: str, table: Path, root: Path, target: Path, **options: bool) -> None:
    """Ingest with GulpIO2, or with our module of its names, which takes more options."""
    target.mkdir()
    make_adapter = import_module(f"{library}.adapters").Custom20BNCsvJpegAdapter
    adapter = make_adapter(str(table), str(root), str(target), **options)
    ingest = import_module(library).GulpIngestor(adapter, str(target), _ITEMS_PER_CHUNK, WORKERS)
    with Path(os.devnull).open("w") as nowhere, redirect_stderr(nowhere), redirect_stdout(nowhere):
        ingest()


def to_store(root: Path, target: Path) -> None:
    report = bp.frames.ingest(listing.folders(root), target, codec="jpeg", workers=WORKERS)
    if report.skipped:
        sys.exit(f"frames were skipped: {report.skipped[0]}")
