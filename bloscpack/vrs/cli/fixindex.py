"""``blpk vrs fix-index``: rebuild the index of a recording."""

import argparse
from dataclasses import asdict

from ...plugin import (
    STATUS_NAMES,
    STDIO,
    Console,
    ExitCode,
    Place,
    UsageError,
    add_json_option,
    check_output,
    open_input,
    print_done,
    readable,
    shown_name,
)

_ACTIONS = {
    "none": "the index is correct, nothing was changed",
    "in place": "index written into the file",
    "rewritten": "replaced by a copy without the bytes that do not belong to records",
    "copied": "copied with an index",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Find all records by their headers and write an index of them into FILE or, with DST, "
        "into a new file. Even if the command is interrupted, all records can be found afterwards."
    )
    parser.add_argument(
        "file_", metavar="FILE", help="VRS file; no other program may be writing it"
    )
    parser.add_argument("target", metavar="DST", nargs="?", help="new file; FILE is not changed")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Repair, or copy; return 3 if records are missing."""
    from ..edit.indexrepair import fix_index

    console = Console(args)
    if STDIO in (args.target, args.file_) and (args.target in (None, STDIO)):
        raise UsageError("an index can only be written into a file: give its name, not '-'")
    place = Place(args.file_)
    if args.file_ != STDIO:
        open_input(place, args.kinds)[1].close()  # refuses any other file
    # A file is repaired by its name, and a copy may be made from a pipe.
    where = args.file_ if args.target is None else readable(place).path
    if args.target is not None:
        check_output(args.target, [place], console, force=False)
    with console.progress() as progress:
        repair = fix_index(where, args.target, progress=progress)
    for note in repair.notes:
        console.note(f"{shown_name(args.file_)}: {note}")
    code = ExitCode.OK if repair.is_whole else ExitCode.DAMAGED
    document = {
        "path": shown_name(args.file_),
        "target": args.target,
        "status": STATUS_NAMES[code],
        **asdict(repair),
    }
    text = f"{_ACTIONS[repair.action]}: {repair.nrecords} records"
    print_done(args, "vrs fix-index", document, args.target or args.file_, text)
    return code
