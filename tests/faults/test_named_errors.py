"""A full disk: the error names the file that could not be written."""

import os
from pathlib import Path
from typing import Any

import pytest

from bloscpack.cli.console.outputfile import PassSink
from bloscpack.media.picturelist import Listing
from bloscpack.storage.folder.outputfolder import Folder
from bloscpack.storage.memory import MemorySource
from bloscpack.storage.remote.prefetch import copy_to
from bloscpack.storage.remote.upload import open_upload
from bloscpack.storage.sink import SpoolSink

from .fulldisk import FullStream, fill, full_disk


@pytest.mark.parametrize("form", ["csv", "json"])
def test_the_list_of_pictures(tmp_path: Path, form: str) -> None:
    listing = Listing(Folder(tmp_path), form, ("index",))
    assert listing._stream is not None
    fill(listing._stream.fileno())
    with full_disk(tmp_path / f"samples.{form}"), listing:
        listing.add({"index": 1})


def test_a_local_file_that_waits_to_be_sent() -> None:
    sink: Any = open_upload("memory://bucket/a.blp")
    name = sink._upload.path
    fill(sink._fd)
    with full_disk(name):
        sink.write(bytes(1 << 20))
    with full_disk(name):
        sink.write_at(0, bytes(1 << 20))
    sink.write(b"left in the buffer")
    with full_disk(name):
        sink.commit()
    sink.abort()
    assert not os.path.exists(name)


def test_bytes_that_wait_for_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    sink = SpoolSink()
    sink._move_to_file()
    fill(sink._spool.fileno())
    sink.write(b"left in the buffer")
    with full_disk(f"temporary file in {tmp_path}"):
        next(sink.iter_blocks())
    sink.abort()


def test_a_copy_of_a_remote_file() -> None:
    with full_disk("temporary file in x"):
        copy_to(MemorySource(b"abc"), FullStream(), "temporary file in x")


def test_the_output_of_a_command() -> None:
    with full_disk("standard output"):
        PassSink(FullStream()).write(b"abc")
