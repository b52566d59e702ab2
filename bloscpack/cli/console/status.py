"""Exit codes of commands, and the exit code and message of each error.

An error of the types in `EXPECTED` ends a command with one line, and damage with another that says
what to do. Any other exception is a bug and keeps its traceback.
"""

from collections.abc import Iterable
from enum import IntEnum

from ...exceptions import BloscpackError, CodecError, FormatError, WrongKindError
from ...storage.url import shown_name
from .output import printable


class ExitCode(IntEnum):
    """Exit codes of ``blpk``; scripts rely on them (docs/cli.md)."""

    OK = 0
    FAILED = 1
    USAGE = 2
    DAMAGED = 3
    FOREIGN = 4
    INTERRUPTED = 130


EXPECTED = (BloscpackError, OSError, ValueError, MemoryError, ImportError)

# The exit code for several files is the first of these that one of the files has.
_BY_WEIGHT = (ExitCode.DAMAGED, ExitCode.FOREIGN, ExitCode.FAILED)

STATUS_NAMES = {
    ExitCode.OK: "ok",
    ExitCode.FAILED: "failed",
    ExitCode.DAMAGED: "damaged",
    ExitCode.FOREIGN: "foreign",
}


class UsageError(Exception):
    """Error in the command line that argparse cannot detect."""


def exit_code(err: BaseException) -> ExitCode:
    """Return the exit code for an error."""
    if isinstance(err, UsageError):
        return ExitCode.USAGE
    if isinstance(err, WrongKindError):
        return ExitCode.FOREIGN
    if isinstance(err, FormatError | CodecError):
        return ExitCode.DAMAGED
    return ExitCode.FAILED


def most_severe(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the exit code for several files."""
    found = set(codes)
    return next((code for code in _BY_WEIGHT if code in found), ExitCode.OK)


def describe(err: BaseException) -> str:
    """Return the message of an error as one printable line."""
    if isinstance(err, OSError) and not isinstance(err, BloscpackError) and err.strerror:
        # A command for local files that is given a URL looks for a file of that name.
        name = shown_name(err.filename) if isinstance(err.filename, str) else err.filename
        where = f"{name}: " if name is not None else ""
        return printable(f"{where}{err.strerror}")
    if isinstance(err, MemoryError):
        return "not enough memory"
    text = str(err)
    if isinstance(err, FileExistsError):  # the option of the command, not the parameter
        text = text.replace("pass overwrite=True", "use -f")
    return printable(text)
