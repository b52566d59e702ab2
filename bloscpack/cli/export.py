"""``blpk export``: what other programs need to read a file as it is."""

import argparse
import json
from typing import Any

from ..storage.url import is_url
from .console.endpoint import STDIO, check_input, check_output, open_output, read_any
from .console.output import Console
from .console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the description and the arguments."""
    parser.description = (
        "Write references to the chunks of an array, with which Zarr and xarray read "
        "the file as it is through fsspec or kerchunk. Every chunk is checked before."
    )
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--kerchunk", action="store_true", help="JSON as kerchunk has it")
    parser.add_argument(
        "file_", metavar="FILE", help="Bloscpack file or URL, - for standard input (with --url)"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT_FILE",
        default=STDIO,
        help="file to write (default: standard output)",
    )
    parser.add_argument(
        "--url",
        metavar="URL",
        help="where readers find FILE (default: its absolute path, or the URL)",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="of the array (default: the attr 'name', else 'data')"
    )
    parser.add_argument(
        "--dims",
        metavar="NAMES",
        help="names of its axes, separated by commas (default: the attr 'dims')",
    )
    parser.add_argument(
        "--no-verify", action="store_true", help="do not read the chunks, trust the offset table"
    )


def run(args: argparse.Namespace) -> int:
    """Write the references."""
    from ..integrations.kerchunk import kerchunk_references

    console = Console(args)
    name = args.file_
    if name == STDIO and args.url is None:
        raise UsageError("--url is needed for standard input: references say where the file is")
    source: Any = name
    if not is_url(name):
        check_input(name, "file")
        source = read_any(name)
    # References are text: a terminal may have them.
    check_output(args.output, [name], console, force=args.force or args.output == STDIO)
    with console.progress(unit="chunks") as progress:
        found = kerchunk_references(
            source,
            url=args.url,
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
