// The page: the list of files, and the view of the one that the address names (#/ORDINAL/TAB). The modules
// that draw (axes, colors, dom, pixels, player, plot) are in bloscpack/display/page, and served beside this one.

import { getJson } from "./api.js";
import { button, el, problem, size } from "./dom.js";
import { showArray } from "./arrays.js";
import { showClips } from "./clips.js";
import { showGallery } from "./gallery.js";
import { showRecording } from "./recordings.js";
import { showFile } from "./filepage.js";

// Tabs by kind of file; other kinds hold clips.
const VIEWS = {
  unknown: [],
  array: [["Array", showArray]],
  archive: [["Arrays", showArray]],
  vrs: [["Recording", showRecording], ["Images", showClips]],
  bzna: [["Gallery", showGallery]],
};

const KINDS = { archive: "arrays", frames: "clips", gulp: "Gulp clips", vrs: "recording", bzna: "image dataset" };

const main = document.getElementById("main");
const nav = document.getElementById("files");
let files = [];
let close = () => {};

function shortName(name) {
  return name.split("/").filter(Boolean).slice(-1)[0] ?? name;
}

function listFiles(current) {
  const list = el("ul");
  for (const file of files) {
    const attributes = { href: `#/${file.ordinal}`, title: file.name, ariaCurrent: file.ordinal === current ? "page" : null };
    const about = [KINDS[file.kind] ?? file.kind, size(file.size)].filter(Boolean).join(", ");
    list.append(el("li", {}, el("a", attributes, shortName(file.name), el("small", {}, about))));
  }
  nav.replaceChildren(list);
}

function show() {
  close();
  close = () => {};
  if (!files.length) {
    listFiles(0);
    main.replaceChildren(el("p", { className: "quiet" }, "No file is open."));
    return;
  }
  const [, ordinal = "0", tab = ""] = location.hash.split("/");
  const file = files[Number(ordinal)] ?? files[0];
  listFiles(file.ordinal);
  document.title = `${shortName(file.name)} - blpk view`;
  document.getElementById("place").textContent = `${files.length} ${files.length === 1 ? "file" : "files"}`;
  const tabs = [...(VIEWS[file.kind] ?? [["Clips", showClips]]), ["File", showFile]];
  const chosen = tabs.find(([name]) => name === tab) ?? tabs[0];
  const bar = el("div", { className: "tabs", role: "tablist", ariaLabel: "Views" });
  for (const [name] of tabs) {
    bar.append(button(name, () => (location.hash = `#/${file.ordinal}/${name}`),
      { role: "tab", ariaSelected: String(name === chosen[0]) }));
  }
  const body = el("div", { role: "tabpanel", ariaLabel: chosen[0] });
  main.replaceChildren(el("h2", {}, file.name), bar, body);
  close = chosen[1](body, file) ?? (() => {});
}

async function load() {
  try {
    const first = await getJson("files");
    files = first.files;
    while (files.length < first.nfiles) {
      files.push(...(await getJson("files", { start: files.length })).files);
    }
  } catch (error) {
    main.replaceChildren(problem(error));
    return;
  }
  show();
}

addEventListener("hashchange", () => {
  show();
  main.focus();
});
// Without a server, files can be added.
addEventListener("files", load);
load();
