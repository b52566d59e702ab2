// Array chunks: docs/formats/arraychunk.md. Integers of 8 bytes are BigInt, all others Number;
// typed arrays wrap both as the format requires.

import { decodeBlosc } from "./blosc.js";
import { need, viewOf } from "./errors.js";
import { zstd } from "./streams.js";

const UNSIGNED = { 1: Uint8Array, 2: Uint16Array, 4: Uint32Array, 8: BigUint64Array };

export function arrayHeader(bytes) {
  need(bytes.length >= 16, "truncated", "the header of a chunk is cut");
  const view = viewOf(bytes), itemsize = bytes[3];
  const [nbytes, blocksize, cbytes] = [4, 8, 12].map((at) => view.getUint32(at, true));
  need(bytes[0] === 0x82, "format", "not an array chunk");
  need(bytes[1] === 1 && bytes[2] === 0, "unsupported", "a later revision of array chunks");
  need(UNSIGNED[itemsize], "format", `items of ${itemsize} bytes`);
  need(nbytes > 0 && nbytes <= Math.min(2 ** 31 - 17, 8192 * cbytes + 65536), "format", "a chunk cannot expand so far");
  need(blocksize > 0 && blocksize <= Math.min(nbytes, 262144), "format", "blocksize");
  return { isArray: true, typesize: itemsize, nbytes, blocksize, cbytes };
}

class Reader {
  constructor(bytes, at, end) {
    need(at >= 0 && at <= end && end <= bytes.length, "format", "a part lies outside of the chunk");
    Object.assign(this, { bytes, at, end });
  }

  take(size) {
    need(size <= this.end - this.at, "format", "a field ends after its block");
    this.at += size;
    return this.bytes.subarray(this.at - size, this.at);
  }

  // A Number up to 4 bytes, a BigInt of 8.
  number(size) {
    const view = viewOf(this.take(size));
    return size === 1 ? view.getUint8(0) : size === 2 ? view.getUint16(0, true) : size === 4 ? view.getUint32(0, true) : view.getBigUint64(0, true);
  }

  stream(n, isInner = false) {
    const head = this.number(4), mode = head >>> 30, size = head & 0x3fffffff;
    if (mode === 0) {
      need(size <= 255, "codec", "a constant stream");
      return new Uint8Array(n).fill(size);
    }
    const data = this.take(size);
    if (mode === 3) {
      need(size === n, "codec", "a stored stream has another size");
      return data;
    }
    if (mode === 2) return zstd(data, n);
    need(!isInner, "codec", "a sparse stream in a sparse stream");
    const inner = new Reader(data, 0, size), common = inner.number(1), count = inner.number(4);
    need(count <= n, "codec", "a sparse stream has too many bytes");
    const bits = inner.stream(Math.ceil(n / 8), true);
    checkBits(bits, n, count);
    const some = inner.stream(count, true), out = new Uint8Array(n).fill(common);
    for (let i = 0, k = 0; i < n; i++) if (bits[i >> 3] >> (i & 7) & 1) out[i] = some[k++];
    need(inner.at === size, "codec", "a sparse stream is longer than its parts");
    return out;
  }
}

function checkBits(bits, n, count) {
  let total = 0;
  for (let byte of bits) for (; byte; byte &= byte - 1) total++;
  need(total === count && !(n % 8 && bits.at(-1) >> n % 8), "codec", "a bitmap has another count");
}

