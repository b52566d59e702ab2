"""Commands that read a file accept its URL."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import bloscpack as bp

from ..servers import FileServer, running
from .conftest import Blpk


@pytest.fixture
def server(ramp: Path) -> Iterator[FileServer]:
    with running(FileServer()) as server:
        server.files["/ramp.blp"] = ramp.read_bytes()
        yield server


@pytest.mark.parametrize("command", ["info", "ls", "verify", "cat"])
def test_reading(blpk: Blpk, server: FileServer, ramp: Path, command: str) -> None:
    url = server.url("ramp.blp")
    found = blpk(command, url)
    assert found.code == 0
    assert found.raw.replace(url.encode(), bytes(ramp)) == blpk(command, ramp).raw


def test_reading_clips(blpk: Blpk, server: FileServer, tmp_path: Path) -> None:
    with bp.frames.create(tmp_path / "clips.blp", codec="jpeg") as store:
        store.append("a", np.zeros((4, 16, 24, 3), "u1"))
    server.files["/clips.blp"] = (tmp_path / "clips.blp").read_bytes()
    found = blpk("frames", "ls", server.url("clips.blp"))
    assert found.code == 0
    assert found.raw == blpk("frames", "ls", tmp_path / "clips.blp").raw
    assert blpk("convert", server.url("clips.blp"), tmp_path / "copy.blp").code == 0


def test_no_such_object(blpk: Blpk, server: FileServer) -> None:
    found = blpk("info", server.url("none.blp"))
    assert found.code == 1
    assert "none.blp" in found.err


@pytest.mark.parametrize(
    "argv",
    [
        ("info",),
        ("ls",),
        ("ls", "--json"),
        ("verify",),
        ("verify", "--json"),
        ("-v", "recover", "-", "out.blp"),
        ("-d", "decompress", "-e", "-", "out.bin"),
        ("bzna", "info"),
        ("bzna", "verify"),
        ("vrs", "info"),
        ("vrs", "check"),
        ("frames", "info"),
        ("export", "--kerchunk"),
        ("compress", "info.txt", "-"),
        ("append", "-e", "-", "other.blp"),
        ("tune",),
        ("tune", "--json"),
        ("-d", "convert", "--json", "-", "copy.npy"),
        ("-d", "vrs", "copy", "-", "copy.vrs"),
        ("frames", "create", "-", "new.blp"),
        ("bzna", "pack", "-", "new.bzna"),
        ("show", "--json"),
    ],
    ids=" ".join,
)
def test_secrets_are_not_printed(blpk: Blpk, server: FileServer, argv: tuple[str, ...]) -> None:
    url = server.url("ramp.blp?key=hush").replace("//", "//me:hush@")
    words = [url if word == "-" else word for word in argv]
    found = blpk(*words, *([] if "-" in argv else [url]))
    assert "hush" not in found.err + found.raw.decode(errors="replace")


def test_secrets_of_clips_and_archives_are_not_printed(
    blpk: Blpk, server: FileServer, tmp_path: Path
) -> None:
    bp.savez(tmp_path / "two.blp", a=np.ones(3), b=np.ones(3))
    with bp.frames.create(tmp_path / "clips.blp") as store:
        store.append("a", np.zeros((4, 6), "f4"))
    bp.frames.create(tmp_path / "empty.blp").close()
    for name, argv in (
        ("two.blp", ("show",)),
        ("two.blp", ("tune",)),
        ("empty.blp", ("show",)),
        ("clips.blp", ("tune",)),
        ("clips.blp", ("tune", "--json")),
    ):
        server.files[f"/{name}"] = (tmp_path / name).read_bytes()
        url = server.url(f"{name}?key=hush").replace("//", "//me:hush@")
        found = blpk(*argv, url)
        assert "hush" not in found.err + found.raw.decode(), argv


def test_outputs_are_local_files(blpk: Blpk, server: FileServer, ramp: Path) -> None:
    url = server.url("ramp.blp")
    found = blpk("decompress", url)
    assert (found.code, found.err) == (2, f"blpk: error: OUT_FILE is required for the URL {url}\n")
    found = blpk("decompress", url, "ramp.bin")
    assert found.code == 0
    for argv in (("decompress", url, "s3://box/a"), ("export", "--kerchunk", url, "-o", "s3://a")):
        found = blpk(*argv)
        assert found.code == 1
        assert "the output of a command cannot be written to a URL" in found.err
    found = blpk("append", url, ramp)
    assert "cannot be appended to" in found.err
