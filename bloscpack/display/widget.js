// Widgets of notebooks: a player of clips and a viewer of slices of arrays. One module without imports,
// as anywidget needs it. Text from files is only ever set as text.

const STYLE = `
.bloscpack { font: 13px system-ui, sans-serif; display: inline-block; max-width: 100%; }
.bloscpack:focus-visible { outline: 2px solid #4a90d9; outline-offset: 2px; }
.bloscpack canvas { display: block; max-width: 100%; min-width: 256px; image-rendering: pixelated; }
.bloscpack .row { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; margin: 4px 0; }
.bloscpack input[type=number] { width: 7em; }
.bloscpack input[type=range] { flex: 1; min-width: 160px; }
.bloscpack .problem { color: #c00; }
`;

function el(name, attributes = {}, ...children) {
  const element = Object.assign(document.createElement(name), attributes);
  element.append(...children);
  return element;
}

function labelled(text, ...controls) {
  return el("label", {}, `${text} `, ...controls);
}

// Sends messages, and returns a promise of the reply to each. Every view of a widget gets all replies.
class Channel {
  constructor(model) {
    this.model = model;
    this.waiting = new Map();
    this.next = Math.floor(Math.random() * 2 ** 40);
    this.receive = (content, buffers) => {
      const waiting = this.waiting.get(content?.id);
      if (!waiting) return;
      this.waiting.delete(content.id);
      if (content.error) waiting.reject(new Error(content.error));
      else waiting.resolve({ ...content, data: buffers[0] });
    };
    model.on("msg:custom", this.receive);
  }

  ask(kind, fields = {}) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.model.send({ id, kind, ...fields });
    });
  }

  close() {
    this.model.off("msg:custom", this.receive);
    this.waiting.clear();
  }
}

// Returns a reply with its picture decoded.
async function withPicture(reply) {
  const blob = new Blob([reply.data], { type: reply.type });
  if (reply.type === "image/png") {
    // The pixels as they are stored, without a colour profile.
    return { ...reply, picture: await createImageBitmap(blob, { colorSpaceConversion: "none" }) };
  }
  const picture = new Image();
  const url = URL.createObjectURL(blob);
  try {
    picture.src = url;
    await picture.decode();
  } finally {
    URL.revokeObjectURL(url);
  }
  return { ...reply, picture };
}

function draw(canvas, picture) {
  canvas.width = picture.width;
  canvas.height = picture.height;
  canvas.getContext("2d").drawImage(picture, 0, 0);
  picture.close?.();
  canvas.dataset.count = Number(canvas.dataset.count ?? 0) + 1;
}

// Runs the newest piece of work as soon as the one before it is done; those between are dropped.
class Newest {
  run(work) {
    this.wanted = work;
    this.running ??= this.loop().finally(() => (this.running = null));
  }

  async loop() {
    while (this.wanted) {
      const work = this.wanted;
      this.wanted = null;
      await work();
    }
  }
}

const AHEAD = 6; // frames asked for before they are shown

class Player {
  constructor(channel, info, root) {
    Object.assign(this, { channel, info, index: 0, isPlaying: false, newest: new Newest() });
    this.canvas = el("canvas", { role: "img", ariaLabel: `Clip ${info.title}` });
    this.text = el("span", { role: "status" });
    this.playButton = el("button", { type: "button", onclick: () => this.toggle() }, "Play");
    const last = Math.max(0, info.nframes - 1);
    this.slider = el("input", { type: "range", min: 0, max: last, step: 1, value: 0, ariaLabel: "Frame" });
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.speed = el("select", {}, ...[0.25, 0.5, 1, 2, 4].map((each) =>
      el("option", { value: each, selected: each === 1 }, String(each))));
    this.speed.addEventListener("change", () => (this.origin = null));
    this.loops = el("input", { type: "checkbox", checked: true });
    root.append(this.canvas,
      el("div", { className: "row" }, this.playButton,
        el("button", { type: "button", onclick: () => this.seek(this.index - 1), ariaLabel: "One frame back" }, "‹"),
        el("button", { type: "button", onclick: () => this.seek(this.index + 1), ariaLabel: "One frame on" }, "›"),
        this.slider, labelled("Speed", this.speed), labelled("Loop", this.loops)),
      el("div", { className: "row" }, this.text));
    root.title = "Space plays and stops; the arrow keys step, with Shift by ten; Home and End.";
    root.addEventListener("keydown", (event) => this.key(event));
    if (info.nframes) this.seek(0);
    else this.text.textContent = "no frames";
  }

