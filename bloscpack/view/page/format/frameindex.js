// Index of a frame store: the chain of segments, and the clips that they list.
// docs/formats/frames.md, "Segment" and "Finding the index".

import { bloscHeader, decodeBlosc } from "./blosc.js";
import { parseDtype } from "./dtype.js";
import { isEqual, need, ReadError, viewOf } from "./errors.js";
import { parseJson } from "./header.js";
import { xxh3Digest } from "./xxh3.js";

const MAGIC = [...new TextEncoder().encode("BLPKFRMS")], TAIL = 152;
const BLOCK = 2 ** 20, WINDOW = 65536, MAX_SECTION = 2 ** 28;
const MAX_CHUNK = 2 ** 31 - 17, MAX_GROUP_NBYTES = 2 ** 20;
const CHANGED = 1, PART = 2, DIRECTORY = 4; // flags of a segment
const CODECS = { 1: "lossless", 2: "image", 3: "raw", 4: "video" }, VIDEO = 4;
const ITEMSIZES = { b: [1], i: [1, 2, 4, 8], u: [1, 2, 4, 8], f: [2, 4, 8, 12, 16], c: [8, 16, 24, 32], m: [8], M: [8] };

const u64 = (view, at) => Number(view.getBigUint64(at, true));
const ascends = (list) => list.every((each, i) => !i || each >= list[i - 1]);

// Finds the valid chain of segments. Every read is counted, so that no content of a file makes the
// search read more than a few times its size.
class Index {
  constructor(source) {
    Object.assign(this, { source, window: null, parts: null, segments: new Map(), chains: new Map() });
    this.budget = Math.min(8 * source.size + BLOCK, source.url ? 2 ** 28 : Infinity);
    this.attempts = source.url ? 1024 : 65536;
  }

  spend(nbytes) {
    this.budget -= nbytes;
    need(this.budget >= 0, "unsupported", "finding a valid index needs too many reads; blpk frames recover rebuilds it");
  }

  async find() {
    let end = this.source.size, chain = await this.chain(end);
    while (!chain || chain.segment.flags & PART) {
      end = await this.endBefore(end);
      need(end, "format", "no segment of the index is intact");
      chain = await this.chain(end);
    }
    const segments = [];
    for (; chain; chain = chain.before) segments.push(chain.segment);
    // A segment that is intact but lists invalid clips is an error: none replaces it.
    for (const segment of segments) {
      segment.clips = clipsOf(segment);
      segment.changes = segment.columns.changes;
      segment.sections = segment.columns = null;
    }
    return segments.reverse();
  }

  // Returns the end of the last tail with a magic before `end`; 0 without one.
  async endBefore(end) {
    let top = end - TAIL - 1 + MAGIC.length;
    while (top >= MAGIC.length) {
      const isInside = this.window && this.window.at + MAGIC.length <= top && top <= this.window.at + this.window.bytes.length;
      if (!isInside) {
        const at = Math.max(0, top - BLOCK);
        this.window = { at, bytes: await this.source.read(at, top - at) };
      }
      const { at, bytes } = this.window;
      for (let i = top - at - MAGIC.length; i >= 0; i--) {
        if (bytes[i] === MAGIC[0] && MAGIC.every((byte, k) => bytes[i + k] === byte)) {
          this.spend(top - at - i);
          return at + i + TAIL;
        }
      }
      this.spend(top - at);
      top = at + MAGIC.length - 1;
    }
    return 0;
  }

  // Returns the last segment and those before it as a linked list; null if a segment is damaged.
  async chain(end) {
    if (!this.chains.has(end)) this.chains.set(end, await this.follow(end));
    return this.chains.get(end);
  }

  async follow(end) {
    const segment = await this.segment(end);
    if (!segment?.first) return segment && { segment, before: null };
    for (let place = segment.previous; place; place = await this.endBefore(place)) {
      const found = await this.segment(place);
      if (found?.total !== segment.first) continue;
      const before = await this.chain(place);
      if (before) return { segment, before };
    }
    return null;
  }

  async segment(end) {
    if (!this.segments.has(end)) {
      need(this.isHeld(end) || this.attempts-- > 0, "unsupported", "the index has too many segments");
      this.segments.set(end, await this.readSegment(end));
    }
    return this.segments.get(end);
  }

