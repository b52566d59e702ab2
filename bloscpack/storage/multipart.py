"""Writing an object to S3 part by part, by s3fs's client: it appears when all of it is there.

Parts may come in any order. The first waits until the end, so that the front of a file can be
filled in; the others are sent as they are full, a few at a time.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any

from fsspec.asyn import get_loop

from ..notice import notice
from .client import client
from .transport import run, surely
from .trouble import OURS, cause_of, named, s3_status
from .url import shown

# The least that S3 takes for a part but the last is 5 MiB, and the most parts are 10,000: parts
# become twice as large after every so many, which makes room for 8 TB.
_PART_NBYTES = 8 << 20
_PARTS_PER_SIZE = 1000
# Parts on their way at once.
_MAX_UNDER_WAY = 3


class MultipartUpload:
    """An object in S3 that is being written.

    Parameters
    ----------
    url : str
        Where to.
    options : dict
        For s3fs.
    front_nbytes : int
        Bytes at the beginning that may be replaced until `commit`; at least those of a part are.
    """

    def __init__(self, url: str, options: dict[str, Any], front_nbytes: int) -> None:
        self._filesystem, path = client(url, options)
        bucket, key, _ = self._filesystem.split_path(path)
        self._place = {"Bucket": bucket, "Key": key}
        self._name = shown(url)
        self._front_nbytes = max(front_nbytes, _PART_NBYTES)
        self._front = bytearray()
        self._pending = bytearray()
        self._upload: dict[str, str] | None = None
        self._under_way: deque[Future[dict[str, Any]]] = deque()
        self._parts: list[dict[str, Any]] = []
        self._nparts = 1
        self._nbytes = 0

    def write(self, data: memoryview) -> None:
        """Append `data`."""
        self._nbytes += len(data)
        room = self._front_nbytes - len(self._front)
        if room > 0:
            self._front += data[:room]
            data = data[room:]
        while data:
            size = _PART_NBYTES << (self._nparts // _PARTS_PER_SIZE)
            room = size - len(self._pending)
            self._pending += data[:room]
            data = data[room:]
            if len(self._pending) == size:
                self._send()

    def write_at(self, offset: int, data: memoryview) -> None:
        """Replace bytes of the front.

        Raises
        ------
        ValueError
            Some of them were sent.
        """
        if offset + len(data) > len(self._front):
            raise ValueError(f"bytes {offset} to {offset + len(data)} were sent already")
        self._front[offset : offset + len(data)] = data

    def commit(self) -> None:
        """Send the rest and make the object appear, whole."""
        if self._nparts == 1 and not self._pending:
            run(self._surely("put_object", "the object", Body=bytes(self._front)))
            self._front = bytearray()
            return
        if self._pending:
            self._send()
        self._start(1, bytes(self._front))
        self._front = bytearray()
        while self._under_way:
            self._take()
        self._parts.sort(key=lambda part: int(part["PartNumber"]))
        run(self._complete())
        self._upload = None

    def abort(self) -> None:
        """Leave nothing behind, not even parts that nobody sees but pays for."""
        for future in self._under_way:
            future.cancel()
        self._under_way.clear()
        upload, self._upload = self._upload, None
        if upload is not None:
            try:
                run(self._surely("abort_multipart_upload", "the end of the upload", **upload))
            except OSError as err:  # what led here is the error to tell
                notice("the upload could not be given up, parts of it stay, unseen: %s", err)

    def _send(self) -> None:
        self._nparts += 1
        data, self._pending = bytes(self._pending), bytearray()
        self._start(self._nparts, data)

    def _start(self, number: int, data: bytes) -> None:
        if self._upload is None:
            made = run(self._surely("create_multipart_upload", "the upload"))
            self._upload = {"UploadId": made["UploadId"]}
        while len(self._under_way) >= _MAX_UNDER_WAY:
            self._take()
        future = asyncio.run_coroutine_threadsafe(self._put(number, data), get_loop())
        self._under_way.append(future)

    def _take(self) -> None:
        """Wait for the part that was started first."""
        future = self._under_way[0]
        self._parts.append(future.result())
        self._under_way.popleft()

    async def _put(self, number: int, data: bytes) -> dict[str, Any]:
        answer = await self._surely(
            "upload_part", f"part {number}", PartNumber=number, Body=data, **(self._upload or {})
        )
        return {"PartNumber": number, "ETag": answer["ETag"]}

    async def _complete(self) -> None:
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                await self._call(
                    "complete_multipart_upload",
                    MultipartUpload={"Parts": self._parts},
                    **(self._upload or {}),
                )
            except FileNotFoundError:
                # There is no such upload any more: the try before may have been heard.
                if attempts == 1 or not await self._is_there():
                    raise

        await surely(attempt, "the end of the upload", self._name)

    async def _is_there(self) -> bool:
        found = await self._call("head_object")
        return bool(found.get("ContentLength") == self._nbytes)

    def _surely(self, method: str, what: str, **arguments: Any) -> Any:
        attempt: Callable[[], Awaitable[Any]] = lambda: self._call(method, **arguments)  # noqa: E731
        return surely(attempt, what, self._name)

    async def _call(self, method: str, **arguments: Any) -> Any:
        try:
            return await self._filesystem._call_s3(method, **self._place, **arguments)
        except OURS:
            raise
        except Exception as err:
            raise named(err, s3_status(err), self._name) from cause_of(err)
