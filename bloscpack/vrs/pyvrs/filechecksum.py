"""Checksum of a file, under pyvrs's name."""

import os

from ..recording import open as open_recording
from .filespec import place_of


def records_checksum(path: "str | os.PathLike[str]", progress: bool = False) -> str:
    """Return the checksum of all tags and records, 16 hex digits.

    Compression, index and chunks of a copy do not change it.

    Parameters
    ----------
    path : str or PathLike
        The file.
    progress : bool
        Accepted but ignored: no progress is printed.

    Raises
    ------
    FormatError, CodecError, UnsupportedError
        The file is not a VRS file, or a record is damaged.
    OSError
        The file cannot be read.
    """
    with open_recording(place_of(path)) as recording:
        return recording.checksum()
