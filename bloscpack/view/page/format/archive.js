// Archives: several named Bloscpack files in one, each read through a window on the file.
// Layout: docs/formats/archive.md.

import { Container } from "./container.js";
import { isEqual, nameOf, need, ReadError, safe, viewOf } from "./errors.js";
import { ARCHIVE, LOG, readHeader, readMetadata } from "./header.js";
import { readLog } from "./log.js";
import { PartSource } from "./source.js";
import { xxh3Digest } from "./xxh3.js";

const TAIL_SIZE = 40, RECORD_SIZE = 40, MAX_NAME = 4096;

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
    return Container.open(await PartSource.open(this.source, member.offset, member.nbytes));
  }
}

// Returns {name, offset, nbytes} of each member, in the order of the file.
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
  let end = null;
  for (let at = 0; at < nbytes - TAIL_SIZE;) {
    const member = readRecord(index.subarray(at, nbytes - TAIL_SIZE));
    need(member.at >= 64 && (end === null || end === member.at), "format", "members of the archive are not adjacent");
    need(!names.has(member.name), "format", `two members have the name ${member.name.slice(0, 80)}`);
    names.add(member.name);
    members.push(member);
    end = member.offset + member.nbytes;
    at += member.offset - member.at;
  }
  need(members.length === count && (end === null || end === start), "format", "the index does not list all members");
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
  return { name: nameOf(bytes.subarray(RECORD_SIZE, end)), at, nbytes, offset: at + end };
}

function magicOf(bytes, at) {
  return String.fromCharCode(...bytes.subarray(at, at + 8));
}
