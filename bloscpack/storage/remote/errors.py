"""Translation of client errors into the exceptions of this package.

An error that may not recur is a `TransientError`, which never leaves this folder.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from ...exceptions import FileChangedError, RemoteError, UnsupportedError
from ..url import without_secrets


@contextmanager
def url_libraries() -> Iterator[None]:
    """Name the extras to install if an import in the body fails."""
    try:
        yield
    except ImportError as err:
        raise ImportError(
            f"URLs need fsspec and aiohttp ({err}): pip install 'bloscpack[http]'"
            " (for S3 'bloscpack[s3]')",
            name=err.name,
        ) from err


with url_libraries():
    import aiohttp

_TRANSIENT_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
# Error codes of the S3 API; some come with a status that is not transient.
_TRANSIENT_CODES = frozenset(
    (
        "BandwidthLimitExceeded",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestTimeTooSkewed",
        "RequestTimeout",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
    )
)
# Parts of the names of errors of botocore that a retry may avoid.
_TRANSIENT_NAMES = ("Timeout", "Connection", "Streaming", "IncompleteRead")
# Errors that are raised without translation.
OWN_ERRORS = (UnsupportedError, FileChangedError, RemoteError, ImportError)
# Longest quote of a foreign error, in characters; some servers send whole pages.
_MAX_WORDS = 500


class TransientError(Exception):
    """Failure that a retry may avoid."""


def changed_error(name: str, why: str) -> FileChangedError:
    """Return the error for an object that changed after it was opened."""
    message = f"the object has changed since it was opened ({why}); reopen it"
    return FileChangedError(message).at(path=name)


def no_ranges_error(name: str, length: int | None) -> UnsupportedError:
    """Return the error for a server that ignores the Range header."""
    what = "all of it" if length is None else f"all of its {length} bytes"
    message = (
        f"asked for a part, the server answers with {what}; use a server that supports ranges "
        "(nginx, Apache, an object store), or copy the file and open the copy"
    )
    return UnsupportedError(message).at(path=name)


def s3_status(err: BaseException) -> int | None:
    """Return the HTTP status that caused an error of s3fs or botocore."""
    seen: BaseException | None = err
    while seen is not None:
        response = getattr(seen, "response", None)
        if isinstance(response, dict):
            status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            code = response.get("Error", {}).get("Code")
            if code in _TRANSIENT_CODES:
                return 503
            return status if isinstance(status, int) else None
        seen = seen.__cause__
    return None


def status_of(err: BaseException) -> int | None:
    """Return the HTTP status in an error of another client, or None."""
    for name in ("status", "status_code", "code"):
        value = getattr(err, name, None)
        if isinstance(value, int):
            return value
    return None


def translate(err: Exception, status: int | None, name: str) -> Exception:
    """Return the exception to raise for an error of a client, with the name of the object."""
    if isinstance(err, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(2, "no such object, or no permission to see it", name)
    if isinstance(err, PermissionError) or status in (401, 403):
        return PermissionError(13, f"access was refused: {message_of(err)}", name)
    if "Credentials" in type(err).__name__:
        advice = "storage_options={'anon': True} reads public objects"
        return PermissionError(13, f"{message_of(err)}; {advice}", name)
    if isinstance(err, IsADirectoryError):
        return IsADirectoryError(21, "is a folder", name)
    is_transient = (
        status in _TRANSIENT_STATUS
        if status is not None
        else isinstance(err, OSError | asyncio.TimeoutError | aiohttp.ClientError | EOFError)
        or any(name in type(err).__name__ for name in _TRANSIENT_NAMES)
    )
    if is_transient and not isinstance(
        err, aiohttp.InvalidURL | aiohttp.ClientConnectorCertificateError
    ):
        return TransientError(message_of(err))
    return RemoteError(message_of(err)).at(path=name)


def message_of(err: BaseException) -> str:
    """Return the type and message of an error, if it has one, without secrets."""
    if isinstance(err, aiohttp.TooManyRedirects):
        return "too many redirects"
    if isinstance(err, aiohttp.ClientResponseError):
        return f"HTTP status {err.status} ({_line(err.message)})"
    text = _line(str(err))
    return f"{type(err).__name__}: {text}" if text else type(err).__name__


def cause_of(err: Exception) -> Exception:
    """Return the exception to chain as the cause: a copy without secrets if `err` holds one."""
    seen: BaseException | None = err
    while seen is not None:
        text = str(seen)
        if without_secrets(text) != text:
            without: Exception = aiohttp.ClientError(message_of(err))
            return without
        seen = seen.__cause__ or seen.__context__
    return err


def _line(text: str) -> str:
    """Return a foreign message as one short line without secrets."""
    return " ".join(without_secrets(text).split())[:_MAX_WORDS]
