"""pyvrs's readers, ours and the wheel's: several files, coroutines, texts; known differences."""

from typing import Any

import pytest

import bloscpack.vrs.pyvrs
import tests.oracle
from tests import snippets
from tests.oracle import Oracle

from . import manifests, subject

pytestmark = pytest.mark.skipif(not manifests.listed(), reason=manifests.FOLDER.missing)

SAME = {
    "record texts": """
r = vrs.SyncVRSReader(folder + "/cxx_mixed_none.vrs")
[(repr(x), str(x)) for x in r]
""",
    "reader texts": """
r = vrs.SyncVRSReader(folder + "/enc_minimal.vrs")
(repr(r), str(r), repr(r[1:3]), str(r[1:3]), str(r.filtered_by_fields(record_types="data")),
 repr(r.filtered_by_fields(record_types="data")))
""",
    "specs": """
r = vrs.SyncVRSReader(folder + "/enc_multi_blocks.vrs")
image, audio = r[0].image_specs[0], r[0].audio_specs[0]
([image[k] for k in ("width", "height", "stride", "pixel_format", "image_format", "bytes_per_pixel",
                     "buffer_size", "codec_name", "codec_quality", "key_frame_index")],
 [audio[k] for k in ("sample_count", "sample_format", "sample_frame_stride", "sample_block_stride",
                     "channel_count", "sample_rate", "buffer_size")],
 audio.sample_block_stride, r[0].custom_block_specs[0]["buffer_size"],
 image.get_width(), image.get_height(), image.get_stride(), image.get_pixel_format().name,
 image.get_image_format().name, attempt(lambda: image["nothing"]), list(image.items()))
""",
    "block lists": """
r = vrs.SyncVRSReader(folder + "/enc_multi_blocks.vrs")
b = r[0].metadata_blocks
(len(b), b[-1], [plain(x) for x in b[1:3]], attempt(lambda: b[9]), len(b[::2]), list(b)[0] == b[0])
""",
    "skipped blocks": """
r = vrs.SyncVRSReader(folder + "/enc_multi_blocks.vrs")
found = []
for first in (1, 2, 3, 4, 5, 6, 0):
    r.skip_trailing_blocks(214, vrs.RecordType.DATA, first)
    found.append([(x.n_metadata_blocks, x.n_image_blocks, x.n_audio_blocks, x.n_custom_blocks,
                   plain(list(x.metadata_blocks))) for x in r[:3]])
found
""",
    "conversions by stream": """
r = vrs.SyncVRSReader(folder + "/cxx_mixed_none.vrs")
def shapes():
    return [(x.stream_id, [i.shape for i in x.image_blocks]) for x in r[:30]]
C = vrs.ImageConversion
found = [shapes()]
found.append((r.set_stream_image_conversion("214-1", C.RAW_BUFFER), shapes()))
found.append((r.set_stream_type_image_conversion(214, C.RAW_BUFFER), shapes()))
found.append(r.set_stream_type_image_conversion(9, C.RAW_BUFFER))
found.append((r.set_image_conversion(C.OFF), shapes()))
found
""",
    "unread bytes": """
r = vrs.SyncVRSReader(folder + "/enc_image_spec_places.vrs")
r.set_image_conversion(vrs.ImageConversion.RECORD_UNREAD_BYTES_BACKDOOR)
[(plain(x.image_blocks[0]), x.image_specs[0].width, x.image_specs[0].height, x.n_blocks_in_total,
  plain(list(x.metadata_blocks))) for x in r if x.n_image_blocks]
""",
    "one of several files": """
r = vrs.SyncVRSReader(folder + "/enc_minimal.vrs", multi_path=True)
len(r), sorted(r.stream_ids), r.file_tags
""",
    "several files": """
a, b = folder + "/enc_minimal.vrs", folder + "/enc_imu.vrs"
r = vrs.SyncVRSReader([a, b, a], multi_path=True)
(repr(r), len(r), sorted(r.stream_ids), r.file_tags, plain(r.stream_tags), r.get_timestamp_list(),
 [(x.stream_id, x.record_index, x.record_type, plain(x.metadata_blocks[0])) for x in r[:60]],
 [plain(r.get_stream_info(s)) for s in sorted(r.stream_ids)], r.find_streams(241),
 [x.record_index for x in r.filtered_by_fields(stream_ids="241-3")],
 [r.get_record_index_by_time(s, 0.002) for s in sorted(r.stream_ids)],
 [repr(r.read_next_record(s, "data", 5)) for s in sorted(r.stream_ids)],
 [repr(r.read_prev_record(s, "data", 9)) for s in sorted(r.stream_ids)])
""",
    "several files with configurations": """
r = vrs.SyncVRSReader([folder + "/cxx_mixed_none.vrs", folder + "/cxx_mixed_lz4fast.vrs"],
                      multi_path=True)
[(x.stream_id, [plain(i) for i in x.image_blocks]) for x in r]
""",
    "chunks": """
paths = [folder + "/enc_split.vrs" + end for end in ("", "_1", "_2")]
[len(vrs.SyncVRSReader(where)) for where in (
    paths[0], paths, {"chunks": paths, "storage": "diskfile"}, vrs.FileSpec(paths[0]))]
""",
}


