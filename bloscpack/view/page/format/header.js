// Header and metadata section: docs/formats/bloscpack.md.

import { digestOf, NAMES, SIZES } from "./checksum.js";
import { isEqual, need, ReadError, safe, viewOf } from "./errors.js";
import { zlib } from "./streams.js";
import { xxh3Digest } from "./xxh3.js";

export const FRAMES = 1, ARRAY_CHUNKS = 2, GRID = 4, ARCHIVE = 16, LOG = 32;
const MAX_NBYTES = 2 ** 31 - 17;

export function readHeader(file) {
  need(file.length >= 4 && String.fromCharCode(...file.subarray(0, 4)) === "blpk", "not-bloscpack", "not a Bloscpack file");
  need(file.length >= 16, "truncated", "the header is cut");
  const view = viewOf(file), version = file[4];
  if (version === 1) {
    const nchunks = safe(view.getBigInt64(8, true), "nchunks");
    need(!file[5] && !file[6] && !file[7] && nchunks >= 0, "format", "version 1: a field is wrong");
    return { version, options: 0, checksum: 0, typesize: 0, chunkSize: -1, lastChunk: -1, nchunks, spare: 0, features: 0, size: 16 };
  }
  need(file.length >= 32, "truncated", "the header is cut");
  need(version >= 2 && version <= 4, "unsupported", `format version ${version}`);
  const h = {
    version, options: file[5], checksum: file[6], typesize: file[7],
    chunkSize: view.getInt32(8, true), lastChunk: view.getInt32(12, true),
    nchunks: safe(view.getBigInt64(16, true), "nchunks"), spare: safe(view.getBigInt64(24, true), "max_app_chunks"),
    features: 0, size: version === 4 ? 64 : 32,
  };
  need(h.options < 4, "format", "an option bit is set that must be 0");
  if (version === 4) {
    need(file.length >= 64, "truncated", "the extended header is cut");
    need(view.getUint32(32, true) === 0x58504c42 && view.getUint16(36, true) === 32, "format", "not an extended header");
    need(isEqual(xxh3Digest(file.subarray(0, 56)), file.subarray(56, 64)), "checksum", "the header is damaged");
    h.checksum = file[38];
    h.features = view.getUint32(40, true);
    need((h.features & ~7) === 0 || [ARCHIVE, LOG, ARCHIVE | LOG].includes(h.features), "unsupported", `features ${h.features} of the file are unknown to this reader`);
  }
  need(h.checksum <= (version === 4 ? 10 : 8), "format", `checksum ${h.checksum}`);
  need(h.chunkSize >= -1 && h.chunkSize <= MAX_NBYTES && h.lastChunk >= -1 && h.lastChunk <= MAX_NBYTES, "format", "chunk_size or last_chunk");
  need(h.nchunks >= -1 && h.spare >= 0, "format", "nchunks or max_app_chunks");
  need(h.lastChunk !== 0 || h.nchunks <= 1, "format", "last_chunk is 0");
  need(h.options & 1 || !h.spare, "format", "spare entries without a table");
  need(h.nchunks >= 0 || !(h.options & 1), "format", "a table of unknown length");
  if (version === 2) need(!(h.options & 2) && !h.spare, "format", "version 2 has no metadata");
  else need(h.chunkSize < 0 || h.lastChunk <= h.chunkSize, "format", "last_chunk");
  return h;
}

// JSON with NaN and Infinity, which become text.
export function parseJson(bytes) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (word) => (word[0] === '"' ? word : `"${word}"`)));
  } catch (error) {
    throw new ReadError("format", `the metadata are not JSON: ${error.message}`);
  }
}

// Returns the metadata and the end of their section.
export async function readMetadata(source, header, notices) {
  const head = await source.read(header.size, 32), view = viewOf(head);
  const [checksum, codec, level] = head.subarray(9, 12);
  const [size, reserved, stored] = [12, 16, 20].map((at) => view.getUint32(at, true));
  need(String.fromCharCode(...head.subarray(0, 8)) === "JSON\0\0\0\0", "unsupported", "metadata that are not JSON");
  need(checksum <= (header.version === 4 ? 10 : 8) && codec <= 1 && level <= 9, "format", "metadata header");
  need(stored <= reserved && (codec || size === stored), "format", "the sizes of the metadata");
  need(size <= Math.max(16 << 20, 64 * stored), "format", "the metadata expand too much");
  const start = header.size + 32, end = start + reserved + SIZES[checksum];
  const section = await source.read(start, end - start);
  let data = section.subarray(0, stored);
  const digest = await digestOf(checksum, data);
  if (digest === null) notices.add(`The ${NAMES[checksum]} of the metadata was not compared: this browser lacks it.`);
  else {
    need(isEqual(digest, section.subarray(reserved)) || isEqual(digest, section.subarray(stored, stored + digest.length)),
      "checksum", "the metadata are damaged");
  }
  if (codec) data = await zlib(data, size);
  need(data.length === size, "format", "the metadata have another size");
  return { metadata: parseJson(data), end };
}
