"""Writing datasets: pictures, or samples that are coded already, with their targets and names.

A file is written front to back under a temporary name: the samples as they come, then targets,
names and the moov that finds them; the size of the mdat is filled in last. It appears under its own
name when the writer is closed, whole and synced, or not at all. Of what was added only sizes,
targets and names stay in memory, some 100 bytes per sample.

The default profile is readable by everyone; it writes a target for every sample if one has any (-1
for the others), no names if none has one, a film of the thumbnails if all are coded alike, and
splits. The profile "reference" is what Benzina's tools write, and its 0.0.5 reader reads: targets
end before the first sample without one, names and thumbnails always have tracks, and x265 is not
kept from signing its work.
"""

import operator
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Lock
from types import TracebackType
from typing import Any, Self

import numpy as np

from ..exceptions import FormatError, UnsupportedError, notice, warn_unclosed
from ..storage.protocol import ByteSink
from ..storage.sink import open_sink
from ..types import BytesLike
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
# What Benzina's tools and its reader know of.
_REFERENCE_CODECS = "hevc", "h264"
_REFERENCE_TILE, _REFERENCE_CRF = 512, 10
# Sides of a frame have 16 bits in its sample entry.
_MAX_SIDE = (1 << 16) - 1
_MIN_TILE = 16


