"""Read damaged datasets in every way and report faults in the outcome.

A dataset has no checksums, so a value may be wrong. But every way to read must return the same one,
what is read must be in the file, and damage to one sample must not change the others.
"""

import pickle
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from dataset_damage import damaged
from dataset_vectors import DatasetVector, SampleFacts, dataset_vectors
from outcomes import NOTHING, READ_ERRORS, Outcomes

import bloscpack as bp
from bloscpack import benzina
from bloscpack.exceptions import NotFoundError
from tests import threadlist
from tests.reference import benzina_sample as twin

SMALL_NBYTES = 50_000
# Number of samples of a case that are examined.
MAX_SAMPLES = 6
_NAMED = re.compile(r"sample \d+|track '|targets? ")


def run_case(rng: Random, folder: Path) -> tuple[str, list[str], int]:
    """Damage a dataset and examine the results of reading it."""
    vectors = dataset_vectors()
    if rng.random() < 0.97:
        vectors = tuple(each for each in vectors if len(each.data) <= SMALL_NBYTES)
    vector = rng.choice(vectors)
    what, data = damaged(rng, vector)
    judge = DatasetJudge(vector, data, folder)
    judge.check(rng)
    # A picture of the vectors is 512 by 512, in three planes and as RGB.
    return f"{vector.name}: {what}", judge.faults, 2 * len(data) + (8 << 20)


