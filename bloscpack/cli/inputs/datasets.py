"""Benzina datasets for commands: one from a name, and samples of it from options.

What reads them is imported on use: ``blpk`` starts without it.
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
from ..console.selection import parse_selection_text
from ..console.status import UsageError

if TYPE_CHECKING:
    from ...benzina.dataset import Dataset

INPUT, THUMB = "bzna_input", "bzna_thumb"
TRACKS = {"input": INPUT, "thumb": THUMB}
"""Which picture of a sample, as the options call it."""


def is_dataset_name(name: str) -> bool:
    """Return whether a file, not standard input, is a Benzina dataset."""
    return name != STDIO and Path(name).is_file() and is_benzina(name)


@contextmanager
def open_dataset(
    name: str, nthreads: int | None, *, splits: str | None = None
) -> Iterator["Dataset"]:
    """Open a dataset.

    Raises
    ------
    FileNotFound
        It is not there.
    NotBloscpackError
        It is something else.
    BloscpackError, OSError
        It cannot be opened.
    ValueError
        The splits do not fit it.
    """
    from ...benzina.dataset import open as open_file

    where = readable_dataset(name)
    try:
        dataset = open_file(where, splits=splits, nthreads=nthreads)
    except BloscpackError as err:
        err.path = shown_name(name)
        raise refused(name, where, err) from None
    with dataset:
        yield dataset


def readable_dataset(name: str) -> Any:
    """Return what `open_source` takes.

    Raises
    ------
    FileNotFound
        It is not there.
    OSError
        It cannot be read.
    """
    check_input(name, "file")
    return readable(name)


def refused(name: str, where: Any, error: BloscpackError) -> BloscpackError:
    """Return the error for what could not be opened: of another kind, unless it says it is one."""
    if isinstance(error, WrongKindError):
        return error
    if isinstance(error, FormatError) and not is_benzina(where):
        foreign = NotBloscpackError(f"not a Benzina dataset: {error.args[0]}", offset=error.offset)
        foreign.path = shown_name(name)
        return foreign
    return error


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the name of a dataset."""
    parser.add_argument("file_", metavar="FILE", help="Benzina dataset, - for standard input")


def add_selection(parser: Container) -> None:
    """Add what chooses samples; `choose` takes it up."""
    parser.add_argument("--split", metavar="NAME", help="only samples of this split")
    parser.add_argument(
        "--splits",
        choices=("imagenet",),
        help="which samples splits have: imagenet is by position, the last 100000 test, the 50000 "
        "before val, the rest train (default: as the file says)",
    )
    parser.add_argument(
        "--select",
        metavar="SAMPLES",
        help="of those, a number or a range like 0:100 (default: all)",
    )


def choose(dataset: "Dataset", args: argparse.Namespace) -> "Dataset":
    """Return the samples that the options choose, as a view.

    Raises
    ------
    NotFoundError
        There is no such split.
    UsageError
        The selection is none.
    ValueError
        There is no such sample.
    """
    if args.split is not None:
        dataset = dataset.split(args.split)
    if args.select is None:
        return dataset
    index = parse_selection_text(args.select)
    if len(index) != 1 or index[0] is ...:
        raise UsageError(f"selection '{args.select}': samples are a number or one range")
    if isinstance(index[0], slice):
        return dataset[index[0]]
    number = int(index[0])
    if not -len(dataset) <= number < len(dataset):
        raise ValueError(f"selection '{args.select}': there are {len(dataset)} samples")
    return dataset[number : number + 1 or None]
