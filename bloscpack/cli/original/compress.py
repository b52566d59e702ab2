"""``blpk compress``: compress a file or a pipe to a Bloscpack file."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...array.dtype import EXTENSION_TYPES, Dtype, unpack_scalar
from ...array.layout import AUTO, Settings, plan_content, typesize_of
from ...exceptions import ObjectNumpyArrayRejection
from ...format.checksum import CHECKSUMS, LAST_V3_ID
from ...format.codec import CodecParams
from ...format.filekind import NPY
from ...format.header import EXTENSION
from ...original.args import BloscpackArgs, MetadataArgs
from ...original.pack import pack_stream
from ...storage.file import Place, kind_at
from ..console.describe import read_metadata_file, report_chunks
from ..console.inputfile import check_input, open_stream
from ..console.options import (
    STDIO,
    add_blosc_group,
    add_chunk_size_option,
    add_option,
    blosc_args_from,
    count,
    keep_prefixes,
)
from ..console.output import Console, double_pretty_size
from ..console.outputfile import check_output, open_output, regular_nbytes
from ..console.status import ExitCode, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = "Compress a file, or standard input if IN_FILE is -."
    parser.add_argument("in_file", metavar="IN_FILE", help="file to compress, - for standard input")
    parser.add_argument(
        "out_file",
        metavar="OUT_FILE",
        nargs="?",
        help="file to write, - for standard output "
        f"(default: IN_FILE{EXTENSION}; - if IN_FILE is -)",
    )
    add_blosc_group(parser, (AUTO,))
    group = parser.add_argument_group("bloscpack settings")
    add_chunk_size_option(group)
    new = ", ".join(row.name for row in CHECKSUMS if row.id > LAST_V3_ID)
    add_option(
        group,
        "-k, --checksum CHECKSUM",
        f"{', '.join(row.name for row in CHECKSUMS)} (default: %(default)s); "
        f"{new} need format version 4, which bloscpack 0.16 cannot read",
        choices=tuple(row.name for row in CHECKSUMS),
        default="adler32",
    )
    add_option(
        group,
        "-o, --no-offsets",
        "do not write an offset table; such a file cannot be appended to",
        action="store_false",
        dest="offsets",
    )
    add_option(group, "-m, --metadata FILE", "file with a JSON value to store as metadata")
    keep_prefixes(group, "--m", dest="metadata")
    add_option(
        group,
        "--dtype DTYPE",
        "type of the items in IN_FILE, such as float32 or <i2: OUT_FILE is then an array of "
        "one dimension, whose attributes are the metadata, and --typesize is the size of an item",
        type=_dtype,
    )
    add_option(
        group,
        "--keepbits N",
        "round floats of --dtype to N mantissa bits (default: keep all)",
        type=count,
    )
    add_option(
        group,
        "--max-app-chunks N",
        "chunks that can be appended later (default: ten times the number of chunks)",
        type=count,
    )


def _dtype(text: str) -> Dtype:
    try:
        dtype = unpack_scalar(text) if text in EXTENSION_TYPES else np.dtype(text)
    except (TypeError, ValueError, SyntaxError, ImportError) as err:
        raise argparse.ArgumentTypeError(str(err)) from None
    if not dtype.itemsize:
        raise argparse.ArgumentTypeError(f"items of {text!r} have no bytes")
    return dtype


def run(args: argparse.Namespace) -> int:
    """Compress."""
    if args.keepbits is not None and args.dtype is None:
        raise UsageError("--keepbits needs --dtype; blpk convert knows the dtype of .npy files")
    if args.cname == AUTO and args.dtype is None:
        raise UsageError("--codec auto needs --dtype; blpk convert knows the dtype of .npy files")
    console = Console(args)
    console.verbose("getting ready for compression")
    in_file: str = args.in_file
    out_file: str = args.out_file or (STDIO if in_file == STDIO else in_file + EXTENSION)
    check_input(Place(in_file), "input file")
    check_output(out_file, [Place(in_file)], console, force=args.force)
    metadata = None if args.metadata is None else read_metadata_file(args.metadata)
    params = None
    if args.dtype is not None:
        itemsize = args.dtype.itemsize
        args.typesize = typesize_of(args.dtype)
        args.chunk_size = max(args.chunk_size // itemsize, 1) * itemsize  # whole items
        metadata, params = _plan_items(args, metadata)
        args.cname = params.codec
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
        open_output(out_file, like=in_file) as sink,
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
            params=params,
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


def _plan_items(args: argparse.Namespace, attrs: Any) -> tuple[Callable[[int], Any], CodecParams]:
    """Return the metadata of an array, by its number of bytes, and its compression parameters."""
    dtype: Dtype = args.dtype
    if not isinstance(attrs, dict | None):
        raise UsageError(f"metadata file '{args.metadata}': attributes must be a JSON object")
    name = args.in_file
    if name != STDIO and Path(name).is_file() and kind_at(name) is NPY:  # a pipe would lose bytes
        raise ValueError(
            f"'{name}' is a .npy file, with a header before the items; use blpk convert --to array"
        )
    settings = Settings(
        codec=args.cname,
        clevel=args.clevel,
        shuffle=args.shuffle,
        attrs=attrs,
        keepbits=args.keepbits,
    )
    try:
        metadata, params = plan_content((dtype, (0,), False), settings)
    except ObjectNumpyArrayRejection:
        raise
    except TypeError as err:
        raise UsageError(str(err)) from None

    def metadata_of(nbytes: int) -> Any:
        nitems, rest = divmod(nbytes, dtype.itemsize)
        if rest:
            raise ValueError(
                f"{nbytes} bytes are not whole items of {dtype}, which have {dtype.itemsize} bytes"
            )
        return {**metadata, "shape": [nitems]}

    return metadata_of, params


def _report_sizes(console: Console, nbytes: int, chunk_size: int) -> None:
    console.verbose(f"input file size: {double_pretty_size(nbytes)}")
    report_chunks(console, nbytes, chunk_size)