  async readSegment(end) {
    if (end < TAIL) return null;
    const from = Math.max(0, end - WINDOW, this.isHeld(end) ? this.parts.at : 0);
    this.spend(TAIL);
    let block = await this.read(from, end), at = from;
    const tail = block.subarray(-TAIL), view = viewOf(tail);
    if (!MAGIC.every((byte, k) => tail[k] === byte)) return null;
    if (!isEqual(xxh3Digest(tail.subarray(0, 144)), tail.subarray(144))) return null;
    const flags = view.getUint16(10, true), isDirectory = flags >= DIRECTORY, isChanged = !isDirectory && (flags & CHANGED) > 0;
    const extra = flags & CHANGED ? view.getUint32(139, true) + tail[143] * 2 ** 32 : 0;
    need(view.getUint16(8, true) === 1 && flags <= (CHANGED | DIRECTORY), "unsupported", "a segment of a later version");
    const nformats = view.getUint32(12, true);
    const [nclips, nchunks, first, start, nbytes, previous] = [16, 24, 32, 40, 48, 56].map((field) => u64(view, field));
    if (start + nbytes !== end || previous > start || first > 2 ** 52 || (flags === CHANGED && !extra)) return null;
    if (isDirectory && (nclips || nchunks || extra)) return null;
    const places = [];
    let place = start;
    for (let k = 0; k < 3; k++) {
      const stored = u64(view, 64 + 24 * k), decoded = u64(view, 72 + 24 * k), how = tail[136 + k];
      if (how === 0 ? decoded !== stored : how !== 1 || decoded > start) return null;
      places.push({ at: place, stored, decoded, how, digest: tail.subarray(80 + 24 * k, 88 + 24 * k) });
      place += stored;
    }
    const idsSize = places[0].decoded - 36 * nclips - 64 * nformats;
    if (place + TAIL !== end || !previous !== !first || idsSize < 0) return null;
    if (places[1].decoded !== 5 * nchunks || places[2].decoded < 8 * nclips) return null;
    if (nformats > nclips || 8 * nchunks > start) return null;
    this.spend(nbytes);
    if (start < at) {
      at = start;
      block = await this.read(at, end);
    }
    try {
      const sections = [];
      for (const each of places) {
        need(each.decoded <= MAX_SECTION, "unsupported", "a section of the index is too large for this reader");
        sections.push(await section(block.subarray(each.at - at, each.at - at + each.stored), each));
      }
      const segment = { first, nclips, nchunks, nformats, start, end, previous, flags, isChanged, total: first + nclips + extra };
      if (isDirectory) {
        await this.fetchParts(sections[2], start);
        sections[0] = sections[2] = new Uint8Array(); // which parts there are follows from the chain
      }
      return Object.assign(segment, { sections, columns: columnsOf(segment, sections[0]) });
    } catch (error) {
      if (error instanceof ReadError && error.kind !== "unsupported") return null;
      throw error;
    }
  }

  // Fetches all parts of a directory at once.
  async fetchParts(table, end) {
    need(table.length >= 72, "format", "the table of a directory is cut");
    const at = u64(viewOf(table), 56);
    need(at < end, "format", "the parts of a directory end before they start");
    this.spend(end - at);
    this.parts = { at, end, bytes: await this.source.read(at, end - at) };
  }

  isHeld(end) {
    return this.parts !== null && this.parts.at + TAIL <= end && end <= this.parts.end;
  }

  async read(from, end) {
    if (!this.isHeld(end) || from < this.parts.at) return this.source.read(from, end - from);
    return this.parts.bytes.subarray(from - this.parts.at, end - this.parts.at);
  }
}

async function section(data, { digest, how, decoded }) {
  need(isEqual(xxh3Digest(data), digest), "checksum", "a section of the index is damaged");
  if (!how) return data;
  need(bloscHeader(data).nbytes === decoded, "format", "a section of the index has another size");
  return decodeBlosc(data);
}

const listOf = (count, get) => Array.from({ length: count }, (_, i) => get(i));

// Groups of video differ in length, so the format has their number.
const chunksOf = (row, nframes) => row[0] === VIDEO ? viewOf(row).getUint32(56, true) : Math.ceil(nframes / row[1]);

