"""The program ``rerun-loader-bloscpack``: Rerun runs it for files that are dropped on its viewer.

It writes what Rerun shows to its standard output, as a stream of Rerun's own (.rrd): images stored
as JPEG or PNG as they are, others decoded one by one, and numbers of recordings as columns.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from ..display.framerate import rate_in
from ..exceptions import BloscpackError, UnsupportedError, WrongKindError
from ..parallel.imports import importing, optional_library
from .pictures import Picture, check_drawable, native, pictures, whole

__all__ = ["main"]

INCOMPATIBLE = 66
"""Exit status by which Rerun knows that a file is for other loaders."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write a file as Rerun's data to the standard output, and return the exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        Those of Rerun's protocol for external loaders; by default the command line's.

    Returns
    -------
    int
        0; 66 if the file is not of a type of this package; 1 after an error, which is printed.
    """
    options, _ = _parser().parse_known_args(arguments)  # later versions of Rerun may pass more
    try:
        with pictures(options.filepath) as (found, columns):
            _write(options, found, columns)
    except WrongKindError:
        return INCOMPATIBLE
    except (BloscpackError, ImportError, OSError, ValueError, OverflowError, MemoryError) as err:
        print(f"rerun-loader-bloscpack: {err}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("rerun-loader-bloscpack", allow_abbrev=False)
    parser.add_argument("filepath")
    for name in ("application-id", "recording-id"):
        parser.add_argument(f"--{name}")
        parser.add_argument(f"--opened-{name}")
    parser.add_argument("--entity-path-prefix")
    parser.add_argument("--static", "--timeless", action="store_true")
    for name in ("time", "sequence"):
        parser.add_argument(f"--{name}", action="append", default=[], metavar="TIMELINE=VALUE")
    return parser


def _write(options: argparse.Namespace, found: Any, columns: Any) -> None:
    """Write all pictures of a file, and the columns of a recording, to the standard output."""
    with importing, optional_library("rerun-sdk", "rerun"):
        import rerun as rr

    stream = rr.RecordingStream(
        options.application_id or options.opened_application_id or "bloscpack",
        recording_id=options.recording_id or options.opened_recording_id,
    )
    stream.stdout()
    sequences, moments = _times(options.sequence), _times(options.time)
    for timeline, at in sequences:
        stream.set_time(timeline, sequence=at)
    for timeline, at in moments:
        stream.set_time(timeline, timestamp=at / 1e9)
    prefix = [part for part in (options.entity_path_prefix or "").split("/") if part]
    refused: UnsupportedError | None = None
    for picture in found:
        entity = rr.new_entity_path([*prefix, picture.name])
        try:
            check_drawable(picture)
        except UnsupportedError as err:  # other arrays of the file may be of numbers
            refused = err
            continue
        if picture.meta:
            text = json.dumps(picture.meta, indent=2, ensure_ascii=False, default=str)
            stream.log(f"{entity}/meta", rr.TextDocument(text), static=True)
        if picture.is_clip or (picture.is_rgb and picture.data.ndim == 4):
            _log_frames(rr, stream, entity, picture)
        else:
            stream.log(entity, _array_of(rr, picture), static=options.static)
    for source, field, times, numbers in columns:
        n, index = len(times), [rr.TimeColumn("clip_time", duration=times)]
        index += [rr.TimeColumn(name, sequence=[at] * n) for name, at in sequences]
        index += [rr.TimeColumn(name, timestamp=[at / 1e9] * n) for name, at in moments]
        entity = rr.new_entity_path([*prefix, source, field])
        stream.send_columns(entity, index, rr.Scalars.columns(scalars=numbers))
    stream.flush()
    stream.disconnect()
    if refused is not None:
        raise refused


def _times(given: list[str]) -> list[tuple[str, int]]:
    """Return the names and values of arguments ``timeline=value``."""
    return [(name, int(value)) for name, _, value in (each.rpartition("=") for each in given)]


def _log_frames(rr: Any, stream: Any, entity: str, picture: Picture) -> None:
    """Log frames at their numbers, and at their times if the file has them."""
    frames = picture.data
    times = getattr(frames, "timestamps", None)
    rate = rate_in(picture.meta)
    for k in range(len(frames)):
        stream.set_time("frame", sequence=k)
        if times is not None and k < len(times):
            stream.set_time("clip_time", duration=float(times[k]))
        elif rate is not None:
            stream.set_time("clip_time", duration=k / rate)
        images = frames.read_images([k]) if picture.is_clip else None
        if images is None:
            stream.log(entity, _frame_of(rr, frames[k]))
        else:
            stream.log(entity, rr.EncodedImage(contents=images[0]))


def _frame_of(rr: Any, frame: Any) -> Any:
    """Return a frame as an image, or as a tensor if it is of another shape."""
    is_image = frame.ndim == 2 or (frame.ndim == 3 and frame.shape[-1] in (1, 3, 4))
    return (rr.Image if is_image and frame.size else rr.Tensor)(native(frame))


def _array_of(rr: Any, picture: Picture) -> Any:
    """Return an array as an image if it has colours, as bars if it has one axis, else a tensor."""
    items = whole(picture)
    if picture.is_rgb and items.ndim == 3:
        return rr.Image(items)
    if items.ndim == 1:
        return rr.BarChart(items)
    return rr.Tensor(items, dim_names=picture.axes or None)
