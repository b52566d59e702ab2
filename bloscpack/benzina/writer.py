"""Write datasets: pictures, or samples that are already encoded, with their targets and names.

A file is written from front to back under a temporary name: samples as they come, then targets,
names and the moov that locates them. The size of the mdat is filled in last. Closing the writer
syncs the file and renames it, so it appears complete or not at all. Only sizes, targets and names
of the samples stay in memory, about 100 bytes per sample.

The default profile can be read by any reader. It writes a target for every sample if any sample has
one (-1 for the others), no name track if no sample has a name, a film of the thumbnails if all have
the same coding, and the splits. The profile "reference" writes what Benzina's tools write and its
0.0.5 reader reads: targets end before the first sample without one, names and thumbnails always
have tracks, and x265 keeps its signature in the stream.
"""

import operator
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from typing import Any, Self

import numpy as np

from ..plugin import (
    ByteSink,
    BytesLike,
    FormatError,
    PictureCodec,
    UnsupportedError,
    notice,
    open_sink,
    warn_unclosed,
)
from .codec.codecconfig import DEFAULT_MAX_PIXELS
from .codec.encoder import Encoder
from .codec.picture import Rgb, frame_size, read_picture, thumbnail
from .mp4.format import INPUT, TARGET_NBYTES, THUMB, Profile, is_reference, pack_name
from .mp4.moviewriter import pack_head
from .mp4.sampleindex import SampleIndex
from .mp4.samplelayout import parse_sample
from .mp4.samplewriter import StoredPicture, pack_sample
from .splits import Span, resolve_splits

_CLOSED = "the dataset is closed"
_INT64 = np.iinfo(np.int64)
# Codecs that Benzina's tools and reader support.
_REFERENCE_CODECS = "hevc", "h264"
_REFERENCE_TILE, _REFERENCE_CRF = 512, 10
# A sample entry stores the sides of a frame in 16 bits.
_MAX_SIDE = (1 << 16) - 1
_MIN_TILE = 16


