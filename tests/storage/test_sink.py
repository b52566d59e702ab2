"""Contract tests of all sinks, and the additional guarantees of files."""

import io
import os
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bloscpack.storage.memory import MemorySink
from bloscpack.storage.newfile import NewFile
from bloscpack.storage.partfolder import PartFolder
from bloscpack.storage.protocol import ByteSink
from bloscpack.storage.sink import FileSink, SpoolSink, StreamSink, committed, open_sink

CONTENT = b"front" + bytes(range(256)) * 20
Made = tuple[ByteSink, Callable[[], bytes]]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class NoSeek(io.BytesIO):
    """Stream that cannot seek."""

    def seekable(self) -> bool:
        return False

    def seek(self, *_: int) -> int:
        raise io.UnsupportedOperation("seek")


class ShortWriter(io.RawIOBase):
    """Raw stream that accepts a few bytes at a time, as raw streams may."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        self.taken += bytes(data)[:100]
        return min(len(data), 100)


class Silent:
    """Object with a `write` that returns None, as those of some libraries do."""

    def __init__(self) -> None:
        self.taken = bytearray()

    def write(self, data: memoryview) -> None:
        assert len(self.taken) <= 2 << 20, "the same bytes are written again and again"
        self.taken += data

    def flush(self) -> None:
        pass


class Busy(ShortWriter):
    """Raw stream that is not ready at every other call, as a pipe that does not block."""

    ncalls = 0

    def write(self, data: memoryview) -> int | None:  # type: ignore[override]
        self.ncalls += 1
        return super().write(data) if self.ncalls % 2 else None


@pytest.fixture(params=["memory", "file", "new", "joined", "stream", "spool"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Made]:
    if request.param == "memory":
        memory = MemorySink()
        yield memory, memory.getvalue
    elif request.param == "file":
        yield FileSink(tmp_path / "out"), (tmp_path / "out").read_bytes
    elif request.param == "new":
        path = tmp_path / "out"
        yield NewFile(str(path), str(path), "out"), path.read_bytes
    elif request.param == "joined":
        parts = PartFolder(tmp_path / "out", "id", overwrite=True)
        parts.begin()
        yield parts.join(), (tmp_path / "out").read_bytes
        parts.discard()
    elif request.param == "stream":
        stream = NoSeek()
        yield StreamSink(stream), stream.getvalue
    else:
        spool = SpoolSink()
        yield spool, lambda: b"".join(spool.iter_blocks())
        spool.abort()


def fail_halfway(where: object, error: BaseException) -> None:
    with open_sink(where) as sink:
        sink.write(CONTENT)
        raise error


class TestSink:
    def test_write_in_parts_and_fill_in_the_front(self, made: Made) -> None:
        sink, result = made
        sink.write(b"12345")
        sink.write(memoryview(CONTENT)[5:100])
        sink.write_at(0, CONTENT[:5])
        sink.write(bytearray(CONTENT[100:]))
        sink.write_at(50, CONTENT[50:60])
        sink.commit()
        assert result() == CONTENT

    def test_nothing_written(self, made: Made) -> None:
        sink, result = made
        sink.commit()
        assert result() == b""

    def test_abort_is_possible_at_any_time(self, made: Made) -> None:
        sink, _ = made
        sink.write(CONTENT)
        sink.abort()

    def test_name_is_text_or_none(self, made: Made) -> None:
        assert made[0].name is None or Path(made[0].name).stem == "out"
        made[0].abort()


class TestFileSink:
    def test_appears_only_when_committed(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        sink = FileSink(path)
        sink.write(CONTENT)
        assert not path.exists()
        sink.commit()
        assert path.read_bytes() == CONTENT
        assert names(tmp_path) == ["out"]

    def test_error_leaves_the_old_file_and_nothing_else(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        path.write_bytes(b"old")
        with pytest.raises(KeyboardInterrupt):
            fail_halfway(path, KeyboardInterrupt())
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["out"]

    def test_error_in_commit_leaves_the_old_file(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "out"
        path.write_bytes(b"old")

        def fail(_: int) -> None:
            raise OSError(5, "disk trouble")

        monkeypatch.setattr(os, "fsync", fail)
        monkeypatch.setattr(os, "fdatasync", fail, raising=False)
        with pytest.raises(OSError, match="disk trouble"), open_sink(path) as sink:
            sink.write(CONTENT)
        assert path.read_bytes() == b"old"
        assert names(tmp_path) == ["out"]

    def test_is_synced_before_it_is_renamed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "out"
        seen = []
        fsync = os.fsync

        def spy(fd: int) -> None:
            seen.append((stat.S_ISDIR(os.fstat(fd).st_mode), path.exists()))
            fsync(fd)

        monkeypatch.setattr(os, "fsync", spy)
        monkeypatch.setattr(os, "fdatasync", spy, raising=False)
        with open_sink(path) as sink:
            sink.write(CONTENT)
        assert seen == [(False, False), (True, True)]

    @pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755])
    def test_permissions_are_kept(self, tmp_path: Path, mode: int) -> None:
        path = tmp_path / "out"
        path.write_bytes(b"old")
        path.chmod(mode)
        with open_sink(path) as sink:
            sink.write(CONTENT)
        assert stat.S_IMODE(path.stat().st_mode) == mode

    def test_new_files_follow_the_umask(self, tmp_path: Path) -> None:
        old = os.umask(0o027)
        try:
            with open_sink(tmp_path / "out") as sink:
                sink.write(CONTENT)
        finally:
            os.umask(old)
        assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640

    @pytest.mark.parametrize("exists", [True, False])
    def test_links_are_followed(self, tmp_path: Path, exists: bool) -> None:
        folder = tmp_path / "folder"
        folder.mkdir()
        if exists:
            (folder / "real").write_bytes(b"old")
        link = tmp_path / "link"
        link.symlink_to(folder / "real")
        with open_sink(link) as sink:
            sink.write(CONTENT)
        assert link.is_symlink()
        assert (folder / "real").read_bytes() == CONTENT
        assert names(folder) == ["real"]

    def test_missing_folder(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError), open_sink(tmp_path / "none" / "out"):
            pass

    def test_readers_see_the_old_file_or_the_new_one(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        versions = [bytes([n]) * 20_000 for n in range(30)]
        path.write_bytes(versions[0])
        stop = threading.Event()
        torn: list[bytes] = []
        seen: set[int] = set()

        def watch() -> None:
            while not stop.is_set():
                data = path.read_bytes()
                seen.add(data[0] if data else -1)
                if data not in versions:
                    torn.append(data)

        watchers = [threading.Thread(target=watch) for _ in range(2)]
        for watcher in watchers:
            watcher.start()
        for version in versions[1:]:
            with open_sink(path) as sink:
                for start in range(0, len(version), 4000):
                    sink.write(version[start : start + 4000])
        stop.set()
        for watcher in watchers:
            watcher.join()
        assert not torn
        assert seen
        assert names(tmp_path) == ["out"]

    def test_writers_at_the_same_time_do_not_mix(self, tmp_path: Path) -> None:
        path = tmp_path / "out"
        one, two = FileSink(path), FileSink(path)
        one.write(b"1" * 100)
        two.write(b"2" * 100)
        one.commit()
        two.commit()
        assert path.read_bytes() == b"2" * 100
        assert names(tmp_path) == ["out"]


class TestStreamSink:
    def test_error_leaves_the_stream_untouched(self) -> None:
        stream = io.BytesIO()
        with pytest.raises(ValueError, match="no"):
            fail_halfway(stream, ValueError("no"))
        assert stream.getvalue() == b""

    def test_goes_on_where_the_stream_is(self) -> None:
        stream = io.BytesIO(b"before")
        stream.seek(0, io.SEEK_END)
        with open_sink(stream) as sink:
            sink.write(b"12345")
            sink.write_at(0, b"ab")
        assert stream.getvalue() == b"beforeab345"

    def test_stream_stays_open(self) -> None:
        stream = io.BytesIO()
        with open_sink(stream) as sink:
            sink.write(b"x")
        assert not stream.closed

    @pytest.mark.parametrize("kind", [ShortWriter, Busy, Silent])
    def test_what_a_write_returns_loses_nothing(
        self, kind: Callable[[], ShortWriter | Silent]
    ) -> None:
        stream = kind()
        with open_sink(stream) as sink:
            sink.write(CONTENT)
        assert bytes(stream.taken) == CONTENT

    def test_much_goes_to_a_temporary_file(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(SpoolSink, "_MEMORY_NBYTES", 1000)
        stream = io.BytesIO()
        with committed(StreamSink(stream)) as sink:
            for start in range(0, len(CONTENT), 300):
                sink.write(CONTENT[start : start + 300])
            sink.write_at(0, b"FRONT")
        assert stream.getvalue() == b"FRONT" + CONTENT[5:]


class TestOpenSink:
    def test_devices_are_written_in_place(self) -> None:
        with open_sink(os.devnull) as sink:
            sink.write(CONTENT)
        assert not stat.S_ISREG(Path(os.devnull).stat().st_mode)

    def test_named_pipes_are_written_in_place(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(path.read_bytes()))
        thread.start()
        with open_sink(path) as sink:
            sink.write(CONTENT)
        thread.join()
        assert got == [CONTENT]
        assert stat.S_ISFIFO(path.stat().st_mode)

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError), open_sink(tmp_path):
            pass

    @pytest.mark.parametrize("where", [None, 3, b"bytes", object()])
    def test_places_of_other_types_are_refused(self, where: object) -> None:
        with pytest.raises(TypeError, match="path or a binary file"), open_sink(where):
            pass


def test_parts_are_neither_written_nor_removed_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").write_text("precious")
    parts = PartFolder(tmp_path / "out", "id", overwrite=True)
    Path(parts._folder).symlink_to(tmp_path / "home")
    with pytest.raises(FileExistsError):
        parts.begin()
    parts.discard()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home"]
    assert (tmp_path / "home" / "letter").read_text() == "precious"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs the full device of Linux")
def test_a_full_device_is_named_once() -> None:
    with pytest.raises(OSError, match=r"on device: '/dev/full'$"), open_sink("/dev/full") as sink:
        sink.write(b"content")
