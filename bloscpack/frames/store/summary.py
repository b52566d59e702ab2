"""Summary of a frame store, computed from its index alone."""

from typing import NamedTuple

import numpy as np

from ...exceptions import BloscpackError
from .format import FrameFormat
from .segments import Index


class Summary(NamedTuple):
    """Summary of the content of a store."""

    # Number of clips, frames and chunks.
    nclips: int
    nframes: int
    nchunks: int
    # Decoded size in bytes; images of a clip that differ in shape are counted as if like the first.
    nbytes: int
    # Each frame format with its number of clips and frames, the most frequent first.
    formats: list[tuple[FrameFormat, int, int]]


def summarize(index: Index) -> Summary:
    """Return a summary of all clips; formats that are not supported are left out."""
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
