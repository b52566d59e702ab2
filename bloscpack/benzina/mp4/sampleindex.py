"""Index that a writer builds of its samples, and the tracks and tables packed from it.

Stored in numeric arrays, about 50 bytes per sample plus its name. All places follow from the sizes:
samples start at the end of the head, then targets, then names, without gaps.
"""

from array import array
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from .format import INPUT, NAME, TARGET, TARGET_NBYTES, THUMB, Profile, is_reference, pack_name
from .moviewriter import HEAD_NBYTES, Extents, film_entry, pack_head, pack_movie
from .samplelayout import InnerTrack

ABSENT = -1
"""Target written for a sample without one, if other samples have targets."""


class SampleIndex:
    """Sizes, targets and names of the samples of a new dataset, in order.

    `has_film` is whether all thumbnails so far can be decoded with one configuration, as players
    require.
    """

    def __init__(self) -> None:
        self._sizes = array("Q")
        self._targets = array("q")
        # Number of samples before the first one without a target; whether any sample has one.
        self._ntargets_in_front = 0
        self._has_targets = False
        self._names = bytearray()
        self._name_sizes = array("Q")
        self._has_names = False
        self._thumb_offsets = array("Q")
        self._thumb_sizes = array("Q")
        self._film: tuple[bytes, bytes, bytes, tuple[int, int]] | None = None
        self._film_entry = b""
        self.has_film = True

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._sizes)

    def add(
        self,
        sample: bytes,
        thumb: InnerTrack | None,
        target: int | None,
        name: str | bytes | None,
    ) -> int:
        """Add a whole sample and return its ordinal.

        Nothing is added if the thumbnail is invalid.
        """
        ordinal = len(self._sizes)
        stored = pack_name(b"" if name is None else name)
        if thumb is None:
            self.has_film = False
        else:
            self._add_thumb(sample, thumb)
        self._sizes.append(len(sample))
        self._names += stored
        self._name_sizes.append(len(stored))
        self._has_names |= name is not None
        self._targets.append(ABSENT if target is None else target)
        self._has_targets |= target is not None
        if target is not None and self._ntargets_in_front == ordinal:
            self._ntargets_in_front += 1
        return ordinal

    def _add_thumb(self, sample: bytes, thumb: InnerTrack) -> None:
        kind = thumb.entry_kind, thumb.config_kind, thumb.config, thumb.frame
        if self._film is None:
            self._film_entry = film_entry(sample)
            self._film = kind
        elif kind != self._film:
            self.has_film = False
        self._thumb_offsets.append(thumb.offset)
        self._thumb_sizes.append(thumb.nbytes)

    @property
    def nlost_targets(self) -> int:
        """Number of targets that the reference profile omits: those after a sample without one."""
        present = len(self) - self._targets.count(ABSENT)
        kept = self._ntargets_in_front - self._targets[: self._ntargets_in_front].count(ABSENT)
        return present - kept

    def pack(
        self, profile: Profile, splits: Mapping[str, range] | None = None
    ) -> tuple[bytes, list[bytes]]:
        """Return the head of the file, and the parts after its samples."""
        reference = is_reference(profile)
        sizes = np.frombuffer(self._sizes, np.uint64)
        tracks = {INPUT: Extents(_starts(HEAD_NBYTES, sizes), sizes)}
        end = HEAD_NBYTES + int(sizes.sum())
        parts: list[bytes] = []
        ntargets = self._ntargets_in_front if reference else len(self) * self._has_targets
        if ntargets or reference:
            parts.append(np.array(self._targets[:ntargets], "<i8").tobytes())
            each = np.full(ntargets, TARGET_NBYTES, np.uint64)
            tracks[TARGET] = Extents(_starts(end, each), each)
            end += len(parts[-1])
        if self._has_names or reference:
            parts.append(bytes(self._names))
            lengths = np.frombuffer(self._name_sizes, np.uint64)
            tracks[NAME] = Extents(_starts(end, lengths), lengths)
            end += len(parts[-1])
        if self._film is not None and (self.has_film or reference):
            offsets = tracks[INPUT].offsets + np.frombuffer(self._thumb_offsets, np.uint64)
            tracks[THUMB] = Extents(offsets, np.frombuffer(self._thumb_sizes, np.uint64))
        parts.append(pack_movie(tracks, self._film_entry, profile=profile, splits=splits))
        return pack_head(end - HEAD_NBYTES), parts


def _starts(first: int, sizes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the offsets of pieces that follow each other from `first` on."""
    starts = np.empty(len(sizes), np.uint64)
    if len(sizes):
        starts[0] = first
        np.cumsum(sizes[:-1], out=starts[1:])
        starts[1:] += np.uint64(first)
    return starts