// Returns the ordinals of the clips, those whose places they have, and those of removed clips.
function changesOf({ first, nclips, nformats, total, isChanged }, clips) {
  const own = listOf(nclips, (i) => first + i);
  if (!isChanged) return { ordinals: own, ranks: own, removed: [], at: 0 };
  const view = viewOf(clips), room = clips.length - 16 - 52 * nclips - 64 * nformats;
  const nremoved = room >= 0 ? u64(view, 0) : Infinity, at = 16 + 16 * nclips + 8 * nremoved;
  need(8 * nremoved <= room, "format", "changes of clips");
  const numbers = listOf(2 * nclips + nremoved, (i) => u64(view, 16 + 8 * i));
  const ordinals = numbers.slice(0, nclips), ranks = numbers.slice(nclips, 2 * nclips), removed = numbers.slice(2 * nclips);
  const isValid = (list, low) => list.every((each, i) => each >= (i ? list[i - 1] + 1 : low) && each < total);
  need(isValid(ordinals, first) && isValid(removed, 0) && ranks.every((each, i) => each <= ordinals[i]), "format", "changes of clips");
  return { ordinals, ranks, removed, at };
}

function columnsOf(segment, section) {
  const { nclips, nchunks, nformats, start } = segment, changes = changesOf(segment, section), clips = section.subarray(changes.at);
  const view = viewOf(clips), base = 36 * nclips, u32 = (at) => listOf(nclips, (i) => view.getUint32(at * nclips + 4 * i, true));
  const offsets = listOf(nclips, (i) => u64(view, 8 * i)), nframes = u32(8), formats = u32(12), order = u32(32);
  const ends = listOf(nclips, (i) => u64(view, 16 * nclips + 8 * i));
  const hashes = listOf(nclips, (i) => view.getBigUint64(24 * nclips + 8 * i, true));
  const rows = listOf(nformats, (i) => clips.subarray(base + 64 * i, base + 64 * i + 64)), ids = clips.subarray(base + 64 * nformats);
  need(formats.every((each) => each < nformats) && order.every((each) => each < nclips), "format", "formats or order of clips");
  need(offsets.every((each) => each <= start), "format", "offsets of clips");
  need(ascends(ends) && (ends.at(-1) ?? 0) === ids.length && ascends(hashes), "format", "ids of clips");
  need(rows.every((row) => row[1]), "format", "frames per chunk");
  const counts = nframes.map((each, i) => chunksOf(rows[formats[i]], each));
  need(counts.reduce((sum, each) => sum + each, 0) === nchunks, "format", "the clips have another number of chunks");
  return { offsets, nframes, formats, ends, rows, ids, counts, changes };
}

function clipsOf({ nclips, nchunks, start, columns, sections: [, chunks, metas] }) {
  const { offsets, nframes, formats, ends, rows, ids, counts } = columns, view = viewOf(metas);
  const stops = listOf(nclips, (i) => u64(view, 8 * i)), texts = metas.subarray(8 * nclips);
  need(ascends(stops) && (stops.at(-1) ?? 0) <= texts.length, "format", "the ends of metadata of clips");
  const forms = rows.map(formOf), sizes = new Uint32Array(nchunks), filters = chunks.subarray(4 * nchunks);
  for (let i = 0; i < nchunks; i++) {
    sizes[i] = chunks[i] | chunks[nchunks + i] << 8 | chunks[2 * nchunks + i] << 16 | chunks[3 * nchunks + i] << 24;
  }
  let chunk = 0;
  return offsets.map((offset, i) => {
    const own = sizes.subarray(chunk, chunk + counts[i]), end = own.reduce((at, each) => at + each + 8, offset);
    need(end <= start, "format", "a chunk ends after the start of its segment");
    const clip = new Clip(forms[formats[i]], nframes[i], offset, own, filters.subarray(chunk, chunk + counts[i]));
    if (clip.codec === "raw") checkRaw(clip);
    clip.id = textOf(ids.subarray(i ? ends[i - 1] : 0, ends[i]));
    clip.metaBytes = texts.subarray(i ? stops[i - 1] : 0, stops[i]);
    chunk += counts[i];
    return clip;
  });
}

class Clip {
  constructor(form, nframes, offset, sizes, filters) {
    Object.assign(this, form, { nframes, offset, sizes, filters, shape: [nframes, ...form.frameShape] });
  }

  get meta() {
    const end = this.codec === "video" ? this.metaBytes.indexOf(0) : -1;
    return parseJson(end < 0 ? this.metaBytes : this.metaBytes.subarray(0, end));
  }

