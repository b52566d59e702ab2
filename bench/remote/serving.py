"""The servers that contenders ask, on loopback, and what is put there."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from servers import Answer, FileServer, S3Server, running

S3, HTTP = "S3", "HTTP"


class _KeptS3(S3Server):
    """S3 whose answers are kept: moto makes each once, and its time is not counted again."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[tuple[str | None, ...], Answer] = {}

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Return what moto answers, or did; nothing is put there once something was asked."""
        if method not in ("GET", "HEAD"):
            return super().answer(method, path, headers, body)
        key = (method, path, headers.get("Range"), headers.get("If-Match"))
        if key not in self._kept:
            self._kept[key] = super().answer(method, path, headers, body)
        return self._kept[key]

    def place(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the URL of an object or a folder, and the options of fsspec for it."""
        return f"s3://box/{name}", self.options


class _Files(FileServer):
    """A web server with ranges."""

    def put(self, key: str, data: bytes) -> None:
        """Add a file."""
        self.files[f"/{key}"] = data

    def place(self, name: str) -> tuple[str, dict[str, str]]:
        """Return the URL of a file or a folder, and the options of fsspec for it."""
        return self.url(name), {}


@contextmanager
def serving() -> Iterator[dict[str, Any]]:
    """Give the servers by name; they end with the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with running(_KeptS3()) as s3, running(_Files()) as files:
        yield {S3: s3, HTTP: files}


def publish(server: Any, path: Path) -> None:
    """Put a file, or all files of a folder, on a server, by their names."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            server.put(file.relative_to(path.parent).as_posix(), file.read_bytes())
