"""HTTP server of the page: who may ask, how long an answer takes, and what it may contain.

The server listens on 127.0.0.1. Every request must name that host; a request for data must bring
the token of the URL that ``blpk view`` printed, and must not come from a page of another origin. A
file is named by its ordinal, so that no text of a request becomes a path. Files are only read.

Work is done in a few threads. A task beside it waits for the client to go away, and then ends it at
its next step. Frames are sent as they are decoded: a slow client keeps one block in memory.
"""

import hmac
import json
import logging
import os
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..plugin import (
    ARCHIVES,
    ARRAYS,
    BloscpackError,
    FileType,
    NotFoundError,
    available_cpus,
    is_url,
    on_use,
)
from . import filepage
from .export import page_files
from .protocol import EXPECTED, Answer, Query, QueryError, Work, WorkCancelled
from .session import Session, ViewedFile
from .slices import message

HOST = "127.0.0.1"
MAX_BODY_NBYTES = 64 << 20
_PAGE_TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
# Scripts, styles and data of this server only, and nothing inline: names and attributes in files
# cannot run, and the page cannot send anything elsewhere.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]
View = Callable[[ViewedFile, Query, Work], Answer]


def _views(module: str, **functions: str) -> dict[str, View]:
    """Return the functions of a module, which is imported on use, by the names of their views."""
    return {name: on_use(f"view.{module}", function) for name, function in functions.items()}


# The page asks for the first view of each kind of file first.
_FRAMES = _views("clips", clip="describe", thumbnail="thumbnail", frames="frames")
_CLIPS = _views("clips", clips="clip_list") | _FRAMES
_ARRAYS = (
    _views(
        "arrays",
        array="describe",
        plane="plane",
        line="line",
        statistics="statistics",
        table="table",
        chunks="chunks",
    )
    | _FRAMES
)


def _views_of(filetype: FileType) -> Mapping[str, View]:
    """Return the views of a file by its type; types with clips may have some of their own."""
    return _ARRAYS if filetype in (ARRAYS, ARCHIVES) else {**filetype.views, **_CLIPS}


