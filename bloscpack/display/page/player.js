// A player that shows several clips at the same time.
//
// Its frames come from a function of where it is shown: `getFrames(query, signal)` yields frames
// `{ index, channels, width, height, data }`, or `{ index, error }`, from `query.start` to `query.stop`
// or the end of the clip of the ordinal `query.clip`.

import { button, el, labelled, Latest, select } from "./dom.js";
import { drawFrame } from "./pixels.js";

// Frames that are decoded ahead of the picture, and about how many bytes they may have.
const AHEAD = 45;
const AHEAD_NBYTES = 64 << 20;

// Frames of one clip, from a position on, in order.
class Feed {
  constructor(getFrames, clip, values) {
    Object.assign(this, { getFrames, clip, values, queue: [], controller: null, ended: true });
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
    for await (const frame of this.getFrames(query, controller.signal)) {
      if (controller.signal.aborted) return;
      this.queue.push(frame);
      const most = Math.min(AHEAD, Math.ceil(AHEAD_NBYTES / (frame.data?.length || 1)));
      while (this.queue.length >= most && !controller.signal.aborted) {
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
    for await (const frame of this.getFrames(query, signal)) return frame;
    throw new Error("there is no such frame");
  }
}

// A picture of one clip, with an overlay.
class Screen {
  constructor(getFrames, clip, others, changed) {
    this.clip = clip;
    this.feed = new Feed(getFrames, clip);
    this.overlay = null;
    this.mode = "labels";
    this.opacity = 0.5;
    this.latest = new Latest();
    this.canvas = el("canvas", { className: "frame", role: "img", ariaLabel: `Clip ${clip.id}` });
    this.text = el("p", { className: "quiet" });
    const setOpacity = () => { this.opacity = Number(opacity.value); changed(); };
    const opacity = el("input", { type: "range", min: 0, max: 1, step: 0.05, value: 0.5, oninput: setOpacity });
    const choices = [["", "none"], ...others.map((each) => [String(each.ordinal), each.id])];
    const asControl = labelled("as", select([["labels", "labels"], ["values", "values"]],
      (value) => { this.mode = value; setOverlay(); }));
    const opacityControl = labelled("Opacity", opacity);
    asControl.hidden = opacityControl.hidden = true;
    const setOverlay = () => {
      this.overlay?.stop();
      const other = others.find((each) => String(each.ordinal) === this.chosen);
      this.overlay = other ? new Feed(getFrames, other, this.mode === "labels" ? "raw" : "scaled") : null;
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
    const hasOverlay = this.overlay && this.overFrame && !this.overFrame.error;
    drawFrame(this.canvas, frame, hasOverlay ? { frame: this.overFrame, mode: this.mode, opacity: this.opacity } : null);
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
  constructor(body, getFrames, clips, others = []) {
    this.screens = clips.map((clip) => new Screen(getFrames, clip, others, () => this.seek(this.index)));
    this.nframes = Math.max(...clips.map((clip) => clip.nframes), 1);
    this.fps = clips.find((clip) => clip.fps)?.fps ?? 30;
    this.speed = 1;
    this.index = 0;
    this.isPlaying = false;
    this.isLooping = true;
    this.playButton = button("Play", () => this.toggle());
    this.slider = el("input", { type: "range", min: 0, max: this.nframes - 1, step: 1, value: 0,
      oninput: () => this.seek(Number(this.slider.value)) });
    const loop = el("input", { type: "checkbox", checked: true, onchange: () => (this.isLooping = loop.checked) });
    const speeds = [["0.25", "¼"], ["0.5", "½"], ["1", "1"], ["2", "2"], ["4", "4"]];
    const frameControl = labelled("Frame", this.slider);
    frameControl.classList.add("wide");
    const attributes = { className: "player", tabIndex: 0, role: "group", ariaLabel: "Player", onkeydown: (event) => this.key(event) };
    this.element = el("div", attributes,
      el("div", { className: "players" }, ...this.screens.map((screen) => screen.element)),
      el("div", { className: "controls" }, this.playButton,
        button("‹", () => this.seek(this.index - 1), { ariaLabel: "One frame back" }),
        button("›", () => this.seek(this.index + 1), { ariaLabel: "One frame on" }),
        frameControl,
        labelled("Speed", select(speeds, (value) => this.setSpeed(Number(value)), "1")),
        labelled("Loop", loop)),
      el("p", { className: "quiet" }, "Space plays and stops; the arrow keys step, with Shift by ten; Home and End."));
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

  setSpeed(speed) {
    this.speed = speed;
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
    const isDone = this.screens.every((screen) => screen.feed.ended && !screen.feed.queue.length);
    if (wanted < this.nframes || !isDone) return;
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
