"""Requests to S3 through the client that s3fs has, tried again as all are, their errors named."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...exceptions import RemoteError
from ..url import shown
from .client import client
from .errors import OURS, about, cause_of, named, s3_status
from .retry import run, surely

# The most that one request removes.
_MAX_REMOVED = 1000


class Bucket:
    """The bucket that a URL names, and the key of the object there.

    Parameters
    ----------
    url : str
        Of an object, or of what keys begin with.
    options : dict
        For s3fs.

    Attributes
    ----------
    filesystem : S3FileSystem
        For this process.
    name : str
        The URL, for messages.
    bucket, key : str
        Its parts.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.filesystem, path = client(url, options)
        self.name = shown(url)
        self.bucket, self.key, _ = self.filesystem.split_path(path)

    def surely(
        self, method: str, what: str, **arguments: Any
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Return the answer to a request about the object, or to one that names a key or none.

        Raises
        ------
        FileNotFoundError, PermissionError, RemoteError
            What is wrong; `what` says of what.
        """
        attempt: Callable[[], Awaitable[Any]] = lambda: self.call(method, **arguments)  # noqa: E731
        return surely(attempt, what, self.name)

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Make one request; errors are named, or a `TransientError`."""
        if not {"Key", "Prefix", "Delete"} & arguments.keys():
            arguments["Key"] = self.key
        try:
            answer: dict[str, Any] = await self.filesystem._call_s3(
                method, Bucket=self.bucket, **arguments
            )
        except OURS:
            raise
        except Exception as err:
            raise named(err, s3_status(err), self.name) from cause_of(err)
        return answer

    def head(self) -> dict[str, Any]:
        """Return what is told of the object: ETag, size, time.

        Raises
        ------
        FileNotFoundError
            There is none.
        """
        return run(self.surely("head_object", "the object"))

    def put(self, data: bytes, key: str | None = None) -> None:
        """Make a small object."""
        run(self.surely("put_object", "the object", Key=key or self.key, Body=data))

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; none of them has to be there.

        Raises
        ------
        PermissionError, RemoteError
            One cannot be removed.
        """
        for start in range(0, len(keys), _MAX_REMOVED):
            named_keys = [{"Key": key} for key in keys[start : start + _MAX_REMOVED]]
            wanted = {"Objects": named_keys, "Quiet": True}
            answer = run(self.surely("delete_objects", "the removal", Delete=wanted))
            for error in answer.get("Errors") or ():
                message = f"{error.get('Key')}: {error.get('Code')}: {error.get('Message')}"
                if error.get("Code") == "AccessDenied":
                    raise PermissionError(13, f"access was refused: {message}", self.name)
                raise about(RemoteError(f"an object stays: {message}"), self.name)

    def keys(self, prefix: str) -> Iterator[str]:
        """Yield the keys that begin with `prefix`."""
        more = {"ContinuationToken": "NextContinuationToken"}
        for answer in self._pages("list_objects_v2", prefix, more):
            yield from (found["Key"] for found in answer.get("Contents") or ())

    def uploads(self, prefix: str) -> Iterator[tuple[str, str]]:
        """Yield key and id of each unfinished upload whose key begins with `prefix`."""
        more = {"KeyMarker": "NextKeyMarker", "UploadIdMarker": "NextUploadIdMarker"}
        for answer in self._pages("list_multipart_uploads", prefix, more):
            yield from ((found["Key"], found["UploadId"]) for found in answer.get("Uploads") or ())

    def _pages(self, method: str, prefix: str, more: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """Yield the answers that make a list; the next is asked for with values from the last."""
        arguments: dict[str, str] = {}
        while True:
            answer = run(self.surely(method, "a list", Prefix=prefix, **arguments))
            yield answer
            if not answer.get("IsTruncated"):
                return
            before, arguments = arguments, {name: answer.get(of, "") for name, of in more.items()}
            if arguments == before or not any(arguments.values()):
                raise about(RemoteError("a list is cut off, and does not tell where"), self.name)

    def end_uploads(self, uploads: Iterable[tuple[str, str]]) -> None:
        """Give up unfinished uploads, key and id each; those that have ended are no error."""
        for key, upload_id in uploads:
            try:
                run(
                    self.surely(
                        "abort_multipart_upload",
                        "the end of an upload",
                        Key=key,
                        UploadId=upload_id,
                    )
                )
            except FileNotFoundError:
                continue
