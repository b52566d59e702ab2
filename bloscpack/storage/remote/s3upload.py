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

from ...exceptions import notice
from .retry import run, surely
from .s3 import Bucket

# The least that S3 takes for a part but the last is 5 MiB, and the most parts are 10,000: parts
# become twice as large after every so many, which makes room for 8 TB.
_PART_NBYTES = 8 << 20
_PARTS_PER_SIZE = 1000
# The weight of what may be on its way at once, and that of a part in memory.
_MAX_WEIGHT = 12
PART_WEIGHT = 4

Send = Callable[[int, dict[str, Any]], Awaitable[str]]
"""Sends the part of a number in an upload, whose names are the arguments for that, and gives its
tag."""


class PartsUpload:
    """An object in S3 that is being put together from parts by their numbers.

    Parameters
    ----------
    bucket : Bucket
        Where it is made.
    key : str
        What it will be called.

    Attributes
    ----------
    upload_id : str
        Of the upload; empty before it begins and when it has ended.
    """

    def __init__(self, bucket: Bucket, key: str) -> None:
        self._bucket = bucket
        self._key = key
        self.upload_id = ""
        self._under_way: deque[tuple[Future[dict[str, Any]], int]] = deque()
        self._parts: list[dict[str, Any]] = []

    def begin(self) -> str:
        """Begin the upload and return its id."""
        what = "the upload"
        made = run(self._bucket.surely("create_multipart_upload", what, Key=self._key))
        self.upload_id = made["UploadId"]
        return self.upload_id

    def start(self, number: int, send: Send, weight: int = PART_WEIGHT) -> None:
        """Start to send a part, once there is room for it among those that are on their way."""
        if not self.upload_id:
            self.begin()
        while self._under_way and self._weight() + weight > _MAX_WEIGHT:
            self._take()
        future = asyncio.run_coroutine_threadsafe(self._sent(number, send), get_loop())
        self._under_way.append((future, weight))

    def _weight(self) -> int:
        return sum(weight for _, weight in self._under_way)

    async def _sent(self, number: int, send: Send) -> dict[str, Any]:
        return {"PartNumber": number, "ETag": await send(number, self._names)}

    def _take(self) -> None:
        """Wait for the part that was started first."""
        future, _ = self._under_way[0]
        self._parts.append(future.result())
        self._under_way.popleft()

    def complete(self, nbytes: int) -> str:
        """Make the object appear when all parts are there, of `nbytes` in all; return its tag."""
        while self._under_way:
            self._take()
        self._parts.sort(key=lambda part: int(part["PartNumber"]))
        tag = run(self._complete(nbytes))
        self.upload_id = ""
        return tag

    def abort(self) -> None:
        """Leave nothing behind, not even parts that nobody sees but pays for."""
        for future, _ in self._under_way:
            future.cancel()
        self._under_way.clear()
        upload_id, self.upload_id = self.upload_id, ""
        if upload_id:
            try:
                self._bucket.end_uploads([(self._key, upload_id)])
            except OSError as err:  # what led here is the error to tell
                notice("the upload could not be given up, parts of it stay, unseen: %s", err)

    @property
    def _names(self) -> dict[str, Any]:
        return {"Key": self._key, "UploadId": self.upload_id}

    async def _complete(self, nbytes: int) -> str:
        attempts = 0

        async def attempt() -> str:
            nonlocal attempts
            attempts += 1
            try:
                answer = await self._bucket.call(
                    "complete_multipart_upload",
                    MultipartUpload={"Parts": self._parts},
                    **self._names,
                )
            except FileNotFoundError:
                # There is no such upload any more: the try before may have been heard.
                if attempts == 1:
                    raise
                answer = await self._bucket.call("head_object", Key=self._key)
                if answer.get("ContentLength") != nbytes:
                    raise
            return str(answer.get("ETag") or "")

        return await surely(attempt, "the end of the upload", self._bucket.name)


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
        self._bucket = Bucket(url, options)
        self._upload = PartsUpload(self._bucket, self._bucket.key)
        self._front_nbytes = max(front_nbytes, _PART_NBYTES)
        self._front = bytearray()
        self._pending = bytearray()
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
            self._bucket.put(bytes(self._front))
            self._front = bytearray()
            return
        if self._pending:
            self._send()
        self._start(1, bytes(self._front))
        self._front = bytearray()
        self._upload.complete(self._nbytes)

    def abort(self) -> None:
        """Leave nothing behind."""
        self._upload.abort()

    def _send(self) -> None:
        self._nparts += 1
        data, self._pending = bytes(self._pending), bytearray()
        self._start(self._nparts, data)

    def _start(self, number: int, data: bytes) -> None:
        self._upload.start(number, lambda number, names: sent(self._bucket, number, names, data))


async def sent(bucket: Bucket, number: int, names: dict[str, Any], data: bytes) -> str:
    """Send a part from memory and return its tag."""
    answer = await bucket.surely(
        "upload_part", f"part {number}", PartNumber=number, Body=data, **names
    )
    return str(answer["ETag"])
