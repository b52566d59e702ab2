// One Bloscpack file: its front, trailer and offset table, and its chunks with every digest
// compared. Layout: docs/formats/bloscpack.md.

import { arrayHeader, decodeArrayChunk } from "./arraychunk.js";
import { bloscHeader, decodeBlosc } from "./blosc.js";
import { digestOf, NAMES, SIZES } from "./checksum.js";
import { isEqual, need, ReadError, viewOf } from "./errors.js";
import { ARCHIVE, ARRAY_CHUNKS, FRAMES, GRID, LOG, readHeader, readMetadata } from "./header.js";
import { readLog, rowsOf, statisticsOf } from "./log.js";
import { xxh3Digest } from "./xxh3.js";

const MAX_CHUNKS = 1 << 20, MAX_CACHE = 1 << 26, MAX_DECODED = 2 ** 29, MAX_STATISTICS = 1 << 22;

export class Container {
  constructor(source) {
    Object.assign(this, { source, notices: new Set(), cache: new Map(), digests: null, metadata: null });
  }

  static async open(source) {
    const file = new Container(source);
    const h = file.header = readHeader(await source.read(0, Math.min(64, source.size)));
    need(!(h.features & (FRAMES | ARCHIVE)), "unsupported", "a frame store or an archive, where an array is expected");
    if (h.features & LOG) {
      const nodes = await readLog(source, file.notices);
      need(nodes.length === 1, "format", `${nodes.length} arrays in the log of one`);
      return file.openNode(nodes[0]);
    }
    let at = h.size;
    if (h.options & 2) ({ metadata: file.metadata, end: at } = await readMetadata(source, h, file.notices));
    file.front = at;
    need(h.nchunks <= MAX_CHUNKS, "unsupported", `${h.nchunks} chunks are more than ${MAX_CHUNKS}`);
    need(h.nchunks * (16 + SIZES[h.checksum]) <= source.size, "truncated", "the file is too short for its chunks");
    const trailer = await file.openTrailer();
    file.trailer = trailer;
    if (h.options & 1) await file.openTable();
    else await file.follow(at);
    if (h.version !== 1 && h.nchunks < 0) h.nchunks = file.starts.length;
    if (h.checksum === 0 && !file.digests) file.notices.add("The file has no checksum of its chunks.");
    return file;
  }

  // Opens an array of a log.
  async openNode(node) {
    const { front, end } = node, rows = await rowsOf(this.source, node);
    const h = this.header = readHeader(await front.read(0, Math.min(64, front.size)));
    need(!(h.features & ~(ARRAY_CHUNKS | GRID)) && h.lastChunk >= 0 && (h.chunkSize >= 0 || h.features & GRID), "format",
      "the header of an array of the log");
    if (h.options & 2) this.metadata = (await readMetadata(front, h, this.notices)).metadata;
    need(h.nchunks === rows.length, "format", `nchunks is ${h.nchunks}, but the log has ${rows.length} chunks`);
    this.starts = rows.map((row) => row.at);
    Object.assign(this, { rows, end, node, trailer: "absent" });
    this.checkRoom();
    return this;
  }

  get nchunks() {
    return this.starts.length;
  }

  // Returns "valid", "stale" or "absent"; keeps the digests of a valid trailer.
  async openTrailer() {
    const { source, header: h } = this;
    if (h.version < 3 || source.size < 64) return "absent";
    const tail = await source.read(source.size - 64, 64), view = viewOf(tail);
    if (String.fromCharCode(...tail.subarray(0, 8)) !== "BLPKTRLR" || view.getUint16(8, true) !== 1) return "absent";
    const headSize = view.getUint32(12, true);
    const [offset, nbytes, nchunks] = [16, 24, 32].map((at) => Number(view.getBigUint64(at, true)));
    const pages = 16 * Math.ceil(nchunks / 4096), statistics = view.getUint16(10, true);
    if (headSize > 65536 || nbytes !== (8 + statistics) * nchunks + pages + headSize + 64 || offset + nbytes !== source.size ||
        16 * nchunks > offset || pages > 4 << 20) return "absent";
    const covered = await source.read(source.size - 64 - headSize - pages, pages + headSize + 64);
    if (!isEqual(xxh3Digest(covered.subarray(0, -8)), tail.subarray(56))) return "absent";
    const front = await source.read(0, this.front);
    if (!isEqual(xxh3Digest(front), tail.subarray(48, 56))) {
      need(isStale(covered.subarray(pages, pages + headSize), front, h), "format", "the front differs from its copy in the trailer");
      this.notices.add("The trailer is of an earlier state of the file.");
      return "stale";
    }
    need(nchunks === h.nchunks, "format", "the trailer is of another file");
    this.pages = covered.subarray(0, pages);
    this.digests = await source.read(offset, 8 * nchunks);
    this.checkPages(this.digests, 8);
    this.end = offset;
    if (statistics === 32) this.statistics = { at: offset + 8 * nchunks, digest: tail.subarray(40, 48) };
    return "valid";
  }

