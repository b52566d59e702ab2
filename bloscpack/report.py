"""Checking a file from front to end: what is damaged, and which content is lost with it."""

from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from .codec import CHUNK_HEADER_SIZE
from .container.reader import Container
from .container.writer import Progress
from .exceptions import (
    BloscpackError,
    FormatError,
    NotANumpyArray,
    NotBloscpackError,
)
from .ndarray import check_nbytes, unpack_array_metadata
from .storage.file import open_source
from .threads import resolve_nthreads, run_indexed


@dataclass(frozen=True, slots=True)
class Damage:
    """One fault of a file.

    Attributes
    ----------
    what : str
        The error in words.
    index : int or None
        The chunk; None for the header, the metadata and the offset table.
    offset : int or None
        Position in the file, in bytes, where it is known.
    first, last : int or None
        The decoded bytes that are lost, ``first <= byte < last``.
    """

    what: str
    index: int | None = None
    offset: int | None = None
    first: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What `verify` found.

    Attributes
    ----------
    path : str or None
        The file.
    nchunks, nbytes : int
        Chunks the header promises, and their decoded size; 0 if the front is damaged.
    damage : list of Damage
        In file order; empty for a sound file.
    """

    path: str | None
    nchunks: int
    nbytes: int
    damage: list[Damage] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the file is sound."""
        return not self.damage


def verify(path: Any, *, nthreads: int | None = None, progress: Progress | None = None) -> Report:
    """Check header, metadata, offset table and every chunk of a file; change nothing.

    Parameters
    ----------
    path : str, PathLike, bytes-like or binary file
        The file.
    nthreads : int, optional
        Threads that decode; as many as there are processors, at most 8, by default.
    progress : callable, optional
        Called with (bytes done, bytes in all) after each chunk.

    Returns
    -------
    Report
        What is damaged.

    Raises
    ------
    NotBloscpackError
        The file is of another kind.
    UnsupportedError
        It is of an unknown version.
    OSError
        It cannot be read.

    Notes
    -----
    Each chunk is decoded, so a file without checksums is checked as far as its codecs can.
    """
    source = open_source(path)
    try:
        container = Container(source)
    except NotBloscpackError:
        raise
    except FormatError as err:
        return Report(source.name, 0, 0, [_damage(err)])
    with container:
        report = Report(source.name, container.nchunks, container.nbytes)
        _check_metadata(container, report)
        table = _check_table(container, report)
        _check_chunks(container, table, report, nthreads, progress)
        if report.ok:
            try:
                container.check_end()
            except FormatError as err:
                report.damage.append(_damage(err))
        return report


def _check_metadata(container: Container, report: Report) -> None:
    try:
        dtype, shape, _ = unpack_array_metadata(container.metadata)
        check_nbytes(container, dtype, shape)
    except NotANumpyArray:
        return  # other metadata, or none
    except ImportError:
        return  # an optional package would have to say
    except BloscpackError as err:
        report.damage.append(_damage(err))


def _check_table(container: Container, report: Report) -> tuple[int, ...] | None:
    """Return the entries of the offset table, None without a table or with a damaged one."""
    if not container.header.offsets:
        return None
    try:
        return container.read_offsets()
    except FormatError as err:
        report.damage.append(_damage(err))
        return None


def _check_chunks(
    container: Container,
    table: tuple[int, ...] | None,
    report: Report,
    nthreads: int | None,
    progress: Progress | None,
) -> None:
    found: dict[int, Damage] = {}
    done = 0
    lock = Lock()

    def check(index: int) -> None:
        nonlocal done
        nbytes = container.chunk_nbytes(index)
        first = index * container.chunk_size
        try:
            offset, _ = container.read_located(index)
            if table and table[index] != offset:
                what = f"offset table: entry {index} is {table[index]}, the chunk is at {offset}"
                found[index] = Damage(what, index, offset)
        except BloscpackError as err:
            found[index] = _damage(err, index, first, first + nbytes)
        if progress is not None:
            with lock:
                done += nbytes
                progress(done, container.nbytes)

    # A header can promise more chunks than the file has bytes: those need no look.
    smallest = CHUNK_HEADER_SIZE + container.header.checksum.nbytes
    possible = max(0, container.source.size() - container.data_offset) // smallest
    count = min(container.nchunks, possible)
    run_indexed(check, range(count), resolve_nthreads(nthreads, container.nbytes))
    report.damage.extend(found[index] for index in sorted(found))
    if count < container.nchunks:
        what = f"chunks {count} to {container.nchunks - 1} are missing: the file is too short"
        lost = count * container.chunk_size
        report.damage.append(Damage(what, count, None, lost, container.nbytes))


def _damage(
    err: BloscpackError, index: int | None = None, first: int | None = None, last: int | None = None
) -> Damage:
    return Damage(str(err.args[0]), index, getattr(err, "offset", None), first, last)