export async function decodeArrayChunk(bytes) {
  const { typesize: itemsize, nbytes, blocksize, cbytes } = arrayHeader(bytes);
  need(cbytes === bytes.length && cbytes >= 48, "format", "a chunk of another size");
  const view = viewOf(bytes), head = view.getUint32(16, true), nplanes = bytes[22], isSwapped = bytes[23];
  const shape = [24, 28, 32].map((at) => view.getUint32(at, true)), block = [36, 40, 44].map((at) => view.getUint32(at, true));
  const Item = UNSIGNED[itemsize], product = (list) => list.reduce((a, b) => a * b, 1);
  need(nplanes >= 1 && nplanes <= 16 && head <= cbytes && isSwapped <= (itemsize > 1 ? 1 : 0), "format", "geometry");
  need(block.every((side, axis) => side >= 1 && side <= shape[axis]), "format", "sides of a block");
  need(block[2] === shape[2] || (block[0] === 1 && block[1] === 1), "format", "a cut row");
  need(product(shape) * nplanes * itemsize === nbytes && product(block) * nplanes * itemsize === blocksize, "format", "sizes of the geometry");
  const reader = new Reader(bytes, 48, head), planes = [];
  for (let p = 0; p < nplanes; p++) planes.push(readPlane(reader, itemsize, nbytes, planes[p - 1]));
  need(reader.at === 16 + view.getUint16(20, true), "format", "size of the plan");
  const counts = shape.map((side, axis) => Math.ceil(side / block[axis]));
  need(product(counts) * 4 <= head, "format", "the ends of blocks are cut");
  const ends = Array.from({ length: product(counts) }, () => reader.number(4));
  for (const plane of planes) {
    if (plane.map !== 3) continue;
    need(plane.scale <= BigInt(cbytes), "format", "a dictionary is cut");
    const stored = reader.take(Number(plane.scale));
    need(stored.length >= 16 && ((stored[2] & 2) || stored[2] >> 5 === 4), "codec", "codec of a dictionary");
    const entries = await decodeBlosc(stored);
    need(entries.length === Number(plane.offset) * itemsize, "format", "size of a dictionary");
    plane.dictionary = new Item(entries.slice().buffer);
  }
  need(reader.at === head && ends.at(-1) === cbytes, "format", "the chunk has another size");
  const out = new Item(nbytes / itemsize), [, H, W] = shape;
  let start = head;
  ends.forEach((end, index) => {
    const part = new Reader(bytes, start, end);
    const place = [Math.floor(index / counts[1] / counts[2]), Math.floor(index / counts[2]) % counts[1], index % counts[2]];
    const at = place.map((each, axis) => each * block[axis]);
    const sides = at.map((each, axis) => Math.min(block[axis], shape[axis] - each));
    let before = null;
    planes.forEach((plane, p) => {
      const { items, work } = decodePlane(part, plane, sides, itemsize, before);
      before = work;
      let i = 0;
      for (let z = 0; z < sides[0]; z++) {
        for (let y = 0; y < sides[1]; y++) {
          let to = (((at[0] + z) * H + at[1] + y) * W + at[2]) * nplanes + p;
          for (let x = 0; x < sides[2]; x++, to += nplanes) out[to] = items[i++];
        }
      }
    });
    need(part.at === end, "format", "a block is longer than its planes");
    start = end;
  });
  const found = new Uint8Array(out.buffer);
  if (isSwapped) for (let i = 0; i < nbytes; i += itemsize) found.subarray(i, i + itemsize).reverse();
  return found;
}

function readPlane(reader, itemsize, nbytes, before) {
  const [map, width, predictor, coder, shift, k] = [1, 1, 1, 1, 1, 1].map((size) => reader.number(size));
  const nvalues = reader.number(2), offset = reader.number(8), raw = reader.take(8), scale = viewOf(raw).getBigUint64(0, true);
  const factor = viewOf(raw).getFloat64(0, true);
  need(map <= 3 && coder <= 2 && predictor < 32 && [0, 1, 2, 3, 5].includes(predictor & 7), "format", "an unknown number");
  need(UNSIGNED[width] && width <= itemsize, "format", "width");
  need(map === 1 ? shift < 8 * itemsize && scale === 0n : shift === 0, "format", "shift or scale");
  need(map !== 0 || scale > 0n, "format", "factor 0");
  need(!(predictor & 16) || before?.width === width, "format", "no plane before");
  const values = Array.from({ length: nvalues }, () => reader.number(width)), base = (8 * width - k + 1) * 2 ** k;
  need(coder === 2 ? k < 8 * width && base + nvalues <= 256 : !k && !nvalues, "format", "tokens");
  need(values.every((value, i) => !i || value > values[i - 1]), "format", "residuals do not ascend");
  need(map !== 2 || (itemsize >= 4 && Number.isFinite(factor) && factor !== 0), "format", "divisor");
  need(map !== 3 || (offset >= 1n && offset <= BigInt(Math.min(8192, Math.floor(nbytes / 16 / itemsize)))), "format", "entries");
  return { map, width, predictor, coder, shift, k, base, offset, scale, factor, values };
}