class Writer:
    """Writes a new dataset.

    Parameters
    ----------
    path : str, PathLike or binary file
        Where to.
    codec : {"hevc", "h264", "av1"}, optional
        H.265, H.264 or AV1.
    crf : float, optional
        Quality: 0 is the best, 51 (AV1: 63) the worst. By default 24 for "hevc", 20 for "h264" and
        12 for "av1", with which photographs keep some 43 dB.
    tile : int, optional
        Frames are whole tiles of so many pixels square, and thumbnails fit one: a multiple of 16.
    thumb : bool, optional
        Store a thumbnail of pictures that do not fit a tile. Without, track ``bzna_thumb`` is the
        picture itself, as it is for those that fit.
    lossless : bool, optional
        Keep every pixel as it is, in RGB; "hevc" and "h264" only. It goes for thumbnails, too.
    profile : {"default", "reference"}, optional
        What is written: see the module. "reference" has "hevc" (with crf 10 by default) or "h264",
        tile 512, thumbnails, and neither lossless pictures nor splits.
    preset : str or int, optional
        Speed of the encoder: "ultrafast" to "placebo", by default "medium"; of AV1 13 to 0, by
        default 8.
    splits : mapping of str to (start, stop), range or slice; or "imagenet"; optional
        Parts of the dataset, to be stored with it; checked when it is closed.
    overwrite : bool, optional
        Replace a file of this name.
    max_pixels : int, optional
        Pixels that the frame of a picture may have.

    Attributes
    ----------
    path : object
        As it was given.

    Raises
    ------
    FileExistsError
        There is a file of this name, and `overwrite` is not given.
    TypeError, ValueError
        An option is out of its range, or does not go with another.
    OSError
        The file cannot be made.

    Notes
    -----
    An error inside of a ``with`` block leaves nothing behind, and a file that is to be replaced as
    it was; so does the end of the process at any moment, a temporary file aside. `add` and the
    other methods may be called from many threads; samples are in the order in which calls end.

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
        codec: str = "hevc",
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
            # Whatever can be wrong without the number of samples.
            resolve_splits(splits, _INT64.max)
        self._encoder = Encoder(
            codec, crf=crf, preset=preset, lossless=lossless, like_reference=self._reference
        )
        self._profile: Profile = profile
        self._tile, self._thumb, self._max_pixels = tile, thumb, max_pixels
        self._splits = splits
        self.path = path
        if not overwrite and isinstance(path, str | os.PathLike) and os.path.isfile(path):
            raise FileExistsError(f"{os.fspath(path)}: there is such a file: give overwrite=True")
        self._index = SampleIndex()
        self._lock = Lock()
        self._context: AbstractContextManager[ByteSink] = open_sink(path)
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
            Of 64 bits, signed.
        name : str or bytes, optional
            Any without NUL.

        Returns
        -------
        int
            The ordinal of the sample.

        Raises
        ------
        CodecError, UnsupportedError, TypeError, ValueError, OSError, ImportError
            As `encode`; nothing was written, and the writer goes on.
        OSError
            The file cannot be written: the writer is aborted.
        """
        self._check_open()
        return self._append(self.encode(picture, target, name), target, name)

    def encode(
        self, picture: Any, target: int | None = None, name: str | bytes | None = None
    ) -> bytes:
        """Return the sample that `add` would write, for `add_encoded`.

        Parameters
        ----------
        picture : path, bytes-like, ndarray or PIL.Image.Image
            A file of any kind of image that Pillow reads, or its bytes; an array of shape (H, W),
            (H, W, 3), or with alpha (H, W, 2) and (H, W, 4), of uint8, bool or uint16. Pictures are
            turned as their EXIF says; transparency is dropped, 16 bits become 8.
        target, name
            See `add`.

        Returns
        -------
        bytes
            An mp4 of its own; the same for the same picture and options.

        Raises
        ------
        CodecError
            The picture does not decode, or the encoder refuses it.
        UnsupportedError
            It has too many pixels, or samples whose range is not known.
        TypeError, ValueError
            It is none, or target or name are not what can be stored.
        OSError
            Its file cannot be read.
        ImportError
            PyAV or Pillow is missing.
        """
        target = _checked_target(target)
        stored_name = _packed_name(name)
        rgb = read_picture(picture, max_pixels=self._max_pixels)
        small = thumbnail(rgb, self._tile) if self._thumb else None
        return pack_sample(
            self._coded(rgb),
            None if small is None else self._coded(small),
            name=stored_name,
            target=None
            if target is None
            else target.to_bytes(TARGET_NBYTES, "little", signed=True),
            profile=self._profile,
        )

    def _coded(self, rgb: Rgb) -> StoredPicture:
        height, width = rgb.shape[:2]
        frame = frame_size(width, height, self._tile)
        if frame[0] * frame[1] > self._max_pixels or max(frame) > _MAX_SIDE:
            raise UnsupportedError(
                f"a picture of {width}x{height} needs a frame of {frame[0]}x{frame[1]}: it may have"
                f" {self._max_pixels} pixels, and sides of {_MAX_SIDE}"
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
        """Write a sample that is coded already, as it is.

        Parameters
        ----------
        sample : bytes-like
            From `encode`, or `Sample.data` of another dataset; of any codec and tile.
        target, name
            For the dataset's own tables; those in `sample` stay what they are.

        Returns
        -------
        int
            The ordinal of the sample.

        Raises
        ------
        FormatError
            `sample` is damaged, or has no picture; nothing was written.
        TypeError, ValueError
            Target or name are not what can be stored.
        OSError
            The file cannot be written: the writer is aborted.
        """
        self._check_open()
        return self._append(sample, target, name)

    def _append(self, sample: BytesLike, target: int | None, name: str | bytes | None) -> int:
        target = _checked_target(target)
        _packed_name(name)
        data = bytes(sample)
        tracks = parse_sample(data).tracks
        if INPUT not in tracks:
            raise FormatError(f"sample: it has no track {INPUT!r}")
        if self._reference and THUMB not in tracks:
            raise FormatError(f"sample: it has no track {THUMB!r}, as the reference profile needs")
        with self._lock:
            self._check_open()
            ordinal = self._index.add(data, tracks.get(THUMB), target, name)
            with self._aborting():
                self._sink.write(data)
            return ordinal

    def close(self) -> None:
        """Write targets, names and moov, and let the file appear; idempotent.

        Raises
        ------
        ValueError
            A split is not within the dataset; nothing is left.
        OSError
            The file cannot be written; nothing is left.
        """
        with self._lock:
            if not self._is_open:
                return
            with self._aborting():
                self._finish()
            self._is_open = False
            self._context.__exit__(None, None, None)

    def _finish(self) -> None:
        """Write what is behind the samples, and the size of it all in front of them."""
        if self._reference and self._index.nlost_targets:
            notice(
                "%s: as by Benzina's tools, targets behind the first sample without one are left "
                "out: %d",
                self.path,
                self._index.nlost_targets,
            )
        splits = None if self._splits is None else resolve_splits(self._splits, len(self))
        head, parts = self._index.pack(self._profile, splits)
        for part in parts:
            self._sink.write(part)
        self._sink.write_at(0, head)

    def abort(self) -> None:
        """Leave nothing behind; after `close` nothing is done."""
        with self._lock:
            if self._is_open:
                self._give_up(_Aborted())

    def _give_up(self, error: BaseException) -> None:
        self._is_open = False
        self._context.__exit__(type(error), error, None)

    @contextmanager
    def _aborting(self) -> Iterator[None]:
        """Abort when the block raises."""
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        # Of an object whose making failed there may be no attributes.
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
    """Tells the sink to leave nothing."""


def _check_reference(codec: str, tile: int, thumb: bool, lossless: bool, splits: object) -> None:
    """Refuse what Benzina's tools do not write."""
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


def _checked_target(target: Any) -> int | None:
    if target is None:
        return None
    try:
        number = operator.index(target)
    except TypeError:
        raise TypeError(f"a target is an int or None, not {type(target).__name__!r}") from None
    if not _INT64.min <= number <= _INT64.max:
        raise ValueError(f"target {number} does not fit 64 bits")
    return number


def _packed_name(name: Any) -> bytes:
    """Return a name as it is stored; of none an empty one."""
    if name is not None and not isinstance(name, str | bytes):
        raise TypeError(f"a name is a str, bytes or None, not {type(name).__name__!r}")
    try:
        stored = pack_name(b"" if name is None else name)
    except UnicodeEncodeError:
        raise ValueError(f"name {name!r:.80} cannot be stored as UTF-8") from None
    if b"\0" in stored[:-1]:
        raise ValueError(f"name {name!r:.80} has a NUL in it")
    return stored