class Writer:
    """Writes a new dataset.

    Parameters
    ----------
    path : str, PathLike or binary file
        File to write.
    codec : {"hevc", "h264", "av1"}, optional
        H.265, H.264 or AV1.
    crf : float, optional
        Quality: 0 is the best, 51 (AV1: 63) the worst. By default 24 for "hevc", 20 for "h264" and
        12 for "av1", which gives about 43 dB for photographs.
    tile : int, optional
        Edge of a tile in pixels, a multiple of 16. Frames are whole tiles; a thumbnail fits one.
    thumb : bool, optional
        Store a thumbnail of pictures that do not fit a tile. If False, track ``bzna_thumb`` is the
        picture itself, as it is for those that fit.
    lossless : bool, optional
        Store every pixel exactly, in RGB; "hevc" and "h264" only. Applies to thumbnails, too.
    profile : {"default", "reference"}, optional
        Form of the file, see the module. "reference" requires "hevc" (with crf 10 by default) or
        "h264", tile 512 and thumbnails, and allows neither lossless pictures nor splits.
    preset : str or int, optional
        Speed of the encoder: "ultrafast" to "placebo", by default "medium"; for AV1 13 to 0, by
        default 8.
    splits : mapping of str to (start, stop), range or slice; or "imagenet"; optional
        Parts of the dataset to store with it; checked when the writer is closed.
    overwrite : bool, optional
        Replace an existing file.
    max_pixels : int, optional
        Largest frame of a picture, in pixels.

    Attributes
    ----------
    path : object
        As passed.

    Raises
    ------
    FileExistsError
        The file exists, and `overwrite` is False.
    TypeError, ValueError
        An option is out of range, or conflicts with another.
    OSError
        The file cannot be created.

    Notes
    -----
    After an error inside a ``with`` block no new file exists, and a file to be replaced is
    unchanged. The same holds if the process dies, but a temporary file may remain. Methods may be
    called from many threads; samples are stored in the order in which the calls finish.

    Examples
    --------
    >>> import bloscpack as bp, numpy as np
    >>> with bp.benzina.Writer("pictures.bzna") as writer:  # doctest: +SKIP
    ...     writer.add("cat.jpg", target=3, name="cat.jpg")
    ...     writer.add(np.zeros((480, 640, 3), "u1"), target=4, name="black")
    """

    def __init__(
        self,
        path: Any,
        *,
        codec: PictureCodec = "hevc",
        crf: float | None = None,
        tile: int = 512,
        thumb: bool = True,
        lossless: bool = False,
        profile: Profile = "default",
        preset: str | int | None = None,
        splits: Mapping[str, Span] | str | None = None,
        overwrite: bool = False,
        max_pixels: int = DEFAULT_MAX_PIXELS,
    ) -> None:
        self._reference = is_reference(profile)
        tile = operator.index(tile)
        if tile < _MIN_TILE or tile % _MIN_TILE or tile * tile > max_pixels:
            raise ValueError(
                f"tile {tile}: a multiple of {_MIN_TILE} pixels, with at most {max_pixels} in it"
            )
        if self._reference:
            _check_reference(codec, tile, thumb, lossless, splits)
            crf = _REFERENCE_CRF if crf is None else crf
        elif splits is not None:
            # Check everything that does not depend on the number of samples.
            resolve_splits(splits, _INT64.max)
        self._encoder = Encoder(
            codec, crf=crf, preset=preset, lossless=lossless, like_reference=self._reference
        )
        self._profile: Profile = profile
        self._tile, self._thumb, self._max_pixels = tile, thumb, max_pixels
        self._splits = splits
        self.path = path
        self._index = SampleIndex()
        self._lock = Lock()
        self._context: AbstractContextManager[ByteSink] = open_sink(
            path, overwrite=overwrite or not isinstance(path, str | os.PathLike)
        )
        self._sink = self._context.__enter__()
        self._is_open = True
        with self._aborting():
            self._sink.write(pack_head(0))

    def __len__(self) -> int:
        """Return the number of samples so far."""
        return len(self._index)

    def add(self, picture: Any, target: int | None = None, name: str | bytes | None = None) -> int:
        """Encode a picture and write it.

        Parameters
        ----------
        picture : path, bytes-like, ndarray or PIL.Image.Image
            See `encode`.
        target : int, optional
            A signed 64-bit number.
        name : str or bytes, optional
            Any name without NUL.

        Returns
        -------
        int
            The ordinal of the sample.

        Raises
        ------
        CodecError, UnsupportedError, TypeError, ValueError, OSError, ImportError
            As for `encode`; nothing was written, and the writer stays usable.
        OSError
            The file cannot be written: the writer is aborted.
        """
        self._check_open()
        return self.add_encoded(self.encode(picture, target, name), target, name)

    def encode(
        self, picture: Any, target: int | None = None, name: str | bytes | None = None
    ) -> bytes:
        """Return the sample that `add` would write, for `add_encoded`.

        Parameters
        ----------
        picture : path, bytes-like, ndarray or PIL.Image.Image
            A file of any image format that Pillow reads, or its bytes; an array of shape (H, W),
            (H, W, 3), or with alpha (H, W, 2) or (H, W, 4), of uint8, bool or uint16. The EXIF
            orientation is applied; transparency is dropped; 16 bits become 8.
        target, name
            See `add`.

        Returns
        -------
        bytes
            An mp4 of its own; equal for the same picture and options.

        Raises
        ------
        CodecError
            The picture cannot be decoded, or the encoder refuses it.
        UnsupportedError
            The picture has too many pixels, or samples of unknown range.
        TypeError, ValueError
            The picture, target or name has a wrong type or cannot be stored.
        OSError
            The picture's file cannot be read.
        ImportError
            PyAV or Pillow is missing.
        """
        target = _check_target(target)
        stored_name = _pack_name(name)
        rgb = read_picture(picture, max_pixels=self._max_pixels)
        small = thumbnail(rgb, self._tile) if self._thumb else None
        return pack_sample(
            self._code(rgb),
            None if small is None else self._code(small),
            name=stored_name,
            target=None
            if target is None
            else target.to_bytes(TARGET_NBYTES, "little", signed=True),
            profile=self._profile,
        )

    def _code(self, rgb: Rgb) -> StoredPicture:
        height, width = rgb.shape[:2]
        frame = frame_size(width, height, self._tile)
        if frame[0] * frame[1] > self._max_pixels or max(frame) > _MAX_SIDE:
            raise UnsupportedError(
                f"a picture of {width}x{height} needs a frame of {frame[0]}x{frame[1]}: at most"
                f" {self._max_pixels} pixels, and {_MAX_SIDE} per side, are allowed"
            )
        coded = self._encoder.encode(rgb, *frame)
        return StoredPicture(
            *coded,
            frame=frame,
            clean=(0, 0, width, height),
            colour=self._encoder.colour,
            compressor=self._encoder.signature if self._reference else b"",
        )

    def add_encoded(
        self, sample: BytesLike, target: int | None = None, name: str | bytes | None = None
    ) -> int:
        """Write a sample that is already encoded, unchanged.

        Parameters
        ----------
        sample : bytes-like
            From `encode`, or `Sample.data` of another dataset; with any codec and tile.
        target, name
            For the dataset's own tables; those inside `sample` do not change.

        Returns
        -------
        int
            The ordinal of the sample.

        Raises
        ------
        FormatError
            `sample` is damaged, or has no picture; nothing was written.
        TypeError, ValueError
            The target or name has a wrong type or cannot be stored.
        OSError
            The file cannot be written: the writer is aborted.
        """
        self._check_open()
        target = _check_target(target)
        _pack_name(name)
        data = bytes(sample)
        tracks = parse_sample(data).tracks
        if INPUT not in tracks:
            raise FormatError(f"sample: no track {INPUT!r}")
        if self._reference and THUMB not in tracks:
            raise FormatError(f"sample: no track {THUMB!r}, which the reference profile needs")
        with self._lock:
            self._check_open()  # again: another thread may have closed the writer
            ordinal = self._index.add(data, tracks.get(THUMB), target, name)
            with self._aborting():
                self._sink.write(data)
            return ordinal

    def close(self) -> None:
        """Write targets, names and moov, then rename the file into place; idempotent.

        Raises
        ------
        ValueError
            A split is not within the dataset; no file is left.
        OSError
            The file cannot be written; no file is left.
        """
        with self._lock:
            if not self._is_open:
                return
            with self._aborting():
                self._finish()
            self._is_open = False
            self._context.__exit__(None, None, None)

    def _finish(self) -> None:
        """Write everything after the samples, then the total size at the start of the file."""
        if self._reference and self._index.nlost_targets:
            notice(
                "%s: as in Benzina's tools, targets after the first sample without a target are "
                "left out: %d",
                self.path,
                self._index.nlost_targets,
            )
        splits = None if self._splits is None else resolve_splits(self._splits, len(self))
        head, parts = self._index.pack(self._profile, splits)
        for part in parts:
            self._sink.write(part)
        self._sink.write_at(0, head)

    def abort(self) -> None:
        """Discard the file; do nothing after `close`."""
        with self._lock:
            if self._is_open:
                self._give_up(_Aborted())

    def _give_up(self, error: BaseException) -> None:
        self._is_open = False
        self._context.__exit__(type(error), error, None)

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """Abort if the block raises."""
        try:
            yield
        except BaseException as err:
            self._give_up(err)
            raise

    def _check_open(self) -> None:
        if not self._is_open:
            raise ValueError(_CLOSED)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # If __init__ failed, attributes may be missing.
        if getattr(self, "_is_open", False):
            outcome = "no file was made, and its samples are lost"
            try:
                warn_unclosed("dataset", str(self.path), outcome, self)
            finally:
                self.abort()

    def __repr__(self) -> str:
        state = "open" if self._is_open else "closed"
        return f"<bloscpack.benzina.Writer of {self.path!r}: {len(self)} samples, {state}>"


