"""Read damaged bytes in every way and report faults in the outcome.

A reader may return the original value or raise one of the documented errors. If no checksum covers
the damage, it may return another value, but then every way must return the same one.
"""

import hashlib
import io
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from outcomes import NOTHING, READ_ERRORS, Outcomes
from vectors import Vector

import bloscpack as bp
from bloscpack.append import append_fp
from bloscpack.exceptions import (
    MetadataSectionTooSmall,
    NotANumpyArray,
    NotEnoughSpace,
    ObjectNumpyArrayRejection,
)

ARRAY_ERRORS = (*READ_ERRORS, NotANumpyArray, ObjectNumpyArrayRejection)
LAZY_ERRORS = (*READ_ERRORS, ObjectNumpyArrayRejection)
APPEND_ERRORS = (*LAZY_ERRORS, NotEnoughSpace, MetadataSectionTooSmall)
# The two ValueErrors of append that do not report damage.
APPEND_MESSAGES = ("are not whole rows of the array", "no chunk size")


class Judge(Outcomes):
    """Collects the faults found in one damaged file."""

    def __init__(self, vector: Vector, data: bytes, sealed: bool, folder: Path) -> None:
        super().__init__()
        self.vector = vector
        self.data = data
        # Damage can set the id to "no checksum" and so remove the protection; version 3 cannot
        # detect it, nor can it detect that it was version 4.
        has_checksum = data[4:5] != b"\1" and vector.checksum_id(data) != 0
        self.is_sealed = vector.is_sealed and sealed and has_checksum
        self.is_sealed = self.is_sealed and not vector.is_blind_to(data)
        at = vector.layout.metadata
        says_none = at is not None and data[at + 9 : at + 10] == b"\0"
        self.is_meta_sealed = vector.is_meta_sealed and sealed and not says_none
        self.folder = folder

    def check(self, rng: Random) -> list[str]:
        content = self._check_bytes()
        whole = self._check_arrays(content)
        self._check_lazy(whole, rng)
        self._check_verify(whole if self.vector.has_grid else content)
        if rng.random() < 0.25:
            self._check_files(content)
        if rng.random() < 0.5:
            self._check_append(content, rng)
        return self.faults

    def _check_bytes(self) -> Any:
        content = self.outcome(
            "unpack_bytes_from_bytes", READ_ERRORS, lambda: bp.unpack_bytes_from_bytes(self.data)
        )
        if content is NOTHING:
            return content
        payload, metadata = content
        if self.is_sealed:
            digest = hashlib.sha256(payload).hexdigest()
            if digest != self.vector.payload_sha256:
                self.fault(f"unpack_bytes_from_bytes: another payload, {len(payload)} bytes")
        if self.is_meta_sealed and metadata != self.vector.metadata:
            self.fault(f"unpack_bytes_from_bytes: other metadata, {str(metadata)[:80]}")
        return content

    def _check_arrays(self, content: Any) -> Any:
        packed = self.outcome(
            "unpack_ndarray_from_bytes",
            ARRAY_ERRORS,
            lambda: bp.unpack_ndarray_from_bytes(self.data),
        )
        whole = self.outcome("load", LAZY_ERRORS, lambda: bp.load(self.data))
        for name, array in (("unpack_ndarray_from_bytes", packed), ("load", whole)):
            if array is NOTHING:
                continue
            if content is NOTHING:
                if not self.vector.has_grid:
                    self.fault(f"{name}: a value where unpack_bytes_from_bytes raises")
            elif stored_order(array) != content[0]:
                self.fault(f"{name}: not the bytes that unpack_bytes_from_bytes gives")
            original = self.vector.array
            if self.is_sealed and self.is_meta_sealed:
                if array.dtype != original.dtype or array.shape != original.shape:
                    self.fault(f"{name}: {array.dtype} {array.shape}")
                elif array.tobytes() != original.tobytes():
                    self.fault(f"{name}: another array")
        values = [item_bytes(each) for each in (packed, whole) if each is not NOTHING]
        if self.vector.has_grid and len(set(values)) > 1:
            self.fault("load: not what unpack_ndarray_from_bytes gives")
        return whole

    def _check_lazy(self, whole: Any, rng: Random) -> None:
        array = self.outcome("open", LAZY_ERRORS, lambda: bp.open(self.data))
        if array is NOTHING:
            return
        with array:
            self._check_properties(array)
            if array.dtype.hasobject:
                self.fault("open: an object dtype")
            self._check_chunks(array, whole, rng)
            for selection in selections(array.shape, rng):
                part = self.outcome(
                    f"array[{selection}]", READ_ERRORS, lambda key=selection: array[key]
                )
                if part is NOTHING or whole is NOTHING:
                    continue
                if item_bytes(part) != item_bytes(whole[selection]):
                    self.fault(f"array[{selection}]: not what the whole has there")

    def _check_chunks(self, array: bp.Array, whole: Any, rng: Random) -> None:
        one: Any = NOTHING
        if array.nchunks > 0:
            index = rng.randrange(min(array.nchunks, 1 << 32))
            one = self.outcome("read_chunk", READ_ERRORS, lambda: array.read_chunk(index))
        chunks = self.outcome("iter_chunks", READ_ERRORS, lambda: b"".join(array.iter_chunks()))
        if whole is NOTHING:
            return
        if one is not NOTHING and self._is_other_chunk(array, whole, index, one):
            self.fault(f"read_chunk({index}): not the bytes of the whole")
        content = stored_order(whole)
        if self.vector.has_grid:
            content = b"".join(chunk_of(array, whole, i) for i in range(array.nchunks))
        if chunks is not NOTHING and chunks != content:
            self.fault("iter_chunks: not the bytes of the whole")

    def _is_other_chunk(self, array: bp.Array, whole: Any, index: int, chunk: bytes) -> bool:
        if self.vector.has_grid:
            return chunk != chunk_of(array, whole, index)
        start = index * array.header.chunk_size
        found = stored_order(whole)[start : start + len(chunk)]
        return array.header.chunk_size > 0 and chunk != found

    def _check_properties(self, array: bp.Array) -> None:
        for name in ("ndim", "size", "nbytes", "cbytes", "cratio", "chunks"):
            self.outcome(name, (), lambda name=name: getattr(array, name))
        self.outcome("repr", (), lambda: repr(array))

    def _check_verify(self, content: Any) -> None:
        report = self.outcome("verify", READ_ERRORS, lambda: bp.verify(self.data))
        if report is not NOTHING and report.ok and content is NOTHING:
            self.fault("verify: finds nothing where reading everything raises")

    def _check_files(self, content: Any) -> None:
        source, target = self.folder / "damaged.blp", self.folder / "content"
        source.write_bytes(self.data)
        target.unlink(missing_ok=True)
        read = self.outcome(
            "unpack_bytes_from_file", READ_ERRORS, lambda: bp.unpack_bytes_from_file(source)
        )
        if not same(read, content):
            self.fault("unpack_bytes_from_file: not what unpack_bytes_from_bytes gives")
        metadata = self.outcome(
            "unpack_file_from_file", READ_ERRORS, lambda: bp.unpack_file_from_file(source, target)
        )
        if metadata is NOTHING:
            if any(self.folder.glob("*content*")):
                self.fault("unpack_file_from_file: output is left after an error")
        elif content is NOTHING or target.read_bytes() != content[0]:
            self.fault("unpack_file_from_file: not what unpack_bytes_from_bytes gives")
        self.outcome(
            "unpack_ndarray_from_file", ARRAY_ERRORS, lambda: bp.unpack_ndarray_from_file(source)
        )
        self.outcome("load(path)", LAZY_ERRORS, lambda: bp.load(source))

    def _check_append(self, content: Any, rng: Random) -> None:
        extra = rng.randbytes(rng.choice((0, 1, 8, 40, 5000)))
        file = io.BytesIO(self.data)
        try:
            append_fp(file, io.BytesIO(extra), len(extra))
        except APPEND_ERRORS as err:
            refused = str(err)
        except ValueError as err:
            refused = str(err)
            if not any(message in refused for message in APPEND_MESSAGES):
                self.fault(f"append_fp: ValueError: {refused[:200]}")
        except Exception as err:
            refused = f"append_fp: {type(err).__name__}: {str(err)[:200]}"
            self.fault(refused)
        else:
            refused = ""
        if refused:
            if file.getvalue() != self.data:
                self.fault(f"append_fp: the file was changed, then {refused[:200]}")
            return
        if content is NOTHING:
            return
        after = self.outcome(
            "append_fp, then unpack_bytes_from_bytes",
            (),
            lambda: bp.unpack_bytes_from_bytes(file.getvalue()),
        )
        if after is not NOTHING and after[0] != content[0] + extra:
            self.fault(f"append_fp: {len(extra)} bytes appended give another content")


