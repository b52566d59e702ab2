"""``blpk recover``: save the intact chunks of a damaged file to a new one."""

import argparse

from ..filetypes.recover import recover as recover_file
from ..filetypes.table import FILETYPES
from ..storage.protocol import closed_on_error
from .console.inputfile import one_input, open_whole
from .console.options import STDIO, add_force_option, add_json_option, series
from .console.output import Console, binary_stdout, print_json, printable, result
from .console.outputfile import check_output
from .console.reports import report_code, report_document
from .console.status import STATUS_NAMES, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parts = (f"of {each.kind.name} the {each.unit}s" for each in FILETYPES if each.unit != "chunk")
    parser.description = (
        "Write a new file with every intact chunk of a damaged or truncated one, and report what "
        f"is missing. {series('Of a frame store the intact clips are saved', *parts)}."
    )
    parser.add_argument(
        "source", metavar="SRC", help="damaged file, folder or URL; - for standard input"
    )
    parser.add_argument("target", metavar="DST", help="file to write, - for standard output")
    add_force_option(parser, "overwrite DST if it exists")
    add_json_option(parser)


def run(args: argparse.Namespace) -> int:
    """Recover."""
    console = Console(args)
    place = one_input(args.source)
    if args.json and args.target == STDIO:
        raise UsageError("--json and DST cannot both use standard output")
    filetype, source = open_whole(place, "recovered")
    with closed_on_error(source):
        if args.target == STDIO and filetype.needs_path:
            raise UsageError(f"DST of {filetype.kind.name} must be a path, not '-'")
        if not filetype.is_folder:
            check_output(args.target, [place], console, force=args.force)
    with console.progress() as progress:
        report = recover_file(
            source,
            binary_stdout() if args.target == STDIO else args.target,
            nthreads=args.nthreads,
            progress=progress,
        )
    code = report_code(report)
    if args.json:
        document = {
            "path": place.shown,
            "target": args.target,
            "status": STATUS_NAMES[code],
            "saved": report.saved,
            **report_document(report),
        }
        print_json("recover", document)
        return code
    show = console.note if args.target == STDIO else result
    saved = f"{report.saved} of {report.nchunks} {filetype.unit}s saved"
    show(printable(f"{place.shown}: {saved}"))
    for line in (*map(str, report.damage), *report.notices):
        show(printable(f"{place.shown}: {line}"))
    return code
