// Benzina datasets: thumbnails by split and target, and the details of one sample.

import { framesOf, getJson } from "./api.js";
import { el, facts, labelled, Latest, problem, section, select, size } from "./dom.js";
import { markTiles, pager, tile } from "./clips.js";
import { drawFrames } from "./pixels.js";

const PAGE = 60;

export function showGallery(body, file) {
  const ordinal = file.ordinal;
  const list = new Latest();
  const detail = new Latest();
  const state = { start: 0, split: "", target: "", search: "" };
  const stage = section("Sample", el("p", { className: "quiet" }, "Choose a sample."));
  const controls = el("div", { className: "controls" });
  const shown = el("div");
  body.append(el("div", { className: "split gallery" }, stage, section("Samples", controls, shown)));

  const change = (name) => (value) => {
    state[name] = value;
    state.start = 0;
    load();
  };

  async function open() {
    await list.run(async (signal) => {
      const about = await getJson(`${ordinal}/dataset`, {}, signal);
      const splits = Object.entries(about.splits ?? {}).map(([name, [from, to]]) => [name, `${name} (${to - from})`]);
      const targets = (about.targets ?? []).map(([target, count]) => [String(target), `${target} (${count})`]);
      const search = el("input", { type: "search" });
      search.addEventListener("input", () => change("search")(search.value));
      controls.append(labelled("Split", select([["", `all (${about.nsamples})`], ...splits], change("split"))),
        labelled("Target", select([["", "all"], ...targets], change("target"))), labelled("Search", search));
      if (about.error) controls.append(problem(about.error));
    }, (error) => shown.replaceChildren(problem(error)));
    load();
  }

  function load() {
    list.run(async (signal) => {
      const found = await getJson(`${ordinal}/samples`, { ...state, count: PAGE }, signal);
      const items = el("ul", { className: "thumbs" });
      for (const sample of found.samples) {
        const about = sample.error ?? `target ${sample.target}, ${size(sample.size)}`;
        items.append(tile(ordinal, sample, "Sample", about, pick));
      }
      shown.replaceChildren(pager(state, found.total, PAGE, load), items);
      if (found.samples.length) pick(found.samples[0]);
    }, (error) => shown.replaceChildren(problem(error)));
  }

  function pick(sample) {
    markTiles(shown, (each) => each === sample.ordinal);
    detail.run(async (signal) => {
      const about = await getJson(`${ordinal}/sample`, { clip: sample.ordinal }, signal);
      const canvas = el("canvas", { className: "frame", role: "img", ariaLabel: `Sample ${about.id}` });
      stage.replaceChildren(el("h3", {}, "Sample"), canvas, facts([["Name", about.name], ["Target", about.target],
        ["Stored", `${size(about.size)} at offset ${about.offset}`], ["Shape", about.shape.slice(1).join(" x ")],
        ["Tracks", about.tracks]]));
      const query = { clip: sample.ordinal, start: 0, stop: 1 };
      await drawFrames(canvas, framesOf(ordinal)(query, signal));
    }, (error) => stage.replaceChildren(el("h3", {}, "Sample"), problem(error)));
  }

  open();
  return () => {
    list.stop();
    detail.stop();
  };
}
