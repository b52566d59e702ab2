"""Objects behind URLs: requests, and the handling of failures."""

import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import fsspec
import pytest

from bloscpack.exceptions import FileChangedError, RemoteError, UnsupportedError
from bloscpack.storage.coalescing import REMOTE
from bloscpack.storage.file import open_source
from bloscpack.storage.remote import retry
from bloscpack.storage.remote.prefetch import at_hand
from bloscpack.storage.remote.source import HEAD_NBYTES, MIN_RUN_NBYTES, RemoteSource
from bloscpack.storage.url import is_url

from ..servers import FileServer, S3Server, Server, running

DATA = Random(5).randbytes(3 << 20)
OTHER = Random(6).randbytes(3 << 20)


def prefetched(
    source: RemoteSource, extents: Iterable[tuple[int, int]]
) -> AbstractContextManager[None]:
    """Fetch extents by few requests, and hold them in memory in the block."""
    return at_hand((source, *extent) for extent in extents)


class Remote(NamedTuple):
    """Server, function to put an object there, and the arguments that open it."""

    server: Server
    put: Callable[[str, bytes], str]
    options: dict[str, Any]

    def open(self, data: bytes = DATA, name: str = "a") -> RemoteSource:
        url = self.put(name, data)
        self.server.clear()
        return RemoteSource(url, self.options)


@pytest.fixture(scope="module", params=["http", "s3"])
def running_remote(request: pytest.FixtureRequest) -> Iterator[Remote]:
    if request.param == "s3":
        with running(S3Server()) as s3:
            yield Remote(s3, s3.put, s3.options)
        return
    with running(FileServer()) as server:

        def put(name: str, data: bytes) -> str:
            server.files[f"/{name}"] = data
            return server.url(name)

        yield Remote(server, put, {})


@pytest.fixture
def remote(running_remote: Remote) -> Remote:
    running_remote.server.clear()
    return running_remote


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Replace the waits between tries by a list of their lengths."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(retry, "sleep", sleep)
    return found


def ranges(server: Server) -> list[tuple[int, int]]:
    """Return (offset, nbytes) of all requests that were made."""
    found = []
    for request in server.gets:
        first, _, last = str(request.range).removeprefix("bytes=").partition("-")
        found.append((int(first), int(last) + 1 - int(first)))
    return found


