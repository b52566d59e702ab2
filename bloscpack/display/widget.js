// Widgets of notebooks: the player of the page, and a viewer of slices of arrays, which Python draws.

import { axisControls } from "./axes.js";
import { el, labelled, Latest, problem, select } from "./dom.js";
import { drawFrame, imagePixels } from "./pixels.js";
import { Player } from "./player.js";
import { Plot } from "./plot.js";

const STYLE = `
.bloscpack { --quiet: #777; --border: #ccc; --line-1: #31688e; font: 13px system-ui, sans-serif; display: inline-block; max-width: 100%; }
.bloscpack :focus-visible { outline: 2px solid #4a90d9; outline-offset: 2px; }
.bloscpack canvas { display: block; max-width: 100%; }
.bloscpack canvas.frame { min-width: 256px; image-rendering: pixelated; }
.bloscpack canvas.plot { width: 600px; }
.bloscpack p, .bloscpack h4 { margin: 4px 0; font-weight: normal; }
.bloscpack .controls, .bloscpack .control { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 4px 0; }
.bloscpack input[type=number] { width: 7em; }
.bloscpack input[type=range] { flex: 1; min-width: 160px; }
.bloscpack .wide { flex: 1; }
.bloscpack .quiet { color: var(--quiet); }
.bloscpack .problem { color: #c00; }
`;
// Messages that are on their way at the same time: Python answers all of them, also those that are stale.
const MAX_SENT = 4;

// Sends messages, and returns a promise of the reply to each. Every view of a widget gets all replies.
class Channel {
  constructor(model) {
    Object.assign(this, { model, asked: [], sent: new Map(), settled: Promise.resolve(), id: Math.floor(Math.random() * 2 ** 40) });
    this.receive = (content, buffers) => {
      const message = this.sent.get(content?.id);
      if (!message) return;
      this.sent.delete(content.id);
      // One after the other, so that no picture is drawn over that of a later reply.
      this.settled = this.settled.then(() => decoded(content, buffers)).then(message.resolve, message.reject);
      this.send();
    };
    model.on("msg:custom", this.receive);
  }

  ask(kind, fields = {}, signal = undefined) {
    return new Promise((resolve, reject) => {
      this.asked.push({ content: { kind, ...fields }, signal, resolve, reject });
      this.send();
    });
  }

  send() {
    while (this.asked.length && this.sent.size < MAX_SENT) {
      const message = this.asked.shift();
      if (message.signal?.aborted) message.reject(message.signal.reason);
      else {
        this.sent.set(++this.id, message);
        this.model.send({ id: this.id, ...message.content });
      }
    }
  }

  close() {
    this.model.off("msg:custom", this.receive);
    this.asked = [];
  }
}

async function decoded(content, buffers) {
  if (content.error) throw new Error(content.error);
  const { type } = content;
  return { ...content, buffers, picture: type ? await imagePixels({ type, bytes: buffers[0] }) : null };
}

function showPlayer(channel, { title, nframes, fps }, root) {
  if (!nframes) {
    root.append(el("p", { role: "status" }, `${title}: no frames`));
    return null;
  }
  // A few frames are asked for before the first is taken.
  async function* getFrames({ start, stop = nframes }, signal) {
    const asked = [];
    for (let next = start, index = start; index < stop; index++) {
      for (; next < stop && asked.length < MAX_SENT; next++) {
        asked.push(channel.ask("frame", { frame: next }, signal).then(({ picture }) => picture, (error) => ({ error: error.message })));
      }
      const frame = await asked.shift();
      if (frame.error) signal.throwIfAborted();
      yield { index, ...frame };
    }
  }
  return new Player(root, getFrames, [{ id: title, ordinal: 0, nframes, fps }]);
}

