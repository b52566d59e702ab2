"""Decoding single pictures: all formats, reuse of decoders, and damage."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from bloscpack.benzina.codec.codecconfig import split_units, unit_kind, unpack_config
from bloscpack.benzina.codec.decoder import Decoder as UncountedDecoder
from bloscpack.benzina.codec.planes import decode_rgb
from bloscpack.exceptions import BloscpackError, CodecError, FormatError, UnsupportedError
from tests.benzina.encoded import (
    Encoded,
    encoded,
    join_units,
    said_to_be,
    smooth_planes,
    split_annexb,
    with_matrix,
    without_sequence_header,
)

pytest.importorskip("av", reason="no PyAV")

CODECS = ("libx265", "libx264", "libsvtav1")


class Decoder(UncountedDecoder):
    """Counts the decoders that it opens, in any thread."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._opened: list[Any] = []

    @property
    def nopened(self) -> int:
        return len(self._opened)

    def _new_context(self, *args: Any) -> Any:
        context = super()._new_context(*args)
        self._opened.append(args)
        return context


SUBSAMPLINGS = {
    "yuv420p": "4:2:0",
    "yuv422p": "4:2:2",
    "yuv444p": "4:4:4",
    "gray": "grey",
    "gbrp": "rgb",
}


# Encoder, pixel format, full range, matrix.
FORMS = [
    ("libx265", "yuv420p", True, 5),
    ("libx265", "yuv420p", False, 1),
    ("libx265", "yuv422p", False, 9),
    ("libx265", "yuv444p", True, 1),
    ("libx265", "gray", True, 2),
    ("libx265", "yuv420p10le", False, 6),
    ("libx265", "gbrp", True, 0),
    ("libx264", "yuv420p", True, 5),
    ("libx264", "yuv422p", False, 1),
    ("libx264", "yuv444p", False, 9),
    ("libx264", "yuv420p10le", True, 1),
    ("libsvtav1", "yuv420p", True, 5),
    ("libsvtav1", "yuv420p10le", False, 1),
]


@pytest.fixture(autouse=True)
def _silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Check that no FFmpeg message reaches the user's terminal."""
    for codec in CODECS:
        encoded(codec)
    capfd.readouterr()
    yield
    captured = capfd.readouterr()
    assert (captured.out, [line for line in captured.err.splitlines() if "Svt" not in line]) == (
        "",
        [],
    )


def decode(decoder: Decoder, picture: Encoded, *, payload: bytes | None = None) -> Any:
    return decoder.decode(
        picture.kind, picture.config, picture.payload if payload is None else payload
    )


@pytest.mark.parametrize("size", [(64, 64), (66, 70)], ids=str)
@pytest.mark.parametrize("pix_fmt", SUBSAMPLINGS)
def test_lossless_pictures(pix_fmt: str, size: tuple[int, int]) -> None:
    matrix = 0 if pix_fmt == "gbrp" else 1
    picture = encoded("libx265", pix_fmt, *size, True, matrix, lossless=True)
    planes = Decoder().decode(picture.kind, picture.config, picture.payload, size)
    assert planes.subsampling == SUBSAMPLINGS[pix_fmt]
    assert planes.clean == (0, 0, *size)
    assert planes.full_range
    wanted = smooth_planes(pix_fmt, *size)
    for ours, theirs in zip(planes[:3], wanted, strict=False):
        np.testing.assert_array_equal(ours, theirs)
    if pix_fmt == "gray":
        assert planes.u is None
        assert planes.v is None
    if pix_fmt == "gbrp":
        rgb = decode_rgb(planes)
        np.testing.assert_array_equal(rgb, np.stack([wanted[2], wanted[0], wanted[1]], axis=2))


@pytest.mark.parametrize("pix_fmt", ["yuv420p10le", "yuv444p12le", "gray10le", "gbrp10le"])
def test_more_than_8_bits_are_rounded(pix_fmt: str) -> None:
    matrix = 0 if pix_fmt.startswith("gbrp") else 1
    picture = encoded("libx265", pix_fmt, 64, 150, False, matrix, lossless=True)
    planes = decode(Decoder(), picture)
    shift = int(pix_fmt[-4:-2]) - 8
    for ours, theirs in zip(planes[:3], smooth_planes(pix_fmt, 64, 150), strict=False):
        wanted = np.minimum((theirs.astype(int) + (1 << shift >> 1)) >> shift, 255)
        assert ours.dtype == np.uint8
        np.testing.assert_array_equal(ours, wanted)
    assert decode_rgb(planes).shape == (150, 64, 3)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv420p10le"])
