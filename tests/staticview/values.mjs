// Prints fields, numbers and texts of each array of a list (JSON lines on the standard input).

import { openAsBlob } from "node:fs";
import { createInterface } from "node:readline";
import { BlpArray } from "../../bloscpack/view/page/format/array.js";
import { Container } from "../../bloscpack/view/page/format/container.js";
import { ReadError } from "../../bloscpack/view/page/format/errors.js";
import { BlobSource } from "../../bloscpack/view/page/format/source.js";
import { textOf } from "../../bloscpack/view/page/static/text.js";
import { fieldNames, hasNumbers, Values } from "../../bloscpack/view/page/static/values.js";

const failed = (error) => (error instanceof ReadError ? { error: error.kind, text: error.message } : { bug: error.stack });

async function describe({ path, parts = ["real"] }) {
  const array = BlpArray.of(await Container.open(await BlobSource.open(await openAsBlob(path))));
  const { dtype, shape } = array, bytes = await array.read(), found = { fields: fieldNames(dtype), numbers: {}, rounded: {} };
  for (const field of hasNumbers(dtype) ? [""] : found.fields) {
    for (const part of parts) {
      const values = new Values(array, field, part), all = values.shape.map((length) => [0, length, 1]);
      const read = await values.read(all);
      found.numbers[field + part] = Array.from(read.data, String);
      found.rounded[field + part] = read.isRounded;
    }
  }
  const count = shape.reduce((product, each) => product * each, 1), step = dtype.itemsize;
  found.texts = Array.from({ length: count }, (_, k) => textOf(bytes.subarray(k * step, (k + 1) * step), dtype));
  return found;
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await describe(JSON.parse(line)).catch(failed)));
}
