"""Versions of a file that changes: its newest state, and the earlier ones that it keeps."""

from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np

from ..array.arraymetadata import describe_content
from ..container.log import front_of, last_used_nbytes, read_commit, read_node, read_versions
from ..container.reader import Container
from ..exceptions import BloscpackError
from ..storage.file import Place, open_source
from ..storage.protocol import ByteSource


class Version(NamedTuple):
    """Version of a file, which `bloscpack.open` reads by its number.

    Attributes
    ----------
    number : int
        Sequence number of the commit that made it; 0 of a file that was never changed.
    time : datetime or None
        When it was made; None if that is not known.
    shape : tuple of int
        Shape of the array.
    dtype : dtype
        Its type.
    nbytes : int
        Its decoded size in bytes.
    cbytes : int
        Stored bytes that it uses and no later version does. The sum over all versions is what the
        file has in use.
    """

    number: int
    time: datetime | None
    shape: tuple[int, ...]
    dtype: "np.dtype[Any]"
    nbytes: int
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
    with closing(Container.open(source)) as container:
        source = container.source
        while True:
            newest = container.front.commit and read_commit(source)
            try:
                return _read(container) if newest is None else _read_log(source)
            except BloscpackError as err:
                if newest is None or read_commit(source) == newest:
                    err.at(path=source.name)
                    raise


def _read(container: Container) -> list[Version]:
    """Return the only version of a file that is not a log."""
    modified = container.source.stamp[1]
    return [_described(container, 0, modified, container.source.size())]


def _read_log(source: ByteSource) -> list[Version]:
    """Return the versions of a log; raises if a writer removes one while they are read."""
    found = read_versions(source)
    sizes = last_used_nbytes(source, found)
    fronts = (front_of(source, each, read_node(source, each), is_held=False) for each in found)
    return [
        _described(Container(front, source), each.sequence, each.time, cbytes)
        for each, front, cbytes in zip(found, fronts, sizes, strict=True)
    ]


def _described(container: Container, number: int, time: int, cbytes: int) -> Version:
    dtype, shape, _ = describe_content(container)
    made = datetime.fromtimestamp(time / 1e9, UTC) if time else None
    return Version(number, made, shape, dtype, container.nbytes, cbytes)
