"""Commands that check each of their files and end with the worst of what they found."""

import argparse
from collections.abc import Callable
from typing import Any

from ...storage.url import shown_name
from .output import error, print_json
from .status import EXPECTED, STATUS_NAMES, ExitCode, describe, exit_code, heaviest

Check = Callable[[str], tuple[ExitCode, dict[str, Any]]]


def run_each(args: argparse.Namespace, command: str, check: Check, failed: dict[str, Any]) -> int:
    """Check every file, whatever the others are; return the exit status.

    Parameters
    ----------
    args : Namespace
        With `files` and `json`.
    command : str
        Its name in JSON.
    check : callable
        Gives the exit code of a file, and what its JSON entry says beside path, status and error.
    failed : dict
        The same of a file that cannot be checked.
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
    return heaviest(codes)
