"""Verification of the clips of a store: read every frame, to find damaged ones.

Frames are read in batches, the way users read them, so every clip that passes can be read. Only if
a batch fails are its chunks read one by one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from xxhash import xxh3_64_digest

from ...damage.report import Damage, message_of
from ...exceptions import BloscpackError
from ...parallel.threads import ALL_THREADS, resolve_nthreads, run_indexed
from ...storage.protocol import ByteSource
from ...types import BytesLike
from ..protocol import read_batch
from .clip import StoreClip
from .format import CHECKSUM, DIGEST_SIZE, Codec
from .index import ClipChunks, Index
from .lossless import GROUP_FRAMES
from .openclip import open_clip

# Largest number of decoded bytes, and of requests, per batch.
_BATCH_NBYTES = 8 << 20
_BATCH_REQUESTS = 1 << 10


class Place(NamedTuple):
    """Location of the chunks of a clip."""

    ordinal: int  # ordinal of the clip in the index
    # Absolute offsets; `end` is after the digest of the last chunk.
    start: int
    end: int


def place_of(index: Index, ordinal: int) -> Place:
    """Return the location of the chunks of a clip."""
    chunks = index.chunks_of(ordinal)
    return Place(ordinal, chunks.start, chunks.end)


def stored_chunks(
    source: ByteSource, chunks: ClipChunks
) -> Iterator[tuple[BytesLike, BytesLike, int]]:
    """Yield the stored bytes, the digest and the offset of each chunk of a clip."""
    offsets, sizes, digests = (
        column.tolist() for column in (chunks.offsets, chunks.cbytes, chunks.digests)
    )
    for offset, nbytes, place in zip(offsets, sizes, digests, strict=True):
        if place == offset + nbytes:  # one read for both
            both = source.read_at(offset, nbytes + DIGEST_SIZE)
            yield both[:nbytes], both[nbytes:], offset
        else:
            yield source.read_at(offset, nbytes), source.read_at(place, DIGEST_SIZE), offset


def split_overlapping(places: Iterable[Place]) -> tuple[list[Place], list[tuple[Place, Place]]]:
    """Split into places that do not overlap, in file order, and the rest, each with its overlap.

    No writer creates overlapping clips. A file that has them may claim far more frames than it has
    bytes for.
    """
    apart: list[Place] = []
    others = []
    last: Place | None = None  # not an empty clip, which may be at any offset
    for place in sorted(places, key=lambda each: (each.start, each.end)):
        is_empty = place.start == place.end
        if last is not None and place.start < last.end and not is_empty:
            others.append((place, last))
            continue
        apart.append(place)
        if not is_empty:
            last = place
    return apart, others


def id_text(index: Index, ordinal: int) -> str:
    """Return the id of a clip; if it is not UTF-8, with the invalid bytes replaced."""
    try:
        return index.id(ordinal)
    except BloscpackError:
        return index.id_bytes(ordinal).decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Part:
    """A range of frames of a clip."""

    clip: StoreClip
    index: Index
    ordinal: int
    start: int
    stop: int


class _Store:
    """The parts of a store that a clip needs."""

    verify = True
    exact = False

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.nthreads: int | None = None

    def _check_open(self) -> None:
        """Do nothing: the file stays open while clips are verified."""

    def _set_meta(self, id: str, ordinal: int, meta: Mapping[str, Any]) -> int:  # noqa: A002
        raise NotImplementedError  # clips are only read here


class ClipVerifier:
    """Verifies clips, several per batch if they are small.

    `done` is called with the number of decoded bytes verified since the last call. `damage` is
    complete after `finish`; `bad` has the ordinals of the damaged clips; `notices` describe what
    could not be verified.
    """

    def __init__(
        self, source: ByteSource, nthreads: int | None, done: Callable[[int], None]
    ) -> None:
        self.damage: list[Damage] = []
        self.bad: set[int] = set()
        self.notices: list[str] = []
        self._source = source
        # Batches follow one another, so all threads are worth their start.
        self._nthreads = resolve_nthreads(nthreads, ALL_THREADS)
        self._store = _Store(source.name)
        self._done = done
        self._batch: list[_Part] = []
        self._nbytes = 0

    def verify(self, index: Index, ordinal: int) -> None:
        """Verify a clip; its frames may be read later, in a batch with other clips."""
        id_ = id_text(index, ordinal)
        try:
            index.id(ordinal)  # raises if it is not UTF-8
            clip = open_clip(self._store, self._source, index, id_, ordinal)
        except BloscpackError as err:
            self.add(index, ordinal, err)
            return
        except ImportError as err:
            # The library of its dtype or codec is missing: digests prove the bytes without it.
            self._compare_digests(index, ordinal, err)
            return
        try:
            clip.meta  # noqa: B018 - parsed on access
        except BloscpackError as err:
            self.add(index, ordinal, err, loses_frames=False)
        form = index.row(ordinal).format
        if not form.nbytes:
            self._compare_digests(index, ordinal, None)
            return
        if form.codec == Codec.VIDEO:
            self._verify_groups(clip, index, ordinal)
            return
        step = max(1, _BATCH_NBYTES // form.nbytes)
        # Frames that refer to each other, or share a chunk, belong to one part.
        together = form.group * GROUP_FRAMES
        step = 1 if form.varies else max(step // together * together, form.group)
        for start in range(0, len(clip), step):
            stop = min(start + step, len(clip))
            self._batch.append(_Part(clip, index, ordinal, start, stop))
            self._nbytes += (stop - start) * form.nbytes
            if self._nbytes >= _BATCH_NBYTES or len(self._batch) >= _BATCH_REQUESTS:
                self.finish()

    def add(
        self, index: Index, ordinal: int, err: BloscpackError, *, loses_frames: bool = True
    ) -> None:
        """Record an error that concerns a whole clip."""
        id_, what = id_text(index, ordinal), message_of(err)
        if not what.startswith("clip "):
            what = f"clip {id_!r:.80}: {what}"
        lost = (0, index.nframes_of(ordinal)) if loses_frames else None
        self.damage.append(Damage(what, None, getattr(err, "offset", None), clip=id_, frames=lost))
        self.bad.add(ordinal)

    def finish(self) -> None:
        """Verify the clips that are still waiting for a batch."""
        batch, self._batch = self._batch, []
        nbytes, self._nbytes = self._nbytes, 0
        if batch and not self._is_readable(batch, self._nthreads):
            for part in batch:
                if not self._is_readable([part], self._nthreads):
                    self._verify_chunks(part)
        self._done(nbytes)

    def _is_readable(self, parts: Sequence[_Part], nthreads: int | None) -> bool:
        requests = [(part.clip, slice(part.start, part.stop)) for part in parts]
        try:
            read_batch(requests, out=None, nthreads=nthreads)
        except (BloscpackError, ImportError):
            return False
        return True

    def _verify_chunks(self, part: _Part) -> None:
        """Read the chunks of a part one by one."""
        group = part.index.row(part.ordinal).format.group
        extents = part.clip.chunk_extents()
        for start in range(part.start, part.stop, group):
            stop = min(start + group, part.stop)
            try:
                read_batch([(part.clip, slice(start, stop))], out=None, nthreads=1)
            except ImportError as err:
                self._compare_digests(part.index, part.ordinal, err)
                return
            except BloscpackError as err:
                offset, cbytes = extents[start // group]
                place = start // group, offset, offset + cbytes
                what = message_of(err)
                self.damage.append(Damage(what, *place, clip=part.clip.id, frames=(start, stop)))
                self.bad.add(part.ordinal)

    def _verify_groups(self, clip: Any, index: Index, ordinal: int) -> None:
        """Decode the groups of a video, without the memory that their frames would take."""
        extents = clip.chunk_extents()
        errors: dict[int, BloscpackError] = {}

        def verify(chunk: int) -> None:
            try:
                clip.verify_chunk(chunk)
            except BloscpackError as err:
                errors[chunk] = err

        nthreads = resolve_nthreads(self._nthreads, clip.decode_cost * clip.nbytes)
        try:
            run_indexed(verify, range(len(extents)), nthreads)
        except ImportError as err:
            self._compare_digests(index, ordinal, err)
            return
        for chunk, error in sorted(errors.items()):
            offset, cbytes = extents[chunk]
            frames = clip.chunk_frames(chunk)
            place = chunk, offset, offset + cbytes
            self.damage.append(Damage(message_of(error), *place, clip=clip.id, frames=frames))
            self.bad.add(ordinal)
        self._done(clip.nbytes)

    def _compare_digests(self, index: Index, ordinal: int, why: ImportError | None) -> None:
        """Compare the digests of a clip that cannot be decoded here, or has nothing to decode."""
        if why is not None and f"not decoded, only compared: {why}" not in self.notices:
            self.notices.append(f"not decoded, only compared: {why}")
        id_, row = id_text(index, ordinal), index.format_bytes(ordinal)
        nframes = index.nframes_of(ordinal)
        chunks = index.chunks_of(ordinal)
        starts = [*range(0, nframes, row[1]), nframes]
        if row[0] == Codec.VIDEO:
            starts = [0, *accumulate(chunks.filters)]
        for chunk, (stored, digest, offset) in enumerate(stored_chunks(self._source, chunks)):
            if xxh3_64_digest(stored) != digest:
                cbytes = len(stored)
                lost = starts[chunk], starts[chunk + 1]
                what = f"clip {id_!r:.80}: frame {lost[0]}: {CHECKSUM} is not the one stored"
                place = chunk, offset, offset + cbytes
                self.damage.append(Damage(what, *place, clip=id_, frames=lost))
                self.bad.add(ordinal)
