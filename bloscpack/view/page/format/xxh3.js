// XXH3 of 64 and 128 bits with seed 0, most significant byte first, after xxhash_spec.md.
// Long inputs accumulate in halves of 32 bits, because BigInt is slow; everything else is BigInt.

import { viewOf } from "./errors.js";

const SECRET = Uint8Array.from((
  "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221" +
  "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8" +
  "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb" +
  "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
).match(/../g), (two) => parseInt(two, 16));
const M = (1n << 64n) - 1n;
const P32_1 = 0x9e3779b1n, P32_2 = 0x85ebca77n, P32_3 = 0xc2b2ae3dn;
const P1 = 0x9e3779b185ebca87n, P2 = 0xc2b2ae3d27d4eb4fn, P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n, P5 = 0x27d4eb2f165667c5n;
const PMX1 = 0x165667919e3779f9n, PMX2 = 0x9fb21c651e98df25n;
const secret = viewOf(SECRET);
const s64 = (at) => secret.getBigUint64(at, true);
const s32 = (at) => BigInt(secret.getUint32(at, true));

const fold = (a, b) => {
  const product = a * b;
  return (product & M) ^ (product >> 64n);
};
const swap32 = (x) => ((x & 255n) << 24n) | ((x & 0xff00n) << 8n) | ((x >> 8n) & 0xff00n) | (x >> 24n);
const swap64 = (x) => (swap32(x & 0xffffffffn) << 32n) | swap32(x >> 32n);
const rotl64 = (x, bits) => ((x << bits) | (x >> (64n - bits))) & M;

function avalanche(h) {
  h ^= h >> 37n;
  h = (h * PMX1) & M;
  return h ^ (h >> 32n);
}

function avalanche64(h) {
  h ^= h >> 33n;
  h = (h * P2) & M;
  h ^= h >> 29n;
  h = (h * P3) & M;
  return h ^ (h >> 32n);
}

function mix16(view, at, key) {
  return fold(view.getBigUint64(at, true) ^ s64(key), view.getBigUint64(at + 8, true) ^ s64(key + 8));
}

function accumulate(view, n) {
  // Eight lanes of two halves: the low one at 2 i, the high one at 2 i + 1.
  const start = [P32_3, P1, P2, P3, P4, P32_2, P5, P32_1];
  const acc = new Uint32Array(16);
  start.forEach((value, i) => {
    acc[2 * i] = Number(value & 0xffffffffn);
    acc[2 * i + 1] = Number(value >> 32n);
  });
  const words = (at) => secret.getUint32(at, true);
  const stripe = (at, key) => {
    for (let i = 0; i < 8; i++) {
      const low = view.getUint32(at + 8 * i, true), high = view.getUint32(at + 8 * i + 4, true);
      const a = (low ^ words(key + 8 * i)) >>> 0, b = (high ^ words(key + 8 * i + 4)) >>> 0;
      const other = 2 * (i ^ 1);
      let sum = acc[other] + low;
      acc[other + 1] += high + (sum > 0xffffffff ? 1 : 0);
      acc[other] = sum;
      const al = a & 0xffff, ah = a >>> 16, bl = b & 0xffff, bh = b >>> 16;
      const ll = al * bl, middle = ah * bl + (ll >>> 16), rest = al * bh + (middle & 0xffff);
      const upper = ah * bh + Math.floor(middle / 65536) + Math.floor(rest / 65536);
      sum = acc[2 * i] + (((rest << 16) | (ll & 0xffff)) >>> 0);
      acc[2 * i + 1] += upper + (sum > 0xffffffff ? 1 : 0);
      acc[2 * i] = sum;
    }
  };
  const scramble = () => {
    const key = SECRET.length - 64;
    for (let i = 0; i < 8; i++) {
      let low = acc[2 * i], high = acc[2 * i + 1];
      low ^= (high >>> 15);
      low = (low ^ words(key + 8 * i)) >>> 0;
      high = (high ^ words(key + 8 * i + 4)) >>> 0;
      const p = 0x9e3779b1, pl = p & 0xffff, ph = p >>> 16;
      const al = low & 0xffff, ah = low >>> 16;
      const ll = al * pl, middle = ah * pl + (ll >>> 16), rest = al * ph + (middle & 0xffff);
      const upper = ah * ph + Math.floor(middle / 65536) + Math.floor(rest / 65536);
      acc[2 * i] = ((rest << 16) | (ll & 0xffff)) >>> 0;
      acc[2 * i + 1] = upper + (Math.imul(high, p) >>> 0);
    }
  };
  const nblocks = Math.floor((n - 1) / 1024);
  for (let block = 0; block < nblocks; block++) {
    for (let k = 0; k < 16; k++) stripe(1024 * block + 64 * k, 8 * k);
    scramble();
  }
  const left = Math.floor((n - 1 - 1024 * nblocks) / 64);
  for (let k = 0; k < left; k++) stripe(1024 * nblocks + 64 * k, 8 * k);
  stripe(n - 64, SECRET.length - 64 - 7);
  return Array.from({ length: 8 }, (_, i) => (BigInt(acc[2 * i + 1]) << 32n) | BigInt(acc[2 * i]));
}

