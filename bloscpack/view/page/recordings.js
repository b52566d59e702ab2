// VRS recordings: streams on one time line, and what each holds at the cursor.

import { framesOf, getJson, getPacket } from "./api.js";
import { button, el, facts, labelled, Latest, number, problem, section, select } from "./dom.js";
import { drawFrames, drawPixels } from "./pixels.js";
import { Plot } from "./plot.js";

const BINS = 600;
const LANE = 24;

export function showRecording(body, file) {
  const view = new RecordingView(body, file);
  return () => view.close();
}

class RecordingView {
  constructor(body, file) {
    this.file = file.ordinal;
    this.body = body;
    this.requests = [];
    this.panels = [];
    this.latest().run((signal) => this.open(signal), (error) => body.replaceChildren(problem(error)));
  }

  latest() {
    const made = new Latest();
    this.requests.push(made);
    return made;
  }

  async open(signal) {
    const waiting = el("p", { className: "quiet" }, "Reading …");
    this.body.append(waiting);
    const about = await getJson(`${this.file}/recording`, {}, signal);
    this.line = await getPacket(`${this.file}/timeline`, { bins: BINS }, signal);
    waiting.remove();
    this.time = this.line.start;
    this.body.append(this.timeSection(about));
    const grid = el("div", { className: "grid dense" });
    // Those with images first: they are the tall ones.
    const order = about.streams.map((stream, at) => [stream, at]);
    order.sort(([a], [b]) => (a.clip === null) - (b.clip === null));
    for (const [stream, at] of order) {
      const panel = new StreamPanel(this, stream, at);
      this.panels.push(panel);
      grid.append(panel.element);
    }
    this.body.append(grid, section("Recording", facts([["Records", about.records], ["Version", about.version],
      ["Index", about.index], ["Tags", about.tags], ["Faults", about.faults.length ? about.faults : "none"]])));
    this.draw();
    this.seek(this.time);
  }

  timeSection(about) {
    const { start, stop } = this.line;
    this.slider = el("input", { type: "range", min: start, max: stop, step: (stop - start) / 1000 || 1, value: start,
      ariaLabel: "Time", oninput: () => this.seek(Number(this.slider.value)) });
    this.text = el("span", { ariaLive: "polite" });
    this.canvas = el("canvas", { className: "timeline", role: "img", ariaLabel: "Records of each stream over time" });
    this.cursor = el("div", { className: "cursor" });
    const point = (event) => {
      const box = track.getBoundingClientRect();
      this.seek(start + ((event.clientX - box.left) / box.width) * (stop - start));
    };
    const grab = (event) => {
      track.setPointerCapture(event.pointerId);
      point(event);
    };
    const drag = (event) => event.buttons && point(event);
    const track = el("div", { className: "track", onpointerdown: grab, onpointermove: drag }, this.canvas, this.cursor);
    const names = el("div", { className: "names" }, ...about.streams.map((each) =>
      el("span", { title: `${each.name} ${each.id}` }, `${each.name} ${each.id}`)));
    track.style.height = names.style.height = `${Math.max(1, about.streams.length) * LANE}px`;
    const ends = el("div", { className: "scale" }, el("span", {}, `${start.toFixed(3)} s`), el("span", {}, `${stop.toFixed(3)} s`));
    this.playButton = button("Play", () => this.toggle());
    return section("Time line", el("div", { className: "lanes" }, names, track,
      el("div", { className: "controls" }, this.playButton, this.text),
      el("div", {}, this.slider, ends)));
  }

  draw() {
    const { shape: [rows, bins], data } = this.line.arrays[0];
    const color = [69, 123, 190];
    drawPixels(this.canvas, bins, Math.max(1, rows * LANE), (pixels) => {
      for (let row = 0; row < rows; row++) {
        const counts = data.subarray(row * bins, (row + 1) * bins);
        const most = counts.reduce((a, b) => Math.max(a, b), 1);
        for (let y = 4; y < LANE - 4; y++) {
          for (let x = 0; x < bins; x++) {
            const at = 4 * ((row * LANE + y) * bins + x);
            pixels.set(color, at);
            pixels[at + 3] = counts[x] ? 110 + (145 * counts[x]) / most : 0;
          }
        }
      }
    });
    this.canvas.dataset.drawn = rows;
  }

  // Plays at the speed of the recording; the streams show as many moments as can be read.
  toggle() {
    if (this.timer) {
      this.pause();
      return;
    }
    const from = this.time >= this.line.stop ? this.line.start : this.time;
    const began = performance.now();
    this.playButton.textContent = "Stop";
    this.timer = setInterval(() => {
      const time = from + (performance.now() - began) / 1000;
      if (time < this.line.stop && this.panels.some((panel) => panel.pending)) return;
      this.show(time);
      if (time >= this.line.stop) this.pause();
    }, 40);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    if (this.playButton) this.playButton.textContent = "Play";
  }

  seek(time) {
    this.pause();
    this.show(time);
  }

