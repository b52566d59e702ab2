// Arrays: a heat map of a plane with a cursor, a plot of the line through it, statistics, chunks.

import { framesOf, getJson, getPacket } from "./api.js";
import { axisControls, axisOptions } from "./axes.js";
import { NAMES, paint } from "./colors.js";
import { button, el, facts, labelled, Latest, number, problem, section, select, size } from "./dom.js";
import { drawPixels } from "./pixels.js";
import { Player } from "./player.js";
import { lineOf, Plot } from "./plot.js";

const PARTS = [["real", "real"], ["imag", "imaginary"], ["abs", "magnitude"], ["angle", "phase"]];
// Items of a page of the table, along each axis.
const CELLS = 20;
const ROUNDED = "Numbers beyond 2^53 are drawn rounded; as text, the items are exact.";

export function showArray(body, file) {
  const content = el("div");
  const latest = new Latest();
  let view = null;

  function open(member) {
    view?.close();
    latest.run(async (signal) => {
      const about = await getJson(`${file.ordinal}/array`, { member }, signal);
      content.replaceChildren(...(about.members ? [memberChooser(about, member)] : []));
      if (about.error) content.append(problem(about.error));
      else if (about.shape) view = new ArrayView(content, file, member, about);
      else content.append(el("p", { className: "quiet" }, "The archive has no arrays."));
    }, (error) => content.replaceChildren(problem(error)));
  }

  function memberChooser({ members, nmembers }, member) {
    const names = members.map((name, at) => [String(at), name]);
    const chooser = select(names, (value) => open(Number(value)), String(member));
    return el("div", { className: "controls" }, labelled("Array", chooser),
      el("span", { className: "quiet" }, `${nmembers} arrays`));
  }

  body.append(content);
  open(0);
  return () => {
    latest.stop();
    view?.close();
  };
}

class ArrayView {
  constructor(body, file, member, about) {
    Object.assign(this, { file, member, about });
    this.shape = about.shape;
    this.field = about.numeric ? "" : about.fields[0] ?? "";
    this.isShown = (about.numeric || about.fields.length > 0) && !this.shape.includes(0);
    this.part = "real";
    this.index = this.shape.map(() => 0);
    // The planes of pictures are before their colours.
    this.cols = this.shape.length - (about.pictures ? 2 : 1);
    this.rows = this.cols - 1;
    this.window = null;
    this.colors = "viridis";
    this.range = null;
    this.requests = { plane: new Latest(), line: new Latest(), statistics: new Latest(),
      table: new Latest(), chunks: new Latest() };
    // Bytes that a part may fetch, once they have been allowed.
    this.allowed = {};
    this.controls = el("div", { className: "controls" });
    this.errors = el("div");
    body.append(section("Array", facts([
      ["Shape", this.shape.join(" x ") || "none (one item)"],
      ["Items", about.dtype],
      ["Order", about.order],
      ["Size", `${size(about.nbytes)}, ${size(about.cbytes)} stored`],
      ["Chunks", about.chunks ? `${about.nchunks} of ${about.chunks.join(" x ")}` : about.nchunks],
    ], "row")), this.controls, this.errors);
    // Two columns, each as long as what is in it.
    const left = el("div");
    const right = el("div");
    body.append(el("div", { className: "pair" }, left, right));
    if (about.pictures) left.append(this.pictureSection());
    const hasPlane = this.isShown && this.shape.length > 1;
    if (hasPlane) left.append(this.heatSection());
    if (this.isShown && this.shape.length > 0) (hasPlane ? right : left).append(this.lineSection());
    if (this.isShown) right.append(this.statisticsSection());
    left.append(this.tableSection());
    (hasPlane ? left : right).append(this.chunkSection());
    const attrs = Object.entries(about.attrs);
    right.append(section("Attributes", attrs.length ? facts(attrs) : el("p", { className: "quiet" }, "none")));
    this.makeControls();
    this.refresh();
  }

