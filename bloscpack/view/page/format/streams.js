// Decoders of the streams of Blosc chunks: docs/formats/blosc-chunk.md. Each returns exactly
// `size` bytes, or refuses.

import { decompress } from "../vendor/fzstd.js";
import { need, ReadError } from "./errors.js";

function match(out, at, distance, length) {
  need(distance > 0 && distance <= at, "codec", "a match starts before the stream");
  need(at + length <= out.length, "codec", "a match ends behind the stream");
  for (let i = 0; i < length; i++, at++) out[at] = out[at - distance];
  return at;
}

function literals(stream, at, count, out, to) {
  need(at + count <= stream.length && to + count <= out.length, "codec", "literals end behind the stream");
  out.set(stream.subarray(at, at + count), to);
}

function byteAt(stream, at) {
  need(at < stream.length, "codec", "a stream is cut");
  return stream[at];
}

export function blosclz(stream, size) {
  const out = new Uint8Array(size);
  let at = 0, to = 0;
  while (at < stream.length) {
    const token = at ? stream[at] : stream[at] & 31;
    at++;
    if (token < 32) {
      literals(stream, at, token + 1, out, to);
      at += token + 1;
      to += token + 1;
      continue;
    }
    let length = token >> 5, more;
    const high = token & 31;
    if (length === 7) do length += more = byteAt(stream, at++); while (more === 255);
    const low = byteAt(stream, at++);
    let distance = 256 * high + low + 1;
    if (high === 31 && low === 255) {
      distance = 256 * byteAt(stream, at) + byteAt(stream, at + 1) + 8192;
      at += 2;
    }
    to = match(out, to, distance, length + 2);
  }
  need(to === size, "codec", "a stream decodes to another size");
  return out;
}

export function lz4(stream, size) {
  const out = new Uint8Array(size);
  let at = 0, to = 0, more;
  for (;;) {
    const token = byteAt(stream, at++);
    let count = token >> 4;
    if (count === 15) do count += more = byteAt(stream, at++); while (more === 255);
    literals(stream, at, count, out, to);
    at += count;
    to += count;
    if (at === stream.length) break;
    const distance = byteAt(stream, at) + 256 * byteAt(stream, at + 1);
    at += 2;
    count = token & 15;
    if (count === 15) do count += more = byteAt(stream, at++); while (more === 255);
    to = match(out, to, distance, count + 4);
  }
  need(to === size, "codec", "a stream decodes to another size");
  return out;
}

export function snappy(stream, size) {
  let at = 0, declared = 0, scale = 1, byte;
  do {
    byte = byteAt(stream, at++);
    declared += (byte & 127) * scale;
    scale *= 128;
  } while (byte > 127 && at < 6);
  need(declared === size, "codec", "Snappy declares another size");
  const out = new Uint8Array(size);
  const number = (width) => {
    let value = 0;
    for (let i = 0; i < width; i++) value += byteAt(stream, at++) * 256 ** i;
    return value;
  };
  let to = 0;
  while (at < stream.length) {
    const tag = stream[at++];
    if ((tag & 3) === 0) {
      let count = (tag >> 2) + 1;
      if (count > 60) count = number(count - 60) + 1;
      literals(stream, at, count, out, to);
      at += count;
      to += count;
    } else if ((tag & 3) === 1) to = match(out, to, (tag >> 5) * 256 + number(1), ((tag >> 2) & 7) + 4);
    else to = match(out, to, number((tag & 3) === 2 ? 2 : 4), (tag >> 2) + 1);
  }
  need(to === size, "codec", "a stream decodes to another size");
  return out;
}

// Returns at most `limit` decoded bytes of a zlib stream; one that decodes to more is refused.
export async function zlib(stream, limit) {
  const reader = new Blob([stream]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  let total = 0;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      total += value.length;
      need(total <= limit, "codec", "a zlib stream decodes to more than it declares");
      parts.push(value);
    }
  } catch (error) {
    reader.cancel().catch(() => {});
    throw error instanceof ReadError ? error : new ReadError("codec", `zlib: ${error.message}`);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

// fzstd allocates what a frame's header declares, so it gets a header with our own bound.
export function zstd(stream, size) {
  need(stream.length >= 5 && stream[0] === 0x28 && stream[1] === 0xb5 && stream[2] === 0x2f && stream[3] === 0xfd,
    "codec", "not a Zstandard frame");
  const flags = stream[4];
  need((flags & 15) === 0, "unsupported", "a Zstandard frame with a dictionary or its own checksum");
  const start = 5 + (flags & 32 ? 0 : 1) + (flags >> 6 ? 1 << (flags >> 6) : flags >> 5 & 1);
  let at = start, last = 0;
  while (!last) {
    need(at + 3 <= stream.length, "codec", "a Zstandard frame is cut");
    const head = stream[at] | (stream[at + 1] << 8) | (stream[at + 2] << 16), type = (head >> 1) & 3;
    const length = head >> 3;
    last = head & 1;
    need(type < 3 && length <= 131072 && (type === 2 || length <= size), "codec", "a Zstandard block is too large");
    at += 3 + (type === 1 ? 1 : length);
    need(at <= stream.length, "codec", "a Zstandard frame is cut");
  }
  need(at === stream.length, "codec", "bytes follow a Zstandard frame");
  const frame = new Uint8Array(6 + stream.length - start);
  let exponent = 0;
  while (1024 * 2 ** exponent < size) exponent++;
  // Never a content size: fzstd would accept a shorter frame.
  frame.set([0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3]);
  frame.set(stream.subarray(start), 6);
  let out;
  try {
    out = decompress(frame);
  } catch (error) {
    throw new ReadError("codec", `Zstandard: ${error.message}`);
  }
  need(out.length === size, "codec", "a Zstandard frame decodes to another size");
  return out;
}

export async function decodeStream(format, stream, size) {
  const out = await [blosclz, lz4, snappy, zlib, zstd][format](stream, size);
  need(out.length === size, "codec", "a stream decodes to another size");
  return out;
}
