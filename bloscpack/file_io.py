"""Sources and sinks over file objects, with the names of bloscpack 0.16.

They are arguments of `bloscpack.abstract_io` and `bloscpack.numpy_io`, and close no file object.
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
    """A Bloscpack file in a binary file object, read from its current position.

    Parameters
    ----------
    input_fp : binary file
        A pipe, or one whose position is not 0, is read to its end at once.

    Raises
    ------
    FormatError, UnsupportedError
        The front of the file is damaged, or the file is of another kind.
    """

    def __init__(self, input_fp: IO[bytes]) -> None:
        self.input_fp = input_fp
        is_whole = input_fp.seekable() and input_fp.tell() == 0
        source = FileObjectSource(input_fp) if is_whole else MemorySource(input_fp.read())
        self._container = Container(source)

    @property
    def bloscpack_header(self) -> Header:
        """The header of the file."""
        return self._container.header

    @property
    def metadata(self) -> Any:
        """The metadata, None if there are none."""
        return self._container.metadata

    @property
    def nchunks(self) -> int:
        """Number of chunks."""
        return self._container.nchunks


class CompressedFPSink:
    """A binary file object that a Bloscpack file is written to, all of it at once at the end."""

    def __init__(self, output_fp: IO[bytes]) -> None:
        self.output_fp = output_fp


class PlainFPSource:
    """A binary file object whose bytes are to be packed, from its current position on."""

    def __init__(self, input_fp: IO[bytes]) -> None:
        self.input_fp = input_fp


class PlainFPSink:
    """A binary file object that unpacked bytes are written to, all of them at once at the end.

    `nchunks` is ignored, as it was in 0.16 where it is known from the source.
    """

    def __init__(self, output_fp: IO[bytes], nchunks: int | None = None) -> None:
        self.output_fp = output_fp
        self.nchunks = nchunks
