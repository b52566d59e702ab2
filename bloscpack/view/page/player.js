// Frames of clips as pixels, and a player that shows several clips at the same time.

import { getBlocks, ViewError } from "./api.js";
import { table } from "./colors.js";
import { button, el, labelled, Latest, select } from "./dom.js";

const HEADER = 20;
// Frames that are decoded ahead of the picture.
const AHEAD = 45;
// Wider pictures are about as wide as the screen has room for.
const SHARP_WIDTH = 400;

// Yields frames `{ index, channels, width, height, data }`, or `{ index, error }`.
export async function* streamFrames(file, query, signal) {
  let parts = [];
  let length = 0;
  const take = (count) => {
    const taken = new Uint8Array(count);
    let at = 0;
    while (at < count) {
      const part = parts[0];
      const used = Math.min(part.length, count - at);
      taken.set(part.subarray(0, used), at);
      at += used;
      if (used === part.length) parts.shift();
      else parts[0] = part.subarray(used);
    }
    length -= count;
    return taken;
  };
  let head = null;
  for await (const block of getBlocks(`${file}/frames`, query, signal)) {
    parts.push(block);
    length += block.length;
    for (;;) {
      if (!head) {
        if (length < HEADER) break;
        head = new Uint32Array(take(HEADER).buffer);
      }
      const [index, channels, width, height, nbytes] = head;
      if (length < nbytes) break;
      const data = take(nbytes);
      head = null;
      yield channels ? { index, channels, width, height, data }
        : { index, error: new TextDecoder().decode(data) };
    }
  }
}

// Writes a frame into RGBA pixels.
export function toPixels({ channels, data }, pixels) {
  if (channels === 4) {
    pixels.set(data);
    return;
  }
  const count = pixels.length / 4;
  for (let k = 0; k < count; k++) {
    const at = channels * k;
    pixels[4 * k] = data[at];
    pixels[4 * k + 1] = data[channels === 3 ? at + 1 : at];
    pixels[4 * k + 2] = data[channels === 3 ? at + 2 : at];
    pixels[4 * k + 3] = 255;
  }
}

export function drawPixels(canvas, width, height, write) {
  canvas.width = width;
  canvas.height = height;
  // Pixels of small pictures stay visible; large ones are scaled smoothly.
  canvas.classList.toggle("large", width > SHARP_WIDTH);
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  write(image.data);
  context.putImageData(image, 0, 0);
}

const LABELS = [[230, 25, 75], [60, 180, 75], [255, 225, 25], [67, 99, 216], [245, 130, 49],
  [145, 30, 180], [70, 240, 240], [240, 50, 230], [188, 246, 12], [250, 190, 190]];

// Blends an overlay over RGBA pixels: labels in colours with 0 transparent, or values in colours.
function blend(pixels, width, height, overlay, mode, opacity) {
  const colors = table("turbo");
  for (let y = 0; y < height; y++) {
    const row = Math.floor((y * overlay.height) / height) * overlay.width;
    for (let x = 0; x < width; x++) {
      const value = overlay.data[(row + Math.floor((x * overlay.width) / width)) * overlay.channels];
      if (mode === "labels" && value === 0) continue;
      const color = mode === "labels" ? LABELS[(value - 1) % LABELS.length]
        : colors.subarray(3 * value, 3 * value + 3);
      const at = 4 * (y * width + x);
      for (let c = 0; c < 3; c++) {
        pixels[at + c] = Math.round(pixels[at + c] * (1 - opacity) + color[c] * opacity);
      }
    }
  }
}

// Frames of one clip, from a position on, in order.
class Feed {
  constructor(file, clip, values) {
    Object.assign(this, { file, clip, values, queue: [], controller: null, ended: true });
  }

  start(from) {
    this.stop();
    this.queue = [];
    this.ended = false;
    const controller = (this.controller = new AbortController());
    this.fill(from, controller).catch((error) => {
      if (!controller.signal.aborted) this.queue.push({ index: from, error: error.message });
      this.ended = true;
    });
  }

