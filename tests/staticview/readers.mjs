// Reads each file of a list (JSON lines on the standard input) and prints what the readers find.

import { createHash } from "node:crypto";
import { openAsBlob } from "node:fs";
import { createInterface } from "node:readline";
import { BlpArray } from "../../bloscpack/view/page/format/array.js";
import { Container } from "../../bloscpack/view/page/format/container.js";
import { ReadError } from "../../bloscpack/view/page/format/errors.js";
import { BlobSource, HttpSource } from "../../bloscpack/view/page/format/source.js";

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

async function content(file) {
  const { header } = file, hash = createHash("sha256");
  for (let k = 0; k < file.nchunks; k++) {
    const nbytes = file.sizes?.[k] ?? (k === file.nchunks - 1 ? header.lastChunk : header.chunkSize);
    hash.update((await file.chunks([k], () => nbytes)).get(k));
  }
  return hash.digest("hex");
}

async function describe(task) {
  const source = task.url ? await HttpSource.open(task.url) : await BlobSource.open(await openAsBlob(task.path));
  const file = await Container.open(source), array = BlpArray.of(file), opened = source.nrequests;
  if (!array) return { kind: "bytes", content: await content(file), notices: [...file.notices] };
  const items = sha256(await array.read());
  const found = { kind: "array", dtype: array.dtype.text, shape: array.shape, trailer: file.trailer, sha256: items };
  if (task.selection) found.part = sha256(await array.read(task.selection));
  return { ...found, opened, nrequests: source.nrequests, notices: [...file.notices] };
}

for await (const line of createInterface({ input: process.stdin })) {
  let found;
  try {
    found = await describe(JSON.parse(line));
  } catch (error) {
    found = error instanceof ReadError ? { error: error.kind, text: error.message } : { bug: error.stack };
  }
  console.log(JSON.stringify(found));
}
