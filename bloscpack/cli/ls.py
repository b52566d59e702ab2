"""``blpk ls``: list files, one line per file."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from ..array.arraymetadata import chunk_shape, describe_content
from ..container.reader import Container
from ..filetypes.table import ARCHIVES, ARRAYS, FILETYPES, FileType
from ..format.metadata import describes_array
from ..storage.file import Place
from ..storage.protocol import ByteSource, errors_at
from ..storage.url import shown_name
from .commands import command_module
from .console.describe import array_fields, shape_text
from .console.inputfile import each_input, open_item
from .console.options import add_classic_option, add_files, add_json_option
from .console.output import error, is_for_people, print_json, printable, result, results
from .console.status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe

_EMPTY = dict.fromkeys(
    (
        *("kind", "shape", "dtype", "order", "chunks", "nchunks", "nbytes", "cbytes", "ratio"),
        *("checksum", "format_version", "count"),
    )
)

# In place of the dtype.
_DTYPES = {"bytes": "bytes"}
_DTYPES |= {kind: text for each in FILETYPES for kind, text in each.dtypes.items()}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Print for each file: shape, dtype, shape of a chunk, decoded bytes, stored "
        "bytes, ratio, checksum and name. A file without array metadata has the dtype 'bytes'. "
        "The shape of a frame store is that of all its frames. Each array of an archive has a "
        "line. Other folders, recordings and datasets have the number of their frames, records or "
        "samples in place of the shape."
    )
    add_files(parser)
    add_json_option(parser)
    add_classic_option(parser)


def run(args: argparse.Namespace) -> int:
    """List each file."""
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    table: list[tuple[str, dict[str, Any]]] | None = [] if is_for_people(args) else None
    for file in each_input(args.files):
        for name, about, err in _entries(file, str(file)):
            code, message = ExitCode.OK, None
            if err is not None:
                code, message = exit_code(err), describe(err)
                error(message)
            elif table is not None:
                table.append((name, about))
            elif not args.json:
                result(_line(name, about))
            codes.append(code)
            status = STATUS_NAMES[code]
            documents.append(
                {"path": shown_name(name), "status": status, **about, "error": message}
            )
    if args.json:
        print_json("ls", {"files": documents})
    if table:
        _print_table(table)
    return most_severe(codes)


def _entries(
    place: Place, name: str, member: ByteSource | None = None
) -> Iterator[tuple[str, dict[str, Any], Exception | None]]:
    """Yield the name of a file, or of each array of an archive, its JSON fields, and its error."""
    try:
        if member is not None:
            filetype, source = ARRAYS, member
        else:
            filetype, source, inner = open_item(place)
            if inner:
                about = command_module("cli.frames.ls").clip_entry(filetype, source, inner)
                yield name, {**_EMPTY, **about}, None
                return
        if filetype is ARCHIVES:
            from ..container.members import read_members  # on use: few have several arrays

            with closing(source), errors_at(source.name):
                members = read_members(source)
                for each in members.named:
                    yield from _entries(place, f"{name}::/{each}", members.open(each))
            return
        about = _describe(filetype, source)
    except EXPECTED as err:
        yield name, dict(_EMPTY), err
    else:
        yield name, {**_EMPTY, **about}, None


def _describe(filetype: FileType, source: ByteSource) -> dict[str, Any]:
    if filetype is not ARRAYS:
        entry: dict[str, Any] = filetype.entry(source)
        return entry
    with Container.open(source) as container, errors_at(container.name):
        dtype, shape, is_fortran = describe_content(container)
        chunks = chunk_shape(container, (dtype, shape, is_fortran))
        cbytes = container.cbytes
        return {
            "kind": "array" if describes_array(container.metadata) else "bytes",
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
    shape, dtype, chunks, nbytes, cbytes, ratio, checksum, shown = _cells(name, about, str)
    return printable(
        f"{shape:<14}  {dtype:<6}  {chunks:<14}  {nbytes:>11}  {cbytes:>11}  {ratio:>8}  "
        f"{checksum:<8}  {shown}"
    )


def _print_table(files: list[tuple[str, dict[str, Any]]]) -> None:
    from .console.table import size_text, table_text  # on use: only for terminals

    names = ("shape", "dtype", "chunk", "decoded", "stored", "ratio", "checksum", "name")
    rows = (_cells(name, about, size_text) for name, about in files)
    results(table_text(names, rows, right=("decoded", "stored", "ratio")))


def _cells(name: str, about: dict[str, Any], size: Callable[[int], str]) -> tuple[str, ...]:
    """Return the texts of a file, with its sizes as `size` shows them."""
    count = about["count"]
    dtype = _DTYPES.get(about["kind"]) or about["dtype"] or "various"
    return (
        shape_text(about["shape"] if count is None else [count]),
        dtype.replace(" ", ""),
        shape_text(about["chunks"]),
        "-" if about["nbytes"] is None else size(about["nbytes"]),
        "-" if about["cbytes"] is None else size(about["cbytes"]),
        "-" if about["ratio"] is None else format(about["ratio"], ".2f"),
        about["checksum"] or "-",
        shown_name(name),
    )