function decodePlane(reader, plane, sides, itemsize, before) {
  const n = sides[0] * sides[1] * sides[2], count = reader.number(4);
  need(count <= n, "codec", "too many exceptions");
  let bits = null, parts = null;
  if (count) {
    bits = reader.stream(Math.ceil(n / 8));
    checkBits(bits, n, count);
    parts = reader.stream(count * itemsize);
  }
  const work = [bytePlanes, quotients, bins][plane.coder](reader, plane, n);
  unpredict(work, plane.predictor, sides, before);
  const items = unmap(plane, work, itemsize);
  if (count) {
    const raw = new Uint8Array(items.buffer);
    for (let i = 0, e = 0; i < n; i++) {
      if (!(bits[i >> 3] >> (i & 7) & 1)) continue;
      for (let b = 0; b < itemsize; b++) raw[i * itemsize + b] = parts[b * count + e];
      e++;
    }
  }
  return { items, work };
}

function bytePlanes(reader, { width }, n) {
  const out = new Uint8Array(n * width);
  for (let j = 0; j < width; j++) {
    const plane = reader.stream(n);
    for (let i = 0; i < n; i++) out[i * width + j] = plane[i];
  }
  return new UNSIGNED[width](out.buffer);
}

// Reads fields of bits, the lowest first.
class Bits {
  constructor(bytes) {
    Object.assign(this, { bytes, at: 0 });
  }

  // A Number up to 32 bits, a BigInt for wide integers.
  take(count, isWide) {
    let value = 0n, number = 0, done = 0;
    while (done < count) {
      const inside = this.at & 7, some = Math.min(8 - inside, count - done);
      const field = (this.bytes[this.at >> 3] >> inside) & ((1 << some) - 1);
      if (isWide) value |= BigInt(field) << BigInt(done);
      else number += field * 2 ** done;
      this.at += some;
      done += some;
    }
    return isWide ? value : number;
  }
}

function quotients(reader, { width }, n) {
  const nclasses = reader.number(1), isWide = width === 8, out = new UNSIGNED[width](n);
  need(nclasses >= 1 && nclasses <= 16, "codec", "classes");
  const groups = nclasses > 1 ? reader.stream(Math.ceil(n / 64)) : new Uint8Array(Math.ceil(n / 64));
  need(groups.every((each) => each < nclasses), "codec", "class of a group");
  for (let number = 0; number < nclasses; number++) {
    const places = [];
    groups.forEach((each, g) => {
      if (each === number) for (let i = 64 * g; i < Math.min(n, 64 * g + 64); i++) places.push(i);
    });
    const m = places.length, shift = reader.number(1), count = reader.number(4);
    need(shift <= 8 * width && count <= m, "codec", "shift of a class");
    const tokens = reader.stream(m), low = Array.from({ length: shift >> 3 }, () => reader.take(m));
    const bits = new Bits(reader.take(Math.ceil((m * (shift % 8)) / 8)));
    let escapes = 0;
    for (let i = 0; i < m; i++) {
      let value = isWide ? BigInt(tokens[i]) << BigInt(shift) : tokens[i] * 2 ** shift;
      low.forEach((plane, j) => { value += isWide ? BigInt(plane[i]) << BigInt(8 * j) : plane[i] * 2 ** (8 * j); });
      const rest = bits.take(shift % 8, false) * 1, scale = 8 * low.length;
      value += isWide ? BigInt(rest) << BigInt(scale) : rest * 2 ** scale;
      out[places[i]] = value;
      if (tokens[i] === 255) escapes++;
    }
    need(escapes === count, "codec", "number of escapes");
    for (let i = 0; i < m; i++) if (tokens[i] === 255) out[places[i]] = reader.number(width);
  }
  return out;
}

