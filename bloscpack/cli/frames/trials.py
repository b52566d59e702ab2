"""Presets of a frame store, tried on a sample of the frames of clips."""

import os
from collections.abc import Mapping
from time import process_time
from typing import Any, NamedTuple

import numpy as np

from ...exceptions import FormatError
from ...filetypes.open import create_frames, open_frames
from ...frames.protocol import Clip, FrameSource
from ...frames.store.frameencoding import PRESETS as ALL_PRESETS
from ...parallel.imports import importing
from ...types import AnyArray, Progress
from ..console.trialtable import Trial, least_seconds

# Clips that frames are taken from, evenly spread.
PLACES = 4
READS = 3
PRESETS: tuple[dict[str, Any], ...] = tuple({"preset": each} for each in ALL_PRESETS)
AS_STORED: dict[str, Any] = {"images": "kept"}


class Piece(NamedTuple):
    """Successive frames of a clip, from its middle."""

    frames: AnyArray
    images: list[bytes] | None  # as they are stored, if they are JPEG or PNG


class ClipSample(NamedTuple):
    """Frames of some clips.

    Attributes
    ----------
    pieces : dict of str to Piece
        The frames, by the id of their clip.
    nclips : int
        Number of clips of the source.
    """

    pieces: Mapping[str, Piece]
    nclips: int

    @property
    def nbytes(self) -> int:
        """Decoded size in bytes."""
        return sum(piece.frames.nbytes for piece in self.pieces.values())

    @property
    def nframes(self) -> int:
        """Number of frames."""
        return sum(len(piece.frames) for piece in self.pieces.values())


def take_frames(source: FrameSource, most: int, id_: str = "") -> ClipSample:
    """Read frames from the middle of evenly spread clips; at least one, at most `most` bytes."""
    ids = [id_] if id_ else [*source]
    places = min(PLACES, len(ids))
    pieces: dict[str, Piece] = {}
    for place in range(places):
        clip = source[ids[len(ids) * place // places]]
        if len(clip):
            pieces[clip.id] = _piece(clip, most // places)
    if not pieces:
        raise ValueError(f"{source.name}: no frames to try settings on")
    return ClipSample(pieces, len(source))


def _piece(clip: Clip, most: int) -> Piece:
    middle = len(clip) // 2
    frame = clip.read(middle)
    count = min(len(clip), max(1, most // max(1, frame.nbytes)))
    start = min(max(0, middle - count // 2), len(clip) - count)
    try:
        chosen = slice(start, start + count)
        return Piece(clip.read(chosen), clip.read_images(chosen))
    except ValueError:  # images of different shapes
        return Piece(frame[None], clip.read_images([middle]))


def run_trials(sample: ClipSample, progress: Progress | None = None) -> list[Trial]:
    """Return the trials in the order in which they ran; images are first tried as they are."""
    has_images = any(piece.images is not None for piece in sample.pieces.values())
    settings = PRESETS
    if has_images:
        settings = (AS_STORED, *({"images": "decoded", **each} for each in PRESETS))
    trials = []
    for each in settings:
        trials.append(_trial(sample, each))
        if progress is not None:
            progress(len(trials), len(settings))
    return trials


def _trial(sample: ClipSample, settings: dict[str, Any]) -> Trial:
    with importing:  # on use: few commands need it
        from tempfile import TemporaryDirectory

    keeps_images = settings == AS_STORED
    with TemporaryDirectory(prefix="blpk-tune-") as folder:
        path = os.path.join(folder, "trial.blp")
        # The time of the processor, on one thread: what else the machine does is not counted.
        began = process_time()
        options = {key: value for key, value in settings.items() if key != "images"}
        with create_frames(path, nthreads=1, locking=False, **options) as store:
            for id_, piece in sample.pieces.items():
                is_kept = keeps_images and piece.images is not None
                store.append(id_, piece.images if is_kept else piece.frames)
        write_seconds = process_time() - began
        found: dict[str, AnyArray] = {}
        with open_frames(path, nthreads=1) as store:
            seconds = least_seconds(
                lambda: found.update((id_, store[id_].read()) for id_ in sample.pieces), READS
            )
        for id_, piece in sample.pieces.items():
            if found[id_].tobytes() != np.ascontiguousarray(piece.frames).tobytes():
                raise FormatError(f"clip {id_!r:.80} saved with {settings} is read with others")
        return Trial(settings, os.stat(path).st_size, write_seconds, seconds)
