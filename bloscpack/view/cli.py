"""``blpk view``: files as a page in the browser."""

import argparse
import webbrowser
from contextlib import closing
from typing import Any

from ..plugin import (
    EXPECTED,
    STDIO,
    Console,
    ExitCode,
    Place,
    UsageError,
    add_option,
    binary_stdout,
    each_input,
    exit_code,
    open_input,
    printable,
    ranged,
    result,
)

_MAX_FILES = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.description = (
        "Show files in the browser: arrays as pictures and plots, clips in a player, recordings on "
        "a time line, datasets as a gallery. A local server reads what the page shows; nothing is "
        "changed or sent elsewhere. Needs the extra 'view': pip install 'bloscpack[view]'."
    )
    parser.add_argument(
        "files",
        metavar="PATH",
        nargs="*",
        help="file, folder or URL; FILE::/NAME is one array of an archive",
    )
    add_option(parser, "--port N", "port of 127.0.0.1 (default: a free one)", type=_port, default=0)
    add_option(
        parser,
        "--export DIR",
        "write the page to a new folder for a static web host, and show nothing",
    )
    add_option(parser, "--no-browser", "only print the URL, do not open a browser")


def _port(text: str) -> int:
    return ranged(text, 0, 65535)


def run(args: argparse.Namespace) -> int:
    """Serve the page until interrupted."""
    console = Console(args)
    if args.export is not None:
        return _export(args, console)
    if not args.files:
        raise UsageError("name a file to show, or use --export DIR")
    if STDIO in args.files:
        raise UsageError("standard input cannot be shown: name a file")
    places = each_input(args.files)
    if len(places) > _MAX_FILES:
        raise UsageError(f"at most {_MAX_FILES} files can be shown, not {len(places)}")
    for place in places:
        _check(place)
    server_module = _import_server()
    session = server_module.Session(places, nthreads=args.nthreads)
    with closing(session):
        server = server_module.PageServer(session, port=args.port)

        def ready() -> None:
            result(server.url)
            binary_stdout()  # flushes: a program may read the URL from a pipe
            console.note("press Ctrl-C to stop")
            if not args.no_browser:
                webbrowser.open(server.url)

        server.run(ready)
    return ExitCode.OK


def _export(args: argparse.Namespace, console: Console) -> int:
    if args.files:
        raise UsageError(
            "--export takes no files: the page reads those that its address names, as in "
            "index.html?url=https://HOST/FILE.blp"
        )
    from .export import export_page

    written = export_page(args.export)
    console.note(f"{printable(args.export)}: {len(written)} files; open it by a web server")
    return ExitCode.OK


def _check(place: Place) -> None:
    """Refuse a file that does not exist or is of another type; a damaged one can be shown."""
    try:
        open_input(place)[1].close()
    except EXPECTED as err:
        if exit_code(err) != ExitCode.DAMAGED:
            raise


def _import_server() -> Any:
    try:
        from . import server
    except ImportError as err:
        raise ImportError(
            f"{err.name or err} is not installed, which 'blpk view' needs: "
            "pip install 'bloscpack[view]'"
        ) from err
    return server
