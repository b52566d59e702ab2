"""Copy the packets of a video, group by group, and prove that each group is closed.

Flags of files are not believed. Each group is decoded by itself, as readers will do, and every
frame is compared with the one that a decoder gives which reads the video from its start. Where
frames are marked as disposable, the group is decoded without them as well. So a clip is refused
before it is appended if any of its frames could come out differently.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from xxhash import xxh3_64_intdigest

from ...exceptions import CodecError, FormatError, UnsupportedError
from ...media.pyav import display_matrix, exact, ffmpeg_message
from ...media.video import VideoStream
from ...media.videocontent import (
    hidden_frames,
    side_data_of,
    side_data_texts,
    stored_frames,
)
from ...parallel.imports import import_av
from ...storage.disk import temporary_folder
from ...storage.protocol import ErrorsAt, closed_on_error
from ...types import AnyArray, BytesLike
from .format import (
    COST_UNIT,
    IDENTITY_MATRIX,
    MAX_GROUP,
    MAX_PIXELS,
    MAX_TIME,
    Colour,
    Packet,
    VideoCodec,
    VideoHeader,
    decoded_for_each,
    pack_group,
    unpack_group,
)
from .groupdecoder import (
    POOL,
    Configuration,
    GroupDecoder,
    split_units,
    unit_kind,
    upright_shape,
)
from .videoencoder import exact_times, opened_file

VideoSource = str | os.PathLike[str] | BytesLike | BinaryIO

_CODECS = {"h264": VideoCodec.H264, "hevc": VideoCodec.HEVC, "vp9": VideoCodec.VP9}
_CODECS |= {"av1": VideoCodec.AV1, "libdav1d": VideoCodec.AV1}
_CODECS |= {"libvpx-vp9": VideoCodec.VP9}
# First byte of a configuration in an mp4 file (avcC, hvcC, av1C).
_CONFIGURED = {VideoCodec.H264: 0x01, VideoCodec.HEVC: 0x01, VideoCodec.AV1: 0x81}
# Bytes of packets that are rewritten in memory; more are rewritten in a temporary file.
_SPOOL_NBYTES = 64 << 20
# NAL units of pictures: H.264 table 7-1, H.265 table 7-1.
_H264_SLICES = {1, 2, 5}
_HEVC_FIRST_OTHER = 32
_HEVC_FIRST_REFERENCE_ONLY = 16


def refusal(name: str, reason: str) -> UnsupportedError:
    """Return the error for packets that cannot be copied, but whose frames can be encoded."""
    return UnsupportedError(
        f"{name}: its packets cannot be kept as they are: {reason}; "
        "append_video(..., recode=True), or --video recode, encodes its frames again"
    )


class Copied(NamedTuple):
    """A group as it is stored."""

    stored: bytes
    nframes: int


class GroupCopy:
    """Groups of a video file, copied and checked while iterating.

    The header is complete once all groups have been taken.
    """

    def __init__(self, source: VideoSource, *, name: str = "", max_gop: int = 32) -> None:
        self._name = name or name_of(source)
        self._source = source
        self._max_gop = max_gop
        self._pts: list[int] = []
        self._cost = 0
        self.longest = 0
        self.ngroups = 0
        self.rate = 0.0
        self._matrix: tuple[int, ...] = ()
        self._fields: dict[str, Any] = {}
        # Of frames of the file, and of those that are decoded from the packets alone.
        self._side_data: set[str] = set()
        self._copied_side_data: set[str] = set()
        self.left_out: tuple[str, ...] = ()  # contents of the file beside the video

    @property
    def nframes(self) -> int:
        """Number of frames so far."""
        return len(self._pts)

    def header(self) -> VideoHeader:
        """Return the header of the clip."""
        return VideoHeader(
            **self._fields,
            cost=round(COST_UNIT * self._cost / max(1, self.nframes)),
            matrix=() if self._matrix == IDENTITY_MATRIX else self._matrix,
            times=np.array(self._pts, np.int64),
        )

    def shape(self) -> tuple[int, int, int]:
        """Return the shape of an upright frame.

        Raises
        ------
        UnsupportedError
            The video is turned by an angle that is not a multiple of 90 degrees.
        """
        return upright_shape(
            self._fields["width"], self._fields["height"], self._matrix, self._name
        )

    def __iter__(self) -> Iterator[Copied]:
        """Yield the groups.

        Raises
        ------
        UnsupportedError
            The packets cannot be copied; the message says why.
        FormatError
            The file is damaged, or it is not a video.
        """
        with _opened(self._source, self._name) as (video, others, nstored):
            yield from self._copy(video)
            lost = side_data_texts(self._side_data - self._copied_side_data)
            self.left_out = *others, *lost, *hidden_frames(nstored, self.nframes)

    def _copy(self, video: VideoStream) -> Iterator[Copied]:
        whole = _WholeDecoder(video, self._name)
        group: list[Packet] = []
        last_shown: int | None = None
        decoder: GroupDecoder | None = None
        for packet in whole.packets():
            if packet.is_key or not group:
                if group:
                    last_shown = self._check_order(group, last_shown)
                    decoder = decoder or self._start(video)
                    yield self._copy_group(decoder, group, whole)
                if not packet.is_key:
                    raise self._refusal("it does not begin with a key frame")
                group = []
            group.append(packet)
            if len(group) > self._max_gop:
                raise self._refusal(
                    f"a group has more than {self._max_gop} frames (max_gop), and a random frame "
                    "would need half of them decoded"
                )
        if not group:
            raise FormatError(f"{self._name}: the video has no frame")
        self._check_order(group, last_shown)
        decoder = decoder or self._start(video)
        yield self._copy_group(decoder, group, whole)
        whole.finish()
        if whole.expected:
            raise self._refusal(
                f"{len(whole.expected)} frames come out only if their group is decoded alone"
            )
        self._matrix, self._side_data = whole.matrix, whole.side_data
        self.shape()
        POOL.give_back(decoder)

    def _start(self, video: VideoStream) -> GroupDecoder:
        """Return a decoder for single groups, and keep the properties of the stream."""
        stream = video.stream
        codec = stream.codec_context
        kind = _CODECS[codec.name]
        width, height = codec.width, codec.height
        if not 0 < width * height <= MAX_PIXELS:
            raise UnsupportedError(
                f"{self._name}: {width} x {height} pixels, outside the limit of {MAX_PIXELS}"
            )
        self.rate = video.report.rate
        self._fields = {
            "codec": kind,
            "width": width,
            "height": height,
            "time_base": exact(stream.time_base),
            "pixel_aspect": exact(stream.sample_aspect_ratio),
            "colour": Colour(
                *(int(codec.color_range), int(codec.color_primaries)),
                *(int(codec.color_trc), int(codec.colorspace)),
            ),
            "tag": codec.codec_tag.encode("latin-1", "replace")[:4].ljust(4, b"\0"),
            "pixel_format": codec.pix_fmt or "",
            "extradata": codec.extradata or b"",
        }
        return GroupDecoder(Configuration(kind, self._fields["extradata"], width, height))

    def _check_order(self, group: list[Packet], last_shown: int | None) -> int:
        """Return when the last frame of the group is shown."""
        times = sorted(packet.pts for packet in group)
        if len(set(times)) < len(times):
            raise self._refusal("two frames have the same time")
        if last_shown is not None and times[0] <= last_shown:
            raise self._refusal(
                "an open group: frames after a key frame are shown before the group begins"
            )
        return times[-1]

    def _copy_group(
        self, decoder: GroupDecoder, group: list[Packet], whole: "_WholeDecoder"
    ) -> Copied:
        order = sorted(range(len(group)), key=lambda at: group[at].pts)
        ranks = [0] * len(group)
        for rank, at in enumerate(order):
            ranks[at] = rank
        kind: VideoCodec = self._fields["codec"]
        with ErrorsAt(lambda: (self._name,)):
            disposable = [is_disposable(kind, packet.data, decoder) for packet in group]
        stored = pack_group(group, ranks, disposable)
        table, packets = unpack_group(stored, len(group))
        try:
            if decoder.has_own_parameters(packets):
                # A reader takes a new decoder as well.
                decoder = GroupDecoder(decoder.config)
            found = _digests(decoder, packets, table, None, self._copied_side_data)
            kept = {rank for at, rank in enumerate(ranks) if not disposable[at]}
            same = (
                len(kept) == len(ranks)
                or not kept
                or _digests(decoder, packets, table, kept, set())
                == {rank: found[rank] for rank in kept}
            )
        except CodecError as err:
            raise self._refusal(
                f"frames {self.nframes} to {self.nframes + len(group) - 1} cannot be decoded alone "
                f"(an open group, or damage): {err.args[0]}"
            ) from err
        if not same:
            raise self._refusal("frames that are marked as disposable are needed for others")
        whole.compare({group[order[rank]].pts: digest for rank, digest in found.items()})
        self._pts += [group[at].pts for at in order]
        self._cost += decoded_for_each(ranks, disposable)
        self.longest = max(self.longest, len(group))
        self.ngroups += 1
        return Copied(stored, len(group))

    def _refusal(self, reason: str) -> UnsupportedError:
        return refusal(self._name, reason)


class _WholeDecoder:
    """Decodes a video from its start, and compares its frames with those of single groups."""

    def __init__(self, video: VideoStream, name: str) -> None:
        self._name = name
        self._video = video
        self._codec = video.stream.codec_context
        self._seen: dict[int, int] = {}
        self.expected: dict[int, int] = {}
        self.matrix: tuple[int, ...] = ()
        self.side_data: set[str] = set()
        self._is_first = True
        self._last: int | None = None

    def packets(self) -> Iterator[Packet]:
        """Yield the packets, each after it was decoded."""
        waiting: list[Packet] = []
        is_start = True
        for packet in self._video.packets():
            copied = self._copy(packet)
            self._decode(packet)
            waiting.append(copied)
            if packet.dts is not None:
                yield from _with_dts(waiting, packet.dts)
                waiting = []
            elif not is_start or len(waiting) > MAX_GROUP:
                raise refusal(self._name, "packets have no times")
            is_start = is_start and packet.dts is None
        self._video.check()
        if waiting:
            raise refusal(self._name, "packets have no times")

    def _copy(self, packet: Any) -> Packet:
        if packet.is_discard:
            raise refusal(self._name, "it has frames that its edit list hides")
        # PyAV 15 cannot ask.
        if hasattr(packet, "has_sidedata") and packet.has_sidedata("new_extradata"):
            raise refusal(self._name, "the configuration of its codec changes midway")
        pts, dts = packet.pts, 0 if packet.dts is None else packet.dts
        if pts is None:
            raise refusal(self._name, "packets have no times")
        # Readers refuse a column of 255 durations that add up to MAX_TIME or more.
        if not all(abs(each) < MAX_TIME >> 8 for each in (pts, dts, packet.duration or 0)):
            raise FormatError(f"{self._name}: a packet has the time {pts}")
        return Packet(bytes(packet), pts, dts, packet.duration or 0, packet.is_keyframe)

    def _decode(self, packet: Any) -> None:
        frames = self._video.decode(packet)
        self._video.check()
        for frame in frames:
            if self._is_first:
                self.matrix, self._is_first = display_matrix(frame), False
            size = frame.width, frame.height
            if size != (self._codec.width, self._codec.height):
                raise refusal(self._name, "its frames change in size")
            if frame.pts is None or (self._last is not None and frame.pts <= self._last):
                raise refusal(self._name, "frames come out in another order than their times")
            self._last = frame.pts
            self.side_data |= side_data_of(frame)
            self._seen[frame.pts] = _digest_of(frame)
        self._match()

    def compare(self, expected: dict[int, int]) -> None:
        """Compare frames, by their times, now or as soon as they come out."""
        self.expected |= expected
        self._match()

    def finish(self) -> None:
        """Decode the frames that are held back."""
        self._decode(None)
        if self._seen:
            raise refusal(self._name, f"{len(self._seen)} frames come from no packet")

    def _match(self) -> None:
        for pts in self._seen.keys() & self.expected.keys():
            if self._seen.pop(pts) != self.expected.pop(pts):
                seconds = float(pts * exact(self._video.stream.time_base))
                raise refusal(
                    self._name,
                    f"the frame at {seconds:.3f} s depends on frames before its group "
                    "(an open group)",
                )


def _with_dts(packets: list[Packet], dts: int) -> Iterator[Packet]:
    """Yield packets of which only the last has a decoding time, `dts`.

    FFmpeg leaves the first ones open for files that store no decoding times (Matroska), so they
    take those that an mp4 file would have.
    """
    step = max(1, packets[-1].duration)
    for before in range(len(packets) - 1, -1, -1):
        yield packets[len(packets) - 1 - before]._replace(dts=dts - before * step)


def _digests(
    decoder: GroupDecoder,
    packets: list[BytesLike],
    table: Any,
    wanted: set[int] | None,
    side_data: set[str],
) -> dict[int, int]:
    """Return a digest of each wanted frame of a group, by rank; add its kinds of side data."""
    found: dict[int, int] = {}

    def take(rank: int, frame: Any) -> None:
        found[rank] = _digest_of(frame)
        side_data.update(side_data_of(frame))

    decoder.decode(packets, table, wanted, take)
    return found


def _digest_of(frame: Any) -> int:
    """Return a digest of the samples of a frame, without the padding of its rows."""
    nbytes = -(-max(part.bits for part in frame.format.components) // 8)
    digest = 0
    for plane in frame.planes:
        rows: AnyArray = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
        rows = np.ascontiguousarray(rows[:, : plane.width * nbytes])
        digest = xxh3_64_intdigest(rows.data, seed=digest)
    return digest


def is_disposable(codec: VideoCodec, packet: BytesLike, decoder: GroupDecoder) -> bool:
    """Return whether a packet says that no other frame depends on its frame."""
    if codec == VideoCodec.H264:
        slices = [
            unit
            for unit in split_units(packet, decoder.size_nbytes)
            if unit_kind(codec, unit) in _H264_SLICES
        ]
        return bool(slices) and all(not unit[0] & 0x60 for unit in slices)
    if codec == VideoCodec.HEVC:
        slices = [
            unit
            for unit in split_units(packet, decoder.size_nbytes)
            if unit_kind(codec, unit) < _HEVC_FIRST_OTHER
        ]
        return bool(slices) and all(
            unit_kind(codec, unit) < _HEVC_FIRST_REFERENCE_ONLY and not unit_kind(codec, unit) % 2
            for unit in slices
        )
    return False


def name_of(source: VideoSource) -> str:
    """Return a name of a video for messages."""
    if isinstance(source, str | os.PathLike):
        return os.fspath(source)
    return "the video"


@contextmanager
def _opened(source: VideoSource, name: str) -> Iterator[Any]:
    """Yield the video stream of a file, with packets as an mp4 file has them.

    Also yield what the file has beside it, and the number of frames that it stores.
    """
    with ExitStack() as stack:
        video = stack.enter_context(VideoStream(stack.enter_context(opened_file(source)), name))
        others, nstored = video.others, stored_frames(video.stream.container, video.stream)
        codec = video.stream.codec_context
        kind = _CODECS.get(codec.name)
        if kind is None:
            raise refusal(name, f"they are of {codec.name}, not of H.264, H.265, VP9 or AV1")
        video.check()
        configured = _CONFIGURED.get(kind)
        if configured is not None and (codec.extradata or b"\0")[0] != configured:
            mp4: BinaryIO = stack.enter_context(_as_mp4(video, name))
            video = stack.enter_context(VideoStream(mp4, name))
        video.stream.codec_context.thread_type = "AUTO"
        yield video, others, nstored


def _as_mp4(video: VideoStream, name: str) -> Any:
    """Return an open mp4 file with the packets of a stream that has no configuration apart.

    A transport stream has start codes between NAL units, an mp4 file their sizes.
    """
    av = import_av()
    spool = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - closed by the caller
        _SPOOL_NBYTES, dir=temporary_folder()
    )
    with closed_on_error(spool):
        try:
            options = exact_times(exact(video.stream.time_base))
            with av.open(spool, "w", format="mp4", options=options) as output:
                target = output.add_stream_from_template(video.stream, opaque=True)
                for packet in video.packets():
                    if packet.pts is None or packet.dts is None:
                        raise refusal(name, "packets have no times")
                    packet.stream = target
                    output.mux(packet)
        except (av.error.FFmpegError, ValueError) as err:
            video.check()  # damage is the better reason
            raise FormatError(f"{name}: it cannot be read: {ffmpeg_message(err)}") from err
        video.check()
    spool.seek(0)
    return spool
