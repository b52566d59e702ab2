"""``blpk log``: list the versions of a file."""

import argparse

from ..filetypes.versions import versions
from ..storage.url import shown_name
from .console.describe import dtype_text, shape_text
from .console.inputfile import check_input, one_input, readable
from .console.options import add_json_option
from .console.output import is_for_people, print_json, results
from .console.status import ExitCode, UsageError
from .console.table import plain_table, size_text, table_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "List the versions of a file that can be read, the newest last: their number, time, shape, "
        "dtype, and the stored bytes that no later version uses."
    )
    parser.add_argument("file_", metavar="FILE", help="file or URL, - for standard input")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """List them."""
    place = one_input(args.file_)
    if place.inner:
        raise UsageError(f"versions are those of a whole file, not of a part: '{place}'")
    check_input(place, "file")
    found = versions(readable(place).path)
    times = [
        None if each.time is None else each.time.isoformat(timespec="milliseconds")
        for each in found
    ]
    if args.json:
        documents = [
            {
                "number": each.number,
                "time": time,
                "shape": each.shape,
                "dtype": dtype_text(each.dtype),
                "nbytes": each.nbytes,
                "cbytes": each.cbytes,
            }
            for each, time in zip(found, times, strict=True)
        ]
        print_json("log", {"path": shown_name(args.file_), "versions": documents})
        return ExitCode.OK
    is_table = is_for_people(args)
    size = size_text if is_table else str
    rows = [
        (
            str(each.number),
            time or "-",
            shape_text(each.shape),
            dtype_text(each.dtype),
            size(each.cbytes),
        )
        for each, time in zip(found, times, strict=True)
    ]
    make = table_text if is_table else plain_table
    names = ("version", "time", "shape", "dtype", "stored")
    results(make(names, rows, right=("version", "stored")))
    return ExitCode.OK
