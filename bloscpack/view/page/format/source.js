// Bytes of a file: at a URL by HTTP ranges, or of a dropped file; or a part of them. `open` reads both
// ends at once or in two requests; `readAll` joins neighbouring extents into one request.

import { need, ReadError } from "./errors.js";

export const HEAD = 65536, TAIL = 262144;
const GAP = 262144, MAX_READ = 2 ** 28;
// Largest file that is fetched as a whole from a host without ranges.
const MAX_WHOLE = 2 ** 26;
const REASONS = { 401: ": it asks for a login", 403: ": it does not allow this file", 404: ": it has no such file" };

class Source {
  constructor() {
    this.ends = [];
  }

  // Returns `size` bytes from `offset`; fewer bytes are an error.
  async read(offset, size) {
    need(offset >= 0 && size >= 0 && offset + size <= this.size, "truncated",
      `bytes ${offset} to ${offset + size} are not in the file of ${this.size} bytes`);
    need(size <= MAX_READ, "unsupported", `${size} bytes at once are more than ${MAX_READ}`);
    for (const { at, bytes } of this.ends) {
      if (offset >= at && offset + size <= at + bytes.length) return bytes.subarray(offset - at, offset - at + size);
    }
    return size ? this.fetch(offset, size) : new Uint8Array(0);
  }

  // Returns the parts {at, end} that have all extents [offset, size]: neighbouring ones are joined.
  runsOf(extents) {
    const runs = [];
    for (const [offset, size] of [...extents].sort((a, b) => a[0] - b[0])) {
      const last = runs.at(-1);
      if (last && offset - last.end <= GAP) last.end = Math.max(last.end, offset + size);
      else runs.push({ at: offset, end: offset + size });
    }
    need(runs.reduce((sum, run) => sum + run.end - run.at, 0) <= MAX_READ, "unsupported",
      `the selection needs more than ${MAX_READ} stored bytes`);
    return runs;
  }

  // Returns how many bytes `readAll` fetches, in how many requests.
  costOf(extents) {
    const fetched = this.runsOf(extents).filter(({ at, end }) =>
      !this.ends.some((each) => at >= each.at && end <= each.at + each.bytes.length));
    return { nbytes: fetched.reduce((sum, run) => sum + run.end - run.at, 0), nrequests: fetched.length };
  }

  // Returns the bytes of each extent.
  async readAll(extents) {
    const runs = this.runsOf(extents);
    for (const run of runs) run.bytes = await this.read(run.at, run.end - run.at);
    return extents.map(([offset, size]) => {
      const run = runs.find((each) => offset >= each.at && offset + size <= each.end);
      return run.bytes.subarray(offset - run.at, offset - run.at + size);
    });
  }

  async openTail() {
    const at = Math.max(this.ends[0].bytes.length, this.size - TAIL);
    if (at < this.size) this.ends.push({ at, bytes: await this.fetch(at, this.size - at) });
    return this;
  }
}

export class HttpSource extends Source {
  static async open(url) {
    const source = new HttpSource();
    Object.assign(source, { url: String(url), nrequests: 0, etag: null });
    const aborting = new AbortController(), response = await source.request(0, HEAD, aborting.signal);
    const length = Number(response.headers.get("Content-Length") ?? 0);
    if (response.status === 200 && length > MAX_WHOLE) {
      aborting.abort();
      throw new ReadError("unsupported", `${url}: the server does not support ranges, so all ${length} bytes would be fetched; the limit is ${MAX_WHOLE}`);
    }
    const bytes = new Uint8Array(await response.arrayBuffer());
    if (response.status === 200 || response.status === 416) {
      need(response.status === 200, "truncated", `${url}: the file is empty`);
      source.size = bytes.length;
    } else {
      const total = /\/(\d+)$/.exec(response.headers.get("Content-Range") ?? "");
      need(total, "unsupported", `${url}: the server does not expose Content-Range to this page`);
      source.size = Number(total[1]);
      need(Number.isSafeInteger(source.size) && bytes.length === Math.min(HEAD, source.size), "truncated",
        `${url}: the server sent ${bytes.length} bytes of a file of ${source.size}`);
    }
    source.etag = response.headers.get("ETag");
    source.ends.push({ at: 0, bytes });
    return source.openTail();
  }

  async request(offset, size, signal = undefined) {
    this.nrequests++;
    let response;
    try {
      response = await fetch(this.url, { signal, headers: { Range: `bytes=${offset}-${offset + size - 1}` } });
    } catch (error) {
      throw new ReadError("unsupported", `${this.url}: cannot be fetched (${error.message})`);
    }
    need(response.ok || response.status === 416, "not-bloscpack", `${this.url}: the server answered ${response.status}${REASONS[response.status] ?? ""}`);
    return response;
  }

  async fetch(offset, size) {
    const response = await this.request(offset, size);
    const tag = response.headers.get("ETag");
    need(!this.etag || !tag || tag === this.etag, "format", `${this.url}: the file has changed; open it again`);
    need(response.status === 206, "unsupported", `${this.url}: the server does not support ranges`);
    const extent = /^bytes (\d+)-/.exec(response.headers.get("Content-Range") ?? "");
    need(!extent || Number(extent[1]) === offset, "format", `${this.url}: the server sent another range`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    need(bytes.length === size, "truncated", `${this.url}: ${bytes.length} of ${size} bytes at ${offset}`);
    return bytes;
  }
}

// A dropped file, or any other Blob.
export class BlobSource extends Source {
  static async open(blob) {
    const source = new BlobSource();
    Object.assign(source, { blob, size: blob.size, nrequests: 0 });
    source.ends.push({ at: 0, bytes: await source.fetch(0, Math.min(HEAD, blob.size)) });
    return source.openTail();
  }

  async fetch(offset, size) {
    this.nrequests++;
    const bytes = new Uint8Array(await this.blob.slice(offset, offset + size).arrayBuffer());
    need(bytes.length === size, "truncated", "the file has become shorter");
    return bytes;
  }
}

export class BytesSource extends Source {
  constructor(bytes) {
    super();
    this.size = bytes.length;
    this.ends.push({ at: 0, bytes });
  }
}

// A file within another one. The ends that the outer source holds are not fetched again.
export class PartSource extends Source {
  static async open(outer, start, size) {
    const source = new PartSource();
    Object.assign(source, { outer, start, size, url: outer.url });
    if (size <= HEAD + TAIL) {
      await source.keep(0, size);
      return source;
    }
    for (const { at, bytes } of outer.ends) {
      const from = Math.max(at, start), to = Math.min(at + bytes.length, start + size);
      if (from < to) source.ends.push({ at: from - start, bytes: bytes.subarray(from - at, to - at) });
    }
    const hasFirst = source.ends.some((each) => !each.at), hasLast = source.ends.some((each) => each.at + each.bytes.length === size);
    await Promise.all([hasFirst || source.keep(0, HEAD), hasLast || source.keep(size - TAIL, size)]);
    return source;
  }

  async keep(at, end) {
    if (at < end) this.ends.push({ at, bytes: await this.fetch(at, end - at) });
  }

  fetch(offset, size) {
    return this.outer.read(this.start + offset, size);
  }
}
