"""``blpk set``: change items of an array."""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from ..array.array import Array
from ..filetypes.open import open as open_array
from .console.inputfile import check_input, one_input
from .console.selection import parse_selection_text
from .console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Set the items of a selection, in one step. The file becomes one of format version 4, "
        "which bloscpack 0.16 refuses; 'blpk compact' makes one of version 3 again."
    )
    parser.add_argument(
        "file_", metavar="FILE", help="file of an array, or FILE::/NAME, an array of an archive"
    )
    parser.add_argument(
        "selection",
        metavar="SELECTION",
        help="a numpy index of integers, slices and ..., like '10:20,::2'",
    )
    parser.add_argument(
        "value",
        metavar="VALUE",
        help="JSON: a number, a list of numbers, or a text in quotes; or a .npy file. It is "
        "broadcast to the selection",
    )


def run(args: argparse.Namespace) -> int:
    """Set the items."""
    place = one_input(args.file_)
    check_input(place.whole, "file")
    index, value = parse_selection_text(args.selection), _value(args.value)
    with open_array(place, "r+", nthreads=args.nthreads) as array:
        if not isinstance(array, Array):
            raise UsageError(f"'{place}' is an archive: name one of its arrays, '{place}::/NAME'")
        try:
            array[index] = value
        except (IndexError, TypeError) as err:
            raise ValueError(f"{err}; the array is {array.dtype} of shape {array.shape}") from None
    return ExitCode.OK


def _value(text: str) -> Any:
    if text.endswith(".npy"):
        with Path(text).open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    try:
        return json.loads(text)
    except ValueError:
        raise UsageError(f"VALUE '{text}' is not JSON, and not the name of a .npy file") from None
