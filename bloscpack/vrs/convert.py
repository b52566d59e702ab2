"""Copying a VRS recording to a frame store with all its records and tags, and back.

`vrs.store` writes and compares both. Here the result gets its name, which for a recording of
several files is one name for each.
"""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ..plugin import (
    Conversion,
    CopyJob,
    FrameSource,
    FrameStore,
    UnsupportedError,
    attributes,
    check_absent,
    disk,
    is_in_place,
    is_url,
    make_like,
    new_copy,
    open_path,
    quoted,
    temporary_path,
)
from .read.filesource import chunk_path
from .recording import open as open_recording
from .store import PRESET, is_recording_store, restore_recording, store_recording
from .store.storedrecording import ATTR, CLIP


def copy_to_store(
    src: Any, storage_options: Mapping[str, Any] | None, to: str | None, job: CopyJob
) -> Conversion:
    """Convert a recording to a frame store."""
    if to == "vrs":
        raise ValueError(
            "a recording is converted to a frame store; vrs.copy makes another recording of it"
        )
    verbatim = "verbatim" in job.options
    with (
        new_copy(job) as temporary,
        open_recording(src, storage_options=storage_options) as recording,
    ):
        if not verbatim:
            nfiles = len(recording.source.parts)
            job.leave_out(*recording.report._losses())
            job.leave_out(*[f"division into {nfiles} files"] * (nfiles > 1))
        made = store_recording(
            recording,
            temporary,
            preset=job.options.get("preset", PRESET),
            verbatim=verbatim,
            verify=job.verify,
            nthreads=job.nthreads,
            progress=job.progress,
        )
    return Conversion("frames", made.clips, made.records, made.images)


def copy_to_recording(source: FrameSource, job: CopyJob) -> Conversion:
    """Restore a recording from a frame store."""
    if not isinstance(source, FrameStore) or not is_recording_store(source):
        raise ValueError('to="vrs" needs a frame store that was converted from a VRS recording')
    ids = list(source)
    # Everything that is appended later is not of the recording.
    later = ids[ids.index(CLIP) + 1 :] if CLIP in ids else ()
    job.leave_out(*(f"clip {quoted(id_)}" for id_ in later))
    job.leave_out(*attributes(key for key in source.attrs if key != ATTR))
    target = job.target
    temporary = temporary_path(target)
    with ExitStack() as stack:
        # Only the first file makes a recording of the others, so it gets its name last.
        first = stack.enter_context(
            open_path(job.where, job.storage_options, overwrite=job.overwrite)
        )

        def paths(number: int) -> str:
            if not number:
                return first
            return stack.enter_context(disk.vanishing(chunk_path(temporary, number)))

        made = restore_recording(
            source, paths, verify=job.verify, nthreads=job.nthreads, progress=job.progress
        )
        job.refuse_losses()
        others = made.paths[1:]
        if others and (is_url(target) or is_in_place(target)):
            raise UnsupportedError("a recording of several files is written to a folder only").at(
                path=job.name
            )
        names = [chunk_path(target, number) for number in range(1, len(made.paths))]
        for name in names:
            check_absent(name, overwrite=False)
        for path, name in zip(others, names, strict=True):
            with open(path, "rb") as file:
                make_like(file.fileno(), target, job.name)
            disk.rename_new(path, name)
        return Conversion("vrs", made.clips, made.records, made.images)
