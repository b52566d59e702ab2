// Clips: a list that can be searched, with thumbnails, and a player for those that are chosen.

import { framesOf, getJson, getPacket } from "./api.js";
import { button, el, facts, labelled, Latest, problem, section } from "./dom.js";
import { drawFrame } from "./pixels.js";
import { Player } from "./player.js";

const PAGE = 60;
const MAX_SIDE_BY_SIDE = 4;

function thumbnail(file, path, query, label) {
  const canvas = el("canvas", { role: "img", ariaLabel: label });
  canvas.width = 1;
  canvas.height = 1;
  const load = async () => {
    try {
      const { arrays: [{ shape, data }] } = await getPacket(`${file}/${path}`, query);
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

// A tile of a list: a thumbnail, the id, and what it is.
export function tile(file, item, kind, about, pick) {
  const choose = button("", () => pick(item), { ariaLabel: `${kind} ${item.id}: ${about}` });
  choose.dataset.ordinal = item.ordinal;
  choose.append(thumbnail(file, "thumbnail", { clip: item.ordinal }, ""), el("span", {}, item.id),
    el("span", { className: "quiet" }, about));
  return el("li", {}, choose);
}

export function markTiles(shown, isChosen) {
  for (const each of shown.querySelectorAll("button[data-ordinal]")) {
    each.setAttribute("aria-pressed", String(isChosen(Number(each.dataset.ordinal))));
  }
}

export function pager(state, total, page, load) {
  const turn = (by) => () => {
    state.start = Math.max(0, state.start + by);
    load();
  };
  if (total <= page) {
    const text = total ? `${total} in all` : "none";
    return el("p", { className: "quiet" }, text);
  }
  return el("div", { className: "controls" },
    button("Previous", turn(-page), { disabled: state.start === 0 }),
    el("span", { className: "quiet" }, `${state.start + 1} to ${Math.min(state.start + page, total)} of ${total}`),
    button("Next", turn(page), { disabled: state.start + page >= total }));
}

export function showClips(body, file) {
  const ordinal = file.ordinal;
  const list = new Latest();
  const detail = new Latest();
  const state = { search: "", start: 0, chosen: [], together: false };
  const stage = section("Player", el("p", { className: "quiet" }, "Choose a clip."));
  const shown = el("div");
  let player = null;
  let clips = [];

  const search = el("input", { type: "search" });
  search.addEventListener("input", () => {
    state.search = search.value;
    state.start = 0;
    load();
  });
  const together = el("input", { type: "checkbox" });
  together.addEventListener("change", () => (state.together = together.checked));
  body.append(el("div", { className: "split" }, stage, section("Clips",
    el("div", { className: "controls" }, labelled("Search", search), labelled("Side by side", together)), shown)));

  function load() {
    list.run(async (signal) => {
      const found = await getJson(`${ordinal}/clips`, { search: state.search, start: state.start, count: PAGE }, signal);
      clips = found.clips;
      const items = el("ul", { className: "thumbs" });
      for (const clip of clips) {
        const about = clip.error ?? `${clip.nframes} frames, ${clip.shape.slice(1).join(" x ")} ${clip.dtype}`;
        items.append(tile(ordinal, clip, "Clip", about, pick));
      }
      shown.replaceChildren(pager(state, found.total, PAGE, load), items);
      mark();
      if (!state.chosen.length && clips.length) pick(clips[0]);
    }, (error) => shown.replaceChildren(problem(error)));
  }

  function mark() {
    markTiles(shown, (clip) => state.chosen.includes(clip));
  }

  function pick(clip) {
    if (!state.together) state.chosen = [clip.ordinal];
    else if (state.chosen.includes(clip.ordinal)) state.chosen = state.chosen.filter((each) => each !== clip.ordinal);
    else state.chosen = [...state.chosen, clip.ordinal].slice(-MAX_SIDE_BY_SIDE);
    mark();
    play();
  }

  function play() {
    player?.close();
    detail.run(async (signal) => {
      const chosen = await Promise.all(state.chosen.map((clip) => getJson(`${ordinal}/clip`, { clip }, signal)));
      stage.replaceChildren(el("h3", {}, "Player"));
      const playable = chosen.filter((clip) => clip.nframes > 0);
      if (playable.length) {
        player = new Player(stage, framesOf(ordinal), playable, clips.filter((each) => !each.error && each.nframes > 0));
      }
      for (const clip of chosen) {
        stage.append(el("details", { open: chosen.length === 1 }, el("summary", {}, `About ${clip.id}`),
          ...(clip.error ? [problem(clip.error)] : []),
          facts([["Frames", clip.nframes], ["Shape", clip.shape.slice(1).join(" x ")], ["Items", clip.dtype],
            ["Frames per second", clip.fps], ...Object.entries(clip.meta ?? {})])));
      }
    }, (error) => stage.replaceChildren(el("h3", {}, "Player"), problem(error)));
  }

  load();
  return () => {
    list.stop();
    detail.stop();
    player?.close();
  };
}