  key(event) {
    if (["INPUT", "SELECT", "BUTTON"].includes(event.target.tagName)) return;
    const by = event.shiftKey ? 10 : 1;
    const places = { ArrowLeft: this.index - by, ArrowRight: this.index + by, Home: 0, End: this.info.nframes - 1 };
    if (event.key === " ") this.toggle();
    else if (event.key in places) this.seek(places[event.key]);
    else return;
    event.preventDefault();
    event.stopPropagation(); // the keys of the notebook
  }

  seek(index) {
    this.stop();
    this.index = Math.max(0, Math.min(index, this.info.nframes - 1));
    this.slider.value = this.index;
    this.newest.run(() => this.show(this.index));
  }

  async show(index) {
    try {
      this.put(await withPicture(await this.channel.ask("frame", { frame: index })));
    } catch (error) {
      this.fail(error);
    }
  }

  put({ frame, picture }) {
    draw(this.canvas, picture);
    this.canvas.dataset.frame = frame;
    this.text.className = "";
    this.text.textContent = `${this.info.title}: frame ${frame} of ${this.info.nframes}`;
  }

  fail(error) {
    this.text.className = "problem";
    this.text.textContent = error.message;
  }

  toggle() {
    if (this.isPlaying) this.stop();
    else this.play();
  }

  stop() {
    this.isPlaying = false;
    this.playButton.textContent = "Play";
  }

  // Asks for a few frames ahead, and shows each when its time has come; leaves out those that are late.
  async play() {
    if (!this.info.nframes) return;
    const run = (this.run = {});
    const isOn = () => this.isPlaying && this.run === run;
    this.isPlaying = true;
    this.playButton.textContent = "Stop";
    if (this.index >= this.info.nframes - 1) this.index = 0;
    this.origin = null;
    let asked = this.index;
    const queue = [];
    const fill = () => {
      while (queue.length < AHEAD && asked < this.info.nframes) {
        const frame = asked++;
        const reply = this.channel.ask("frame", { frame }).then(withPicture);
        queue.push({ frame, reply: reply.catch((error) => ({ error })) });
      }
    };
    while (isOn()) {
      fill();
      const next = queue.shift();
      if (!next) {
        if (!this.loops.checked || this.info.nframes < 2) break;
        asked = this.index = 0;
        this.origin = null;
        continue;
      }
      const found = await next.reply;
      if (!isOn()) return;
      const rate = this.info.fps * Number(this.speed.value);
      this.origin ??= { now: performance.now(), frame: next.frame };
      const due = this.origin.now + ((next.frame - this.origin.frame) / rate) * 1000;
      const wait = due - performance.now();
      if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
      if (!isOn()) return;
      this.index = next.frame;
      this.slider.value = next.frame;
      if (found.error) this.fail(found.error);
      else this.put(found);
      // If the frames come too slowly, go on from what is due now.
      const late = Math.floor((-wait / 1000) * rate);
      if (late > AHEAD) {
        queue.length = 0;
        asked = Math.min(this.info.nframes - 1, next.frame + late);
        this.origin = null;
      }
    }
    if (this.run === run) this.stop();
  }
}

class Viewer {
  constructor(channel, info, root) {
    Object.assign(this, { channel, info, newest: new Newest() });
    this.axes = [...info.axes];
    this.index = info.shape.map((side) => Math.floor(side / 2));
    this.windows = info.shape.map((side) => [0, side]);
    this.canvas = el("canvas", { role: "img", ariaLabel: "Slice" });
    this.text = el("span", { role: "status" });
    this.controls = el("div");
    this.colors = el("select", {}, ...info.colormaps.map((each) => el("option", { value: each }, each)));
    this.low = el("input", { type: "number", step: "any", placeholder: "smallest" });
    this.high = el("input", { type: "number", step: "any", placeholder: "largest" });
    for (const each of [this.colors, this.low, this.high]) each.addEventListener("change", () => this.update());
    root.append(this.canvas, el("div", { className: "row" }, this.text), this.controls);
    if (info.hasColors && this.axes.length === 2) {
      root.append(el("div", { className: "row" }, labelled("Colours", this.colors),
        labelled("from", this.low), labelled("to", this.high)));
    }
    this.layout();
    this.update();
  }