class TestRequests:
    def test_opening_is_one(self, remote: Remote) -> None:
        source = remote.open()
        assert source.size() == len(DATA)
        assert source.tag
        assert ranges(remote.server) == [(0, HEAD_NBYTES)]
        assert len(remote.server.log) == 1
        assert bytes(source.read_at(100, 5000)) == DATA[100:5100]
        assert bytes(source.read_at(0, HEAD_NBYTES)) == DATA[:HEAD_NBYTES]
        assert len(remote.server.log) == 1

    @pytest.mark.parametrize("nbytes", [0, 1, 1000, HEAD_NBYTES - 1, HEAD_NBYTES])
    def test_a_small_object_is_read_by_it(self, remote: Remote, nbytes: int) -> None:
        source = remote.open(DATA[:nbytes])
        assert source.size() == nbytes
        assert bytes(source.read_at(0, nbytes + 10)) == DATA[:nbytes]
        assert len(remote.server.log) == 1

    def test_a_read_is_one_of_just_these_bytes(self, remote: Remote) -> None:
        source = remote.open()
        remote.server.clear()
        assert bytes(source.read_at(1_000_000, 23_456)) == DATA[1_000_000:1_023_456]
        assert ranges(remote.server) == [(1_000_000, 23_456)]
        assert remote.server.nbytes == 23_456

    def test_a_small_read_asks_for_some_more(self, remote: Remote) -> None:
        source = remote.open()
        remote.server.clear()
        for start in range(1_000_000, 1_000_000 + MIN_RUN_NBYTES, 1024):
            assert bytes(source.read_at(start, 16)) == DATA[start : start + 16]
        assert bytes(source.read_at(len(DATA) - 20, 16)) == DATA[-20:-4]
        assert ranges(remote.server) == [(1_000_000, MIN_RUN_NBYTES), (len(DATA) - 20, 20)]

    def test_what_is_here_is_not_asked_for(self, remote: Remote) -> None:
        source = remote.open()
        source.read_at(1_000_000, 20_000)
        remote.server.clear()
        assert bytes(source.read_at(1_000_100, 19_800)) == DATA[1_000_100:1_019_900]
        assert ranges(remote.server) == []
        assert bytes(source.read_at(1_019_000, 25_000)) == DATA[1_019_000:1_044_000]
        assert bytes(source.read_at(HEAD_NBYTES - 50, 20_050)) == DATA[65_486:85_536]
        assert ranges(remote.server) == [(1_020_000, 24_000), (HEAD_NBYTES, 20_000)]

    def test_reads_end_with_the_object(self, remote: Remote) -> None:
        source = remote.open()
        remote.server.clear()
        assert bytes(source.read_at(len(DATA) - 10, 1 << 40)) == DATA[-10:]
        assert bytes(source.read_at(len(DATA), 10)) == b""
        assert bytes(source.read_at(len(DATA) + 9, 10)) == b""
        assert ranges(remote.server) == [(len(DATA) - 10, 10)]

    def test_the_head_can_be_made_longer(self, remote: Remote) -> None:
        source = remote.open()
        source.keep_head(100_000)
        source.keep_head(1000)
        assert bytes(source.read_at(0, 100_000)) == DATA[:100_000]
        assert ranges(remote.server) == [(0, HEAD_NBYTES), (HEAD_NBYTES, 100_000 - HEAD_NBYTES)]

    def test_two_threads_make_the_head_longer(
        self, remote: Remote, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        source = remote.open()
        fetch = source._fetch

        def fetched(extents: Any) -> list[bytes]:
            found = fetch(extents)
            source._head = DATA[:100_000]  # by another thread
            return found

        monkeypatch.setattr(source, "_fetch", fetched)
        source.keep_head(90_000)
        assert bytes(source.read_at(0, 90_000)) == DATA[:90_000]

    def test_memory_is_bounded(self, remote: Remote) -> None:
        big = DATA * 5
        source = remote.open(big)
        for start in range(0, len(big), 1 << 20):
            source.read_at(start, 1 << 20)
        held = sum(len(part) for _, part in source._recent)
        assert 0 < held <= 8 << 20


class TestPrefetched:
    def test_extents_are_fetched_in_runs(self, remote: Remote) -> None:
        source = remote.open()
        remote.server.clear()
        gap = REMOTE.max_gap
        starts = [100_000, 100_500, 100_600 + gap, 900_000, 2_000_000]
        wanted = [(start, 100) for start in starts]
        with prefetched(source, reversed(wanted)):
            assert sorted(ranges(remote.server)) == [
                (100_000, 700 + gap),
                (900_000, 100),
                (2_000_000, 100),
            ]
            remote.server.clear()
            for start, nbytes in wanted:
                assert bytes(source.read_at(start, nbytes)) == DATA[start : start + nbytes]
        assert remote.server.log == []
        source.read_at(2_000_000, 100)
        assert ranges(remote.server) == [(2_000_000, MIN_RUN_NBYTES)]

    def test_what_is_here_is_left_out(self, remote: Remote) -> None:
        source = remote.open()
        source.read_at(1_000_000, 20_000)
        remote.server.clear()
        with prefetched(source, [(0, 1000), (1_000_000, 100), (HEAD_NBYTES - 5, 10)]):
            assert ranges(remote.server) == [(HEAD_NBYTES, 5)]

    def test_nothing_to_fetch(self, remote: Remote) -> None:
        source = remote.open()
        remote.server.clear()
        with prefetched(source, []), prefetched(source, [(0, 10), (len(DATA), 100)]):
            assert remote.server.log == []

    def test_blocks_of_two_users(self, remote: Remote) -> None:
        source = remote.open()
        with prefetched(source, [(1_000_000, 1000)]), prefetched(source, [(2_000_000, 1000)]):
            remote.server.clear()
            assert bytes(source.read_at(1_000_000, 1000)) == DATA[1_000_000:1_001_000]
            assert bytes(source.read_at(2_000_000, 1000)) == DATA[2_000_000:2_001_000]
            assert remote.server.log == []

    def test_a_failure_is_raised_before_the_block(self, remote: Remote, waits: list[float]) -> None:
        source = remote.open()
        remote.server.always = "500"
        with pytest.raises(RemoteError), prefetched(source, [(1_000_000, 10), (2_000_000, 10)]):
            raise AssertionError("the block was entered")
        assert source._prefetched == {}
        remote.server.always = ""
        assert bytes(source.read_at(1_000_000, 10)) == DATA[1_000_000:1_000_010]


def test_a_thread_may_look_for_bytes_that_another_one_releases(remote: Remote) -> None:
    source = remote.open()
    prefetch = source.prefetch([(1_000_000, 10), (2_000_000, 10)])
    prefetch.wait()

    class Offset(int):
        """Offset whose first comparison lets the other thread run."""

        def __lt__(self, other: int) -> bool:
            prefetch.end()
            return int(self) < other

    (found,) = prefetch.around(Offset(2_000_005))  # type: ignore[attr-defined]
    assert bytes(found[1][:10]) == DATA[2_000_000:2_000_010]
    assert prefetch.around(2_000_005) == []  # type: ignore[attr-defined]


each_fault = pytest.mark.parametrize("fault", ["drop", "short", "brief", "429", "500", "503"])


class TestFaults:
    @each_fault
    def test_passing_trouble_is_not_seen(
        self, remote: Remote, waits: list[float], fault: str
    ) -> None:
        source = remote.open()
        remote.server.clear()
        remote.server.faults.extend([fault, fault])
        assert bytes(source.read_at(1_000_000, 20_000)) == DATA[1_000_000:1_020_000]
        assert ranges(remote.server) == 3 * [(1_000_000, 20_000)]
        assert 0.1 <= waits[0] <= 0.2
        # aiohttp itself replaces a reused connection that breaks.
        assert len(waits) == 2 or fault == "drop"
        assert 0.2 <= waits[-1] <= 0.4 or len(waits) == 1

    @each_fault
    def test_trouble_while_it_is_opened(
        self, remote: Remote, waits: list[float], fault: str
    ) -> None:
        url = remote.put("a", DATA)
        remote.server.clear()
        remote.server.faults.append(fault)
        source = RemoteSource(url, remote.options)
        assert bytes(source.read_at(0, 1000)) == DATA[:1000]
        assert len(remote.server.log) == 2

    @each_fault
    def test_lasting_trouble_has_a_name(
        self, remote: Remote, waits: list[float], fault: str
    ) -> None:
        source = remote.open()
        remote.server.clear()
        remote.server.always = fault
        with pytest.raises(RemoteError) as caught:
            source.read_at(1_000_000, 20_000)
        assert str(caught.value).startswith(f"{source.name}: bytes 1000000 to 1020000: 5 requests")
        assert isinstance(caught.value, OSError)
        assert caught.value.__cause__ is not None
        assert len(waits) == retry.TRIES - 1
        assert len(remote.server.log) == retry.TRIES or fault == "drop"

    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            ("404", FileNotFoundError),
            ("403", PermissionError),
            ("401", PermissionError),
            ("400", RemoteError),
        ],
    )
    def test_refusals_are_not_tried_again(
        self, remote: Remote, waits: list[float], status: str, expected: type[OSError]
    ) -> None:
        source = remote.open()
        remote.server.clear()
        remote.server.always = status
        with pytest.raises(expected) as caught:
            source.read_at(1_000_000, 20_000)
        assert str(source.name) in str(caught.value)
        assert len(remote.server.log) == 1
        assert waits == []

    def test_no_such_object(self, remote: Remote) -> None:
        url = remote.put("a", DATA)
        with pytest.raises(FileNotFoundError) as caught:
            RemoteSource(f"{url}bc", remote.options)
        assert caught.value.filename == f"{url}bc"

    def test_no_answer(self, waits: list[float]) -> None:
        with running(FileServer()) as server:
            server.files["/a"] = DATA
            source = RemoteSource(server.url("a"))
        with pytest.raises(RemoteError, match="5 requests failed"):
            source.read_at(1_000_000, 1)


