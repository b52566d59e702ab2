"""pyvrs's readers, ours and the wheel's, over all vectors: equal values but for known faults."""

from typing import Any

import pytest

import bloscpack.vrs.pyvrs
from tests import snippets
from tests.oracle import Oracle

from . import manifests, subject
from .compare import (
    BYTES_PER_PIXEL,
    EMPTY,
    ESCAPED,
    FIRST_OF_TWO,
    KEY_FRAME,
    NEW_PIXELS,
    SIZE_UNKNOWN,
    STREAM_SIZE,
    differences,
)

_CODECS = {FIRST_OF_TWO, KEY_FRAME, SIZE_UNKNOWN}
_PIXELS = {BYTES_PER_PIXEL, NEW_PIXELS}
# Vectors that the wheel reads wrongly, and its faults. It agrees on all others.
FAULTS = {
    "cpy_image_codecs": _CODECS,
    "cpy_pixel_formats": _PIXELS,
    "cxx_crash_noindex": {STREAM_SIZE},
    "cxx_mixed_lz4fast": {KEY_FRAME, SIZE_UNKNOWN},
    "cxx_mixed_none": {KEY_FRAME, SIZE_UNKNOWN},
    "enc_audio": {SIZE_UNKNOWN},
    "enc_custom": {FIRST_OF_TWO},
    "enc_image_codecs": _CODECS,
    "enc_image_spec_places": {BYTES_PER_PIXEL},
    "enc_layout_edges": {EMPTY, ESCAPED},
    "enc_multi_blocks": {FIRST_OF_TWO, SIZE_UNKNOWN},
    "enc_pixel_formats": _PIXELS,
    "enc_rf_syntax": {SIZE_UNKNOWN},
    "enc_tags": {ESCAPED},
    "enc_tags_records": {STREAM_SIZE},
    "ref_sample_lz4_tight": {EMPTY},
    "ref_sample_none": {EMPTY},
    "ref_sample_zstd_fast": {EMPTY},
    "ref_sample_zstd_medium": {EMPTY},
    "ref_sample_zstd_tight": {EMPTY},
    "upstream/chunks": {EMPTY},
    "upstream/chunks-shuffled": {EMPTY},
    "upstream/sample_file": {EMPTY},
    "upstream/sample_raw_pixel_formats": _PIXELS,
    "upstream/synthetic": {BYTES_PER_PIXEL},
}


@manifests.each_vector()
@pytest.mark.parametrize("conversion", ["OFF", "RAW_BUFFER"])
def test_everything_in_a_file(wheel: Oracle, vector: str, conversion: str) -> None:
    options: dict[str, Any] = {"path": str(manifests.path(vector)), "conversion": conversion}
    if vector == "upstream/synthetic":
        options["stream_ids"] = "100-1[4-6]"  # of 19 streams
    ours = subject.dump(bloscpack.vrs.pyvrs, **options)
    theirs = wheel("dump(**options)", options=options)
    assert set(differences(ours, theirs)) == FAULTS.get(vector, set())