class DatasetJudge(Outcomes):
    """Collects the faults found in one damaged dataset."""

    errors = (*READ_ERRORS, NotFoundError)

    def __init__(self, vector: DatasetVector, data: bytes, folder: Path) -> None:
        super().__init__()
        self.vector = vector
        self.data = data
        self.folder = folder

    def check(self, rng: Random) -> None:
        dataset = self.attempt("open", lambda: benzina.open(self.data, nthreads=1))
        if rng.random() < 0.1:
            self._check_verify(dataset)
        if dataset is NOTHING:
            return
        with dataset:
            self._check_outline(dataset)
            chosen = sorted(rng.sample(range(len(dataset)), min(len(dataset), MAX_SAMPLES)))
            for index in chosen:
                self._check_sample(dataset, index)
            self._check_in_a_row(dataset, chosen)
            self._check_entries(dataset, chosen)
            self._check_what_was_not_damaged(dataset)
            for share, check in (
                (0.2, self._check_pictures),
                (0.04, self._check_batches),
                (0.1, self._check_original),
                (0.03, self._check_extract),
                (0.1, self._check_travels),
            ):
                if rng.random() < share:
                    check(dataset, rng)

    def _check_outline(self, dataset: Any) -> None:
        repr(dataset), dataset.movie, dataset.nbytes
        for track in dataset.tracks.values():
            repr(track), track.handler, track.mime, track.shape, len(track)
        self.attempt("splits", lambda: dataset.splits)

    def _check_sample(self, dataset: Any, index: int) -> None:
        sample, what = dataset[index], f"[{index}]"
        repr(sample)
        place = self.attempt(f"{what}.location", lambda: (sample.location, sample.size))
        data = self.attempt(f"{what}.data", lambda: sample.data)
        if data is NOTHING:
            return
        if place is NOTHING or data != self.data[place[0] : sum(place)] or len(data) != place[1]:
            self.fault(f"{what}.data: not the bytes of the file at {place}")
        layout = self.attempt(f"{what}.layout", lambda: sample.layout)
        if (layout is NOTHING) != (twin.parse_sample(data)[0] != 0):
            self.fault(f"{what}.layout: its twin does not agree")
        for name, track in layout.tracks.items() if layout is not NOTHING else ():
            if not 0 <= track.offset <= track.offset + track.nbytes <= len(data):
                self.fault(f"{what}: track {name!r} lies outside of the sample")
            read = self.attempt(f"{what}.read_track", lambda name=name: sample.read_track(name))
            if read != data[track.offset : track.offset + track.nbytes]:
                self.fault(f"{what}: other bytes of track {name!r}")

    def _check_in_a_row(self, dataset: Any, chosen: list[int]) -> None:
        """Check that a range of samples equals the samples read one by one."""
        found = self.attempt("samples", lambda: list(dataset.samples(chosen)))
        for sample in found if found is not NOTHING else ():
            alone = self.attempt("data", lambda sample=sample: dataset[sample.index].data)
            if self.attempt("data", lambda sample=sample: sample.data) != alone:
                self.fault(f"[{sample.index}]: other bytes in a row")

    def _check_entries(self, dataset: Any, chosen: list[int]) -> None:
        """Check that all targets, names and ids at once equal those read one by one."""
        before = [
            (
                self.attempt("target", lambda k=k: dataset[k].target),
                self.attempt("name", lambda k=k: dataset[k].name),
            )
            for k in chosen
        ]
        targets = self.attempt("targets", lambda: dataset.targets)
        names = self.attempt("names", lambda: dataset.names)
        ids = self.attempt("keys", lambda: list(dataset.keys()[: 4 * MAX_SAMPLES]))
        for (target, name), k in zip(before, chosen, strict=True):
            if targets is not NOTHING and targets[k] != target:
                self.fault(f"[{k}]: target {target} alone, {targets[k]} among all")
            if names is not NOTHING and names[k] != name:
                self.fault(f"[{k}]: name {name!r:.50} alone, {names[k]!r:.50} among all")
        if targets is not NOTHING and (targets.dtype, len(targets)) != (np.int64, len(dataset)):
            self.fault(f"targets: {len(targets)} of {targets.dtype}")
        if ids is not NOTHING:
            if len(set(ids)) != len(ids):
                self.fault("ids that are the same")
            if [dataset[id_].index for id_ in ids] != list(range(len(ids))):
                self.fault("an id leads to another sample")

    def _check_what_was_not_damaged(self, dataset: Any) -> None:
        """Check that damage inside some samples does not change the others."""
        old, new = self.vector.data, self.data
        if len(old) != len(new):
            return
        differs = np.flatnonzero(np.frombuffer(old, "u1") != np.frombuffer(new, "u1"))
        hit = set()
        for at in (differs[0], differs[-1]) if len(differs) else ():
            within = [
                k for k, each in enumerate(self.vector.samples) if each.start <= at < each.end
            ]
            if not within:
                return
            hit.update(within)
        if len(hit) > 1:
            return
        found = [
            SampleFacts(each.location, each.location + each.size, each.target, each.name)
            for each in dataset.samples()
        ]
        if tuple(found) != self.vector.samples:
            self.fault("damage within a sample changed what the dataset says")

    def _check_verify(self, dataset: Any) -> None:
        report = self.attempt("verify", lambda: benzina.verify(self.data, nthreads=1))
        if report is NOTHING:
            return
        if dataset is NOTHING:
            if report.ok:
                self.fault("verify: finds nothing where open raises")
            return
        if report.ok:
            for name in ("targets", "names", "splits"):
                if self.attempt(name, lambda name=name: getattr(dataset, name)) is NOTHING:
                    self.fault(f"verify: finds nothing, and {name} raises")
            for sample in dataset.samples():
                if self.attempt("layout", lambda sample=sample: sample.layout) is NOTHING:
                    self.fault(f"verify: finds nothing, and sample {sample.index} raises")

    def _check_pictures(self, dataset: Any, rng: Random) -> None:
        for _ in range(min(2, len(dataset))):
            sample = dataset[rng.randrange(len(dataset))]
            track = rng.choice(("bzna_thumb", "bzna_input"))
            pixels = self.attempt("decode", lambda sample=sample, track=track: sample.decode(track))
            if pixels is NOTHING:
                continue
            clean = sample.layout.tracks[track].clean
            if (pixels.shape, pixels.dtype) != ((clean.height, clean.width, 3), np.uint8):
                self.fault(f"decode: {pixels.dtype} {pixels.shape}, clean is {clean}")

    def _check_batches(self, dataset: Any, rng: Random) -> None:
        part = dataset[:5]
        loader = benzina.Loader(part, (6, 9), 2, shuffle=True, seed=1, threads=rng.choice((1, 2)))
        before = threadlist.running()
        found = self.attempt("batches", lambda: list(_named(loader)))
        if not threadlist.running() <= before:
            self.fault("batches: threads are left")
        for images, targets in found if found is not NOTHING else ():
            if images.shape[1:] != (3, 6, 9) or len(images) != len(targets):
                self.fault(f"batches: {images.shape} with {targets.shape}")
            if not np.isfinite(images).all():
                self.fault("batches: values that are not numbers")

    def _check_original(self, dataset: Any, rng: Random) -> None:
        """Check the names of the original Benzina."""
        path = self._written()
        with benzina.File(path) as file:
            for name, track in dataset.tracks.items():
                theirs = benzina.Track(file, name)
                if len(theirs) != len(track):
                    self.fault(f"Track: {len(theirs)} samples of {len(track)}")
                for k in range(min(3, len(track))):
                    ours = self.attempt("[]", lambda track=track, k=k: track[k])
                    place = self.attempt(
                        "Track", lambda theirs=theirs, k=k: theirs.sample_location(k)
                    )
                    if place is not ours and place != ours:
                        self.fault(f"Track: sample {k} at {place}, and at {ours}")

    def _check_extract(self, dataset: Any, rng: Random) -> None:
        target = self.folder / "extracted"
        shutil.rmtree(target, ignore_errors=True)
        before = {*self.folder.iterdir(), target}
        self.attempt("extract", lambda: benzina.extract(dataset[:4], target, nthreads=1))
        if not {*self.folder.iterdir()} <= before:
            self.fault("extract: files outside of its folder")

    def _check_travels(self, dataset: Any, rng: Random) -> None:
        with pickle.loads(pickle.dumps(dataset)) as again:
            if len(again) != len(dataset):
                self.fault("another one, after it was pickled")
        # A file that begins with an unusual box is identified as another kind.
        found = self.attempt("frames.open", lambda: bp.frames.open(self._written()))
        if found is not NOTHING:
            with found:
                if len(found) != len(dataset):
                    self.fault("frames.open: another number of samples")

    def _written(self) -> Path:
        path = self.folder / "damaged.bzna"
        path.write_bytes(self.data)
        return path


def _named(loader: Iterable[Any]) -> Iterator[Any]:
    """Yield batches; an error must name the sample or the table."""
    try:
        yield from loader
    except DatasetJudge.errors as err:
        if not _NAMED.search(str(err)):
            raise AssertionError(f"an error that names nothing: {err}") from err
        raise
