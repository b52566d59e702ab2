"""Damage to archives: any bytes give the right arrays, fewer of them, or a documented error.

With new digests of header, records and index, an archive may have other names, and may have arrays
where none were; every way of reading must still end in a value or a documented error.
"""

import io
import pickle
from functools import cache
from random import Random
from typing import Any, NamedTuple

import numpy as np
from mutation import damage
from outcomes import READ_ERRORS, Outcomes
from xxhash import xxh3_64_digest

import bloscpack as bp
from bloscpack.exceptions import ObjectNumpyArrayRejection
from bloscpack.format.archiveindex import INDEX_TAIL_SIZE, RECORD_SIZE, Bundle

ATTRS = {"title": "fields", "levels": [1, 2]}
MAX_NBYTES = 4 << 20  # of an array that damage may have made large


class ArchiveVector(NamedTuple):
    """Sound archive, its arrays, and the positions and sizes of its fields."""

    name: str
    data: bytes
    arrays: dict[str, Any]
    fields: list[tuple[int, int]]
    records: list[int]


@cache
def archive_vectors() -> list[ArchiveVector]:
    ramp = np.arange(600, dtype="<i4").reshape(20, 30)
    sets: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "empty": ({}, {}),
        "one": ({"a": ramp}, {"chunks": 6}),
        "several": ({"a": ramp, "": np.array(3.5), "\u00e4/../b": ramp[::2].T > 5}, {"chunks": 4}),
        "grid": ({"x": ramp, "y": ramp[:0], "z": ramp * 3}, {"chunks": (7, 9), "codec": "auto"}),
        "bundles": (
            {
                **{f"s{n}": ramp[n, :n] for n in range(12)},
                "large": np.random.default_rng(0).integers(0, 256, 4200, "u1"),
                **{f"t{n}": ramp[:n, 0] * 2.5 for n in range(9)},
            },
            {},
        ),
        "archive in it": ({"a": np.frombuffer(_saved({"i": ramp}), "u1"), "b": ramp}, {}),
    }
    return [_vector(name, *each) for name, each in sets.items()]


def _saved(arrays: dict[str, Any], **options: Any) -> bytes:
    stream = io.BytesIO()
    bp.savez(stream, arrays, attrs=ATTRS, **options)
    return stream.getvalue()


def _vector(name: str, arrays: dict[str, Any], options: dict[str, Any]) -> ArchiveVector:
    data = _saved(arrays, **options)
    members = bp.Archive(data)._members.named.values()
    parts = list(dict.fromkeys(member.part for member in members))
    index = int.from_bytes(data[-24:-16], "little")
    tail = len(data) - INDEX_TAIL_SIZE
    records, at = [part.at for part in parts], index
    for part in parts:
        records.append(at)
        at += part.offset - part.at
    fields = [(at, 1) for at in (4, 5, 6, 7, 38)] + [(40, 4), (64 + 12, 4), (64 + 16, 4)]
    fields += [(tail + at, size) for at, size in ((8, 2), (12, 4), (16, 8), (24, 8))] * 3
    for at in records:
        fields += [(at + 8, 8), (at + 16, 8), (at + 24, 4), (at + 28, 4), (at + RECORD_SIZE, 1)]
    for part in parts:  # of a bundle, sizes in its directory and in the header of its chunk
        fields += [(part.offset + at, size) for at, size in ((4, 1), (8, 4), (12, 4), (16, 8))]
        if isinstance(part, Bundle):
            fields += [(part.offset - len(part.directory) + at, 4) for at in (8, 16, 20, 24, 32)]
            fields.append((part.offset + 4, 4))
    return ArchiveVector(name, data, arrays, fields, records)


def seal(data: bytearray, vector: ArchiveVector) -> None:
    """Recompute the digests of header, records and index, as far as these are where they were."""
    if len(data) < 64 + INDEX_TAIL_SIZE:
        return
    data[56:64] = xxh3_64_digest(bytes(data[:56]))
    for at in vector.records:
        size = int.from_bytes(data[at + 24 : at + 28], "little")
        name = bytes(data[at + RECORD_SIZE : at + RECORD_SIZE + size])
        if at + RECORD_SIZE <= len(data):
            data[at + 32 : at + RECORD_SIZE] = xxh3_64_digest(bytes(data[at : at + 32]) + name)
    start = int.from_bytes(data[-24:-16], "little")
    data[-8:] = xxh3_64_digest(bytes(data[min(start, len(data)) : -8]))


def run_case(rng: Random) -> tuple[str, list[str], int]:
    """Damage an archive and examine the results of reading it."""
    vector = rng.choice(archive_vectors())
    data = bytearray(vector.data)
    what = f"{vector.name}: {damage(rng, data, vector.fields)}"
    sealed = rng.random() < 0.5
    if sealed:
        seal(data, vector)
        what += ", sealed again"
    honest = 2 * len(data) + sum(array.nbytes for array in vector.arrays.values())
    return what, check(vector, bytes(data), is_sound=not sealed), honest


def check(vector: ArchiveVector, data: bytes, *, is_sound: bool) -> list[str]:
    """Read an archive in every way, and return the faults."""
    judge = ArchiveJudge(vector, is_sound)
    found = judge.attempt("open", lambda: bp.open(data))
    judge.compare("open", found)
    report = judge.attempt("verify", lambda: bp.verify(data))
    if isinstance(found, bp.Archive):
        judge.compare("pickle", pickle.loads(pickle.dumps(found)))
        is_whole = report is not None and report.ok and is_sound
        if is_whole and list(found) != list(vector.arrays):
            judge.faults.append("verify: sound, with other names")
    target = io.BytesIO()
    recovered = judge.attempt("recover", lambda: bp.recover(data, target))
    if recovered is not None:
        again = judge.attempt("open recovered", lambda: bp.open(target.getvalue()))
        judge.compare("recovered", again, is_whole=recovered.ok)
        sound = judge.attempt("verify recovered", lambda: bp.verify(target.getvalue()))
        if again is None or sound is None or not sound.ok:
            judge.faults.append("recover: the new archive is damaged")
    return judge.faults


class ArchiveJudge(Outcomes):
    """Collects the faults found in one damaged archive."""

    errors = (*READ_ERRORS, ObjectNumpyArrayRejection)
    refused = None

    def __init__(self, vector: ArchiveVector, is_sound: bool) -> None:
        super().__init__()
        self.vector = vector
        self.is_sound = is_sound

    def compare(self, what: str, found: Any, *, is_whole: bool = True) -> None:
        """Read all arrays, and compare them with those of the sound archive.

        Arrays that are not whole were recovered in part.
        """
        if not isinstance(found, bp.Archive):
            return
        attrs = self.attempt(f"{what}, attrs", lambda: found.attrs)
        if self.is_sound and is_whole and attrs not in (None, ATTRS):
            self.faults.append(f"{what}: other attrs")
        for name in found:
            array = self.attempt(f"{what}, open array", lambda name=name: found[name])
            if array is None or array.nbytes > MAX_NBYTES:
                continue
            items = self.attempt(f"{what}, read", array.read_whole)
            expected = self.vector.arrays.get(name)
            if items is None or not self.is_sound:
                continue
            if expected is None:
                self.faults.append(f"{what}: another name")
            elif is_whole and (items.tobytes(), items.shape) != (
                expected.tobytes(),
                expected.shape,
            ):
                self.faults.append(f"{what}: another value")