def item_bytes(items: np.ndarray) -> bytes:
    """Return the bytes of items; numpy's tobytes invents padding for strided structs."""
    array = np.asarray(items)
    if array.dtype.names is not None and array.dtype.itemsize:
        array = array.view(np.dtype((np.void, array.dtype.itemsize)))
    return array.tobytes()


def stored_order(array: np.ndarray[Any, Any]) -> bytes:
    """Return the bytes of `array` in the order of a file."""
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    return array.tobytes("F" if fortran else "C")


def same(one: Any, two: Any) -> bool:
    if one is NOTHING or two is NOTHING:
        return one is two
    # NaN in metadata is not equal to itself.
    return one[0] == two[0] and repr(one[1]) == repr(two[1])


def selections(shape: tuple[int, ...], rng: Random) -> list[Any]:
    """Return a few selections that are in bounds."""
    if not shape:
        return [(), Ellipsis]
    length = shape[0]
    found: list[Any] = [slice(-3, None), slice(None, None, 7)]
    if length:
        index = rng.randrange(length)
        found += [index, slice(index, index + 9), slice(index, None, -2), length - 1]
    if len(shape) > 1 and all(shape):
        starts = [rng.randrange(side) for side in shape]
        found += [tuple(slice(at, at + 3) for at in starts), (slice(None), *starts[1:])]
    return found


def chunk_of(array: bp.Array, whole: np.ndarray[Any, Any], index: int) -> bytes:
    """Return the bytes that a chunk of a grid must have."""
    return whole[array.chunk_region(index)].tobytes("F" if array.is_fortran else "C")