@pytest.mark.parametrize("full_range", [True, False])
@pytest.mark.parametrize("codec", CODECS)
def test_codecs(codec: str, full_range: bool, pix_fmt: str) -> None:
    picture = encoded(codec, pix_fmt, 66, 70, full_range, 1)
    planes = decode(Decoder(), picture)
    assert (planes.matrix, planes.full_range) == (1, full_range)
    assert planes.y.shape == (70, 66)
    assert planes.u.shape == planes.v.shape == (35, 33)
    for ours, theirs in zip(planes[:3], smooth_planes(pix_fmt, 66, 70), strict=True):
        shift = 2 if "10" in pix_fmt else 0
        assert np.abs(ours.astype(int) - (theirs >> shift)).max() < 12


@pytest.mark.parametrize("form", FORMS, ids=lambda form: "-".join(map(str, form)))
def test_declared_colours(form: tuple[str, str, bool, int]) -> None:
    codec, pix_fmt, full_range, matrix = form
    planes = decode(Decoder(), encoded(codec, pix_fmt, 64, 64, full_range, matrix))
    assert (planes.full_range, planes.matrix) == (full_range, matrix)
    assert planes.subsampling == SUBSAMPLINGS[pix_fmt.removesuffix("10le")]


@pytest.mark.parametrize("codec", ["libx265", "libx264"])
@pytest.mark.parametrize("matrix", [3, 200, 255])
def test_reserved_colours_are_unspecified_and_so_bt601(codec: str, matrix: int) -> None:
    planes = decode(Decoder(), with_matrix(codec, matrix))
    assert planes.matrix == 2
    wanted = decode(Decoder(), with_matrix(codec, 6))
    assert wanted.matrix == 6
    np.testing.assert_array_equal(decode_rgb(planes), decode_rgb(wanted))


@pytest.mark.parametrize("codec", ["libx265", "libx264"])
def test_colours_that_are_not_three_weights_are_refused(codec: str) -> None:
    planes = decode(Decoder(), with_matrix(codec, 14))  # ICtCp
    assert planes.matrix == 14
    with pytest.raises(UnsupportedError, match="colours of code point 14"):
        decode_rgb(planes)


def test_open_decoders_are_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.benzina.codec.decoder._MAX_CONTEXTS", 3)
    decoder = Decoder()
    pictures = [encoded(codec, "yuv420p", 64, 64) for codec in CODECS]
    for picture in pictures * 4:
        decode(decoder, picture)
    assert decoder.nopened == 3
    fourth = encoded("libx265", "yuv420p", 66, 70)
    decode(decoder, pictures[0])
    decode(decoder, fourth)
    # The least recently used decoder is closed, and opened again on use.
    for picture in (pictures[0], pictures[2], fourth):
        decode(decoder, picture)
    assert decoder.nopened == 4
    decode(decoder, pictures[1])
    assert decoder.nopened == 5
    decoder.close()
    decode(decoder, pictures[1])
    assert decoder.nopened == 6


def test_number_of_open_decoders_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.benzina.codec.decoder._MAX_CONTEXTS", 2)
    decoder = Decoder()
    base = encoded()
    units = list(unpack_config(base.kind, base.config).units)
    config = base.config[:22]
    for number in range(20):
        # The same parameters, made distinct by an extra SEI.
        extra = b"\xa7\0\1" + b"\0\6" + b"\x4e\1\xc8" + bytes((1, number, 0x80))
        array = b"".join(
            bytes((0x80 | unit[0] >> 1,)) + b"\0\1" + len(unit).to_bytes(2, "big") + unit
            for unit in units
        )
        decoder.decode(base.kind, config + b"\4" + array + extra, base.payload)
        assert len(decoder._contexts()) <= 2
    assert decoder.nopened == 20


