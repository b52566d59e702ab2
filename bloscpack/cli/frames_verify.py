"""``blpk frames verify``: read every frame of sources of clips."""

import argparse
from typing import Any

from ..frames.scan import Fault, scan
from .clips import open_clips
from .options import Subparsers, add_command, add_json_option
from .output import Console, error, print_json, printable, result
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, heaviest


def add_parser(subparsers: Subparsers) -> None:
    """Add the command."""
    parser = add_command(
        subparsers,
        "verify",
        summary="check clips for damage",
        description="Read the metadata and every frame of every clip, and say what cannot be read.",
    )
    parser.add_argument("files", metavar="STORE", nargs="+", help="frame store or gulp directory")
    add_json_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Verify each source."""
    console = Console(args)
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in args.files:
        code, document = _verify(console, name, args.nthreads, is_text=not args.json)
        codes.append(code)
        documents.append(document)
    if args.json:
        print_json("frames verify", {"files": documents})
    return heaviest(codes)


def _verify(
    console: Console, name: str, nthreads: int | None, *, is_text: bool
) -> tuple[ExitCode, dict[str, Any]]:
    """Verify one source; return its exit code and its JSON entry."""
    faults: list[Fault] = []
    message: str | None = None
    nclips: int | None = None
    code = ExitCode.OK
    try:
        with open_clips(name, nthreads) as source, console.progress(unit="clips") as progress:
            nclips = len(source)
            for fault in scan(source, progress=progress):
                faults.append(fault)
                if is_text:
                    result(printable(f"{name}: {_what(fault)}"))
        if faults:
            code = ExitCode.DAMAGED
        elif is_text:
            result(printable(f"{name}: ok"))
    except BrokenPipeError:
        raise
    except EXPECTED as err:
        code, message = exit_code(err), describe(err)
        error(message)
    return code, {
        "path": name,
        "status": STATUS_NAMES[code],
        "nclips": nclips,
        "damage": [
            {"clip": fault.clip, "frame": fault.frame, "what": _what(fault)} for fault in faults
        ],
        "error": message,
    }


def _what(fault: Fault) -> str:
    """Return what is wrong, without the path in front."""
    return str(fault.error.args[0]) if fault.error.args else str(fault.error)
