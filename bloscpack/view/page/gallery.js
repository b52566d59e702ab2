// Benzina datasets: thumbnails by split and target, and the details of one sample.

import { framesOf, getJson } from "./api.js";
import { el, facts, labelled, Latest, problem, section, select, size } from "./dom.js";
import { drawFrames } from "./pixels.js";
import { TileList } from "./tiles.js";

export function showGallery(body, file) {
  const ordinal = file.ordinal;
  const detail = new Latest();
  const stage = section("Sample", el("p", { className: "quiet" }, "Choose a sample."));
  const controls = el("div", { className: "controls" });
  const list = new TileList(ordinal, "samples", "Sample", {
    about: (sample) => `target ${sample.target}, ${size(sample.size)}`, pick, shown: ([first]) => first && pick(first) });
  body.append(el("div", { className: "split gallery" }, stage, section("Samples", controls, list.element)));

  async function open() {
    await list.latest.run(async (signal) => {
      const about = await getJson(`${ordinal}/dataset`, {}, signal);
      const splits = Object.entries(about.splits ?? {}).map(([name, [from, to]]) => [name, `${name} (${to - from})`]);
      const targets = (about.targets ?? []).map(([target, count]) => [String(target), `${target} (${count})`]);
      const change = (name) => (value) => list.change(name, value);
      const search = el("input", { type: "search", oninput: () => list.change("search", search.value) });
      controls.append(labelled("Split", select([["", `all (${about.nsamples})`], ...splits], change("split"))),
        labelled("Target", select([["", "all"], ...targets], change("target"))), labelled("Search", search));
      if (about.error) controls.append(problem(about.error));
    }, (error) => list.element.replaceChildren(problem(error)));
    list.load();
  }

  function pick(sample) {
    list.mark((each) => each === sample.ordinal);
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
    list.latest.stop();
    detail.stop();
  };
}
