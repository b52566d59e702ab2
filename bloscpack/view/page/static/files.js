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
  const header = readHeader(await source.read(0, Math.min(64, source.size)));
  if (header.features & FRAMES) {
    const store = await openStore(source);
    return { kind: "frames", kindName: "a frame store", source, store, about: {
      content: `${store.clips.length} clips`, header: { version: header.version, checksum: NAMES[header.checksum] },
      metadata: store.metadata, notices: [...store.notices] } };
  }
  if (header.features & ARCHIVE) {
    const archive = await Archive.open(source), { metadata, notices } = archive;
    return { kind: "archive", kindName: "an archive", source, archive, opened: new Map(), about: {
      content: `${archive.members.length} arrays`, header: { version: header.version, checksum: NAMES[header.checksum] },
      metadata, notices: [...notices] } };
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

// Returns {source, file, array} of a file or of a member of an archive, whose last ones stay open.
export async function arrayOf(opened, number = 0) {
  if (!opened.archive) return opened;
  const members = opened.opened;
  if (!members.has(number)) {
    const source = await opened.archive.openMember(number), file = await Container.open(source), array = BlpArray.of(file);
    need(array, "format", "this member of the archive is not an array");
    members.set(number, { source, file, array });
    if (members.size > MAX_MEMBERS) members.delete(members.keys().next().value);
  }
  return members.get(number);
}

export function chunkNbytes({ file, array }, number) {
  if (array?.chunks) return array.gridNbytes(number);
  const { header } = file;
  return file.sizes?.[number] ?? (number === file.nchunks - 1 ? header.lastChunk : header.chunkSize);
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
        report.nchunks += step.count;
        await step.read().catch((error) => note(error, part.name, step.index));
      }
      if (target.file) for (const notice of target.file.notices) notices.add(notice);
    } catch (error) {
      note(error, part.name);
    }
  }
  yield { report: { ...report, ok: !damage.length, trailer: opened.file?.trailer, notices: [...notices] } };
}

function* chunksOf(target) {
  for (let index = 0; index < target.file.nchunks; index++) {
    yield { index, count: 1, read: () => target.file.chunks([index], (k) => chunkNbytes(target, k)) };
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
