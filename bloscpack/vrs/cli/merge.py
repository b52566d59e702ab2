"""``blpk vrs merge``: merge several recordings into one."""

import argparse
from contextlib import ExitStack

from ...plugin import STDIO, Console, UsageError, add_option
from .copy import add_copy_options, copy_options, report_copy
from .recordings import open_recording, times_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Copy the records of several recordings into one, in order of time. The n-th "
        "streams of a type are joined; records that are in two recordings are copied once."
    )
    parser.add_argument("sources", metavar="SRC", nargs="+", help="VRS file")
    add_copy_options(parser)
    add_option(
        parser, "--keep-apart", "do not join streams: assign new ids to streams whose ids clash"
    )


def run(args: argparse.Namespace) -> int:
    """Merge recordings."""
    from ..edit.merging import merge

    console = Console(args)
    if args.sources.count(STDIO) > 1:
        raise UsageError("only one recording can come from standard input")
    options = copy_options(args, console)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(open_recording(name, args.nthreads, console))
            for name in args.sources
        ]
        options.update(times_of(sources, args))
        with console.progress() as progress:
            report = merge(
                sources, args.target, keep_apart=args.keep_apart, progress=progress, **options
            )
        return report_copy(args, "vrs merge", sources, report)
