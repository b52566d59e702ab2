"""A sample of a dataset: an mp4 of its own with a picture, its thumbnail, target and name."""

from typing import TYPE_CHECKING, Any

import numpy as np

from ..exceptions import BloscpackError, NotFoundError
from .content import Content
from .format import INPUT, unpack_name
from .samplelayout import InnerTrack, SampleLayout, parse_sample

if TYPE_CHECKING:
    pass

_UINT8 = np.dtype("u1")


class Sample:
    """A sample, of which nothing is read yet; also a clip of one frame, see `frames.protocol`.

    Attributes
    ----------
    index : int
        Its ordinal in the file.
    decode_cost : int
        How long a decoded byte takes, next to one of a Blosc chunk.

    Notes
    -----
    The bytes, once read, are kept with the sample. Made by a `Dataset`.
    """

    dtype = _UINT8
    # H.265 takes about four times as long as JPEG.
    decode_cost = 20

    __slots__ = ("_content", "_data", "_layout", "_shown", "index")

    def __init__(
        self, content: Content, index: int, shown: str = INPUT, data: bytes | None = None
    ) -> None:
        self._content = content
        self.index = index
        # The track that is the frame of the clip.
        self._shown = shown
        self._data = data
        self._layout: SampleLayout | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (self._content, self.index, self._shown)

    def __repr__(self) -> str:
        return f"<sample {self.index} of {self._content.source.name!r}>"

    @property
    def id(self) -> str:
        """Its name, if no other sample has it; else with ``#`` and `index` behind it."""
        return self._content.ids[self.index]

    @property
    def name_bytes(self) -> bytes | None:
        """The name as it is stored, without the NUL behind it; None without one."""
        return self._content.name_bytes(self.index)

    @property
    def name(self) -> str | None:
        """The name as text, bytes that are no UTF-8 escaped; None without one.

        It may be any text: a path that leads elsewhere, too.
        """
        stored = self.name_bytes
        return None if stored is None else unpack_name(stored)

    @property
    def target(self) -> int:
        """The target; -1 where there is none.

        Raises
        ------
        FormatError
            It is not of 8 bytes.
        """
        return self._content.target(self.index)

    @property
    def location(self) -> int:
        """Absolute offset of its first byte in the file."""
        return int(self._content.input.offsets.item(self.index))

    @property
    def size(self) -> int:
        """Number of its bytes."""
        return int(self._content.input.sizes.item(self.index))

    @property
    def data(self) -> bytes:
        """The bytes: an mp4 of its own.

        Raises
        ------
        TruncatedError
            The file ends before they do.
        """
        if self._data is None:
            self._data = self._content.input.read(self.index)
        return self._data

    @property
    def layout(self) -> SampleLayout:
        """What `parse_sample` says of `data`.

        Raises
        ------
        FormatError
            The bytes are damaged.
        """
        if self._layout is None:
            data = self.data
            try:
                self._layout = parse_sample(data)
            except BloscpackError as err:
                raise self._content.blamed(err, self.index) from None
        return self._layout

    def read_track(self, name: str) -> bytes:
        """Return the bytes of one of its tracks, a copy.

        Raises
        ------
        NotFoundError
            It has no such track.
        FormatError
            The sample is damaged.
        """
        track = self._track(name)
        return self.data[track.offset : track.offset + track.nbytes]

    def _track(self, name: str) -> InnerTrack:
        tracks = self.layout.tracks
        if name not in tracks:
            error = NotFoundError(
                f"sample {self.index} has no track {name!r:.80}; it has {', '.join(tracks)}"
            )
            error.path = self._content.source.name
            raise error
        return tracks[name]

    def __len__(self) -> int:
        """Return 1: as a clip it has one frame."""
        return 1

    @property
    def meta(self) -> dict[str, Any]:
        """Name and target."""
        return {"name": self.name, "target": self.target}
