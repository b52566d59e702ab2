"""Reader of an archive: the index on opening, a member when it is named."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self

from xxhash import xxh3_128_digest

from ..array.array import Array
from ..array.attrs import read_only
from ..container.front import HEAD_NBYTES, Verify
from ..container.identity import changed, place_of
from ..container.members import first_names, member_named, read_members
from ..exceptions import BloscpackError, FormatError
from ..format.checksum import CHECKSUMS
from ..format.header import MAX_HEADER_SIZE
from ..format.metadata import MetadataHeader, decode_data, stored_data
from ..parallel.imports import importing
from ..storage.file import open_source
from ..storage.protocol import ByteSource, closed_on_error, errors_at


def read_front(source: ByteSource) -> tuple[dict[str, Any], int]:
    """Return the attrs of an archive, and the size of its header and metadata section.

    Raises
    ------
    FormatError, UnsupportedError
        The metadata section is damaged.
    """
    head = source.read_at(0, HEAD_NBYTES)
    meta = MetadataHeader.unpack(head, MAX_HEADER_SIZE, last_checksum=CHECKSUMS[-1].id)
    end = MAX_HEADER_SIZE + meta.section_size
    if end > len(head):
        head = source.read_at(0, min(end, source.size()))
    data = stored_data(meta, head[MAX_HEADER_SIZE:end])
    metadata = decode_data(data, meta.meta_codec, meta.meta_size)
    attrs = metadata.get("attrs") if isinstance(metadata, dict) else None
    if not isinstance(attrs, dict):
        raise FormatError("metadata: not those of an archive")
    return attrs, end


class Archive(Mapping[str, Array]):
    """Several named arrays in one file, each read when it is indexed.

    `bloscpack.open` returns it for a file that `bloscpack.savez` has written.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file or its URL.
    verify : bool or "always", default True
        As for `bloscpack.open`.
    nthreads : int, optional
        Threads that decode; by default one per processor, at most 8.
    storage_options : mapping, optional
        Options of fsspec's file system for a URL.

    Raises
    ------
    WrongKindError
        The file is of another type; the message names the function that reads it.
    FormatError, UnsupportedError
        The file is damaged or of an unknown version.
    OSError
        The file cannot be opened.

    Notes
    -----
    A mapping of names to arrays, in the order in which they were saved. ``archive[name]`` returns a
    new `Array`, which reads from the archive's file: after `close`, it cannot be read any more.
    Threads and forked children may share an archive. A pickle has the path of the file, and not
    its content; reopening a file that has changed raises `FileChangedError`.

    Opening a URL makes one request if the file has at most 64 KiB, else two; a long index takes one
    more. Opening an array takes one more, unless it was fetched with the one before it.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> bp.savez("fields.blp", temperature=np.linspace(270, 300, 7), mask=np.ones((2, 3), bool))
    >>> with bp.Archive("fields.blp") as fields:
    ...     list(fields), fields["temperature"][-2:]
    (['temperature', 'mask'], array([295., 300.]))
    """

    def __init__(
        self,
        path: Any,
        *,
        verify: Verify = True,
        nthreads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        if verify not in (True, False, "always"):
            raise ValueError(f"verify must be True, False or 'always', not {verify!r}")
        self._verify: Verify = verify
        self._nthreads = nthreads
        self._is_open = True
        self._attrs: dict[str, Any] | None = None
        self._source = source = open_source(path, storage_options)
        with closed_on_error(source, source.name):
            self._members, index = read_members(source)
        version = source.identity() or str(source.stamp)
        self._identity = xxh3_128_digest(version.encode() + index)

    @property
    def name(self) -> str | None:
        """Path or URL, as passed by the caller; None for bytes."""
        return self._source.name

    @property
    def cbytes(self) -> int:
        """Size of the file in bytes."""
        return self._open_source().size()

    @property
    def attrs(self) -> dict[str, Any]:
        """JSON values stored with the archive; each array has attrs of its own."""
        if self._attrs is None:
            with errors_at(self.name):
                attrs, _ = read_front(self._open_source())
            self._attrs = read_only(attrs, "write a new archive with bloscpack.savez")
        return self._attrs

    if not TYPE_CHECKING:  # type checkers know that there are no others

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, which says how an array of the name is had."""
            advice = f": use archive[{name!r}]" if name[0] != "_" and name in self else ""
            raise AttributeError(f"'Archive' object has no attribute {name!r}{advice}")

    def __getitem__(self, name: str) -> Array:
        """Return an array.

        Raises
        ------
        NotFoundError
            No array has this name (a KeyError).
        FormatError, UnsupportedError
            Its file is damaged.
        """
        member = member_named(name, self._open_source(), self._members)
        return Array(member, verify=self._verify, nthreads=self._nthreads)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in order."""
        return iter(self._members)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._members)

    def __contains__(self, name: object) -> bool:
        """Return whether an array has this name, without opening it."""
        return name in self._members

    def _ipython_key_completions_(self) -> list[str]:
        """Return the names, for completion in IPython and notebooks."""
        return list(self._members)

    # Those of `Mapping` would read all arrays.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        """Return the path and the first names."""
        state = "" if self._is_open else " (closed)"
        return (
            f"<bloscpack.Archive {self.name or 'memory'!r}: {len(self)} arrays, "
            f"{first_names(self._members)}{state}>"
        )

    def _repr_html_(self) -> str:
        """Return a table of the arrays for notebooks."""
        with importing:
            from ..display.card import archive_card
        return archive_card(self)

    def close(self) -> None:
        """Close the file; idempotent. Its arrays cannot be read any more."""
        self._is_open = False
        self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the location and identity of the file, not its content."""
        place = place_of(self._open_source())
        return _reopen, (place, self._identity, self._verify, self._nthreads)

    def _open_source(self) -> ByteSource:
        if not self._is_open:
            raise ValueError("I/O operation on a closed bloscpack.Archive: open the file again")
        return self._source


def _reopen(place: Any, identity: bytes, verify: Verify, nthreads: int | None) -> Archive:
    """Reopen a pickled archive; FileChangedError if the file has changed since."""
    try:
        archive = Archive(place, verify=verify, nthreads=nthreads)
    except BloscpackError as err:
        raise changed(err.path) from err  # it could be opened when it was pickled
    if archive._identity != identity:
        archive.close()
        raise changed(archive.name)
    return archive
