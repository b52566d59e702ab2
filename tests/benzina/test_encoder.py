"""Coded pictures, decoded with PyAV."""

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from bloscpack import benzina
from bloscpack.benzina.codec import codecconfig
from bloscpack.benzina.codec.encoder import CODECS, Encoder
from bloscpack.benzina.codec.picture import frame_size, pad, yuv_planes
from bloscpack.exceptions import CodecError
from tests.conftest import REPOSITORY

from .pictures import decode_frame, noise, photo, planes_of, psnr

each_codec = pytest.mark.parametrize("codec", CODECS)
# Signatures of encoders.
TEXTS = b"x265", b"x264", b"options:", b"SVT"


@each_codec
def test_a_picture_comes_back(codec: str) -> None:
    rgb = photo(50, 41)
    coded = Encoder(codec).encode(rgb, 64, 48)
    frame = decode_frame(*coded)
    assert (frame.width, frame.height) == (64, 48)
    assert colours(frame) == (2, 5, 1, 13)[: len(colours(frame))]  # full, BT.601, BT.709, sRGB
    for found, given in zip(planes_of(frame), yuv_planes(rgb, 64, 48), strict=True):
        assert psnr(found, given) > 40


@each_codec
def test_quality(codec: str) -> None:
    rgb = photo(64, 64)
    luma = yuv_planes(rgb, 64, 64)[0]
    sizes, qualities = [], []
    for crf in (5, 25, 50):
        coded = Encoder(codec, crf=crf).encode(rgb, 64, 64)
        sizes.append(len(coded.payload))
        qualities.append(psnr(planes_of(decode_frame(*coded))[0], luma))
    assert sizes == sorted(sizes, reverse=True)
    assert qualities == sorted(qualities, reverse=True)
    assert qualities[0] > 45
    assert qualities[0] - qualities[2] > 8


@each_codec
def test_only_the_picture_is_stored(codec: str) -> None:
    coded = Encoder(codec).encode(noise(16, 16), 16, 16)
    for text in TEXTS:
        assert text not in coded.config
        assert text not in coded.payload
    if codec == "av1":
        assert coded.payload[:2] != b"\x12\0"  # a delimiter
        return
    kinds = [unit[0] for unit in codecconfig.split_units(coded.payload)]
    sets = [unit[0] for unit in codecconfig.unpack_config(coded.config_kind, coded.config).units]
    if codec == "hevc":
        assert [kind >> 1 for kind in kinds] == [20]
        assert [kind >> 1 for kind in sets] == [32, 33, 34]
    else:
        assert [kind & 31 for kind in kinds] == [5]
        assert [kind & 31 for kind in sets] == [7, 8]


def test_content_of_the_reference_profile() -> None:
    rgb = noise(16, 16)
    hevc = Encoder("hevc", like_reference=True).encode(rgb, 16, 16)
    assert b"x265" in hevc.config
    assert [u[0] >> 1 for u in codecconfig.split_units(hevc.payload)] == [20]
    h264 = Encoder("h264", like_reference=True).encode(rgb, 16, 16)
    assert [u[0] & 31 for u in codecconfig.split_units(h264.payload)] == [6, 5]
    for coded in (hevc, h264):
        frame = decode_frame(*coded)
        assert set(colours(frame)) == {2}


def colours(frame: Any) -> tuple[int, ...]:
    """Return range and matrix of a frame and, which PyAV has since 17, its primaries and curve."""
    known = (getattr(frame, name, None) for name in ("color_primaries", "color_trc"))
    return (frame.color_range, frame.colorspace, *(each for each in known if each is not None))


