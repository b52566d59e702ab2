"""``blpk``: the parser, the main function, and the handling of errors."""

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from shlex import quote
from threading import current_thread, main_thread
from typing import Any

from ..exceptions import BloscpackWarning
from ..format.codec import BLOSC_VERSION
from ..parallel.threads import ALL_THREADS, resolve_nthreads
from ..storage.url import shown_name
from ..version import __version__
from .commands import add_commands
from .console.options import (
    CommandParser,
    Parser,
    add_global_options,
    keep_prefixes,
    nthreads,
    protect_operands,
    with_json_behind,
)
from .console.output import PROG, Console, error, message, warning
from .console.status import EXPECTED, ExitCode, UsageError, describe, exit_code


def create_parser() -> argparse.ArgumentParser:
    """Return the parser of ``blpk``."""
    parser = Parser(
        prog=PROG,
        description="Compress, inspect and read Bloscpack files.",
        epilog=f"Help for a command: {PROG} COMMAND --help",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=f"bloscpack: '{__version__}' blosc: '{BLOSC_VERSION}'",
    )
    add_global_options(parser)
    keep_prefixes(parser, "--n", dest="nthreads", type=nthreads)
    subparsers = parser.add_subparsers(
        title="commands", metavar="COMMAND", dest="subcommand", parser_class=CommandParser
    )
    add_commands(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``blpk``.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments, without the name of the program; `sys.argv` by default.

    Returns
    -------
    int
        The exit code, one of `ExitCode`.
    """
    try:
        with _short_warnings(), _ending_on_signals():
            code = _run(list(sys.argv[1:] if argv is None else argv))
    except SystemExit as err:  # from argparse: help, version, wrong usage
        code = err.code if isinstance(err.code, int) else ExitCode.OK
    except BrokenPipeError:
        # The reader of our output has ended (`| head`): that needs no message.
        _abandon_stdout()
        return int(ExitCode.FAILED)
    except _EndedError as err:
        with suppress(OSError):  # the terminal may be gone
            message(f"ended by {err.signal.name}")
        code = 128 + err.signal
    except KeyboardInterrupt:
        message("interrupted")
        code = ExitCode.INTERRUPTED
    except (UsageError, *EXPECTED) as err:
        error(describe(err))
        code = exit_code(err)
        if code == ExitCode.DAMAGED:
            _advise(sys.argv[1:] if argv is None else argv, getattr(err, "_whole", ""))
    return int(_finish(code))


class _EndedError(KeyboardInterrupt):
    """Interrupt by another signal than that of Ctrl-C."""

    def __init__(self, number: int) -> None:
        self.signal = signal.Signals(number)


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt the command as Ctrl-C does, so that it cleans up."""
    pid = os.getpid()
    caught = []
    if current_thread() is main_thread():
        # nohup ignores SIGHUP, and a program that calls `main` may have a handler of its own.
        asked = signal.SIGTERM, signal.SIGHUP
        caught = [each for each in asked if signal.getsignal(each) is signal.SIG_DFL]

    def end(number: int, frame: object) -> None:
        # The end of a session sends both: the second must not interrupt the cleaning up.
        action = signal.SIG_IGN if os.getpid() == pid else signal.SIG_DFL
        for each in caught:
            signal.signal(each, action)
        if os.getpid() == pid:
            raise _EndedError(number)
        signal.raise_signal(number)  # a forked worker

    try:
        for each in caught:
            signal.signal(each, end)
        yield
    finally:
        for each in caught:
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def _short_warnings() -> Iterator[None]:
    """Print each warning in one line, like an error, and repeat warnings of this package."""
    before = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always", BloscpackWarning)
        warnings.showwarning = lambda text, *_: warning(str(text))
        try:
            yield
        finally:
            # With context-aware warnings (Python 3.14), `catch_warnings` does not restore it.
            warnings.showwarning = before


def _run(argv: list[str]) -> int:
    parser = create_parser()
    args = parser.parse_args(protect_operands(with_json_behind(argv)))
    if args.subcommand is None:
        parser.print_help()
        return ExitCode.USAGE
    console = Console(args)
    console.debug("command line argument parsing complete")
    console.debug("command line arguments are: ")
    for name, value in sorted(vars(args).items()):
        if name != "run":
            console.debug(f"    {name}: {_without_secrets(value)}")
    # Large enough that the size of the work never limits the number of threads.
    threads = resolve_nthreads(args.nthreads, ALL_THREADS)
    console.verbose(f"using {threads} thread{'s' if threads > 1 else ''}")
    code: int = args.run(args)
    if code == ExitCode.OK:
        console.verbose("done")
    return code


def _without_secrets(value: Any) -> Any:
    """Return an argument, or several, with URLs as they are shown."""
    if isinstance(value, list):
        return [_without_secrets(each) for each in value]
    return shown_name(value) if isinstance(value, str) else value


def _advise(argv: Sequence[str], path: str) -> None:
    """Say how to list damage and how to save the rest, unless the command does one of these."""
    if not path or not {"verify", "check", "recover"}.isdisjoint(argv):
        return
    from ..filetypes.identify import identify

    try:
        filetype, source = identify(path)
        source.close()
    except EXPECTED:
        return  # the error that was printed says more
    if filetype is not None:
        name = quote(shown_name(path))
        message(
            f"hint: to list all damage: blpk verify {'--decode ' * filetype.has_decode}{name}; "
            f"to save what is whole: blpk recover {name} OUT"
        )


def _finish(code: int) -> int:
    """Flush standard output while an error can still be reported, and return the exit code."""
    try:
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except BrokenPipeError:
        _abandon_stdout()
        return code or ExitCode.FAILED
    except OSError as err:
        _abandon_stdout()
        if code:  # an error was reported already
            return code
        error(f"standard output: {describe(err)}")
        return ExitCode.FAILED
    return code


def _abandon_stdout() -> None:
    """Redirect standard output to null, so that the interpreter can flush it when it exits."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