  // Returns the offset of the first chunk, of the second, and so on.
  get starts() {
    if (!this.places) {
      let at = this.offset;
      const digest = this.codec === "raw" ? 0 : 8;
      this.places = Array.from(this.sizes, (size) => (at += size + digest) - size - digest);
    }
    return this.places;
  }

  // Returns the offset of the digest of a chunk; those of raw frames follow all of them.
  digestAt(chunk) {
    const last = this.codec === "raw" ? this.sizes.length - 1 : chunk;
    return this.starts[last] + this.sizes[last] + 8 * (this.codec === "raw" ? chunk : 0);
  }
}

function checkRaw({ nframes, offset, sizes, filters, group, frameNbytes }) {
  need(!nframes || offset % 4096 === 0, "format", "raw frames are not aligned");
  need(sizes.every((size, i) => size === Math.min(group, nframes - i * group) * frameNbytes && !filters[i]),
    "format", "sizes or filters of raw frames");
}

function formOf(row) {
  const [codec, group, ndim, flags] = row, view = viewOf(row);
  const dims = Array.from({ length: 8 }, (_, i) => view.getUint32(24 + 4 * i, true));
  need(CODECS[codec] && flags <= 1, "unsupported", `codec ${codec}, flags ${flags} of frames`);
  need(group && (group === 1 || codec !== 2), "format", "frames per chunk");
  need(!flags || codec === 2, "format", "only images differ in shape");
  need(ndim <= 8 && dims.slice(ndim).every((each) => !each) && row.subarray(codec === VIDEO ? 60 : 56).every((each) => !each), "format", "shape of frames");
  const dtype = dtypeOf(String.fromCharCode(...row.subarray(4, 24)).replace(/\0+$/, ""));
  const frameShape = dims.slice(0, ndim), nbytes = frameShape.reduce((product, each) => product * each, dtype.itemsize);
  const together = codec === VIDEO ? 1 : group;
  need(nbytes * together <= (together === 1 ? MAX_CHUNK : MAX_GROUP_NBYTES), "format", "a frame is too large");
  need(codec !== 3 || nbytes, "format", "raw frames of zero bytes");
  return { codec: CODECS[codec], group, varies: flags === 1, dtype, frameShape, frameNbytes: nbytes };
}

function dtypeOf(text) {
  if (/^(bfloat16|float[468]_\w+|u?int[24])$/.test(text)) {
    return { ...parseDtype(text === "bfloat16" ? "|V2" : "|V1", text) };
  }
  need(/^[<>|]/.test(text), "unsupported", `dtype ${text} of frames is unknown to this reader`);
  const dtype = parseDtype(text), sizes = ITEMSIZES[dtype.kind];
  need(dtype.itemsize && (!sizes || sizes.includes(dtype.itemsize)), "format", `dtype ${text} of frames`);
  return dtype;
}

// UTF-8 in which lone surrogates have three bytes, which TextDecoder refuses.
function textOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    let text = "";
    for (let i = 0; i < bytes.length;) {
      const size = bytes[i] < 0x80 ? 1 : bytes[i] < 0xe0 ? 2 : bytes[i] < 0xf0 ? 3 : 4;
      let code = size === 1 ? bytes[i] : bytes[i] & (0x7f >> size);
      need(bytes[i] < 0x80 || (bytes[i] >= 0xc2 && bytes[i] < 0xf5), "format", "an id is not UTF-8");
      for (let k = 1; k < size; k++) {
        need((bytes[i + k] & 0xc0) === 0x80, "format", "an id is not UTF-8");
        code = code << 6 | bytes[i + k] & 0x3f;
      }
      need(code >= [0, 0, 0x80, 0x800, 0x10000][size] && code <= 0x10ffff, "format", "an id is not UTF-8");
      text += String.fromCodePoint(code);
      i += size;
    }
    return text;
  }
}

// Returns the segments of a store, and its clips in order.
export async function readIndex(source) {
  const segments = await new Index(source).find(), removed = new Set(segments.flatMap((each) => each.changes.removed));
  const found = segments.flatMap(({ clips, changes: { ordinals, ranks } }) =>
    clips.map((clip, i) => ({ clip, ordinal: ordinals[i], rank: ranks[i] })));
  const live = found.filter((each) => !removed.has(each.ordinal)).sort((a, b) => a.rank - b.rank);
  return { segments, clips: live.map((each) => each.clip) };
}
