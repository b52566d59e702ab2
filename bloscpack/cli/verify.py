"""``blpk verify``: check every chunk of files."""

import argparse
from typing import Any

from ..checking import verify as verify_file
from ..report import Report
from .describe import damage_documents
from .endpoint import check_input, read_any
from .options import Subparsers, add_command, add_json_option
from .output import Console, error, print_json, printable, result
from .progress import Progress
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, heaviest


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers,
        "verify",
        summary="check files for damage",
        description="Read and decode every chunk of each file and say what is damaged.",
    )
    parser.add_argument(
        "--fix",
        action="store_true",
        help="write a lost offset table or trailer anew where all data are sound",
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="+", help="Bloscpack file, - for standard input"
    )
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Verify each file."""
    console = Console(args)
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in args.files:
        with console.progress() as progress:
            code, document = _verify(
                console, name, args.nthreads, progress, fix=args.fix, is_text=not args.json
            )
        codes.append(code)
        documents.append(document)
    if args.json:
        print_json("verify", {"files": documents})
    return heaviest(codes)


def _verify(
    console: Console,
    name: str,
    nthreads: int | None,
    progress: Progress,
    *,
    fix: bool,
    is_text: bool,
) -> tuple[ExitCode, dict[str, Any]]:
    """Verify one file; return its exit code and its JSON entry."""
    report: Report | None = None
    message: str | None = None
    try:
        check_input(name, "file")
        report = verify_file(read_any(name), nthreads=nthreads, progress=progress, fix=fix)
        code = ExitCode.OK if report.ok else ExitCode.DAMAGED
        if is_text:
            for line in map(str, report.damage) if report.damage else ["ok"]:
                result(printable(f"{name}: {line}"))
            for line in report.notices:
                console.note(f"{name}: {line}")
    except BrokenPipeError:
        raise
    except EXPECTED as err:
        code, message = exit_code(err), describe(err)
        error(message)
    return code, {
        "path": name,
        "status": STATUS_NAMES[code],
        "nchunks": report and report.nchunks,
        "nbytes": report and report.nbytes,
        "trailer": report and report.trailer,
        "damage": [] if report is None else damage_documents(report),
        "notices": [] if report is None else report.notices,
        "error": message,
    }