  // Returns the statistics of all chunks, 32 bytes each; null without them, or if they are damaged or very large.
  async readStatistics() {
    const { source, nchunks, node, statistics } = this, nbytes = 32 * nchunks;
    if (!(node?.statistics ?? statistics) || nbytes > MAX_STATISTICS) return null;
    try {
      if (node) return await statisticsOf(source, node, nchunks);
      const bytes = await source.read(statistics.at, nbytes);
      return isEqual(xxh3Digest(bytes), statistics.digest) ? bytes : null;
    } catch (error) {
      if (error instanceof ReadError) return null;
      throw error;
    }
  }

  checkPages(entries, place) {
    for (let page = 0; 16 * page < this.pages.length; page++) {
      const own = entries.subarray(32768 * page, 32768 * (page + 1));
      need(isEqual(xxh3Digest(own), this.pages.subarray(16 * page + place, 16 * page + place + 8)), "checksum",
        place ? "the digests in the trailer are damaged" : "the offset table is damaged; blpk verify --fix mends it");
    }
  }

  async openTable() {
    const { source, header: h } = this, start = this.front, first = start + 8 * (h.nchunks + h.spare);
    need(first <= source.size, "truncated", "the offset table is cut");
    const count = h.nchunks + (h.spare > 0 ? 1 : 0);
    const bytes = await source.read(start, 8 * count), view = viewOf(bytes);
    if (this.trailer === "valid") this.checkPages(bytes.subarray(0, 8 * h.nchunks), 0);
    const starts = [];
    for (let i = 0; i < h.nchunks; i++) starts.push(Number(view.getBigInt64(8 * i, true)));
    if ((h.chunkSize === -1 && !(h.features & GRID)) || h.lastChunk === -1) return this.follow(first);
    const ascends = starts.every((each, i) => each < source.size && (i ? each > starts[i - 1] : each === first));
    if (!ascends) {
      // 0.16 leaves entries of -1 in files that it did not complete.
      need(this.trailer !== "valid", "format", "the offset table does not fit the file");
      return this.follow(first);
    }
    if (this.trailer !== "valid" && h.spare) {
      need(view.getBigInt64(8 * h.nchunks, true) === -1n, "format", "nchunks is too small: the table has another entry");
    }
    this.starts = starts;
    this.checkRoom();
  }

  // Finds chunks by their own sizes.
  async follow(at) {
    const { source, header: h } = this, size = SIZES[h.checksum];
    this.starts = [];
    this.sizes = [];
    while (h.nchunks >= 0 ? this.starts.length < h.nchunks : at < source.size) {
      // Behind a URL, each takes a request, one after the other.
      need(this.starts.length < 4096 || !source.url, "unsupported", "too many chunks to find without an offset table");
      const head = this.headerAt(await source.read(at, Math.min(16, source.size - at)));
      need(at + head.cbytes + size <= source.size, "truncated", `the chunk at ${at} is cut`);
      this.starts.push(at);
      this.sizes.push(head.nbytes);
      at += head.cbytes + size;
    }
    if (this.trailer !== "valid") await this.checkNothingFollows(at);
    if (h.chunkSize === -1 && !(h.features & GRID)) h.chunkSize = this.sizes[0] ?? 0;
    if (h.lastChunk === -1) h.lastChunk = this.sizes.at(-1) ?? 0;
    this.checkRoom();
  }

  async checkNothingFollows(at) {
    const { source, header: h } = this;
    if (h.options & 1 || !h.checksum || at + 16 > source.size) return;
    let head;
    try {
      head = this.headerAt(await source.read(at, 16));
      if (at + head.cbytes + SIZES[h.checksum] > source.size) return;
    } catch (error) {
      if (error instanceof ReadError) return;
      throw error;
    }
    const bytes = await source.read(at, head.cbytes + SIZES[h.checksum]);
    const digest = await digestOf(h.checksum, bytes.subarray(0, head.cbytes));
    need(!digest || !isEqual(digest, bytes.subarray(head.cbytes)), "format", "nchunks is too small: another chunk follows");
  }

  checkRoom() {
    const { header: h } = this;
    this.nbytes = h.features & GRID ? null : this.nchunks ? (this.nchunks - 1) * h.chunkSize + h.lastChunk : 0;
  }

