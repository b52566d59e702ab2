"""Multipart uploads to S3 through the client of s3fs; the object appears when it is complete.

Parts may be sent in any order. The first part is sent last, so that the front of a file can be
replaced until then. The others are sent as soon as they are full, a few at a time.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from hashlib import md5
from typing import Any

from fsspec.asyn import get_loop

from ...notice import notice
from ...types import BytesLike
from .retry import retry, run
from .s3 import Bucket

# S3 accepts parts of at least 5 MiB, except for the last, and at most 10,000 of them. The part size
# doubles after every 1,000 parts, which allows objects of 8 TB.
_PART_NBYTES = 8 << 20
_PARTS_PER_SIZE = 1000
# Largest total weight of concurrent requests, and the weight of a part that is held in memory.
_MAX_WEIGHT = 12
PART_WEIGHT = 4

Send = Callable[[int, dict[str, Any]], Awaitable[str]]
"""Function that sends one part, given its number and the arguments that name the upload, and
returns its tag."""


class PartsUpload:
    """Multipart upload of an object, whose parts are numbered.

    `upload_id` is empty before it begins and after it has ended.
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
        made = run(self._bucket.request("create_multipart_upload", what, Key=self._key))
        self.upload_id = made["UploadId"]
        return self.upload_id

    def start(self, number: int, send: Send, weight: int = PART_WEIGHT) -> None:
        """Start to send a part, after waiting until the concurrent requests leave room for it."""
        if not self.upload_id:
            self.begin()
        while self._under_way and self._weight() + weight > _MAX_WEIGHT:
            self._take()
        future = asyncio.run_coroutine_threadsafe(self._send(number, send), get_loop())
        self._under_way.append((future, weight))

    def _weight(self) -> int:
        return sum(weight for _, weight in self._under_way)

    async def _send(self, number: int, send: Send) -> dict[str, Any]:
        return {"PartNumber": number, "ETag": await send(number, self._names)}

    def _take(self) -> None:
        """Wait for the part that was started first."""
        future, _ = self._under_way[0]
        self._parts.append(future.result())
        self._under_way.popleft()

    def complete(self, nbytes: int) -> str:
        """Wait for all parts, of `nbytes` in total, make the object appear and return its tag."""
        while self._under_way:
            self._take()
        self._parts.sort(key=lambda part: int(part["PartNumber"]))
        tag = run(self._complete(nbytes))
        self.upload_id = ""
        return tag

    def abort(self) -> None:
        """Abort the upload, so that no invisible parts remain that are charged for."""
        for future, _ in self._under_way:
            future.cancel()
        self._under_way.clear()
        upload_id, self.upload_id = self.upload_id, ""
        if upload_id:
            try:
                self._bucket.end_uploads([(self._key, upload_id)])
            except OSError as err:  # the error that led to the abort is the one to raise
                notice("cannot abort the upload, so its invisible parts remain: %s", err)

    @property
    def _names(self) -> dict[str, Any]:
        return {"Key": self._key, "UploadId": self.upload_id}

    def _tag(self) -> str:
        """Return the tag that S3 gives the object, whose parts all have arrived; "" if unknown."""
        with suppress(ValueError):  # tags of another kind
            tags = b"".join(bytes.fromhex(part["ETag"].strip('"')) for part in self._parts)
            return f'"{md5(tags, usedforsecurity=False).hexdigest()}-{len(self._parts)}"'
        return ""

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
                    **self._bucket.condition,
                )
            except (FileNotFoundError, FileExistsError) as err:
                # An earlier try may have succeeded without a response: the upload is gone, or the
                # object exists, which then has these parts.
                tag = self._tag() if isinstance(err, FileExistsError) else None
                own = await self._bucket.own_tag(self._key, tag, nbytes) if attempts > 1 else None
                if own is None:
                    raise
                return own
            return str(answer.get("ETag") or "")

        return await retry(attempt, "the end of the upload", self._bucket.name)


class MultipartUpload:
    """Sink for an object in S3 that is written front to back.

    `front_nbytes` at the beginning, at least one part, 8 MiB, may be replaced until `commit`.
    """

    def __init__(
        self, url: str, options: dict[str, Any], front_nbytes: int, *, overwrite: bool = True
    ) -> None:
        self._bucket = Bucket(url, options, overwrite=overwrite)
        self.name: str | None = self._bucket.name
        self._upload = PartsUpload(self._bucket, self._bucket.key)
        self._front_nbytes = max(front_nbytes, _PART_NBYTES)
        self._front = bytearray()
        self._pending = bytearray()
        self._nparts = 1
        self._nbytes = 0

    def write(self, data: BytesLike) -> None:
        """Append `data`."""
        data = memoryview(data)
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

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Replace bytes at the beginning of the object.

        Raises
        ------
        ValueError
            Some of them have been sent.
        """
        if offset + len(data) > len(self._front):
            raise ValueError(f"bytes {offset} to {offset + len(data)} have already been sent")
        self._front[offset : offset + len(data)] = data

    def commit(self) -> None:
        """Send the remaining bytes and make the object appear as a whole."""
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
        """Discard everything that was sent."""
        self._upload.abort()

    def _send(self) -> None:
        self._nparts += 1
        data, self._pending = bytes(self._pending), bytearray()
        self._start(self._nparts, data)

    def _start(self, number: int, data: bytes) -> None:
        self._upload.start(
            number, lambda number, names: send_part(self._bucket, number, names, data)
        )


async def send_part(bucket: Bucket, number: int, names: dict[str, Any], data: bytes) -> str:
    """Send a part from memory and return its tag."""
    answer = await bucket.request(
        "upload_part", f"part {number}", PartNumber=number, Body=data, **names
    )
    return str(answer["ETag"])
