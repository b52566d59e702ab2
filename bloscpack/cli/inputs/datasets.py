"""Benzina datasets for commands: open one by name, select samples by options.

The modules that read datasets are imported on use, as most commands do not need them.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...exceptions import BloscpackError, FormatError, NotBloscpackError, WrongKindError
from ...filetypes.open import is_benzina
from ...storage.url import shown_name
from ..console.endpoint import STDIO, check_input, readable
from ..console.options import Container
from ..console.selection import parse_range

if TYPE_CHECKING:
    from ...benzina.dataset import Dataset

INPUT, THUMB = "bzna_input", "bzna_thumb"
TRACKS = {"input": INPUT, "thumb": THUMB}
"""Tracks of a sample by the values of ``--track``."""


def is_dataset_name(name: str) -> bool:
    """Return whether `name` is a file, not standard input, and a Benzina dataset."""
    return name != STDIO and Path(name).is_file() and is_benzina(name)


@contextmanager
def open_dataset(
    name: str, nthreads: int | None, *, splits: str | None = None
) -> Iterator["Dataset"]:
    """Open a dataset.

    Raises
    ------
    FileNotFound
        The file does not exist.
    NotBloscpackError
        The file is not a Benzina dataset.
    BloscpackError, OSError
        The file cannot be opened.
    ValueError
        `splits` does not fit the dataset.
    """
    from ...benzina.dataset import open as open_file

    where = readable_dataset(name)
    try:
        dataset = open_file(where, splits=splits, nthreads=nthreads)
    except BloscpackError as err:
        err.at(path=shown_name(name))
        raise opening_error(name, where, err) from None
    with dataset:
        yield dataset


def readable_dataset(name: str) -> Any:
    """Return an argument for `open_source`.

    Raises
    ------
    FileNotFound
        The file does not exist.
    OSError
        The file cannot be read.
    """
    check_input(name, "file")
    return readable(name)


def opening_error(name: str, where: Any, error: BloscpackError) -> BloscpackError:
    """Return the error to raise for a file that could not be opened as a dataset.

    It is `NotBloscpackError` unless the file is recognised as a dataset.
    """
    if isinstance(error, WrongKindError):
        return error
    if isinstance(error, FormatError) and not is_benzina(where):
        return NotBloscpackError(f"not a Benzina dataset: {error.args[0]}", offset=error.offset).at(
            path=shown_name(name)
        )
    return error


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the dataset."""
    parser.add_argument("file_", metavar="FILE", help="Benzina dataset, - for standard input")


def add_selection(parser: Container) -> None:
    """Add the options that select samples; `choose` applies them."""
    parser.add_argument("--split", metavar="NAME", help="select only samples of this split")
    parser.add_argument(
        "--splits",
        choices=("imagenet",),
        help="definition of splits: imagenet is by position, with the last 100000 samples in test, "
        "the 50000 before in val, the others in train (default: the splits stored in the file)",
    )
    parser.add_argument(
        "--select",
        metavar="SAMPLES",
        help="a number or a range like 0:100, within the split (default: all)",
    )


def choose(dataset: "Dataset", args: argparse.Namespace) -> "Dataset":
    """Return a view of the samples that the options select.

    Raises
    ------
    NotFoundError
        The dataset does not have this split.
    UsageError
        The selection is neither a number nor a range.
    ValueError
        The number is out of range.
    """
    if args.split is not None:
        dataset = dataset.split(args.split)
    if args.select is None:
        return dataset
    return dataset[parse_range(args.select, len(dataset), "samples")]
