// VRS recordings: streams on one time line, and what each holds at the cursor.

import { getJson, getPacket } from "./api.js";
import { el, facts, labelled, Latest, number, problem, section, select } from "./dom.js";
import { drawPixels, streamFrames, toPixels } from "./player.js";
import { Plot } from "./plot.js";

const BINS = 600;

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
    const about = await getJson(`${this.file}/recording`, {}, signal);
    this.line = await getPacket(`${this.file}/timeline`, { bins: BINS }, signal);
    this.time = this.line.start;
    this.body.append(this.timeSection(about));
    const grid = el("div", { className: "grid" });
    about.streams.forEach((stream, at) => {
      const panel = new StreamPanel(this, stream, at);
      this.panels.push(panel);
      grid.append(panel.element);
    });
    this.body.append(grid, section("Recording", facts([["Records", about.records], ["Version", about.version],
      ["Index", about.index], ["Tags", about.tags], ["Faults", about.faults]])));
    this.draw();
    this.seek(this.time);
  }

  timeSection(about) {
    const { start, stop } = this.line;
    this.slider = el("input", { type: "range", min: start, max: stop, step: (stop - start) / 1000 || 1, value: start });
    this.slider.addEventListener("input", () => this.seek(Number(this.slider.value)));
    this.text = el("span", { className: "quiet", ariaLive: "polite" });
    this.canvas = el("canvas", { className: "heat timeline", role: "img", ariaLabel: "Records of each stream over time" });
    this.canvas.addEventListener("click", (event) => {
      const box = this.canvas.getBoundingClientRect();
      this.seek(start + ((event.clientX - box.left) / box.width) * (stop - start));
    });
    return section("Time line", this.canvas,
      el("p", { className: "quiet" }, `From top to bottom: ${about.streams.map((each) => each.id).join(", ")}`),
      el("div", { className: "controls" }, labelled("Time", this.slider), this.text));
  }

  draw() {
    const { shape: [rows, bins], data } = this.line.arrays[0];
    const height = 10;
    const most = data.reduce((a, b) => Math.max(a, b), 1);
    drawPixels(this.canvas, bins, Math.max(1, rows * height), (pixels) => {
      for (let y = 0; y < rows * height; y++) {
        for (let x = 0; x < bins; x++) {
          const count = y % height === height - 1 ? 0 : data[Math.floor(y / height) * bins + x];
          const at = 4 * (y * bins + x);
          pixels[at] = 49;
          pixels[at + 1] = 104;
          pixels[at + 2] = 142;
          pixels[at + 3] = count ? 90 + (165 * count) / most : 0;
        }
      }
    });
    this.canvas.dataset.drawn = rows;
  }

  seek(time) {
    this.time = Math.max(this.line.start, Math.min(time, this.line.stop));
    this.slider.value = this.time;
    this.text.textContent = `${this.time.toFixed(3)} s`;
    for (const panel of this.panels) panel.seek(this.time);
  }

  close() {
    for (const each of this.requests) each.stop();
  }
}

class StreamPanel {
  constructor(view, stream, at) {
    Object.assign(this, { view, stream, at });
    this.type = ["data", "configuration", "state"].find((type) => stream.records[type] > 0) ?? "data";
    this.records = view.latest();
    this.columns = view.latest();
    this.content = el("div");
    this.errors = el("div");
    const parts = [el("p", { className: "quiet" }, [stream.flavor,
      ...Object.entries(stream.records).map(([type, count]) => `${count} ${type}`)].filter(Boolean).join(", "))];
    if (stream.clip !== null) {
      this.canvas = el("canvas", { className: "frame", role: "img", ariaLabel: `Image of ${stream.id}` });
      parts.push(this.canvas);
    }
    if (stream.audio || stream.fields.length) {
      this.plot = new Plot(`Plot of ${stream.id}`);
      this.note = el("p", { className: "quiet" });
      const options = [...(stream.audio ? [["audio", "audio"]] : []),
        ...stream.fields.map(([type, name], k) => [String(k), `${name} (${type})`])];
      parts.push(el("div", { className: "controls" },
        labelled("Plot", select(options, (value) => this.load(value)))), this.plot.canvas, this.note);
      this.load(options[0][0]);
    }
    parts.push(this.errors, el("details", {}, el("summary", {}, "Record at the cursor"), this.content),
      el("details", {}, el("summary", {}, "Tags and layouts"),
        facts([["Serial number", stream.serial_number], ["Tags", stream.tags],
          ...stream.formats.map((each) => [`${each.type} ${each.version}`, each.format]),
          ...stream.layouts.map((each) => [`Layout of ${each.type}, block ${each.block}`, each.fields])])));
    this.element = section(`${stream.name} ${stream.id}`, ...parts);
  }

  load(value) {
    this.columns.run(async (signal) => {
      const [type, field] = value === "audio" ? [] : this.stream.fields[Number(value)];
      const path = value === "audio" ? "audio" : "column";
      const found = await getPacket(`${this.view.file}/${path}`, { stream: this.at, type, field, bins: BINS }, signal);
      const [times, low, high = low] = found.arrays;
      const count = times.data.length;
      const lines = Array.from({ length: low.shape[0] }, (_, k) => ({
        x: times.data,
        low: low.data.subarray(k * count, (k + 1) * count),
        high: high.data.subarray(k * count, (k + 1) * count),
      }));
      this.plot.cursor = this.view.time;
      this.plot.show(lines, {});
      this.note.textContent = found.step > 1 ? `Every ${found.step} of the records is shown.` : "";
    }, (error) => (this.note.textContent = error.message));
  }

  seek(time) {
    if (this.plot?.range) {
      this.plot.cursor = time;
      this.plot.draw();
    }
    if (!this.stream.records[this.type]) return;
    this.records.run(async (signal) => {
      const found = await getJson(`${this.view.file}/record`, { stream: this.at, type: this.type, time }, signal);
      const { record } = found;
      this.errors.replaceChildren();
      this.content.replaceChildren(facts([["Record", record.record], ["Time", number(record.timestamp)],
        ["Bytes", record.nbytes], ["Note", record.note], ...record.blocks.map((block, k) => [`Block ${k}`, block])]));
      if (found.frame === null || !this.canvas) return;
      const query = { clip: this.stream.clip, start: found.frame, stop: found.frame + 1 };
      for await (const frame of streamFrames(this.view.file, query, signal)) {
        if (frame.error) throw new Error(frame.error);
        drawPixels(this.canvas, frame.width, frame.height, (pixels) => toPixels(frame, pixels));
        this.canvas.dataset.drawn = frame.index;
      }
    }, (error) => this.errors.replaceChildren(problem(error)));
  }
}
