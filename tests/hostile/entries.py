"""Every way to read a file, as functions from its bytes to a value that can be compared."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bloscpack as bp
from bloscpack.append import append_fp
from bloscpack.exceptions import (
    CodecError,
    FormatError,
    MetadataSectionTooSmall,
    NotANumpyArray,
    NotEnoughSpace,
    NotFoundError,
    ObjectNumpyArrayRejection,
    UnsupportedError,
)

READ_ERRORS = (FormatError, CodecError, UnsupportedError)
ARRAY_ERRORS = (*READ_ERRORS, NotANumpyArray, ObjectNumpyArrayRejection)
APPEND_ERRORS = (*ARRAY_ERRORS, NotEnoughSpace, MetadataSectionTooSmall)
# Errors of files that are opened for their clips, records or samples.
OPEN_ERRORS = (*READ_ERRORS, NotFoundError)
# Reasons for which an append refuses a valid file with a plain ValueError.
_APPEND_MESSAGES = ("are not whole rows of the array", "no chunk size")

Reader = Callable[[bytes], Any]

# Ways that do not read the last bytes of the file.
PARTIAL = frozenset({"slices", "read_chunk"})


def outcome(name: str, read: Reader, data: bytes) -> tuple[str, Any]:
    """Return ("value", value), ("refused", error) or, for any other error, ("fault", error)."""
    documented = APPEND_ERRORS if name == "append" else ARRAY_ERRORS
    if " " in name:  # "store clips": a type that is opened, and a way to read it
        documented = OPEN_ERRORS
    try:
        return "value", read(data)
    except documented as err:
        return "refused", err
    except Exception as err:
        is_refusal = name == "append" and type(err) is ValueError
        if is_refusal and any(message in str(err) for message in _APPEND_MESSAGES):
            return "refused", err
        return "fault", err


class Errors:
    """Collects refusals, so that the reads after a refusal are still tried."""

    def __init__(self) -> None:
        self.first: Exception | None = None

    def attempt(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except OPEN_ERRORS as err:
            self.first = self.first or err
            return None

    def checked(self, found: Any) -> Any:
        if self.first is not None:
            raise self.first
        return found


def describe(array: Any) -> tuple[str, tuple[int, ...], bytes]:
    array = np.asarray(array)
    return str(array.dtype), array.shape, array.tobytes()


def _open(data: bytes, read: Callable[[bp.Array], Any]) -> Any:
    with bp.open(data) as array:
        return read(array)


def slices(array: bp.Array) -> list[Any]:
    """Return selections at both ends and in between, by one index and by steps."""
    if not array.shape:
        return [describe(array[()])]
    length = array.shape[0]
    keys: list[Any] = [slice(0, 3), slice(-3, None), slice(None, None, 5), slice(None, None, -2)]
    if length:
        keys += [0, -1, length // 2]
    return [describe(array[key]) for key in keys]


def verify(data: bytes) -> tuple[int, int]:
    """Verify; reported damage counts as a refusal."""
    report = bp.verify(data)
    if not report.ok:
        raise FormatError(report.damage[0].what)
    return report.nchunks, report.nbytes


def append(data: bytes) -> tuple[bytes, Any]:
    """Append 8 bytes to a copy; a refusal must leave the copy unchanged."""
    file = io.BytesIO(data)
    try:
        append_fp(file, io.BytesIO(b"appended"), 8)
    except BaseException:
        assert file.getvalue() == data, "the file was changed before the error"
        raise
    return bp.unpack_bytes_from_bytes(file.getvalue())


def readers(folder: Path) -> dict[str, Reader]:
    """Return all ways by name; those that take a path write to `folder`."""
    source, target = folder / "file.blp", folder / "content"

    def from_file(read: Callable[[Path], Any]) -> Reader:
        def run(data: bytes) -> Any:
            source.write_bytes(data)
            return read(source)

        return run

    def unpack_file(path: Path) -> tuple[bytes, Any]:
        target.unlink(missing_ok=True)
        try:
            metadata = bp.unpack_file_from_file(path, target)
        except BaseException:
            assert [entry.name for entry in folder.iterdir()] == [path.name], "output is left"
            raise
        return target.read_bytes(), metadata

    return {
        "unpack_bytes_from_bytes": bp.unpack_bytes_from_bytes,
        "unpack_bytes_from_file": from_file(bp.unpack_bytes_from_file),
        "unpack_file_from_file": from_file(unpack_file),
        "unpack_ndarray_from_bytes": lambda data: describe(bp.unpack_ndarray_from_bytes(data)),
        "unpack_ndarray_from_file": from_file(
            lambda path: describe(bp.unpack_ndarray_from_file(path))
        ),
        "load": lambda data: describe(bp.load(data)),
        "load(path)": from_file(lambda path: describe(bp.load(path))),
        "slices": lambda data: _open(data, slices),
        "read_chunk": lambda data: _open(
            data, lambda array: [bytes(array.read_chunk(0)), array.read_chunk(array.nchunks - 1)]
        ),
        "iter_chunks": lambda data: _open(
            data, lambda array: [bytes(part) for part in array.iter_chunks()]
        ),
        "verify": verify,
        "append": append,
    }
