"""Output of an array by a command: as plain bytes, .npy, text or an image."""

import argparse
import os
import warnings
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy

from ...media import image
from ...storage.protocol import ByteSink
from ...types import AnyArray
from .arraytext import text_lines
from .options import STDIO, add_option
from .output import printable
from .status import UsageError


def add_output_options(parser: argparse.ArgumentParser) -> argparse._MutuallyExclusiveGroup:
    """Add the options for the output file and its form; return the group of the forms."""
    add_option(
        parser,
        "-o, --output OUT_FILE",
        "file to write, in the format of its suffix: .npy, .txt, .png, .jpg; plain bytes "
        "with .raw, .bin or without a suffix (default: standard output)",
        default=STDIO,
    )
    kind = parser.add_mutually_exclusive_group()
    add_option(kind, "--npy", "write .npy format")
    add_option(kind, "--text", "write text, as numpy prints it")
    return kind


def form_of(args: argparse.Namespace) -> str:
    """Return the form of the output: "npy", "text", "png", "jpeg" or "raw"."""
    if args.npy or args.text:
        return "npy" if args.npy else "text"
    suffix = os.path.splitext(args.output)[1].lower()
    if suffix not in _FORMS:
        raise UsageError(
            f"'{args.output}': cannot write {suffix} files; the suffix may be .npy, .txt, .png "
            "or .jpg, or .raw for plain bytes"
        )
    return _FORMS[suffix]


def check_suffix(name: str, kind: str) -> None:
    """Refuse to write a "png" or "jpeg" image to a file with the suffix of another format."""
    suffix = os.path.splitext(name)[1].lower()
    if suffix and _FORMS.get(suffix) != kind:
        raise UsageError(f"'{name}': this is a {kind.upper()} image; name the file *.{kind}")


_FORMS = {
    **dict.fromkeys(("", ".bin", ".raw"), "raw"),
    ".npy": "npy",
    ".txt": "text",
    ".png": "png",
    **dict.fromkeys((".jpg", ".jpeg"), "jpeg"),
}


IMAGES = ("png", "jpeg")  # forms of one picture


class Part(Protocol):
    """Array to be written, read as a whole or, if it is large, in pieces."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the whole array."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the items."""

    @property
    def nbytes(self) -> int:
        """Decoded bytes of the whole array."""

    @property
    def is_large(self) -> bool:
        """Whether the array is read in pieces."""

    def read(self) -> AnyArray:
        """Return the whole array."""

    def pieces(self) -> Iterator[AnyArray]:
        """Yield pieces of a large array, in C order."""


class Whole:
    """Array in memory, as a `Part`."""

    is_large = False

    def __init__(self, array: AnyArray) -> None:
        self._array = array
        self.shape, self.dtype, self.nbytes = array.shape, array.dtype, array.nbytes

    def read(self) -> AnyArray:
        """Return the array."""
        return self._array

    def pieces(self) -> Iterator[AnyArray]:
        """Yield the array."""
        yield self._array


def write_part(sink: ByteSink, part: Part, progress: Any, form: str) -> None:
    """Write an array in a form returned by `form_of`."""
    if form == "text":
        _write_text(sink, part)
    elif form == "npy":
        _write_npy(sink, part, progress)
    elif form in IMAGES:
        encode = image.encode_png if form == "png" else image.encode_jpeg
        sink.write(encode(part.read()))
    else:
        _write_pieces(sink, part, progress)


def _c_order_bytes(array: AnyArray) -> memoryview:
    if not array.nbytes:
        return memoryview(b"")
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _write_pieces(sink: ByteSink, part: Part, progress: Any) -> None:
    done = 0
    for piece in part.pieces() if part.is_large else (part.read(),):
        data = _c_order_bytes(piece)
        sink.write(data)
        done += len(data)
        progress(done, part.nbytes)


def _write_npy(sink: ByteSink, part: Part, progress: Any) -> None:
    header = _npy_header(part) if part.is_large else None
    if header is not None:
        sink.write(header)
        _write_pieces(sink, part, progress)
        return
    with warnings.catch_warnings():
        # numpy warns about versions 2.0 and 3.0 of the format, which long dtypes need.
        warnings.simplefilter("ignore", UserWarning)
        npy.write_array(sink, part.read(), allow_pickle=False)  # which only calls `write`


def _npy_header(part: Part) -> bytes | None:
    """Return the header of an .npy file, or None if version 1.0 of the format is not enough."""
    buffer = BytesIO()
    fields = {"descr": npy.dtype_to_descr(part.dtype), "fortran_order": False, "shape": part.shape}
    try:
        npy.write_array_header_1_0(buffer, fields)
    except ValueError:
        return None
    return buffer.getvalue()


def _write_text(sink: ByteSink, part: Part) -> None:
    pieces = part.pieces if part.is_large else partial(iter, (part.read(),))
    for line in text_lines(part.shape, pieces):
        sink.write(f"{printable(line)}\n".encode("utf-8", "backslashreplace"))
