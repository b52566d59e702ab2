// Reads each frame store of a list (JSON lines on the standard input) and prints what is found.

import { createHash } from "node:crypto";
import { openAsBlob } from "node:fs";
import { createInterface } from "node:readline";
import { ReadError } from "../../bloscpack/view/page/format/errors.js";
import { openStore } from "../../bloscpack/view/page/format/framestore.js";
import { BlobSource, HttpSource } from "../../bloscpack/view/page/format/source.js";

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
const failed = (error) => (error instanceof ReadError ? { error: error.kind, text: error.message } : { bug: error.stack });

// Each frame alone, and all at once if that is possible.
async function framesOf(store, clip) {
  const frames = [];
  for (let k = 0; k < clip.nframes; k++) {
    try {
      const [frame] = await store.readBytes(clip.id, k, k + 1, 1);
      frames.push(sha256(frame.bytes ?? frame));
    } catch (error) {
      frames.push(failed(error));
    }
  }
  return frames;
}

async function describe(task) {
  const source = task.url ? await HttpSource.open(task.url) : await BlobSource.open(await openAsBlob(task.path));
  const store = await openStore(source), opened = source.nrequests;
  if (task.read) {
    const frames = await store.readBytes(...task.read), found = frames.map((each) => sha256(each.bytes ?? each));
    return { opened, nrequests: source.nrequests, type: frames[0]?.type ?? frames[0]?.constructor.name, frames: found };
  }
  const clips = [];
  for (const clip of store.clips) {
    const { id, codec, dtype, frameShape, varies, group, offset } = clip;
    const chunks = clip.starts.map((at, k) => ({ offset: at, cbytes: clip.sizes[k], filters: clip.filters[k] }));
    const form = { dtype: dtype.text, frame_shape: frameShape, varies, group, offset, chunks };
    clips.push({ id, meta: clip.meta, codec, ...form, frames: await framesOf(store, clip) });
  }
  const segments = store.segments.map((each) => [each.start, each.end, each.previous, each.first, each.nclips, each.nchunks]);
  return { metadata: store.metadata, segments, clips, notices: [...store.notices] };
}

for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await describe(JSON.parse(line)).catch(failed)));
}
