"""The servers on loopback that contenders read from."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.servers import Answer, FileServer, MotoServer, running

S3, HTTP = "S3", "HTTP"
BUCKET = "box"


class _CachedS3(MotoServer):
    """S3 with a cache of answers, so that moto makes each only once."""

    def __init__(self) -> None:
        super().__init__()
        self._cache: dict[tuple[str | None, ...], Answer] = {}

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """Return moto's answer, from the cache if there; objects never change once requested."""
        if method not in ("GET", "HEAD"):
            return super().answer(method, path, headers, body)
        key = (method, path, headers.get("Range"), headers.get("If-Match"))
        if key not in self._cache:
            self._cache[key] = super().answer(method, path, headers, body)
        return self._cache[key]

    def place(self, name: str) -> tuple[str, dict[str, str]]:
        """Return URL and fsspec options of an object or a folder."""
        return f"s3://{BUCKET}/{name}", self.options


class _Files(FileServer):
    """A web server with ranges."""

    def put(self, key: str, data: bytes) -> None:
        """Add a file."""
        self.files[f"/{key}"] = data

    def place(self, name: str) -> tuple[str, dict[str, str]]:
        """Return URL and fsspec options of a file or a folder."""
        return self.url(name), {}


@contextmanager
def serving() -> Iterator[dict[str, Any]]:
    """Run the servers, by name, inside the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with running(_CachedS3()) as s3, running(_Files()) as files:
        yield {S3: s3, HTTP: files}


def publish(server: Any, path: Path) -> None:
    """Put a file, or all files of a folder, on a server."""
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            server.put(file.relative_to(path.parent).as_posix(), file.read_bytes())
