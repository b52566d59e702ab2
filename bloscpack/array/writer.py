"""Writing an array row by row, its length not known ahead."""

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from ..container.appender import Appender
from ..exceptions import closed_on_error
from ..format.checksum import checksum_by_name
from ..format.header import Header, version_for
from ..format.metadata import DEFAULT_META_CHECKSUM
from ..storage.sink import upload_for
from ..storage.url import refuse_flush
from .layout import array_metadata, chunk_nbytes, codec_params
from .rowappender import RowAppender, described_rows


class Writer:
    """Writes rows to a new file as they come.

    Parameters
    ----------
    path : str or PathLike
        Where to. A file of this name stays as it is until the new one is flushed or closed. May be
        a URL of S3 or of another store that fsspec can write to.
    dtype : data-type
        Of the items; any but object.
    shape : tuple, default (None,)
        None for the rows to come, and the shape of a row: ``(None, height, width, 3)``.
    chunks : int or tuple of int, optional
        Rows per chunk, or the whole shape of a chunk. About 1 MiB by default.
    codec, clevel, shuffle, checksum
        As for `save`.
    attrs : mapping, optional
        JSON values to keep with the array; `attrs` can be changed until the file is closed.
    nthreads : int, optional
        Threads that compress; as many as there are processors, at most 8, by default.
    storage_options : mapping, optional
        For a URL: what fsspec's file system for it takes (keys, ``endpoint_url``).
    locking : bool, default True
        Lock the file while it is written, so that a second writer is refused. False is for file
        systems without locks, and only if no other program writes to the file; so is
        ``BLOSCPACK_LOCKING=0`` in the environment.

    Raises
    ------
    LockedError
        Another writer has the file open that would be replaced.
    ValueError, TypeError
        A parameter is out of its range.
    OSError
        The file cannot be written.
    UnsupportedError
        Nothing can be written to such URLs (``https://``).

    Notes
    -----
    Without a `flush` the file appears on `close`, whole and synced, or not at all. The first
    `flush` puts it in its place; what follows is appended there, each flush durable, and a crash
    leaves the file as of the last one. An error inside of a ``with`` block gives up what came
    since the last flush. Memory holds a few chunks per thread. Safe from many threads; rows stay
    in the order of the calls.

    To a URL the file is sent when it is closed; until then it is a local temporary file, and
    `flush` is refused.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.Writer("frames.blp", dtype="u1", shape=(None, 4, 6)) as w:
    ...     for n in range(3):
    ...         w.append(np.full((4, 6), n, "u1"))
    >>> bp.load("frames.blp").shape
    (3, 4, 6)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        dtype: Any,
        shape: tuple[int | None, ...] = (None,),
        chunks: int | tuple[int, ...] | None = None,
        codec: str = "zstd",
        clevel: int | None = None,
        shuffle: str | int | bool = "auto",
        checksum: str | None = "crc32",
        attrs: Mapping[str, Any] | None = None,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        locking: bool = True,
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"path must be a str or PathLike, not {type(path).__name__!r}")
        description = described_rows(np.dtype(dtype), tuple(shape))
        kind, empty, _ = description
        metadata = array_metadata(kind, empty, False)
        metadata["attrs"] = dict(attrs or {})
        row = checksum_by_name(checksum)
        params = codec_params(codec, clevel, shuffle, kind)
        version = version_for(row, checksum_by_name(DEFAULT_META_CHECKSUM))
        size = chunk_nbytes(empty, kind.itemsize, chunks)
        header = Header(version, True, True, row, params.typesize, size, 0, 0, 0)
        self._path = os.fspath(path)
        self._upload = upload_for(self._path, storage_options)
        if self._upload is not None:
            self._path, path = self._upload.name, self._upload.path
        try:
            appender = Appender.create(
                path, header, metadata, params, nthreads=nthreads, locking=locking
            )
            with closed_on_error(appender):
                self._rows = RowAppender(appender, description, metadata, self._path)
        except BaseException:
            self._discard()
            raise
        self._is_open = True

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape with all rows so far."""
        return self._rows.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the items."""
        return self._rows.dtype

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values kept with the array, to be changed in place or set as a whole."""
        return self._rows.attrs

    @attrs.setter
    def attrs(self, attrs: Mapping[str, Any]) -> None:
        self._rows.replace_attrs(attrs)

    def append(self, rows: Any) -> None:
        """Write rows, or one row.

        Parameters
        ----------
        rows : array_like
            Of shape ``(n, *shape[1:])``, or ``shape[1:]`` for one row; of the dtype, or one that
            can be cast to it without loss. Copied or compressed before this returns.

        Raises
        ------
        TypeError, ValueError
            They do not fit; nothing was taken.
        OSError
            Writing failed; the writer takes nothing more.
        """
        self._rows.append(rows)

    def flush(self) -> None:
        """Make everything durable that was appended, and let readers see it.

        Raises
        ------
        TypeError, ValueError
            `attrs` are no JSON values.
        OSError
            Writing failed; the file is as of the flush before.
        UnsupportedError
            The file is to be an object behind a URL, which appears when it is closed.
        """
        if self._upload is not None:
            refuse_flush(self._path)
        self._rows.flush()

    def close(self) -> None:
        """Flush and close; idempotent. If it fails the file is as of the last flush.

        To a URL this sends the file; if that fails there is none.
        """
        is_open, self._is_open = self._is_open, False
        try:
            self._rows.close()
            if self._upload is not None and is_open:
                self._upload.commit()
        finally:
            self._discard()

    def abort(self) -> None:
        """Close and give up what came since the last flush; without one, leave nothing."""
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
