"""Copying a VRS recording to a frame store with all its records and tags, and back.

`vrs.store` writes and compares both. Here the result gets its name, which for a recording of
several files is one name for each.
"""

import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ...frames.protocol import FrameSource
from ...frames.store.framestore import FrameStore
from ...storage import disk
from ...storage.update import temporary_path
from ...vrs.read.filesource import chunk_path
from ...vrs.recording import open as open_recording
from ...vrs.store import PRESET, is_recording_store, restore_recording, store_recording
from ..copyjob import Conversion, CopyJob, check_target, new_copy, vanishing


def copy_to_store(
    src: Any, storage_options: Mapping[str, Any] | None, to: str | None, job: CopyJob
) -> Conversion:
    """Convert a recording to a frame store."""
    if to == "vrs" or job.quality is not None:
        raise ValueError(
            "a recording is converted to a frame store; vrs.copy makes another recording of it"
        )
    with (
        new_copy(job, is_ours=True) as temporary,
        open_recording(src, storage_options=storage_options) as recording,
    ):
        made = store_recording(
            recording,
            temporary,
            preset=job.preset or PRESET,
            verbatim=job.verbatim,
            verify=job.verify,
            nthreads=job.nthreads,
            progress=job.progress,
        )
    return Conversion("frames", made.clips, made.records, made.images)


def copy_to_recording(source: FrameSource, job: CopyJob) -> Conversion:
    """Restore a recording from a frame store."""
    if not isinstance(source, FrameStore) or not is_recording_store(source):
        raise ValueError('to="vrs" needs a frame store that was converted from a VRS recording')
    target = job.target
    temporary = temporary_path(target)
    with ExitStack() as stack:

        def paths(number: int) -> str:
            return stack.enter_context(vanishing(chunk_path(temporary, number)))

        made = restore_recording(
            source, paths, verify=job.verify, nthreads=job.nthreads, progress=job.progress
        )
        names = [chunk_path(target, number) for number in range(len(made.paths))]
        for name in names[1:]:
            check_target(name, name, is_folder=False, overwrite=False)
        # Only the first file makes a recording of the others, so it is renamed last.
        for path, name in reversed(list(zip(made.paths, names, strict=True))):
            disk.move(path, name, overwrite=job.overwrite and name == target)
        disk.sync_folder(os.path.dirname(target))
        return Conversion("vrs", made.clips, made.records, made.images)
