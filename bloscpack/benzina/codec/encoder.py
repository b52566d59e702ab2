"""Encode single pictures with PyAV: one picture, one encoder, one intra frame.

Every picture gets an encoder of its own, so that its bytes depend on its pixels only, not on
earlier pictures or the number of threads. Opening an encoder takes about a millisecond. Encoders
run on one thread and without the GIL; call `Encoder.encode` from several threads to encode pictures
concurrently.

FFmpeg's muxer takes the encoder's stream apart: each picture becomes an mp4 in memory, from which
configuration and payload are taken.

Lossy pictures are 8-bit YUV 4:2:0, BT.601 in full range, with sRGB colours, and the streams declare
this. Lossless pictures are coded as planes G, B and R. The signatures that encoders write (x265:
2.3 kB of options, x264: 0.6 kB) are removed by default.
"""

import io
import os
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ...plugin import AnyArray, CodecError, import_av, restore_scheduling
from ..mp4.format import INPUT
from ..mp4.samplelayout import parse_sample
from .codecconfig import (
    AV1,
    AV1C,
    AVCC,
    H264,
    HEVC,
    HVCC,
    pack_config,
    sequence_header,
    split_obus,
)
from .picture import Rgb, pad, yuv_planes

_X_PRESETS = (
    "ultrafast",
    "superfast",
    "veryfast",
    "faster",
    "fast",
    "medium",
    "slow",
    "slower",
    "veryslow",
    "placebo",
)
_SVT_PRESETS = tuple(map(str, range(14)))
# For x265: one intra frame, on one thread. Without bframes=0, PyAV returns packets
# with uninitialized timestamps.
_X265_PARAMS = "bframes=0:keyint=1:pools=none:frame-threads=1:log-level=none"
_SVT_PARAMS = "keyint=1:lp=1"
# ISO/IEC 23091-2: full range; BT.709 primaries, sRGB transfer, BT.601 matrix; identity for RGB.
_FULL_RANGE, _PRIMARIES, _TRANSFER, _MATRIX, _RGB_MATRIX = 2, 1, 13, 5, 0
_RATE = 20
# FFmpeg's filters of the stream: SEI (type 39 or 6), with the encoder's signature, and parameter
# sets (32 to 34) are removed from the picture.
_FILTERS = {HEVC: "filter_units=remove_types=32-34|39", H264: "filter_units=remove_types=6"}


class Coded(NamedTuple):
    """A coded picture."""

    config_kind: bytes  # box type of the decoder configuration: b"hvcC", b"avcC" or b"av1C"
    config: bytes  # payload of that box
    payload: bytes  # the picture: NAL units, each preceded by its size in 4 bytes, or OBUs


class CodecRow(NamedTuple):
    """A codec and its options."""

    # FFmpeg's names; the second is empty if lossless RGB is not available.
    encoder: str
    lossless_encoder: str
    config_kind: bytes  # box type of the decoder configuration
    # Default quality, and the largest number, which is the lowest quality.
    crf: int
    max_crf: int
    presets: tuple[str, ...]  # from fastest to slowest; for SVT-AV1 from slowest to fastest
    preset: str  # the default preset


CODECS = {
    HEVC: CodecRow("libx265", "libx265", HVCC, 24, 51, _X_PRESETS, "medium"),
    H264: CodecRow("libx264", "libx264rgb", AVCC, 20, 51, _X_PRESETS, "medium"),
    AV1: CodecRow("libsvtav1", "", AV1C, 12, 63, _SVT_PRESETS, "8"),
}


