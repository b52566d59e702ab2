"""Client that calls the application as uvicorn does, in this process."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from struct import unpack_from
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

anyio = pytest.importorskip("anyio", reason="starlette and uvicorn are not installed (view)")
pytest.importorskip("starlette", reason="starlette and uvicorn are not installed (view)")
pytest.importorskip("uvicorn", reason="starlette and uvicorn are not installed (view)")

TOKEN = "secret-of-the-tests"
HOST = "127.0.0.1:8000"
ORIGIN = f"http://{HOST}"


@dataclass
class Reply:
    """Response of the application."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.body.splitlines()]

    @property
    def packet(self) -> tuple[dict[str, Any], list[np.ndarray]]:
        """Return the document and the arrays of a packet."""
        assert self.status == 200, self.body
        nbytes = unpack_from("<I", self.body)[0]
        head = json.loads(self.body[4 : 4 + nbytes])
        at, arrays = 4 + nbytes, []
        for each in head["arrays"]:
            assert at % 8 == 0
            dtype, count = np.dtype(each["dtype"]), int(np.prod(each["shape"]))
            found = np.frombuffer(self.body, dtype, count, at).reshape(each["shape"])
            arrays.append(found)
            at += -(-found.nbytes // 8) * 8
        assert at == len(self.body)
        return head, arrays


class Client:
    """Requests to an application, with the token unless `token` is None."""

    def __init__(self, application: Any, *, token: str | None = TOKEN) -> None:
        self.application = application
        self._token = token

    def get(self, target: str, **headers: str) -> Reply:
        return anyio.run(lambda: self.request("GET", target, **headers))

    def post(self, target: str, **headers: str) -> Reply:
        return anyio.run(lambda: self.request("POST", target, **{"origin": ORIGIN, **headers}))

    async def request(
        self,
        method: str,
        target: str,
        *,
        leaves: Callable[[bytes], bool] = lambda body: False,
        **headers: str,
    ) -> Reply:
        """Send a request; the client goes away once `leaves` is true of what it has received."""
        parts = urlsplit(target)
        sent = {"host": HOST, **headers}
        if self._token is not None:
            sent.setdefault("authorization", f"Bearer {self._token}")
        scope = {
            "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": "1.1", "method": method, "scheme": "http", "root_path": "",
            "path": parts.path, "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(key.replace("_", "-").encode(), value.encode("latin-1"))
                        for key, value in sent.items()],
            "client": ("127.0.0.1", 9), "server": ("127.0.0.1", 8000),
        }  # fmt: skip
        messages: list[Any] = []
        gone = anyio.Event()
        requests = [{"type": "http.request", "body": b"", "more_body": False}]

        async def receive() -> Any:
            if requests:
                return requests.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            messages.append(message)
            if leaves(b"".join(each.get("body", b"") for each in messages)):
                gone.set()

        if leaves(b""):
            gone.set()
        await self.application(scope, receive, send)
        head = {key.decode().lower(): value.decode() for key, value in messages[0]["headers"]}
        body = b"".join(each.get("body", b"") for each in messages[1:])
        return Reply(messages[0]["status"], head, body)
