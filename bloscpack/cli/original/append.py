"""``blpk append``: append content to a Bloscpack file in place."""

import argparse
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from ...exceptions import FileNotFound, NoChangeInMetadata, NoMetadataFound
from ...format.header import EXTENSION
from ...original.append import _rewrite_metadata_fp, append_stream
from ...original.fileappend import journaled, rewrite_section
from ...storage import disk
from ...storage.file import Place
from ...storage.url import refuse_url, shown_name
from ..console.describe import read_metadata_file, report_chunks, report_metadata
from ..console.inputfile import check_input, open_container, open_stream
from ..console.options import (
    STDIO,
    add_blosc_group,
    add_locking_option,
    add_option,
    blosc_args_from,
)
from ..console.output import Console, double_pretty_size
from ..console.outputfile import is_same_file
from ..console.status import ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Append the content of NEW_FILE to ORIGINAL_FILE in place. If the command fails or is "
        "killed, nothing is appended. The blosc settings are those given here, not those of the "
        "file."
    )
    parser.add_argument(
        "original_file", metavar="ORIGINAL_FILE", help="Bloscpack file to append to"
    )
    parser.add_argument("new_file", metavar="NEW_FILE", help="file to append, - for standard input")
    add_blosc_group(parser)
    add_option(
        parser,
        "-e, --no-check-extension",
        f"accept an ORIGINAL_FILE that does not end in {EXTENSION}",
    )
    add_option(
        parser,
        "-m, --metadata FILE",
        "file with a JSON value that replaces the metadata of ORIGINAL_FILE",
    )
    add_locking_option(parser)


def run(args: argparse.Namespace) -> int:
    """Append."""
    console = Console(args)
    console.verbose("getting ready for append")
    original: str = args.original_file
    refuse_url(original, "appended to")
    if not args.no_check_extension and not original.endswith(EXTENSION):
        raise ValueError(f"original file '{original}' does not end with '{EXTENSION}'")
    if not Path(original).exists():
        raise FileNotFound(f"original file '{original}' does not exist!")
    check_input(Place(args.new_file), "new file")
    if is_same_file(Place(args.new_file), original):
        raise ValueError(f"cannot append '{original}' to itself")
    console.verbose(f"original file is: '{original}'")
    console.verbose(f"new file is: '{shown_name(args.new_file)}'")
    metadata = None if args.metadata is None else read_metadata_file(args.metadata)
    with open_container(Place(original)) as container:
        before = container.source.size()
        chunk_size, room = container.chunk_size, container.chunk_size - container.last_chunk
        report_metadata(console, container.front.metadata_header)
    console.verbose(f"orig file size before append: {double_pretty_size(before)}")
    with (
        _open_sized(args.new_file) as (content, nbytes),
        journaled(original, locking=args.locking) as file,
    ):
        console.verbose(f"new file size: {double_pretty_size(nbytes)}")
        if metadata is not None:
            # Under the lock, and first: an append whose metadata are refused would be undone.
            _check_rewrite(original, metadata)
        if chunk_size:
            report_chunks(console, max(nbytes - room, 0), chunk_size)
        with console.progress() as progress:
            append_stream(
                file,
                content,
                nbytes,
                blosc_args_from(args),
                nthreads=args.nthreads,
                progress=progress,
            )
        if metadata is not None:
            # The append may have changed the shape to the new one already.
            with suppress(NoChangeInMetadata):
                _rewrite_metadata_fp(file, metadata)
    after = Path(original).stat().st_size
    console.verbose(f"orig file size after append: {double_pretty_size(after)}")
    if after > before:
        ratio = nbytes / (after - before)
        console.verbose(f"Approximate compression ratio of appended data: {ratio:f}")
    return ExitCode.OK


@contextmanager
def _open_sized(name: str) -> Iterator[tuple[IO[bytes], int]]:
    """Open new content and return its size; a pipe is copied to a file first to find the size."""
    with open_stream(name) as stream:
        # Of a file as standard input, a part may have been read: the rest has another size.
        if name != STDIO and stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            yield stream, os.fstat(stream.fileno()).st_size
            return
        with tempfile.TemporaryFile() as copy:
            with disk.naming(disk.name_of_temporary()):
                shutil.copyfileobj(stream, copy)
                copy.flush()
            nbytes = os.fstat(copy.fileno()).st_size
            copy.seek(0)
            yield copy, nbytes


def _check_rewrite(name: str, metadata: Any) -> None:
    """Check that metadata can be replaced, before anything is appended."""
    with open_container(Place(name)) as container:
        if container.front.metadata_header is None:
            raise NoMetadataFound("the file has no metadata to replace").at(path=name)
        if container.metadata == metadata:
            raise NoChangeInMetadata("the new metadata equal the old").at(path=name)
        rewrite_section(container.front.metadata_header, metadata)