class Encoder:
    """Encoder settings; many threads can encode with them concurrently.

    Parameters
    ----------
    codec : {"hevc", "h264", "av1"}
        H.265, H.264 or AV1.
    crf : float, optional
        Quality: 0 is the best, 51 (AV1: 63, whole numbers) the worst.
    preset : str or int, optional
        A name for x265 and x264, a number for SVT-AV1.
    lossless : bool, optional
        Store every pixel exactly, in RGB.
    like_reference : bool, optional
        Encode as Benzina's tools do: declare no colours except the range, and keep the encoder's
        signature in the stream.

    Raises
    ------
    ValueError
        The codec is unknown, an option is out of range, or the codec has no lossless form.
    """

    def __init__(
        self,
        codec: str,
        *,
        crf: float | None = None,
        preset: str | int | None = None,
        lossless: bool = False,
        like_reference: bool = False,
    ) -> None:
        row = CODECS.get(codec)
        if row is None:
            raise ValueError(f"codec must be one of {', '.join(CODECS)}, not {codec!r}")
        if lossless and not row.lossless_encoder:
            raise ValueError(
                f"codec {codec!r} has no lossless RGB (SVT-AV1 supports 4:2:0 only): use "
                "'hevc' or 'h264'"
            )
        if lossless and crf is not None:
            raise ValueError("pass either crf or lossless, not both")
        self.codec = codec
        self.lossless = lossless
        self._row = row
        self._like_reference = like_reference
        self._options = self._make_options(
            _check_crf(codec, row, crf), _check_preset(codec, row, preset)
        )

    def _make_options(self, crf: str, preset: str) -> dict[str, str]:
        options = {"preset": preset}
        if self.codec == HEVC:
            options["x265-params"] = _X265_PARAMS + ":no-info=1" * (not self._like_reference)
            if self.lossless:
                options["x265-params"] += ":lossless=1"
        if self.codec == AV1:
            options["svtav1-params"] = _SVT_PARAMS
        if not self.lossless:
            options["crf"] = crf
        elif self.codec == H264:
            options["qp"] = "0"
        return options

    @property
    def colour(self) -> tuple[int, int, int, bool]:
        """Primaries, transfer and matrix by ISO/IEC 23091-2, and whether the range is full."""
        return _PRIMARIES, _TRANSFER, _RGB_MATRIX if self.lossless else _MATRIX, True

    @property
    def signature(self) -> bytes:
        """Name of the encoder in the form that FFmpeg's muxer writes, at most 31 bytes."""
        version = ".".join(map(str, import_av().library_versions["libavcodec"]))
        return f"Lavc{version} {self._row.encoder}".encode()

    def encode(self, rgb: Rgb, width: int, height: int) -> Coded:
        """Encode a picture at the top left of a frame, padded by repeating its edges.

        `width` and `height` of the frame are even, and not less than the picture's. The result is
        equal for equal pixels and options. CodecError if the encoder refused, for example because
        the frame is too large for the codec.
        """
        av = import_av()
        try:
            sample = self._mux(av, self._frame(av, rgb, width, height))
        except (av.error.FFmpegError, ValueError) as err:
            raise CodecError(
                f"{self.codec}: a frame of {width}x{height} cannot be encoded: {err}",
                codec=self.codec,
            ) from err
        track = parse_sample(sample).tracks[INPUT]
        payload = sample[track.offset : track.offset + track.nbytes]
        config = track.config
        if self.codec == AV1:
            # SVT-AV1 announces another sequence header than it then writes, with the same form.
            header = sequence_header(AV1, split_obus(payload))
            config = pack_config(config, AV1, [header] if header else [])
        return Coded(track.config_kind, config, payload)

    def _frame(self, av: Any, rgb: Rgb, width: int, height: int) -> Any:
        """Return a PyAV frame in the encoder's pixel format."""
        if not self.lossless:
            kind = "yuv420p" if self.codec == AV1 else "yuvj420p"
            planes: tuple[AnyArray, ...] = yuv_planes(rgb, width, height)
        elif self.codec == HEVC:
            kind = "gbrp"
            padded = pad(rgb, width, height)
            planes = padded[..., 1], padded[..., 2], padded[..., 0]
        else:
            kind = "rgb24"
            planes = (pad(rgb, width, height).reshape(height, 3 * width),)
        frame = av.VideoFrame(width, height, kind)
        for plane, pixels in zip(frame.planes, planes, strict=True):
            rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
            rows[:, : pixels.shape[1]] = pixels
        frame.pts = 0
        return frame

    def _mux(self, av: Any, frame: Any) -> bytes:
        """Return a frame, encoded, as FFmpeg's mp4."""
        name = self._row.lossless_encoder if self.lossless else self._row.encoder
        if self.codec == AV1:
            # SVT-AV1 logs every picture on standard error, unless the environment disables it.
            os.environ.setdefault("SVT_LOG", "1")
        file = io.BytesIO()
        with restore_scheduling(), av.open(file, "w", format="mp4") as container:
            stream = container.add_stream(name, rate=_RATE)
            stream.metadata["handler_name"] = INPUT
            context = stream.codec_context
            context.width, context.height = frame.width, frame.height
            context.pix_fmt = frame.format.name
            context.time_base = Fraction(1, _RATE)
            context.gop_size, context.max_b_frames, context.thread_count = 1, 0, 1
            context.color_range = _FULL_RANGE
            if not self._like_reference:
                context.color_primaries, context.color_trc, context.colorspace, _ = self.colour
            if self.codec == HEVC:
                # In FFmpeg's default, "hev1", the configuration need not have all parameter sets.
                context.codec_tag = "hvc1"
            context.options = self._options
            packets = context.encode(frame) + context.encode(None)
            if len(packets) != 1:
                raise CodecError(
                    f"{self.codec}: one picture became {len(packets)} packets, expected one",
                    codec=self.codec,
                )
            if self.codec == HEVC or (self.codec == H264 and not self._like_reference):
                packets = av.BitStreamFilterContext(_FILTERS[self.codec], stream).filter(packets[0])
                packets[0].stream = stream
            container.mux(packets)
        return file.getvalue()


def _check_crf(codec: str, row: CodecRow, crf: float | None) -> str:
    quality = row.crf if crf is None else crf
    is_number = isinstance(quality, int | float) and not isinstance(quality, bool)
    if not is_number or not 0 <= quality <= row.max_crf:
        raise ValueError(f"crf must be 0 to {row.max_crf} for codec {codec!r}, not {crf!r}")
    if codec == AV1 and quality != int(quality):
        raise ValueError(f"crf must be a whole number for codec {codec!r}, not {crf!r}")
    return f"{quality:g}"


def _check_preset(codec: str, row: CodecRow, preset: str | int | None) -> str:
    name = row.preset if preset is None else str(preset)
    if name not in row.presets:
        raise ValueError(
            f"preset of codec {codec!r} must be one of {', '.join(row.presets)}, not {preset!r}"
        )
    return name