  headerAt(bytes) {
    if (bytes[0] !== 0x82) return bloscHeader(bytes);
    need(this.header.features & ARRAY_CHUNKS, "format", "an array chunk in a file without that feature");
    return arrayHeader(bytes);
  }

  // Returns the numbers of the chunks that are not decoded yet, and their extents.
  extentsOf(numbers, nbytesOf) {
    const decoded = numbers.reduce((sum, number) => sum + nbytesOf(number), 0);
    need(decoded <= MAX_DECODED, "unsupported", `the selection needs ${decoded} decoded bytes, more than ${MAX_DECODED}`);
    const wanted = numbers.filter((number) => !this.cache.has(number));
    const extents = wanted.map((number) => {
      const start = this.starts[number], size = SIZES[this.header.checksum];
      if (this.rows) return [start, this.rows[number].size];
      // The last chunk has no next entry: at most a header and some more than its content.
      const end = this.starts[number + 1] ?? this.end ?? Math.min(this.source.size, start + nbytesOf(number) + 4096 + size);
      return [start, end - start];
    });
    return { wanted, extents };
  }

  // Returns the decoded size of a chunk of a file that is not an array.
  chunkNbytes(number) {
    const { sizes, header } = this;
    return sizes?.[number] ?? (number === this.nchunks - 1 ? header.lastChunk : header.chunkSize);
  }

  // Returns how many bytes `chunks` fetches, in how many requests.
  costOf(numbers, nbytesOf) {
    return this.source.costOf(this.extentsOf(numbers, nbytesOf).extents);
  }

  // Returns the decoded bytes of chunks, by number; `nbytesOf` returns the size that a chunk must have.
  async chunks(numbers, nbytesOf) {
    const { wanted, extents } = this.extentsOf(numbers, nbytesOf);
    const stored = await this.source.readAll(extents), found = new Map();
    for (const number of numbers) if (this.cache.has(number)) found.set(number, this.cache.get(number));
    for (let i = 0; i < wanted.length; i++) {
      const out = await this.decode(wanted[i], stored[i], nbytesOf(wanted[i]));
      found.set(wanted[i], out);
      this.remember(wanted[i], out);
    }
    return found;
  }

  remember(number, bytes) {
    this.cache.set(number, bytes);
    let total = 0;
    for (const each of this.cache.values()) total += each.length;
    for (const [key, each] of this.cache) {
      if (total <= MAX_CACHE) return;
      this.cache.delete(key);
      total -= each.length;
    }
  }

  async decode(number, bytes, nbytes) {
    const { checksum } = this.header, size = SIZES[checksum], where = `chunk ${number} at ${this.starts[number]}`;
    const head = this.headerAt(bytes), isLast = number === this.nchunks - 1 && this.end === undefined;
    need(head.nbytes === nbytes, "format", `${where} decodes to ${head.nbytes} bytes, not ${nbytes}`);
    const end = head.cbytes + size;
    need(isLast ? end <= bytes.length : end === bytes.length, "format", `${where} does not end where the next begins`);
    const chunk = bytes.subarray(0, head.cbytes);
    // The digest of a row is that of the chunk and its checksum.
    const row = this.rows?.[number];
    if (row) need(isEqual(xxh3Digest(bytes), row.digest), "checksum", `${where} is damaged: its XXH3 differs`);
    const digest = row ? bytes.subarray(head.cbytes) : await digestOf(checksum, chunk);
    if (digest === null) this.notices.add(`The ${NAMES[checksum]} of chunks was not compared: this browser lacks it.`);
    else need(isEqual(digest, bytes.subarray(head.cbytes, end)), "checksum", `${where} is damaged: its ${NAMES[checksum]} differs`);
    const known = this.digests?.subarray(8 * number, 8 * number + 8);
    if (known?.some((byte) => byte)) need(isEqual(xxh3Digest(chunk), known), "checksum", `${where} differs from the digest in the trailer`);
    return head.isArray ? decodeArrayChunk(chunk) : decodeBlosc(chunk);
  }
}

// Returns whether a program that ignores the trailer can have changed its copy to this front.
function isStale(copy, front, h) {
  const before = readHeader(copy), same = ["version", "options", "features", "checksum", "typesize", "chunkSize"];
  const isSame = same.every((name) => before[name] === h[name]);
  if (isSame && before.nchunks === h.nchunks && before.spare === h.spare && before.lastChunk === h.lastChunk) {
    return copy.length === front.length && !isEqual(copy.subarray(h.size + 32), front.subarray(h.size + 32));
  }
  const nbytes = (each) => (each.nchunks - 1) * each.chunkSize + each.lastChunk;
  return !(h.features & GRID) && isSame && before.nchunks + before.spare === h.nchunks + h.spare && nbytes(h) > nbytes(before);
}

