"""Results on a terminal: summaries and tables; a pipe gets the plain text for scripts."""

import io
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.cli import verify as cli_verify
from bloscpack.cli.main import main

from ..conftest import SMALL_FORMATS, small_vectors
from .conftest import REPOSITORY, Blpk, flip

pty = pytest.importorskip("pty", reason="the platform has no pseudo-terminals")

EVIL = "\x1b]0;owned\x07\x9b2J\u202etxt"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
Terminal = Callable[..., str]


def read_all(side: int) -> tuple[threading.Thread, bytearray]:
    """Read the output of a terminal in a thread until its other side is closed."""
    written = bytearray()

    def run() -> None:
        while True:
            try:
                data = os.read(side, 4096)
            except OSError:
                return
            if not data:
                return
            written.extend(data)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, written


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Terminal:
    """Run ``blpk`` with a pseudo-terminal as its standard output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name in ("NO_COLOR", "COLORTERM", "LINES", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*argv: str | Path, columns: int = 80, code: int = 0, encoding: str = "utf-8") -> str:
        monkeypatch.setenv("COLUMNS", str(columns))
        own, side = pty.openpty()
        thread, written = read_all(own)
        with monkeypatch.context() as patch, open(side, "w", encoding=encoding) as stream:
            patch.setattr(sys, "stdout", stream)
            assert main([os.fspath(arg) for arg in argv]) == code
        thread.join(240)
        os.close(own)
        return written.decode(encoding).replace("\r\n", "\n")

    return run


@pytest.fixture
def rounded(tmp_path: Path) -> Path:
    """Array with attributes, of which one is hostile, in rounded chunks of 400 rows."""
    path = tmp_path / "rounded.blp"
    values = np.arange(3000.0).reshape(1000, 3)
    bp.save(path, values, chunks=400, attrs={"unit": "m", "evil": EVIL}, keepbits=10)
    return path


@pytest.fixture
def without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("rich", "rich.box", "rich.console", "rich.table", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)


def fields(text: str) -> dict[str, str]:
    lines = text.partition("\n\n")[0].splitlines()
    return {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}


def test_summary_of_an_array(terminal: Terminal, rounded: Path) -> None:
    size = rounded.stat().st_size
    found = fields(terminal("info", rounded, columns=200))
    attrs = found.pop("attrs")
    assert attrs.startswith('{"unit": "m", ')
    assert found == {
        "kind": "array",
        "shape": "1000x3",
        "dtype": "float64 (<f8)",
        "decoded": "23.44K (24000B)",
        "stored": f"{round(size / 1024, 2)}K ({size}B)",
        "ratio": f"{24000 / size:.2f}",
        "chunks": "3 of 400x3, 9.38K",
        "codec": "zstd, byte shuffle, 8 bytes per item",
        "checksum": "crc32",
        "keepbits": "10",
        "format": "version 3, read by bloscpack 0.3 and later",
        "trailer": "valid",
    }


def test_statistics_of_an_array(terminal: Terminal, tmp_path: Path) -> None:
    bp.save(tmp_path / "s.blp", np.array([1.5, np.nan, -2]), stats=True)
    assert fields(terminal("info", tmp_path / "s.blp"))["statistics"] == "-2.0 to 1.5, 1 NaN"
    bp.save(tmp_path / "s.blp", np.array([np.nan]), stats=True)
    assert fields(terminal("info", tmp_path / "s.blp"))["statistics"] == "only NaN: 1"


def test_summary_on_the_page(terminal: Terminal) -> None:
    page = (REPOSITORY / "docs" / "howto" / "commands.md").read_text("utf-8")
    lines = [line.strip() for line in page.splitlines() if line.startswith("    ")]
    begin, end = lines.index("kind      array"), lines.index("trailer   valid")
    values = np.arange(3000.0).reshape(1000, 3)
    bp.save("x.blp", values, chunks=400, attrs={"unit": "m"}, keepbits=10)
    shown = terminal("info", "x.blp").splitlines()
    depends = ("stored", "ratio")  # on the version of the codec
    assert [line for line in lines[begin : end + 1] if not line.startswith(depends)] == [
        line for line in shown if not line.startswith(depends)
    ]


def test_summary_of_a_grid(terminal: Terminal) -> None:
    values = np.asfortranarray(np.arange(3000.0).reshape(100, 30))
    bp.save("grid.blp", values, chunks=(40, 7))
    found = fields(terminal("info", "grid.blp"))
    assert found["chunks"].startswith("15 of 40x7, 2.19K, in a grid of 3x5")
    assert found["order"].startswith("F ")
    assert found["format"] == "version 4, read by bloscpack 1.0 and later, not 0.16"


def test_summary_of_bytes(terminal: Terminal, packed: Path) -> None:
    found = fields(terminal("info", packed))
    assert (found["kind"], found["metadata"]) == ("bytes", '{"unit": "m"}')
    assert found["chunks"] == "10 of 1000B"
    assert not {"shape", "dtype", "attrs", "keepbits"} & set(found)


def test_summary_of_a_damaged_chunk(terminal: Terminal, blpk: Blpk, packed: Path) -> None:
    flip(packed, blpk("info", "--json", packed).json["first_offsets"][0])
    ended = blpk("info", packed)
    assert ended.code
    found = fields(terminal("info", packed, code=ended.code))
    assert found["codec"] == "unknown: the first chunk is damaged"


def test_summary_where_the_metadata_are_of_another_array(terminal: Terminal) -> None:
    metadata = {"container": "numpy", "dtype": "'<f8'", "shape": [10**9], "order": "C"}
    bp.pack_bytes_to_file(b"a" * 5000, Path("x.blp"), metadata=metadata)
    assert fields(terminal("info", "x.blp"))["kind"] == "array with invalid metadata"


def test_summaries_of_an_archive_and_a_store(terminal: Terminal) -> None:
    bp.savez("z.blp", {EVIL: np.zeros(1000), "mask": np.eye(3, dtype="?")})
    text = STYLE.sub("", terminal("info", "z.blp"))
    assert re.search(r"^1000 +<f8 +7\.81K +\d+B +\\x1b\]0;owned\\x07\\x9b2J\\u202etxt$", text, re.M)
    assert re.search(r"^3x3 +\|b1 +9B +\d+B +mask$", text, re.M)
    with bp.frames.create("f.blp") as store:
        store.append("a", np.zeros((4, 8, 9, 3), "u1"))
    text = STYLE.sub("", terminal("info", "f.blp"))
    assert fields(text)["kind"] == "frame store"
    assert re.search(r"^8x9x3 +\|u1 +lossless +1 +4$", text, re.M)


@pytest.mark.parametrize(
    ("name", "expected", "row"),
    [
        pytest.param(*each, id=each[0])
        for each in (
            (
                "gulp",
                {"kind": "gulp directory", "items": "2", "frames": "5", "stored": "3.84K (3934B)"}
                | {"chunks": "2, with 210B of indexes"},
                r"\A(?!.*\n\n)",
            ),
            (
                "recording.vrs",
                {"kind": "VRS recording", "records": "25", "time": "0.0 to 0.53 s"}
                | {"stored": "11.93K (12212B)", "tags": '{"made": "for tests"}'}
                | {"index": "classic zstd end", "format": "version VRS1"},
                r"^214-1 +1 +0 +6 +0\.0 to 0\.5 s +RGB Camera Class, test/raw$",
            ),
            (
                "h264.bzna",
                {"kind": "Benzina dataset", "samples": "3", "stored": "20.06K (20545B)"}
                | {"targets": "3, 3 different, 0 to 2", "names": "3", "splits": "train 0:2"}
                | {"picture": "64x64 in a frame of 64x64, avc1, 2.93K (3004B)"}
                | {"thumbnail": "64x64 in a frame of 64x64, avc1, 2.93K (3004B)"}
                | {"brands": "isom, bzna, isom"},
                r"^ +3 +video/mp4 +- +bzna_input$",
            ),
        )
        if small_vectors(each[0])
    ],
)
def test_summaries_of_other_types(
    terminal: Terminal, blpk: Blpk, name: str, expected: dict[str, str], row: str
) -> None:
    path = SMALL_FORMATS / name
    text = STYLE.sub("", terminal("info", path, columns=120))
    assert fields(text) == expected
    assert re.search(row, text, re.MULTILINE)
    assert terminal("info", "--classic", path) == blpk("info", path).out != text


def test_summary_of_a_clip(terminal: Terminal) -> None:
    with bp.frames.create("f.blp") as store:
        store.append("a", np.zeros((4, 8, 9, 3), "u1"), {"evil": EVIL})
    text = terminal("info", "f.blp::/a")
    assert fields(text)["shape"] == "4x8x9x3"
    assert text.replace("\n", "").isprintable()


def test_verify_has_tables(terminal: Terminal, blpk: Blpk, rounded: Path) -> None:
    names = (rounded.name, "grid.blp")
    bp.save("grid.blp", np.arange(3000.0).reshape(100, 30), chunks=(40, 7))
    with bp.open("grid.blp") as array:
        place = array.chunk_offset(6)
    flip(Path("grid.blp"), place + 20)
    text = STYLE.sub("", terminal("verify", *names, columns=150, code=3))
    files, damage = text.split("\n\n")
    cells = [line.split() for line in files.splitlines()]
    assert cells[0] == ["result", "chunks", "decoded", "file"]
    assert cells[-2:] == [
        ["ok", "3", "23.44K", "rounded.blp"],
        ["damaged", "15", "23.44K", "grid.blp"],
    ]
    lines = damage.splitlines()
    assert lines[0] == "grid.blp:"
    assert re.split("  +", lines[1].strip()) == ["bytes of the file", "lost", "damage"]
    place_, lost, what = re.split("  +", lines[-1].strip())
    assert place_.startswith(f"{place}:")
    assert lost == "[40:80, 7:14]"
    assert what.startswith(f"chunk 6 at offset {place}: crc32 of ")
    piped = blpk("verify", *names).out
    assert piped.startswith("rounded.blp: ok\ngrid.blp: chunk 6 ")
    assert terminal("verify", "--classic", *names, code=3) == piped


def test_an_interrupted_verify_prints_what_it_has(
    terminal: Terminal, rounded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    verify = cli_verify.verify_source

    def interrupted(*args: Any, **options: Any) -> Any:
        seen.append("")
        if len(seen) > 1:
            raise KeyboardInterrupt
        return verify(*args, **options)

    monkeypatch.setattr(cli_verify, "verify_source", interrupted)
    assert "rounded.blp" in terminal("verify", rounded.name, rounded.name, code=130)


def test_summaries_of_several_files(terminal: Terminal, rounded: Path, packed: Path) -> None:
    names = (rounded.name, packed.name)
    first, second = terminal("info", *names).split("\n\n")
    assert (first.split("\n")[0], second.split("\n")[0]) == tuple(f"{name}:" for name in names)
    assert "\n\n" not in terminal("info", "--classic", *names)


def test_classic_is_the_text_of_a_pipe(terminal: Terminal, blpk: Blpk, rounded: Path) -> None:
    bp.savez("z.blp", a=np.arange(3))
    for path in (rounded, "z.blp"):
        piped = blpk("info", path).out
        assert piped.startswith("blpk: " if path == rounded else "kind: archive\n")
        assert terminal("info", "--classic", path) == piped == blpk("info", "--classic", path).out
    assert terminal("info", "--json", "z.blp") == blpk("info", "--json", "z.blp").out


@pytest.mark.parametrize("columns", [80, 40, 1])
def test_lines_fit_the_terminal(terminal: Terminal, rounded: Path, columns: int) -> None:
    lines = terminal("info", rounded, columns=columns).splitlines()
    # Values keep at least 16 columns.
    assert max(map(len, lines)) <= max(columns - 1, 26)


def test_no_control_characters_and_no_color(
    terminal: Terminal, rounded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bp.savez("z.blp", {EVIL: np.zeros(3), "\u65e5": np.zeros(3)})
    for path in (rounded, "z.blp"):
        plain = re.sub(" +\n", "\n", STYLE.sub("", terminal("info", path)))
        assert plain.replace("\n", "").isprintable()
        monkeypatch.setenv("NO_COLOR", "1")
        assert terminal("info", path) == plain
        assert terminal("info", path, encoding="ascii").replace("\n", "").isascii()
        monkeypatch.delenv("NO_COLOR")


def test_tables_by_rich(terminal: Terminal) -> None:
    pytest.importorskip("rich", reason="draws tables")
    bp.savez("z.blp", {"name " * 20: np.zeros(3), "[bold]:smile:": np.zeros(3)})
    text = terminal("info", "z.blp")
    assert "\x1b[1m" in text
    assert "[bold]:smile:" in text
    assert max(len(STYLE.sub("", line)) for line in text.splitlines()) < 80
    assert STYLE.sub("", terminal("info", "z.blp", columns=30)).count("name") == 20


def test_ls_has_sizes_in_human_units(terminal: Terminal, blpk: Blpk, rounded: Path) -> None:
    bp.save("small.blp", np.arange(3))
    lines = STYLE.sub("", terminal("ls", rounded.name, "small.blp")).splitlines()
    cells = [line.split() for line in lines]
    assert cells[0] == ["shape", "dtype", "chunk", "decoded", "stored", "ratio", "checksum", "name"]
    [big] = [each for each in cells if each[-1:] == [rounded.name]]
    assert big[:4] == ["1000x3", "<f8", "400x3", "23.44K"]
    [small] = [each for each in cells if each[-1:] == ["small.blp"]]
    assert small[3] == "24B"
    piped = blpk("ls", rounded.name, "small.blp").out
    assert piped.startswith("1000x3          <f8     400x3                 24000  ")
    assert terminal("ls", "--classic", rounded.name, "small.blp") == piped


def test_ls_of_nothing_that_can_be_read(terminal: Terminal) -> None:
    assert terminal("ls", "missing.blp", code=1) == ""


@pytest.mark.parametrize("columns", [50, 1])
def test_numbers_are_not_folded(terminal: Terminal, rounded: Path, columns: int) -> None:
    text = STYLE.sub("", terminal("ls", rounded.name, columns=columns))
    assert text.splitlines()[-1].split()[:4] == ["1000x3", "<f8", "400x3", "23.44K"]


def test_long_cells_are_shortened(terminal: Terminal) -> None:
    bp.save("x.blp", np.zeros(3, [(f"field{number}", "<f8") for number in range(9)]))
    cells = STYLE.sub("", terminal("ls", "x.blp", columns=150)).splitlines()[-1].split()
    assert cells[1].endswith("...")
    assert len(cells[1]) == 32


def test_tune_has_a_table(terminal: Terminal, blpk: Blpk, rounded: Path) -> None:
    text = STYLE.sub("", terminal("tune", "--sample", "4K", rounded))
    [heading] = [line for line in text.splitlines() if "write MB/s" in line]
    assert heading.split() == ["size", "%", "write", "MB/s", "read", "MB/s", "settings"]
    assert re.search(r"^[a-z] +[\d.]+ +\d+ +\d+ +default$", text, re.M)
    assert "best (" in text
    classic = terminal("tune", "--classic", "--sample", "4K", rounded)
    assert "\n  size %  write MB/s  read MB/s  settings\na " in classic


@pytest.mark.usefixtures("without_rich")
def test_tables_without_rich(terminal: Terminal) -> None:
    bp.savez("z.blp", a=np.zeros((3, 4)), b=np.zeros(3))
    table = terminal("info", "z.blp").partition("\n\n")[2].splitlines()
    assert [line.split() for line in table[:1]] == [
        ["shape", "dtype", "decoded", "stored", "array"]
    ]
    assert [line.split()[0::4] for line in table[1:]] == [["3x4", "a"], ["3", "b"]]
    assert len({line.rindex(" ") for line in table}) == 1


def test_width_of_a_real_terminal(tmp_path: Path, rounded: Path) -> None:
    termios = pytest.importorskip("termios")
    own, side = pty.openpty()
    termios.tcsetwinsize(side, (30, 50))
    thread, written = read_all(own)
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "bloscpack", "info", os.fspath(rounded)],
        stdout=side,
        env={**clean, "PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1"},
    )
    os.close(side)
    assert process.wait(240) == 0
    thread.join(240)
    os.close(own)
    lines = io.StringIO(written.decode()).read().splitlines()
    assert lines[0].startswith("kind ")
    assert 40 < max(map(len, lines)) < 50