class TestVersions:
    def test_another_object(self, remote: Remote) -> None:
        source = remote.open()
        old = source.tag
        remote.put("a", OTHER)
        with pytest.raises(FileChangedError) as caught:
            source.read_at(1_000_000, 20_000)
        new = RemoteSource(source.url, remote.options).tag
        message = str(caught.value)
        assert message.startswith(f"{source.name}: ")
        assert old in message
        assert new in message
        assert old != new

    def test_another_object_stays_another(self, remote: Remote) -> None:
        source = remote.open()
        remote.put("a", OTHER)
        with pytest.raises(FileChangedError):
            source.read_at(1_000_000, 20_000)
        remote.put("a", DATA)
        remote.server.clear()
        with pytest.raises(FileChangedError):
            source.read_at(1_000_000, 20_000)
        assert remote.server.log == []
        assert bytes(source.read_at(0, 100)) == DATA[:100]

    def test_a_shorter_object(self, remote: Remote) -> None:
        source = remote.open()
        remote.put("a", DATA[:100_000])
        with pytest.raises(FileChangedError):
            source.read_at(1_000_000, 20_000)

    def test_in_the_middle_of_many(self, remote: Remote) -> None:
        source = remote.open()
        with prefetched(source, [(1_000_000, 10)]):
            remote.put("a", OTHER)
            with pytest.raises(FileChangedError), prefetched(source, [(2_000_000, 10)]):
                raise AssertionError("the block was entered")

    def test_a_place_is_of_one_version(self, remote: Remote) -> None:
        source = remote.open()
        place = pickle.loads(pickle.dumps(source.place(4096)))
        remote.server.clear()
        again = open_source(place)
        assert bytes(again.read_at(10, 1000)) == DATA[10:1010]
        assert remote.server.log == []
        assert bytes(again.read_at(1_000_000, 100)) == DATA[1_000_000:1_000_100]
        remote.put("a", OTHER)
        with pytest.raises(FileChangedError):
            place.open().read_at(1_000_000, 100)
        with pytest.raises(FileChangedError):
            source.place(0).open()


