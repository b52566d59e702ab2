"""``blpk show``: pictures and plots of every kind of file, in a terminal and in a pipe."""

import os
import pty
import re
import subprocess
import sys
import termios
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.display.halfblocks import half_blocks, plain_text, sixel

from ..conftest import small_vectors
from .clipfiles import CLIPS, write_store
from .conftest import REPOSITORY, Blpk

FORMATS = REPOSITORY / "tests" / "vectors" / "formats"
EVIL = "\x1b[2J\x07\u202e"


def sixel_pixels(text: str) -> np.ndarray:
    """Decode a sixel sequence."""
    head = re.match(r'\x1bPq"1;1;(\d+);(\d+)', text)
    assert head is not None
    width, height = map(int, head.groups())
    pixels = np.zeros((height + 5, width, 3), int)
    colors: dict[str, tuple[int, ...]] = {}
    color, top, at = "", 0, 0
    for item in re.findall(r"#\d+;2;\d+;\d+;\d+|#\d+|!\d+.|[?-~]|\$|-", text[head.end() : -2]):
        if item.startswith("#") and ";" in item:
            number, _, *values = item[1:].split(";")
            colors[number] = tuple(int(value) * 255 // 100 for value in values)
        elif item.startswith("#"):
            color = item[1:]
        elif item in "$-":
            top, at = top + 6 * (item == "-"), 0
        else:
            count = int(item[1:-1]) if item.startswith("!") else 1
            for bit in range(6):
                if (ord(item[-1]) - 63) >> bit & 1:
                    pixels[top + bit, at : at + count] = colors[color]
            at += count
    return pixels[:height]


def half_block_pixels(lines: list[str]) -> np.ndarray:
    """Decode lines of half blocks in 24-bit colour."""
    rows = []
    for line in lines:
        upper, lower = [], []
        for colors, blocks in re.findall("\x1b\\[([0-9;]+)m(\u2580+)", line):
            values = [int(each) for each in colors.split(";")]
            assert (values[:2], values[5:7]) == ([38, 2], [48, 2])
            upper += [values[2:5]] * len(blocks)
            lower += [values[7:10]] * len(blocks)
        rows += [upper, lower]
    return np.array(rows)


def test_renderers_show_every_pixel() -> None:
    pixels = (np.random.default_rng(1).integers(0, 6, (13, 9, 3)) * 51).astype("u1")
    assert np.array_equal(half_block_pixels(half_blocks(pixels, colors=1 << 24))[:13], pixels)
    assert np.array_equal(sixel_pixels(sixel(pixels)), pixels)
    assert half_blocks(np.full((2, 1, 3), 255, "u1"), colors=256) == [
        "\x1b[38;5;231;48;5;231m\u2580\x1b[0m"
    ]
    assert plain_text(np.array([[[0] * 3, [255] * 3, [128] * 3]] * 2, "u1")) == [" @+"]


def test_a_pipe_gets_plain_text(blpk: Blpk) -> None:
    bp.save("a.blp", np.linspace(0, 1, 400).reshape(20, 20))
    ended = blpk("show", "a.blp")
    assert ended.code == 0
    assert "\x1b" not in ended.out
    *picture, legend = ended.out.splitlines()
    assert len(picture) == 10
    assert picture[-1].endswith("@")
    assert legend == "0 (dark) to 1 (bright)"
    assert ended.err == "blpk: [0:20, 0:20]\n"


@pytest.mark.parametrize("how", ["--blocks", "--sixel"])
def test_the_picture_is_the_frame(blpk: Blpk, how: str) -> None:
    write_store(Path("s.blp"))
    out = blpk("show", "s.blp::/walk", "4", how).out
    pixels = half_block_pixels(out.splitlines()) if how == "--blocks" else sixel_pixels(out[:-1])
    error = abs(pixels - CLIPS["walk"][4])
    assert error.max() <= (0 if how == "--blocks" else 26)


def test_a_line_is_a_plot(blpk: Blpk) -> None:
    bp.save("a.blp", np.sin(np.arange(500) / 20))
    out = blpk("show", "a.blp", "--width", "40").out.splitlines()
    assert len(out) == 14
    assert float(out[0]) == pytest.approx(1, abs=0.01)
    assert float(out[-1]) == pytest.approx(-1, abs=0.01)
    assert {"\u2800" <= char <= "\u28ff" for line in out[1:-1] for char in line} == {True}
    plain = blpk("show", "a.blp", "10:200", "--plain").out
    assert plain.isascii()


@pytest.mark.parametrize(
    ("name", "selection", "shape"),
    [
        ("s.blp", None, (16, 12, 3)),
        ("s.blp::/depth", "-1", (4, 6)),
        ("s.blp::/walk", "2,:,3", (16, 3)),
        ("z.blp::/mask", None, (9, 8)),
        ("z.blp::/line", "5:9", (4,)),
        *((FORMATS / name, None, (24, 32, 3)) for name in small_vectors("gulp")),
        *((FORMATS / name, None, None) for name in small_vectors("hevc.bzna", "recording.vrs")),
    ],
)
def test_every_kind_of_file(blpk: Blpk, name: Any, selection: str | None, shape: Any) -> None:
    if "hevc" in str(name):
        pytest.importorskip("av")
    write_store(Path("s.blp"))
    bp.savez("z.blp", mask=np.ones((9, 8), "?"), line=np.arange(10))
    rest = [] if selection is None else [selection]
    ended = blpk("show", name, *rest)
    assert (ended.code, "\x1b" in ended.out) == (0, False)
    document = blpk("show", name, *rest, "--json").json
    assert document["command"] == "show"
    if shape is not None:
        assert tuple(document["shape"]) == shape


@pytest.mark.parametrize("name", small_vectors("recording.vrs"))
def test_columns_of_a_recording(blpk: Blpk, name: str) -> None:
    path = FORMATS / name
    with bp.vrs.open(path) as recording:
        values = recording.streams["214-1"].field("exposure")
    lines = blpk("show", f"{path}::/214-1/exposure").out.splitlines()
    assert (float(lines[0]), float(lines[-1])) == pytest.approx((values.max(), values.min()))
    ended = blpk("show", f"{path}::/214-1/gain")
    assert (ended.code, ended.out) == (1, "")
    assert "no field 'gain'; it has exposure, where, ticks, names" in ended.err
    ended = blpk("show", f"{path}::/214-1/exposure", "999")
    assert (ended.code, ended.out) == (1, "")
    assert "'214-1/exposure': index 999 is out of bounds" in ended.err


def test_errors_name_the_call(blpk: Blpk) -> None:
    write_store(Path("s.blp"))
    bp.savez("z.blp", a=np.ones(3), b=np.ones(3))
    bp.save("text.blp", np.array(["a", "b"]))
    bp.save("a.blp", np.ones((4, 4)))
    for argv, code, words in (
        (["z.blp"], 1, "2 arrays; name one, such as 'z.blp::/NAME', of: 'a', 'b'"),
        (["s.blp::/walk", ":"], 2, "one frame at a time"),
        (["s.blp::/walk", "77"], 1, "frame 77 of a clip of 6"),
        (["s.blp::/none"], 1, "no frames"),
        (["s.blp::/other"], 1, "no clip 'other'"),
        (["a.blp", "9"], 1, "out of bounds"),
        (["a.blp::/x"], 4, "has no array 'x'"),
        (["text.blp"], 1, "not numbers"),
        (["missing.blp"], 1, "does not exist"),
        (["a.blp", "--width", "0"], 2, "--width"),
    ):
        ended = blpk("show", *argv)
        assert (ended.code, ended.out) == (code, ""), argv
        assert words in ended.err


def test_names_from_files_emit_no_control_characters(blpk: Blpk) -> None:
    with bp.frames.create("s.blp") as store:
        store.append(EVIL, CLIPS["depth"])
    bp.savez("z.blp", {EVIL: np.ones((3, 3)), "b": np.ones(3)})
    for argv in (["s.blp"], ["z.blp"], [f"z.blp::/{EVIL}"], [f"z.blp::/{EVIL}x"]):
        ended = blpk("show", *argv)
        for text in (ended.out, ended.err):
            assert not set(text) & {"\x1b", "\x07", "\u202e"}


def test_damage_is_an_error(blpk: Blpk) -> None:
    bp.save("a.blp", np.random.default_rng(1).random((50, 50)))
    data = bytearray(Path("a.blp").read_bytes())
    data[len(data) // 2] ^= 1
    Path("a.blp").write_bytes(data)
    assert blpk("show", "a.blp").code == 3


def run_in_terminal(answer: bytes, *argv: str, **environment: str) -> bytes:
    """Run ``blpk show`` on a pseudo terminal that answers the question for its attributes."""
    main, side = pty.openpty()
    termios.tcsetwinsize(side, (30, 100))
    clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM", "TERM")}
    process = subprocess.Popen(
        [sys.executable, "-m", "bloscpack", "show", *argv],
        stdin=side,
        stdout=side,
        stderr=subprocess.DEVNULL,
        env={**clean, "PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1", **environment},
    )
    os.close(side)
    written = bytearray()

    def talk() -> None:
        asked = False
        while True:
            try:
                data = os.read(main, 4096)
            except OSError:  # the other side is closed
                return
            if not data:
                return
            written.extend(data)
            if not asked and b"\x1b[c" in written:
                asked = True
                os.write(main, answer)

    thread = threading.Thread(target=talk)
    thread.start()
    assert process.wait(240) == 0
    thread.join(240)
    os.close(main)
    return bytes(written)


def test_a_terminal_is_asked_for_sixel(tmp_path: Path) -> None:
    path = str(tmp_path / "a.blp")
    bp.save(path, np.arange(64.0).reshape(8, 8))
    color = {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
    assert b"\x1bPq" in run_in_terminal(b"\x1b[?62;4;22c", path, **color)
    blocks = run_in_terminal(b"\x1b[?62;22c", path, **color)
    assert b"\x1b[38;2;" in blocks
    assert b"\x1bPq" not in blocks


@pytest.mark.slow
def test_terminals_without_colour_or_answer(tmp_path: Path) -> None:
    path = str(tmp_path / "a.blp")
    bp.save(path, np.arange(64.0).reshape(8, 8))
    assert b"\x1b[38;5;" in run_in_terminal(b"", path, TERM="xterm-256color")
    for environment in ({"TERM": "dumb"}, {"TERM": "xterm", "NO_COLOR": "1"}):
        assert b"\x1b" not in run_in_terminal(b"", path, **environment)


def test_a_pattern_stands_for_one_file(blpk: Blpk, ramp: Path) -> None:
    assert blpk("show", "r*.blp").raw == blpk("show", ramp).raw
    ramp.with_name("rest.blp").write_bytes(ramp.read_bytes())
    ended = blpk("show", "r*.blp")
    assert (ended.code, ended.raw) == (2, b"")
    assert "'r*.blp' matches 2 files; expected one" in ended.err
