"""A clip of video in a frame store: packets of closed groups, decoded when frames are read.

Each group that a selection touches is one piece: one read, one digest, one run of a decoder from
its key frame to the last frame wanted. Packets of frames that nothing depends on are left out.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from ...display.framerate import rate_of
from ...exceptions import FormatError
from ...media.video import turn_of
from ...media.videocontent import FrameTimes, lost_depth, lost_properties
from ...parallel.imports import import_av
from ...storage.batch import Piece, fetch
from ...storage.protocol import ByteSource, ErrorsAt
from ...types import AnyArray, IntArray
from ..protocol import FrameSelection, frame_indices
from ..video.format import (
    COST_UNIT,
    Packet,
    VideoHeader,
    join_text,
    split_text,
    unpack_group,
)
from ..video.groupdecoder import (
    Configuration,
    GroupDecoder,
    decode_group,
    place_rgb,
    upright_shape,
)
from ..video.mp4file import write_mp4
from .clip import Store, StoreClip, by_chunk
from .frameencoding import pack_meta
from .index import Index

# Pixels of a key frame per stored byte. A block of H.265 or H.264 has at most 64 x 64 pixels and
# takes a bit or more; an arithmetic coder may take less, which VP9 and AV1 make use of.
_MAX_PIXELS_PER_BYTE = 1 << 20


class StoredVideo:
    """The groups of a clip for another store, as they are: an `EncodedClip`."""

    is_raw = False

    def __init__(self, clip: "VideoClip", meta: Mapping[str, Any]) -> None:
        self._clip = clip
        self.format = clip._format
        self.nframes = len(clip)
        self.header = clip.header.pack()
        self.text = join_text(pack_meta(meta), self.header)

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        """Yield the stored bytes and the number of frames of each group."""
        return self._clip.stored_groups()


class VideoClip(StoreClip):
    """A clip of video; frames are RGB and upright, as ``ffmpeg`` shows them.

    Attributes
    ----------
    times : ndarray
        When each frame is shown, float64, in seconds; other members as in `StoreClip`.
    """

    __slots__ = ("_config", "_starts", "_turn", "header")

    def __init__(
        self, store: Store, source: ByteSource, index: Index, id_: str, ordinal: int
    ) -> None:
        super().__init__(store, source, index, id_, ordinal)
        lengths = np.frombuffer(self._filters, np.uint8).astype(np.int64)
        self._starts = np.concatenate(([0], np.cumsum(lengths)))
        with ErrorsAt(lambda: (f"clip {id_!r:.80}", store.name)):
            if self._starts[-1] != self._nframes or not lengths.all():
                raise FormatError(
                    f"index: its groups have {self._starts[-1]} frames, not {self._nframes}"
                )
            if lengths.max() > self._format.group:
                raise FormatError(f"index: a group of more than {self._format.group} frames")
            self.header = header = VideoHeader.unpack(
                split_text(index.meta(ordinal))[1], self._nframes
            )
            self._turn = turn_of(header.matrix, "video")
            shape = upright_shape(header.width, header.height, header.matrix, "video")
            if shape != self._format.shape:
                raise FormatError(f"index: video of {shape} in a clip of {self._format.shape}")
        self._config = Configuration(header.codec, header.extradata, header.width, header.height)

    def _meta_text(self) -> bytes:
        return split_text(super()._meta_text())[0]

    @property
    def times(self) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """When each frame is shown, in seconds: float64 of shape ``(T,)``; reads no chunk."""
        numerator, denominator = self.header.time_base.as_integer_ratio()
        seconds = self.header.times.astype(np.float64)
        seconds *= numerator
        seconds /= denominator
        return seconds

    @property
    def left_out(self) -> tuple[str, ...]:
        """Properties of the video that its frames as arrays lack, as short texts."""
        header, times = self.header, FrameTimes()
        lost = [*lost_properties(*header.colour[1:], header.pixel_aspect)]
        with suppress(ValueError):  # a name that this version of PyAV does not know
            lost += lost_depth(import_av().VideoFormat(header.pixel_format))
        for time in header.times.tolist():
            times.add(time)
        lost += times.lost(rate_of(self.meta), header.time_base)
        return tuple(f"clip {self.id!r:.80}: {text}" for text in lost)

    @property
    def is_raw(self) -> bool:
        """Return False: frames are converted to RGB from the format that is stored."""
        return False

    @property
    def time_base(self) -> Fraction:
        """Seconds per unit of the times of `packets`."""
        return self.header.time_base

    @property
    def decoded_per_frame(self) -> float:
        """Mean number of frames that are decoded to read a random frame."""
        return self.header.cost / COST_UNIT

    def packets(self) -> Iterator[Packet]:
        """Yield the coded packets, in the order in which they are decoded.

        Yields
        ------
        Packet
            ``(data, pts, dts, duration, is_key)``: bytes, and times in units of `time_base`. They
            are the bytes of the file that was appended.

        Raises
        ------
        FormatError
            A group is damaged; the message names it.
        """
        self._store._check_open()
        for chunk in range(len(self._offsets)):
            yield from self._packets_of([chunk])[0]

    def read_groups(self, selection: FrameSelection = None) -> list[tuple[int, list[Packet]]]:
        """Return the first frame and the packets of each group that selected frames are in.

        Raises
        ------
        IndexError, TypeError
            A frame is out of range, or the selection is invalid.
        FormatError
            A group is damaged; the message names it.
        """
        self._store._check_open()
        indices = frame_indices(selection, self._nframes).indices
        chunks = np.unique(self._chunks_of(indices)).tolist()
        firsts = map(self._first_frame, chunks)
        return list(zip(firsts, self._packets_of(chunks), strict=True))

    def group_of(self, index: int) -> int:
        """Return the number of the group that a frame is in."""
        return self._chunk_of(index)[0]

    def _packets_of(self, chunks: list[int]) -> list[list[Packet]]:
        groups: dict[int, list[Packet]] = {chunk: [] for chunk in chunks}

        def take(chunk: int, stored: memoryview) -> None:
            first = self._first_frame(chunk)
            times = self.header.times[first : int(self._starts[chunk + 1])].tolist()
            table, packets = unpack_group(stored, len(times))
            for at, (data, rank) in enumerate(zip(packets, table.ranks, strict=True)):
                dts = times[0] + int(table.dts[at])
                groups[chunk].append(
                    Packet(bytes(data), times[rank], dts, int(table.durations[at]), not at)
                )

        pieces = [
            self._piece(chunk, partial(self._guarded, chunk, partial(take, chunk)))
            for chunk in chunks
        ]
        fetch(pieces, nthreads=1, nbytes=0)
        return list(groups.values())

    def _stored(self, meta: Mapping[str, Any]) -> StoredVideo:
        """Return the groups for another store, with other metadata."""
        return StoredVideo(self, meta)

    def stored_groups(self) -> Iterator[tuple[bytes, int]]:
        """Yield the stored bytes of each group, compared with their digest, and its frames."""
        for chunk in range(len(self._offsets)):
            found: list[bytes] = []
            piece = self._piece(chunk, lambda stored, found=found: found.append(bytes(stored)))
            fetch([piece], nthreads=1, nbytes=0)
            start, stop = self.chunk_frames(chunk)
            yield found[0], stop - start

    def to_mp4(
        self,
        path: str | os.PathLike[str],
        *,
        fps: float | None = None,
        crf: float | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the packets with their times to an MP4 file, without encoding them again.

        Parameters
        ----------
        path : str or PathLike
            The new file, which exists as a whole or not at all.
        fps, crf : float, optional
            Frames per second and quality of a new video of the frames, as of other clips.
        overwrite : bool, default False
            Replace an existing file.

        Raises
        ------
        FileExistsError
            The file exists.
        FormatError, CodecError
            A group is damaged; there is no file then.
        UnsupportedError
            An mp4 file cannot have these times.
        """
        if fps is not None or crf is not None:
            super().to_mp4(path, fps=fps, crf=18 if crf is None else crf, overwrite=overwrite)
            return
        self._store._check_open()
        write_mp4(path, self.header, self.packets(), overwrite=overwrite)

    def verify_chunk(self, chunk: int) -> None:
        """Decode every frame of a group without keeping any; raises as `read` does."""
        piece = self._piece(chunk, partial(self._decode_group, chunk, None, None))
        fetch([piece], nthreads=1, nbytes=0)

    def chunk_frames(self, chunk: int) -> tuple[int, int]:
        """Return the first and last (exclusive) frame of a group."""
        return int(self._starts[chunk]), int(self._starts[chunk + 1])

    def read_images(self, selection: FrameSelection = None) -> None:
        """Return None: frames are decoded from packets."""

    def frame_shape(self, indices: IntArray) -> tuple[int, ...]:
        """Return the shape of the frames.

        Raises
        ------
        FormatError
            The size is more than the stored bytes can decode to.
        """
        pixels = self.header.width * self.header.height
        for chunk in np.unique(self._chunks_of(indices)).tolist():
            if pixels > _MAX_PIXELS_PER_BYTE * self._cbytes[chunk]:
                raise FormatError(
                    f"{self._cbytes[chunk]} stored bytes cannot hold a frame of {pixels} pixels"
                ).at(*self._where(self._first_frame(chunk)))
        return self.shape[1:]

    def _chunks_of(self, indices: IntArray) -> IntArray:
        return np.searchsorted(self._starts, indices, "right") - 1

    def _first_frame(self, chunk: int) -> int:
        return int(self._starts[chunk])

    def _chunk_of(self, index: int) -> tuple[int, int, int]:
        chunk = int(np.searchsorted(self._starts, index, "right")) - 1
        return chunk, int(self._starts[chunk]), int(self._starts[chunk + 1]) - 1

    def pieces(self, indices: IntArray, frames: AnyArray) -> Iterable[Piece]:
        """Return one piece per group of the frames at `indices`."""
        if not len(indices):
            return
        for chunk, places in by_chunk(self._chunks_of(indices)):
            wanted: dict[int, list[int]] = {}
            for place in places.tolist():
                wanted.setdefault(int(indices[place] - self._starts[chunk]), []).append(place)
            yield self._piece(chunk, partial(self._decode_group, chunk, wanted, frames))

    def _decode_group(
        self,
        chunk: int,
        wanted: dict[int, list[int]] | None,
        frames: AnyArray | None,
        stored: memoryview,
    ) -> None:
        def place(decoder: GroupDecoder, rank: int, frame: Any) -> None:
            if wanted is not None and frames is not None:
                outs = [frames[at] for at in wanted[rank]]
                place_rgb(decoder.rgb(frame), *self._turn, outs)

        def decode(stored: memoryview) -> None:
            start, stop = self.chunk_frames(chunk)
            table, packets = unpack_group(stored, stop - start)
            ranks = None if wanted is None else set(wanted)
            decode_group(self._config, packets, table, ranks, place)

        self._guarded(chunk, decode, stored)

    def _guarded(self, chunk: int, take: Any, stored: memoryview) -> None:
        with ErrorsAt(lambda: self._where(self._first_frame(chunk))):
            take(stored)
