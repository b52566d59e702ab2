"""Versions of a file that changes: its newest state, and the earlier ones that it keeps."""

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from ..array.array import Array
from ..array.arraymetadata import describe_content
from ..container.logreader import (
    front_of,
    last_used_nbytes,
    read_commit,
    read_groups,
    read_node,
    read_versions,
)
from ..container.members import is_archive_log
from ..container.reader import Container
from ..exceptions import BloscpackError
from ..format.header import MAX_HEADER_SIZE, is_log
from ..storage.file import Place, open_source
from ..storage.protocol import ByteSource, errors_at
from .open import open as open_array


class Version(NamedTuple):
    """Version of a file, which `bloscpack.open` reads by its number.

    Attributes
    ----------
    number : int
        Sequence number of the commit that made it; 0 of a file that was never changed.
    time : datetime or None
        When it was made; None if that is not known.
    narrays : int
        Number of arrays of an archive; 1 for an array.
    shape : tuple of int or None
        Shape of the array; None for an archive.
    dtype : dtype or None
        Type of the array; None for an archive.
    cbytes : int
        Stored bytes that it uses and no later version does. The sum over all versions is what the
        file has in use.
    """

    number: int
    time: datetime | None
    narrays: int
    shape: tuple[int, ...] | None
    dtype: "np.dtype[Any] | None"
    cbytes: int


def versions(path: Any, *, storage_options: Mapping[str, Any] | None = None) -> list[Version]:
    """List the versions of a file that can be read, the newest last.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file or its URL. One that was never changed has one version.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.

    Returns
    -------
    list of Version
        Their numbers, times, shapes and sizes.

    Raises
    ------
    FormatError, UnsupportedError
        The file is damaged or of another type.
    OSError
        The file cannot be read; `RemoteError` if a server cannot be reached.

    Notes
    -----
    A file keeps versions after ``open(path, "r+", keep=N)``.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.save("kept.blp", np.zeros(3), changeable=True)
    >>> with bp.open("kept.blp", "r+", keep=5) as a:
    ...     a[1] = 7
    >>> [version.number for version in bp.versions("kept.blp")]
    [1, 2]
    >>> bp.open("kept.blp", version=-2)[...]
    array([0., 0., 0.])
    """
    place = Place.of(path)
    if place.inner:
        raise ValueError(f"versions are those of a whole file: give its path, {place.path!r}")
    source = open_source(place.path, storage_options)
    with closing(source), errors_at(source.name):
        while is_log(source.read_at(0, MAX_HEADER_SIZE)):
            newest = read_commit(source)
            try:
                return _read_log(source)
            except BloscpackError:
                if read_commit(source) == newest:  # else a writer has used the space again
                    raise
        cbytes, time = source.size(), source.stamp[1]
    with open_array(path, storage_options=storage_options) as opened:
        if isinstance(opened, Array):
            return [_version(0, time, 1, (opened.dtype, opened.shape), cbytes)]
        return [_version(0, time, len(opened), None, cbytes)]


def _read_log(source: ByteSource) -> list[Version]:
    """Return the versions of a log; raises if a writer removes one while they are read."""
    is_archive = is_archive_log(source, source.read_at(0, MAX_HEADER_SIZE))
    commits = read_versions(source)
    found = []
    for commit, cbytes in zip(commits, last_used_nbytes(source, commits), strict=True):
        nodes = [node for group in read_groups(source, commit) for node in group]
        described = None
        if not is_archive:
            front = front_of(source, commit, read_node(source, commit))
            described = describe_content(Container(front, source))
        count = len(nodes) - is_archive
        found.append(_version(commit.sequence, commit.time, count, described, cbytes))
    return found


def _version(
    number: int, time: int, narrays: int, described: tuple[Any, ...] | None, cbytes: int
) -> Version:
    made = datetime.fromtimestamp(time / 1e9, UTC) if time else None
    dtype, shape = (None, None) if described is None else described[:2]
    return Version(number, made, narrays, shape, dtype, cbytes)