class Viewer {
  constructor(channel, info, root) {
    Object.assign(this, { channel, shape: info.shape, latest: new Latest() });
    this.cols = info.axes.at(-1);
    this.rows = info.axes.length > 1 ? info.axes[0] : -1;
    this.index = info.shape.map((side) => Math.floor(side / 2));
    this.windows = info.shape.map((side) => [0, side]);
    this.canvas = el("canvas", { className: "frame", role: "img", ariaLabel: "Slice" });
    this.plot = new Plot("Line");
    this.text = el("p", { role: "status" });
    this.controls = el("div");
    const show = () => this.show();
    this.colors = select(info.colormaps.map((each) => [each, each]), show);
    this.low = el("input", { type: "number", step: "any", placeholder: "smallest", onchange: show });
    this.high = el("input", { type: "number", step: "any", placeholder: "largest", onchange: show });
    root.append(this.rows < 0 ? this.plot.canvas : this.canvas, this.text, this.controls);
    if (info.hasColors && this.rows >= 0) {
      root.append(el("div", { className: "controls" }, labelled("Colours", this.colors),
        labelled("from", this.low), labelled("to", this.high)));
    }
    this.turn();
  }

  get axes() {
    return this.rows < 0 ? [this.cols] : [this.rows, this.cols];
  }

  turn() {
    const axes = this.rows < 0 ? [] : axisControls(this, () => this.turn(), () => this.show());
    this.bounds = this.axes.map((axis) => this.windowBoxes(axis));
    this.controls.replaceChildren(el("div", { className: "controls" }, ...axes),
      ...this.axes.map((axis, at) => el("div", { className: "controls" },
        `axis ${axis} from`, this.bounds[at][0], "to", this.bounds[at][1], `of ${this.shape[axis]}`)));
    this.show();
  }

  // The start and stop of the part of an axis that is shown.
  windowBoxes(axis) {
    const window = this.windows[axis];
    return ["Start", "Stop"].map((name, at) => {
      const box = el("input", { type: "number", min: 0, max: this.shape[axis], step: 1, value: window[at], ariaLabel: `${name} of axis ${axis}` });
      box.addEventListener("change", () => {
        const value = Math.max(0, Math.min(this.shape[axis], Math.floor(Number(box.value))));
        window[at] = at ? Math.max(value, window[0] + 1) : Math.min(value, window[1] - 1);
        this.show();
      });
      return box;
    });
  }

  show() {
    const isSet = this.low.value !== "" && this.high.value !== "";
    // A reply may come after the next change: its text is about what was asked.
    const { axes } = this, index = [...this.index], windows = axes.map((axis) => [...this.windows[axis]]);
    this.latest.run(async (signal) => {
      const reply = await this.channel.ask("slice", {
        axes,
        index,
        windows,
        colormap: this.colors.value,
        limits: isSet ? [Number(this.low.value), Number(this.high.value)] : null,
      }, signal);
      if (axes.length < 2) this.drawLine(reply);
      else drawFrame(this.canvas, reply.picture);
      this.canvas.dataset.count = Number(this.canvas.dataset.count ?? 0) + 1;
      const places = this.shape.map((_, axis) => axes.includes(axis) ? reply.windows[axes.indexOf(axis)].join(":") : index[axis]);
      this.text.className = "";
      this.text.textContent = `[${places.join(", ")}] ${reply.range}`;
      // Python makes windows smaller that cost too much.
      if (!signal.aborted) {
        axes.forEach((axis, at) => {
          reply.windows[at].forEach((value, end) => (this.bounds[at][end].value = this.windows[axis][end] = value));
        });
      }
    }, (error) => {
      this.text.className = "problem";
      this.text.textContent = error.message;
    });
  }

  drawLine({ windows: [[start, stop]], buffers }) {
    const [low, high] = buffers.map((each) => new Float64Array(each.buffer.slice(each.byteOffset, each.byteOffset + each.byteLength)));
    this.plot.show([{ x: low.map((_, k) => start + (k * (stop - start)) / low.length), low, high }]);
  }

  close() {
    this.latest.stop();
  }
}

async function render({ model, el: parent }) {
  const root = el("div", { className: "bloscpack", role: "group" });
  // The keys of the notebook.
  root.addEventListener("keydown", (event) => event.defaultPrevented && event.stopPropagation());
  parent.append(el("style", {}, STYLE), root);
  const channel = new Channel(model);
  let shown = null;
  channel.ask("info").then((info) => {
    const isPlayer = info.widget === "player";
    root.ariaLabel = `${isPlayer ? "Player of clip" : "Viewer of"} ${info.title}`;
    shown = isPlayer ? showPlayer(channel, info, root) : new Viewer(channel, info, root);
  }).catch((error) => root.append(problem(error)));
  return () => {
    shown?.close();
    channel.close();
  };
}

export default { render };
