"""Cases: records, frames, writing, and the sizes of files."""

from pathlib import Path

import numpy as np
from race.races import Benchmark, Case, Races, random_places, require, size_of

import bloscpack as bp
from bloscpack import vrs
from vrs.contenders import MCAP, OURS, TABLE, Contender
from vrs.data import FIELD, SETTINGS, make_frames, make_motion
from vrs.formats import Ours

_SEED = 11
MOTION, FRAMES = "motion", "frames"
# Presets of VRS and their labels in tables.
PRESETS = {"none": "raw", "fast": "LZ4", "zfast": "Zstandard 1", "zmedium": "Zstandard 7"}
RECORDING = "recording, raw"
STORE = "recording converted to a store"
MOTION_SIZES, FRAME_SIZES = "motion_sizes", "frame_sizes"
_WRITERS = {OURS: "recording", MCAP: MCAP}


class Recordings(Races):
    """Races over one recording of a motion sensor and one of a camera."""

    folder_name, table = "vrs", TABLE

    def make_data(self) -> None:
        self.stored = {MOTION: make_motion(self.setting), FRAMES: make_frames(self.setting)}
        for what, values in self.stored.items():
            np.save(self.wanted(what), values)

    def wanted(self, what: str) -> Path:
        return self.folder / f"{what}.npy"

    def write(self, contender: Contender, what: str, preset: str = "none") -> Path:
        """Return the file that a contender reads, written once; we write all VRS recordings."""
        path = self.folder / f"{what}, {preset}.{contender.files}"
        if not path.exists():
            writer = Ours() if contender.files == Ours.files else contender
            make = writer.motion_writer if what == MOTION else writer.frames_writer
            make(self.stored[what], preset)(path)
        return path

    def read(self, case: Case, work: str, what: str, preset: str = "none") -> None:
        """Race all contenders that do a kind of reading."""
        is_single = work in ("record", "frame")
        count = {"open": 1, "record": 16, "frame": 16}.get(work, len(self.stored[what]))
        places = random_places(_SEED, len(self.stored[what]))[0] if is_single else []
        task = {"work": work, "wanted": self.wanted(what), "places": places, "per_call": count}
        self.hold_work(
            case, work, lambda one: {**task, "path": self.write(one, what, preset)}, count
        )

    def time_writing(self, case: Case, work: str, what: str, preset: str = "none") -> None:
        """Race all contenders that do a kind of writing, to files in memory."""
        task = {"work": work, "wanted": self.wanted(what), "preset": preset}
        path = self.memory_folder / f"{work}, {preset}"
        self.hold_work(
            case, work, lambda one: {**task, "path": f"{path}.{one.files}"}, len(self.stored[what])
        )
        for path in self.memory_folder.iterdir():
            path.unlink()


def race_records(races: Recordings) -> None:
    """Read the records of the motion sensor."""
    count = f"{races.setting.nrecords:,} records"
    races.read(Case("records/all", f"all of {count}", 0), "records", MOTION)
    races.read(Case("records/random", "one at random", 0), "record", MOTION)
    races.read(Case("records/field", f"one field of {count}", 0), "field", MOTION)
    races.read(Case("records/open", f"open a file of {count}", 0), "open", MOTION)


def race_frames(races: Recordings) -> None:
    """Read the frames of the camera."""
    nbytes = races.stored[FRAMES][0].nbytes
    for preset, words in PRESETS.items():
        races.read(Case(f"frames/{preset}", f"all, {words}", nbytes), "frames", FRAMES, preset)
        case = Case(f"frame/{preset}", f"one at random, {words}", nbytes)
        races.read(case, "frame", FRAMES, preset)


def race_writing(races: Recordings) -> None:
    """Write records and frames."""
    case = Case("write/motion", "records of the motion sensor", races.stored[MOTION].itemsize)
    races.time_writing(case, "write motion", MOTION)
    nbytes = races.stored[FRAMES][0].nbytes
    for preset, words in PRESETS.items():
        case = Case(f"write/{preset}", f"frames, {words}", nbytes)
        races.time_writing(case, "write frames", FRAMES, preset)


def measure_sizes(races: Recordings) -> None:
    """Find the bytes of all files of the motion sensor, and of those of frames by preset."""
    races.say("sizes of files")
    motion: dict[str, float] = {}
    frames: dict[str, dict[str, float]] = {}
    for one in races.contenders:
        if one.name in _WRITERS:
            kind = _WRITERS[one.name]
            for preset, words in PRESETS.items():
                if one.name == MCAP or preset == "none":
                    motion[f"{kind}, {words}"] = size_of(races.write(one, MOTION, preset))
                sizes = frames.setdefault(words, {})
                sizes[kind] = size_of(races.write(one, FRAMES, preset))
    motion["payloads alone"] = races.stored[MOTION].nbytes
    races.found |= {MOTION_SIZES: motion, FRAME_SIZES: frames}
    motion[STORE] = _store_nbytes(races)


def _store_nbytes(races: Recordings) -> int:
    """Convert the recording of the motion sensor, and back, and compare the checksums."""
    path = races.write(Ours(), MOTION)
    store, back = races.folder / "motion.blp", races.folder / "back.vrs"
    bp.convert(path, store)
    bp.convert(store, back)
    with vrs.open(path) as recording, vrs.open(back) as copy:
        require(recording.checksum() == copy.checksum(), STORE, "the checksum of all records")
        (stream,) = copy.streams.values()
        wanted = races.stored[MOTION][FIELD]
        require(np.array_equal(stream.field(FIELD), wanted), STORE, FIELD)
    return size_of(store)


BENCHMARK = Benchmark(
    Recordings,
    {
        "records": race_records,
        "frames": race_frames,
        "writing": race_writing,
        "sizes": measure_sizes,
    },
    SETTINGS,
)
