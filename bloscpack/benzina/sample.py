"""One sample of a dataset: an mp4 of its own with a picture, its thumbnail, target and name."""

import functools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..plugin import (
    AnyArray,
    ErrorsAt,
    FrameSelection,
    IntArray,
    MemorySource,
    NotFoundError,
    Piece,
    ShownClip,
    UnsupportedError,
    frame_indices,
    importing,
    read_clip,
    read_only_meta,
)
from .codec.colour import MATRIX_RGB
from .codec.decoder import Decoder, Planes, decode_rgb
from .datasetfile import Content
from .mp4.bmff import name_of
from .mp4.format import INPUT, THUMB, is_text, unpack_text
from .mp4.samplelayout import InnerTrack, SampleLayout, parse_sample

_UINT8 = np.dtype("u1")
Pixels = np.ndarray[Any, np.dtype[np.uint8]]


class Sample(ShownClip):
    """A sample, read on first use; also a clip of one frame, see `frames.protocol`.

    Attributes
    ----------
    index : int
        Its ordinal in the file.
    dtype : numpy.dtype
        That of decoded pictures, uint8.
    decode_cost : float
        Cost of a decoded byte relative to Blosc; scales the number of threads.

    Notes
    -----
    Created by a `Dataset`. The sample holds its bytes once they are read.
    """

    dtype = _UINT8
    # H.265 takes about four times as long as JPEG.
    decode_cost = 32.0

    __slots__ = ("_content", "_data", "_layout", "_shown", "index")

    def __init__(
        self, content: Content, index: int, shown: str = INPUT, data: bytes | None = None
    ) -> None:
        self._content = content
        self.index = index
        # The track shown as the frame of the clip.
        self._shown = shown
        self._data = data
        self._layout: SampleLayout | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (self._content, self.index, self._shown)

    def __repr__(self) -> str:
        return f"<sample {self.index} of {self._content.source.name!r}>"

    def _repr_html_(self) -> str:
        """Return a table and the thumbnail for notebooks."""
        with importing:
            from .notebook import sample_card
        return sample_card(self)

    @property
    def id(self) -> str:
        """The name if no other sample has it; else the name, ``#`` and `index`."""
        return self._content.ids[self.index]

    @property
    def name_bytes(self) -> bytes | None:
        """The name as stored, without its final NUL; None if it is missing."""
        return self._content.name_bytes(self.index)

    @property
    def name(self) -> str | None:
        """The name as text, with bytes that are not UTF-8 escaped; None if it is missing.

        Any text is possible, including a path that leads out of a folder.
        """
        stored = self.name_bytes
        return None if stored is None else unpack_text(stored)

    @property
    def target(self) -> int:
        """The target; -1 if it is missing.

        Raises
        ------
        FormatError
            The target is not 8 bytes long.
        """
        return self._content.target(self.index)

    @property
    def location(self) -> int:
        """Absolute offset of the sample's first byte in the file."""
        return self._content.input[self.index].offset

    @property
    def size(self) -> int:
        """Size of the sample in bytes."""
        return self._content.input[self.index].nbytes

    @property
    def data(self) -> bytes:
        """The bytes of the sample: an mp4 of its own.

        Raises
        ------
        TruncatedError
            The file ends within the sample.
        """
        if self._data is None:
            self._data = self._content.input.read(self.index)
        return self._data

    @property
    def layout(self) -> SampleLayout:
        """The parsed layout of `data`, from `parse_sample`.

        Raises
        ------
        FormatError
            The bytes are damaged.
        """
        if self._layout is None:
            data = self.data
            with ErrorsAt(self._where):
                self._layout = parse_sample(data)
        return self._layout

    def read_track(self, name: str) -> bytes:
        """Return a copy of the bytes of one of its tracks.

        Raises
        ------
        NotFoundError
            The sample does not have this track.
        FormatError
            The sample is damaged.
        """
        track = self._track(name)
        return self.data[track.offset : track.offset + track.nbytes]

    def _where(self) -> tuple[str, str | None]:
        return f"sample {self.index}", self._content.source.name

    def _track(self, name: str) -> InnerTrack:
        tracks = self.layout.tracks
        if name not in tracks:
            raise NotFoundError(
                f"sample {self.index} has no track {name!r:.80}; it has {', '.join(tracks)}"
            ).at(path=self._content.source.name)
        return tracks[name]

    def frame(self, track: str = THUMB) -> Planes:
        """Decode the picture of a track to the planes of its codec.

        Parameters
        ----------
        track : str
            ``"bzna_thumb"``, or ``"bzna_input"`` for the picture in full size.

        Returns
        -------
        Planes
            The coded frame and its clean aperture.

        Raises
        ------
        NotFoundError
            The sample does not have this track.
        FormatError, CodecError
            The sample is damaged.
        UnsupportedError
            The track holds no pictures, or pictures of an unsupported codec or above `max_pixels`.
        ImportError
            PyAV is missing.
        """
        return self._planes(self._track(track), self.read_track(track))

    def decode(self, track: str = THUMB, *, out: Pixels | None = None) -> Pixels:
        """Decode the picture of a track, cropped to its clean aperture.

        Parameters
        ----------
        track : str
            As for `frame`.
        out : ndarray, optional
            Receives the pixels: uint8, C-contiguous, of exactly that shape.

        Returns
        -------
        ndarray
            uint8, (H, W, 3): `out` or a new array.

        Raises
        ------
        ValueError
            `out` does not fit.
        NotFoundError, FormatError, CodecError, UnsupportedError, ImportError
            As for `frame`.
        """
        return self._pixels(self.frame(track), out)

    def _planes(self, track: InnerTrack, payload: bytes) -> Planes:
        if not track.config_kind:
            raise UnsupportedError(
                f"track {track.name!r} holds no pictures that can be decoded, but "
                f"{name_of(track.entry_kind)!r}"
            ).at(*self._where())
        with ErrorsAt(self._where):
            return _decoder(self._content.max_pixels).decode(
                track.config_kind, track.config, payload, track.frame, track.clean
            )

    def _pixels(self, planes: Planes, out: Pixels | None) -> Pixels:
        if planes.matrix != MATRIX_RGB:
            self._content.has_converted = True
        with ErrorsAt(self._where):
            return decode_rgb(planes, out=out)

    def __len__(self) -> int:
        """Return 1: a sample is a clip of one frame."""
        return 1

    @property
    def meta(self) -> dict[str, Any]:
        """Name and target."""
        return read_only_meta({"name": self.name, "target": self.target})

    @property
    def shape(self) -> tuple[int, ...]:
        """``(1, H, W, 3)``."""
        return (1, *self.frame_shape(np.zeros(0, np.int64)))

    def read(self, selection: FrameSelection = None, *, out: AnyArray | None = None) -> AnyArray:
        """Return the picture as frames in one array; see `frames.protocol.Clip`."""
        return read_clip(self, selection, out=out, nthreads=1)

    @property
    def is_upright(self) -> bool:
        """Return True: a picture was turned by its EXIF data when it was stored."""
        return True

    @property
    def left_out(self) -> tuple[str, ...]:
        """Contents beside picture, target, and a name that is text, as short texts."""
        is_bad = not is_text(self.name_bytes or b"")
        return *self._content.other_tracks, *[name_text(self.index)] * is_bad

    @property
    def is_raw(self) -> bool:
        """Whether no picture that was read of the file so far was converted to RGB."""
        return not self._content.has_converted

    def read_images(self, selection: FrameSelection = None) -> None:
        """Return None: pictures are stored neither as JPEG nor as PNG.

        Raises
        ------
        IndexError, TypeError
            The frame does not exist; the selection has a wrong type.
        """
        frame_indices(selection, 1)

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return ``(H, W, 3)``, the same for all frames."""
        track = self._track(self._shown)
        width, height = track.frame
        if width * height > self._content.max_pixels:
            raise UnsupportedError(
                f"a frame of {width} x {height} pixels, more than the "
                f"{self._content.max_pixels} that are decoded; raise max_pixels of "
                "benzina.open if the file can be trusted"
            ).at(*self._where())
        return track.clean.height, track.clean.width, 3

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterator[Piece]:
        """Return the bytes to fetch to fill every frame of `frames` with the picture."""
        if not len(indices):
            return
        track = self._track(self._shown)
        # Reading the layout has already loaded the sample's bytes.
        take = partial(self._fill, track, frames)
        yield Piece(MemorySource(self.data), track.offset, track.nbytes, take)

    def _fill(self, track: InnerTrack, frames: AnyArray, payload: memoryview) -> None:
        self._pixels(self._planes(track, bytes(payload)), frames[0])
        frames[1:] = frames[0]


@functools.cache
def _decoder(max_pixels: int) -> Decoder:
    """Return the decoder of this process; all datasets share its codec contexts."""
    return Decoder(max_pixels=max_pixels)


def name_text(index: int) -> str:
    """Return the text in `left_out` for a name that is not text."""
    return f"bytes of the name of sample {index}, which is not text"
