// Clips: a list that can be searched, with thumbnails, and a player for those that are chosen.

import { framesOf, getJson } from "./api.js";
import { el, facts, labelled, Latest, problem, section } from "./dom.js";
import { Player } from "./player.js";
import { TileList } from "./tiles.js";

const MAX_SIDE_BY_SIDE = 4;

export function showClips(body, file) {
  const ordinal = file.ordinal;
  const detail = new Latest();
  const stage = section("Player", el("p", { className: "quiet" }, "Choose a clip."));
  const list = new TileList(ordinal, "clips", "Clip", {
    about: (clip) => `${clip.nframes} frames, ${clip.shape.slice(1).join(" x ")} ${clip.dtype}`, pick, shown });
  let player = null;
  let clips = [];
  let chosen = [];

  const search = el("input", { type: "search", oninput: () => list.change("search", search.value) });
  const together = el("input", { type: "checkbox" });
  body.append(el("div", { className: "split" }, stage, section("Clips",
    el("div", { className: "controls" }, labelled("Search", search), labelled("Side by side", together)), list.element)));

  function shown(found) {
    clips = found;
    mark();
    if (!chosen.length && clips.length) pick(clips[0]);
  }

  function mark() {
    list.mark((clip) => chosen.includes(clip));
  }

  function pick(clip) {
    if (!together.checked) chosen = [clip.ordinal];
    else if (chosen.includes(clip.ordinal)) chosen = chosen.filter((each) => each !== clip.ordinal);
    else chosen = [...chosen, clip.ordinal].slice(-MAX_SIDE_BY_SIDE);
    mark();
    play();
  }

  function play() {
    player?.close();
    detail.run(async (signal) => {
      const about = await Promise.all(chosen.map((clip) => getJson(`${ordinal}/clip`, { clip }, signal)));
      stage.replaceChildren(el("h3", {}, "Player"));
      const playable = about.filter((clip) => clip.nframes > 0);
      if (playable.length) {
        player = new Player(stage, framesOf(ordinal), playable, clips.filter((each) => !each.error && each.nframes > 0));
      }
      for (const clip of about) {
        stage.append(el("details", { open: about.length === 1 }, el("summary", {}, `About ${clip.id}`),
          clip.error ? problem(clip.error) : null,
          facts([["Frames", clip.nframes], ["Shape", clip.shape.slice(1).join(" x ")], ["Items", clip.dtype],
            ["Frames per second", clip.fps], ...Object.entries(clip.meta ?? {})])));
      }
    }, (error) => stage.replaceChildren(el("h3", {}, "Player"), problem(error)));
  }

  list.load();
  return () => {
    list.latest.stop();
    detail.stop();
    player?.close();
  };
}
