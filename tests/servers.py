"""Servers on loopback that count requests, and are slow or fail on demand.

`FileServer` has files of its own; `S3Server` passes requests on to a moto server behind it, so that
S3 can be slow and fail, too. Benchmarks make them slow, tests make them fail.
"""

import http.client
import select
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import monotonic, sleep
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from xxhash import xxh3_64_hexdigest

# Moto checks the name in the credential, not the signature.
SIGNED = {
    "Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, "
    "SignedHeaders=host, Signature=0"
}


_PIECE_NBYTES = 1 << 18


class Request(NamedTuple):
    """A request and the size of its answer."""

    method: str
    path: str
    range: str | None
    status: int
    nbytes: int


class Answer(NamedTuple):
    """Answer to a request."""

    status: int
    headers: dict[str, str]
    body: bytes


class _Listener(ThreadingHTTPServer):
    """Accepts many connections at once; by default a sixth one would wait for a second."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(self, owner: "Server") -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.owner = owner
        # Open connections with the addresses of their clients.
        self.connections: dict[Any, Any] = {}
        self.changed = threading.Condition()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Note a new connection."""
        with self.changed:
            self.connections[request] = client_address
            self.changed.notify_all()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection."""
        with self.changed:
            self.connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, *_: object) -> None:
        """Print nothing: clients that are killed reset their connections."""


def _is_readable(connection: Any, milliseconds: int | None) -> bool:
    """Wait until something has arrived, with or without a limit of time."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(milliseconds))


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    # A body after its headers would wait for the other side's delayed acknowledgement.
    disable_nagle_algorithm = True

    server: _Listener

    def handle_one_request(self) -> None:
        _is_readable(self.connection, None)
        self.log_and_faults = self.server.owner.log_and_faults(self.connection)
        try:
            super().handle_one_request()
        finally:
            self.server.owner.has_read(self.connection)

    def respond(self) -> None:
        server = self.server.owner
        log, faults = self.log_and_faults
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        server.has_read(self.connection)
        sleep(server.delay)
        fault = faults.popleft() if faults else server.always
        if fault.isdecimal():
            found = Answer(int(fault), {}, b"" if self.command == "HEAD" else b"a fault")
        else:
            found = server.answer(self.command, self.path, self.headers, body)
        if fault == "drop":
            server.note(log, self, 0, b"")
            self.close_connection = True
            return
        if fault == "brief" and found.status == 206:
            found = cut_range(found)
        sent = found.body[: len(found.body) // 2] if fault == "short" else found.body
        if self.command == "HEAD":
            sent = b""
        server.note(log, self, found.status, sent)
        self.send_response(found.status)
        for name, value in found.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in found.headers and "chunked" not in str(found.headers):
            self.send_header("Content-Length", str(len(found.body)))
        self.end_headers()
        with suppress(ConnectionError):  # the client has gone
            server.send(self.wfile, sent)
        if fault == "short":
            self.close_connection = True

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = respond  # noqa: N815

    def log_message(self, *_: object) -> None:
        """Print nothing."""


class Server:
    """Counts requests, waits and injects faults; subclasses have the answers.

    Attributes
    ----------
    log : list of Request
        In the order they were answered.
    faults : deque of str
        Faults of the next requests, one each: "drop" handles the request and closes the
        connection, "short" sends half of the body and closes, "brief" answers with half of the
        range, a number is a status, and nothing is done; "" stands for no fault.
    always : str
        Fault of all requests.
    delay : float
        Seconds that pass before an answer is made; the answers of several wait side by side.
    rate : float, optional
        Bytes that are sent in a second at most, over all connections together.
    """

    def __init__(self) -> None:
        self.log: list[Request] = []
        self.faults: deque[str] = deque()
        self.always = ""
        self.delay = 0.0
        self.rate: float | None = None
        self._line = threading.Lock()
        self._free = 0.0  # when the bytes before have been sent
        # Connections with a request that was sent before the last `clear`, and not looked at.
        self._old: set[Any] = set()
        # Connections whose request has its log and is being read.
        self._reading: set[Any] = set()
        self._server = _Listener(self)
        self.endpoint = "http://{}:{}".format(*self._server.server_address[:2])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Return the answer to a request."""
        raise NotImplementedError

    def send(self, connection: Any, body: bytes) -> None:
        """Send a body, no faster than at `rate`."""
        if self.rate is None:
            connection.write(body)
            return
        for start in range(0, len(body), _PIECE_NBYTES):
            piece = body[start : start + _PIECE_NBYTES]
            with self._line:
                self._free = max(self._free, monotonic()) + len(piece) / self.rate
                due = self._free
            sleep(max(0.0, due - monotonic()))
            connection.write(piece)

    @property
    def gets(self) -> list[Request]:
        """The requests for bytes."""
        return [request for request in self.log if request.method == "GET"]

    @property
    def nbytes(self) -> int:
        """The bytes of all bodies that were sent."""
        return sum(request.nbytes for request in self.log)

    def clear(self) -> None:
        """Clear the faults and start a new log.

        Requests that were sent before get no faults and are not in it, even if the server has not
        read them: a client that gave up leaves such requests behind on a busy machine.
        """
        if not self._thread.is_alive():
            self._start_log()
            return
        place = self._server.server_address[:2]
        with socket.create_connection(place) as last, self._server.changed:  # type: ignore[arg-type]
            # Connections are accepted in the order in which they were made.
            address, found = last.getsockname(), self._server.connections
            self._server.changed.wait_for(lambda: address in found.values())
            waiting = found.keys() - self._reading
            self._old = {each for each in waiting if _is_readable(each, 0)}
            self._start_log()

    def _start_log(self) -> None:
        self.log, self.faults, self.always = [], deque(), ""

    def log_and_faults(self, connection: Any) -> tuple[list[Request], deque[str]]:
        """Return those for the next request on a connection."""
        with self._server.changed:
            self._reading.add(connection)
            if connection not in self._old:
                return self.log, self.faults
            self._old.discard(connection)
            return [], deque([""])

    def has_read(self, connection: Any) -> None:
        """Note that the bytes of a request have been taken from its connection."""
        with self._server.changed:
            self._reading.discard(connection)

    def start(self) -> None:
        """Start to answer, on a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self.always = "drop"  # connections that are kept open have threads of their own
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def note(self, log: list[Request], handler: Any, status: int, body: bytes) -> None:
        """Append a request to the log of the time when it arrived."""
        path = handler.path
        log.append(Request(handler.command, path, handler.headers.get("Range"), status, len(body)))


def cut_range(found: Answer) -> Answer:
    """Return an answer with half of the requested range, correctly labelled."""
    unit, _, rest = found.headers["Content-Range"].partition(" ")
    extent, _, size = rest.partition("/")
    first = int(extent.partition("-")[0])
    body = found.body[: len(found.body) // 2]
    headers = {**found.headers, "Content-Length": str(len(body))}
    headers["Content-Range"] = f"{unit} {first}-{first + len(body) - 1}/{size}"
    return Answer(found.status, headers, body)


class FileServer(Server):
    """Files by their paths, with ranges and ETags.

    Attributes
    ----------
    files : dict of str to bytes
        By path, with the slash in front. Others may be put there at any time.
    has_ranges, has_etags : bool
        Whether the server supports these.
    """

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, bytes] = {}
        self.has_ranges = self.has_etags = True

    def url(self, name: str) -> str:
        """Return the URL of a file."""
        return f"{self.endpoint}/{name}"

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Return a file, or a part of it."""
        data = self.files.get(urlsplit(path).path)
        if data is None:
            return Answer(404, {}, b"nothing here")
        found = {"Last-Modified": formatdate(1, usegmt=True)}
        if self.has_etags:
            found["ETag"] = f'"{xxh3_64_hexdigest(data)}"'
        wanted = headers.get("Range")
        if not wanted or not self.has_ranges:
            return Answer(200, found, data)
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        if first:
            start, stop = int(first), int(last) + 1 if last else len(data)
        else:
            start, stop = max(0, len(data) - int(last)), len(data)
        if start >= len(data):
            return Answer(416, {"Content-Range": f"bytes */{len(data)}"}, b"")
        part = data[start:stop]
        found["Content-Range"] = f"bytes {start}-{start + len(part) - 1}/{len(data)}"
        return Answer(206, found, part)


class MotoServer(Server):
    """S3 by moto, in this process, behind a server that counts."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        super().__init__()
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.options = {"key": "key", "secret": "secret", "endpoint_url": self.endpoint}

    def start(self) -> None:
        """Start both servers, without objects."""
        self._moto.start()
        self._place = self._moto.get_host_and_port()
        # Moto keeps objects for the whole process, also those of other servers.
        self.answer("POST", "/moto-api/reset", {}, b"")
        super().start()

    def stop(self) -> None:
        """End both servers."""
        super().stop()
        self._moto.stop()

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Return moto's answer."""
        connection = http.client.HTTPConnection(*self._place)
        try:
            connection.request(method, path, body, dict(headers))
            found = connection.getresponse()
            passed = {
                name.title(): value
                for name, value in found.getheaders()
                if name.lower() not in ("connection", "server", "date", "transfer-encoding")
            }
            return Answer(found.status, passed, found.read())
        finally:
            connection.close()

    def put(self, key: str, data: bytes) -> str:
        """Put an object into the bucket "box", without a trace in the log; return its URL."""
        self.answer("PUT", "/box", SIGNED, b"")
        answer = self.answer("PUT", f"/box/{key}", SIGNED, data)
        assert answer.status == 200, answer
        return f"s3://box/{key}"

    def remove(self, key: str) -> None:
        """Remove an object from the bucket "box", without a trace in the log."""
        self.answer("DELETE", f"/box/{key}", SIGNED, b"")

    def keys(self) -> list[str]:
        """Return the names of the objects in the bucket "box"."""
        listing = self.answer("GET", "/box", SIGNED, b"").body.decode()
        return [part.partition("<")[0] for part in listing.split("<Key>")[1:]]

    def object(self, key: str) -> bytes:
        """Return an object in the bucket "box", without a trace in the log."""
        answer = self.answer("GET", f"/box/{key}", SIGNED, b"")
        assert answer.status == 200, answer
        return answer.body

    def uploads(self) -> int:
        """Return how many multipart uploads are unfinished."""
        listing = self.answer("GET", "/box?uploads", SIGNED, b"").body.decode()
        return listing.count("<UploadId>")


class S3Server(MotoServer):
    """S3 server of tests; skips the test if moto or the S3 client is not installed."""

    def __init__(self) -> None:
        import pytest  # benchmarks use these servers without it

        pytest.importorskip("moto", reason="the package moto is not installed")
        pytest.importorskip("s3fs", reason="the package s3fs is not installed")
        super().__init__()


@contextmanager
def running(server: Any) -> Iterator[Any]:
    """Run a server inside the block."""
    server.start()
    try:
        yield server
    finally:
        server.stop()


def ranges(server: Server) -> list[tuple[int, int]]:
    """Return offset and size of each request and response, by place."""
    gets = [request for request in server.log if request.range and request.status == 206]
    return sorted((int(each.range[6:].partition("-")[0]), each.nbytes) for each in gets)
