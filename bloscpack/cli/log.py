"""``blpk log``: list the versions of a file."""

import argparse

from ..filetypes.versions import Version, versions
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
    if args.json:
        documents = [
            {**each._asdict(), "time": _time(each), "dtype": each.dtype and dtype_text(each.dtype)}
            for each in found
        ]
        print_json("log", {"path": shown_name(args.file_), "versions": documents})
        return ExitCode.OK
    is_table = is_for_people(args)
    rows = [
        (
            str(each.number),
            _time(each) or "-",
            shape_text(each.shape),
            f"{each.narrays} arrays" if each.dtype is None else dtype_text(each.dtype),
            size_text(each.cbytes) if is_table else str(each.cbytes),
        )
        for each in found
    ]
    names = ("version", "time", "shape", "dtype", "stored")
    make = table_text if is_table else plain_table
    results(make(names, rows, right=("version", "stored")))
    return ExitCode.OK


def _time(version: Version) -> str | None:
    return None if version.time is None else version.time.isoformat(timespec="milliseconds")
