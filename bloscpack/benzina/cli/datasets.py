"""Benzina datasets for commands: open one by name, select samples by options.

The modules that read datasets are imported on use, as most commands do not need them.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...plugin import (
    ByteSource,
    Container,
    add_option,
    errors_at,
    one_input,
    open_input,
    parse_range,
    shown_name,
)

if TYPE_CHECKING:
    from ..dataset import Dataset

INPUT, THUMB = "bzna_input", "bzna_thumb"
TRACKS = {"input": INPUT, "thumb": THUMB}
"""Tracks of a sample by the values of ``--track``."""


@contextmanager
def open_dataset(
    name: str, nthreads: int | None, *, splits: str | None = None, source: ByteSource | None = None
) -> Iterator["Dataset"]:
    """Open a dataset; `source` is its open file, if it was opened and identified."""
    from ..dataset import open as open_file

    if source is None:
        source = open_input(one_input(name), ("bzna",))[1]
    with (
        errors_at(shown_name(name)),
        open_file(source, splits=splits, nthreads=nthreads) as dataset,
    ):
        yield dataset


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the dataset."""
    parser.add_argument("file_", metavar="FILE", help="Benzina dataset, - for standard input")


def add_splits(parser: Container) -> None:
    """Add the options that select samples of a split; `choose` applies them."""
    add_option(parser, "--split NAME", "select only samples of this split")
    add_option(
        parser,
        "--splits",
        "definition of splits: imagenet is by position, with the last 100000 samples in test, "
        "the 50000 before in val, the others in train (default: the splits stored in the file)",
        choices=("imagenet",),
    )


def add_selection(parser: Container) -> None:
    """Add the options that select samples; `choose` applies them."""
    add_splits(parser)
    add_option(
        parser,
        "--select SAMPLES",
        "a number or a range like 0:100, within the split (default: all)",
    )


def choose(dataset: "Dataset", args: argparse.Namespace) -> "Dataset":
    """Return a view of the samples that the options select."""
    if (name := getattr(args, "split", None)) is not None:  # not an option of `blpk sheet`
        dataset = dataset.split(name)
    return dataset[parse_range(args.select, len(dataset), "samples")]
