"""Requests to S3 through the client of s3fs, with retries and translated errors."""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from hashlib import md5
from typing import Any

from ...exceptions import RemoteError
from .. import disk
from ..url import shown
from .client import client
from .errors import OWN_ERRORS, cause_of, s3_status, translate
from .retry import retry, run

# Status for a condition that is not met, or that another request has just changed.
_CONDITION_FAILED = (412, 409)
_NOT_IMPLEMENTED = 501
# Field that the response to a request must have.
_FIELDS = {
    "create_multipart_upload": "UploadId",
    "head_object": "ContentLength",
    "put_object": "ETag",
    "upload_part": "ETag",
    "upload_part_copy": "CopyPartResult",
}
# Largest number of keys in one DeleteObjects request.
_MAX_REMOVED = 1000


class Bucket:
    """Bucket and key of an object in S3, or of a key prefix; `name` is the URL, for messages.

    Without `overwrite`, S3 itself refuses to replace an object that exists when another appears.
    """

    def __init__(self, url: str, options: dict[str, Any], *, overwrite: bool = True) -> None:
        self.filesystem, path = client(url, options)
        self.name = shown(url)
        self.condition: dict[str, str] = {} if overwrite else {"IfNoneMatch": "*"}
        self.bucket, self.key, _ = self.filesystem.split_path(path)

    def request(
        self, method: str, what: str, **arguments: Any
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Return the response to a request for the object, or for the key in `arguments`.

        Raises
        ------
        FileNotFoundError, PermissionError, RemoteError
            The request failed; `what` names its subject in the message.
        """
        attempt: Callable[[], Awaitable[Any]] = lambda: self.call(method, **arguments)  # noqa: E731
        return retry(attempt, what, self.name)

    async def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Make one request without retries; a transient failure is a `TransientError`.

        Raises
        ------
        FileExistsError
            The request has a `condition` that is not met.
        """
        if not {"Key", "Prefix", "Delete"} & arguments.keys():
            arguments["Key"] = self.key
        try:
            answer: dict[str, Any] = await self.filesystem._call_s3(
                method, Bucket=self.bucket, **arguments
            )
        except OWN_ERRORS:
            raise
        except Exception as err:
            status = s3_status(err)
            if "IfNoneMatch" in arguments and status in _CONDITION_FAILED:
                raise disk.exists_already(self.name) from cause_of(err)
            if "IfNoneMatch" in arguments and status == _NOT_IMPLEMENTED:
                del arguments["IfNoneMatch"]  # this store has no conditions
                return await self.call(method, **arguments)
            raise translate(err, status, self.name) from cause_of(err)
        field = _FIELDS.get(method)
        if field and field not in answer:
            message = f"the response to {method} has no {field}: the server may not be one of S3"
            raise RemoteError(message).at(path=self.name)
        return answer

    async def own_tag(self, key: str, tag: str | None, nbytes: int) -> str | None:
        """Return the tag of an object that an earlier try may have made without a response.

        None unless it has this size, and this tag if that is known.
        """
        found = await self.call("head_object", Key=key)
        own = str(found.get("ETag") or "")
        return own if found["ContentLength"] == nbytes and tag in (None, own) else None

    def head(self) -> dict[str, Any]:
        """Return the response to HeadObject: ETag, size, time.

        Raises
        ------
        FileNotFoundError
            The object does not exist.
        """
        return run(self.request("head_object", "the object"))

    def put(self, data: bytes, key: str | None = None) -> None:
        """Create a small object."""
        condition = {} if key else self.condition
        where, attempts = key or self.key, 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            try:
                await self.call("put_object", Key=where, Body=data, **condition)
            except FileExistsError:
                tag = f'"{md5(data, usedforsecurity=False).hexdigest()}"'
                if attempts == 1 or await self.own_tag(where, tag, len(data)) is None:
                    raise

        run(retry(attempt, "the object", self.name))

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects; those that do not exist are skipped.

        Raises
        ------
        PermissionError, RemoteError
            One cannot be removed.
        """
        for start in range(0, len(keys), _MAX_REMOVED):
            named_keys = [{"Key": key} for key in keys[start : start + _MAX_REMOVED]]
            wanted = {"Objects": named_keys, "Quiet": True}
            answer = run(self.request("delete_objects", "the removal", Delete=wanted))
            for error in answer.get("Errors") or ():
                message = f"{error.get('Key')}: {error.get('Code')}: {error.get('Message')}"
                if error.get("Code") == "AccessDenied":
                    raise PermissionError(13, f"access was refused: {message}", self.name)
                raise RemoteError(f"an object was not removed: {message}").at(path=self.name)

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
        """Yield the pages of a listing; `more` maps arguments to fields of the previous page."""
        arguments: dict[str, str] = {}
        while True:
            answer = run(self.request(method, "a list", Prefix=prefix, **arguments))
            yield answer
            if not answer.get("IsTruncated"):
                return
            before, arguments = arguments, {name: answer.get(of, "") for name, of in more.items()}
            if arguments == before or not any(arguments.values()):
                message = "a truncated listing has no continuation token"
                raise RemoteError(message).at(path=self.name)

    def end_uploads(self, uploads: Iterable[tuple[str, str]]) -> None:
        """Abort unfinished uploads, key and id each; those that have ended are skipped."""
        for key, upload_id in uploads:
            try:
                run(
                    self.request(
                        "abort_multipart_upload",
                        "the end of an upload",
                        Key=key,
                        UploadId=upload_id,
                    )
                )
            except FileNotFoundError:
                continue
