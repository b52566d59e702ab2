// Archives: several named Bloscpack files in one, each read through a window on the file.
// Layout: docs/formats/archive.md.

import { bloscHeader, decodeBlosc } from "./blosc.js";
import { Container } from "./container.js";
import { isEqual, nameOf, need, ReadError, safe, viewOf } from "./errors.js";
import { ARCHIVE, LOG, readHeader, readMetadata } from "./header.js";
import { readLog } from "./log.js";
import { BytesSource, PartSource } from "./source.js";
import { xxh3Digest } from "./xxh3.js";

const TAIL_SIZE = 40, RECORD_SIZE = 40, MAX_NAME = 4096, MAX_BUNDLE = 32768;

export class Archive {
  static async open(source) {
    const archive = Object.assign(new Archive(), { source, notices: new Set(), metadata: null });
    let front = source, header = readHeader(await source.read(0, Math.min(64, source.size)));
    if (header.features & LOG) {
      // The first node has the header and the metadata of the archive.
      const nodes = await readLog(source, archive.notices);
      need(nodes.length && !nodes[0].name, "format", "the log has no node of an archive");
      ({ front } = nodes.shift());
      header = readHeader(await front.read(0, Math.min(64, front.size)));
      need(new Set(nodes.map((node) => node.name)).size === nodes.length, "format", "two arrays of one name");
      archive.members = nodes;
    } else archive.members = await readIndex(source);
    need(header.features === ARCHIVE && header.options === 2 && header.checksum === 9 && !header.nchunks, "format",
      "not the header of an archive");
    archive.header = header;
    // No member depends on the metadata.
    try {
      ({ metadata: archive.metadata } = await readMetadata(front, header, archive.notices));
    } catch (error) {
      if (!(error instanceof ReadError)) throw error;
      archive.notices.add(error.message);
    }
    return archive;
  }

  // Opens a member; a small one of an archive that is not a log is fetched as a whole.
  async openMember(number) {
    const member = this.members[number];
    need(member, "format", `there is no array number ${number}`);
    if (member.front) return new Container(this.source).openNode(member);
    if (member.bundle) return Container.open(await this.openBundled(member));
    return Container.open(await PartSource.open(this.source, member.offset, member.nbytes));
  }

  // Returns a source for a member in a bundle; the bundle that was read last is kept.
  async openBundled({ bundle, start, nbytes }) {
    if (this.files?.bundle !== bundle) {
      const chunk = await this.source.read(bundle.offset, bundle.nbytes);
      need(isEqual(xxh3Digest(chunk), bundle.digest), "checksum", `the bundle at ${bundle.at} is damaged`);
      const bytes = await decoded(chunk, MAX_BUNDLE);
      need(bytes.length === bundle.total, "format", `the bundle at ${bundle.at} has another size`);
      this.files = { bundle, bytes };
    }
    const source = new BytesSource(this.files.bytes.subarray(start, start + nbytes));
    return Object.assign(source, { url: this.source.url });
  }
}

// Returns {name, offset, nbytes} of each member, in the order of the file, or {name, bundle, start, nbytes}.
async function readIndex(source) {
  need(source.size >= 64 + TAIL_SIZE, "truncated", "the index is missing: the end of the file was cut off");
  const tail = await source.read(source.size - TAIL_SIZE, TAIL_SIZE), view = viewOf(tail);
  need(magicOf(tail, 0) === "BLPKARCH", "truncated", "the index is missing: the end of the file was cut off");
  const version = view.getUint16(8, true), count = view.getUint32(12, true);
  const [start, nbytes] = [16, 24].map((at) => safe(view.getBigUint64(at, true), "a size in the index"));
  need(start >= 64 && nbytes >= TAIL_SIZE + RECORD_SIZE * count && start + nbytes === source.size, "format",
    `an index of ${nbytes} bytes at ${start} does not fit into the file of ${source.size} bytes`);
  const index = await source.read(start, nbytes);
  need(isEqual(xxh3Digest(index.subarray(0, -8)), tail.subarray(32)), "checksum", "the index of the archive is damaged");
  need(version === 1, "unsupported", `index version ${version}`);
  const members = [], names = new Set();
  let end = null, nparts = 0;
  for (let at = 0; at < nbytes - TAIL_SIZE; nparts++) {
    const part = readRecord(index.subarray(at, nbytes - TAIL_SIZE));
    need(part.at >= 64 && (end === null || end === part.at), "format", "members of the archive are not adjacent");
    for (const member of part.rows ? await readDirectory(part) : [part]) {
      need(!names.has(member.name), "format", `two members have the name ${member.name.slice(0, 80)}`);
      names.add(member.name);
      members.push(member);
    }
    end = part.offset + part.nbytes;
    at += part.offset - part.at;
  }
  need(nparts === count && (end === null || end === start), "format", "the index does not list all members");
  return members;
}

function readRecord(bytes) {
  need(bytes.length >= RECORD_SIZE && magicOf(bytes, 0) === "BLPKMEMB", "format", "a record of the index is invalid");
  const view = viewOf(bytes), length = view.getUint32(24, true), end = RECORD_SIZE + length;
  const [at, nbytes] = [8, 16].map((place) => safe(view.getBigUint64(place, true), "a size in a record"));
  need(length <= MAX_NAME && end <= bytes.length, "format", `a name of ${length} bytes`);
  const covered = new Uint8Array(32 + length);
  covered.set(bytes.subarray(0, 32));
  covered.set(bytes.subarray(RECORD_SIZE, end), 32);
  need(isEqual(xxh3Digest(covered), bytes.subarray(32, RECORD_SIZE)), "checksum", "a record of the index is damaged");
  const kind = view.getUint32(28, true), name = bytes.subarray(RECORD_SIZE, end), part = { at, nbytes, offset: at + end };
  need(kind < 2, "unsupported", `a record of kind ${kind}`);
  if (!kind) return { name: nameOf(name), ...part };
  need(length >= 12, "format", "the directory of a bundle is cut");
  return { ...part, digest: name.slice(0, 8), total: viewOf(name).getUint32(8, true), rows: name.subarray(12) };
}

// Returns the members in a bundle.
async function readDirectory(bundle) {
  const rows = await decoded(bundle.rows, MAX_NAME), view = viewOf(rows), members = [];
  let at = 0, start = 0;
  while (at < rows.length) {
    need(at + 4 <= rows.length, "format", "the directory of a bundle is cut");
    const [nbytes, length] = [view.getUint16(at, true), view.getUint16(at + 2, true)], end = at + 4 + length;
    need(end <= rows.length, "format", "the directory of a bundle is cut");
    members.push({ name: nameOf(rows.subarray(at + 4, end)), bundle, start, nbytes });
    start += nbytes;
    at = end;
  }
  need(start === bundle.total && start <= MAX_BUNDLE, "format", "the files in a bundle have another size");
  return members;
}

// Returns the content of a Blosc chunk of at most `limit` bytes.
async function decoded(chunk, limit) {
  need(bloscHeader(chunk).nbytes <= limit, "format", "a chunk of a bundle is too large");
  return decodeBlosc(chunk);
}

function magicOf(bytes, at) {
  return String.fromCharCode(...bytes.subarray(at, at + 8));
}