  // A row of controls for each axis: its place, or the window of an axis that is shown.
  layout() {
    const rows = this.info.shape.map((side, axis) => {
      const place = this.axes.indexOf(axis);
      const roles = this.axes.length === 2 ? ["rows", "columns", "at"] : ["line"];
      const role = el("select", { ariaLabel: `Axis ${axis}` }, ...roles.map((each, at) =>
        el("option", { value: at, selected: at === (place < 0 ? 2 : place) }, each)));
      role.addEventListener("change", () => this.choose(axis, Number(role.value)));
      const row = el("div", { className: "row" }, labelled(`axis ${axis}`, role));
      row.append(...(place < 0 ? this.picker(side, axis) : this.bounds(side, axis)));
      return row;
    });
    this.controls.replaceChildren(...rows);
  }

  picker(side, axis) {
    const output = el("output", {}, String(this.index[axis]));
    const slider = el("input", { type: "range", min: 0, max: side - 1, step: 1, ariaLabel: `Index of axis ${axis}` });
    slider.value = this.index[axis];
    slider.addEventListener("input", () => {
      this.index[axis] = Number(slider.value);
      output.textContent = slider.value;
      this.update();
    });
    return [slider, output];
  }

  bounds(side, axis) {
    const make = (at, name) => {
      const input = el("input", { type: "number", min: 0, max: side, step: 1, ariaLabel: `${name} of axis ${axis}` });
      input.value = this.windows[axis][at];
      input.dataset.axis = axis;
      input.dataset.at = at;
      input.addEventListener("change", () => {
        const value = Math.max(0, Math.min(side, Math.floor(Number(input.value))));
        const other = this.windows[axis][1 - at];
        this.windows[axis][at] = at ? Math.max(value, other + 1) : Math.min(value, other - 1);
        this.update();
      });
      return input;
    };
    return [make(0, "Start"), "to", make(1, "Stop"), `of ${side}`];
  }

  // Gives an axis a role; the axis that had the role before takes the one of this axis.
  choose(axis, role) {
    const before = this.axes.indexOf(axis);
    if (role < 2) {
      const other = this.axes[role];
      this.axes[role] = axis;
      if (before >= 0) this.axes[before] = other;
    } else if (before >= 0) {
      const free = this.info.shape.findIndex((_, each) => !this.axes.includes(each));
      if (free >= 0) this.axes[before] = free;
    }
    this.layout();
    this.update();
  }

  update() {
    this.newest.run(() => this.show());
  }

  async show() {
    const isSet = this.low.value !== "" && this.high.value !== "";
    const axes = [...this.axes];
    try {
      const reply = await withPicture(await this.channel.ask("slice", {
        axes,
        index: this.index,
        windows: axes.map((axis) => this.windows[axis]),
        colormap: this.colors.value,
        limits: isSet ? [Number(this.low.value), Number(this.high.value)] : null,
      }));
      draw(this.canvas, reply.picture);
      axes.forEach((axis, at) => (this.windows[axis] = [...reply.windows[at]]));
      for (const input of this.controls.querySelectorAll("input[data-axis]")) {
        input.value = this.windows[Number(input.dataset.axis)][Number(input.dataset.at)];
      }
      const places = this.info.shape.map((_, axis) =>
        axes.includes(axis) ? this.windows[axis].join(":") : this.index[axis]);
      this.text.className = "";
      this.text.textContent = `[${places.join(", ")}] ${reply.range}`;
    } catch (error) {
      this.text.className = "problem";
      this.text.textContent = error.message;
    }
  }
}

async function render({ model, el: parent }) {
  const root = el("div", { className: "bloscpack", tabIndex: 0, role: "group" });
  parent.append(el("style", {}, STYLE), root);
  const channel = new Channel(model);
  let shown = null;
  channel.ask("info").then((info) => {
    root.ariaLabel = info.widget === "player" ? `Player of clip ${info.title}` : `Viewer of ${info.title}`;
    shown = info.widget === "player" ? new Player(channel, info, root) : new Viewer(channel, info, root);
  }).catch((error) => root.append(el("p", { className: "problem" }, error.message)));
  return () => {
    shown?.stop?.();
    channel.close();
  };
}

export default { render };
