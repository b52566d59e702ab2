"""Benzina datasets with false boxes, counts and sizes, which must not cost time, memory or stack.

Each file is read in every way, or in those that reach its error, in separate processes.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from crafted_datasets import EMPTY, even, filled, handler, movie, table, track, u32, with_a_hole
from dataset_entries import changed, dataset_readers, sparse

from bloscpack.benzina.mp4.bmff import pack_box, pack_large_header, reader_of, walk
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample
from tests.benzina import making, vectors
from tests.benzina.datasetfiles import boxes, dataset_bytes, patched
from tests.benzina.encoded import encoded, said_to_be

pytest.importorskip("av", reason="pictures are decoded by PyAV")

Survive = Callable[..., dict[str, dict[str, str]]]
INPUT, TARGET, NAME, THUMB = "bzna_input", "bzna_target", "bzna_fname", "bzna_thumb"
U32, U64 = 0xFFFFFFFF, (1 << 64) - 1
GIB = 1 << 30
FREE = pack_box(b"free")
KINDS = (b"moov", b"stbl", b"udta", b"\0\0\0\0")


@pytest.fixture
def survive_datasets(survive_files: Callable[..., Survive]) -> Survive:
    every = tuple(name for name in dataset_readers(Path()) if "of changes" not in name)
    return survive_files("bzna ", every)


def test_a_sound_dataset_is_read_in_every_way(survive_datasets: Survive) -> None:
    found = survive_datasets({"": vectors.data("solo1.bzna")}, 192 << 20)
    assert set(found[""].values()) == {"value"}


class TestBoxes:
    @pytest.mark.slow
    def test_a_great_many_of_them(self, survive_datasets: Survive) -> None:
        free64 = pack_large_header(b"free", 16)
        sound = track(INPUT, EMPTY)
        refused = {
            "free": filled(FREE, 8 << 20),
            "free of both sizes": filled(FREE + free64),
            "ftyp": filled(pack_box(b"ftyp")),
            "in moov": movie(filled(FREE)),
            "trak": movie(filled(pack_box(b"trak"))),
            "trak, named": movie(filled(pack_box(b"trak", pack_box(b"mdia", handler(b"x"))))),
            "containers": movie(filled(pack_box(b"edts", pack_box(b"edts")))),
            "tkhd": movie(track(INPUT, EMPTY, in_trak=filled(pack_box(b"tkhd")))),
        }
        read = {
            "udta": movie(sound, filled(pack_box(b"udta", FREE))),
            "in udta": movie(sound, pack_box(b"udta", filled(FREE))),
            "in trak": movie(track(INPUT, EMPTY, in_trak=filled(pack_box(b"edts")))),
            "in mdia": movie(track(INPUT, EMPTY, in_mdia=filled(handler(b"")))),
            "in minf": movie(track(INPUT, EMPTY, in_minf=filled(pack_box(b"stbl")))),
            "in stbl": movie(
                track(INPUT, table(u32(0, 0), u32(0), u32(0), filled(pack_box(b"stsz"))))
            ),
        }
        found = survive_datasets(refused | read, 16 << 20, only=("outline",))
        assert {name for name, ways in found.items() if ways["outline"] == "refused"} == {*refused}

    def test_20000_in_each_other(self, survive_datasets: Survive) -> None:
        """Boxes nested in the file, in one of its tracks and in a sample."""
        base, files = vectors.data("solo1.bzna"), {}
        (moov,) = boxes(base, b"moov")
        facts = vectors.facts("solo1.bzna")["samples"][0]
        inner = base[facts["offset"] : facts["offset"] + facts["size"]]
        for kind in KINDS:
            deep = making.nested(kind, 20_000)
            name = kind.decode()
            more = (moov.nbytes + len(deep)).to_bytes(4, "big")
            files[f"{name} in moov"] = patched(base + deep, moov.offset, more)
            files[f"{name} in front"] = deep + base
            files[f"{name} in a trak"] = movie(track(INPUT, EMPTY, in_trak=deep))
            sample = inner + deep
            files[f"{name} in a sample"] = pack_box(b"mdat", sample) + movie(
                even(INPUT, len(sample), 1)
            )
        found = survive_datasets(files, only=("samples", "original"))
        is_read = {name for name, ways in found.items() if ways["samples"] == "value"}
        # At the front they shift the data that offsets point to.
        assert is_read == {
            *(
                f"{name} in {where}"
                for name in ("udta", "\0\0\0\0")
                for where in ("moov", "a trak")
            ),
            *(f"{kind.decode()} in a sample" for kind in KINDS),
        }

    def test_sizes_of_every_box(self, survive_datasets: Survive) -> None:
        """Boxes of the file and of its sample: too large, too small, of 64 bits, leading back."""
        base = vectors.data("solo1.bzna")
        facts = vectors.facts("solo1.bzna")["samples"][0]
        sample = base[facts["offset"] : facts["offset"] + facts["size"]]
        changes = {}
        for data, start in ((base, 0), (sample, facts["offset"])):
            for _, box in walk(reader_of(data), 0, len(data), to_end=True):
                at = start + box.offset
                lies = (0, 7, 8, box.nbytes - 1, box.nbytes + 1, U32)
                changes |= {(at, lie): u32(lie) for lie in lies}
                for large in (0, 15, box.nbytes, 1 << 63, U64 - box.offset):
                    lie = u32(1) + box.kind + large.to_bytes(8, "big")
                    changes[at, large + (1 << 64)] = lie
        assert len(changes) > 800
        survive_datasets({"": changed(base, changes)}, only=("of changes",))


class TestCounts:
    @pytest.mark.slow
    def test_millions_of_samples_in_8_mb(self, survive_datasets: Survive) -> None:
        """Tables that a sparse file has room for, although it stores hardly any bytes."""
        count = 8_000_000
        room = pack_box(b"free", bytes(count))
        places = u32(8) * (count // 4)
        pairs = table(u32(1, count // 2), u32(1, 1, 2, 1), u32(count // 4) + places)
        singles = table(u32(1, count // 4), u32(1, 1, 1, 1), u32(count // 4) + places)
        some = count // 24
        runs = b"".join(u32(2 * k + 1, 1, 1, 2 * k + 2, 2, 1) for k in range(some))
        uneven = table(u32(1, 3 * some), u32(2 * some) + runs, u32(2 * some) + u32(8) * 2 * some)
        sizes = table(u32(0, 900_000) + u32(5) * 900_000, u32(1, 1, 900_000, 1), u32(1, 8))
        files = {
            "one chunk": movie(even(INPUT, 1, count)),
            "targets": movie(even(INPUT, 1, count), even(TARGET, 8, count // 8)),
            "pairs": movie(track(INPUT, pairs)),
            "singles": movie(track(INPUT, singles)),
            "runs": movie(track(INPUT, uneven)),
            "sizes": movie(track(INPUT, sizes)),
            "names": movie(even(INPUT, 1, count), even(NAME, 1, count)),
        }
        files = {name: room + data for name, data in files.items()}
        ways = ("outline", "tables", "samples", "batches")
        for name, found in survive_datasets(files, 128 << 20, only=ways).items():
            assert found["tables"] == "value", name
            assert found["samples"] == "refused"

    def test_counts_of_32_bits(self, survive_datasets: Survive) -> None:
        base = vectors.data("base5.bzna")
        changes = {}
        for name in (INPUT, TARGET, NAME, THUMB):
            for kind, at in ((b"stsz", 8), (b"stsc", 4), (b"stco", 4), (b"stts", 4), (b"stsd", 4)):
                (box,) = boxes(base, kind, name)
                for count in (U32, U32 // 12, 1 << 30, 6, 4, 0):
                    changes[box.payload_offset + at, count] = u32(count)
            (box,) = boxes(base, b"stsz", name)
            changes |= {(box.payload_offset + 4, size): u32(size) for size in (U32, 1 << 20, 1)}
            (box,) = boxes(base, b"stsc", name)
            for run in ((1, U32, 1), (U32, 1, 1), (1, 0, 1), (0, 1, 1), (1, 5, 1)):
                changes[box.payload_offset + 8, run] = u32(*run)
        survive_datasets({"": changed(base, changes)}, only=("of changes",))


class TestHoles:
    """Sparse files of gigabytes."""

    def test_claims_that_cost_nothing(self, survive_datasets: Survive) -> None:
        free = pack_large_header(b"free", 4 * GIB)
        every, named = even(INPUT, 1, U32 - 9, 16), even(INPUT, 1, GIB)
        sound = track(INPUT, EMPTY)
        splits = pack_large_header(b"moov", 4 * GIB) + sound
        splits += pack_large_header(b"udta", 4 * GIB - len(splits))
        splits += pack_large_header(b"bzsp", 4 * GIB - len(splits))
        refused = {
            "a moov of nothing": sparse(8 * GIB, {0: pack_large_header(b"moov", 8 * GIB)}),
            "a moov behind nothing": sparse(4 * GIB, {0: FREE}),
            "splits": sparse(4 * GIB, {0: splits}),
        }
        read = {
            "sizes": sparse(*with_a_hole(INPUT, GIB)),
            "sizes of targets": sparse(*with_a_hole(TARGET, GIB, named)),
            "sizes of names": sparse(*with_a_hole(NAME, GIB, named)),
            "samples of a byte": sparse(4 * GIB + 300, {0: free, 4 * GIB: movie(every)}),
            "and targets": sparse(
                4 * GIB + 500, {0: free, 4 * GIB: movie(every, even(TARGET, 8, 9))}
            ),
            "and names": sparse(
                4 * GIB + 500, {0: free, 4 * GIB: movie(every, even(NAME, 1, U32 - 9))}
            ),
        }
        ways = ("outline", "tables", "samples", "ids", "batches", "original")
        found = survive_datasets(refused | read, only=ways)
        assert {name for name, what in found.items() if what["outline"] == "value"} == {*read}
        found_values = {name for name, what in found.items() if what["tables"] == "value"}
        assert found_values == {"samples of a byte", "splits"}
        read_on = {name for name, what in found.items() if what["samples"] == "value"}
        assert read_on == {"splits"}  # it has none


class TestPictures:
    @pytest.mark.parametrize("codec", ["libx265", "libx264", "libsvtav1"])
    def test_configurations(self, survive_datasets: Survive, codec: str) -> None:
        """Every byte of hvcC, avcC or av1C, and the first ones of the picture."""
        coded = encoded(codec)
        stored = StoredPicture(coded.kind, coded.config, coded.payload, (64, 64), (0, 0, 64, 64))
        base = dataset_bytes([pack_sample(stored, None, name=b"a\0")])
        config, payload = base.rindex(coded.config), base.index(coded.payload)
        places = [*range(config, config + len(coded.config)), *range(payload, payload + 12)]
        changes = {
            (at, new): bytes([new])
            for at in places
            for new in {0, 0x7F, 0xFF, base[at] ^ 1, base[at] ^ 0x80} - {base[at]}
        }
        assert len(changes) > 60
        survive_datasets({"": changed(base, changes)}, 128 << 20, only=("pictures of changes",))

    def test_sizes_up_to_the_limit(self, survive_datasets: Survive) -> None:
        """Entry, configuration and aperture agree that the picture has 2**26 pixels."""
        coded = encoded(pix_fmt="gray")
        _, config = said_to_be(coded, 8192)
        stored = StoredPicture(coded.kind, config, coded.payload, (8192, 8192), (0, 0, 9, 9))
        data = dataset_bytes([pack_sample(stored, None, name=b"a\0")])
        found = survive_datasets({"": data}, only=("pictures", "batches", "verify"))
        assert found[""] == {"pictures": "refused", "batches": "refused", "verify": "value"}


def test_names_that_lead_elsewhere(survive_datasets: Survive) -> None:
    """Names are text; the way `extract` then checks that nothing is beside its folder."""
    names = [b"../../x", b"/tmp/x", b"..", b"a/../../b", b"\xff\0\xfe", b"a" * 5000, b"-rf", b"%n"]
    names += [b"", b"\n\r\x1b[2J", "\u202e\u2028".encode(), b"con", b"a\\..\\..\\b", b"a", b"a"]
    data = dataset_bytes([making.sample(k) for k in range(len(names))], names)
    found = survive_datasets({"": data}, only=("tables", "ids", "extract", "commands", "source"))
    assert found[""].pop("source") == "refused"  # of no picture
    assert set(found[""].values()) == {"value"}
