// Blosc-1 chunks: docs/formats/blosc-chunk.md.

import { need, viewOf } from "./errors.js";
import { decodeStream } from "./streams.js";

const EXPANSION = [256, 256, 64, 1040, 65536];
export const MAX_NBYTES = 2 ** 31 - 17;

export function bloscHeader(bytes) {
  need(bytes.length >= 16, "truncated", "the header of a chunk is cut");
  const view = viewOf(bytes);
  const [version, , flags, typesize] = bytes;
  const [nbytes, blocksize, cbytes] = [4, 8, 12].map((at) => view.getUint32(at, true));
  need(version === 2, version > 2 ? "unsupported" : "format", `chunk version ${version}`);
  need(cbytes >= 16 && nbytes <= MAX_NBYTES, "format", "the sizes of a chunk are out of range");
  if (flags & 2) need(cbytes === nbytes + 16, "format", "an uncompressed chunk has another size");
  else need(flags >> 5 < 5 && nbytes <= cbytes * EXPANSION[flags >> 5], "format", "a chunk cannot expand so far");
  return { flags, typesize, nbytes, blocksize, cbytes };
}

export async function decodeBlosc(bytes) {
  const head = bloscHeader(bytes), { flags, typesize, nbytes, blocksize } = head;
  need(head.cbytes === bytes.length, "codec", "a chunk of another size");
  if (flags & 2) return bytes.slice(16);
  if (!nbytes) return new Uint8Array(0);
  need(blocksize > 0 && blocksize <= nbytes && typesize, "codec", "bad block size");
  const nblocks = Math.ceil(nbytes / blocksize);
  need(16 + 4 * nblocks <= bytes.length, "codec", "the block starts are cut");
  const view = viewOf(bytes), out = new Uint8Array(nbytes);
  for (let k = 0; k < nblocks; k++) {
    const size = Math.min(blocksize, nbytes - k * blocksize);
    const isSplit = !(flags & 16) && typesize <= 16 && size === blocksize && Math.floor(size / typesize) >= 128;
    const nstreams = isSplit ? typesize : 1;
    need(size % nstreams === 0, "codec", "a block is not a multiple of its streams");
    const length = size / nstreams, block = nstreams > 1 ? new Uint8Array(size) : null;
    let at = view.getUint32(16 + 4 * k, true), found = null;
    for (let s = 0; s < nstreams; s++) {
      need(at + 4 <= bytes.length, "codec", "a stream starts behind the chunk");
      const stored = view.getUint32(at, true);
      need(at + 4 + stored <= bytes.length, "codec", "a stream ends behind the chunk");
      const stream = bytes.subarray(at + 4, at + 4 + stored);
      found = stored === length ? stream : await decodeStream(flags >> 5, stream, length);
      block?.set(found, s * length);
      at += 4 + stored;
    }
    const target = out.subarray(k * blocksize, k * blocksize + size), whole = block ?? found;
    if (flags & 1) unshuffle(whole, typesize, target);
    else if (flags & 4) unshuffleBits(whole, typesize, target);
    else target.set(whole);
  }
  return out;
}

function unshuffle(block, typesize, out) {
  const n = Math.floor(block.length / typesize);
  for (let j = 0; j < typesize; j++) {
    for (let i = 0, from = j * n, to = j; i < n; i++, to += typesize) out[to] = block[from + i];
  }
  out.set(block.subarray(n * typesize), n * typesize);
}

export function unshuffleBits(block, typesize, out) {
  const n = Math.floor(block.length / typesize);
  if (!n || n % 8) return out.set(block);
  const stride = n / 8;
  for (let byte = 0; byte < typesize; byte++) {
    for (let i = 0; i < n; i++) {
      let value = 0;
      for (let bit = 0; bit < 8; bit++) value |= ((block[(8 * byte + bit) * stride + (i >> 3)] >> (i & 7)) & 1) << bit;
      out[i * typesize + byte] = value;
    }
  }
  out.set(block.subarray(n * typesize), n * typesize);
}
