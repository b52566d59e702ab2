"""An object in S3 that is made of others there: S3 copies them, and few bytes pass through here.

What S3 puts together are parts of 5 MiB at least, but for the last. Whatever is smaller, and the
beginning of the object, is fetched, with as much of what follows as is needed, and sent in parts of
such a size; all else is copied. The most parts are 10,000: when most of these are used, the next
are put together to objects of their own, which are copied then.
"""

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from ...exceptions import FileChangedError
from ...types import BytesLike
from .backends import S3Object
from .client import MAX_REQUESTS
from .errors import about, s3_status
from .partobjects import note_upload
from .retry import get_all, run
from .s3 import Bucket
from .s3upload import PART_WEIGHT, PartsUpload, Send, sent

# The least that S3 takes for a part but the last.
_LEAST_NBYTES = 5 << 20
# The most for one copy: S3 takes 5 GiB, but smaller ones run side by side, and are soon done again.
_MAX_COPY_NBYTES = 1 << 30
# Parts after which the next go into groups, and how many make one.
_MAX_SINGLE = 8000
_GROUP = 1000
# Of a copy, which takes no memory.
_COPY_WEIGHT = 1


class Extent(NamedTuple):
    """Bytes of an object: `size` and `tag` are those of all of it, if they are known."""

    key: str
    start: int
    stop: int
    size: int = -1
    tag: str = ""


class JoinedUpload:
    """A sink for an object in S3 that also takes other objects of its bucket.

    Parameters
    ----------
    url : str
        Of the object.
    options : mapping
        For s3fs.
    folder : str
        URL, without a slash at the end, of what is below it: objects to be taken, and what whoever
        clears it has to know.
    seen : mapping of str to (int, str)
        Size and tag of objects there, by their names: those that they must still have.

    Attributes
    ----------
    name : str
        The URL, for messages.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, Any],
        folder: str,
        seen: Mapping[str, tuple[int, str]],
    ) -> None:
        self._options = dict(options)
        self._bucket = Bucket(url, self._options)
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
        # In order; fewer than the least that makes a part, but for a moment.
        self._pending: list[bytes | Extent] = []
        self._pending_nbytes = 0

    def write(self, data: BytesLike) -> None:
        """Append bytes."""
        view = memoryview(data)
        for start in range(0, len(view), _LEAST_NBYTES):
            piece = bytes(view[start : start + _LEAST_NBYTES])
            self._add(piece, len(piece))

    def write_at(self, offset: int, data: BytesLike) -> None:
        """Refuse to replace bytes, which may be sent.

        Raises
        ------
        ValueError
            In any case.
        """
        raise ValueError(f"bytes {offset} to {offset + len(data)} were sent already")

    def append_part(self, key: str, nbytes: int) -> None:
        """Append the first `nbytes` of an object in the folder, by its name there.

        Trouble with it may also be raised by what is called later.

        Raises
        ------
        FileNotFoundError, FileChangedError, RemoteError
            It is gone, or another one by now, or cannot be copied.
        """
        whole = Extent(self._folder + key, 0, nbytes, *self._seen.get(key, (-1, "")))
        wanted = _LEAST_NBYTES - self._pending_nbytes if self._pending else 0
        fetched = nbytes if nbytes - wanted < _LEAST_NBYTES else wanted
        if fetched:
            self._add(whole._replace(stop=fetched), fetched)
        if fetched < nbytes:
            self._copy_all(whole._replace(start=fetched), self._start)

    def commit(self) -> None:
        """Make the object appear when S3 has all of it."""
        if not self._nparts:
            data = run(self._bytes_of(self._pending))
            self._bucket.put(data)
            return
        if self._pending:  # of any size: the last one
            self._send_pending()
        self._end_group()
        self._whole.complete(self._nbytes)

    def abort(self) -> None:
        """Leave nothing behind but objects for groups."""
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
            return await sent(self._bucket, number, names, await self._bytes_of(pieces))

        self._start(send, nbytes)

    def _start(self, send: Send, nbytes: int, weight: int = PART_WEIGHT) -> None:
        """Start a part of the object, or one of a group."""
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
            # Whoever is stopped in between leaves an upload without parts, which costs nothing.
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
        """Return what has S3 copy an extent."""
        key, start, stop, _, tag = extent

        async def send(number: int, names: dict[str, Any]) -> str:
            try:
                answer = await self._bucket.surely(
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
        message = f"the object {key!r} has changed while it was copied; begin anew"
        return about(FileChangedError(message), self._bucket.name)


def _cut(extent: Extent) -> Iterator[Extent]:
    """Yield parts of an extent that one copy takes, of about the same size."""
    start, stop = extent.start, extent.stop
    count = -(-(stop - start) // _MAX_COPY_NBYTES)
    step = -(-(stop - start) // count)
    for position in range(start, stop, step):
        yield extent._replace(start=position, stop=min(position + step, stop))
