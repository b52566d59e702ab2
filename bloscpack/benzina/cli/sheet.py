"""Thumbnails of a dataset, for ``blpk sheet``."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

from ...plugin import ByteSource, FileType, Tiles, UsageError, add_option, open_clip_tiles, spread
from .datasets import THUMB, TRACKS, add_splits, choose, open_dataset

# More than a person can look at, and every picture has to be decoded.
_MAX_SELECTED = 10_000
_TILE_WIDTH = 240


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``blpk bzna sheet``."""
    add_option(
        parser,
        "--track",
        "show the thumbnails or the pictures (default: thumb)",
        choices=tuple(TRACKS),
    )
    add_splits(parser)


@contextmanager
def open_tiles(
    args: argparse.Namespace, filetype: FileType, source: ByteSource, inner: str
) -> Iterator[Tiles]:
    """Open the thumbnails of a dataset, or with a name the picture of one sample."""
    track, split, splits = (getattr(args, each, None) for each in ("track", "split", "splits"))
    if inner:
        if track or split or splits:
            raise UsageError("--track, --split and --splits are for samples without a name")
        with open_clip_tiles(args, filetype, source, inner) as tiles:
            yield tiles
        return
    with open_dataset(args.file_, args.nthreads, splits=splits, source=source) as dataset:
        samples = choose(dataset, args)
        count = len(samples)
        positions = spread(count) if args.select is None else list(range(count))
        if len(positions) > _MAX_SELECTED:
            raise UsageError(f"--select: {len(positions)} samples; at most {_MAX_SELECTED} fit")
        track = TRACKS.get(track or "", THUMB)
        frames = (sample.decode(track) for sample in samples.samples(positions))
        numbers = [samples.indices[position] for position in positions]
        yield Tiles(frames, numbers, "samples", _TILE_WIDTH)
