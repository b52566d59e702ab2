"""The kinds of work: records, frames, writing, and the sizes of files."""

import numpy as np
from races import Case, require, size_of

import bloscpack as bp
from bloscpack import vrs
from vrs.contender import MCAP, OURS
from vrs.data import FIELD
from vrs.race import FRAMES, MOTION, Bench
from vrs.with_bloscpack import Ours

# Presets of VRS by how tables call them.
PRESETS = {"none": "raw", "fast": "LZ4", "zfast": "Zstandard 1", "zmedium": "Zstandard 7"}
RECORDING = "recording, raw"
STORE = "recording converted to a store"
MOTION_SIZES, FRAME_SIZES = "motion_sizes", "frame_sizes"
_WRITERS = {OURS: "recording", MCAP: MCAP}


def race_records(bench: Bench) -> None:
    """Read the records of the motion sensor."""
    count = f"{bench.setting.nrecords:,} records"
    bench.read(Case("records/all", f"all of {count}", 0), "records", MOTION)
    bench.read(Case("records/random", "one at random", 0), "record", MOTION)
    bench.read(Case("records/field", f"one field of {count}", 0), "field", MOTION)
    bench.read(Case("records/open", f"open a file of {count}", 0), "open", MOTION)


def race_frames(bench: Bench) -> None:
    """Read the frames of the camera."""
    nbytes = bench.stored[FRAMES][0].nbytes
    for preset, words in PRESETS.items():
        bench.read(Case(f"frames/{preset}", f"all, {words}", nbytes), "frames", FRAMES, preset)
        case = Case(f"frame/{preset}", f"one at random, {words}", nbytes)
        bench.read(case, "frame", FRAMES, preset)


def race_writing(bench: Bench) -> None:
    """Write records and frames."""
    case = Case("write/motion", "records of the motion sensor", bench.stored[MOTION].itemsize)
    bench.time_writing(case, "write motion", MOTION)
    nbytes = bench.stored[FRAMES][0].nbytes
    for preset, words in PRESETS.items():
        case = Case(f"write/{preset}", f"frames, {words}", nbytes)
        bench.time_writing(case, "write frames", FRAMES, preset)


def measure_sizes(bench: Bench) -> None:
    """Find the bytes of all files of the motion sensor, and of those of frames by preset."""
    bench.say("sizes of files")
    motion: dict[str, float] = {}
    frames: dict[str, dict[str, float]] = {}
    for one in bench.contenders:
        if one.name in _WRITERS:
            kind = _WRITERS[one.name]
            for preset, words in PRESETS.items():
                if one.name == MCAP or preset == "none":
                    motion[f"{kind}, {words}"] = size_of(bench.write(one, MOTION, preset))
                sizes = frames.setdefault(words, {})
                sizes[kind] = size_of(bench.write(one, FRAMES, preset))
    motion["payloads alone"] = bench.stored[MOTION].nbytes
    bench.found |= {MOTION_SIZES: motion, FRAME_SIZES: frames}
    _measure_store(bench, motion)


def _measure_store(bench: Bench, sizes: dict[str, float]) -> None:
    """Convert the recording of the motion sensor, and back, comparing the checksums."""
    try:
        from bloscpack.vrs import store as recordstore  # noqa: F401
    except ImportError:
        bench.absent[STORE] = "bloscpack.vrs.store is missing"
        return
    path = bench.write(Ours(), MOTION)
    store, back = bench.folder / "motion.blp", bench.folder / "back.vrs"
    bp.convert(path, store)
    bp.convert(store, back)
    with vrs.open(path) as recording, vrs.open(back) as copy:
        require(recording.checksum() == copy.checksum(), STORE, "the checksum of all records")
        (stream,) = copy.streams.values()
        wanted = bench.stored[MOTION][FIELD]
        require(np.array_equal(stream.field(FIELD), wanted), STORE, FIELD)
    sizes[STORE] = size_of(store)
