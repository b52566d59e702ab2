// A list of thumbnails in pages.

import { getJson, getPacket } from "./api.js";
import { button, el, Latest, problem } from "./dom.js";
import { drawFrame } from "./pixels.js";

const PAGE = 60;

export class TileList {
  // Lists `view` of a file, which also names the list in its answers: items `{ ordinal, id }`. `about(item)`
  // returns a description, `pick(item)` is called for one that is clicked, `shown(items)` for each page.
  constructor(file, view, kind, { about, pick, shown }) {
    Object.assign(this, { file, view, kind, about, pick, shown, query: { start: 0 } });
    this.latest = new Latest();
    this.element = el("div");
  }

  // Lists the first page of another query.
  change(name, value) {
    this.query[name] = value;
    this.turn(-this.query.start);
  }

  turn(by) {
    this.query.start = Math.max(0, this.query.start + by);
    this.load();
  }

  load() {
    this.latest.run(async (signal) => {
      const found = await getJson(`${this.file}/${this.view}`, { ...this.query, count: PAGE }, signal);
      const items = found[this.view];
      const tiles = el("ul", { className: "thumbs" }, ...items.map((item) => this.tile(item)));
      this.element.replaceChildren(this.pager(found.total), tiles);
      this.shown(items);
    }, (error) => this.element.replaceChildren(problem(error)));
  }

  tile(item) {
    const about = item.error ?? this.about(item);
    const choose = button("", () => this.pick(item), { ariaLabel: `${this.kind} ${item.id}: ${about}` });
    choose.dataset.ordinal = item.ordinal;
    choose.append(thumbnail(this.file, item.ordinal), el("span", {}, item.id), el("span", { className: "quiet" }, about));
    return el("li", {}, choose);
  }

  mark(isChosen) {
    for (const each of this.element.querySelectorAll("button[data-ordinal]")) {
      each.setAttribute("aria-pressed", String(isChosen(Number(each.dataset.ordinal))));
    }
  }

  pager(total) {
    const { start } = this.query;
    if (total <= PAGE) return el("p", { className: "quiet" }, total ? `${total} in all` : "none");
    return el("div", { className: "controls" },
      button("Previous", () => this.turn(-PAGE), { disabled: start === 0 }),
      el("span", { className: "quiet" }, `${start + 1} to ${Math.min(start + PAGE, total)} of ${total}`),
      button("Next", () => this.turn(PAGE), { disabled: start + PAGE >= total }));
  }
}

function thumbnail(file, clip) {
  const canvas = el("canvas", { role: "img", ariaLabel: "", width: 1, height: 1 });
  const load = async () => {
    try {
      const { arrays: [{ shape, data }] } = await getPacket(`${file}/thumbnail`, { clip });
      const [height, width, channels = 1] = shape;
      drawFrame(canvas, { channels, width, height, data });
    } catch (error) {
      canvas.title = error.message;
    }
  };
  // Only those in sight are asked for.
  const observer = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting)) {
      observer.disconnect();
      load();
    }
  });
  observer.observe(canvas);
  return canvas;
}
