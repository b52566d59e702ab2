"""Responses that do not match the request, from S3 and from web servers."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from random import Random
from types import SimpleNamespace
from typing import Any

import aiohttp
import fsspec
import pytest
from fsspec.implementations.ftp import FTPFileSystem
from fsspec.implementations.memory import MemoryFileSystem

from bloscpack.exceptions import FileChangedError, RemoteError, UnsupportedError
from bloscpack.storage.file import open_source
from bloscpack.storage.remote import retry
from bloscpack.storage.remote.client import close_clients
from bloscpack.storage.remote.errors import TransientError, translate
from bloscpack.storage.remote.source import HEAD_NBYTES, RemoteSource

from ..servers import Answer, FileServer, S3Server, running

pytestmark = pytest.mark.usefixtures("retries_at_once")

DATA = Random(5).randbytes(1 << 18)
Change = Callable[[Answer], Answer]


@pytest.fixture(scope="module", params=["http", "s3"])
def served(request: pytest.FixtureRequest) -> Iterator[tuple[Any, str, dict[str, Any]]]:
    with running(S3Server() if request.param == "s3" else FileServer()) as server:
        if request.param == "s3":
            yield server, server.put("a", DATA), server.options
            return
        server.files["/a"] = DATA
        yield server, server.url("a"), {}


@pytest.fixture
def changed(
    served: tuple[Any, str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> Callable[[Change], RemoteSource]:
    """Return a function that opens the object with modified responses."""
    server, url, options = served

    def open_changed(change: Change) -> RemoteSource:
        answer = server.answer
        monkeypatch.setattr(server, "answer", lambda *asked: change(answer(*asked)))
        server.clear()
        return RemoteSource(url, options)

    return open_changed


def with_header(name: str, value: str | None) -> Change:
    def change(found: Answer) -> Answer:
        headers = {key: each for key, each in found.headers.items() if key != name}
        return found._replace(headers=headers if value is None else {**headers, name: value})

    return change


@pytest.mark.parametrize(
    "content_range", [f"bytes 0-{HEAD_NBYTES - 1}/*", "bytes 7-99/262144", "pages 1/2"]
)
def test_another_part_is_not_taken_for_the_object(
    changed: Callable[[Change], RemoteSource], content_range: str
) -> None:
    """A part must not be accepted as the whole of a longer object either."""
    with pytest.raises(RemoteError, match="asked for bytes from 0 on"):
        changed(with_header("Content-Range", content_range))


def test_a_refused_range_is_not_an_empty_object() -> None:
    with running(FileServer()) as server:
        server.files["/a"] = DATA
        server.answer = lambda *_: Answer(416, {"Content-Range": "bytes */262144"}, b"")  # type: ignore[method-assign]
        with pytest.raises(RemoteError, match="although it has 262144"):
            RemoteSource(server.url("a"))


def test_more_than_was_asked_for(changed: Callable[[Change], RemoteSource]) -> None:
    def change(found: Answer) -> Answer:
        body = found.body + 1000 * b"x"
        return Answer(206, {**found.headers, "Content-Length": str(len(body))}, body)

    source = changed(change)
    assert bytes(source.read_at(0, len(DATA))) == DATA
    assert bytes(source._head) == DATA[:HEAD_NBYTES]


def test_a_body_in_pieces(changed: Callable[[Change], RemoteSource]) -> None:
    """A chunked body has no Content-Length."""

    def change(found: Answer) -> Answer:
        parts = [found.body[at : at + 7000] for at in range(0, len(found.body), 7000)]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in [*parts, b""])
        headers = {key: each for key, each in found.headers.items() if key != "Content-Length"}
        return Answer(found.status, {**headers, "Transfer-Encoding": "chunked"}, body)

    source = changed(change)
    assert source.size() == len(DATA)
    assert bytes(source.read_at(100_000, 50_000)) == DATA[100_000:150_000]


@pytest.mark.parametrize("has_length", [True, False])
@pytest.mark.parametrize("nbytes", [100, HEAD_NBYTES, len(DATA)])
def test_all_instead_of_a_part(
    changed: Callable[[Change], RemoteSource],
    served: tuple[Any, str, dict[str, Any]],
    nbytes: int,
    has_length: bool,
) -> None:
    def change(found: Answer) -> Answer:
        body = DATA[:nbytes]
        headers = {"ETag": '"a"'}
        if not has_length:
            headers["Transfer-Encoding"] = "chunked"
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        return Answer(200, headers, body)

    if nbytes > HEAD_NBYTES and isinstance(served[0], S3Server):
        with pytest.raises(UnsupportedError, match="all of it"):
            changed(change)
    else:
        source = changed(change)
        assert source.size() == nbytes
        assert bytes(source.read_at(0, nbytes)) == DATA[:nbytes]


def test_all_of_a_large_object_of_unknown_length(
    changed: Callable[[Change], RemoteSource],
) -> None:
    def change(_: Answer) -> Answer:
        body = b"200000\r\n" + bytes(2 << 20) + b"\r\n0\r\n\r\n"
        return Answer(200, {"Transfer-Encoding": "chunked"}, body)

    with pytest.raises(UnsupportedError, match="ranges"):
        changed(change)


KEY: Any = SimpleNamespace(host="a", port=1, ssl=True, is_ssl=True)


class ReadTimeoutError(Exception):
    """Named like the errors of botocore, which do not derive from OSError."""


class ResponseStreamingError(Exception):
    """Named like the error of botocore for a connection that breaks inside a body."""


class EndpointConnectionError(Exception):
    """Also named like an error of botocore."""


@pytest.mark.parametrize(
    ("error", "status", "expected"),
    [
        (ReadTimeoutError(), None, TransientError),
        (EndpointConnectionError(), None, TransientError),
        (ResponseStreamingError(), None, TransientError),
        (ConnectionResetError(), None, TransientError),
        (EOFError(), None, TransientError),
        (aiohttp.ServerDisconnectedError(), None, TransientError),
        (OSError(), 429, TransientError),
        (OSError(), 400, RemoteError),
        (aiohttp.InvalidURL("http:///a"), None, RemoteError),
        (aiohttp.ClientConnectorCertificateError(KEY, OSError()), None, RemoteError),
        (KeyError("a"), None, RemoteError),
        (PermissionError(), None, PermissionError),
        (OSError(), 401, PermissionError),
        (OSError(), 410, FileNotFoundError),
    ],
    ids=lambda each: getattr(each, "__name__", type(each).__name__),
)
def test_what_may_pass(error: Exception, status: int | None, expected: type[Exception]) -> None:
    assert type(translate(error, status, "a")) is expected


def test_a_failure_ends_the_other_requests(
    served: tuple[Any, str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, url, options = served
    server.clear()
    source = RemoteSource(url, options)
    held = threading.Event()

    async def sleep(_: float) -> None:
        held.set()
        await asyncio.Event().wait()

    answer = server.answer

    def one_of_both(*asked: Any) -> Answer:
        if "bytes=100000" in str(asked[2]["Range"]):
            return Answer(503, {}, b"")
        assert held.wait(120)
        return Answer(404, {}, b"")

    monkeypatch.setattr(retry, "sleep", sleep)
    monkeypatch.setattr(server, "answer", one_of_both)
    future = source.start([(100_000, 10), (200_000, 10)])
    with pytest.raises(FileNotFoundError):
        future.result(120)
    monkeypatch.setattr(server, "answer", answer)


@pytest.mark.parametrize("code", ["SlowDown", "RequestLimitExceeded", "Throttling"])
def test_s3_that_is_busy(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Some stores with the S3 API report this with a status that is not transient."""
    with running(S3Server()) as s3:
        url, busy = s3.put("a", DATA), [1, 1]
        answer = s3.answer
        body = f"<Error><Code>{code}</Code><Message>later</Message></Error>".encode()

        def sometimes(*asked: Any) -> Answer:
            if busy:
                busy.pop()
                return Answer(400, {"Content-Type": "application/xml"}, body)
            return answer(*asked)

        monkeypatch.setattr(s3, "answer", sometimes)
        assert RemoteSource(url, s3.options).size() == len(DATA)


