"""``blpk compress`` and ``blpk decompress``: round trips."""

import io
import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.container.reader import Container
from bloscpack.format.checksum import CHECKSUMS
from bloscpack.format.codec import CODECS
from bloscpack.original import pack
from bloscpack.storage.file import open_source

from ..strategies import AnyArray
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


@pytest.mark.sampled(3)
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
    with Container.open(open_source("one.blp")) as container:
        header, chunk = container.header, container.fetch(0).header
    assert (header.format_version, header.checksum.name, header.typesize) == (3, "sha256", 4)
    assert (header.chunk_size, header.last_chunk, header.nchunks) == (3000, 1000, 4)
    assert (header.max_app_chunks, header.offsets, header.metadata) == (5, True, False)
    assert (chunk.codec, chunk.shuffle.name, chunk.typesize) == ("zlib", "BIT", 4)
    assert blpk("c", "-o", "-s", "-k", "xxh3_64", plain, "two.blp").code == 0
    with Container.open(open_source("two.blp")) as container:
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


def test_an_unknown_version_is_not_damage(blpk: Blpk, packed: Path) -> None:
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


def test_permissions_and_times_are_those_of_the_input(blpk: Blpk, plain: Path) -> None:
    """As for gzip; a private file that is replaced stays private."""
    plain.chmod(0o640)
    os.utime(plain, ns=(1, 981_173_106_789_000_000))
    for argv in (("c", plain, "a.blp"), ("d", "a.blp", "back")):
        assert blpk(*argv).code == 0
        status = Path(argv[-1]).stat()
        assert status.st_mode & 0o777 == 0o640
        assert status.st_mtime_ns == 981_173_106_789_000_000
    Path("a.blp").chmod(0o606)
    assert blpk("-f", "c", plain, "a.blp").code == 0
    assert Path("a.blp").stat().st_mode & 0o777 == 0o600


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


class TestItems:
    @pytest.fixture
    def array(self, tmp_path: Path) -> AnyArray:
        array = np.random.default_rng(3).standard_normal(1001).astype("f4")
        array.tofile(tmp_path / "a.raw")
        return array

    @pytest.mark.parametrize("is_pipe", [False, True])
    @pytest.mark.parametrize("size", ["1M", "1003", "2"])
    def test_rounding(
        self,
        is_pipe: bool,
        size: str,
        array: AnyArray,
        blpk: Blpk,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        options = ["--dtype", "float32", "--keepbits", "7", "-z", size, "-m", "meta.json"]
        (tmp_path / "meta.json").write_text('{"unit": "m"}')
        if is_pipe:
            monkeypatch.setattr(pack, "_regular_nbytes", lambda _: None)
            data = (tmp_path / "a.raw").read_bytes()
            assert blpk("c", *options, "-", "a.blp", stdin=data).code == 0
            monkeypatch.undo()
            monkeypatch.chdir(tmp_path)
        else:
            assert blpk("c", *options, "a.raw", "a.blp").code == 0
        bp.save("b.blp", array, keepbits=7)
        with bp.open("a.blp") as found:
            assert np.array_equal(found[...], bp.load("b.blp"))
            assert found.attrs == {"unit": "m", "_QuantizeBitRoundNumberOfSignificantBits": 7}
            assert found.header.typesize == 4
        assert blpk("verify", "a.blp").code == 0
        assert blpk("append", "a.blp", "a.raw").code == 0
        assert np.array_equal(bp.load("a.blp"), np.tile(bp.load("b.blp"), 2))
        assert blpk("d", "a.blp", "back").code == 0
        assert Path("back").read_bytes() == bp.load("a.blp").tobytes()

    def test_without_rounding(self, array: AnyArray, blpk: Blpk) -> None:
        assert blpk("c", "--dtype", ">i2", "a.raw", "a.blp").code == 0
        with bp.open("a.blp") as found:
            assert np.array_equal(found[...], array.view(">i2"))
            assert found.attrs == {}
        assert blpk("c", "--dtype", "f8", "-", "empty.blp").code == 0
        assert bp.load("empty.blp").shape == (0,)

    @pytest.mark.parametrize(
        ("options", "code", "message"),
        [
            (["--keepbits", "3"], 2, "--keepbits needs --dtype"),
            (["--keepbits", "3", "--dtype", "i4"], 2, "keepbits rounds float16"),
            (["--keepbits", "24", "--dtype", "f4"], 1, "keepbits must be 1 to 23"),
            (["--dtype", "f8"], 1, "4004 bytes are not whole items of float64"),
            (["--dtype", "O"], 1, "Python objects"),
            (["--dtype", "V0"], 2, "have no bytes"),
            (["--dtype", "no such"], 2, "no such"),
            (["--dtype", "f4", "-m", "list.json"], 2, "attributes must be a JSON object"),
        ],
    )
    @pytest.mark.usefixtures("array")
    def test_errors(
        self, options: list[str], code: int, message: str, blpk: Blpk, tmp_path: Path
    ) -> None:
        (tmp_path / "list.json").write_text("[1]")
        ended = blpk("c", *options, "a.raw")
        assert (ended.code, ended.out) == (code, "")
        assert message in ended.err
        assert not Path("a.raw.blp").exists()

    def test_partial_item_from_a_pipe(self, blpk: Blpk, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pack, "_regular_nbytes", lambda _: None)
        for options in ([], ["--keepbits", "3"]):
            ended = blpk("c", "--dtype", "f4", *options, "-", "a.blp", stdin=bytes(9))
            assert (ended.code, ended.out) == (1, "")
            assert "9 bytes" in ended.err
            assert "are not whole items" in ended.err
            assert not Path("a.blp").exists()

    def test_named_pipe(self, blpk: Blpk, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        array = np.arange(500.0)
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit((tmp_path / "pipe").write_bytes, array.tobytes())
            assert blpk("c", "--dtype", "f8", "pipe", "a.blp").code == 0
            assert written.result() == array.nbytes
        assert np.array_equal(bp.load("a.blp"), array)

    def test_npy(self, blpk: Blpk) -> None:
        np.save("a.npy", np.zeros(8))
        ended = blpk("c", "--dtype", "f8", "a.npy")
        assert (ended.code, ended.out) == (1, "")
        assert "use blpk convert --to array" in ended.err


def test_a_table_larger_than_any_file(blpk: Blpk, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    ended = blpk("compress", "a", "--max-app-chunks", str(2**62))
    assert (ended.code, ended.out) == (1, "")
    assert "larger than any file" in ended.err
    assert not (tmp_path / "a.blp").exists()
