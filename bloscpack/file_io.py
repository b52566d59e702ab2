"""Sources and sinks over file objects, under the names of bloscpack 0.16.

They are arguments of `bloscpack.abstract_io` and `bloscpack.numpy_io`, and never close a file
object.
"""

from typing import IO, Any

from .container.reader import Container
from .format.header import Header
from .original.api import (
    pack_bytes_file,
    pack_bytes_to_bytes,
    pack_bytes_to_file,
    pack_file,
    pack_file_to_file,
    unpack_bytes_file,
    unpack_bytes_from_bytes,
    unpack_bytes_from_file,
    unpack_file,
    unpack_file_from_file,
)
from .storage.file import FileObjectSource
from .storage.memory import MemorySource

__all__ = [
    "CompressedFPSink",
    "CompressedFPSource",
    "PlainFPSink",
    "PlainFPSource",
    "pack_bytes_file",
    "pack_bytes_to_bytes",
    "pack_bytes_to_file",
    "pack_file",
    "pack_file_to_file",
    "unpack_bytes_file",
    "unpack_bytes_from_bytes",
    "unpack_bytes_from_file",
    "unpack_file",
    "unpack_file_from_file",
]


class CompressedFPSource:
    """Bloscpack file in a binary file object, read from its current position.

    Parameters
    ----------
    input_fp : binary file
        A pipe, or a file object whose position is not 0, is read to its end at once.

    Raises
    ------
    FormatError, UnsupportedError
        The front of the file is damaged, or the file is of another type.
    """

    def __init__(self, input_fp: IO[bytes]) -> None:
        self.input_fp = input_fp
        is_whole = input_fp.seekable() and input_fp.tell() == 0
        source = FileObjectSource(input_fp) if is_whole else MemorySource(input_fp.read())
        self._container = Container(source)

    @property
    def bloscpack_header(self) -> Header:
        """Header of the file."""
        return self._container.header

    @property
    def metadata(self) -> Any:
        """Metadata of the file, or None."""
        return self._container.metadata

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return self._container.nchunks


class CompressedFPSink:
    """Binary file object that receives a Bloscpack file, written all at once at the end."""

    def __init__(self, output_fp: IO[bytes]) -> None:
        self.output_fp = output_fp


class PlainFPSource:
    """Binary file object whose bytes are packed, from its current position on."""

    def __init__(self, input_fp: IO[bytes]) -> None:
        self.input_fp = input_fp


class PlainFPSink:
    """Binary file object that receives unpacked bytes, written all at once at the end.

    `nchunks` is ignored: the source determines it, as in 0.16.
    """

    def __init__(self, output_fp: IO[bytes], nchunks: int | None = None) -> None:
        self.output_fp = output_fp
        self.nchunks = nchunks
