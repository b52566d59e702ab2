"""What a frame store holds, told from its index alone."""

from typing import NamedTuple

import numpy as np

from ...exceptions import BloscpackError
from .format import FrameFormat
from .segments import Index


class Summary(NamedTuple):
    """What a store holds, as its index tells.

    Attributes
    ----------
    nclips, nframes, nchunks : int
        How many.
    nbytes : int
        Decoded size in bytes; of images that differ in shape, as if all of a clip were as the
        first.
    formats : list of (FrameFormat, int, int)
        What frames there are, and how many clips and frames of each; those first that have most.
    """

    nclips: int
    nframes: int
    nchunks: int
    nbytes: int
    formats: list[tuple[FrameFormat, int, int]]


def summarize(index: Index) -> Summary:
    """Return what an index tells of all clips; formats that are unknown are left out."""
    counts: dict[bytes, tuple[int, int]] = {}
    nchunks = 0
    for segment in index.segments:
        clips = segment.clips
        nchunks += segment.tail.nchunks
        nclips = np.bincount(clips.formats, minlength=len(clips.rows))
        nframes = np.zeros(len(clips.rows), np.int64)
        np.add.at(nframes, clips.formats, clips.nframes.astype(np.int64))
        for row, some, frames in zip(clips.rows, nclips.tolist(), nframes.tolist(), strict=True):
            before = counts.get(row, (0, 0))
            counts[row] = before[0] + some, before[1] + frames
    nbytes, formats = 0, []
    for row, (some, frames) in sorted(counts.items(), key=lambda each: each[1], reverse=True):
        try:
            form = FrameFormat.unpack(row)
        except (BloscpackError, ImportError):
            continue
        nbytes += frames * form.nbytes
        formats.append((form, some, frames))
    return Summary(index.nclips, index.nframes, nchunks, nbytes, formats)
