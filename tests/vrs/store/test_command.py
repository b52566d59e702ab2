"""The command ``blpk convert`` with recordings."""

from pathlib import Path

import pytest

from bloscpack import vrs
from bloscpack.cli.main import main

from .recordings import write_recording


def test_there_and_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_recording(tmp_path / "a.vrs")
    assert main(["convert", "a.vrs", "a.blp", "--verbatim"]) == 0
    assert capsys.readouterr().out.endswith("65 frames, 5 of them images copied byte for byte\n")
    assert main(["convert", "a.blp", "b.vrs"]) == 0
    assert (tmp_path / "b.vrs").read_bytes() == (tmp_path / "a.vrs").read_bytes()
    assert main(["convert", "a.vrs", "a.blp", "-f", "--preset", "fast"]) == 0
    assert main(["convert", "a.blp", "c", "--to", "vrs"]) == 0
    with vrs.open("a.vrs") as one, vrs.open("c") as two:
        assert one.checksum() == two.checksum()
    assert main(["convert", "a.vrs", "d.vrs", "--to", "vrs"]) != 0


def test_recordings_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_recording(tmp_path / "a.vrs", chunk_nbytes=2000)
    chunks = sorted(path.name for path in tmp_path.iterdir())
    assert len(chunks) > 2
    assert main(["convert", "a.vrs", "a.blp", "--verbatim"]) == 0
    assert main(["convert", *chunks, "b.blp"]) == 0
    assert main(["convert", "a.blp", "b.vrs"]) == 0
    for name in chunks:
        copy = name.replace("a.vrs", "b.vrs")
        assert (tmp_path / copy).read_bytes() == (tmp_path / name).read_bytes()
