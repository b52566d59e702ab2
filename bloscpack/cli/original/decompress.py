"""``blpk decompress``: decompress a Bloscpack file."""

import argparse

from ...format.header import EXTENSION
from ...original.pack import unpack_stream
from ...storage.url import is_url, shown_name
from ..console.describe import metadata_text, report_metadata
from ..console.inputfile import check_input, one_input, open_container
from ..console.options import STDIO, add_option, keep_prefixes
from ..console.output import Console, prefixed, pretty_size, results
from ..console.outputfile import check_output, open_output, regular_nbytes
from ..console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Decompress a Bloscpack file, or standard input if IN_FILE is -. Metadata are printed."
    )
    parser.add_argument(
        "in_file", metavar="IN_FILE", help="file to decompress, - for standard input"
    )
    parser.add_argument(
        "out_file",
        metavar="OUT_FILE",
        nargs="?",
        help=f"file to write, - for standard output (default: IN_FILE without {EXTENSION}; "
        "- if IN_FILE is -)",
    )
    add_option(
        parser,
        "-e, --no-check-extension",
        f"accept an IN_FILE that does not end in {EXTENSION} (requires OUT_FILE)",
    )
    keep_prefixes(parser, "--n", "--no", "--no-", action="store_true", dest="no_check_extension")


def run(args: argparse.Namespace) -> int:
    """Decompress."""
    console = Console(args)
    console.verbose("getting ready for decompression")
    place = one_input(args.in_file)
    args.in_file = in_file = str(place)
    out_file = _out_file(args)
    check_input(place, "input file")
    check_output(out_file, [place], console, force=args.force)
    console.verbose(f"input file is: '{shown_name(in_file)}'")
    console.verbose(f"output file is: '{out_file}'")
    with open_container(place) as container:
        in_nbytes = container.source.size()
        console.verbose(f"input file size: {pretty_size(in_nbytes)}")
        header = container.front.metadata_header
        report_metadata(console, header)
        metadata = container.metadata
        with (
            open_output(out_file, is_ordered=True, like=in_file) as sink,
            console.progress() as progress,
        ):
            unpack_stream(container, sink, nthreads=args.nthreads, progress=progress)
    out_nbytes = regular_nbytes(out_file, is_output=True)
    if out_nbytes is not None:
        console.verbose(f"output file size: {pretty_size(out_nbytes)}")
        console.verbose(f"decompression ratio: {out_nbytes / in_nbytes:f}")
    if metadata and header is not None:
        # If the content goes to standard output, the metadata go to standard error.
        text = metadata_text(metadata, header)
        if out_file == STDIO:
            console.note(text)
        else:
            results(prefixed(text))
    return ExitCode.OK


def _out_file(args: argparse.Namespace) -> str:
    in_file: str = args.in_file
    out_file: str | None = args.out_file
    if in_file == STDIO:
        return out_file or STDIO
    if args.no_check_extension:
        if out_file is None:
            raise UsageError("--no-check-extension requires use of OUT_FILE")
        return out_file
    if not in_file.endswith(EXTENSION):
        raise ValueError(f"input file '{shown_name(in_file)}' does not end with '{EXTENSION}'")
    if out_file is None and is_url(in_file):
        raise UsageError(f"OUT_FILE is required for the URL {shown_name(in_file)}")
    return out_file or in_file.removesuffix(EXTENSION)