  get query() {
    return { member: this.member, field: this.field, part: this.part, index: this.index.join(",") };
  }

  get planeQuery() {
    const query = { ...this.query, rows: this.rows, cols: this.cols };
    if (this.window) {
      [query.row_start, query.row_stop] = this.window.rows;
      [query.col_start, query.col_stop] = this.window.cols;
    }
    return query;
  }

  makeControls() {
    this.controls.replaceChildren();
    if (this.shape.includes(0)) return;
    if (!this.isShown) {
      this.controls.append(el("span", { className: "quiet" }, `Items of ${this.about.dtype} are not numbers: they are listed, not drawn.`));
    }
    const choose = (name) => (value) => {
      this[name] = value;
      this.range = null;
      this.refresh();
    };
    const fields = this.about.fields.map((name) => [name, name]);
    if (fields.length) this.controls.append(labelled("Field", select(fields, choose("field"), this.field)));
    if (this.about.complex) this.controls.append(labelled("Part", select(PARTS, choose("part"), this.part)));
    const turned = () => {
      this.window = null;
      this.makeControls();
      this.refresh();
    };
    this.controls.append(...axisControls(this, turned, () => this.refresh()));
  }

  pictureSection() {
    const stage = section("Pictures");
    this.requests.pictures = new Latest();
    this.requests.pictures.run(async (signal) => {
      const clip = await getJson(`${this.file.ordinal}/clip`, { clip: this.member }, signal);
      this.player = new Player(stage, framesOf(this.file.ordinal), [clip]);
    }, (error) => stage.append(problem(error)));
    return stage;
  }

  heatSection() {
    this.heat = el("canvas", { className: "heat", role: "img", tabIndex: 0,
      onclick: (event) => this.pointAt(event), onkeydown: (event) => this.heatKey(event) });
    this.bar = el("canvas", { className: "bar", width: 256, height: 1, role: "presentation" });
    const setRange = () => {
      this.range = [Number(this.lowBox.value), Number(this.highBox.value)];
      this.paint();
    };
    this.lowBox = el("input", { type: "number", step: "any", onchange: setRange });
    this.highBox = el("input", { type: "number", step: "any", onchange: setRange });
    this.cursorText = el("p", { className: "quiet", ariaLive: "polite" });
    this.heatNote = el("p", { className: "quiet" });
    return section("Heat map", el("div", { className: "controls" },
      labelled("Colours", select(NAMES.map((name) => [name, name]), (value) => {
        this.colors = value;
        this.paint();
      }, this.colors)),
      labelled("From", this.lowBox), labelled("to", this.highBox),
      button("Auto range", () => { this.range = null; this.paint(); }),
      button("Zoom in", () => this.zoom(0.5)), button("Zoom out", () => this.zoom(2))),
    this.heat, this.bar, this.cursorText, this.heatNote,
    el("p", { className: "quiet" }, "Click, or use the arrow keys, to move the cursor; + and - zoom."));
  }

  lineSection() {
    this.plot = new Plot("Plot of a line of the array");
    this.lineAxis = this.cols;
    this.lineNote = el("p", { className: "quiet" });
    return section("Line", el("div", { className: "controls" },
      labelled("Along", select(axisOptions(this.shape), (value) => { this.lineAxis = Number(value); this.loadLine(); },
        String(this.lineAxis)))), this.plot.canvas, this.lineNote);
  }

  statisticsSection() {
    this.scope = this.shape.length > 1 ? "plane" : "array";
    this.statistics = el("div");
    this.histogram = new Plot("Histogram");
    const scopes = this.shape.length > 1 ? [["plane", "this plane"], ["array", "whole array"]] : [["array", "whole array"]];
    return section("Statistics", el("div", { className: "controls" },
      labelled("Of", select(scopes, (value) => { this.scope = value; this.loadStatistics(); }, this.scope))),
    this.histogram.canvas, this.statistics);
  }