class Guard:
    """ASGI middleware that refuses requests of strangers, and adds the headers of every response.

    Parameters
    ----------
    application : ASGI application
        Application for the other requests.
    token : str
        Secret that requests for data must bring, as ``Authorization: Bearer TOKEN``.
    hosts : collection of str
        Allowed values of the header ``Host``.
    """

    def __init__(self, application: Application, token: str, hosts: set[str]) -> None:
        self._application = application
        self._token = token.encode()
        self._hosts = hosts

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "lifespan":
            await self._application(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refusal = self._refusal(scope)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                extra = [(key.encode(), value.encode()) for key, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        if refusal is None:
            await self._application(scope, receive, send_with_headers)
        else:
            status, text = refusal
            response = _error("Refused", text, status)
            await response(scope, receive, send_with_headers)

    def _refusal(self, scope: Message) -> tuple[int, str] | None:
        """Return status and reason if a request is refused."""
        headers: dict[bytes, list[bytes]] = {}
        for key, value in scope["headers"]:
            headers.setdefault(key.lower(), []).append(value)
        if scope["method"] not in ("GET", "HEAD", "POST"):
            return 405, "only GET and POST are answered"
        foreign = self._foreign(headers)
        if foreign:
            return 403, foreign
        # Browsers send it with every POST; forms of other sites cannot leave it out.
        if scope["method"] == "POST" and b"origin" not in headers:
            return 403, "a POST request needs the header Origin"
        given = headers.get(b"authorization", [b""])
        is_known = len(given) == 1 and hmac.compare_digest(given[0], b"Bearer " + self._token)
        if not is_known and not _is_page(scope["path"]):
            return 401, "the token is missing or wrong: open the URL that blpk view printed"
        return None

    def _foreign(self, headers: dict[bytes, list[bytes]]) -> str:
        """Return why a request is not one of this page; empty if it may be."""
        # The name of a stranger's host may lead to 127.0.0.1, so that its page has our origin.
        hosts = headers.get(b"host", [])
        if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self._hosts:
            return "the header Host names another server"
        if any(origin != b"http://" + hosts[0] for origin in headers.get(b"origin", [])):
            return "the request comes from a page of another origin"
        sites = headers.get(b"sec-fetch-site", [])
        # "none" is a URL that was typed or opened by another program.
        if any(site not in (b"same-origin", b"none") for site in sites):
            return "the request comes from a page of another site"
        return ""


def _is_page(path: str) -> bool:
    """Return whether a path names part of the page itself, which holds no data."""
    return path.count("/") == 1 and (path == "/" or os.path.splitext(path)[1] in _PAGE_TYPES)


def _error(kind: str, text: str, status: int) -> Response:
    body = json.dumps({"error": {"type": kind, "message": text[:4000]}}).encode(
        "utf-8", "backslashreplace"
    )
    return Response(body, status, media_type="application/json")


def error_response(err: BaseException) -> Response:
    """Return the response for an error; one that is a bug is logged with its traceback."""
    name = type(err).__name__
    if isinstance(err, QueryError):
        return _error(name, str(err), 400)
    if isinstance(err, NotFoundError):
        return _error(name, str(err), 404)
    if isinstance(err, BloscpackError):
        return _error(name, str(err), 422)
    if isinstance(err, MemoryError):
        return _error(name, "not enough memory", 422)
    if isinstance(err, OSError | ImportError):
        return _error(name, message(err), 503 if isinstance(err, ImportError) else 422)
    if isinstance(err, ValueError | IndexError | TypeError | NotImplementedError):
        return _error(name, str(err), 422)
    logging.getLogger("bloscpack").error("bug in blpk view", exc_info=err)
    return _error("InternalError", f"bug in blpk view: {name}; its output has a traceback", 500)


class Service:
    """Answers to requests, from the files of a session.

    Attributes
    ----------
    session : Session
        The open files.
    nsteps : int
        Steps of work done for requests that have ended.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.nsteps = 0
        self._threads: anyio.CapacityLimiter | None = None

    async def list_files(self, request: Request) -> Any:
        """Answer ``/api/files``."""
        return await self._run(request, partial(filepage.files, self.session))

    async def show(self, request: Request) -> Any:
        """Answer ``/api/ORDINAL/VIEW``."""
        file = self._file(request)
        if file is None:
            return _error("NotFoundError", "no file has this number", 404)
        name = request.path_params["view"]
        if name == "info":
            return await self._run(request, partial(filepage.info, file))
        return await self._run(request, partial(_show, file, name))

    async def verify(self, request: Request) -> Any:
        """Answer a POST to ``/api/ORDINAL/verify``: lines of progress, then one with the report."""
        file = self._file(request)
        if file is None:
            return _error("NotFoundError", "no file has this number", 404)
        return _VerifyResponse(file, self)

    def _file(self, request: Request) -> ViewedFile | None:
        ordinal = request.path_params["file"]
        files = self.session.files
        return files[ordinal] if ordinal < len(files) else None

    @property
    def threads(self) -> anyio.CapacityLimiter:
        """Limit of the requests that are worked on at the same time."""
        if self._threads is None:  # needs a running event loop
            self._threads = anyio.CapacityLimiter(max(2, available_cpus()))
        return self._threads

    async def _run(self, request: Request, view: Callable[[Query, Work], Answer]) -> Any:
        query = Query(dict(request.query_params))
        work = Work()
        outcome: list[Any] = []

        def answer() -> None:
            try:
                work.step()
                found = view(query, work)
            except WorkCancelled:
                return
            except Exception as err:
                outcome.append(error_response(err))
                return
            if found.blocks is not None:
                outcome.append(_BlockResponse(found, work, self))
            elif len(found.body) > MAX_BODY_NBYTES:
                outcome.append(_error("QueryError", "the reply is too large: ask for less", 400))
            else:
                outcome.append(Response(found.body, media_type=found.media_type))

        async with watching(request.receive, work):
            await anyio.to_thread.run_sync(answer, limiter=self.threads)
        if not outcome or not isinstance(outcome[0], _BlockResponse):
            self.nsteps += work.nsteps
        return outcome[0] if outcome else Response(status_code=499)  # the client is gone


@asynccontextmanager
async def watching(receive: Receive, work: Work) -> AsyncIterator[None]:
    """Cancel work when the client goes away."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        work.cancel()
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield
        group.cancel_scope.cancel()


def _show(file: ViewedFile, name: str, query: Query, work: Work) -> Answer:
    file.open()
    view = _views_of(file.filetype).get(name)
    if view is None:
        raise NotFoundError(f"{file.filetype.kind.name} has no view {name!r:.40}")
    return view(file, query, work)


def _warm_up(session: Session) -> None:
    """Make the first answers ahead: what the first file is, and the first thumbnail of its clips.

    The page asks for both. What is wrong with the file is said when it does.
    """
    for file in session.files[:1]:
        with suppress(*EXPECTED):
            _show(file, next(iter(_views_of(file.filetype))), Query({}), Work())
        if not is_url(file.place.path):
            with suppress(*EXPECTED):
                _show(file, "thumbnail", Query({}), Work())


class _BlockResponse:
    """Response whose blocks are made in a thread, each when the one before it was sent."""

    def __init__(self, answer: Answer, work: Work, service: Service) -> None:
        self._answer, self._work, self._service = answer, work, service

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await _start(send, self._answer.media_type)
        try:
            async with watching(receive, self._work):
                while True:
                    block = await anyio.to_thread.run_sync(
                        self._next, limiter=self._service.threads
                    )
                    if block is None:
                        break
                    await _send_or_cancel(send, block, self._work)
            await _send_or_cancel(send, b"", self._work, more=False)
        finally:
            self._service.nsteps += self._work.nsteps

    def _next(self) -> bytes | None:
        with suppress(WorkCancelled):
            return next(self._answer.blocks or iter(()), None)
        return None


class _VerifyResponse:
    """Lines of JSON: progress while a file is verified, and its report."""

    def __init__(self, file: ViewedFile, service: Service) -> None:
        self._file, self._service = file, service

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        await _start(send, "application/x-ndjson")

        async def send_line(found: dict[str, Any]) -> None:
            await _send_or_cancel(send, json.dumps(found).encode() + b"\n", work)

        def verify() -> None:
            line: dict[str, Any]
            try:
                line = {"report": filepage.verify(self._file, work)}
            except WorkCancelled:
                return
            except Exception as err:
                line = json.loads(bytes(error_response(err).body))
            work.emit(line)

        # Progress may come from a thread that the verification has started.
        token = anyio.lowlevel.current_token()
        work = Work(lambda found: anyio.from_thread.run(send_line, found, token=token))
        async with watching(receive, work):
            await anyio.to_thread.run_sync(verify, limiter=self._service.threads)
        await _send_or_cancel(send, b"", work, more=False)


async def _start(send: Send, media_type: str) -> None:
    headers = [(b"content-type", media_type.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def _send_or_cancel(send: Send, body: bytes, work: Work, *, more: bool = True) -> None:
    """Send part of a response; cancel the work if the client has gone away."""
    try:
        await send({"type": "http.response.body", "body": body, "more_body": more})
    except OSError:
        work.cancel()


async def _page(request: Request) -> Response:
    """Answer with a file of the page; names that are not in the package are not found."""
    name = request.path_params.get("name", "index.html")
    path = page_files().get(name)
    if path is None:
        return _error("NotFoundError", "there is no such page", 404)
    return Response(path.read_bytes(), media_type=_PAGE_TYPES[path.suffix])


def create_application(session: Session, *, token: str, hosts: set[str]) -> Guard:
    """Return the ASGI application for the files of a session.

    Parameters
    ----------
    session : Session
        The files; the caller closes it.
    token : str
        Secret that requests for data must bring.
    hosts : set of str
        Allowed values of the header ``Host``, such as ``127.0.0.1:8000``.
    """
    service = Service(session)
    routes = [
        Route("/", _page, methods=["GET"]),
        Route("/api/files", service.list_files, methods=["GET"]),
        Route("/api/{file:int}/verify", service.verify, methods=["POST"]),
        Route("/api/{file:int}/{view}", service.show, methods=["GET"]),
        Route("/{name}", _page, methods=["GET"]),
    ]
    application = Starlette(routes=routes)
    application.state.service = service
    return Guard(application, token, hosts)


class PageServer:
    """Server of a page, bound to a port of 127.0.0.1.

    Parameters
    ----------
    session : Session
        The files.
    port : int, default 0
        The port; 0 takes a free one.

    Attributes
    ----------
    url : str
        URL of the page with its token, for a browser.
    """

    def __init__(self, session: Session, *, port: int = 0) -> None:
        self._server: Any = None
        self._socket = socket.create_server((HOST, port))
        # Connections inherit it; asyncio sets it only on sockets made with an explicit protocol.
        # Without it, the body of each answer waits 40 ms for the client to acknowledge its head.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port: int = self._socket.getsockname()[1]
        token = secrets.token_urlsafe(24)
        hosts = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        self.url = f"http://{HOST}:{self.port}/?token={token}"
        self._session = session
        self.application = create_application(session, token=token, hosts=hosts)

    def run(self, ready: Callable[[], object]) -> None:
        """Answer requests until interrupted; `ready` is called before the first."""
        config = uvicorn.Config(
            self.application,
            log_level="error",
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,  # a stream of frames may last for hours
        )
        config.load()
        self._server = uvicorn.Server(config)
        # Modules are imported now, so that the first answers do not wait for them.
        anyio.run(anyio.to_thread.run_sync, partial(_warm_up, self._session))
        ready()
        with self._socket:
            self._server.run(sockets=[self._socket])

    def stop(self) -> None:
        """End `run`, which another thread has called."""
        if self._server is not None:
            self._server.should_exit = True
