"""``blpk export``: references that let other programs read the chunks of a file."""

import argparse
import json
import os
from typing import Any

from ...storage.url import is_url
from ..console.inputfile import one_input, open_bloscpack
from ..console.options import STDIO, add_option
from ..console.output import Console
from ..console.outputfile import check_output, open_output
from ..console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Write references to the chunks of an array. Zarr and xarray can then read the file "
        "through fsspec or kerchunk. Every chunk is checked first."
    )
    form = parser.add_mutually_exclusive_group(required=True)
    add_option(form, "--kerchunk", "write JSON in the format of kerchunk")
    parser.add_argument(
        "file_", metavar="FILE", help="Bloscpack file or URL, - for standard input (with --url)"
    )
    add_option(
        parser, "-o, --output OUT_FILE", "file to write (default: standard output)", default=STDIO
    )
    add_option(
        parser,
        "--url URL",
        "path or URL of FILE for readers (default: its absolute path, or the URL)",
    )
    add_option(parser, "--name NAME", "name of the array (default: the attr 'name', else 'data')")
    add_option(
        parser, "--dims NAMES", "names of its axes, separated by commas (default: the attr 'dims')"
    )
    add_option(parser, "--no-verify", "do not read the chunks, trust the offset table")


def run(args: argparse.Namespace) -> int:
    """Write the references."""
    from ...integrations.kerchunk import kerchunk_references

    console = Console(args)
    place = one_input(args.file_)
    name = str(place)
    if name == STDIO and args.url is None:
        raise UsageError(
            "--url is required for standard input: references contain the location of the file"
        )
    source: Any = name
    url = args.url
    if not is_url(name):
        source = open_bloscpack(place)
        url = os.path.abspath(place.path) if url is None else url
    # References are text, which may be written to a terminal without --force.
    check_output(args.output, [place], console, force=args.force or args.output == STDIO)
    with console.progress(unit="chunks") as progress:
        found = kerchunk_references(
            source,
            url=url,
            name=args.name,
            dims=None if args.dims is None else args.dims.split(","),
            verify=not args.no_verify,
            progress=progress,
        )
    with open_output(args.output) as sink:
        before = f'{{"version": {found["version"]}, "refs": {{'
        for key, value in found["refs"].items():
            sink.write(f"{before}\n{json.dumps(key)}: {json.dumps(value)}".encode("ascii"))
            before = ","
        sink.write(b"\n}}\n")
    return ExitCode.OK