@pytest.mark.parametrize("name", SAME)
def test_the_same(wheel: Oracle, name: str) -> None:
    theirs = wheel.outcome(SAME[name], folder=str(manifests.FOLDER))
    ours = outcome(SAME[name])
    assert ours[0] == "value", ours
    assert repr(ours) == repr(theirs)


COROUTINES = """
import asyncio
async def go():
    r = vrs.AsyncVRSReader(folder + "/enc_order.vrs")
    part = await r[2:20:3]
    f = r.filtered_by_fields(stream_ids="240-1", record_types="data")
    found = [len(r), repr(await r[0]), str(await r[-1]), len(part), repr(await part[1]),
        [repr(x) async for x in part], [repr(x) async for x in r], [repr(x) async for x in f],
        len(f), repr(await f[2]), [len(await f[1:3])], r.get_stream_info("240-1"),
        r.get_record_index_by_time("240-1", 2.0),
        [repr(x) for x in await asyncio.gather(*(r[i] for i in range(9)))],
        plain([x.metadata_blocks[0] async for x in r])]
    for index in (10000, "0"):
        try:
            await r[index]
        except Exception as err:
            found.append(type(err).__name__)
    r.close()
    return found
asyncio.run(go())
"""
IN_TURN = """
r = vrs.SyncVRSReader(folder + "/enc_order.vrs")
part = r[2:20:3]
f = r.filtered_by_fields(stream_ids="240-1", record_types="data")
found = [len(r), repr(r[0]), str(r[-1]), len(part), repr(part[1]),
    [repr(x) for x in part], [repr(x) for x in r], [repr(x) for x in f],
    len(f), repr(f[2]), [len(f[1:3])], r.get_stream_info("240-1"),
    r.get_record_index_by_time("240-1", 2.0), [repr(r[i]) for i in range(9)],
    plain([x.metadata_blocks[0] for x in r]), "IndexError", "TypeError"]
found
"""


def test_coroutines_give_what_the_wheel_gives_in_turn(wheel: Oracle) -> None:
    """The wheel's coroutines sometimes never answer, so its synchronous reader is used."""
    theirs = wheel.outcome(IN_TURN, folder=str(manifests.FOLDER))
    ours = outcome(COROUTINES)
    assert ours[0] == "value", ours
    assert repr(ours) == repr(theirs)


