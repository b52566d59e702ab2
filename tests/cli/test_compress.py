"""``blpk compress`` and ``blpk decompress``: round trips."""

import io
import json
import os
import stat
import sys
from pathlib import Path

import pytest

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import CODECS
from bloscpack.storage.file import open_source

from .conftest import Blpk, flip

OPTIONS = [
    [],
    *(["-c", codec, "-l", "3"] for codec in CODECS),
    *(["--checksum", row.name] for row in CHECKSUMS),
    *(["-l", str(level)] for level in (0, 9)),
    *(["-t", size] for size in ("1", "4", "255")),
    *(["-z", size] for size in ("100", "1K", "1.5K", "3333B", "max")),
    ["-s"],
    ["--shuffle", "none"],
    ["--shuffle", "byte"],
    ["--shuffle", "bit", "-t", "4"],
    ["-o"],
    ["--no-offsets", "-z", "1K", "-k", "None"],
    ["--max-app-chunks", "0"],
]


@pytest.mark.parametrize("options", OPTIONS, ids=" ".join)
def test_round_trip(blpk: Blpk, plain: Path, content: bytes, options: list[str]) -> None:
    assert blpk("compress", *options, plain) == blpk("d", "plain.bin.blp", "back.bin")
    assert Path("back.bin").read_bytes() == content
    ended = blpk("c", *options, "-", stdin=content)
    assert (ended.code, ended.err) == (0, "")
    assert ended.raw == Path("plain.bin.blp").read_bytes()
    assert blpk("d", "-", stdin=ended.raw).raw == content
    assert blpk("-f", "-n", "2", "c", *options, plain).code == 0
    assert Path("plain.bin.blp").read_bytes() == ended.raw


def test_options_are_honoured(blpk: Blpk, plain: Path) -> None:
    argv = ["-c", "zlib", "-t", "4", "-z", "3000", "-k", "sha256", "--max-app-chunks", "5"]
    assert blpk("c", *argv, "--shuffle", "bit", plain, "one.blp").code == 0
    with Container(open_source("one.blp")) as container:
        header, chunk = container.header, container.fetch(0).header
    assert (header.format_version, header.checksum.name, header.typesize) == (3, "sha256", 4)
    assert (header.chunk_size, header.last_chunk, header.nchunks) == (3000, 1000, 4)
    assert (header.max_app_chunks, header.offsets, header.metadata) == (5, True, False)
    assert (chunk.codec, chunk.shuffle.name, chunk.typesize) == ("zlib", "BIT", 4)
    assert blpk("c", "-o", "-s", "-k", "xxh3_64", plain, "two.blp").code == 0
    with Container(open_source("two.blp")) as container:
        header, chunk = container.header, container.fetch(0).header
    assert (header.format_version, header.checksum.name) == (4, "xxh3_64")
    assert (header.offsets, header.max_app_chunks, header.nchunks) == (False, 0, 1)
    assert (chunk.codec, chunk.shuffle.name) == ("blosclz", "NONE")


def test_defaults_are_those_of_the_original(blpk: Blpk, plain: Path, content: bytes) -> None:
    assert blpk("c", plain).code == 0
    assert Path("plain.bin.blp").read_bytes() == bp.pack_bytes_to_bytes(content)


@pytest.mark.parametrize("text", ['{"a": [1, null, "\\u00e9"]}', " [] \n", "3", '"x"', "true"])
def test_metadata(blpk: Blpk, plain: Path, text: str) -> None:
    Path("meta.json").write_text(text)
    assert blpk("c", "-m", "meta.json", plain).code == 0
    value = json.loads(text)
    assert bp.unpack_bytes_from_file("plain.bin.blp")[1] == value
    ended = blpk("-f", "d", "plain.bin.blp")
    assert ended.out == (f"blpk: Metadata:\nblpk: {value!r}\n" if value else "")
    ended = blpk("d", "plain.bin.blp", "-")
    assert ended.raw == plain.read_bytes()
    assert ended.err == (f"blpk: Metadata:\nblpk: {value!r}\n" if value else "")
    assert blpk("-q", "d", "plain.bin.blp", "-").err == ""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "No such file"),
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe\xfd", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
    ],
)
@pytest.mark.parametrize("command", ["compress", "append"])
def test_bad_metadata_leave_everything_as_it_was(
    blpk: Blpk, plain: Path, packed: Path, data: bytes | None, message: str, command: str
) -> None:
    if data is not None:
        Path("meta.json").write_bytes(data)
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    names = [plain, "new.blp"] if command == "compress" else [packed, plain]
    ended = blpk(command, "-m", "meta.json", *names)
    assert (ended.code, ended.raw) == (1, b"")
    assert message in ended.err
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_an_existing_output_is_kept_without_force(blpk: Blpk, plain: Path, packed: Path) -> None:
    Path("there").write_bytes(b"precious")
    for argv in (["c", plain, "there"], ["d", packed, "there"]):
        ended = blpk(*argv)
        assert (ended.code, ended.err) == (1, "blpk: error: output file 'there' exists!\n")
        assert Path("there").read_bytes() == b"precious"
        assert blpk("-f", *argv).code == 0
        assert Path("there").read_bytes() != b"precious"
        Path("there").write_bytes(b"precious")