  tableSection() {
    this.cells = el("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: "Items as text" });
    return section("Items", this.cells);
  }

  chunkSection() {
    this.chunkStart = 0;
    this.chunkGrid = el("div", { className: "chunks" });
    this.chunkText = el("p", { className: "quiet", ariaLive: "polite" });
    const turn = (by) => () => {
      this.chunkStart = Math.max(0, Math.min(this.chunkStart + by, this.about.nchunks - 1));
      this.loadChunks();
    };
    const pages = el("div", { className: "controls" }, button("Previous chunks", turn(-512)), button("Next chunks", turn(512)));
    return section("Chunks", this.about.nchunks > 512 ? pages : null, this.chunkGrid, this.chunkText);
  }

  refresh() {
    this.place = null;
    if (this.isShown) {
      if (this.shape.length > 1) this.loadPlane();
      if (this.shape.length > 0) this.loadLine();
      this.loadStatistics();
    }
    this.loadTable();
    this.loadChunks();
  }

  // Loads a part and shows it. Asks first, in `place`, if much of a remote file would be fetched:
  // `whenAsked` empties what was shown before, and returns what else to choose.
  load(part, get, query, place, show, whenAsked = () => []) {
    this.requests[part].run(async (signal) => {
      const found = await get(`${this.file.ordinal}/${part}`, { ...query, allow: this.allowed[part] }, signal);
      if (!found.needs) {
        show(found);
        return;
      }
      const { nbytes, nrequests } = found.needs;
      const allow = button(`Fetch ${size(nbytes)}`, () => {
        this.allowed[part] = nbytes;
        this.load(part, get, query, place, show, whenAsked);
      });
      place.replaceChildren(el("span", {}, `This needs ${size(nbytes)} of the file, in ${nrequests} ${nrequests === 1 ? "request" : "requests"}. `),
        allow, ...whenAsked());
    }, (error) => this.errors.replaceChildren(problem(error)));
  }

  loadPlane() {
    this.load("plane", getPacket, this.planeQuery, this.heatNote, (plane) => {
      this.errors.replaceChildren(...plane.lost.slice(0, 5).map((text) => problem(text)));
      this.plane = plane;
      this.paint();
    });
  }

  paint() {
    if (!this.plane) return;
    const { shape: [height, width], data } = this.plane.arrays[0];
    const [low, high] = this.range ?? [this.plane.low ?? 0, this.plane.high ?? 1];
    this.lowBox.value = number(low);
    this.highBox.value = number(high);
    const ramp = Float32Array.from({ length: 256 }, (_, k) => k);
    drawPixels(this.heat, width, height, (pixels) => paint(data, low, high, this.colors, pixels));
    drawPixels(this.bar, 256, 1, (pixels) => paint(ramp, 0, 255, this.colors, pixels));
    const { rows, cols } = this.plane;
    this.heatNote.textContent = [rows.step * cols.step > 1
      ? `Every ${rows.step} of axis ${rows.axis}, every ${cols.step} of axis ${cols.axis} is shown.` : "",
    this.plane.rounded ? ROUNDED : ""].join(" ");
    this.heat.dataset.drawn = JSON.stringify({ rows, cols, low, high, colors: this.colors });
    this.showCursor();
  }

  showCursor() {
    const { rows, cols, arrays: [{ shape: [, width], data }] } = this.plane;
    const row = Math.round((this.index[rows.axis] - rows.start) / rows.step);
    const col = Math.round((this.index[cols.axis] - cols.start) / cols.step);
    const value = data[row * width + col];
    const place = this.index.slice();
    place[rows.axis] = rows.start + row * rows.step;
    place[cols.axis] = cols.start + col * cols.step;
    this.place = place;
    const drawn = value === undefined ? "outside" : number(value);
    const exact = this.markCell();
    const text = `[${place.join(", ")}] = ${exact === null || exact === drawn ? drawn : this.isPart && !this.plane.rounded ? `${drawn} of ${exact}` : exact}`;
    this.cursorText.textContent = text;
    this.heat.ariaLabel = `Heat map; cursor at ${text}`;
  }

  // Whether a number is only a part of its item.
  get isPart() {
    return this.about.complex || this.about.fields.length > 0;
  }

  // Marks the item at the cursor, and returns its text; null if the table has another page.
  markCell() {
    this.cells.querySelector("[aria-current]")?.removeAttribute("aria-current");
    if (!this.place || !this.page || this.place.some((at, axis) => axis !== this.rows && axis !== this.cols && at !== this.page.index[axis])) return null;
    const cell = this.page.found[this.place[this.rows] - this.page.rows]?.[this.place[this.cols] - this.page.cols];
    cell?.setAttribute("aria-current", "true");
    return cell?.textContent ?? null;
  }

  pointAt(event) {
    if (!this.plane) return;
    const box = this.heat.getBoundingClientRect();
    const { rows, cols } = this.plane;
    const row = Math.floor(((event.clientY - box.top) / box.height) * this.heat.height);
    const col = Math.floor(((event.clientX - box.left) / box.width) * this.heat.width);
    this.moveTo(rows.start + row * rows.step, cols.start + col * cols.step);
  }

  moveTo(...place) {
    const { rows, cols } = this.plane;
    [rows, cols].forEach(({ axis }, k) => (this.index[axis] = Math.min(this.shape[axis] - 1, Math.max(0, place[k]))));
    this.showCursor();
    this.loadLine();
    if (this.markCell() === null) this.loadTable();
  }

  heatKey(event) {
    if (!this.plane || event.ctrlKey || event.metaKey || event.altKey) return;
    const { rows, cols } = this.plane;
    const by = event.shiftKey ? 10 : 1;
    const moves = { ArrowUp: [-by, 0], ArrowDown: [by, 0], ArrowLeft: [0, -by], ArrowRight: [0, by] };
    if (event.key in moves) {
      const [down, across] = moves[event.key];
      this.moveTo(this.index[rows.axis] + down * rows.step, this.index[cols.axis] + across * cols.step);
    } else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else return;
    event.preventDefault();
  }

  zoom(factor) {
    const around = (axis, [start, stop]) => {
      const length = Math.max(Math.min(8, this.shape[axis]), Math.round((stop - start) * factor));
      const first = Math.round(this.index[axis] - length / 2);
      const low = Math.max(0, Math.min(first, this.shape[axis] - length));
      return [low, Math.min(this.shape[axis], low + length)];
    };
    const { rows = [0, this.shape[this.rows]], cols = [0, this.shape[this.cols]] } = this.window ?? {};
    this.window = { rows: around(this.rows, rows), cols: around(this.cols, cols) };
    this.loadPlane();
  }

  loadLine() {
    const query = { ...this.query, axis: this.lineAxis, bins: 800 };
    this.load("line", getPacket, query, this.lineNote, (line) => {
      this.plot.cursor = this.shape.length > 1 ? null : this.index[0];
      this.plot.show([lineOf(line)]);
      this.lineNote.textContent = [
        line.rounded ? ROUNDED : "",
        line.form === "extremes" ? "The smallest and largest value of each bin is shown." : "",
        line.step > 1 ? `Every ${line.step} of ${line.length} items is read.` : "",
        ...line.lost.slice(0, 2)].join(" ");
    }, () => {
      this.plot.show([]);
      return [];
    });
  }

  loadStatistics(sample = undefined) {
    const query = { ...this.planeQuery, scope: this.scope, sample };
    this.load("statistics", getJson, query, this.statistics, (found) => {
      this.statistics.replaceChildren(facts([
        ["Values", `${found.count}${found.exact ? "" : ` (${found.sampled ?? "evenly spaced sample"})`}`],
        ["Smallest", number(found.min)], ["Largest", number(found.max)],
        ["Mean", number(found.mean)], ["Standard deviation", number(found.std)],
        ["Median", number(found.median)], ["Zeros", found.zeros],
        ["Not finite", found.count - found.finite || ""]]));
      const { counts = [], edges = [] } = found.histogram ?? {};
      this.histogram.show([{ x: edges, low: counts, high: counts }], { bars: true });
    }, () => {
      this.histogram.show([]);
      return this.scope === "array" ? [" ", button("Take a sample", () => this.loadStatistics(1))] : [];
    });
  }

  // The page that has the cursor.
  pageOf(axis) {
    const at = (this.place ?? this.index)[axis];
    return at - (at % CELLS);
  }

  loadTable() {
    const query = { member: this.member };
    if (this.shape.length) {
      query.index = this.index.join(",");
      query.rows = Math.max(0, this.rows);
      query.cols = Math.max(0, this.cols);
      query.row_start = this.pageOf(query.rows);
      query.col_start = this.pageOf(query.cols);
    }
    this.load("table", getJson, query, this.cells, ({ cells, rows, cols }) => {
      const isLine = this.shape.length < 2;
      const table = el("table", { className: "cells" });
      if (!isLine && cells.length) {
        table.append(el("tr", {}, el("td"), ...cells[0].map((_, k) => el("th", { scope: "col" }, String(cols + k)))));
      }
      const found = cells.map((row) => row.map((text) => el("td", { title: text }, text)));
      found.forEach((row, k) => table.append(el("tr", {}, el("th", { scope: "row" }, rows === null ? "" : String(rows + k)), ...row)));
      this.page = { rows, cols, found, index: this.index.slice() };
      this.cells.replaceChildren(cells.length ? table : el("p", { className: "quiet" }, "no items"));
      if (this.plane) this.showCursor();
      else if (isLine && rows !== null) found[this.index[0] - rows]?.[0].setAttribute("aria-current", "true");
    }, () => {
      this.page = null;
      return [];
    });
  }

  loadChunks() {
    if (!this.about.nchunks) {
      this.chunkText.textContent = "no chunks";
      return;
    }
    const query = { member: this.member, start: this.chunkStart, count: 512 };
    this.load("chunks", getPacket, query, this.chunkText, (found) => {
      const [offsets, stored, decoded, regions] = found.arrays;
      const largest = Math.max(...stored.data, 1);
      this.chunkGrid.replaceChildren();
      stored.data.forEach((cbytes, k) => {
        const index = found.start + k;
        const damage = found.damage[index];
        const region = regions.shape.length === 3
          ? Array.from({ length: regions.shape[1] }, (_, axis) => {
            const at = (k * regions.shape[1] + axis) * 2;
            return `${regions.data[at]}:${regions.data[at + 1]}`;
          }).join(", ") : "";
        const text = `Chunk ${index}${region ? ` [${region}]` : ""}: ${decoded.data[k]} bytes as ${cbytes} at offset ${offsets.data[k]}${damage ? `. Damaged: ${damage}` : ""}`;
        const show = () => (this.chunkText.textContent = text);
        const cell = button("", show, { className: damage ? "bad" : "", title: text, ariaLabel: text, onfocus: show });
        if (!damage) Object.assign(cell.style, { opacity: 0.25 + (0.75 * cbytes) / largest, background: "var(--accent)" });
        this.chunkGrid.append(cell);
      });
      const bad = Object.keys(found.damage).length;
      const count = found.nchunks === 1 ? "1 chunk." : `${found.nchunks} chunks, darker ones are larger.`;
      this.chunkText.textContent = `${count} ${
        bad ? `${bad} are damaged.` : found.verified ? "None of these is damaged." : "Not verified yet: see File."}`;
    });
  }

  close() {
    this.player?.close();
    for (const each of Object.values(this.requests)) each.stop();
  }
}
