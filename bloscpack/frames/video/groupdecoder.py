"""Decode the frames of a group with PyAV, from its key frame to the last one that is wanted.

Only packets of a store reach FFmpeg, in memory: no paths and no URLs. Decoders are kept for the
next group of the same configuration, a limited number in each process, and have no threads of
their own. A group never depends on what a decoder has decoded before: it is flushed after each
group, and closed if the group had parameters that differ from those of the clip, or an error.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from ...exceptions import CodecError, FormatError
from ...media.image import turn
from ...media.pyav import ffmpeg_message, reformat_options
from ...media.video import turn_of
from ...parallel.imports import import_av
from ...types import AnyArray, BytesLike
from .format import PacketTable, VideoCodec, needed_packets

_DECODERS = {
    VideoCodec.H264: "h264",
    VideoCodec.HEVC: "hevc",
    VideoCodec.VP9: "vp9",
    VideoCodec.AV1: "libdav1d",  # FFmpeg's own decoder only drives hardware
}
# NAL units with parameters: H.264 table 7-1 and H.265 table 7-1.
_PARAMETERS = {VideoCodec.H264: {7, 8}, VideoCodec.HEVC: {32, 33, 34}}
# Byte of a configuration whose last two bits are the width of the sizes of NAL units, less one.
_SIZE_BYTES = {VideoCodec.H264: 4, VideoCodec.HEVC: 21}
# Idle decoders of a process. Most hold fewer frames than a group, of the size of the clip.
_MAX_IDLE = 16
_MAX_IDLE_PIXELS = 1 << 25
# FFmpeg compares the limit with sides that are rounded up.
_MARGIN = 128


class Configuration(NamedTuple):
    """Everything that a decoder depends on."""

    codec: VideoCodec
    extradata: bytes
    # Size of a frame in pixels, before it is turned.
    width: int
    height: int


Take = Callable[[int, Any], None]
"""Called with the rank of a frame in its group and PyAV's frame, valid only during the call."""


class GroupDecoder:
    """An FFmpeg decoder of one configuration, used by one thread at a time."""

    def __init__(self, config: Configuration) -> None:
        self._av = av = import_av()
        self.config = config
        self._codec = av.CodecContext.create(_DECODERS[config.codec], "r")
        if config.extradata:
            self._codec.extradata = config.extradata
        self._codec.thread_count = 1
        self._codec.thread_type = "NONE"
        limit = (config.width + _MARGIN) * (config.height + _MARGIN)
        self._codec.options = {"max_pixels": str(limit)}
        if config.codec != VideoCodec.AV1:  # holes in a frame are errors
            self._codec.options |= {"err_detect": "explode"}
        try:
            self._codec.open(strict=False)
        except (av.error.FFmpegError, ValueError) as err:
            raise self._error(f"no decoder could be opened: {ffmpeg_message(err)}") from err
        self._reformatter = av.video.reformatter.VideoReformatter()
        at = _SIZE_BYTES.get(config.codec, len(config.extradata))
        self.size_nbytes = (config.extradata[at] & 3) + 1 if at < len(config.extradata) else 4

    def decode(
        self, packets: Sequence[BytesLike], table: PacketTable, wanted: set[int] | None, take: Take
    ) -> None:
        """Call `take` with each wanted frame of a group, in any order; None wants all.

        Raises
        ------
        CodecError
            The group is damaged. The decoder must not be used again.
        """
        needed = needed_packets(table, wanted)
        missing = self._run(packets, table, needed, wanted, take)
        if missing and len(needed) < len(packets):
            # Decoders may hold frames back that depend on nothing that is missing.
            missing = self._run(packets, table, range(len(packets)), missing, take)
        if missing:
            raise self._error(f"{len(missing)} of the {len(packets)} frames did not come out")

    def _run(
        self,
        packets: Sequence[BytesLike],
        table: PacketTable,
        needed: Iterable[int],
        wanted: set[int] | None,
        take: Take,
    ) -> set[int]:
        """Decode some packets, and return the wanted ranks that did not come out."""
        missing = set(table.ranks) if wanted is None else set(wanted)
        config, codec = self.config, self._codec

        def pass_on(frames: list[Any]) -> None:
            for frame in frames:
                rank = frame.pts
                if rank not in missing:
                    continue
                if frame.is_corrupt:
                    raise self._error("parts of a frame are missing")
                if (frame.width, frame.height) != (config.width, config.height):
                    raise self._error(
                        f"a frame of {frame.width} x {frame.height} pixels in a clip of "
                        f"{config.width} x {config.height}"
                    )
                missing.remove(rank)
                take(rank, frame)

        try:
            for at in needed:
                pass_on(codec.decode(self._packet(packets[at], table.ranks[at], at)))
                if not missing:
                    break
            else:
                pass_on(codec.decode(None))
            codec.flush_buffers()
        except self._av.error.FFmpegError as err:
            raise self._error(f"a frame could not be decoded: {ffmpeg_message(err)}") from err
        return missing

    def _packet(self, data: BytesLike, pts: int, dts: int) -> Any:
        # FFmpeg reads beyond the end: memory that it allocates itself has room for that.
        packet = self._av.Packet(len(data))
        packet.update(data)
        packet.pts, packet.dts = pts, dts
        return packet

    def rgb(self, frame: Any) -> AnyArray:
        """Return the pixels of a frame as `media.video` does, a view of memory of FFmpeg."""
        if frame.format.name != "rgb24":
            frame = self._reformatter.reformat(frame, format="rgb24", **reformat_options())
        plane = frame.planes[0]
        rows = np.frombuffer(plane, np.uint8).reshape(frame.height, plane.line_size)
        return rows[:, : frame.width * 3].reshape(frame.height, frame.width, 3)

    def has_own_parameters(self, packets: Iterable[BytesLike]) -> bool:
        """Return whether packets contain parameters that the configuration lacks."""
        kinds = _PARAMETERS.get(self.config.codec)
        return kinds is not None and any(
            bytes(unit) not in self.config.extradata
            for packet in packets
            for unit in split_units(packet, self.size_nbytes)
            if unit_kind(self.config.codec, unit) in kinds
        )

    def _error(self, message: str) -> CodecError:
        name = self.config.codec.label
        return CodecError(f"{name}: {message}", codec=name)