def test_output_is_never_the_input(blpk: Blpk, plain: Path, packed: Path) -> None:
    before = plain.read_bytes(), packed.read_bytes()
    os.link(plain, "hard")
    Path("soft").symlink_to(packed)
    for argv in (["c", plain, plain], ["c", plain, "hard"], ["d", packed, "soft"]):
        ended = blpk("-f", *argv)
        assert ended.code == 1
        assert "input and output are the same file" in ended.err
    assert (plain.read_bytes(), packed.read_bytes()) == before


def test_names_without_the_extension(blpk: Blpk, packed: Path, content: bytes) -> None:
    other = packed.rename("other.x")
    ended = blpk("d", other, "out")
    assert (ended.code, ended.err) == (
        1,
        "blpk: error: input file 'other.x' does not end with '.blp'\n",
    )
    assert blpk("d", "-e", other).code == 2
    assert blpk("d", "-e", other, "out").code == 0
    assert Path("out").read_bytes() == content


def test_outputs_that_cannot_be_written(blpk: Blpk, plain: Path) -> None:
    Path("folder").mkdir()
    for output, word in (("nowhere/out", "nowhere"), ("folder", "directory")):
        ended = blpk("-f", "c", plain, output)
        assert ended.code == 1
        assert word in ended.err
    assert blpk("c", "folder", "out").err == "blpk: error: folder: Is a directory\n"
    assert not Path("out").exists()
    assert blpk("c", plain, os.devnull).code == 0


def test_damage_leaves_no_output(blpk: Blpk, packed: Path) -> None:
    flip(packed, -10)
    names = sorted(path.name for path in Path().iterdir())
    for output in ("out", "packed"):
        ended = blpk("d", packed, output)
        assert ended.code == 3
        assert "chunk 9" in ended.err
        assert sorted(path.name for path in Path().iterdir()) == names


def test_damage_is_reported_while_writing_to_a_pipe(
    blpk: Blpk, packed: Path, content: bytes
) -> None:
    flip(packed, -10)
    ended = blpk("d", packed, "-")
    assert ended.code == 3
    assert content.startswith(ended.raw)
    assert len(ended.raw) == 9000


@pytest.mark.parametrize("nbytes", [0, 3, 4, 20, 100, 500, 1000])
def test_truncated_files(blpk: Blpk, packed: Path, nbytes: int) -> None:
    packed.write_bytes(packed.read_bytes()[:nbytes])
    ended = blpk("d", packed, "out")
    assert ended.code == (3 if nbytes else 4)
    assert not Path("out").exists()


@pytest.mark.parametrize("data", [b"", b"b", b"PK\3\4", b"blqk", b"\x1f\x8b", bytes(100)])
def test_foreign_files(blpk: Blpk, data: bytes) -> None:
    Path("x.blp").write_bytes(data)
    expected = 3 if data == b"b" else 4
    for argv in (["d", "x.blp"], ["i", "x.blp"], ["cat", "x.blp"], ["ls", "x.blp"]):
        assert blpk(*argv).code == expected
    assert blpk("d", "-", stdin=data).code == expected
    Path("new").write_bytes(b"new")
    assert blpk("a", "x.blp", "new").code == expected
    assert sorted(path.name for path in Path().iterdir()) == ["new", "x.blp"]


def test_an_unknown_version_is_no_damage(blpk: Blpk, packed: Path) -> None:
    data = bytearray(packed.read_bytes())
    data[4] = 77
    packed.write_bytes(data)
    ended = blpk("d", packed, "out")
    assert ended.code == 1
    assert "77" in ended.err


class TerminalOutput(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_no_binary_data_on_a_terminal(
    blpk: Blpk, plain: Path, packed: Path, ramp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", TerminalOutput(raw))
    for argv in (["c", plain, "-"], ["d", packed, "-"], ["cat", ramp], ["cat", "--npy", ramp]):
        ended = blpk(*argv)
        assert ended.code == 1
        assert "is a terminal" in ended.err
        assert raw.getvalue() == b""
    assert blpk("cat", "--text", ramp, "0").code == 0
    assert raw.getvalue() == b"[0. 1. 2. 3.]\n"
    assert blpk("-f", "d", packed, "-").code == 0
    assert raw.getvalue().endswith(plain.read_bytes())


def test_the_mode_of_a_new_file_follows_the_umask(blpk: Blpk, plain: Path) -> None:
    assert blpk("c", plain).code == 0
    assert stat.S_IMODE(Path("plain.bin.blp").stat().st_mode) == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