  async fill(from, controller) {
    const query = { clip: this.clip.ordinal, start: from, values: this.values };
    for await (const frame of streamFrames(this.file, query, controller.signal)) {
      if (controller.signal.aborted) return;
      this.queue.push(frame);
      while (this.queue.length >= AHEAD && !controller.signal.aborted) {
        await new Promise((resolve) => (this.wake = resolve));
      }
    }
    this.ended = true;
  }

  // Returns the last frame up to `index`, and forgets those before it.
  take(index) {
    let found = null;
    while (this.queue.length && this.queue[0].index <= index) found = this.queue.shift();
    this.wake?.();
    return found;
  }

  stop() {
    this.controller?.abort();
    this.wake?.();
  }

  // Returns one frame.
  async get(index, signal) {
    const query = { clip: this.clip.ordinal, start: index, stop: index + 1, values: this.values };
    for await (const frame of streamFrames(this.file, query, signal)) return frame;
    throw new ViewError("the server sent no frame");
  }
}

// A picture of one clip, with an overlay.
class Screen {
  constructor(file, clip, others, changed) {
    this.file = file;
    this.clip = clip;
    this.feed = new Feed(file, clip);
    this.overlay = null;
    this.mode = "labels";
    this.opacity = 0.5;
    this.latest = new Latest();
    this.canvas = el("canvas", { className: "frame", role: "img", ariaLabel: `Clip ${clip.id}` });
    this.text = el("p", { className: "quiet" });
    const opacity = el("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0.5 });
    opacity.addEventListener("input", () => { this.opacity = Number(opacity.value); changed(); });
    const choices = [["", "none"], ...others.map((each) => [String(each.ordinal), each.id])];
    const asControl = labelled("as", select([["labels", "labels"], ["values", "values"]],
      (value) => { this.mode = value; setOverlay(); }));
    const opacityControl = labelled("Opacity", opacity);
    asControl.hidden = opacityControl.hidden = true;
    const setOverlay = () => {
      this.overlay?.stop();
      const other = others.find((each) => String(each.ordinal) === this.chosen);
      this.overlay = other ? new Feed(file, other, this.mode === "labels" ? "raw" : "scaled") : null;
      asControl.hidden = opacityControl.hidden = !other;
      this.overFrame = null;
      changed();
    };
    this.element = el("div", {}, el("h4", {}, clip.id), this.canvas, this.text);
    if (others.length) {
      this.element.append(el("div", { className: "controls" },
        labelled("Overlay", select(choices, (value) => { this.chosen = value; setOverlay(); })),
        asControl, opacityControl));
    }
  }

  get feeds() {
    return this.overlay ? [this.feed, this.overlay] : [this.feed];
  }

  clamp(index) {
    return Math.max(0, Math.min(index, this.clip.nframes - 1));
  }

  async show(index) {
    await this.latest.run(async (signal) => {
      const wanted = this.clamp(index);
      const [frame, over] = await Promise.all([this.feed.get(wanted, signal),
        this.overlay ? this.overlay.get(Math.min(wanted, this.overlay.clip.nframes - 1), signal) : null]);
      this.overFrame = over;
      this.draw(frame);
    }, (error) => this.fail(error.message));
  }

  // Draws the frame of a position while playing; returns whether the position could be shown.
  play(index) {
    const frame = this.feed.take(this.clamp(index));
    const over = this.overlay?.take(this.clamp(index));
    if (over && !over.error) this.overFrame = over;
    if (frame) this.draw(frame);
    return frame !== null || this.feed.ended;
  }

  draw(frame) {
    this.last = frame;
    if (frame.error) {
      this.fail(`Frame ${frame.index}: ${frame.error}`);
      return;
    }
    drawPixels(this.canvas, frame.width, frame.height, (pixels) => {
      toPixels(frame, pixels);
      if (this.overlay && this.overFrame && !this.overFrame.error) {
        blend(pixels, frame.width, frame.height, this.overFrame, this.mode, this.opacity);
      }
    });
    this.text.classList.remove("problem");
    this.text.textContent = `Frame ${frame.index} of ${this.clip.nframes}`;
    this.canvas.dataset.drawn = frame.index;
    this.canvas.dataset.count = Number(this.canvas.dataset.count ?? 0) + 1;
  }

  fail(text) {
    this.text.textContent = text;
    this.text.classList.add("problem");
  }

  stop() {
    for (const feed of this.feeds) feed.stop();
    this.latest.stop();
  }
}

// Shows clips side by side, with one transport for all of them.
export class Player {
  constructor(body, file, clips, others) {
    this.screens = clips.map((clip) => new Screen(file, clip, others, () => this.seek(this.index)));
    this.nframes = Math.max(...clips.map((clip) => clip.nframes), 1);
    this.fps = clips.find((clip) => clip.fps)?.fps ?? 30;
    this.speed = 1;
    this.index = 0;
    this.isPlaying = false;
    this.isLooping = true;
    this.playButton = button("Play", () => this.toggle());
    this.slider = el("input", { type: "range", min: 0, max: this.nframes - 1, step: 1, value: 0 });
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    const loop = el("input", { type: "checkbox", checked: true });
    loop.addEventListener("change", () => (this.isLooping = loop.checked));
    const speeds = [["0.25", "¼"], ["0.5", "½"], ["1", "1"], ["2", "2"], ["4", "4"]];
    const frameControl = labelled("Frame", this.slider);
    frameControl.classList.add("wide");
    this.element = el("div", { className: "player", tabIndex: 0, role: "group", ariaLabel: "Player" },
      el("div", { className: "players" }, ...this.screens.map((screen) => screen.element)),
      el("div", { className: "controls" }, this.playButton,
        button("‹", () => this.seek(this.index - 1), { ariaLabel: "One frame back" }),
        button("›", () => this.seek(this.index + 1), { ariaLabel: "One frame on" }),
        frameControl,
        labelled("Speed", select(speeds, (value) => { this.speed = Number(value); this.restart(); }, "1")),
        labelled("Loop", loop)),
      el("p", { className: "quiet" }, "Space plays and stops; the arrow keys step, with Shift by ten; Home and End."));
    this.element.addEventListener("keydown", (event) => this.key(event));
    body.append(this.element);
    this.seek(0);
  }