  show(time) {
    const { start, stop } = this.line;
    this.time = Math.max(start, Math.min(time, stop));
    this.slider.value = this.time;
    this.slider.setAttribute("aria-valuetext", `${this.time.toFixed(3)} s`);
    this.cursor.style.left = `${(100 * (this.time - start)) / (stop - start || 1)}%`;
    this.text.textContent = `${this.time.toFixed(3)} s`;
    for (const panel of this.panels) panel.seek(this.time);
  }

  close() {
    this.pause();
    for (const each of this.requests) each.stop();
  }
}

class StreamPanel {
  constructor(view, stream, at) {
    // The requests for an image or a record that are still on their way are pending.
    Object.assign(this, { view, stream, at, pending: 0 });
    this.types = ["data", "configuration", "state"].filter((type) => stream.records[type] > 0);
    this.type = this.types[0] ?? "data";
    this.records = view.latest();
    this.columns = view.latest();
    this.content = el("div");
    this.errors = el("div");
    const parts = [el("p", { className: "quiet" }, [stream.flavor,
      ...this.types.map((type) => `${stream.records[type]} ${type}`)].filter(Boolean).join(", ") || "no records")];
    if (stream.clip !== null) {
      this.canvas = el("canvas", { className: "frame", role: "img", ariaLabel: `Image of ${stream.id}` });
      parts.push(this.canvas);
    }
    if (stream.audio || stream.fields.length) {
      this.plot = new Plot(`Plot of ${stream.id}`);
      this.plot.canvas.addEventListener("click", (event) => view.seek(this.plot.at(event)));
      this.note = el("p", { className: "quiet" });
      const several = new Set(stream.fields.map((each) => each.type)).size > 1;
      const nameOf = ({ type, name, block }) => [name, several ? ` (${type})` : "", block === null ? "" : `, block ${block}`].join("");
      const options = [...(stream.audio ? [["audio", "audio"]] : []),
        ...stream.fields.map((field, k) => [String(k), nameOf(field)])];
      parts.push(el("div", { className: "controls" },
        labelled("Plot", select(options, (value) => this.load(value)))), this.plot.canvas, this.note);
      this.load(options[0][0]);
    }
    const types = this.types.length > 1
      ? [el("div", { className: "controls" }, labelled("Type", select(this.types.map((type) => [type, type]),
        (value) => { this.type = value; this.seek(view.time); }, this.type)))] : [];
    parts.push(this.errors, el("details", {}, el("summary", {}, "Record at the cursor"), ...types, this.content),
      el("details", {}, el("summary", {}, "Tags and layouts"),
        facts([["Serial number", stream.serial_number], ["Tags", stream.tags],
          ...stream.formats.map((each) => [`${each.type} ${each.version}`, each.format]),
          ...stream.layouts.map((each) => [`Layout of ${each.type} ${each.version}, block ${each.block}`, each.fields])])));
    this.element = section(`${stream.name} ${stream.id}`, ...parts);
    if (this.canvas && this.plot) this.element.classList.add("tall");
  }

  load(value) {
    this.columns.run(async (signal) => {
      const field = value === "audio" ? {} : this.stream.fields[Number(value)];
      const path = value === "audio" ? "audio" : "column";
      const found = await getPacket(`${this.view.file}/${path}`,
        { stream: this.at, type: field.type, field: field.name, block: field.block, bins: BINS }, signal);
      const [times, low, high = low] = found.arrays;
      const count = times.data.length;
      const lines = Array.from({ length: low.shape[0] }, (_, k) => ({
        x: times.data,
        low: low.data.subarray(k * count, (k + 1) * count),
        high: high.data.subarray(k * count, (k + 1) * count),
        name: low.shape[0] > 1 ? String(k) : "",
      }));
      this.plot.cursor = this.view.time;
      this.plot.show(lines, {});
      const { step = 1, missing = [], ncomponents = 0 } = found;
      this.note.textContent = [
        step > 1 ? `Every ${step} of the records is shown.` : "",
        count ? "" : "No record has this field.",
        count && missing.length ? `Not in records of version ${missing.join(", ")}.` : "",
        ncomponents > lines.length ? `The first ${lines.length} of ${ncomponents} numbers are shown.` : "",
      ].filter(Boolean).join(" ");
    }, (error) => (this.note.textContent = error.message));
  }

  seek(time) {
    if (this.plot?.range) {
      this.plot.cursor = time;
      this.plot.draw();
    }
    if (!this.stream.records[this.type]) return;
    this.pending += 1;
    this.records.run(async (signal) => {
      const found = await getJson(`${this.view.file}/record`, { stream: this.at, type: this.type, time }, signal);
      const { record } = found;
      this.errors.replaceChildren();
      this.content.replaceChildren(facts([["Record", record.record], ["Time", number(record.timestamp)],
        ["Bytes", record.nbytes], ["Note", record.note], ...record.blocks.map((block, k) => [`Block ${k}`, block])]));
      if (found.frame === null || !this.canvas) return;
      const query = { clip: this.stream.clip, start: found.frame, stop: found.frame + 1 };
      await drawFrames(this.canvas, framesOf(this.view.file)(query, signal));
    }, (error) => this.errors.replaceChildren(problem(error))).finally(() => (this.pending -= 1));
  }
}