QUERIES = {
    "properties": """
(r.n_records, len(r), plain(r.min_timestamp), plain(r.max_timestamp), plain(r.time_range),
 plain(r.record_types), plain(r.stream_ids))
""",
    "streams": """
{s: (plain(r.get_stream_info(s)), plain(r.get_estimated_frame_rate(s)), r.might_contain_audio(s),
     r.might_contain_images(s), vrs.recordable_type_id_name(s),
     [r.get_records_count(s, t) for t in (DATA, STATE, CONFIGURATION, vrs.RecordType.UNDEFINED)])
 for s in sorted(r.stream_ids)}
""",
    "times": """
(plain(r.get_timestamp_list()), plain(r.get_timestamp_list(range(0, len(r), 3))),
 [attempt(lambda: r.get_timestamp_for_index(i)) for i in (0, -1, len(r) - 1, len(r))],
 [attempt(lambda: r.get_timestamp_list([i])) for i in (-1, len(r))])
""",
    "by time": """
times = sorted(set(r.get_timestamp_list()))
times = times[:12] + times[-3:]
times += [(a + b) / 2 for a, b in zip(times, times[1:])] + [-1e300, 1e301]
[attempt(lambda: r.get_record_index_by_time(s, t, e, k))
 for s in sorted(r.stream_ids)[:6] for t in times for e in (None, 1e-4, 0.5, 1e12)
 for k in (None, DATA, CONFIGURATION)]
""",
    "read by time": """
[attempt(lambda: repr(r.read_record_by_time(s, t, e)))
 for s in sorted(r.stream_ids)[:4] for t in r.get_timestamp_list()[::7][:9] for e in (None, 0.1)]
""",
    "neighbours": """
[attempt(lambda: repr(read(s, kind, i)))
 for s in sorted(r.stream_ids)[:3] for kind in ("data", "configuration", "state", "Data", "any")
 for i in [*range(0, len(r), len(r) // 9 + 1), len(r) - 1]
 for read in (r.read_next_record, r.read_prev_record)]
""",
    "items": """
[(repr(r[i]), r[i].record_index, attempt(lambda: r[i]["nothing"]),
  [attempt(lambda: r[i][key]) for key in (
     "record_format_version", "record_index", "record_type", "recordable_id", "stream_id",
     "timestamp", "metadata_count", "audio_block_count")])
 for i in [*range(0, len(r), len(r) // 9 + 1), *range(-min(3, len(r)), 0)]]
""",
    "bad indexes": """
[attempt(lambda: r[i].record_index) for i in (len(r), -len(r) - 1, "0", 1.0, None)]
""",
    "slices": """
[([x.record_index for x in r[k]], len(r[k]), [x.record_index for x in r[k][1::2]])
 for k in (slice(2, 9, 2), slice(None, None, -5), slice(-4, None), slice(5, 5), slice(0, 999, 50))]
""",
    "filters": """
filters = [dict(stream_ids=s) for s in [*sorted(r.stream_ids)[:3], "*", "2?0-*", "nothing", set()]]
filters += [dict(record_types=k) for k in ("data", "state", {"data", "other"}, [])]
times = r.get_timestamp_list() or [0]
middle = times[len(times) // 2]
filters += [dict(min_timestamp=middle), dict(max_timestamp=middle), dict(min_timestamp=middle,
            max_timestamp=times[0]), dict(stream_ids={"2*", "1*"}, record_types="data")]
found = []
for chosen in filters:
    f = r.filtered_by_fields(**chosen)
    found.append((len(f), f.n_records, [x.record_index for x in f[:40]], plain(f.record_types),
        plain(f.stream_ids), plain(f.min_timestamp), plain(f.max_timestamp), plain(f.time_range),
        plain(f.min_filter_timestamp), plain(f.max_filter_timestamp),
        plain(f.get_timestamp_list()), attempt(lambda: f.get_timestamp_for_index(-1)),
        attempt(lambda: f.get_timestamp_for_index(len(f))), f.file_tags == r.file_tags,
        [attempt(lambda: f.get_record_index_by_time(s, t)) for s in sorted(f.stream_ids)
         for t in f.get_timestamp_list()[:5]],
        [attempt(lambda: repr(read(s, "data", i))) for s in sorted(r.stream_ids)[:2]
         for i in [*range(min(len(f), 4)), len(f) - 1]
         for read in (f.read_next_record, f.read_prev_record)],
        attempt(lambda: f.read_next_record(sorted(f.stream_ids)[0], "data", len(f)))))
found
""",
    "finding": """
types = sorted({int(s.split("-")[0]) for s in r.stream_ids})
flavors = sorted({r.get_stream_info(s).get("flavor", "") for s in r.stream_ids})
([r.find_streams(t) for t in (0, 7, *types)],
 [r.find_streams(t, f) for t in (0, *types) for f in flavors],
 [attempt(lambda: r.find_stream(t, k, v)) for t in types
  for _, tags in sorted(r.stream_tags.items())
  for k, v in [*sorted(tags.items())[:9], ("no", "tag")]],
 [r.get_stream_for_flavor(int(s.split("-")[0]), r.get_stream_info(s)["flavor"])
  for s in sorted(r.stream_ids) if "flavor" in r.get_stream_info(s)])
""",
    "text": """
f = r.filtered_by_fields(record_types="data")
# All but the path; streams come in no order.
sorted(str(r).split("\\n")[1:]), sorted(str(f).split("\\n")[1:])
""",
    "wrong streams": """
[attempt(lambda: call("9-9")) for call in (
    r.get_stream_info, r.get_stream_size, r.might_contain_audio, r.might_contain_images,
    r.get_estimated_frame_rate, lambda s: r.get_records_count(s, DATA),
    lambda s: r.find_stream(9, "a", "b"),
    lambda s: r.read_next_record(s, "data", 0), lambda s: r.read_record_by_time(s, 0.0),
    lambda s: r.set_stream_image_conversion(s, vrs.ImageConversion.OFF))]
""",
    "relative streams": """
[attempt(lambda: r.get_stream_info(f"{t}+{n}")["device_name"])
 for t in sorted({s.split("-")[0] for s in r.stream_ids})[:2] for n in (1, 2, 99)]
""",
    "skipped blocks": """
types = sorted({int(s.split("-")[0]) for s in r.stream_ids})[:2]
found = []
for first in (1, 2, 3, 0):
    for kind in (DATA, vrs.RecordType.UNDEFINED):
        for t in types:
            r.skip_trailing_blocks(t, kind, first)
        found.append([x.n_metadata_blocks for x in r[:40]])
found
""",
}
_LEFT_OUT = {
    # Reading 9,538 records takes long.
    "upstream/synthetic": {"slices", "items"},
    # The text has tags that are not UTF-8.
    "enc_tags": {"text"},
}


@manifests.each_vector()
def test_every_query(wheel: Oracle, vector: str) -> None:
    for name, query in QUERIES.items():
        if name in _LEFT_OUT.get(vector, ()):
            continue
        source = (
            "from operator import *\nDATA, STATE, CONFIGURATION = "
            "vrs.RecordType.DATA, vrs.RecordType.STATE, vrs.RecordType.CONFIGURATION\n"
            "r = vrs.SyncVRSReader(path)\n" + query.strip()
        )
        values: dict[str, Any] = {"path": str(manifests.path(vector))}
        theirs = wheel.outcome(source, **values)
        ours = snippets.run(subject.names(bloscpack.vrs.pyvrs), source, values)
        assert repr(ours) == repr(theirs), name
