"""Checksums of files, by pyvrs's names."""

import os

from ..recording import open as open_recording
from .filespec import place_of


def records_checksum(path: "str | os.PathLike[str]", progress: bool = False) -> str:
    """Return the checksum of all tags and records, 16 hex digits.

    Equal for copies with another compression, index or cut into chunks.

    Parameters
    ----------
    path : str or PathLike
        The file.
    progress : bool
        Accepted, and without effect: nothing is printed.

    Raises
    ------
    FormatError, CodecError, UnsupportedError
        It is no VRS file, or a record is damaged.
    OSError
        It cannot be read.
    """
    with open_recording(place_of(path)) as recording:
        return recording.checksum()
