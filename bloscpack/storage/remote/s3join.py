"""Objects in S3 that are joined from other objects, mostly by server-side copies.

All parts of a multipart upload but the last must have at least 5 MiB. Smaller pieces, and the
beginning of the object, are fetched together with enough of the bytes that follow, and uploaded as
parts of that size. Everything else is copied by S3. An upload has at most 10,000 parts. When 8,000
of these are used, every 1,000 further parts are joined into an intermediate object, and that is
copied as one part.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...exceptions import FileChangedError
from ...types import BytesLike
from ..coalescing import MAX_REQUESTS
from .backends import S3Object
from .errors import s3_status
from .partobjects import note_upload
from .retry import get_all, run
from .s3 import Bucket
from .s3upload import PART_WEIGHT, PartsUpload, Send, send_part

# Smallest part that S3 accepts, except for the last one.
_LEAST_NBYTES = 5 << 20
# Largest copy. S3 accepts 5 GiB, but smaller copies run in parallel and are cheaper to retry.
_MAX_COPY_NBYTES = 1 << 30
# Number of single parts before groups are formed, and number of parts in a group.
_MAX_SINGLE = 8000
_GROUP = 1000
# Weight of a copy, which takes no memory here.
_COPY_WEIGHT = 1


class Extent(NamedTuple):
    """Byte range of an object; `size` and `tag` are those of the whole object, if known."""

    key: str
    start: int
    stop: int
    size: int = -1
    tag: str = ""


class JoinedUpload:
    """Sink for an object in S3 that also takes other objects of its bucket.

    `folder` is the URL, without a final slash, of the folder with the objects to join. Unfinished
    uploads are recorded there, so that clearing the folder can abort them. `seen` has size and tag,
    by name, that objects in the folder must still have.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        folder: str,
        seen: Mapping[str, tuple[int, str]],
        *,
        overwrite: bool = True,
    ) -> None:
        self._options = dict(options)
        self._bucket = Bucket(url, self._options, overwrite=overwrite)
        self.name: str | None = self._bucket.name
        self._folder_url = folder
        self._folder = Bucket(folder, self._options).key + "/"
        self._seen = seen
        self._whole = PartsUpload(self._bucket, self._bucket.key)
        self._nparts = 0
        self._nbytes = 0
        self._group: PartsUpload | None = None
        self._group_key = ""
        self._group_nparts = self._group_nbytes = 0
        # Pieces in order; sent when they reach `_LEAST_NBYTES` in total.
        self._pending: list[bytes | Extent] = []
        self._pending_nbytes = 0

    def write(self, data: BytesLike) -> None:
        """Append bytes."""
        view = memoryview(data)
        for start in range(0, len(view), _LEAST_NBYTES):
            piece = bytes(view[start : start + _LEAST_NBYTES])
            self._add(piece, len(piece))

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Refuse to replace bytes, as they may have been sent.

        Raises
        ------
        ValueError
            Always.
        """
        raise ValueError(f"bytes {offset} to {offset + len(data)} have already been sent")

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of the object `key` in the folder.

        Errors may also be raised by later calls.

        Raises
        ------
        FileNotFoundError, FileChangedError, RemoteError
            It was removed or replaced, or cannot be copied.
        """
        whole = Extent(self._folder + key, 0, nbytes, *self._seen.get(key, (-1, "")))
        wanted = _LEAST_NBYTES - self._pending_nbytes if self._pending else 0
        fetched = nbytes if nbytes - wanted < _LEAST_NBYTES else wanted
        if fetched:
            self._add(whole._replace(stop=fetched), fetched)
        if fetched < nbytes:
            self._copy_all(whole._replace(start=fetched), self._start)

    def commit(self) -> None:
        """Make the object appear once S3 has all of it."""
        if not self._nparts:
            data = run(self._bytes_of(self._pending))
            self._bucket.put(data)
            return
        if self._pending:  # the last part may have any size
            self._send_pending()
        self._end_group()
        self._whole.complete(self._nbytes)

    def abort(self) -> None:
        """Discard everything except the objects of groups, which clearing the folder removes."""
        if self._group is not None:
            self._group.abort()
        self._whole.abort()

    def _add(self, piece: bytes | Extent, nbytes: int) -> None:
        self._pending.append(piece)
        self._pending_nbytes += nbytes
        if self._pending_nbytes >= _LEAST_NBYTES:
            self._send_pending()

    def _send_pending(self) -> None:
        pieces, nbytes = self._pending, self._pending_nbytes
        self._pending, self._pending_nbytes = [], 0

        async def send(number: int, names: dict[str, Any]) -> str:
            return await send_part(self._bucket, number, names, await self._bytes_of(pieces))

        self._start(send, nbytes)

    def _start(self, send: Send, nbytes: int, weight: int = PART_WEIGHT) -> None:
        """Start a part of the object or of a group."""
        if self._nparts < _MAX_SINGLE:
            self._start_single(send, nbytes, weight)
            return
        if self._group is None:
            self._group_key = f"{self._folder}joined-{os.urandom(8).hex()}"
            self._group = PartsUpload(self._bucket, self._group_key)
            self._group_nparts = self._group_nbytes = 0
        self._group_nparts += 1
        self._group_nbytes += nbytes
        self._group.start(self._group_nparts, send, weight)
        if self._group_nparts == _GROUP:
            self._end_group()

    def _start_single(self, send: Send, nbytes: int, weight: int) -> None:
        if not self._whole.upload_id:
            # An interruption between the two requests leaves an upload without parts: no cost.
            note_upload(self._folder_url, self._options, self._whole.begin())
        self._nparts += 1
        self._nbytes += nbytes
        self._whole.start(self._nparts, send, weight)

    def _end_group(self) -> None:
        group, self._group = self._group, None
        if group is None:
            return
        try:
            tag = group.complete(self._group_nbytes)
        except BaseException:
            group.abort()
            raise
        size = self._group_nbytes
        self._copy_all(Extent(self._group_key, 0, size, size, tag), self._start_single)

    def _copy_all(self, extent: Extent, start: Callable[[Send, int, int], None]) -> None:
        for part in _cut(extent):
            start(self._copy(part), part.stop - part.start, _COPY_WEIGHT)

    def _copy(self, extent: Extent) -> Send:
        """Return a function that makes S3 copy an extent."""
        key, start, stop, _, tag = extent

        async def send(number: int, names: dict[str, Any]) -> str:
            try:
                answer = await self._bucket.request(
                    "upload_part_copy",
                    f"part {number}, a copy",
                    PartNumber=number,
                    CopySource={"Bucket": self._bucket.bucket, "Key": key},
                    CopySourceRange=f"bytes={start}-{stop - 1}",
                    **({"CopySourceIfMatch": tag} if tag else {}),
                    **names,
                )
            except OSError as err:
                if s3_status(err) == 412:
                    raise self._changed(key) from err
                raise
            return str(answer["CopyPartResult"]["ETag"])

        return send

    async def _bytes_of(self, pieces: list[bytes | Extent]) -> bytes:
        gate = asyncio.Semaphore(MAX_REQUESTS)

        async def fetched(piece: bytes | Extent) -> bytes:
            if isinstance(piece, bytes):
                return piece
            async with gate:
                return await self._fetched(piece)

        return b"".join(await asyncio.gather(*map(fetched, pieces)))

    async def _fetched(self, piece: Extent) -> bytes:
        key, start, stop, size, tag = piece
        remote = S3Object(self._bucket.filesystem, f"{self._bucket.bucket}/{key}", str(key))
        (answer,) = await get_all(remote, [(start, stop - start)], self._bucket.name, False)
        is_other = size >= 0 and (answer.size, answer.tag) != (size, tag)
        if is_other or len(answer.data) != stop - start:
            raise self._changed(key)
        return answer.data

    def _changed(self, key: str) -> FileChangedError:
        message = f"the object {key!r} changed while it was being copied; start the join again"
        return FileChangedError(message).at(path=self._bucket.name)


def _cut(extent: Extent) -> Iterator[Extent]:
    """Split an extent into parts of about equal size, each of at most `_MAX_COPY_NBYTES`."""
    start, stop = extent.start, extent.stop
    count = -(-(stop - start) // _MAX_COPY_NBYTES)
    step = -(-(stop - start) // count)
    for position in range(start, stop, step):
        yield extent._replace(start=position, stop=min(position + step, stop))
