"""Writing an array row by row, without knowing its length in advance."""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, Unpack

import numpy as np

from ..container.appender import Appender
from ..container.writer import features_of
from ..format.checksum import checksum_by_name
from ..format.chunkgrid import ChunkGrid
from ..format.header import UNKNOWN, Header, version_for
from ..format.metadata import DEFAULT_META_CHECKSUM
from ..keywords import explain_keywords
from ..storage.protocol import closed_on_error
from ..storage.sink import check_absent, upload_for
from ..storage.url import refuse_flush
from .attrs import check_dims
from .layout import SAVE_DEFAULTS, SaveOptions, Settings, divide, plan_content
from .rowappender import GridRows, RowAppender, described_rows


class Writer:
    """Writer of a new file to which rows are appended one call at a time.

    Parameters
    ----------
    path : str or PathLike
        Path of the new file, or a URL of S3 or of another store that fsspec can write to. An
        existing file stays unchanged until the new one is flushed or closed.
    dtype : data-type
        Dtype of the items; any except object.
    shape : tuple, default (None,)
        None followed by the shape of a row: ``(None, height, width, 3)``.
    chunks : int, tuple of int or "auto", optional
        Rows per chunk, or the shape of a chunk. Default: whole rows of about 1 MiB. A shape that
        cuts another axis than the first, or "auto", makes a grid of chunks, as for `save`.
    access : {"rows", "tiles", "series"}, optional
        How the array will be read, as for `save`.
    codec, clevel, shuffle, checksum
        As for `save`.
    attrs : mapping, optional
        JSON values to store with the array. The property `attrs` can be changed until the file is
        closed.
    keepbits : int, optional
        Mantissa bits to keep of each float, as for `save`. Rows that are appended to the file later
        are rounded too.
    stats : bool, default False
        Store statistics of each chunk, as for `save`.
    nthreads : int, optional
        Number of compressing threads. Default: the number of processors, at most 8.
    overwrite : bool, default True
        Replace an existing file. With False it is refused, at once and again before the new file
        would replace it.
    storage_options : mapping, optional
        Arguments for the fsspec file system of a URL (keys, ``endpoint_url``).
    locking : bool, default True
        Lock the file while it is written, so that a second writer is refused. Use False on file
        systems without locks, and only if no other program writes to the file.
        ``BLOSCPACK_LOCKING=0`` in the environment has the same effect.

    Raises
    ------
    LockedError
        Another writer has the file open that would be replaced.
    FileExistsError
        The file exists, and `overwrite` is False.
    ValueError, TypeError
        A parameter is out of range.
    OSError
        The file cannot be written.
    UnsupportedError
        The URL cannot be written to (``https://``).

    Notes
    -----
    Without a `flush` the file appears on `close`, whole and synced, or not at all. The first
    `flush` puts it in its place; later rows are appended there. Each flush is durable, and a crash
    leaves the file as of the last one. An error inside a ``with`` block discards the rows appended
    since the last flush. Memory holds a few chunks per thread; of a grid of chunks about two rows
    of the grid, each with as many rows of the array as a chunk has. Safe from many threads; rows
    are stored in the order of the calls.

    A file for a URL is written to a local temporary file and sent when it is closed; `flush` is
    refused.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.Writer("frames.blp", dtype="u1", shape=(None, 4, 6)) as w:
    ...     for n in range(3):
    ...         w.append(np.full((4, 6), n, "u1"))
    >>> bp.load("frames.blp").shape
    (3, 4, 6)
    """

    @explain_keywords(SAVE_DEFAULTS)
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dtype: Any,
        shape: tuple[int | None, ...] = (None,),
        nthreads: int | None = None,
        overwrite: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
        **options: Unpack[SaveOptions],
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a str or PathLike, not {type(path).__name__!r}")
        description = described_rows(np.dtype(dtype), shape)
        check_dims(options.get("attrs"), description[1])
        settings = Settings(**options)
        division = divide(description, settings.chunks, settings.access)
        metadata, params = plan_content(description, settings, division)
        row = checksum_by_name(settings.checksum)
        cutter = None
        features = features_of(params, has_grid=isinstance(division, ChunkGrid))
        size = UNKNOWN
        if isinstance(division, ChunkGrid):
            cutter = GridRows(replace(division, itemsize=description[0].itemsize))
        else:
            size = division.chunk_size
        version = version_for(row, checksum_by_name(DEFAULT_META_CHECKSUM), features=features)
        header = Header(version, True, True, row, params.typesize, size, 0, 0, 0, features)
        check_absent(path, storage_options, overwrite=overwrite)
        self._path = os.fspath(path)
        self._upload = upload_for(self._path, storage_options, overwrite=overwrite)
        if self._upload is not None:
            self._path, path = self._upload.name, self._upload.path
        try:
            appender = Appender.create(
                path,
                header,
                metadata,
                params,
                cutter,
                nthreads=nthreads,
                locking=locking,
                overwrite=overwrite,
            )
            with closed_on_error(appender):
                self._rows = RowAppender(appender, description, metadata, self._path)
        except BaseException:
            self._discard()
            raise
        self._is_open = True

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array, including all rows appended so far."""
        return self._rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the items."""
        return self._rows.dtype

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values stored with the array; may be changed in place or replaced."""
        return self._rows.attrs

    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None:
        self._rows.replace_attrs(attrs)

    def append(self, rows: Any) -> None:
        """Append rows, or one row.

        Parameters
        ----------
        rows : array_like
            Rows of shape ``(n, *shape[1:])``, or one row of shape ``shape[1:]``. Their dtype must
            be that of the array, or be castable to it without loss. They are copied or compressed
            before this returns.

        Raises
        ------
        TypeError, ValueError
            The rows do not fit; none was added.
        OSError
            Writing failed; the writer accepts no more rows.
        """
        self._rows.append(rows)

    def flush(self) -> None:
        """Make all appended rows durable and visible to readers.

        Raises
        ------
        TypeError, ValueError
            `attrs` contain values that are not JSON.
        OSError
            Writing failed; the file is as of the previous flush.
        UnsupportedError
            The path is a URL, where the file appears only when it is closed.
        """
        if self._upload is not None:
            refuse_flush(self._path)
        self._rows.flush()

    def close(self) -> None:
        """Flush and close; idempotent. If that fails, the file is as of the last flush.

        For a URL this sends the file; if that fails, the object is not created.
        """
        is_open, self._is_open = self._is_open, False
        try:
            self._rows.close()
            if self._upload is not None and is_open:
                self._upload.commit()
        finally:
            self._discard()

    def abort(self) -> None:
        """Close and discard rows since the last flush; without a flush, leave no file."""
        self._is_open = False
        try:
            self._rows.abandon()
        finally:
            self._discard()

    def _discard(self) -> None:
        if self._upload is not None:
            self._upload.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc_info: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __repr__(self) -> str:
        state = "" if self._is_open else " (closed)"
        return f"<bloscpack.Writer {self._path!r} shape={self.shape} dtype={self.dtype}{state}>"