class TestWebServers:
    def test_without_ranges_a_small_file_is_read_whole(self, http: FileServer) -> None:
        http.has_ranges = False
        http.files["/a"] = DATA[: 1 << 20]
        source = RemoteSource(http.url("a"))
        assert bytes(source.read_at(1_000_000, 100)) == DATA[1_000_000:1_000_100]
        assert len(http.log) == 1

    def test_without_ranges_a_handle_works_elsewhere(self, http: FileServer) -> None:
        """The pickled front is too short, and the server does not support Range."""
        http.has_ranges = False
        http.files["/a"] = DATA[: 1 << 20]
        again = pickle.loads(pickle.dumps(RemoteSource(http.url("a")).place(4096))).open()
        assert bytes(again.read_at(1_000_000, 100)) == DATA[1_000_000:1_000_100]

    def test_an_empty_file_stays_one(self, http: FileServer) -> None:
        http.files["/a"] = b""
        source = RemoteSource(http.url("a"))
        source.replacement()
        assert source.place(0).open().size() == 0
        http.files["/a"] = DATA
        with pytest.raises(FileChangedError):
            source.replacement()

    def test_without_ranges_a_large_file_is_refused(self, http: FileServer) -> None:
        http.has_ranges = False
        http.files["/a"] = DATA
        with pytest.raises(UnsupportedError, match="ranges") as caught:
            RemoteSource(http.url("a"))
        assert http.url("a") in str(caught.value)
        assert len(http.log) == 1

    def test_ranges_that_end_midway(self, http: FileServer) -> None:
        http.files["/a"] = DATA
        source = RemoteSource(http.url("a"))
        http.has_ranges = False
        with pytest.raises(UnsupportedError, match="ranges"):
            source.read_at(1_000_000, 100)

    def test_the_date_distinguishes_versions_if_nothing_else_does(self, http: FileServer) -> None:
        http.has_etags = False
        http.files["/a"] = DATA
        source = RemoteSource(http.url("a"))
        assert "1970" in source.tag
        http.files["/a"] = DATA + b"more"
        with pytest.raises(FileChangedError):
            source.read_at(1_000_000, 100)

    @pytest.mark.parametrize(
        ("headers", "error", "words"),
        [
            ({"Content-Range": "bytes 5-104/3145728"}, RemoteError, "bytes 5-104"),
            ({"Content-Range": "bytes 0-99/*"}, RemoteError, "Content-Range"),
            ({"Content-Range": "lines 0-99/3145728"}, RemoteError, "Content-Range"),
            ({"Content-Range": "bytes 0-99/" + 30 * "9"}, RemoteError, "Content-Range"),
            ({}, RemoteError, "Content-Range None"),
            (
                {"Content-Range": "bytes 0-99/3145728", "Content-Encoding": "gzip"},
                UnsupportedError,
                "encoded",
            ),
        ],
    )
    def test_answers_that_do_not_fit(
        self,
        http: FileServer,
        monkeypatch: pytest.MonkeyPatch,
        headers: dict[str, str],
        error: type[Exception],
        words: str,
    ) -> None:
        from ..servers import Answer

        monkeypatch.setattr(http, "answer", lambda *_: Answer(206, headers, DATA[:100]))
        with pytest.raises(error, match=words):
            RemoteSource(http.url("a"))

    def test_secrets_are_not_shown(self, http: FileServer, waits: list[float]) -> None:
        http.always = "500"
        url = http.url("a?signature=hush").replace("//", "//me:hush@")
        with pytest.raises(RemoteError) as caught:
            RemoteSource(url)
        assert "hush" not in str(caught.value)
        assert http.url("a?...") in str(caught.value)


