// Frame stores: clips of frames by id. docs/formats/frames.md.
//
//   const store = await openStore(await HttpSource.open(url));   // or BlobSource.open(file)
//   store.metadata          the user's object, the codec and the preset
//   store.notices           set of texts: what could not be compared or read
//   store.clips             list of clips; store.clip(id) returns one
//   clip.codec              "lossless", "image" or "raw"
//   clip.nframes, clip.shape, clip.frameShape, clip.dtype {text, kind, order, itemsize}, clip.meta
//   await store.readBytes(id, start, stop, step)   list of frames as stored by numpy, in bytes;
//                           or of {type: "image/jpeg", bytes} for the browser to decode
//
// Opening takes two requests as long as the index is in the last 256 KiB. A read joins neighbouring
// frames into one request. All functions throw a ReadError for damaged or unsupported files.

import { arrayHeader, decodeArrayChunk } from "./arraychunk.js";
import { bloscHeader, decodeBlosc } from "./blosc.js";
import { isEqual, need, ReadError } from "./errors.js";
import { ARRAY, isPacked, referenceOf, TIME, undoFilters } from "./framefilters.js";
import { readIndex } from "./frameindex.js";
import { FRAMES, readHeader, readMetadata } from "./header.js";
import { xxh3Digest } from "./xxh3.js";

const MAX_SELECTION = 2 ** 28, MAX_FRAMES = 2 ** 20;
const IMAGES = ["image/jpeg", "image/png"];

export async function openStore(source) {
  const store = new FrameStore();
  const header = readHeader(await source.read(0, Math.min(64, source.size)));
  need(header.features & FRAMES, "format", "not a frame store");
  need(header.features === FRAMES && header.options === 2 && header.checksum === 9, "format", "the header is not that of a frame store");
  Object.assign(store, { source, header, metadata: null, notices: new Set() });
  try {
    store.metadata = (await readMetadata(source, header, store.notices)).metadata;
  } catch (error) {
    if (!(error instanceof ReadError)) throw error;
    store.notices.add(`The attributes of the store cannot be read: ${error.message}`);
  }
  Object.assign(store, await readIndex(source));
  store.byId = new Map(store.clips.map((clip) => [clip.id, clip]));
  return store;
}

class FrameStore {
  clip(id) {
    const clip = this.byId.get(id);
    need(clip, "format", `there is no clip ${id}`);
    return clip;
  }

  async readBytes(id, start = 0, stop = this.clip(id).nframes, step = 1) {
    const clip = this.clip(id), wanted = [];
    need([start, stop, step].every(Number.isSafeInteger) && start >= 0 && start <= stop && stop <= clip.nframes && step >= 1,
      "format", `frames ${start} to ${stop} by ${step} of a clip of ${clip.nframes}`);
    const count = Math.ceil((stop - start) / step);
    const isImage = clip.codec === "image";
    need(clip.codec !== "video", "unsupported", "this page does not decode video; blpk view, with a server, shows it");
    need(count <= MAX_FRAMES && (isImage || count * clip.frameNbytes <= MAX_SELECTION), "unsupported",
      `${count} frames at once are too many`);
    for (let k = start; k < stop; k += step) wanted.push(k);
    const stored = await this.chunksOf(clip, wanted);
    if (isImage) return wanted.map((k) => ({ type: IMAGES[clip.filters[k]], bytes: stored.get(k) }));
    const decoded = new Map(), frames = [];
    for (const k of wanted) {
      const chunk = Math.floor(k / clip.group), at = (k - chunk * clip.group) * clip.frameNbytes;
      const bytes = await this.decode(clip, chunk, stored, decoded);
      frames.push(bytes.slice(at, at + clip.frameNbytes));
    }
    return frames;
  }

  // Returns the stored bytes of the chunks that these frames need, after comparing their digests.
  async chunksOf(clip, wanted) {
    const { filters, group, sizes, starts } = clip, numbers = new Set();
    for (const k of wanted) {
      let chunk = Math.floor(k / group);
      numbers.add(chunk);
      while (clip.codec === "lossless" && filters[chunk] & TIME && (!(filters[chunk] & ARRAY) || isPacked(filters[chunk]))) {
        chunk = referenceOf(chunk, filters[chunk], group);
        numbers.add(chunk);
      }
    }
    const list = [...numbers], found = new Map();
    const places = list.flatMap((chunk) => [[starts[chunk], sizes[chunk]], [clip.digestAt(chunk), 8]]);
    const stored = await this.source.readAll(places);
    list.forEach((chunk, i) => {
      const data = stored[2 * i];
      need(isEqual(xxh3Digest(data), stored[2 * i + 1]), "checksum", `chunk ${chunk} of clip ${clip.id} is damaged`);
      found.set(chunk, data);
      if (clip.codec === "raw") return;
      if (clip.codec === "image") return need(filters[chunk] <= 1, "format", `image kind ${filters[chunk]}`);
      if (!clip.frameNbytes) return;
      // Headers are compared before anything is decoded: they bound the memory for the frames.
      const { nbytes, cbytes, flags } = (filters[chunk] === ARRAY ? arrayHeader : bloscHeader)(data);
      const expected = this.countOf(clip, chunk) * clip.frameNbytes;
      const fits = isPacked(filters[chunk]) ? 32 * nbytes >= expected && flags & 2 : nbytes === expected;
      need(fits && cbytes === data.length, "codec", `chunk ${chunk} of clip ${clip.id} has another size`);
    });
    return found;
  }

  countOf(clip, chunk) {
    return Math.min(clip.group, clip.nframes - chunk * clip.group);
  }

  async decode(clip, chunk, stored, decoded) {
    if (decoded.has(chunk)) return decoded.get(chunk);
    const filters = clip.filters[chunk], data = stored.get(chunk);
    if (clip.codec === "raw") return data;
    let bytes = new Uint8Array(0);
    if (clip.frameNbytes && filters === ARRAY) bytes = await decodeArrayChunk(data);
    else if (clip.frameNbytes) {
      bytes = await decodeBlosc(data);
      if (filters) {
        const shape = clip.group > 1 ? [this.countOf(clip, chunk), ...clip.frameShape] : clip.frameShape;
        const other = filters & TIME ? await this.decode(clip, referenceOf(chunk, filters, clip.group), stored, decoded) : null;
        bytes = undoFilters(bytes, filters, shape, clip.dtype.itemsize, other);
      }
    }
    decoded.set(chunk, bytes);
    return bytes;
  }
}
