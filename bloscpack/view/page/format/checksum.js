// Checksums by their ids. A digest that cannot be computed here is null: the caller reports it.

import { xxh128Digest, xxh3Digest } from "./xxh3.js";

export const NAMES = ["None", "adler32", "crc32", "md5", "sha1", "sha224", "sha256", "sha384", "sha512",
  "xxh3_64", "xxh3_128"];
export const SIZES = [0, 4, 4, 16, 20, 28, 32, 48, 64, 8, 16];
const SHA = { 4: "SHA-1", 6: "SHA-256", 7: "SHA-384", 8: "SHA-512" };

const TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});

function littleEndian(number) {
  return Uint8Array.of(number, number >>> 8, number >>> 16, number >>> 24);
}

export function crc32(bytes) {
  let value = -1;
  for (let i = 0; i < bytes.length; i++) value = (value >>> 8) ^ TABLE[(value ^ bytes[i]) & 255];
  return littleEndian(~value);
}

export function adler32(bytes) {
  let a = 1, b = 0;
  for (let i = 0; i < bytes.length;) {
    // The sums of 3800 bytes stay below 2^31: engines add such integers without floats.
    const end = Math.min(i + 3800, bytes.length);
    for (; i < end; i++) b += a += bytes[i];
    a %= 65521;
    b %= 65521;
  }
  return littleEndian((b << 16) | a);
}

// Returns the digest, or null if this runtime has no such algorithm.
export async function digestOf(id, bytes) {
  if (id === 0) return new Uint8Array(0);
  if (id === 1) return adler32(bytes);
  if (id === 2) return crc32(bytes);
  if (id === 9) return xxh3Digest(bytes);
  if (id === 10) return xxh128Digest(bytes);
  // Browsers have WebCrypto on https and localhost only, and never MD5 or SHA-224.
  if (!SHA[id] || !globalThis.crypto?.subtle) return null;
  return new Uint8Array(await crypto.subtle.digest(SHA[id], bytes));
}
