"""Scenarios with VRS recordings: forks, threads, pools, and a writer in another process."""

import multiprocessing
import os
import pickle
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import sharing
from forks import in_child, wait_for

from bloscpack import vrs
from bloscpack.vrs import pyvrs

NFRAMES = 60
NSAMPLES = 3000
SHAPE = (48, 64)


class Frame(vrs.Layout):
    number = vrs.Value("uint32")


class Sample(vrs.Layout):
    number = vrs.Value("uint32")
    values = vrs.Array("double", 3)
    name = vrs.String()


def image(number: int) -> "np.ndarray[Any, Any]":
    frame = np.add.outer(np.arange(SHAPE[0]) * 3, np.arange(SHAPE[1]) + number)
    return frame.astype("u1")


def make(folder: Path) -> None:
    """Make a recording of two streams, in one file and in several."""
    for name, options in (("one.vrs", {}), ("many.vrs", {"chunk_nbytes": 1 << 16})):
        with vrs.create(folder / name, compression="zfast", **options) as writer:
            camera = writer.stream(1201, name="camera")
            camera.define("data", Frame, vrs.Image("raw", SHAPE[1], SHAPE[0], "grey8"))
            imu = writer.stream(1202, name="imu")
            imu.define("data", Sample)
            for number in range(NSAMPLES):
                if number % (NSAMPLES // NFRAMES) == 0:
                    k = number // (NSAMPLES // NFRAMES)
                    camera.write("data", number / 100, {"number": k}, image(k))
                values = {"number": number, "values": [number] * 3, "name": f"sample {number}"}
                imu.write("data", number / 100, values)


def opened(path: Path, kind: str) -> Any:
    """Open the recording in one of the supported ways."""
    if kind == "bytes":
        return vrs.open(path.read_bytes())
    if kind == "chunks":
        return vrs.open(path.with_name("many.vrs"))
    if kind == "file":
        return vrs.open(path.open("rb"))
    return vrs.open(path)


def check(recording: Any, seed: int) -> int:
    """Read in all ways, and compare; return the process id."""
    rng = Random(seed)
    check_records(recording, rng)
    check_columns(recording, rng)
    first = rng.randrange(len(recording) - 300)
    for place, record in enumerate(recording[first : first + 300], first):
        if record.record_index != place or len(record.payload) < 4:
            raise ValueError(f"record {place} in a row")
    return os.getpid()


def check_records(recording: Any, rng: Random) -> None:
    samples, camera = recording.streams["1202-1"], recording.streams["1201-1"]
    for _ in range(40):
        number = rng.randrange(NSAMPLES)
        metadata = samples.data[number].metadata_blocks[0]
        if metadata["number"] != number or metadata["name"] != f"sample {number}":
            raise ValueError(f"sample {number}: {metadata}")
    for _ in range(6):
        number = rng.randrange(NFRAMES)
        if not np.array_equal(camera.data[number].image_blocks[0], image(number)):
            raise ValueError(f"frame {number} of its record differs")


def check_columns(recording: Any, rng: Random) -> None:
    samples, frames = recording.streams["1202-1"], recording.streams["1201-1"].frames
    start = rng.randrange(NFRAMES // 2)
    if not np.array_equal(frames[start], image(start)):
        raise ValueError(f"frame {start} differs")
    expected = np.stack([image(k) for k in range(start, NFRAMES, 5)])
    if not np.array_equal(frames[start::5], expected):
        raise ValueError("frames differ")
    if samples.field("number", nthreads=4).tolist() != list(range(NSAMPLES)):
        raise ValueError("a column differs")
    if samples.field("name")[start] != f"sample {start}":
        raise ValueError("a column of strings differs")


def fork_after_use(path: Path, kind: str) -> None:
    sharing.fork_after_use(opened(path, kind), check)


def fork_in_a_row(path: Path, kind: str) -> None:
    """Fork in the middle of an iteration: both processes continue it."""
    recording = opened(path, kind)
    iterator = iter(recording)
    for _ in range(100):
        next(iterator)

    def rest() -> None:
        for place, record in enumerate(iterator, 100):
            if record.record_index != place or record.payload != recording.read_payload(place):
                raise ValueError(f"record {place} differs")

    children = [in_child(rest) for _ in range(2)]
    rest()
    wait_for(children)


def fork_while_reading(path: Path, kind: str) -> None:
    sharing.fork_while_reading(opened(path, kind), check)


def threads_share_a_recording(path: Path, kind: str) -> None:
    sharing.read_in_threads(opened(path, kind), check)


def check_clip(clip: Any, seed: int) -> int:
    number = seed % NFRAMES
    if not np.array_equal(clip[number], image(number)):
        raise ValueError(f"frame {number} differs")
    return os.getpid()


def check_reader(reader: Any, seed: int) -> int:
    record = reader[seed]
    if len(record.metadata_blocks) != 1 or len(reader) != NSAMPLES + NFRAMES:
        raise ValueError(f"record {seed}: {record}")
    return os.getpid()


def travel(path: Path, kind: str, method: str) -> None:
    """Pass recordings, records, clips and pyvrs readers to other processes."""
    with opened(path, kind) as recording:
        sharing.travel(recording, check, method)
        record = pickle.loads(pickle.dumps(recording[5]))
        if record.payload != recording[5].payload:
            raise ValueError("a record differs")
        with multiprocessing.get_context(method).Pool(2) as pool:
            clip = recording.streams["1201-1"].frames
            pool.starmap(check_clip, [(clip, seed) for seed in range(6)])
            if kind == "path":
                reader = pyvrs.SyncVRSReader(path)
                pool.starmap(check_reader, [(reader, seed) for seed in range(6)])


def write(path: Path, started: Any, is_read: Any, count: int) -> None:
    """Write records, with a flush now and then; wait halfway until they are read."""
    with vrs.create(path, compression="none") as writer:
        stream = writer.stream(1202)
        stream.define("data", Sample)
        writer.flush()
        started.set()
        for number in range(count):
            if number == count // 2:
                is_read.wait()
            values = {"number": number, "values": [number] * 3, "name": "x" * (number % 50)}
            stream.write("data", float(number), values)
            if number % 7 == 3:
                writer.flush()


def read_beside_a_writer(path: Path, method: str) -> None:
    """Open while another process writes: complete records from the first on, more each time."""
    context = multiprocessing.get_context(method)
    started, is_read, total = context.Event(), context.Event(), 4000
    target = path.with_name(f"grows.{method}")
    writer = context.Process(target=write, args=(target, started, is_read, total), daemon=True)
    writer.start()
    started.wait()
    count, rounds = 0, 0
    while True:
        is_done = not writer.is_alive()
        with vrs.open(target) as recording:
            if len(recording) < count:
                raise ValueError(f"{len(recording)} records after {count}")
            count = len(recording)
            if count:
                numbers = recording.streams["1202-1"].field("number").tolist()
                if numbers != list(range(count)):
                    raise ValueError(f"not the first {count} records")
                if recording[count - 1].metadata_blocks[0]["values"] != [count - 1] * 3:
                    raise ValueError("the last record differs")
        rounds += 1
        is_read.set()
        if is_done:
            break
    writer.join()
    if count != total or writer.exitcode or rounds < 2:
        raise ValueError((count, writer.exitcode, rounds))


def fork_of_a_writer(path: Path) -> None:
    """A child that exits does not write its parent's unwritten data."""
    target = path.with_name("written.vrs")
    writer = vrs.create(target, compression="none")
    stream = writer.stream(1202)
    stream.define("data", Sample)

    def add(number: int) -> None:
        stream.write("data", float(number), {"number": number, "values": [0] * 3, "name": "n"})

    add(0)

    def end() -> None:
        with vrs.open(target) as recording:
            if len(recording) > 1:
                raise ValueError("more than was written")

    wait_for([in_child(end), in_child(end)])
    add(1)
    writer.close()
    with vrs.open(target, index="strict") as recording:
        found = [record.metadata_blocks[0]["number"] for record in recording]
        if found != [0, 1]:
            raise ValueError(found)