@pytest.mark.parametrize("codec", ["hevc", "h264"])
@pytest.mark.parametrize(
    ("width", "height"), [(1, 1), (7, 33), (16, 16), (33, 1), (17, 15), (64, 40)]
)
def test_lossless(codec: str, width: int, height: int) -> None:
    rgb = noise(width, height)
    size = frame_size(width, height, 16)
    frame = decode_frame(*Encoder(codec, lossless=True).encode(rgb, *size))
    assert (frame.format.name, frame.colorspace, frame.color_range) == ("gbrp", 0, 2)
    green, blue, red = planes_of(frame)
    assert np.array_equal(np.dstack([red, green, blue]), pad(rgb, *size))


@each_codec
def test_bytes_depend_on_the_picture_alone(codec: str) -> None:
    encoder = Encoder(codec)
    pictures = [photo(40, 30, seed) for seed in range(4)]

    def encode(rgb: Any) -> Any:
        return encoder.encode(rgb, 48, 32)

    alone = [encode(rgb) for rgb in pictures]
    assert len(set(alone)) == 4
    assert len({coded.config for coded in alone}) == 1
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(encode, pictures * 3)) == alone * 3


@each_codec
@pytest.mark.skipif(not hasattr(os, "sched_getscheduler"), reason="no such thing here")
def test_threads_are_scheduled_as_before(codec: str) -> None:
    """As root, SVT-AV1 makes the calling thread a real-time one, which shuts out all others."""
    with ThreadPoolExecutor(1) as pool:
        before = pool.submit(os.sched_getscheduler, 0).result()
        pool.submit(Encoder(codec).encode, noise(8, 8), 16, 16).result()
        assert pool.submit(os.sched_getscheduler, 0).result() == before


@each_codec
def test_the_smallest_frame(codec: str) -> None:
    frame = decode_frame(*Encoder(codec).encode(photo(1, 1), 16, 16))
    assert (frame.width, frame.height) == (16, 16)


def test_a_frame_that_the_codec_refuses() -> None:
    with pytest.raises(CodecError, match=r"hevc: a frame of 8x8 cannot be encoded"):
        Encoder("hevc").encode(photo(8, 8), 8, 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"codec": "vp9"}, "codec must be one of hevc, h264, av1, not 'vp9'"),
        ({"codec": "av1", "lossless": True}, "no lossless RGB"),
        ({"codec": "hevc", "lossless": True, "crf": 3}, "either crf or lossless"),
        ({"codec": "hevc", "crf": 52}, "crf must be 0 to 51 .*, not 52"),
        ({"codec": "hevc", "crf": -1}, "crf .*not -1"),
        ({"codec": "hevc", "crf": "x"}, "crf .*not 'x'"),
        ({"codec": "hevc", "crf": float("nan")}, "crf .*not nan"),
        ({"codec": "hevc", "crf": True}, "crf .*not True"),
        ({"codec": "av1", "crf": 20.5}, "a whole number"),
        ({"codec": "h264", "preset": "slow:threads=9"}, "preset .*not 'slow:threads=9'"),
        ({"codec": "av1", "preset": 14}, "preset .*not 14"),
    ],
    ids=range(11),
)
def test_options_out_of_range(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Encoder(**options)


def test_presets_and_halves() -> None:
    assert Encoder("hevc", crf=20.5, preset="ultrafast").encode(photo(16, 16), 16, 16).payload
    assert Encoder("av1", crf=20.0, preset=9).encode(photo(16, 16), 16, 16).payload


def test_encoders_are_silent() -> None:
    # In a new process, as SVT-AV1 sets its log level on first use.
    program = """
import numpy as np
from bloscpack.benzina.codec.encoder import CODECS, Encoder
for codec in CODECS:
    Encoder(codec).encode(np.zeros((16, 16, 3), "u1"), 16, 16)
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_without_pyav(monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder("hevc")
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r"bloscpack\[video\]") as failure:
        encoder.encode(photo(16, 16), 16, 16)
    assert failure.value.name == "av"
    with pytest.raises(ImportError, match="PyAV"):
        benzina.pack([photo(5, 5)] * 9, io.BytesIO(), on_error="skip", nthreads=2)