def split_units(packet: BytesLike, size_nbytes: int) -> list[BytesLike]:
    """Return the NAL units of a packet, each preceded by its size.

    Raises
    ------
    FormatError
        A unit is empty or ends after the packet.
    """
    units, at = [], 0
    while at < len(packet):
        start = at + size_nbytes
        at = start + int.from_bytes(packet[at:start], "big")
        if not start < at <= len(packet):
            raise FormatError(f"packet of {len(packet)} bytes: a NAL unit ends at byte {at}")
        units.append(packet[start:at])
    return units


def unit_kind(codec: VideoCodec, unit: BytesLike) -> int:
    """Return the type of a NAL unit that is not empty."""
    return unit[0] >> 1 & 0x3F if codec == VideoCodec.HEVC else unit[0] & 0x1F


def upright_shape(
    width: int, height: int, matrix: tuple[int, ...], name: str
) -> tuple[int, int, int]:
    """Return the shape of the frames of a video after turning them."""
    rotation, _ = turn_of(matrix, name)
    return (width, height, 3) if rotation % 180 else (height, width, 3)


def place_rgb(rgb: AnyArray, rotation: int, flipped: bool, outs: Collection[AnyArray]) -> None:
    """Copy a frame, turned upright, to its places."""
    upright = turn(rgb, rotation, flipped=flipped)
    for out in outs:
        out[...] = upright


class _Pool:
    """Idle decoders of this process, the most recently used last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._idle: list[GroupDecoder] = []

    def take(self, config: Configuration) -> GroupDecoder:
        with self._lock:
            configs = [idle.config for idle in reversed(self._idle)]
            if config in configs:
                return self._idle.pop(-1 - configs.index(config))
        return GroupDecoder(config)

    def give_back(self, decoder: GroupDecoder) -> None:
        with self._lock:
            self._idle.append(decoder)
            self._trim()  # not a loop here: see `_map_in_threads`

    def _trim(self) -> None:
        """Drop the decoders that were not used for longest, down to the limits."""
        pixels = sum(each.config.width * each.config.height for each in self._idle)
        while self._idle and (len(self._idle) > _MAX_IDLE or pixels > _MAX_IDLE_PIXELS):
            oldest = self._idle.pop(0).config
            pixels -= oldest.width * oldest.height

    def clear(self) -> None:
        """Start again in a forked child: the lock may be held by a thread that is not there."""
        self._lock = Lock()
        self._idle = []

    def __len__(self) -> int:
        return len(self._idle)


POOL = _Pool()
os.register_at_fork(after_in_child=POOL.clear)


def decode_group(
    config: Configuration,
    packets: Sequence[BytesLike],
    table: PacketTable,
    wanted: set[int] | None,
    take: Callable[[GroupDecoder, int, Any], None],
) -> None:
    """Decode the wanted frames of a group with an idle decoder, or a new one.

    `take` is called with the decoder, the rank of a frame and the frame.

    Raises
    ------
    CodecError, FormatError
        The group is damaged.
    """
    decoder = POOL.take(config)
    has_own = decoder.has_own_parameters(packets)
    decoder.decode(packets, table, wanted, lambda rank, frame: take(decoder, rank, frame))
    if not has_own:
        POOL.give_back(decoder)
