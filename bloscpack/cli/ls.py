"""``blpk ls``: list files, one line per file."""

import argparse
from typing import Any

from ..array.arraymetadata import chunk_shape, describe_content
from ..container.reader import Container
from ..filetypes.table import ARRAYS
from ..storage.protocol import errors_at
from ..storage.url import shown_name
from .commands import command_module
from .console.describe import array_fields, is_array
from .console.inputfile import check_input, open_bloscpack
from .console.options import add_json_option
from .console.output import error, print_json, printable, result
from .console.status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe

_EMPTY = dict.fromkeys(
    (
        "kind",
        "shape",
        "dtype",
        "order",
        "chunks",
        "nchunks",
        "nbytes",
        "cbytes",
        "ratio",
        "checksum",
        "format_version",
    )
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Print for each file: shape, dtype, shape of a chunk, decoded bytes, stored "
        "bytes, ratio, checksum and name. A file without array metadata has the dtype 'bytes'. "
        "The shape of a frame store is that of all its frames."
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Bloscpack file, - for standard input"
    )
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """List each file."""
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in args.files:
        code, message = ExitCode.OK, None
        about: dict[str, Any] = dict(_EMPTY)
        try:
            check_input(name, "file")
            about.update(_describe(name))
        except EXPECTED as err:
            code, message = exit_code(err), describe(err)
            error(message)
        if code == ExitCode.OK and not args.json:
            result(_line(name, about))
        codes.append(code)
        documents.append(
            {"path": shown_name(name), "status": STATUS_NAMES[code], **about, "error": message}
        )
    if args.json:
        print_json("ls", {"files": documents})
    return most_severe(codes)


def _describe(name: str) -> dict[str, Any]:
    filetype, source = open_bloscpack(name)
    if filetype is not ARRAYS:
        entry: dict[str, Any] = command_module(f"{filetype.name}.ls").entry(source)
        return entry
    with Container(source) as container, errors_at(container.name):
        dtype, shape, is_fortran = describe_content(container)
        chunks = chunk_shape(container, (dtype, shape, is_fortran))
        cbytes = source.size()
        return {
            "kind": "array" if is_array(container.metadata) else "bytes",
            **array_fields(shape, dtype, is_fortran),
            "chunks": None if chunks is None else list(chunks),
            "nchunks": container.nchunks,
            "nbytes": container.nbytes,
            "cbytes": cbytes,
            "ratio": container.nbytes / cbytes,
            "checksum": container.header.checksum.name,
            "format_version": container.header.format_version,
        }


def _line(name: str, about: dict[str, Any]) -> str:
    dtype = about["dtype"] or "various"
    if about["kind"] == "bytes":
        dtype = "bytes"
    columns = (
        f"{_shape_text(about['shape']):<14}",
        f"{dtype.replace(' ', ''):<6}",
        f"{_shape_text(about['chunks']):<14}",
        f"{about['nbytes']:>11}",
        f"{about['cbytes']:>11}",
        f"{about['ratio']:>8.2f}",
        f"{about['checksum']:<8}",
        shown_name(name),
    )
    return printable("  ".join(columns))


def _shape_text(shape: list[int] | None) -> str:
    """Return a shape without blanks: ``10x3``, ``()`` for zero dimensions, ``-`` for None."""
    if shape is None:
        return "-"
    return "x".join(map(str, shape)) or "()"
