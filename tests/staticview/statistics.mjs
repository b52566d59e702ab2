// Prints a histogram of the first chunk of each array of a list (JSON lines on the standard input), in the range of all.

import { openAsBlob } from "node:fs";
import { createInterface } from "node:readline";
import { BlpArray } from "../../bloscpack/view/page/format/array.js";
import { Container } from "../../bloscpack/view/page/format/container.js";
import { BlobSource } from "../../bloscpack/view/page/format/source.js";
import { histogram } from "../../bloscpack/view/page/static/numbers.js";
import { knownRange, Values } from "../../bloscpack/view/page/static/values.js";

async function describe({ path }) {
  const values = new Values(BlpArray.of(await Container.open(await BlobSource.open(await openAsBlob(path)))), "", "real");
  const { data } = await values.read([[0, 7, 1], [0, values.shape[1], 1]]);
  return histogram(data, await knownRange(values));
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await describe(JSON.parse(line)).catch((error) => ({ bug: error.stack }))));
}
