"""The kernel that parses a picture's mp4 agrees with its Python twin, including on faults."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack._ext import bmff as kernel
from bloscpack.benzina.mp4.bmff import pack_box, pack_full_box, reader_of, walk
from bloscpack.benzina.mp4.samplelayout import parse_sample
from bloscpack.exceptions import FormatError, UnsupportedError
from tests.reference import benzina_sample as twin

from . import making, vectors


def samples() -> list[bytes]:
    """Return real samples: H.265 with one and two pictures, H.264, one without a target."""
    base = vectors.data("base5.bzna")
    first = vectors.facts("base5.bzna")["samples"][0]
    names = "samples/avc.mp4", "samples/portrait_notarget.mp4", "samples/dot.mp4"
    return [base[first["offset"] :][: first["size"]], *map(vectors.data, names)]


def check_same(data: bytes) -> int:
    """Compare the kernel, its twin and the public function; return the code."""
    found = kernel.parse_sample(data)
    assert found == twin.parse_sample(data)
    code, offset, _, tracks = found
    if code:
        assert 0 <= offset <= len(data)
        if code == kernel.ELSEWHERE:
            with pytest.raises(
                UnsupportedError, match=f"reference at offset {offset} of the sample"
            ):
                parse_sample(data)
            return code
        with pytest.raises(FormatError) as caught:
            parse_sample(data)
        assert caught.value.offset == offset
        return code
    layout = parse_sample(data)
    for name, track in layout.tracks.items():
        assert 0 <= track.offset <= track.offset + track.nbytes <= len(data)
        left, top, width, height = track.clean
        assert 0 <= left <= left + width <= track.frame[0]
        assert 0 <= top <= top + height <= track.frame[1]
        assert tracks[name] == track
    return 0


def test_codes_are_the_same() -> None:
    names = [name for name in vars(twin) if name.isupper() and isinstance(vars(twin)[name], int)]
    codes = {name: getattr(twin, name) for name in names if name != "VISUAL_NBYTES"}
    assert len(codes) == 13
    assert codes == {name: getattr(kernel, name) for name in codes}


def test_real_samples() -> None:
    for data in samples():
        assert check_same(data) == 0


def test_any_buffer() -> None:
    data = making.sample()
    for view in (bytearray(data), memoryview(b"--" + data)[2:]):
        assert kernel.parse_sample(view) == kernel.parse_sample(data)
    # Configurations are copies, so the buffer has been released.
    buffer = bytearray(data)
    layout = parse_sample(buffer)
    buffer.clear()
    assert layout.tracks["bzna_input"].config == making.HVCC


@pytest.mark.parametrize("profile", ["default", "reference"])
def test_cut_at_every_byte(profile: str) -> None:
    data = making.sample(profile=profile)  # type: ignore[arg-type]
    codes = {check_same(data[:end]) for end in range(len(data))}
    assert codes == {kernel.BOX_CUT, kernel.BOX_LONG, kernel.NO_MOOV}


def test_a_real_sample_cut_at_every_byte_of_its_moov() -> None:
    data = samples()[1]
    start = vectors.facts("samples/avc.mp4")["boxes"][2][1]
    codes = {check_same(data[:end]) for end in range(start, len(data))}
    assert codes == {kernel.BOX_CUT, kernel.BOX_LONG, kernel.NO_MOOV}


def test_every_byte_of_the_moov_changed() -> None:
    data = bytearray(making.sample())
    start = data.index(b"moov") - 4
    codes = set()
    for at in range(start, len(data)):
        kept = data[at]
        for value in (0, 0xFF, kept ^ 1):
            data[at] = value
            codes.add(check_same(bytes(data)))
        data[at] = kept
    # Names that differ in more than one byte, fields cut at certain sizes only.
    assert codes >= set(range(14)) - {kernel.SAME_NAME, kernel.SHORT}


@pytest.mark.parametrize("seed", range(4))
def test_random_changes(seed: int) -> None:
    rng = random.Random(seed)
    known = [*samples(), making.sample(profile="reference")]
    codes = []
    for _ in range(700):
        data = bytearray(rng.choice(known))
        start = data.rindex(b"moov") - 4
        for _ in range(rng.randint(1, 4)):
            change(rng, data, start)
        codes.append(check_same(bytes(data)))
    assert codes.count(0) > 100
    assert len(set(codes)) > 6


def change(rng: random.Random, data: bytearray, start: int) -> None:
    """Change a number, or copy or cut some bytes, after `start`."""
    at = rng.randrange(start, len(data) - 8)
    kind = rng.randrange(5)
    if kind == 0:
        data[at] = rng.randrange(256)
    elif kind == 1:
        data[at : at + 4] = rng.choice((0, 1, 7, 8, 2**31, 2**32 - 1)).to_bytes(4, "big")
    elif kind == 2:
        data[at : at + 8] = rng.choice((2**63, 2**64 - 1, 2**32)).to_bytes(8, "big")
    elif kind == 3:
        other = rng.randrange(start, len(data) - 8)
        data[at : at + 8] = data[other : other + 8]
    else:
        del data[at : at + rng.randint(1, 40)]


@given(st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    check_same(data)
    check_same(pack_box(b"moov", pack_box(b"trak", data)))


def box_at(data: bytes, *path: bytes) -> int:
    """Return the payload offset of the first box at a path."""
    found = walk(reader_of(data), 0, len(data), to_end=True)
    return next(box.payload_offset for above, box in found if (*above, box.kind) == path)


STBL = b"moov", b"trak", b"mdia", b"minf", b"stbl"


def changed(at: int, number: int, nbytes: int = 4) -> bytes:
    data = bytearray(making.sample())
    data[at : at + nbytes] = number.to_bytes(nbytes, "big")
    return bytes(data)


def test_faults_have_distinct_codes() -> None:
    data = making.sample()
    entry = box_at(data, *STBL, b"stsd") + 8
    dref = box_at(data, *STBL[:-1], b"dinf", b"dref")
    clap, width = data.index(b"clap") + 4, entry + 8 + 24
    cases = {
        changed(box_at(data, *STBL, b"stsz") + 8, 2): kernel.NOT_ONE,
        changed(box_at(data, *STBL, b"stsc"), 2**32 - 1): 0,  # version and flags
        changed(box_at(data, *STBL, b"stsc") + 4, 2**32 - 1): kernel.TABLE_LONG,
        changed(box_at(data, *STBL, b"stsc") + 12, 2**32 - 1): kernel.NOT_ONE,
        changed(box_at(data, *STBL, b"stco") + 4, 2**30): kernel.TABLE_LONG,
        changed(box_at(data, *STBL, b"stco") + 8, len(data) - 8): kernel.OUTSIDE,
        changed(box_at(data, *STBL, b"stco") + 8, 2**32 - 1): kernel.OUTSIDE,
        changed(box_at(data, *STBL, b"stsz") + 4, 2**32 - 1): kernel.OUTSIDE,
        changed(box_at(data, *STBL, b"stsd") + 4, 0): kernel.NO_TABLE,
        changed(box_at(data, *STBL, b"stsd") + 4, 2**32 - 1): kernel.TABLE_LONG,
        changed(box_at(data, *STBL, b"stsd") - 4, 0): kernel.NO_TABLE,
        changed(entry, 0): kernel.BOX_SMALL,
        changed(entry, 8 + 77): kernel.SHORT,
        changed(box_at(data, *STBL) - 8, 2**32 - 1): kernel.BOX_LONG,
        changed(box_at(data, b"moov") - 4, 0): kernel.NO_MOOV,
        changed(clap + 4, 0): kernel.BAD_APERTURE,  # denominator 0
        changed(clap + 4, 3): kernel.BAD_APERTURE,  # 33 and a third pixels
        changed(clap, 129): kernel.BAD_APERTURE,  # wider than the frame
        changed(clap, 0): kernel.BAD_APERTURE,
        changed(clap + 16, 2**32 - 29): kernel.BAD_APERTURE,  # half a pixel before the frame
        changed(clap + 16, 2**32 - 30): kernel.BAD_APERTURE,
        changed(clap + 16, 2**32 - 26): 0,
        changed(clap + 16, 28): 0,
        changed(clap + 16, 30): kernel.BAD_APERTURE,
        changed(clap + 20, 0): kernel.BAD_APERTURE,
        data.replace(b"clap", b"free"): 0,
        changed(width, 0, 2).replace(b"clap", b"free"): kernel.BAD_APERTURE,
        changed(width + 2, 0, 2).replace(b"clap", b"free"): kernel.BAD_APERTURE,
        changed(box_at(data, *STBL, b"stsc") + 16, 0): kernel.NO_TABLE,  # missing sample entry
        changed(box_at(data, *STBL, b"stsc") + 16, 2): kernel.NO_TABLE,
        changed(entry + 8 + 6, 0, 2): kernel.NO_REFERENCE,
        changed(entry + 8 + 6, 2, 2): kernel.NO_REFERENCE,
        changed(dref + 4, 2**32 - 1): kernel.TABLE_LONG,
        changed(dref + 8, 7): kernel.BOX_SMALL,
        changed(dref + 8, 11): kernel.ELSEWHERE,  # too short for its flags
        changed(dref + 16, 0): kernel.ELSEWHERE,
        data.replace(b"url ", b"urn "): kernel.ELSEWHERE,
        data.replace(b"url ", b"file"): kernel.NO_REFERENCE,
        data.replace(b"dref", b"free"): 0,
        data.replace(b"dinf", b"free"): 0,
        data.replace(b"bzna_thumb", b"bzna_input"): kernel.SAME_NAME,
        data.replace(b"bzna_", b"benz_"): 0,
        b"": kernel.NO_MOOV,
    }
    assert [check_same(case) for case in cases] == list(cases.values())


@pytest.mark.parametrize(
    ("name", "ours"),
    [(b"", False), (b"bzna_", True), (b"bzna_input", True), (b"bzna_\xff\0rest", True)],
)
def test_names_without_a_nul_and_empty_ones(name: bytes, ours: bool) -> None:
    stored = making.sample()
    trak = stored.index(b"trak") - 4
    named = b"vide" + bytes(12) + b"bzna_input\0"
    data = stored[:trak] + resized(stored[trak:], named, b"vide" + bytes(12) + name)
    moov = data.index(b"moov") - 4
    data = data[:moov] + (len(data) - moov).to_bytes(4, "big") + data[moov + 4 :]
    assert check_same(data) == 0
    tracks = parse_sample(data).tracks
    expected = name.split(b"\0")[0].decode("utf-8", "backslashreplace")
    assert list(tracks)[:1] == ([expected] if ours else ["bzna_fname"])


def resized(traks: bytes, old: bytes, new: bytes) -> bytes:
    """Replace the first occurrence, and correct the sizes of hdlr, mdia and trak around it."""
    at, out = traks.index(old), bytearray(traks)
    for kind in (b"hdlr", b"mdia", b"trak"):
        place = traks.rindex(kind, 0, at) - 4
        nbytes = int.from_bytes(out[place : place + 4], "big") + len(new) - len(old)
        out[place : place + 4] = nbytes.to_bytes(4, "big")
    out[at : at + len(old)] = new
    return bytes(out)


@pytest.mark.parametrize("kind", [b"moov", b"trak", b"mdia", b"stbl", b"free"])
def test_depth_costs_nothing(kind: bytes) -> None:
    deep = making.nested(kind, 20_000)
    for data in (deep, pack_box(b"moov", deep), pack_box(b"moov", pack_box(b"trak", deep))):
        code = kernel.parse_sample(data)[0]
        assert code in (0, kernel.NO_MOOV)


def test_many_brands_take_no_memory() -> None:
    data = pack_box(b"ftyp", b"isom" * 100_000) + pack_box(b"moov")
    code, _, brands, _ = kernel.parse_sample(data)
    assert (code, len(brands)) == (0, 4096 // 4 - 1)
    assert check_same(data) == 0


def test_forms_that_no_tool_writes() -> None:
    """The moov first, 64-bit boxes and chunk offsets, tables of one size, a box of size 0."""
    stored = making.sample(3)
    moov = stored.index(b"moov") - 4
    ftyp, mdat, tail = stored[:20], stored[20:moov], stored[moov:]
    expected = parse_sample(stored)
    assert parse_sample(ftyp + tail + mdat)[1].keys() == expected.tracks.keys()
    last = ftyp + mdat + (0).to_bytes(4, "big") + tail[4:]
    assert parse_sample(last) == expected
    wide = ftyp + mdat + (1).to_bytes(4, "big") + b"moov"
    wide += (len(tail) + 8).to_bytes(8, "big") + tail[8:]
    assert parse_sample(wide) == expected
    skipped = pack_box(b"free", bytes(9)) + ftyp + pack_box(b"uuid", bytes(40))
    assert check_same(skipped + tail + mdat) == 0
    for table in (b"stco", b"stsz"):
        assert check_same(widened(stored, table)) == 0
        assert parse_sample(widened(stored, table)) == expected


def widened(data: bytes, kind: bytes) -> bytes:
    """Convert the last table of a type into its other form, and enlarge the boxes around it."""
    at = data.rindex(kind) - 4
    old = data[at : at + 20]
    if kind == b"stco":
        new = pack_full_box(b"co64", 0, 0, old[12:16], bytes(4), old[16:])
    else:
        new = pack_full_box(b"stsz", 0, 0, bytes(4), old[16:], old[12:16])
    out = bytearray(data)
    for above in (b"stbl", b"minf", b"mdia", b"trak", b"moov"):
        place = data.rindex(above, 0, at) - 4
        nbytes = int.from_bytes(out[place : place + 4], "big") + len(new) - len(old)
        out[place : place + 4] = nbytes.to_bytes(4, "big")
    out[at : at + 20] = new
    return bytes(out)