function merge(acc, key, start) {
  let h = start;
  for (let i = 0; i < 4; i++) h += fold(acc[2 * i] ^ s64(key + 16 * i), acc[2 * i + 1] ^ s64(key + 16 * i + 8));
  return avalanche(h & M);
}

export function xxh3(bytes) {
  const n = bytes.length, view = viewOf(bytes), size = BigInt(n);
  if (n === 0) return avalanche64(s64(56) ^ s64(64));
  if (n <= 3) {
    const x = (BigInt(bytes[0]) << 16n) | (BigInt(bytes[n >> 1]) << 24n) | BigInt(bytes[n - 1]) | (size << 8n);
    return avalanche64(x ^ s32(0) ^ s32(4));
  }
  if (n <= 8) {
    const x = BigInt(view.getUint32(n - 4, true)) + (BigInt(view.getUint32(0, true)) << 32n);
    let h = x ^ s64(8) ^ s64(16);
    h ^= rotl64(h, 49n) ^ rotl64(h, 24n);
    h = (h * PMX2) & M;
    h ^= (h >> 35n) + size;
    h = (h * PMX2) & M;
    return h ^ (h >> 28n);
  }
  if (n <= 16) {
    const low = view.getBigUint64(0, true) ^ s64(24) ^ s64(32);
    const high = view.getBigUint64(n - 8, true) ^ s64(40) ^ s64(48);
    return avalanche((size + swap64(low) + high + fold(low, high)) & M);
  }
  if (n <= 128) {
    let h = (size * P1) & M;
    for (let i = Math.floor((n - 1) / 32); i >= 0; i--) {
      h += mix16(view, 16 * i, 32 * i) + mix16(view, n - 16 * (i + 1), 32 * i + 16);
    }
    return avalanche(h & M);
  }
  if (n <= 240) {
    let h = (size * P1) & M;
    for (let i = 0; i < 8; i++) h += mix16(view, 16 * i, 16 * i);
    h = avalanche(h & M);
    for (let i = 8; i < Math.floor(n / 16); i++) h += mix16(view, 16 * i, 16 * (i - 8) + 3);
    return avalanche((h + mix16(view, n - 16, 136 - 17)) & M);
  }
  return merge(accumulate(view, n), 11, (size * P1) & M);
}

export function xxh3Digest(bytes) {
  const out = new Uint8Array(8);
  viewOf(out).setBigUint64(0, xxh3(bytes));
  return out;
}

// Returns the digest of 128 bits of more than 240 bytes; null of shorter input, which is not
// implemented.
export function xxh128Digest(bytes) {
  const n = bytes.length, size = BigInt(n);
  if (n <= 240) return null;
  const acc = accumulate(viewOf(bytes), n), out = new Uint8Array(16);
  viewOf(out).setBigUint64(8, merge(acc, 11, (size * P1) & M));
  viewOf(out).setBigUint64(0, merge(acc, SECRET.length - 64 - 11, ~(size * P2) & M));
  return out;
}