  key(event) {
    if (["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
    const by = event.shiftKey ? 10 : 1;
    const places = { ArrowLeft: this.index - by, ArrowRight: this.index + by, Home: 0, End: this.nframes - 1 };
    if (event.key === " ") this.toggle();
    else if (event.key in places) this.seek(places[event.key]);
    else return;
    event.preventDefault();
  }

  seek(index) {
    const wasPlaying = this.isPlaying;
    this.pause();
    this.place(Math.max(0, Math.min(index, this.nframes - 1)));
    if (wasPlaying) this.start();
    else for (const screen of this.screens) screen.show(this.index);
  }

  place(index) {
    this.index = index;
    this.slider.value = index;
    this.slider.setAttribute("aria-valuetext", `frame ${index} of ${this.nframes}`);
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.start();
  }

  start() {
    if (this.index >= this.nframes - 1) this.place(0);
    this.isPlaying = true;
    this.playButton.textContent = "Stop";
    for (const screen of this.screens) for (const feed of screen.feeds) feed.start(this.index);
    this.origin = null;
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  restart() {
    if (this.isPlaying) this.seek(this.index);
  }

  tick(now) {
    if (!this.isPlaying) return;
    this.frame = requestAnimationFrame((later) => this.tick(later));
    if (this.origin === null) {
      // Time starts with the first frame of every clip.
      if (!this.screens.every((screen) => screen.feed.queue.length || screen.feed.ended)) return;
      this.origin = { now, index: this.index };
    }
    const wanted = this.origin.index + Math.floor(((now - this.origin.now) / 1000) * this.fps * this.speed);
    const index = Math.min(wanted, this.nframes - 1);
    const ready = this.screens.map((screen) => screen.play(index));
    if (ready.some(Boolean)) this.place(index);
    if (wanted < this.nframes) return;
    const isDone = this.screens.every((screen) => screen.feed.ended && !screen.feed.queue.length);
    if (!isDone) return;
    this.pause();
    if (this.isLooping) {
      this.place(0);
      this.start();
    }
  }

  pause() {
    this.isPlaying = false;
    this.playButton.textContent = "Play";
    cancelAnimationFrame(this.frame);
    for (const screen of this.screens) screen.stop();
  }

  close() {
    this.pause();
  }
}
