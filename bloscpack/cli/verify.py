"""``blpk verify``: check every chunk of files."""

import argparse
from typing import Any

from ..report import Damage, Report
from ..report import verify as verify_file
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
            code, document = _verify(name, args.nthreads, progress, is_text=not args.json)
        codes.append(code)
        documents.append(document)
    if args.json:
        print_json("verify", {"files": documents})
    return heaviest(codes)


def _verify(
    name: str, nthreads: int | None, progress: Progress, *, is_text: bool
) -> tuple[ExitCode, dict[str, Any]]:
    """Verify one file; return its exit code and its JSON entry."""
    report: Report | None = None
    message: str | None = None
    try:
        check_input(name, "file")
        report = verify_file(read_any(name), nthreads=nthreads, progress=progress)
        code = ExitCode.OK if report.ok else ExitCode.DAMAGED
        if is_text:
            for line in map(_damage_text, report.damage) if report.damage else ["ok"]:
                result(printable(f"{name}: {line}"))
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
        "damage": [] if report is None else [_damage_document(one) for one in report.damage],
        "error": message,
    }


def _damage_text(damage: Damage) -> str:
    if damage.first is None:
        return damage.what
    return f"{damage.what} (lost: decoded bytes {damage.first} to {damage.last})"


def _damage_document(damage: Damage) -> dict[str, Any]:
    return {
        "what": damage.what,
        "index": damage.index,
        "offset": damage.offset,
        "first": damage.first,
        "last": damage.last,
    }
