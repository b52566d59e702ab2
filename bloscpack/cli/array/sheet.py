"""Slices of an array as pictures, for ``blpk sheet``."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ...array.array import Array
from ...container.reader import Container
from ...display.contactsheet import spread, width_of
from ...filetypes.table import FileType
from ...format.metadata import describes_array
from ...frames.protocol import frame_indices
from ...storage.protocol import ByteSource
from ...storage.url import shown_name
from ..frames.clips import parse_frames
from ..sheet import Tiles

_COLOURS = (3, 4)


@contextmanager
def open_tiles(
    args: argparse.Namespace, filetype: FileType, source: ByteSource, inner: str
) -> Iterator[Tiles]:
    """Open the slices along the first axis; an array of one picture is a single tile.

    That is an array of one or two axes, or of bytes with three or four channels in the third.
    """
    name = shown_name(args.file_)
    with Array(source, nthreads=args.nthreads) as array:
        if not describes_array(Container.open(source).metadata):
            raise ValueError(f"{name}: bytes, not an array, so there is no picture to make of it")
        if not array.shape or array.dtype.kind not in "biufcmM":
            raise ValueError(
                f"{name}: an array of {array.dtype} {array.shape} has no pictures; 'blpk cat' "
                "writes its items"
            )
        is_colour = array.ndim == 3 and array.shape[2] in _COLOURS and array.dtype == np.uint8
        if array.ndim < 3 or is_colour:
            yield Tiles([array[...]], [0], "pictures", width_of(array.shape))
            return
        selection = None if args.select is None else parse_frames(args.select)
        try:
            indices = frame_indices(selection, array.shape[0]).indices
        except IndexError as err:
            raise ValueError(f"{name}: slice of the first axis: {err}") from None
        numbers = spread(array.shape[0]) if selection is None else indices.tolist()
        slices = (array[number] for number in numbers)
        yield Tiles(slices, numbers, "slices", width_of(array.shape[1:]))
