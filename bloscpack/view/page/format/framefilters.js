// Filters of the pixels of lossless frames: docs/formats/frames.md, "Filters". Items of 8 bytes are
// BigInt, all others Number; typed arrays wrap both as the format requires.

import { unshuffleBits } from "./blosc.js";
import { need } from "./errors.js";

const PLANES = 1, UP = 2, LEFT = 4, ZIGZAG = 8, BITS = 0x20;
export const TIME = 0x10, STRIDED = 0x40, ARRAY = 0x80;
const PACKED = 0xa0;
const UNSIGNED = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };

// Returns the frame that frame `k` of a clip refers to.
export function referenceOf(k, filters, group) {
  const i = k % 8, h = i >> 1;
  need(i && group === 1, "format", `frame ${k} has no frame to refer to`);
  if (!(filters & STRIDED)) return k - (i & -i);
  return k - (h ? 2 * (h & -h) : 1);
}

export const isPacked = (filters) => (filters & PACKED) === PACKED;

// Returns the bytes of an array of this shape; `reference` holds those of the other frame, or null.
export function undoFilters(data, filters, shape, itemsize, reference) {
  const Item = UNSIGNED[itemsize], hasChannels = shape.length >= 3 && shape.at(-1) <= 4;
  const channels = hasChannels ? shape.at(-1) : 1, width = (hasChannels ? shape.at(-2) : shape.at(-1)) ?? 1;
  const known = PLANES | UP | LEFT | TIME | (filters & TIME ? STRIDED : 0) | (isPacked(filters) ? PACKED : ZIGZAG | BITS);
  need(Item && !(filters & ~known) && (channels >= 3 || !(filters & PLANES)), "codec", `filters ${filters} of a frame`);
  const count = filters & PLANES ? channels : 1, depth = filters & PLANES ? 1 : channels;
  if (isPacked(filters)) {
    need(itemsize === 1, "codec", "packed residuals of items of several bytes");
    data = unpack(data, shape.reduce((a, b) => a * b, 1) / (width * channels), width * depth, count);
    filters &= ~PACKED;
  }
  const items = new Item(data.slice().buffer), size = items.length / count;
  const planes = Array.from({ length: count }, (_, p) => undoPlane(items.subarray(p * size, (p + 1) * size), filters, width * depth, depth));
  let out = planes[0];
  if (filters & PLANES) {
    const [green, red, blue] = planes;
    for (let i = 0; i < size; i++) {
      red[i] += green[i];
      blue[i] += green[i];
    }
    out = new Item(items.length);
    [red, green, blue, planes[3]].slice(0, count).forEach((plane, p) => {
      for (let i = 0, to = p; i < size; i++, to += count) out[to] = plane[i];
    });
  }
  if (reference) {
    const other = new Item(reference.slice().buffer);
    for (let i = 0; i < out.length; i++) out[i] += other[i];
  }
  return new Uint8Array(out.buffer, out.byteOffset, out.byteLength);
}

// Returns the residuals of all planes from runs of 16 items, each of as many bits as it needs.
function unpack(data, rows, length, count) {
  const nblocks = Math.ceil(length / 32), start = data.length - rows * nblocks * count;
  need(start >= 0, "codec", "the widths of packed residuals are cut");
  const widths = data.subarray(start), out = new Uint8Array(rows * length * count);
  need(widths.every((pair) => (pair & 15) <= 8 && pair >> 4 <= 8), "codec", "packed residuals of over 8 bits");
  need(2 * widths.reduce((sum, pair) => sum + (pair & 15) + (pair >> 4), 0) === start, "codec", "packed residuals of another size");
  let at = 0, block = 0;
  for (let y = 0; y < rows; y++) {
    for (let x = 0; x < length; x += 32) {
      for (let p = 0; p < count; p++, block++) {
        const to = (p * rows + y) * length, stop = Math.min(length, x + 32);
        for (let octet = 0; octet < 4; octet++) {
          const width = octet < 2 ? widths[block] & 15 : widths[block] >> 4;
          for (let i = 0; i < 8 && x + 8 * octet + i < stop; i++) {
            let value = 0;
            for (let bit = 0; bit < width; bit++) value |= (data[at + bit] >> i & 1) << bit;
            out[to + x + 8 * octet + i] = value << (32 - width) >> (32 - width);
          }
          at += width;
        }
      }
    }
  }
  return out;
}

function undoPlane(stored, filters, row, depth) {
  const isWide = stored instanceof BigUint64Array, n = stored.length;
  const v = filters & BITS ? undoBits(stored) : stored;
  if (filters & ZIGZAG) for (let i = 0; i < n; i++) v[i] = isWide ? (v[i] >> 1n) ^ -(v[i] & 1n) : (v[i] >>> 1) ^ -(v[i] & 1);
  if (filters & LEFT) {
    for (let start = 0; start < n; start += row) for (let i = start + depth; i < start + row; i++) v[i] += v[i - depth];
  }
  if (filters & UP) for (let i = row; i < n; i++) v[i] += v[i - row];
  return v;
}

// Returns the items; those behind a multiple of eight are stored as they are.
function undoBits(stored) {
  const out = stored.slice(), itemsize = stored.BYTES_PER_ELEMENT, nbytes = (stored.length - stored.length % 8) * itemsize;
  const [from, to] = [stored, out].map((each) => new Uint8Array(each.buffer, each.byteOffset, nbytes));
  unshuffleBits(from, itemsize, to);
  return out;
}
