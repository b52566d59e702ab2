// What a file is, and its verification, chunk by chunk.

import { Archive } from "../format/archive.js";
import { BlpArray } from "../format/array.js";
import { NAMES } from "../format/checksum.js";
import { Container } from "../format/container.js";
import { need, ReadError } from "../format/errors.js";
import { openStore } from "../format/framestore.js";
import { ARCHIVE, FRAMES, readHeader } from "../format/header.js";
import { BlobSource, HttpSource } from "../format/source.js";

const MAX_MEMBERS = 4;
const EXPLAINED = "The host must allow this page to read it: see Access-Control-Allow-Origin in the guide to static pages";

// Returns what the views need: {kind, kindName, source, about, and the array, archive or store}.
export async function openFile(place) {
  const source = typeof place === "string" ? await openUrl(place) : await BlobSource.open(place);
  const { features, version, checksum } = readHeader(await source.read(0, Math.min(64, source.size)));
  const header = { version, checksum: NAMES[checksum] };
  if (features & FRAMES) {
    const store = await openStore(source), about = { header, content: `${store.clips.length} clips`, metadata: store.metadata };
    return { kind: "frames", kindName: "a frame store", source, store, about };
  }
  if (features & ARCHIVE) {
    const archive = await Archive.open(source), { members, metadata } = archive;
    header.checksum = NAMES[archive.header.checksum];
    const about = { header, content: `${members.length} arrays`, metadata };
    return { kind: "archive", kindName: "an archive", source, archive, opened: new Map(), about };
  }
  const file = await Container.open(source), array = BlpArray.of(file), { nchunks, trailer, metadata } = file;
  header.checksum = NAMES[file.header.checksum];  // of a log, each array has its own
  const about = { header, nchunks, trailer, metadata };
  if (!array) return { kind: "bytes", kindName: "bytes", source, file, about };
  Object.assign(about, { nbytes: array.nbytes, content: `${array.dtype.text} (${array.shape.join(", ")})` });
  return { kind: "array", kindName: "an array", source, file, array, about };
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

// Returns {source, file, array} of a file or of a member of an archive, whose last ones stay open.
export async function arrayOf(opened, number = 0) {
  if (!opened.archive) return opened;
  const members = opened.opened;
  if (!members.has(number)) {
    const file = await opened.archive.openMember(number), array = BlpArray.of(file);
    need(array, "format", "this member of the archive is not an array");
    members.set(number, { source: file.source, file, array });
    if (members.size > MAX_MEMBERS) members.delete(members.keys().next().value);
  }
  return members.get(number);
}

// Yields {done, total}, and last {report}.
export async function* verify(opened) {
  const damage = [], report = { damage, nchunks: 0, nbytes: opened.source.size };
  const notices = new Set((opened.store ?? opened.archive ?? opened.file).notices);
  const note = (error, member, index) => {
    if (!(error instanceof ReadError)) throw error;
    damage.push({ index, member, what: member === undefined ? error.message : `${member}: ${error.message}` });
  };
  const parts = opened.archive?.members.map(({ name }, number) => ({ name, number })) ?? [{}];
  for (const [place, part] of parts.entries()) {
    try {
      const target = opened.store ? opened : await arrayOf(opened, part.number);
      const steps = opened.store ? [...framesOf(opened.store)] : [...chunksOf(target)];
      for (const [done, step] of steps.entries()) {
        yield { done: place + done / steps.length, total: parts.length };
        report.nchunks++;
        await step.read().catch((error) => note(error, part.name, step.index));
      }
      if (target.file) for (const notice of target.file.notices) notices.add(notice);
    } catch (error) {
      note(error, part.name);
    }
  }
  yield { report: { ...report, ok: !damage.length, trailer: opened.file?.trailer, notices: [...notices] } };
}

function* chunksOf({ file, array }) {
  for (let index = 0; index < file.nchunks; index++) {
    yield { index, read: () => file.chunks([index], (k) => (array ?? file).chunkNbytes(k)) };
  }
}

function* framesOf(store) {
  for (const clip of store.clips) {
    for (let start = 0; start < clip.nframes; start += clip.group) {
      const stop = Math.min(clip.nframes, start + clip.group);
      yield { read: () => store.readBytes(clip.id, start, stop, 1) };
    }
  }
}