def test_a_body_without_end() -> None:
    """The client stops reading when it has enough."""
    sent = 0
    ended = threading.Event()

    def serve(listening: socket.socket) -> None:
        nonlocal sent
        connection, _ = listening.accept()
        with connection:
            connection.recv(65536)
            head = "HTTP/1.1 206 OK\r\nContent-Range: bytes 0-65535/100000\r\n\r\n"
            connection.sendall(head.encode())
            while sent < 1 << 28:
                try:
                    sent += connection.send(bytes(1 << 16))
                except OSError:
                    break
        ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        source = RemoteSource("http://{}:{}/a".format(*listening.getsockname()))
        assert bytes(source.read_at(0, 65536)) == bytes(65536)
        assert ended.wait(120)
        thread.join(240)
    assert sent < 1 << 27


def test_a_listing_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bloscpack.storage.remote.client._MAX_LISTING_NBYTES", 1 << 16)
    with running(FileServer()) as server:
        page = b'<a href="x.blp">x</a>'
        server.files["/box/"] = page
        assert retry.list_folder(server.url("box"), {}).keys() == {"x.blp"}
        server.files["/box/"] = page + bytes(1 << 16)
        close_clients()
        with pytest.raises(RemoteError, match=r"/box: .*a list of files exceeds 65536 bytes"):
            retry.list_folder(server.url("box"), {})


def test_a_file_system_that_ignores_ranges() -> None:
    class Whole(MemoryFileSystem):  # type: ignore[misc]
        protocol = "wholememory"

        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            stripped: str = MemoryFileSystem._strip_protocol(path.rpartition("://")[2])
            return stripped

        def cat_file(self, path: str, start: Any = None, end: Any = None, **_: Any) -> bytes:
            return DATA

    fsspec.filesystem("memory").pipe_file("/whole", DATA)
    fsspec.register_implementation("wholememory", Whole, clobber=True)
    with pytest.raises(UnsupportedError, match="all of its 262144 bytes"):
        open_source("wholememory://whole")


@pytest.mark.parametrize("new", [DATA[:-1], DATA[::-1]])
def test_a_listing_from_before_does_not_hide_a_change(new: bytes) -> None:
    """The FTP client of fsspec keeps listings, and takes size and time of a file from them."""

    class Cached(FTPFileSystem):  # type: ignore[misc]
        protocol = "cachedftp"
        content = (DATA, "20260101000000")

        def _connect(self) -> None:
            self.ftp = self

        def __del__(self) -> None:
            pass

        def mlsd(self, path: str) -> list[tuple[str, dict[str, Any]]]:
            data, time = self.content
            return [("a", {"type": "file", "size": str(len(data)), "modify": time})]

        def cat_file(self, path: str, start: int, end: int, **_: Any) -> bytes:
            return self.content[0][start:end]

    fsspec.register_implementation("cachedftp", Cached, clobber=True)
    close_clients()  # one may be of the class of another run
    source = open_source("cachedftp://host/a")
    assert bytes(source.read_at(0, 10)) == DATA[:10]
    Cached.content = (new, "20260101000001")
    with pytest.raises(FileChangedError):
        source.read_at(HEAD_NBYTES, 10)
    with closing(open_source("cachedftp://host/a")) as again:
        assert again.size() == len(new)
        assert bytes(again.read_at(0, 10)) == new[:10]
