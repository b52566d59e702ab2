// Error of the readers, with a kind of tests/conformance/README.md.

export class ReadError extends Error {
  constructor(kind, text) {
    super(text);
    this.name = "ReadError";
    this.kind = kind;
  }
}

export function need(condition, kind, text) {
  if (!condition) throw new ReadError(kind, text);
}

// Returns an integer of 64 bits as a Number; larger ones than 2^53 are refused.
export function safe(big, what) {
  need(big >= -(2n ** 53n) && big <= 2n ** 53n, "format", `${what} is ${big}, out of range`);
  return Number(big);
}

export function viewOf(bytes) {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

export function isEqual(a, b) {
  return a.length === b.length && a.every((byte, at) => byte === b[at]);
}

export function nameOf(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new ReadError("format", "a name is not UTF-8");
  }
}