class _Aborted(BaseException):
    """Makes the sink discard the file."""


def _check_reference(codec: str, tile: int, thumb: bool, lossless: bool, splits: object) -> None:
    """Refuse options that Benzina's tools do not write."""
    if codec not in _REFERENCE_CODECS or tile != _REFERENCE_TILE:
        raise ValueError(
            f"profile 'reference' has codec {' or '.join(map(repr, _REFERENCE_CODECS))} and tile "
            f"{_REFERENCE_TILE}, not {codec!r} and {tile}"
        )
    if lossless or not thumb or splits is not None:
        raise ValueError(
            "profile 'reference' has lossy pictures, thumbnails and no splits: leave out lossless, "
            "thumb and splits, or the profile"
        )


def _check_target(target: Any) -> int | None:
    if target is None:
        return None
    try:
        number = operator.index(target)
    except TypeError:
        raise TypeError(f"a target must be an int or None, not {type(target).__name__!r}") from None
    if not _INT64.min <= number <= _INT64.max:
        raise ValueError(f"target {number} does not fit 64 bits")
    return number


def _pack_name(name: Any) -> bytes:
    """Return a name as stored; an empty one for None."""
    if name is not None and not isinstance(name, str | bytes):
        raise TypeError(f"a name must be a str, bytes or None, not {type(name).__name__!r}")
    try:
        stored = pack_name(b"" if name is None else name)
    except UnicodeEncodeError:
        raise ValueError(f"name {name!r:.80} cannot be stored as UTF-8") from None
    if b"\0" in stored[:-1]:
        raise ValueError(f"name {name!r:.80} contains NUL")
    return stored