# Snippets, and the results of the wheel and of ours: a value, or the name of an error.
DIFFERENT: dict[str, tuple[Any, Any]] = {
    # The wheel ignores an epsilon of 0.
    "o.get_record_index_by_time('240-1', 2.5, 0)": (23, "TimestampNotFoundError"),
    # The wheel cannot return serial numbers.
    "o.get_serial_number_for_stream('240-1')": ("AttributeError", "583eaef4a4cdfcf4"),
    "o.get_stream_for_serial_number('583eaef4a4cdfcf4')": ("AttributeError", "240-1"),
    # A missing stream raises another error.
    "o.get_stream_for_flavor(240, 'nothing')": ("65535-0", "StreamNotFoundError"),
    "o.get_record_index_by_time('9-9', 1.0)": ("AssertionError", "StreamNotFoundError"),
    # The wheel reads an unknown type as any type.
    "o.read_next_record('240-1', 'nothing', 0) is None": (False, "ValueError"),
    # Ours takes a record type by name or by number.
    "o.get_records_count('240-1', 'data')": ("TypeError", 11),
    "repr(o.read_next_record('240-1', vrs.RecordType.DATA, 0))": (
        "TypeError",
        "VRSRecord(index=5, id=240-1, type=data, timestamp=0)",
    ),
    # Ours returns single times of a filtered reader.
    "o.filtered_by_fields(stream_ids='240-1').get_timestamp_list([0])": (
        "TypeError",
        [-1000000000.0],
    ),
    # Ours takes other path types.
    "len(vrs.SyncVRSReader([__import__('pathlib').Path(folder + '/enc_minimal.vrs')]))": (
        "TypeError",
        4,
    ),
    # Errors of opening.
    "vrs.SyncVRSReader('/nowhere')": ("ValueError", "FileNotFoundError"),
    "vrs.SyncVRSReader(folder + '/manifest.json')": ("RuntimeError", "NotBloscpackError"),
    "vrs.SyncVRSReader([])": ("AssertionError", "ValueError"),
    "vrs.SyncVRSReader([], multi_path=True)": ("IndexError", "ValueError"),
    "vrs.SyncVRSReader(folder + '/enc_minimal.vrs', encoding='nothing').n_records": (
        4,
        "LookupError",
    ),
    # Methods that the wheel lacks for several files.
    "several.get_stream_for_flavor(241, 'test/imu', 1)": ("AttributeError", "241-2"),
    "several.get_estimated_frame_rate('241-2')": ("AttributeError", 1000.0),
    "several.get_stream_size('241-2')": (0, 261),
    # Records of asynchronous readers.
    "repr(awaited.read_next_record('240-1', 'data', 0))": (
        "AttributeError",
        "VRSRecord(index=5, id=240-1, type=data, timestamp=0)",
    ),
    "str(awaited.filtered_by_fields(stream_ids='240-1'))[-18:]": (
        "AttributeError",
        ": 11, 'state': 0}\n",
    ),
    # Values of the enumeration.
    "int(vrs.PixelFormat.RGBA32F)": (15, 16),
    "hasattr(vrs.PixelFormat, 'BAYER10_GBRG')": (False, True),
    # Text that is not UTF-8.
    "edges[5].metadata_blocks[0]['s']": ("\\xff\\xfe not utf-8", "\udcff\udcfe not utf-8"),
    # Blocks.
    "vrs.SyncVRSReader(folder + '/enc_multi_blocks.vrs')[3].n_image_blocks": (1, 2),
    "sorted(edges[4].metadata_blocks[0])": (["s"], ["b", "c", "s"]),
    # Reading after close.
    "closed[0]": ("IndexError", "ValueError"),
    "closed.file_tags": ({}, {"hello": "world"}),
}
_SETTING = """
o = vrs.SyncVRSReader(folder + "/enc_order.vrs")
several = vrs.SyncVRSReader([folder + "/enc_minimal.vrs"] * 2, multi_path=True)
edges = vrs.SyncVRSReader(folder + "/enc_layout_edges.vrs")
closed = vrs.SyncVRSReader(folder + "/enc_minimal.vrs")
closed.close()
"""


@pytest.mark.parametrize("source", DIFFERENT)
def test_what_is_different(wheel: Oracle, source: str) -> None:
    setting = _SETTING
    if source.count("awaited"):
        # The wheel takes a second to close an asynchronous reader.
        setting += 'awaited = vrs.AsyncVRSReader(folder + "/enc_order.vrs")\n'
    asked = f"{setting}\nattempt(lambda: {source})"
    theirs = wheel(asked, folder=str(manifests.FOLDER))
    kind, ours = outcome(asked)
    assert kind == "value", ours
    assert (theirs, ours) == DIFFERENT[source]


def test_the_index_past_the_end(wheel: Oracle) -> None:
    source = "r = vrs.SyncVRSReader(folder + '/enc_order.vrs')\n"
    source += "repr(r.read_prev_record('240-1', 'data', 10**8))"
    assert wheel.outcome(source, folder=str(manifests.FOLDER))[0] == "died"
    assert outcome(source) == (
        "value",
        "VRSRecord(index=37, id=240-1, type=data, timestamp=1e+300)",
    )


def test_big_endian_samples(wheel: Oracle) -> None:
    source = "r = vrs.SyncVRSReader(folder + '/enc_audio.vrs')\nplain(r[34].audio_blocks[0])"
    assert wheel.outcome(source, folder=str(manifests.FOLDER))[0] == "died"
    assert outcome(source)[1][1:3] == ("<i2", (5, 3))


def test_a_wheel_that_hangs_is_ended(wheel: Oracle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tests.oracle, "ANSWER_TIMEOUT_S", 0.1)
    assert wheel.outcome("import signal; signal.pause()")[0] == "died"
    monkeypatch.undo()
    assert wheel("1 + 1") == 2


def outcome(source: str) -> tuple[str, Any]:
    """Run a snippet with our module."""
    names = subject.names(bloscpack.vrs.pyvrs)
    return snippets.run(names, source, {"folder": str(manifests.FOLDER)})
