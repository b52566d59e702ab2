"""Commands that check several files and exit with the most severe status."""

import argparse
from collections.abc import Callable
from typing import Any

from ...storage.url import shown_name
from .output import error, print_json
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, most_severe

Check = Callable[[str], tuple[ExitCode, dict[str, Any]]]


def run_each(args: argparse.Namespace, command: str, check: Check, failed: dict[str, Any]) -> int:
    """Check every file, even after one has failed, and return the exit code.

    Parameters
    ----------
    args : Namespace
        Has `files` and `json`.
    command : str
        Name of the command in JSON.
    check : callable
        Returns the exit code of a file, and the fields of its JSON entry other than path, status
        and error.
    failed : dict
        These fields for a file that cannot be checked.
    """
    codes: list[ExitCode] = []
    documents: list[dict[str, Any]] = []
    for name in args.files:
        message: str | None = None
        try:
            code, found = check(name)
        except BrokenPipeError:
            raise
        except EXPECTED as err:
            code, found, message = exit_code(err), failed, describe(err)
            error(message)
        codes.append(code)
        documents.append(
            {"path": shown_name(name), "status": STATUS_NAMES[code], **found, "error": message}
        )
    if args.json:
        print_json(command, {"files": documents})
    return most_severe(codes)