class TestOtherFileSystems:
    def test_read(self) -> None:
        fsspec.filesystem("memory").pipe_file("/box/a", DATA)
        source = RemoteSource("memory://box/a")
        assert source.size() == len(DATA)
        assert bytes(source.read_at(1_000_000, 100)) == DATA[1_000_000:1_000_100]
        with prefetched(source, [(10, 5), (2_000_000, 100), (1_000_000, 50)]):
            assert bytes(source.read_at(2_000_000, 100)) == DATA[2_000_000:2_000_100]

    @pytest.mark.parametrize("data", [OTHER, DATA[:100], b""])
    def test_another_object(self, data: bytes) -> None:
        memory = fsspec.filesystem("memory")
        memory.pipe_file("/box/a", DATA)
        source = RemoteSource("memory://box/a")
        memory.pipe_file("/box/a", data)
        with pytest.raises(FileChangedError):
            source.read_at(1_000_000, 100)

    def test_no_such_object(self) -> None:
        with pytest.raises(FileNotFoundError, match="memory://box/none"):
            RemoteSource("memory://box/none")

    def test_a_folder(self) -> None:
        fsspec.filesystem("memory").pipe_file("/box/a", DATA)
        with pytest.raises(IsADirectoryError):
            RemoteSource("memory://box")

    def test_a_chain(self, tmp_path: Path) -> None:
        fsspec.filesystem("memory").pipe_file("/box/a", DATA)
        options = {"simplecache": {"cache_storage": str(tmp_path)}}
        source = RemoteSource("simplecache::memory://box/a", options)
        assert bytes(source.read_at(1_000_000, 100)) == DATA[1_000_000:1_000_100]

    def test_no_more_than_there_is_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Some servers refuse requests beyond the end."""
        memory = fsspec.filesystem("memory")
        memory.pipe_file("/box/a", DATA[:100])
        cat_file = type(memory).cat_file

        def strict(self: Any, path: str, start: int, end: int, **options: Any) -> bytes:
            assert end <= 100
            found: bytes = cat_file(self, path, start, end, **options)
            return found

        monkeypatch.setattr(type(memory), "cat_file", strict)
        assert bytes(RemoteSource("memory://box/a").read_at(0, 1000)) == DATA[:100]


class TestOpenSource:
    def test_a_missing_library_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "fsspec", None)
        monkeypatch.delitem(sys.modules, "bloscpack.storage.remote.client")
        monkeypatch.delattr("bloscpack.storage.remote.client")
        with pytest.raises(ImportError, match=r"bloscpack\[http\]"):
            open_source("s3://box/a")

    def test_a_missing_client_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "s3fs", None)
        monkeypatch.delitem(sys.modules["fsspec.registry"]._registry, "s3", raising=False)
        with pytest.raises(ImportError, match=r"s3://box/a: .*bloscpack\[s3\]"):
            open_source("s3://box/a", {"key": "another"})

    def test_options_are_for_urls(self) -> None:
        with pytest.raises(ValueError, match="storage_options"):
            open_source("a.blp", {"anon": True})

    def test_an_unknown_kind_of_url(self) -> None:
        for url in ("nonsense://a", "nonsense://a::memory://b"):
            with pytest.raises(ValueError, match=f"{url}: fsspec cannot open it"):
                open_source(url)

    @pytest.mark.parametrize("options", ["anon", ["anon"], 3])
    def test_options_are_a_mapping(self, options: Any) -> None:
        with pytest.raises(TypeError, match="storage_options must be a mapping"):
            open_source("memory://box/a", options)

    def test_closed(self) -> None:
        fsspec.filesystem("memory").pipe_file("/box/a", DATA)
        source = open_source("memory://box/a")
        source.close()
        source.close()
        with pytest.raises(ValueError, match="closed"):
            source.read_at(0, 1)


@pytest.mark.parametrize("url", ["s3://a/b", "https://a", "simplecache::s3://a", "memory://a"])
def test_urls(url: str) -> None:
    assert is_url(url)


@pytest.mark.parametrize("path", ["a", "/a/b", "C:\\a", "C://a", "a:b", "//a", b"s3://a", None, 5])
def test_paths(path: Any) -> None:
    assert not is_url(path)


def test_an_empty_object_of_a_listing_has_not_changed(remote: Remote) -> None:
    """Stores have no range of it to return, and then report no version."""
    place = remote.open(b"", "empty").place()
    for tag in ("", '"of the listing"'):
        source = replace(place, tag=tag).open(fetches_head=False)
        source.replacement()
        assert bytes(source.read_at(0, 10)) == b""
    remote.put("empty", DATA[:10])
    with pytest.raises(FileChangedError):
        source.replacement()
