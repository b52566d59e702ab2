"""Contract tests of all sources; those of a file type inherit from `TestSource` in its folder."""

import gzip
import io
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from bloscpack.storage.file import FileObjectSource, FileSource, Holes, open_source
from bloscpack.storage.memory import MemorySource, as_bytes
from bloscpack.storage.overlay import OverlaySource, Patch
from bloscpack.storage.pool import FilePool
from bloscpack.storage.protocol import ByteSource
from bloscpack.storage.remote.source import RemoteSource
from bloscpack.storage.update import UpdateFile
from bloscpack.storage.window import WindowSource

from .newsource import DistantSource, PlainSource

DATA = bytes(range(256)) * 40
BARE = SimpleNamespace(read=bytes)  # such as an `Array` that is open
Make = Callable[[bytes], ByteSource]


class Dribble(io.RawIOBase):
    """Seekable raw file that returns a few bytes at a time, as raw files may."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._file.read(min(100, len(buffer)))
        buffer[: len(data)] = data
        return len(data)


def patched(path: Path) -> ByteSource:
    """Return a source whose bytes 5 to 90 are in a patch and not in the file."""
    data = path.read_bytes()
    hidden = data[5:90]
    path.write_bytes(data[:5] + bytes(len(hidden)) + data[90:])
    file = FileSource(path)
    return OverlaySource(file, [Patch(5, len(hidden), MemorySource(hidden))], len(data), [file])


def inside(path: Path, whole: Callable[[Path], ByteSource] = FileSource) -> ByteSource:
    """Return a window on the middle of a larger file."""
    data = path.read_bytes()
    path.write_bytes(b"before" + data + bytes(100))
    return WindowSource(whole(path), f"archive::{path}", (6, len(data)), owns=True)


def at_url(path: Path) -> ByteSource:
    fsspec.filesystem("memory").pipe_file("/data.bin", path.read_bytes())
    return RemoteSource("memory://data.bin")


# By name: a function from a file to a source of its bytes.
KINDS: dict[str, Callable[[Path], ByteSource]] = {
    "file": FileSource,
    "memory": lambda path: MemorySource(path.read_bytes()),
    "bytearray": lambda path: MemorySource(bytearray(path.read_bytes())),
    "fileobject": lambda path: FileObjectSource(path.open("rb")),
    "raw fileobject": lambda path: FileObjectSource(path.open("rb", buffering=0)),
    "dribble": lambda path: FileObjectSource(Dribble(path.read_bytes())),  # type: ignore[arg-type]
    "url": at_url,
    "pool": lambda path: FilePool(1).open(path),
    "update": UpdateFile.open,
    "overlay": patched,
    "window": inside,
    "window at a url": lambda path: inside(path, at_url),
    "plain": lambda path: PlainSource(path.read_bytes()),
    "distant": lambda path: DistantSource(path.read_bytes()),
}
NO_PLACE = {"fileobject", "raw fileobject", "dribble", "update", "plain"}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Iterator[Make]:
    opened: list[ByteSource] = []

    def build(data: bytes) -> ByteSource:
        path = tmp_path / "data.bin"
        path.write_bytes(data)
        opened.append(KINDS[kind](path))
        return opened[-1]

    yield build
    for source in opened:
        if isinstance(source, FileObjectSource):
            source._file.close()


class TestSource:
    def test_size(self, make: Make) -> None:
        source = make(DATA)
        assert source.size() == len(DATA)
        source.close()

    @pytest.mark.parametrize(
        ("offset", "nbytes"),
        [(0, 0), (0, 1), (0, 10_240), (5, 300), (10_239, 1), (9_000, 1_240), (300, 5_000)],
    )
    def test_reads_what_is_there(self, make: Make, offset: int, nbytes: int) -> None:
        source = make(DATA)
        assert bytes(source.read_at(offset, nbytes)) == DATA[offset : offset + nbytes]
        source.close()

    @pytest.mark.parametrize(
        ("offset", "nbytes"), [(10_239, 2), (10_240, 1), (10_240, 0), (99_999, 10), (0, 99_999)]
    )
    def test_is_short_only_at_the_end(self, make: Make, offset: int, nbytes: int) -> None:
        source = make(DATA)
        assert bytes(source.read_at(offset, nbytes)) == DATA[offset : offset + nbytes]
        source.close()

    def test_empty(self, make: Make) -> None:
        source = make(b"")
        assert source.size() == 0
        assert bytes(source.read_at(0, 10)) == b""
        source.close()

    def test_reads_carry_no_state(self, make: Make) -> None:
        source = make(DATA)
        for offset in (5000, 0, 5000, 100):
            assert bytes(source.read_at(offset, 50)) == DATA[offset : offset + 50]
        assert source.size() == len(DATA)
        source.close()

    def test_name_is_text_or_none(self, make: Make) -> None:
        source = make(DATA)
        assert source.name is None or source.name.endswith("data.bin")
        source.close()

    @pytest.mark.parametrize("offset", [0, 2900, 10_000, 10_240, 99_999])
    def test_reading_into_a_buffer(self, make: Make, offset: int) -> None:
        source = make(DATA)
        buffer = bytearray(b"?" * 300)
        expected = DATA[offset : offset + 300]
        assert source.read_into(offset, memoryview(buffer)) == len(expected)
        assert buffer == expected + b"?" * (300 - len(expected))
        source.close()

    def test_reading_what_was_prefetched(self, make: Make) -> None:
        source = make(DATA)
        source.keep_head(4000)
        prefetch = source.prefetch([(5000, 100), (20, 300), (9_999, 5000)])
        prefetch.wait()
        for offset, nbytes in [(5050, 50), (20, 300), (9_999, 241), (100, 4000)]:
            assert bytes(source.read_at(offset, nbytes)) == DATA[offset : offset + nbytes]
        prefetch.end()
        prefetch.end()
        assert bytes(source.read_at(5050, 50)) == DATA[5050:5100]
        source.close()

    def test_only_sources_with_latency_wait(self, make: Make) -> None:
        source = make(DATA)
        assert source.has_latency or source.holds(0, len(DATA))
        source.close()

    def test_place_reopens_the_same_bytes(self, make: Make, kind: str) -> None:
        source = make(DATA)
        for head_nbytes in (0, 100):
            place = source.place(head_nbytes)
            assert (place is None) == (kind in NO_PLACE)
            if place is not None and kind != "overlay":  # the place is that of the patched file
                with closing(open_source(pickle.loads(pickle.dumps(place)))) as again:
                    assert bytes(again.read_at(0, len(DATA) + 1)) == DATA
                    assert again.identity() == source.identity()
        source.close()

    def test_duplicate_outlives_the_first(self, make: Make, kind: str) -> None:
        source = make(DATA)
        again = source.duplicate()
        source.close()
        if again is not None:
            start = 100 if kind == "overlay" else 0
            assert again.read_at(start, len(DATA)) == DATA[start:]
            again.close()

    def test_nothing_has_changed(self, make: Make) -> None:
        source = make(DATA)
        assert source.replacement() is None
        assert source.before_append(replays=False) is None
        assert not source.has_unfinished_append()
        assert not source.is_changed()
        assert source.stamp in ((0, 0), (len(DATA), source.stamp[1]))
        source.close()

    def test_holes_are_not_data(self, make: Make) -> None:
        source = make(DATA)
        holes = Holes(source)
        assert holes.data_from(0) == 0
        assert holes.data_before(len(DATA)) == len(DATA)
        source.close()

    def test_close_is_idempotent(self, make: Make) -> None:
        source = make(DATA)
        source.close()
        source.close()

    def test_many_threads(self, make: Make) -> None:
        source = make(DATA)
        wrong = []

        def work(start: int) -> None:
            for step in range(200):
                offset = (start * 997 + step * 131) % 10_000
                if bytes(source.read_at(offset, 200)) != DATA[offset : offset + 200]:
                    wrong.append(offset)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        source.close()


def test_file_source_continues_a_short_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: pread(fd, min(n, 1000), at))
    source = FileSource(path)
    assert source.read_at(3, 5000) == DATA[3:5003]
    assert source.read_at(9000, 5000) == DATA[9000:]
    source.close()


def test_file_source_sees_growth(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    source = FileSource(path)
    with path.open("ab") as stream:
        stream.write(b"two")
    assert source.size() == 6
    assert source.read_at(0, 10) == b"onetwo"
    source.close()


def test_file_source_gives_its_descriptor_back(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    source = FileSource(path)
    source.close()
    again = FileSource(path)
    source.close()  # must not close the descriptor that the system has reused
    assert again.read_at(0, 4) == DATA[:4]
    again.close()


def test_closed_file_source_says_so(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    source = FileSource(path)
    source.close()
    with pytest.raises(ValueError, match="closed file"):
        source.read_at(0, 4)
    with pytest.raises(ValueError, match="closed file"):
        source.size()


def test_file_source_is_closed_when_the_last_reader_has_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "data.bin", tmp_path / "other.bin"
    path.write_bytes(DATA)
    other.write_bytes(bytes(len(DATA)))
    source = FileSource(path)
    pread = os.pread
    opened: list[int] = []

    def closed_meanwhile(number: int, nbytes: int, offset: int) -> bytes:
        if not opened:
            source.close()
            # The system returns the lowest free number.
            opened.append(os.open(other, os.O_RDONLY))
        return pread(number, nbytes, offset)

    monkeypatch.setattr(os, "pread", closed_meanwhile)
    assert source.read_at(7, 100) == DATA[7:107]
    again = os.open(other, os.O_RDONLY)
    assert again < opened[0]  # so the number was released in the end
    os.close(again)
    os.close(opened[0])


def test_file_source_knows_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder" / "inner"
    folder.mkdir(parents=True)
    (tmp_path / "folder" / "data.bin").write_bytes(DATA)
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    # If only names were compared, this would be data.bin in tmp_path.
    sources = [FileSource("link/../data.bin"), FileSource(b"link/../data.bin")]  # type: ignore[arg-type]
    monkeypatch.chdir(folder)
    for source in sources:
        assert source.name == "link/../data.bin"
        assert source.stamp[0] == len(DATA)
        assert Path(source.path).read_bytes() == DATA
        source.close()


def test_file_object_stays_the_callers(tmp_path: Path) -> None:
    stream = io.BytesIO(DATA)
    source = FileObjectSource(stream)
    source.close()
    assert not stream.closed


class Counted(io.FileIO):
    """Subclass of a file, which may transform the bytes."""


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("buffering", [0, -1])
def test_regular_file_object_keeps_its_position(tmp_path: Path, mode: str, buffering: int) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(DATA)
    with path.open(mode, buffering=buffering) as stream:
        source = FileObjectSource(stream)
        stream.seek(5)
        assert source.read_at(300, 40) == DATA[300:340]
        assert source.size() == len(DATA)
        assert stream.tell() == 5
        assert os.lseek(stream.fileno(), 0, os.SEEK_CUR) == 5
    for use in (source.size, lambda: source.read_at(0, 1)):
        with pytest.raises(ValueError, match="closed file"):
            use()


def test_what_was_written_to_a_file_object_is_read(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    with path.open("w+b") as stream:
        stream.write(DATA[:400])
        source = FileObjectSource(stream)
        assert source.size() == 400
        assert source.read_at(300, 40) == DATA[300:340]


def test_decoding_file_object_is_asked_itself(tmp_path: Path) -> None:
    path = tmp_path / "data.gz"
    path.write_bytes(gzip.compress(DATA))
    with gzip.open(path) as stream:
        source = FileObjectSource(stream)  # type: ignore[arg-type]
        assert source.size() == len(DATA)
        assert source.read_at(300, 40) == DATA[300:340]
    with Counted(path) as stream, io.BufferedReader(Counted(path)) as buffered:
        for one in (stream, buffered):
            source = FileObjectSource(one)  # type: ignore[arg-type]
            one.seek(5)
            source.read_at(8, 8)
            assert one.tell() == 16


def test_file_object_that_cannot_be_read(tmp_path: Path) -> None:
    with (tmp_path / "data.bin").open("wb", buffering=0) as stream:
        source = FileObjectSource(stream)
        with pytest.raises(io.UnsupportedOperation):
            source.read_at(0, 1)


def test_memory_is_not_copied() -> None:
    data = bytearray(DATA)
    source = MemorySource(data)
    view = source.read_at(0, 4)
    data[0] = 99
    assert view[0] == 99


class TestOpenSource:
    def test_paths(self, tmp_path: Path) -> None:
        path = tmp_path / "data.bin"
        path.write_bytes(DATA)
        for where in (path, str(path)):
            source = open_source(where)
            assert isinstance(source, FileSource)
            assert source.name == str(path)
            source.close()

    def test_buffers_of_any_items_are_bytes(self) -> None:
        wide = memoryview(DATA).cast("q")
        table = memoryview(DATA).cast("B", (40, 256))
        for where in (DATA, bytearray(DATA), memoryview(DATA), wide, table):
            source = open_source(where)
            assert source.size() == len(DATA)
            assert bytes(source.read_at(7, 9)) == DATA[7:16]

    def test_empty_buffers(self) -> None:
        for where in (b"", bytearray(), memoryview(b"").cast("q")):
            assert open_source(where).size() == 0

    def test_file_objects(self) -> None:
        assert isinstance(open_source(io.BytesIO(DATA)), FileObjectSource)

    def test_what_cannot_seek_is_read_to_memory(self) -> None:
        reader, writer = os.pipe()

        def fill() -> None:
            os.write(writer, DATA)
            os.close(writer)

        thread = threading.Thread(target=fill)
        thread.start()
        with os.fdopen(reader, "rb") as stream:
            source = open_source(stream)
        thread.join()
        assert isinstance(source, MemorySource)
        assert bytes(source.read_at(0, len(DATA))) == DATA

    def test_named_pipes(self, tmp_path: Path) -> None:
        path = tmp_path / "pipe"
        os.mkfifo(path)
        thread = threading.Thread(target=lambda: path.write_bytes(DATA))
        thread.start()
        source = open_source(path)
        thread.join()
        assert source.size() == len(DATA)

    @pytest.mark.parametrize("where", [None, 3, 1.5, object(), ["a"], {}, BARE])
    def test_places_of_other_types_are_refused(self, where: object) -> None:
        with pytest.raises(TypeError, match="path, a bytes-like object or a binary file"):
            open_source(where)

    def test_a_source_is_used_as_it_is(self) -> None:
        source = PlainSource(DATA)
        assert open_source(source) is source
        with pytest.raises(ValueError, match="storage_options are for URLs"):
            open_source(source, {"key": 1})

    def test_strided_buffers_are_refused(self) -> None:
        with pytest.raises(TypeError, match="contiguous"):
            open_source(memoryview(DATA)[::2])

    def test_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError):
            open_source(tmp_path / "none.blp")

    def test_folder(self, tmp_path: Path) -> None:
        with pytest.raises(IsADirectoryError):
            open_source(tmp_path)


def test_as_bytes_is_a_view() -> None:
    data = bytearray(8)
    view = as_bytes(memoryview(data).cast("d"))
    view[0] = 7
    assert data[0] == 7


def test_forked_child_finds_no_lock_held() -> None:
    source = FileObjectSource(io.BytesIO(DATA))
    with source._lock:  # as if another thread held it
        child = os.fork()
        if child == 0:
            signal.alarm(240)
            os._exit(0 if source.read_at(5, 9) == DATA[5:14] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert source.read_at(5, 9) == DATA[5:14]


@pytest.mark.parametrize("is_there", [False, True])
def test_part_of_a_file(tmp_path: Path, is_there: bool) -> None:
    """``FILE::/NAME`` is of the command line; the error says what is missing, or what to call."""
    path = tmp_path / "a.blp"
    if is_there:
        path.write_bytes(b"")
    with pytest.raises(FileNotFoundError) as caught:
        open_source(f"{path}::/x")
    if is_there:
        assert f"open {str(path)!r} and index the result with 'x'" in str(caught.value)
    else:
        assert caught.value.filename == str(path)
