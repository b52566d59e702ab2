"""``blpk cat``: write a selection of an array, or one chunk, to standard output or a file."""

import argparse
from collections.abc import Iterator
from math import prod

import numpy as np

from ..array.array import Array
from ..array.selection import parse_selection
from ..storage.url import shown_name
from ..types import AnyArray
from .console.arrayout import add_output_options, form_of, write_part
from .console.describe import dtype_text
from .console.inputfile import check_input, open_bloscpack
from .console.options import STDIO, add_json_option, count
from .console.output import Console, print_json
from .console.outputfile import check_output, open_output
from .console.selection import Index, parse_selection_text, strip_brackets
from .console.status import ExitCode, UsageError

# Larger selections are read and written in pieces of about this size, in bytes.
_PIECE_NBYTES = 32 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Write the items of a selection in C order, or the bytes of a chunk. "
        "A file without array metadata is an array of its bytes."
    )
    parser.add_argument("file_", metavar="FILE", help="Bloscpack file, - for standard input")
    parser.add_argument(
        "selection",
        metavar="SELECTION",
        nargs="?",
        help="a numpy index of integers, slices and ..., like '10:20,::2' (default: everything)",
    )
    parser.add_argument(
        "--chunk",
        metavar="N",
        type=count,
        help="chunk N, counted from 0, as a one-dimensional array of its items",
    )
    kind = add_output_options(parser)
    add_json_option(kind)


def run(args: argparse.Namespace) -> int:
    """Write the selection."""
    console = Console(args)
    if args.selection is not None and args.chunk is not None:
        raise UsageError("--chunk and SELECTION cannot be combined")
    index = () if args.selection is None else parse_selection_text(args.selection)
    check_input(args.file_, "file")
    if not args.json:
        is_safe = args.text and args.output == STDIO
        inputs = [args.file_]
        check_output(args.output, inputs, console, force=args.force or is_safe)
    form = form_of(args)
    with Array(open_bloscpack(args.file_)[1], nthreads=args.nthreads) as array:
        part = _Chunk(array, args.chunk) if args.chunk is not None else _Selected(array, index)
        if args.json:
            _print_shape(args, part)
            return ExitCode.OK
        with open_output(args.output, is_ordered=True) as sink, console.progress() as progress:
            write_part(sink, part, progress, form)
    return ExitCode.OK


class _Selected:
    """Selection of an array."""

    def __init__(self, array: Array, index: Index) -> None:
        self._array = array
        self._index = index
        try:
            self._ranges = parse_selection(index, array.shape).ranges
            self.shape = parse_selection(index, array.shape).shape
        except IndexError as err:
            raise ValueError(f"selection: {err}; the shape is {array.shape}") from None
        self.dtype = array.dtype
        self.nbytes = prod(self.shape) * self.dtype.itemsize

    @property
    def is_large(self) -> bool:
        """Whether to read in pieces; each piece of a Fortran-ordered array would decode it all."""
        long = len(self._ranges) > 0 and len(self._ranges[0]) > 1
        return self.nbytes > _PIECE_NBYTES and long and not self._array.is_fortran

    def read(self) -> AnyArray:
        """Return the whole selection."""
        return self._array.read(self._index)

    def pieces(self) -> Iterator[AnyArray]:
        """Yield pieces of the selection, in C order."""
        if not self.is_large:
            yield self.read()
            return
        rows, *others = self._ranges
        step = max(1, _PIECE_NBYTES * len(rows) // self.nbytes)
        chunk_rows = (self._array.chunks or (1,))[0]
        if rows.step == 1 and step > chunk_rows:
            # Pieces of whole chunks: no chunk is decoded twice if the selection starts at one.
            step -= step % chunk_rows
        rest = tuple(map(_slice_of, others))
        for start in range(0, len(rows), step):
            yield self._array.read((_slice_of(rows[start : start + step]), *rest))


class _Chunk:
    """Items of one chunk of an array."""

    is_large = False

    def __init__(self, array: Array, index: int) -> None:
        if index >= array.nchunks:
            raise ValueError(f"--chunk {index}: the file has {array.nchunks} chunks")
        data = array.read_chunk(index)
        whole = array.dtype.itemsize and not len(data) % array.dtype.itemsize
        self.dtype = array.dtype if whole else np.dtype(np.uint8)
        self._items: AnyArray = np.frombuffer(data, self.dtype)
        self.shape = self._items.shape
        self.nbytes = len(data)

    def read(self) -> AnyArray:
        """Return the items."""
        return self._items

    def pieces(self) -> Iterator[AnyArray]:
        """Yield the items."""
        yield self._items


_Part = _Selected | _Chunk


def _slice_of(indices: range) -> slice:
    """Return the slice that selects `indices`, none of which is negative."""
    stop = indices.stop if indices.stop >= 0 else None
    return slice(indices.start, stop, indices.step) if indices else slice(0, 0)


def _print_shape(args: argparse.Namespace, part: _Part) -> None:
    print_json(
        "cat",
        {
            "path": shown_name(args.file_),
            "selection": args.selection and strip_brackets(args.selection),
            "chunk": args.chunk,
            "shape": part.shape,
            "dtype": dtype_text(part.dtype),
            "nbytes": part.nbytes,
        },
    )
