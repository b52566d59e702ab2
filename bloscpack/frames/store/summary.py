"""Summary of a frame store, computed from its index alone."""

from typing import NamedTuple

import numpy as np

from ...exceptions import BloscpackError
from ..video.format import COST_UNIT, VideoHeader, split_text
from .format import Codec, FrameFormat
from .index import Index


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
    dead: int = 0  # stored bytes of the frames of clips that were removed


class VideoSummary(NamedTuple):
    """Summary of the video of a store, from the headers of its first clips."""

    codecs: list[str]
    gop: int  # frames of the longest group
    decoded_per_frame: float  # mean number of frames that are decoded to read a random one


_MAX_HEADERS = 256


def summarize_video(index: Index) -> VideoSummary | None:
    """Return a summary of the first 256 clips of video, or None if there are none.

    FormatError if a header is damaged.
    """
    codecs: set[str] = set()
    longest = nframes = count = 0
    cost = 0.0
    for segment in index.parts():
        if not segment.tail.nclips:
            continue
        is_video = np.array([row[0] == Codec.VIDEO for row in segment.clips.rows], bool)
        ordinals: list[int] = segment.ordinals[is_video[segment.clips.formats]].tolist()
        live = [each for each in ordinals if not index.is_removed(each)]
        for ordinal in live[: _MAX_HEADERS - count]:
            count += 1
            row = index.row(ordinal)
            text = index.meta(ordinal)
            header = VideoHeader.unpack(split_text(text)[1], row.nframes)
            codecs.add(header.codec.label)
            longest = max(longest, row.format.group)
            nframes += row.nframes
            cost += row.nframes * header.cost / COST_UNIT
    return VideoSummary(sorted(codecs), longest, cost / nframes) if nframes else None


def summarize(index: Index) -> Summary:
    """Return a summary of all clips; formats that are not supported are left out."""
    counts: dict[bytes, tuple[int, int]] = {}
    nchunks = 0
    for segment in index.parts():
        clips, live = segment.clips, index.live(segment)
        which = clips.formats[live]
        nchunks += segment.nchunks(live)
        nclips = np.bincount(which, minlength=len(clips.rows))
        nframes = np.zeros(len(clips.rows), np.int64)
        np.add.at(nframes, which, clips.nframes[live].astype(np.int64))
        for row, some, frames in zip(clips.rows, nclips.tolist(), nframes.tolist(), strict=True):
            if not some:
                continue
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
    return Summary(index.nclips, index.nframes, nchunks, nbytes, formats, index.dead)
