"""Compressions of a recording, tried on a sample of its records, for ``blpk tune``."""

import argparse
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from ...plugin import (
    Console,
    Place,
    Trial,
    Tuned,
    command_text,
    least_seconds,
    pretty_size,
    tune_clips,
)
from .recordings import open_recording

if TYPE_CHECKING:
    from ..recording import Recording

# Compressing with the highest levels takes about a second for a megabyte.
_SAMPLE = 4 << 20
_READS = 3
_DEFAULT = "zfaster"  # of new recordings


def tune(args: argparse.Namespace, console: Console, place: Place) -> Tuned:
    """Try every compression on records from all of a recording; settings of clips for a stream."""
    from ..format.compression import PRESETS

    if place.inner:
        return tune_clips(args, console, place)
    with open_recording(place.path, args.nthreads) as recording:
        payloads = _take_payloads(recording, args.sample or _SAMPLE)
        nrecords = len(recording)
    name = place.shown
    nbytes = sum(map(len, payloads))
    if not nbytes:
        raise ValueError(f"{name}: no records to try settings on")
    presets = [_DEFAULT, *(each for each in PRESETS if each != _DEFAULT)]
    trials = []
    with console.progress(unit="trials") as progress:
        for preset in presets:
            trials.append(_trial(payloads, preset))
            progress(len(trials), len(presets))
    return Tuned(
        f"{name}: {nrecords} records; {pretty_size(nbytes)} tried: {len(payloads)} records, evenly "
        "spread",
        nbytes,
        trials,
        lambda settings: f"bp.vrs.copy(path, new, compression={settings['compression']!r})",
        lambda settings: command_text(
            "vrs", "copy", name, "OUT.vrs", "--compression", settings["compression"]
        ),
        {"records": nrecords, "sample": {"nrecords": len(payloads), "nbytes": nbytes}},
    )


def _take_payloads(recording: "Recording", most: int) -> list[bytes]:
    """Return payloads of evenly spread records, about `most` bytes together."""
    stored = recording.stored_nbytes
    # The payloads of compressed records are larger than the records.
    count = int(np.clip(most // max(1, int(stored.mean() if len(stored) else 0)), 1, len(stored)))
    payloads: list[bytes] = []
    total = 0
    for place in range(count if len(stored) else 0):
        payload = recording.read_payload(len(stored) * place // count)
        if payloads and total + len(payload) > most:
            break
        payloads.append(bytes(payload))
        total += len(payload)
    return payloads


def _trial(payloads: list[bytes], preset: str) -> Trial:
    from ..format.compression import decode_payload, encode_payload

    began = process_time()
    encoded = [encode_payload(payload, preset) for payload in payloads]
    write_seconds = process_time() - began

    def read() -> None:
        for payload, (compression, frame) in zip(payloads, encoded, strict=True):
            decode_payload(frame, compression, len(payload))

    nbytes = sum(len(frame) for _, frame in encoded)
    return Trial({"compression": preset}, nbytes, write_seconds, least_seconds(read, _READS))
