// Reads each archive of a list (JSON lines on the standard input) and prints what is found.

import { createHash } from "node:crypto";
import { openAsBlob } from "node:fs";
import { createInterface } from "node:readline";
import { Archive } from "../../bloscpack/view/page/format/archive.js";
import { BlpArray } from "../../bloscpack/view/page/format/array.js";
import { ReadError } from "../../bloscpack/view/page/format/errors.js";
import { BlobSource, HttpSource } from "../../bloscpack/view/page/format/source.js";

const failed = (error) => (error instanceof ReadError ? { error: error.kind, text: error.message } : { bug: error.stack });

async function openMember(archive, number) {
  const file = await archive.openMember(number), array = BlpArray.of(file);
  if (!array) throw new ReadError("format", "not an array");
  const { dtype, shape, isFortran, attrs } = array, opened = archive.source.nrequests;
  const sha256 = createHash("sha256").update(await array.read()).digest("hex");
  return { array: { dtype: dtype.text, shape, order: isFortran ? "F" : "C", attrs, sha256 }, opened };
}

async function describe(task) {
  const source = task.url ? await HttpSource.open(task.url) : await BlobSource.open(await openAsBlob(task.path));
  const archive = await Archive.open(source), opened = source.nrequests, members = [];
  for (const [number, { name, offset, nbytes, bundle, start }] of archive.members.entries()) {
    if (task.member !== undefined && task.member !== number) continue;
    const place = bundle ? { offset: bundle.offset, start } : { offset };
    members.push({ name, ...place, nbytes, ...await openMember(archive, number).catch(failed) });
  }
  return { attrs: archive.metadata?.attrs, members, opened, nrequests: source.nrequests, notices: [...archive.notices] };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await describe(JSON.parse(line)).catch(failed)));
}