def test_planes_stay_as_they_are() -> None:
    decoder = Decoder()
    pictures = [encoded("libx265", seed=seed, lossless=True) for seed in range(4)]
    kept = [decode(decoder, picture) for picture in pictures]
    for _ in range(3):
        for picture in pictures:
            decode(decoder, picture)
    assert decoder.nopened == 1
    for seed, planes in enumerate(kept):
        for ours, theirs in zip(planes[:3], smooth_planes("yuv420p", 64, 64, seed), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_threads_have_decoders_of_their_own() -> None:
    decoder = Decoder()
    pictures = [encoded("libx265", seed=seed, lossless=True) for seed in range(4)]
    wanted = [decode_rgb(decode(decoder, picture)) for picture in pictures]
    together = threading.Barrier(4)

    def work(first: int) -> list[Any]:
        together.wait(timeout=240)
        return [decode_rgb(decode(decoder, pictures[(first + at) % 4])).copy() for at in range(12)]

    with ThreadPoolExecutor(4) as pool:
        for first, found in enumerate(pool.map(work, range(4))):
            for at, rgb in enumerate(found):
                np.testing.assert_array_equal(rgb, wanted[(first + at) % 4])
    assert decoder.nopened == 5


def test_after_a_fork() -> None:
    decoder = Decoder()
    wanted = [decode_rgb(decode(decoder, encoded(codec))) for codec in CODECS]
    child = os.fork()
    if not child:
        signal.alarm(240)
        try:
            same = all(
                np.array_equal(decode_rgb(decode(decoder, encoded(codec))), rgb)
                for codec, rgb in zip(CODECS, wanted, strict=True)
            )
            # Decoders opened before the fork are not used.
            os._exit(0 if same and decoder.nopened == 6 else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    decode(decoder, encoded())
    assert decoder.nopened == 3


def test_av1_without_a_sequence_header() -> None:
    picture = encoded("libsvtav1")
    decoder = Decoder()
    wanted = decode_rgb(decode(decoder, picture))
    payload = without_sequence_header(picture.payload)
    assert len(payload) < len(picture.payload)
    np.testing.assert_array_equal(decode_rgb(decode(decoder, picture, payload=payload)), wanted)


def slice_cut(picture: Encoded) -> bytes:
    """Return the payload with its last unit cut within its header, and sizes corrected.

    Only H.264 notices a cut further back.
    """
    units = split_units(picture.payload)
    return join_units([*units[:-1], units[-1][:3]])


DAMAGE: dict[str, tuple[Callable[[Encoded], bytes], type[BloscpackError]]] = {
    "empty": (lambda picture: b"", FormatError),
    "twice": (lambda picture: picture.payload * 2, CodecError),
    "cut": (lambda picture: picture.payload[: len(picture.payload) // 2], BloscpackError),
    "noise": (lambda picture: bytes(range(256)), BloscpackError),
    "zeros": (lambda picture: bytes(len(picture.payload)), BloscpackError),
    "ones": (lambda picture: b"\xff" * len(picture.payload), BloscpackError),
    "a byte too many": (lambda picture: picture.payload + b"\x80", BloscpackError),
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("codec", CODECS)
def test_damage(codec: str, name: str) -> None:
    decoder, picture = Decoder(), encoded(codec)
    wanted = decode_rgb(decode(decoder, picture))
    damage, error = DAMAGE[name]
    for _ in range(2):
        with pytest.raises(error) as caught:
            decode(decoder, picture, payload=damage(picture))
        assert isinstance(caught.value, FormatError | CodecError)
        # The next picture is not affected.
        np.testing.assert_array_equal(decode_rgb(decode(decoder, picture)), wanted)
    # A failed decoder is not reused; one that got no input is.
    assert decoder.nopened <= (1 if error is FormatError else 3)


@pytest.mark.parametrize("codec", CODECS[:2])
def test_damage_of_units(codec: str) -> None:
    decoder, picture = Decoder(), encoded(codec)
    name = {"libx265": "hevc", "libx264": "h264"}[codec]
    with pytest.raises(CodecError, match=f"{name}: the picture could not be decoded") as caught:
        decode(decoder, picture, payload=slice_cut(picture))
    assert caught.value.codec == name
    for lie in (b"\xff\xff\xff\xff", (len(picture.payload)).to_bytes(4, "big"), bytes(4)):
        with pytest.raises(FormatError, match="NAL unit at byte 0"):
            decode(decoder, picture, payload=lie + picture.payload[4:])
    # A delimiter alone is not a picture.
    delimiter = join_units([b"\x46\1\x50" if codec == "libx265" else b"\x09\x10"])
    with pytest.raises(CodecError, match=r"0 pictures|could not be decoded"):
        decode(decoder, picture, payload=delimiter)
    assert decode(decoder, picture).y.shape == (64, 64)


@pytest.mark.parametrize("codec", CODECS)
def test_configuration_of_another_codec(codec: str) -> None:
    picture = encoded(codec)
    for other in {*CODECS} - {codec}:
        theirs = encoded(other)
        with pytest.raises((FormatError, CodecError)):
            Decoder().decode(theirs.kind, theirs.config, picture.payload)
        with pytest.raises((FormatError, UnsupportedError)):
            Decoder().decode(picture.kind, theirs.config, picture.payload)


@pytest.mark.parametrize("codec", CODECS)
def test_too_large_is_refused_before_it_is_decoded(codec: str) -> None:
    small, large = encoded(codec), encoded(codec, "yuv420p", 128, 128)
    decoder = Decoder(max_pixels=64 * 64)
    with pytest.raises(UnsupportedError, match="128 x 128 pixels"):
        decode(decoder, large)
    # The decoder of H.264 finds out itself.
    assert decoder.nopened == (codec == "libx264")
    payload = large.payload if codec == "libsvtav1" else join_units(split_annexb(large.stream))
    with pytest.raises(UnsupportedError, match="128 x 128 pixels"):
        decode(decoder, small, payload=payload)
    assert decode(decoder, small).y.shape == (64, 64)


def test_largest_declared_sizes() -> None:
    base, decoder = encoded(), Decoder()
    sps, config = said_to_be(base, 65535)
    with pytest.raises(UnsupportedError, match="exceeds the limit of 67108864 pixels"):
        decoder.decode(base.kind, config, base.payload)
    assert decoder.nopened == 0
    with pytest.raises(UnsupportedError, match="exceeds the limit of 67108864 pixels"):
        decode(decoder, base, payload=join_units([sps, *split_units(base.payload)]))
    assert decode(decoder, base).y.shape == (64, 64)


def test_pictures_that_cannot_be_in_so_few_bytes() -> None:
    """The decoder would allocate memory for them before it could notice."""
    base, decoder = encoded(pix_fmt="gray"), Decoder()
    assert len(base.payload) < 8192 * 8192 // (8 * 64 * 64)
    sps, config = said_to_be(base, 8192)
    with pytest.raises(FormatError, match=f"{len(base.payload)} bytes are too few .* 8192 x 8192"):
        decoder.decode(base.kind, config, base.payload)
    with pytest.raises(FormatError, match="8192 x 8192"):
        decode(decoder, base, payload=join_units([sps, *split_units(base.payload)]))
    assert decode(decoder, base).y.shape == (64, 64)


def test_sizes_of_h264_are_limited_by_the_sample_entry() -> None:
    """Its decoder finds the size together with the picture, before it allocates memory."""
    small, large, decoder = encoded("libx264"), encoded("libx264", width=1024), Decoder()
    for payload in (small.payload, large.payload):
        with pytest.raises(CodecError, match="1024 x 64 pixels, but the sample entry declares"):
            decoder.decode(large.kind, large.config, payload, (64, 64))
    with pytest.raises(FormatError, match="are too few for a picture of 65535 x 65535"):
        decoder.decode(small.kind, small.config, small.payload, (65535, 65535))


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_slice_is_missing(missing: int) -> None:
    """FFmpeg conceals it; for H.265 it reports nothing."""
    picture, decoder = encoded("libx264", slices=4), Decoder()
    *others, first, second, third, fourth = split_units(picture.payload)
    slices = [first, second, third, fourth]
    assert {unit_kind("h264", unit) for unit in slices} == {5}
    wanted = decode_rgb(decode(decoder, picture))
    del slices[missing]
    with pytest.raises(CodecError, match="parts of the picture are missing"):
        decode(decoder, picture, payload=join_units([*others, *slices]))
    np.testing.assert_array_equal(decode_rgb(decode(decoder, picture)), wanted)


@pytest.mark.parametrize("codec", CODECS[:2])
def test_parameters_in_a_payload_are_for_that_one_only(codec: str) -> None:
    decoder, picture = Decoder(), encoded(codec)
    wanted = decode_rgb(decode(decoder, picture))
    other = encoded(codec, "yuv420p", 66, 70, False, 1)
    planes = decode(decoder, picture, payload=join_units(split_annexb(other.stream)))
    assert planes.y.shape == (70, 66)
    assert (planes.full_range, planes.matrix) == (False, 1)
    np.testing.assert_array_equal(decode_rgb(decode(decoder, picture)), wanted)
    assert decoder.nopened == 2


@pytest.mark.parametrize("codec", CODECS)
def test_a_size_that_differs_from_the_sample_entry(codec: str) -> None:
    picture, decoder = encoded(codec), Decoder()
    wanted = "64 x 64 pixels, but the sample entry declares 64 x 66"
    with pytest.raises(CodecError, match=wanted):
        decoder.decode(picture.kind, picture.config, picture.payload, (64, 66))
    # Nothing is decoded if the size is known beforehand.
    damaged = join_units([b"\x28"]) if codec != "libsvtav1" else picture.payload
    with pytest.raises(CodecError, match=wanted):
        decoder.decode(picture.kind, picture.config, damaged, (64, 66))


def test_sizes_that_disagree() -> None:
    picture, decoder = encoded(), Decoder()
    for clean in ((0, 0, 65, 64), (1, 0, 64, 64), (0, 60, 5, 5), (-1, 0, 5, 5), (0, 0, 0, 5)):
        with pytest.raises(FormatError, match="clean aperture"):
            decoder.decode(picture.kind, picture.config, picture.payload, (64, 64), clean)
    planes = decoder.decode(picture.kind, picture.config, picture.payload, None, (3, 5, 7, 9))
    np.testing.assert_array_equal(
        decode_rgb(planes), decode_rgb(decode(decoder, picture))[5:14, 3:10]
    )


def test_without_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r"bloscpack\[video\]"):
        Decoder()
