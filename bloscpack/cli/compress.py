"""``blpk compress``: compress a file or a pipe to a Bloscpack file."""

import argparse

from ..format.checksum import CHECKSUMS, LAST_V3_ID
from ..format.header import EXTENSION
from ..original.args import BloscpackArgs, MetadataArgs
from ..original.pack import pack_stream
from .console.describe import read_metadata_file, report_chunks
from .console.inputfile import check_input, open_stream
from .console.options import (
    STDIO,
    add_blosc_group,
    add_chunk_size_option,
    blosc_args_from,
    count,
    keep_prefixes,
)
from .console.output import Console, double_pretty_size
from .console.outputfile import check_output, open_output, regular_nbytes
from .console.status import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = "Compress a file, or standard input if IN_FILE is -."
    parser.add_argument("in_file", metavar="IN_FILE", help="file to compress, - for standard input")
    parser.add_argument(
        "out_file",
        metavar="OUT_FILE",
        nargs="?",
        help="file to write, - for standard output "
        f"(default: IN_FILE{EXTENSION}; - if IN_FILE is -)",
    )
    add_blosc_group(parser)
    group = parser.add_argument_group("bloscpack settings")
    add_chunk_size_option(group)
    new = ", ".join(row.name for row in CHECKSUMS if row.id > LAST_V3_ID)
    group.add_argument(
        "-k",
        "--checksum",
        metavar="CHECKSUM",
        choices=tuple(row.name for row in CHECKSUMS),
        default="adler32",
        help=f"{', '.join(row.name for row in CHECKSUMS)} (default: %(default)s); "
        f"{new} need format version 4, which bloscpack 0.16 cannot read",
    )
    group.add_argument(
        "-o",
        "--no-offsets",
        action="store_false",
        dest="offsets",
        help="do not write an offset table; such a file cannot be appended to",
    )
    group.add_argument(
        "-m",
        "--metadata",
        metavar="FILE",
        help="file with a JSON value to store as metadata",
    )
    keep_prefixes(group, "--m", dest="metadata")
    group.add_argument(
        "--max-app-chunks",
        metavar="N",
        type=count,
        help="chunks that can be appended later (default: ten times the number of chunks)",
    )


def run(args: argparse.Namespace) -> int:
    """Compress."""
    console = Console(args)
    console.verbose("getting ready for compression")
    in_file: str = args.in_file
    out_file: str = args.out_file or (STDIO if in_file == STDIO else in_file + EXTENSION)
    check_input(in_file, "input file")
    check_output(out_file, [in_file], console, force=args.force)
    metadata = None if args.metadata is None else read_metadata_file(args.metadata)
    blosc_args = blosc_args_from(args)
    bloscpack_args = BloscpackArgs(args.offsets, args.checksum)
    if args.max_app_chunks is not None:
        bloscpack_args.max_app_chunks = args.max_app_chunks
    console.verbose(f"input file is: '{in_file}'")
    console.verbose(f"output file is: '{out_file}'")
    console.debug(blosc_args.pformat())
    console.debug(bloscpack_args.pformat())
    in_nbytes = regular_nbytes(in_file)
    if in_nbytes is not None:
        _report_sizes(console, in_nbytes, args.chunk_size)
    with (
        open_stream(in_file) as stream,
        open_output(out_file) as sink,
        console.progress() as progress,
    ):
        pack_stream(
            stream,
            sink,
            args.chunk_size,
            metadata,
            blosc_args,
            bloscpack_args,
            MetadataArgs(),
            nthreads=args.nthreads,
            progress=progress,
        )
    if in_nbytes is None:
        _report_sizes(console, progress.done, args.chunk_size)
    out_nbytes = regular_nbytes(out_file, is_output=True)
    if out_nbytes:
        console.verbose(f"output file size: {double_pretty_size(out_nbytes)}")
        console.verbose(f"compression ratio: {progress.done / out_nbytes:f}")
    return ExitCode.OK


def _report_sizes(console: Console, nbytes: int, chunk_size: int) -> None:
    console.verbose(f"input file size: {double_pretty_size(nbytes)}")
    report_chunks(console, nbytes, chunk_size)
