"""Verification of a whole file: its faults, and the content lost with each.

If the front is damaged and the trailer has a copy of it, verification goes on with the copy. A
writer may append at the same time: apparent damage is checked again in the later state of the file.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import pairwise
from math import prod
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..array.arraymetadata import (
    check_nbytes,
    describe_array,
    describe_content,
    statistics_type,
    unpack_array_metadata,
)
from ..container.chunk import StoredChunk
from ..container.front import (
    recorded_head,
    with_front,
)
from ..container.reader import Container
from ..exceptions import (
    BloscpackError,
    FileChangedError,
    FormatError,
    NotANumpyArray,
    NotBloscpackError,
    UnsupportedError,
)
from ..format.codec import CHUNK_HEADER_SIZE, decode_into, new_bytes
from ..format.header import OFFSET_SIZE, Header
from ..format.trailer import (
    DIGEST_SIZE,
    PAGE_CHUNKS,
    STATISTICS_SIZE,
    TAIL_SIZE,
    trailer_nbytes,
)
from ..parallel.imports import importing
from ..parallel.threads import resolve_nthreads, run_indexed
from ..storage.file import open_stable_source
from ..storage.protocol import ByteSource, ErrorsAt
from ..storage.remote.prefetch import prefetched
from ..storage.update import UpdateFile
from ..types import Progress
from .repair import Layout, repair
from .report import Damage, Report, damage_of, message_of, region_of

if TYPE_CHECKING:
    from ..format.log import Commit, Row
    from ..format.statistics import Statistics

# How often a file is checked again if it changes during the check.
_ATTEMPTS = 50


def verify(
    path: Any,
    *,
    nthreads: int | None = None,
    progress: Progress | None = None,
    fix: bool = False,
) -> Report:
    """Verify every part of a file of an array or of bytes."""
    with ExitStack() as stack:
        if not fix:
            return _verify_source(path, stack, nthreads, progress).report()
        if not isinstance(path, str | os.PathLike) or not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError("fix needs the path of a file: memory and streams cannot be repaired")
        file = _open_locked(path)
        if file is not None:
            stack.callback(file.close)
        before = os.stat(path) if file is None else file.status()
        verification = _verify_source(path if file is None else file, stack, nthreads, progress)
        return repair(Path(path), file, before, verification.report(), verification.layout)


def _open_locked(path: str | os.PathLike[str]) -> UpdateFile | None:
    """Lock a file; return None if it cannot be written, which matters only if it needs a repair."""
    try:
        return UpdateFile.open(path)
    except OSError as err:
        if err.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise
        return None


def _verify_source(
    where: Any, stack: ExitStack, nthreads: int | None, progress: Progress | None
) -> "_Verification":
    """Verify a file; everything that is opened is closed with the `stack`."""
    source = open_stable_source(where)
    stack.callback(source.close)
    verification = _Verification(source, None)
    verification.run(nthreads, progress)
    for _ in range(_ATTEMPTS):
        # A state recorded in a journal stays readable; memory and streams have no writers.
        is_done = verification.is_clean or not source.is_changed()
        file = None if is_done else source.duplicate()
        if file is None:
            break
        stack.callback(file.close)
        source = file.before_append(replays=False) or file
        stack.callback(source.close)
        verification = _Verification(source, verification.known)
        verification.run(nthreads, progress)
    return verification


class _Verification:
    """Verification of one state of a file, with its faults by part of the file.

    Chunks that were sound in an `earlier` state are not read again.
    """

    def __init__(self, source: ByteSource, earlier: Layout | None) -> None:
        self._source = source
        self._earlier = earlier
        self.known: Layout | None = earlier
        self._front: list[Damage] = []
        self._table: list[Damage] = []
        self._chunks: list[Damage] = []
        self._end: list[Damage] = []
        self._notices: list[str] = []
        self._state = "absent"
        self._statistics: Statistics | None = None
        self.container = self._open()

    def report(self) -> Report:
        """Return the result."""
        container = self.container
        return Report(
            self._source.name,
            container.nchunks if container else 0,
            container.nbytes if container else 0,
            [*self._front, *self._table, *self._chunks, *self._end],
            self._state,
            self._notices,
        )

    @property
    def is_clean(self) -> bool:
        """Whether all faults found are ones that a concurrent writer cannot have caused."""
        faults = self._front or self._table or self._chunks or self._end or self._notices
        return not faults and self._state in ("valid", "absent")

    @property
    def layout(self) -> Layout | None:
        """Layout for a repair; None if data or metadata are damaged."""
        if self.container is None or self._front or self._chunks:
            return None
        return self._layout

    def _open(self) -> Container | None:
        try:
            # Through the overlay, it neither looks for a writer nor closes the source.
            return Container.open(with_front(self._source, b""))
        except (FormatError, UnsupportedError) as err:
            recorded = recorded_head(self._source)
            if recorded is None:
                if isinstance(err, NotBloscpackError | UnsupportedError):
                    raise
                self._front.append(damage_of(err))
                return None
            error: BloscpackError = err
        self._compare_front(recorded, error)
        try:
            return Container.open(with_front(self._source, recorded))
        except (FormatError, UnsupportedError):
            return None  # large metadata have no copy, and are damaged too

    def _compare_front(self, recorded: bytes, error: BloscpackError) -> None:
        """Add damage for each part of the front that differs from the copy."""
        stored = bytes(self._source.read_at(0, len(recorded)))
        size = Header.unpack(recorded).size
        what = message_of(error)
        if stored[:size] != recorded[:size]:
            self._front.append(Damage(what, None, 0, size))
            what = "metadata: differ from the copy in the trailer"
        if stored[size:] != recorded[size:] or not self._front:
            self._front.append(Damage(what, None, size, max(len(recorded), size)))

    def run(self, nthreads: int | None, progress: Progress | None) -> None:
        """Verify everything behind the front."""
        container = self.container
        if container is None:
            return
        self._state = container.front.trailer_state
        self._verify_metadata(container)
        self._find_statistics(container)
        table = self._verify_table(container)
        self._verify_chunks(container, table, nthreads, progress)
        commit = container.front.commit
        if self._statistics is not None and not self._chunks:
            stored = bytes(self._layout.statistics)
            self._end += _compare_statistics(container, self._statistics, stored)
        if commit is None:
            self._verify_trailer(container)
        elif self._source.node is None:
            damage, notices = check_log(self._source, commit)
            self._table += damage
            self._notices += notices
        if not self._chunks and not self._front:
            try:
                container.stored.check_end()
            except FormatError as err:
                self._front.append(damage_of(err))

    def _verify_metadata(self, container: Container) -> None:
        try:
            dtype, shape, _ = unpack_array_metadata(container.metadata)
            check_nbytes(container, dtype, shape)
        except NotANumpyArray:
            return  # other metadata, or an array without any
        except ImportError:
            return  # only an optional package can check this dtype
        except BloscpackError as err:
            size, end = container.header.size, container.front.table_offset
            self._front.append(damage_of(err, None, size, end))

    def _find_statistics(self, container: Container) -> None:
        """Prepare to compute the statistics of the chunks, if the file has them."""
        if not container.stored.has_statistics:
            return
        try:
            self._statistics = _statistics_of(container)
        except BloscpackError as err:
            self._end.append(damage_of(err))
        except ImportError:
            self._notices.append("the statistics of the chunks were not compared: no such dtype")

    def _verify_table(self, container: Container) -> tuple[int, ...]:
        """Return the entries of the offset table; empty if it is absent or damaged."""
        if not container.header.offsets or not container.nchunks:
            return ()
        start, end = container.front.table_offset, container.data_offset
        try:
            return container.stored.offsets()
        except FormatError as err:
            self._table.append(damage_of(err, None, start, end))
            return ()

    def _verify_chunks(
        self,
        container: Container,
        table: tuple[int, ...],
        nthreads: int | None,
        progress: Progress | None,
    ) -> None:
        # A hostile header may claim more chunks than the file has bytes: those are not visited.
        smallest = CHUNK_HEADER_SIZE + container.header.checksum.nbytes
        possible = max(0, container.source.size() - container.data_offset) // smallest
        count = min(container.nchunks, possible)
        statistics = self._statistics
        layout = Layout(container, count, has_statistics=statistics is not None)
        self.known = self._layout = layout
        todo: Sequence[int] = range(count)
        nknown = 0 if self._earlier is None else layout.take_over(self._earlier)
        if nknown:
            todo = [index for index in todo if not layout.ends[index]]
        rows = _Rows(container)
        chunks: dict[int, Damage] = {}
        lock = Lock()
        done = container.chunk_start(nknown)

        def verify_chunk(index: int) -> None:
            nonlocal done
            nbytes = container.chunk_nbytes(index)
            first = container.chunk_start(index)
            try:
                stored, content = _verify_chunk(container, index)
                measured = b"" if statistics is None else statistics.record(content)
                layout.note(index, stored, measured)
            except FileChangedError:
                raise  # chunks of two versions of the file must not be mixed in one report
            except BloscpackError as err:
                last = first + nbytes
                start = getattr(err, "offset", None)
                end = _end_of(container, table, index, start)
                chunks[index] = Damage(
                    message_of(err),
                    index,
                    start,
                    end,
                    first,
                    last,
                    rows.spanned(first, last),
                    region=region_of(container.grid, index, index + 1),
                )
            if progress is not None:
                with lock:
                    done += nbytes
                    progress(done, container.nbytes)

        threads = resolve_nthreads(nthreads, container.nbytes)
        for group in prefetched(self._source, todo, container.stored.extent):
            run_indexed(verify_chunk, group, threads)
        self._compare_table(container, table)
        self._chunks.extend(chunks[index] for index in sorted(chunks))
        if count < container.nchunks:
            what = f"chunks {count} to {container.nchunks - 1} are missing: the file is too short"
            lost = container.chunk_start(count), container.nbytes
            region = region_of(container.grid, count, container.nchunks)
            self._chunks.append(
                Damage(what, count, None, None, *lost, rows.spanned(*lost), region=region)
            )

    def _compare_table(self, container: Container, table: tuple[int, ...]) -> None:
        """Compare the entries with the offsets of the chunks."""
        start = container.front.table_offset
        for index, (entry, offset) in enumerate(zip(table, self._layout.offsets, strict=False)):
            if offset and entry != offset:  # 0 is that of a damaged chunk
                what = f"offset table: entry {index} is {entry}, the chunk is at {offset}"
                at = start + OFFSET_SIZE * index
                self._table.append(Damage(what, None, at, at + OFFSET_SIZE))

    def _verify_trailer(self, container: Container) -> None:
        """Verify everything behind the last chunk."""
        layout, size = self._layout, container.source.size()
        trailer, end = container.front.trailer, layout.end
        if trailer is None:
            if not self._chunks:  # otherwise the end of the last chunk is unknown
                self._classify_rest(container, end, size)
            return
        for page in range(-(-trailer.nchunks // PAGE_CHUNKS)):
            start, nbytes = trailer.page_extent(page)
            if not trailer.matches_digests(page, container.source.read_at(start, nbytes)):
                first = page * PAGE_CHUNKS
                what = f"trailer: the digests of chunks {first} to "
                what += f"{first + nbytes // DIGEST_SIZE - 1} are damaged"
                self._end.append(Damage(what, None, start, start + nbytes))
        if trailer.offset != end and not self._chunks:
            what = f"trailer: starts at {trailer.offset}, the last chunk ends at {end}"
            self._end.append(Damage(what, None, end, size))
        if self._end:
            self._state = "damaged"

    def _classify_rest(self, container: Container, end: int, size: int) -> None:
        """Classify the bytes behind the last chunk: damaged trailer, stale trailer or other."""
        rest = size - end
        count, front = container.nchunks, container.front
        expected = trailer_nbytes(count, front.table_offset)
        # Behind the digests and pages is the header again, unless there are statistics between.
        at = end + expected - front.table_offset - TAIL_SIZE
        if rest > expected and container.source.read_at(at, len(front.head)) != front.head:
            expected = trailer_nbytes(count, front.table_offset, STATISTICS_SIZE)
        # A trailer begins with the digest of chunk 0, even if the end of it is damaged.
        digests = bytes(self._layout.digests[:DIGEST_SIZE])
        begins = rest >= DIGEST_SIZE and container.source.read_at(end, DIGEST_SIZE) == digests
        if self._state != "stale" and rest == expected and (begins or self._state == "damaged"):
            self._state = "damaged"
            self._end.append(Damage("trailer: damaged", None, end, size))
        elif self._state != "stale" and begins and rest < expected:
            self._state = "damaged"
            what = f"trailer: truncated, {rest} of {expected} bytes are left"
            self._end.append(Damage(what, None, end, size))
        elif self._state != "absent":
            self._state = "stale"
            self._notices.append(
                "the trailer is stale: another program has changed the file; fix rewrites it"
            )
        elif rest > 0:
            self._notices.append(f"{rest} bytes follow the last chunk at offset {end}")


def check_log(source: ByteSource, commit: "Commit") -> tuple[list[Damage], list[str]]:
    """Return the damage to commits, earlier versions and shared space of a log; and notices."""
    with importing:  # on use: few files change
        from ..container.logreader import commits_of, lost_slots
        from ..format.log import COMMIT_SIZE, COPIES, SLOTS

    found: list[Damage] = []
    notices = []
    _, damaged, incomplete = commits_of(source)
    lost = lost_slots(damaged)
    for slot, copy in zip(SLOTS, COPIES, strict=True):
        if slot in lost:
            what = f"log: a commit is damaged; the last one is {commit.sequence}"
            found.append(Damage(what, None, slot, slot + COMMIT_SIZE))
        elif {slot, copy} & damaged:
            what = f"log: a slot of commits at offset {slot} is damaged, or its copy is"
            notices.append(f"{what}; nothing is lost, and the next commits replace both")
    if incomplete is not None:
        what = f"commit {incomplete.sequence} was not completed, so that the file is as of commit"
        notices.append(f"{what} {commit.sequence}; the next commit replaces it")
    try:
        extents = sorted(_check_versions(source, commit, found))
    except BloscpackError as err:
        return [*found, damage_of(err)], notices
    for one, two in pairwise(extents):
        if one.end > two.offset:
            what = f"log: an extent at {one.offset} ends at {one.end}, in the next one"
            found.append(Damage(what, None, one.offset, one.end))
    live = sum(row.nbytes for row in extents)
    if live != commit.live:
        found.append(Damage(f"log: {live} bytes are in use, but {commit.live} are recorded"))
    elif commit.dead:
        notices.append(f"{commit.dead} bytes are dead; bloscpack.compact gives them back")
    return found, notices


def _check_versions(source: ByteSource, commit: "Commit", damage: list[Damage]) -> "list[Row]":
    """Verify the earlier versions of a log; return the extents that are in use, each once."""
    with importing:  # on use, as above
        from ..container.logreader import extents_of, history_of

    extents = [commit.history, commit.added]
    seen: set[Row] = set()
    for version in reversed([*history_of(source, commit), commit]):
        with ErrorsAt(lambda number: (f"version {number}",), version.sequence):
            new = [row for row in extents_of(source, version) if row not in seen]
            if version is not commit:
                damage += _check_version(source, version, seen)
        extents += new
        seen.update(new)
    return extents


def _check_version(source: ByteSource, commit: "Commit", seen: "set[Row]") -> Iterator[Damage]:
    """Yield the damage to an earlier version of a log, but for chunks `seen` in later ones."""
    with importing:  # on use, as above
        from ..container.logreader import front_of, read_groups

    for node in (node for group in read_groups(source, commit) for node in group):
        if not node.chunks.nleaves:
            continue
        front = front_of(source, commit, node)
        container = Container(front, source)
        statistics, records = None, b""
        try:
            if container.stored.has_statistics:
                records = container.stored.read_statistics({})
                with suppress(ImportError):  # the newest version has a notice of it
                    statistics = _statistics_of(container)
        except BloscpackError as err:
            err.at(f"version {commit.sequence}")
            yield damage_of(err)
        for index, row in enumerate(front.table.rows.rows()):  # type: ignore[attr-defined]
            if row in seen:
                continue
            try:
                content = _verify_chunk(container, index)[1]
            except BloscpackError as err:
                err.at(f"version {commit.sequence}")
                yield damage_of(err, None, row.offset, row.end)
                continue
            found = records[STATISTICS_SIZE * index : STATISTICS_SIZE * (index + 1)]
            if statistics is None:
                continue
            if statistics.first_difference(found, statistics.record(content)) is not None:
                yield _wrong_statistics(container, index, f"version {commit.sequence}: ")


class _Rows:
    """Rows of an array by their decoded bytes; 0 rows without an array.

    `nbytes` of a row is 0 without an array, or for an array without rows.
    """

    def __init__(self, container: Container) -> None:
        self.nbytes = self.count = 0
        self._grid = container.grid
        try:
            dtype, shape, is_fortran = describe_array(container)
        except (BloscpackError, ImportError):
            return
        if shape:
            stored = shape[::-1] if is_fortran else shape
            self.nbytes = prod(stored[1:]) * dtype.itemsize
            self.count = stored[0]

    def spanned(self, first: int, last: int) -> tuple[int, int] | None:
        """Return the rows, start and stop, that hold decoded bytes `first` to `last`."""
        if not self.nbytes:
            return None
        if self._grid is not None:
            start, end = self._grid.at(first), self._grid.at(last - 1)
            return self._grid.box(start)[0].start, self._grid.box(end)[0].stop
        stop = min(-(-last // self.nbytes), self.count)
        return min(first // self.nbytes, stop), stop


def _statistics_of(container: Container) -> "Statistics":
    """Return the statistics of an array that has them; FormatError if its items have none."""
    return statistics_type().stored(describe_content(container)[0], container.chunk_size)


def _compare_statistics(
    container: Container, statistics: "Statistics", computed: bytes
) -> Iterator[Damage]:
    """Yield the first difference of the statistics of all chunks from those `computed`."""
    chunks = container.stored
    try:
        stored = chunks.read_statistics({})
    except FormatError as err:
        trailer = container.front.trailer
        yield damage_of(err, end=None if trailer is None else sum(trailer.statistics_extent()))
        return
    wrong = statistics.first_difference(stored, computed)
    if wrong is not None:
        yield _wrong_statistics(container, wrong)


def _wrong_statistics(container: Container, index: int, lead: str = "") -> Damage:
    what = f"{lead}the statistics of chunk {index} are not those of its items"
    start = container.stored.offset_of_statistics(index)
    return Damage(what, None, start, start + STATISTICS_SIZE)


def _verify_chunk(container: Container, index: int) -> tuple[StoredChunk, bytes]:
    """Return a chunk and its content; compare its checksum and its digest in the trailer."""
    stored = container.fetch(index)
    container.stored.compare_trailer(index, stored)
    content, view = new_bytes(stored.header.nbytes)
    with view:
        decode_into(stored.data, view)
    return stored, content


def _end_of(
    container: Container, table: tuple[int, ...], index: int, offset: int | None
) -> int | None:
    """Return the end of a damaged chunk from the offset table."""
    if offset is None:
        return None
    if index + 1 < len(table):
        return table[index + 1] if table[index + 1] > offset else None
    if index == container.nchunks - 1:
        return (
            container.front.trailer.offset if container.front.trailer else container.source.size()
        )
    return None
