"""S3 server that checks copies, and can be observed and modified at each request."""

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from ..servers import SIGNED, Answer, S3Server


def nothing_before(method: str, path: str) -> Answer | None:
    return None


def nothing_after(method: str, path: str, answer: Answer) -> Answer:
    return answer


class CopyingServer(S3Server):
    """S3 server that, unlike moto, compares the ETag of copied objects and knows ended uploads.

    Attributes
    ----------
    copied : list of (str, str)
        Key and range of each copy.
    before : callable
        Called with the method and path of each request. A result other than None is the answer, and
        the request is not executed.
    after : callable
        Called with the method, path and answer; its result is the answer.
    page : int
        Largest number of entries in one page of a listing; 0 for all.
    """

    def __init__(self) -> None:
        super().__init__()
        self.copied: list[tuple[str, str]] = []
        self.before: Callable[[str, str], Answer | None] = nothing_before
        self.after: Callable[[str, str, Answer], Answer] = nothing_after
        self.page = 0
        self._ended: set[str] = set()

    def clear(self) -> None:
        super().clear()
        self.copied.clear()
        self.before, self.after = nothing_before, nothing_after
        self.page = 0

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        if headers is SIGNED or not headers:  # of the tests
            return super().answer(method, path, headers, body)
        answer = self.before(method, path)
        if answer is None:
            answer = self.after(method, path, self._answer(method, path, headers, body))
        return answer

    def _answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        upload = parse_qs(urlsplit(path).query).get("uploadId", [""])[0]
        if upload in self._ended:
            return Answer(404, {}, b"<Error><Code>NoSuchUpload</Code></Error>")
        source = headers.get("x-amz-copy-source")
        if source is not None:
            _, _, key = unquote(source).lstrip("/").partition("/")
            found = super().answer("HEAD", f"/box/{key}", SIGNED, b"")
            if headers.get("x-amz-copy-source-if-match") not in (None, found.headers.get("Etag")):
                return Answer(412, {}, b"<Error><Code>PreconditionFailed</Code></Error>")
            self.copied.append((key, headers["x-amz-copy-source-range"]))
        if self.page and "list-type" in urlsplit(path).query:
            path = f"{path}&max-keys={self.page}"
        answer = super().answer(method, path, headers, body)
        if upload and method in ("POST", "DELETE") and answer.status in (200, 204):
            self._ended.add(upload)
        return answer

    def put(self, key: str, data: bytes) -> str:
        answer = super().answer("PUT", f"/box/{key}", SIGNED, data)
        return super().put(key, data) if answer.status == 404 else f"s3://box/{key}"

    def remove_all(self) -> None:
        """Empty the bucket "box" without log entries."""
        self.answer("POST", "/moto-api/reset", {}, b"")
        self.answer("PUT", "/box", SIGNED, b"")

    def remove_uploads(self) -> None:
        """Abort all uploads without log entries."""
        listing = self.answer("GET", "/box?uploads", SIGNED, b"").body.decode()
        for part in listing.split("<Upload>")[1:]:
            key = part.partition("<Key>")[2].partition("<")[0]
            upload = part.partition("<UploadId>")[2].partition("<")[0]
            self.answer("DELETE", f"/box/{key}?uploadId={upload}", SIGNED, b"")
