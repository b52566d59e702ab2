// Views of frame stores: the answers that bloscpack/view/clips.py gives.

import { imagePixels } from "../pixels.js";
import { numbersOf } from "../format/dtype.js";
import { need } from "../format/errors.js";
import { limits, toBytes } from "./numbers.js";

const GROUP_NBYTES = 2 << 20, MAX_GROUP = 32, NSAMPLED = 8, MAX_PIXELS = 1 << 21, THUMBNAIL_WIDTH = 160;
const RATES = ["fps", "frame_rate", "framerate"];

function clipOf(store, query) {
  const clip = store.clips[Number(query.clip ?? 0)];
  need(clip, "format", `there is no clip number ${query.clip}`);
  return clip;
}

function row(clip, ordinal) {
  return { ordinal, id: clip.id, nframes: clip.nframes, shape: clip.shape, dtype: clip.dtype.text };
}

function list({ store }, { search = "", start = 0, count = 60 }) {
  const wanted = String(search ?? "").toLowerCase();
  const found = store.clips.map(row).filter((each) => each.id.toLowerCase().includes(wanted));
  return { total: found.length, start, clips: found.slice(start, start + count) };
}

function describe({ store }, query) {
  const clip = clipOf(store, query), found = row(clip, store.clips.indexOf(clip));
  try {
    found.meta = clip.meta;
  } catch (error) {
    Object.assign(found, { meta: {}, error: error.message });
  }
  const fps = RATES.map((name) => found.meta?.[name]).find((rate) => typeof rate === "number" && rate >= 0.01 && rate <= 1000);
  return { ...found, fps: fps ?? null };
}

async function thumbnail(opened, query) {
  const clip = clipOf(opened.store, query);
  need(clip.nframes, "format", "the clip has no frames");
  const at = clip.nframes >> 1, painter = new Painter(opened, clip, false);
  const [frame] = await opened.store.readBytes(clip.id, at, at + 1, 1);
  const picture = await painter.pixels(frame);
  const step = Math.max(1, Math.ceil(picture.width / THUMBNAIL_WIDTH)), small = reduced(picture, step);
  return { arrays: [{ shape: [small.height, small.width, small.channels], data: small.data }] };
}

// Yields frames {index, channels, width, height, data}, or {index, error}.
export async function* frames(opened, query) {
  const { store } = opened, clip = clipOf(store, query);
  const stop = Math.min(clip.nframes, query.stop ?? clip.nframes), painter = new Painter(opened, clip, query.values === "raw");
  const together = Math.max(1, Math.min(MAX_GROUP, Math.floor(GROUP_NBYTES / Math.max(1, clip.frameNbytes))));
  for (let at = query.start ?? 0; at < stop; at += together) {
    const read = await readGroup(store, clip, at, Math.min(stop, at + together));
    for (const [k, frame] of read.entries()) {
      try {
        if (frame instanceof Error) throw frame;
        yield { index: at + k, ...await painter.pixels(frame) };
      } catch (error) {
        yield { index: at + k, error: error.message };
      }
    }
  }
}

// A damaged frame does not lose those that are read together with it.
async function readGroup(store, clip, start, stop) {
  try {
    return await store.readBytes(clip.id, start, stop, 1);
  } catch {
    const found = [];
    for (let k = start; k < stop; k++) found.push(await store.readBytes(clip.id, k, k + 1, 1).then(([frame]) => frame, (error) => error));
    return found;
  }
}

class Painter {
  constructor(opened, clip, isRaw) {
    Object.assign(this, { opened, clip, isRaw: isRaw && "iub".includes(clip.dtype.kind) });
  }

  async pixels(frame) {
    const { clip } = this;
    if (clip.codec === "image") return bounded(await imagePixels(frame));
    let shape = clip.frameShape;
    need(shape.length <= 3 && !shape.includes(0), "unsupported", `frames of shape ${shape.join(" x ")} cannot be shown`);
    if (shape.length < 2) shape = [1, shape[0] ?? 1];
    const [height, width, nplanes = 1] = shape, channels = nplanes < 3 ? 1 : nplanes === 4 ? 4 : 3;
    const data = await this.bytes(frame), count = height * width;
    let kept = data;
    if (nplanes !== channels) {
      kept = new Uint8Array(count * channels);
      for (let k = 0; k < count; k++) for (let c = 0; c < channels; c++) kept[k * channels + c] = data[k * nplanes + c];
    }
    return bounded({ channels, width, height, data: kept });
  }

  async bytes(frame) {
    const { dtype } = this.clip;
    if (this.isRaw) return Uint8Array.from(numbersOf(frame, dtype), (value) => value & 255);
    if (dtype.kind === "b") return frame.map((value) => 255 * value);
    if (dtype.kind === "u" && dtype.itemsize === 1) return frame;
    const numbers = numbersOf(frame, dtype);
    need(numbers, "unsupported", `items of ${dtype.text} cannot be shown`);
    return new Uint8Array(toBytes(numbers, ...await this.limits()).buffer);
  }

  // The range of some frames of the clip.
  async limits() {
    const { store } = this.opened, { clip } = this, ranges = (this.opened.ranges ??= new Map());
    if (!ranges.has(clip.id)) {
      const found = [], count = Math.min(clip.nframes, NSAMPLED);
      for (let k = 0; k < count; k++) {
        const at = Math.floor((k * clip.nframes) / count);
        const read = await store.readBytes(clip.id, at, at + 1, 1).catch(() => []);
        for (const frame of read) found.push(...(limits(numbersOf(frame, clip.dtype)) ?? []));
      }
      ranges.set(clip.id, limits(found) ?? [0, 1]);
    }
    return ranges.get(clip.id);
  }
}

// At most MAX_PIXELS pixels of a picture.
function bounded(picture) {
  return reduced(picture, Math.ceil(Math.sqrt((picture.width * picture.height) / MAX_PIXELS)));
}

// Every `step`-th row and column.
function reduced(picture, step) {
  const { channels, data } = picture;
  if (step <= 1) return picture;
  const width = Math.ceil(picture.width / step), height = Math.ceil(picture.height / step);
  const out = new Uint8Array(width * height * channels);
  for (let row = 0; row < height; row++) {
    for (let col = 0; col < width; col++) {
      const from = (row * step * picture.width + col * step) * channels;
      out.set(data.subarray(from, from + channels), (row * width + col) * channels);
    }
  }
  return { channels, width, height, data: out };
}

export const VIEWS = { clips: list, clip: describe, thumbnail };
