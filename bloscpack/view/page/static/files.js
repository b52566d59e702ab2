// What a file is, and its verification, chunk by chunk.

import { BlpArray } from "../format/array.js";
import { NAMES } from "../format/checksum.js";
import { Container } from "../format/container.js";
import { ReadError } from "../format/errors.js";
import { openStore } from "../format/framestore.js";
import { FRAMES, readHeader } from "../format/header.js";
import { BlobSource, HttpSource } from "../format/source.js";

const EXPLAINED = "The host must allow this page to read it: see Access-Control-Allow-Origin in the guide to static pages";

// Returns what the views need: {kind, kindName, source, about, and the array or store}.
export async function openFile(place) {
  const source = typeof place === "string" ? await openUrl(place) : await BlobSource.open(place);
  const header = readHeader(await source.read(0, Math.min(64, source.size)));
  if (header.features & FRAMES) {
    const store = await openStore(source);
    return { kind: "frames", kindName: "a frame store", source, store, about: {
      content: `${store.clips.length} clips`, header: { version: header.version, checksum: NAMES[header.checksum] },
      metadata: store.metadata, notices: [...store.notices] } };
  }
  const file = await Container.open(source), array = BlpArray.of(file);
  const about = { nchunks: file.nchunks, trailer: file.trailer, metadata: file.metadata,
    header: { version: file.header.version, checksum: NAMES[file.header.checksum] } };
  if (!array) return { kind: "bytes", kindName: "bytes", source, file, about };
  return { kind: "array", kindName: "an array", source, file, array,
    about: { ...about, nbytes: array.nbytes, content: `${array.dtype.text} (${array.shape.join(", ")})` } };
}

async function openUrl(url) {
  try {
    return await HttpSource.open(url);
  } catch (error) {
    if (error instanceof ReadError && /cannot be fetched|does not expose/.test(error.message)) {
      throw new ReadError(error.kind, `${error.message}. ${EXPLAINED}.`);
    }
    throw error;
  }
}

export function chunkNbytes({ file, array }, number) {
  if (array?.chunks) return array.gridNbytes(number);
  const { header } = file;
  return file.sizes?.[number] ?? (number === file.nchunks - 1 ? header.lastChunk : header.chunkSize);
}

// Yields {done, total}, and last {report}.
export async function* verify(opened) {
  const damage = [], report = { damage, nchunks: 0, nbytes: opened.source.size };
  const steps = opened.store ? [...framesOf(opened.store)] : [...chunksOf(opened)];
  for (const [done, step] of steps.entries()) {
    yield { done, total: steps.length };
    report.nchunks += step.count;
    try {
      await step.read();
    } catch (error) {
      if (!(error instanceof ReadError)) throw error;
      damage.push({ index: step.index, what: error.message });
    }
  }
  const notices = [...(opened.store ?? opened.file).notices];
  yield { report: { ...report, ok: !damage.length, trailer: opened.file?.trailer, notices } };
}

function* chunksOf(opened) {
  for (let index = 0; index < opened.file.nchunks; index++) {
    yield { index, count: 1, read: () => opened.file.chunks([index], (k) => chunkNbytes(opened, k)) };
  }
}

function* framesOf(store) {
  for (const clip of store.clips) {
    for (let start = 0; start < clip.nframes; start += clip.group) {
      const stop = Math.min(clip.nframes, start + clip.group);
      yield { count: 1, read: () => store.readBytes(clip.id, start, stop, 1) };
    }
  }
}
