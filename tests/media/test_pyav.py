"""The module `media.pyav` with the installed version of PyAV, in CI the lowest and the newest."""

import ast
import inspect
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("av", reason="videos take PyAV")

import av

from bloscpack.media import pyav

from ..conftest import PACKAGE
from ..videofiles import moving, set_matrix, write_video

# Members of PyAV's streams, packets and frames that are rational numbers.
RATIONAL = {"average_rate", "guessed_rate", "base_rate", "sample_aspect_ratio"}
OWNERS = {"stream", "_stream", "packet"}  # names whose member `time_base` is PyAV's


class Rational(SimpleNamespace):
    """A number as PyAV 19 has them, without `as_integer_ratio`."""

    def __bool__(self) -> bool:
        return bool(self.numerator and self.denominator)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (None, Fraction(0)),
        (Fraction(30000, 1001), Fraction(30000, 1001)),
        (Rational(numerator=30000, denominator=1001), Fraction(30000, 1001)),
        (Rational(numerator=0, denominator=1), Fraction(0)),
        (Rational(numerator=0, denominator=0), Fraction(0)),
        (Rational(numerator=1, denominator=0), Fraction(0)),
    ],
)
def test_rational_numbers_of_every_version_are_fractions(
    number: object, expected: Fraction
) -> None:
    found = pyav.exact(number)
    assert (type(found), found) == (Fraction, expected)


def test_numbers_of_a_stream_are_exact(tmp_path: Path) -> None:
    path = write_video(tmp_path / "clip.mkv", moving(4), codec="mjpeg", rate=24)
    with (
        path.open("rb") as file,
        pyav.open_container(file, "clip", path.stat().st_size) as container,
    ):
        stream = pyav.best_stream(container, "clip")
        assert pyav.frame_rate_of(stream) == 24
        assert pyav.exact(stream.time_base) == Fraction(1, 1000)
        assert pyav.exact(stream.sample_aspect_ratio) in (0, 1)
        packets = [packet for packet in container.demux(stream) if packet.size]
        seconds = [packet.pts * pyav.exact(packet.time_base) for packet in packets]
        assert seconds == [0, Fraction(42, 1000), Fraction(83, 1000), Fraction(125, 1000)]
        codec = stream.codec_context
        colour = codec.color_range, codec.color_primaries, codec.color_trc, codec.colorspace
        assert all(isinstance(int(each), int) for each in colour)


def test_products_of_large_terms_are_not_rounded() -> None:
    # PyAV's own products have 32 bits.
    rate, unit = Fraction(2_000_000_011, 1_000_003), Fraction(1, 1_999_999_973)
    rational = getattr(av, "AVRational", Fraction)
    product = pyav.exact(rational(*rate.as_integer_ratio()))
    product *= pyav.exact(rational(*unit.as_integer_ratio()))
    assert product == rate * unit


@pytest.mark.parametrize("suffix", ["mov", "mp4"])
def test_display_matrix_is_nine_numbers_or_none(tmp_path: Path, suffix: str) -> None:
    codec = {"mov": "png", "mp4": "mpeg4"}[suffix]
    path = write_video(tmp_path / f"clip.{suffix}", moving(2), codec=codec)

    def matrix() -> tuple[int, ...]:
        with av.open(str(path)) as container:
            return pyav.display_matrix(next(container.decode(video=0)))

    assert matrix() == ()
    set_matrix(path, "clockwise")
    assert [round(each / 65536) for each in matrix()[:5]] == [0, 1, 0, -1, 0]


def test_options_of_a_conversion_are_accepted() -> None:
    frame = av.VideoFrame.from_ndarray(moving(1)[0], format="rgb24")
    reformatter = av.video.reformatter.VideoReformatter()
    options = pyav.reformat_options()
    assert reformatter.reformat(frame, format="gray", **options).format.name == "gray"
    assert options == {"threads": 1} or int(av.__version__.split(".")[0]) < 17


def test_messages_of_errors_have_no_numbers() -> None:
    with pytest.raises(av.error.FFmpegError) as caught:
        av.open("nosuch.mp4")
    assert pyav.ffmpeg_message(caught.value) == "No such file or directory"


def test_other_modules_take_no_rational_number_of_pyav_as_it_is() -> None:
    """A number of PyAV that is not an argument of `exact` fails with the next version only."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        if path.name == "pyav.py":
            continue
        text = path.read_text("utf-8")
        if not any(name in text for name in (*RATIONAL, "time_base")):
            continue
        tree = ast.parse(text)
        wrapped = {
            id(node.args[0])
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "exact" and node.args
        }
        found += [
            f"{path.relative_to(PACKAGE)}:{node.lineno} {node.attr}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and id(node) not in wrapped
            and (
                node.attr in RATIONAL
                or (node.attr == "time_base" and ast.unparse(node.value).split(".")[-1] in OWNERS)
            )
        ]
    assert found == []
    assert "exact(" in inspect.getsource(pyav.frame_rate_of)
