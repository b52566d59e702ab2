"""What goes wrong with remote objects, named: whatever library it comes from.

Trouble that may have passed at the next try is a `TransientError`, which never leaves this folder.
"""

import asyncio
from typing import TypeVar

try:
    import aiohttp
except ImportError as err:
    raise ImportError(
        f"URLs need fsspec and aiohttp ({err}): pip install 'bloscpack[http]'"
        " (for S3 'bloscpack[s3]')"
    ) from err

from ...exceptions import FileChangedError, RemoteError, UnsupportedError
from ..url import without_secrets

_TRANSIENT_STATUS = frozenset((408, 425, 429, 500, 502, 503, 504))
# Of S3 and what speaks its language, some of them with a status that lasts.
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
# Errors that need no other words.
OURS = (UnsupportedError, FileChangedError, RemoteError, ImportError)
Ours = TypeVar("Ours", UnsupportedError, FileChangedError, RemoteError)


# Characters of an error of others that are told; some servers send whole pages.
_MAX_WORDS = 500


class TransientError(Exception):
    """Trouble that may have passed at the next try."""


def changed(name: str, why: str) -> FileChangedError:
    """Return the error to raise for an object that is another one by now."""
    message = f"the object has changed since it was opened ({why}); open it anew"
    return about(FileChangedError(message), name)


def about(error: Ours, name: str) -> Ours:
    """Return an error with the name of the object it is about."""
    error.path = name
    return error


def no_ranges(name: str, length: int | None) -> UnsupportedError:
    """Return the error to raise for a server that sends all where a part was asked for."""
    what = "all of it" if length is None else f"all of its {length} bytes"
    message = (
        f"asked for a part, the server answers with {what}; have it served by one that knows "
        "ranges (nginx, Apache, an object store), or copy the file and open the copy"
    )
    return about(UnsupportedError(message), name)


def s3_status(err: BaseException) -> int | None:
    """Return the HTTP status that an error of s3fs or botocore stems from."""
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
    """Return the HTTP status that an error of another client tells."""
    for name in ("status", "status_code", "code"):
        value = getattr(err, name, None)
        if isinstance(value, int):
            return value
    return None


def named(err: Exception, status: int | None, name: str) -> Exception:
    """Return what to raise for an error of a client: ours, with the name of the object."""
    if isinstance(err, FileNotFoundError) or status in (404, 410):
        return FileNotFoundError(2, "no such object, or none that may be seen", name)
    if isinstance(err, PermissionError) or status in (401, 403):
        return PermissionError(13, f"access was refused: {words(err)}", name)
    if "Credentials" in type(err).__name__:
        advice = "storage_options={'anon': True} reads what is public"
        return PermissionError(13, f"{words(err)}; {advice}", name)
    if isinstance(err, IsADirectoryError):
        return IsADirectoryError(21, "is a folder", name)
    is_transient = (
        status in _TRANSIENT_STATUS
        if status is not None
        else isinstance(err, OSError | asyncio.TimeoutError | aiohttp.ClientError | EOFError)
        or "Timeout" in type(err).__name__
        or "Connection" in type(err).__name__
    )
    if is_transient and not isinstance(
        err, aiohttp.InvalidURL | aiohttp.ClientConnectorCertificateError
    ):
        return TransientError(words(err))
    return about(RemoteError(words(err)), name)


def words(err: BaseException) -> str:
    """Return the message of an error, which some have none of, without what is secret in it."""
    if isinstance(err, aiohttp.TooManyRedirects):
        return "it is somewhere else, again and again (too many redirects)"
    if isinstance(err, aiohttp.ClientResponseError):
        return f"HTTP status {err.status} ({_line(err.message)})"
    text = _line(str(err))
    return f"{type(err).__name__}: {text}" if text else type(err).__name__


def cause_of(err: Exception) -> Exception:
    """Return what to name as the cause: the error, or its words if it tells a secret."""
    seen: BaseException | None = err
    while seen is not None:
        text = str(seen)
        if without_secrets(text) != text:
            told: Exception = aiohttp.ClientError(words(err))
            return told
        seen = seen.__cause__ or seen.__context__
    return err


def _line(text: str) -> str:
    """Return the words of others as a short line."""
    return " ".join(without_secrets(text).split())[:_MAX_WORDS]
