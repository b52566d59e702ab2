"""Written boxes are read back, and are as small and correct as the default profile requires."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bloscpack.benzina.mp4.bmff import children, reader_of, walk
from bloscpack.benzina.mp4.format import (
    CONFIG_KINDS,
    DURATION,
    INPUT,
    NAME,
    TARGET,
    THUMB,
    TIMESCALE,
    Profile,
    pack_name,
    unpack_name,
)
from bloscpack.benzina.mp4.movie import Movie, TrackTable, unpack_movie
from bloscpack.benzina.mp4.moviewriter import (
    HEAD_NBYTES,
    Extents,
    film_entry,
    pack_head,
    pack_movie,
)
from bloscpack.benzina.mp4.samplelayout import parse_sample
from bloscpack.benzina.mp4.samplewriter import StoredPicture, pack_sample
from bloscpack.benzina.splits import unpack_splits
from bloscpack.exceptions import FormatError

from . import making, vectors

profiles = st.sampled_from(["default", "reference"])
each_profile = pytest.mark.parametrize("profile", ["default", "reference"])


@st.composite
def pictures(draw: st.DrawFn) -> StoredPicture:
    width, height = draw(st.integers(1, 65535)), draw(st.integers(1, 65535))
    clean_width, clean_height = draw(st.integers(1, width)), draw(st.integers(1, height))
    return StoredPicture(
        draw(st.sampled_from(sorted(CONFIG_KINDS))),
        draw(st.binary(max_size=50)),
        draw(st.binary(max_size=50)),
        (width, height),
        (
            draw(st.integers(0, width - clean_width)),
            draw(st.integers(0, height - clean_height)),
            clean_width,
            clean_height,
        ),
        draw(st.none() | st.tuples(*[st.integers(0, 65535)] * 3, st.booleans())),
        draw(st.binary(max_size=31)),
        draw(st.none() | st.tuples(*[st.integers(0, 2**32 - 1)] * 2)),
    )


names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.binary(max_size=20)
)


@given(
    pictures(),
    st.none() | pictures(),
    names,
    st.none() | st.binary(min_size=8, max_size=8),
    profiles,
)
def test_samples_come_back(
    picture: StoredPicture,
    thumb: StoredPicture | None,
    name: str | bytes,
    target: bytes | None,
    profile: Profile,
) -> None:
    stored_name = pack_name(name)
    data = pack_sample(picture, thumb, name=stored_name, target=target, profile=profile)
    layout = parse_sample(data)
    assert layout.brands == (b"isom", b"isom")
    expected = {INPUT: picture, NAME: stored_name, TARGET: target, THUMB: thumb or picture}
    if target is None:
        del expected[TARGET]
    assert list(layout.tracks) == list(expected)
    for key, track in layout.tracks.items():
        found, wanted = data[track.offset : track.offset + track.nbytes], expected[key]
        if isinstance(wanted, StoredPicture):
            assert found == wanted.payload
            assert track[5:9] == (
                wanted.config_kind,
                wanted.config,
                wanted.frame,
                wanted.clean,
            )
            assert track.entry_kind == CONFIG_KINDS[wanted.config_kind]
        else:
            assert found == wanted
    payloads = {picture.payload, (thumb or picture).payload}
    mdat = next(box for box in children(reader_of(data), 0, len(data)) if box.kind == b"mdat")
    stored = sum(map(len, payloads)) + len(stored_name) + len(target or b"")
    assert mdat.nbytes - mdat.header_nbytes == stored


@given(names)
def test_names(name: str | bytes) -> None:
    stored = pack_name(name)
    assert stored.endswith(b"\0")
    if isinstance(name, str):
        assert unpack_name(stored) == name
        assert unpack_name(stored[:-1]) == name or name.endswith("\0")
    else:
        assert stored == name + b"\0"
        assert unpack_name(stored).isprintable() or unpack_name(stored).encode("utf-8")


def test_names_that_are_not_utf_8() -> None:
    """A name keeps the bytes from the file system; as text they are escaped."""
    assert pack_name("a\udcff.png") == b"a\xff.png\0"
    assert unpack_name(b"a\xff.png\0") == "a\\xff.png"
    with pytest.raises(ValueError, match="surrogates not allowed"):
        pack_name("\ud800")


@st.composite
def extents(draw: st.DrawFn, counts: st.SearchStrategy[int]) -> Extents:
    count = draw(counts)
    top = draw(st.sampled_from([100, 2**32 - 1, 2**32, 2**63]))
    offsets = draw(st.lists(st.integers(0, top), min_size=count, max_size=count))
    most = draw(st.sampled_from([0, 1, 1000, 2**32 - 1]))
    sizes = draw(st.lists(st.integers(0, most), min_size=count, max_size=count))
    return Extents(np.array(offsets, np.uint64), np.array(sizes, np.uint64))


def extents_of(data: bytes, track: TrackTable) -> tuple[list[int], list[int]]:
    chunks = np.frombuffer(data, track.chunks.dtype, track.chunks.count, track.chunks.offset)
    sizes = np.frombuffer(data, track.sizes.dtype, track.sizes.count, track.sizes.offset)
    return chunks.tolist(), sizes.tolist() or [track.sample_nbytes] * track.count


@given(st.data(), profiles)
def test_movies_come_back(data: st.DataObject, profile: Profile) -> None:
    count = data.draw(st.integers(0, 5))
    tracks = {
        INPUT: data.draw(extents(st.just(count))),
        TARGET: data.draw(extents(st.integers(0, count))),
        NAME: data.draw(extents(st.just(count))),
        THUMB: data.draw(extents(st.just(count))),
    }
    for left_out in data.draw(st.lists(st.sampled_from([TARGET, NAME, THUMB]), unique=True)):
        del tracks[left_out]
    splits = data.draw(
        st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.just(0))
    )
    moov = pack_movie(
        tracks,
        film_entry(making.sample()),
        profile=profile,
        splits={name: range(index % (count + 1), count) for index, name in enumerate(splits)},
    )
    movie = outline_before_a_hole(moov)
    wanted = [name for name in tracks if name != THUMB or count]
    assert list(movie.tracks) == wanted
    assert movie.header == (TIMESCALE, DURATION * count, len(wanted) + 1)
    for number, name in enumerate(wanted, 1):
        track, (offsets, sizes) = movie.tracks[name], tracks[name]
        assert track.header.track_id == number
        assert extents_of(moov, track) == (offsets.tolist(), sizes.tolist())
        assert track.chunks.dtype.itemsize == (8 if offsets.max(initial=0) >= 2**32 else 4)
        constant = len(set(sizes.tolist())) == 1 and sizes[0] > 0 and profile == "default"
        assert bool(track.sample_nbytes) == constant
    found = [box for path, box in walk(reader_of(moov), 0, len(moov)) if box.kind == b"udta"]
    assert bool(found) == bool(splits)
    if splits:
        at = found[0].payload_offset + 8
        kept = unpack_splits(moov[at : found[0].end], count)
        assert kept == {
            name: range(index % (count + 1), count) for index, name in enumerate(splits)
        }


def outline_before_a_hole(moov: bytes) -> Movie:
    """Return the box structure of a file of over 64 GiB, for comparing sizes."""
    hole = bytes.fromhex("00000001 6d646174") + (2**36).to_bytes(8, "big")

    def read(offset: int, nbytes: int) -> bytes:
        return (moov + hole)[offset : offset + nbytes]

    return unpack_movie(read, len(moov) + 2**36)


def test_the_default_is_true() -> None:
    """Durations are one second per picture, and the film has the size of its frames."""
    data = making.dataset([making.sample(k) for k in range(3)])
    movie = unpack_movie(reader_of(data), len(data))
    assert movie.header == (20, 60, 5)
    for name, track in movie.tracks.items():
        assert track.media == (20, 60)
        assert track.header.duration == 60
        assert track.header.flags == (3 if name == THUMB else 0)
    assert movie.tracks[THUMB].header[3:] == (64 << 16, 64 << 16)
    assert movie.tracks[TARGET].sample_nbytes == 8
    sample = making.sample()
    inner = unpack_movie(reader_of(sample), len(sample))
    for name, track in inner.tracks.items():
        assert (track.media, track.header.duration) == ((20, 20), 20)
        assert track.header.flags == (3 if name in (NAME, THUMB) else 0)
    assert inner.tracks[INPUT].header[3:] == (100 << 16, 50 << 16)
    assert inner.header == (20, 20, 5)


def test_the_default_is_smaller() -> None:
    assert len(making.sample()) < len(making.sample(profile="reference")) - 80
    counted = {
        profile: len(making.dataset([making.sample(1)] * 100, profile))  # type: ignore[arg-type]
        for profile in ("default", "reference")
    }
    assert counted["default"] < counted["reference"] - 400


def test_long_movies_have_long_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """From 214 748 365 samples on."""
    monkeypatch.setattr("bloscpack.benzina.mp4.moviewriter.DURATION", 2**31)
    for count, version in ((1, 0), (2, 1)):
        zeros = np.zeros(count, np.uint64)
        moov = pack_movie({INPUT: Extents(zeros, zeros)})
        for kind in (b"mvhd", b"tkhd", b"mdhd"):
            assert moov[moov.index(kind) + 4] == version
        movie = unpack_movie(reader_of(moov), len(moov))
        assert movie.header.duration == movie.tracks[INPUT].media.duration == count << 31
        assert movie.tracks[INPUT].header.duration == count << 31


@each_profile
def test_an_empty_dataset(profile: Profile) -> None:
    none = Extents(np.empty(0, np.uint64), np.empty(0, np.uint64))
    moov = pack_movie(dict.fromkeys((INPUT, TARGET, NAME, THUMB), none), profile=profile)
    data = pack_head(0) + moov
    movie = unpack_movie(reader_of(data), len(data))
    assert [(name, track.count) for name, track in movie.tracks.items()] == [
        (INPUT, 0),
        (TARGET, 0),
        (NAME, 0),
    ]
    assert movie.header == (20, 0, 4)


def test_unsupported_content_is_refused() -> None:
    one = Extents(np.array([40], np.uint64), np.array([9], np.uint64))
    with pytest.raises(ValueError, match="a track of thumbnails needs a sample entry"):
        pack_movie({INPUT: one, THUMB: one})
    big = Extents(one.offsets, np.array([2**32], np.uint64))
    with pytest.raises(ValueError, match="a sample of 4294967296 bytes exceeds the limit of 4 GiB"):
        pack_movie({INPUT: big})
    with pytest.raises(ValueError, match="profile must be 'default' or 'reference', not 'other'"):
        pack_movie({INPUT: one}, profile="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sides may be at most 65535"):
        pack_sample(making.picture(frame=(65536, 1), clean=(0, 0, 1, 1)), name=b"\0")
    with pytest.raises(FormatError, match="the sample has no pictures in track 'bzna_thumb'"):
        film_entry(making.sample().replace(b"bzna_", b"benz_"))


def test_a_sample_of_4_gib_is_refused() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return 2**32 - 28

    with pytest.raises(ValueError, match="it must be under 4 GiB"):
        pack_sample(making.picture(Huge(b"x")), name=b"\0")


def test_the_film_has_the_first_entry_uncropped() -> None:
    sample = making.sample()
    entry = film_entry(sample)
    kinds = [box.kind for box in children(reader_of(entry), 8 + 78, len(entry))]
    assert kinds == [b"hvcC"]
    assert entry[:8] == len(entry).to_bytes(4, "big") + b"hvc1"
    coloured = making.picture()._replace(colour=(1, 13, 5, True))
    entry = film_entry(pack_sample(coloured, name=b"\0"))
    assert entry.endswith(bytes.fromhex("00000013 636f6c72 6e636c78 0001 000d 0005 80"))
    wide = film_entry(making.dataset([sample])[HEAD_NBYTES:][: len(sample)])
    assert wide == film_entry(sample)


def real_dataset(profile: Profile) -> tuple[bytes, list[bytes]]:
    """Return pictures of Benzina's tools in the form of a profile, with their samples."""
    data, facts = vectors.data("base5.bzna"), vectors.facts("base5.bzna")
    samples, thumbs, at = [], [], HEAD_NBYTES
    for index, old in enumerate(facts["samples"]):
        stored = data[old["offset"] :][: old["size"]]
        track = parse_sample(stored).tracks[THUMB]
        payload = stored[track.offset : track.offset + track.nbytes]
        picture = StoredPicture(track.config_kind, track.config, payload, track.frame, track.clean)
        target = index.to_bytes(8, "little")
        name = pack_name(old["filename"])
        samples.append(pack_sample(picture, name=name, target=target, profile=profile))
        thumbs.append((at + 28, len(payload)))
        at += len(samples[-1])
    sizes = list(map(len, samples))
    starts = [HEAD_NBYTES + sum(sizes[:index]) for index in range(5)]
    tracks = {
        INPUT: Extents(np.array(starts, np.uint64), np.array(sizes, np.uint64)),
        THUMB: Extents(*np.array(thumbs, np.uint64).T),
    }
    moov = pack_movie(tracks, film_entry(samples[0]), profile=profile, splits={"all": range(5)})
    return pack_head(sum(sizes)) + b"".join(samples) + moov, samples


@each_profile
def test_players_show_the_film(profile: Profile, tmp_path: Path) -> None:
    av = pytest.importorskip("av")
    data, samples = real_dataset(profile)
    path = tmp_path / "film.bzna"
    path.write_bytes(data)
    with av.open(str(path), format="mp4") as film:
        handlers = [stream.metadata["handler_name"] for stream in film.streams]
        assert handlers == [INPUT, THUMB]
        (video,) = film.streams.video
        assert (video.width, video.height, video.frames) == (512, 512, 5)
        assert video.average_rate == 1
        shown = [frame.to_ndarray() for frame in film.decode(video=0)]
    assert len(shown) == 5
    first = tmp_path / "first.mp4"
    first.write_bytes(samples[0])
    with av.open(str(first)) as inner:
        assert [stream.metadata["handler_name"] for stream in inner.streams] == [
            INPUT,
            NAME,
            TARGET,
            THUMB,
        ]
        (alone,) = inner.decode(video=0)
        assert (alone.to_ndarray() == shown[0]).all()
        if profile == "default":
            assert inner.duration == av.time_base