function bins(reader, { width, k, base, values }, n) {
  const isWide = width === 8, starts = [], sizes = [];
  for (let token = 0; token < base + values.length; token++) {
    const m = token >= 2 ** (k + 1) && token < base ? (token >> k) - 1 : 0;
    sizes.push(m);
    if (token >= base) starts.push(values[token - base]);
    else {
      const low = token < 2 ** (k + 1) ? token : 2 ** k + (token % 2 ** k);
      starts.push(isWide ? BigInt(low) << BigInt(m) : low * 2 ** m);
    }
  }
  const tokens = reader.stream(n), out = new UNSIGNED[width](n);
  let total = 0;
  for (const token of tokens) {
    need(token < starts.length, "codec", "an unknown token");
    total += sizes[token];
  }
  const bits = new Bits(reader.take(Math.ceil(total / 8)));
  for (let i = 0; i < n; i++) out[i] = starts[tokens[i]] + bits.take(sizes[tokens[i]], isWide);
  return out;
}

function unpredict(v, predictor, [D, H, W], before) {
  if (!predictor) return;
  const isWide = v instanceof BigUint64Array, kind = predictor & 7, slice = H * W;
  for (let i = 0; i < v.length; i++) v[i] = isWide ? (v[i] >> 1n) ^ -(v[i] & 1n) : (v[i] >>> 1) ^ -(v[i] & 1);
  for (let z = 0; z < D && kind; z++) {
    for (let y = 0; y < H; y++) {
      for (let x = 0, i = z * slice + y * W; x < W; x++, i++) {
        if (!x) v[i] = y ? v[i] + v[i - W] : v[i];
        else if (kind === 1 || (!y && kind < 5)) v[i] = v[i] + v[i - 1];
        else if (kind === 2) v[i] = v[i] + v[i - W];
        else if (kind === 3) v[i] = v[i] + v[i - 1] + v[i - W] - v[i - W - 1];
        else v[i] = x === 1 ? v[i] + v[i - 1] : v[i] + v[i - 1] + v[i - 1] - v[i - 2];
      }
    }
  }
  if (predictor & 8) for (let i = slice; i < v.length; i++) v[i] = v[i] + v[i - slice];
  if (predictor & 16) for (let i = 0; i < v.length; i++) v[i] = v[i] + before[i];
}

function unmap(plane, work, itemsize) {
  const n = work.length, N = 8n * BigInt(itemsize), Item = UNSIGNED[itemsize], out = new Item(n);
  const store = itemsize === 8 ? (value) => value : Number;
  if (plane.map === 0) {
    const small = itemsize < 8 && plane.scale < 1n << 20n;
    const scale = Number(plane.scale), offset = Number(BigInt.asUintN(Number(N), plane.offset));
    for (let i = 0; i < n; i++) {
      out[i] = small ? work[i] * scale + offset : store(BigInt.asUintN(Number(N), BigInt(work[i]) * plane.scale + plane.offset));
    }
  } else if (plane.map === 1) {
    const b = N - BigInt(plane.shift), all = (1n << b) - 1n, top = 1n << (b - 1n), shift = BigInt(plane.shift);
    for (let i = 0; i < n; i++) {
      const o = (BigInt(work[i]) + plane.offset) & all;
      out[i] = store((o & top ? o ^ top : ~o & all) << shift);
    }
  } else if (plane.map === 2) {
    const found = itemsize === 4 ? new Float32Array(n) : new Float64Array(n), offset = BigInt.asIntN(64, plane.offset);
    const isSmall = plane.width < 8 && offset > -(1n << 52n) && offset < 1n << 52n, start = Number(offset);
    for (let i = 0; i < n; i++) {
      found[i] = (isSmall ? work[i] + start : Number(BigInt.asIntN(64, BigInt(work[i]) + offset))) / plane.factor;
    }
    return new Item(found.buffer);
  } else {
    for (let i = 0; i < n; i++) {
      need(Number(work[i]) < plane.dictionary.length, "codec", "a rank outside of the dictionary");
      out[i] = plane.dictionary[Number(work[i])];
    }
  }
  return out;
}
