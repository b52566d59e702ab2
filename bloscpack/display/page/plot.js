// Line plots and histograms on a canvas, with axes.

import { el, number } from "./dom.js";

const HEIGHT = 220;
const MARGIN = { left: 64, right: 12, top: 18, bottom: 30 };
const COLORS = ["--line-1", "--line-2", "--line-3", "--line-4", "--line-5", "--line-6"];

function ticks(low, high, count) {
  const span = high - low || 1;
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw) ?? raw;
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high && found.length < 20; k++) {
    found.push(k * step);
  }
  return found;
}

// Short texts of ticks; one that equals the one before it is left out.
function labels(values) {
  const texts = values.map((value) => (number(value).length > 9 ? value.toExponential(2) : number(value)));
  return texts.map((text, at) => (text === texts[at - 1] ? "" : text));
}

export class Plot {
  constructor(label) {
    this.canvas = el("canvas", { className: "plot", role: "img", ariaLabel: label, tabIndex: 0 });
    this.lines = [];
    this.range = null;
    this.cursor = null;
    // A plot that gets a place or another width is drawn again.
    new ResizeObserver(() => {
      if (this.options && this.canvas.clientWidth !== this.drawnWidth) this.draw();
    }).observe(this.canvas);
  }

  // `lines`: [{ x, low, high, name }], with high === low for plain values.
  show(lines, options = {}) {
    this.lines = lines;
    this.options = options;
    this.draw();
  }

  bounds() {
    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const { x, low, high } of this.lines) {
      for (let k = 0; k < low.length; k++) {
        if (!Number.isFinite(low[k])) continue;
        const at = x[k];
        if (at < x0) x0 = at;
        if (at > x1) x1 = at;
        if (low[k] < y0) y0 = low[k];
        if (high[k] > y1) y1 = high[k];
      }
    }
    if (x0 > x1) return { x0: 0, x1: 1, y0: 0, y1: 1 };
    if (this.options.bars) {
      y0 = Math.min(0, y0);
      x1 = Math.max(x1, ...this.lines.map(({ x, low }) => x[low.length]));
    }
    // A float of 1e18 plus a half would be the same.
    const pad = (value) => Math.max(0.5, Math.abs(value) * 1e-12);
    if (x0 === x1) [x0, x1] = [x0 - pad(x0), x1 + pad(x1)];
    if (y0 === y1) [y0, y1] = [y0 - pad(y0), y1 + pad(y1)];
    return { x0, x1, y0, y1 };
  }

  draw() {
    const context = this.canvas.getContext("2d");
    const style = getComputedStyle(this.canvas);
    const color = (name) => style.getPropertyValue(name).trim() || "#888";
    const width = (this.drawnWidth = this.canvas.clientWidth) || 600;
    const height = HEIGHT;
    const sharpness = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * sharpness);
    this.canvas.height = Math.round(height * sharpness);
    context.scale(this.canvas.width / width, this.canvas.height / height);
    const { x0, x1, y0, y1 } = (this.range = this.bounds());
    const toX = (x) => MARGIN.left + ((x - x0) / (x1 - x0)) * (width - MARGIN.left - MARGIN.right);
    const toY = (y) =>
      height - MARGIN.bottom - ((y - y0) / (y1 - y0)) * (height - MARGIN.top - MARGIN.bottom);
    this.toValue = (px) =>
      x0 + ((px - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (x1 - x0);
    const rule = (...ends) => {
      context.beginPath();
      for (const end of ends) context.lineTo(...end);
      context.stroke();
    };
    const write = (text, x, y, textAlign, textBaseline) => {
      Object.assign(context, { textAlign, textBaseline });
      context.fillText(text, x, y);
    };
    context.font = "13px system-ui, sans-serif";
    context.fillStyle = color("--quiet");
    context.strokeStyle = color("--border");
    context.lineWidth = 1;
    const down = ticks(y0, y1, 4);
    const across = ticks(x0, x1, 7);
    const [downTexts, acrossTexts] = [labels(down), labels(across)];
    for (const [k, y] of down.entries()) {
      rule([MARGIN.left, toY(y)], [width - MARGIN.right, toY(y)]);
      write(downTexts[k], MARGIN.left - 6, toY(y), "right", "middle");
    }
    for (const [k, x] of across.entries()) write(acrossTexts[k], toX(x), height - MARGIN.bottom + 6, "center", "top");
    this.lines.forEach(({ x, low, high }, number) => {
      context.strokeStyle = context.fillStyle = color(COLORS[number % COLORS.length]);
      context.lineWidth = 1.5;
      if (this.options.bars) {
        for (let k = 0; k < low.length; k++) {
          const left = toX(x[k]);
          context.fillRect(left, toY(high[k]), Math.max(1, toX(x[k + 1]) - left - 1),
            toY(0) - toY(high[k]));
        }
        return;
      }
      context.beginPath();
      let isDown = false;
      for (let k = 0; k < low.length; k++) {
        if (!Number.isFinite(low[k])) {
          isDown = false;
          continue;
        }
        const left = toX(x[k]);
        if (isDown) context.lineTo(left, toY(low[k]));
        else context.moveTo(left, toY(low[k]));
        if (high[k] !== low[k]) context.lineTo(left, toY(high[k]));
        isDown = true;
      }
      context.stroke();
      if (low.length === 1) context.fillRect(toX(x[0]) - 2, toY(low[0]) - 2, 4, 4);
    });
    let at = MARGIN.left + 6;
    this.lines.forEach(({ name = "" }, k) => {
      context.fillStyle = color(COLORS[k % COLORS.length]);
      write(name, at, 0, "left", "top");
      at += context.measureText(name).width + 12;
    });
    if (this.cursor !== null) {
      context.strokeStyle = color("--line-2");
      rule([toX(this.cursor), 0], [toX(this.cursor), height - MARGIN.bottom]);
    }
  }

  // Position along the x axis of a pointer event.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return this.toValue(((event.clientX - box.left) * (this.drawnWidth || 600)) / box.width);
  }
}

// A line of a packet of ``line``: all values, or the extremes of each bin.
export function lineOf(packet) {
  const count = packet.arrays[0].data.length;
  const step = packet.form === "values" ? packet.step : packet.length / count;
  const x = Float64Array.from({ length: count }, (_, k) => packet.start + k * step);
  const low = packet.arrays[0].data;
  return { x, low, high: packet.form === "values" ? low : packet.arrays[1].data };
}
