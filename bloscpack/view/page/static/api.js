// Answers for the page without a server: the exports of ../api.js, from files that are read by HTTP
// ranges (?url=...) or that were dropped on the page. Nothing is uploaded.

import * as arrays from "./arrays.js";
import * as clips from "./clips.js";
import { chooser } from "./chooser.js";
import { openFile, verify } from "./files.js";

const MAX_FILES = 100;
const files = [];

function addFile(name, place) {
  if (files.length >= MAX_FILES) throw new Error(`at most ${MAX_FILES} files can be open`);
  files.push({ ordinal: files.length, name, opened: openFile(place), turn: Promise.resolve() });
}

// Files of the same site can be named by a relative URL.
function addUrl(text) {
  const url = URL.canParse(text, location.href) ? new URL(text, location.href) : null;
  if (!url || !["http:", "https:"].includes(url.protocol)) throw new Error(`${text} is not an http or https URL`);
  // Like the server, shows no query: it may hold a signature.
  addFile(url.origin + url.pathname, url.href);
}

const problems = [];
for (const url of new URLSearchParams(location.search).getAll("url")) {
  try {
    addUrl(url);
  } catch (error) {
    problems.push(error.message);
  }
}

chooser(problems, (entries) => {
  for (const entry of entries) {
    if (typeof entry === "string") addUrl(entry);
    else addFile(entry.name, entry);
  }
  dispatchEvent(new Event("files"));
  location.hash = `#/${files.length - 1}`;
});

async function row({ ordinal, name, opened }) {
  try {
    const { kind, kindName, source } = await opened;
    return { ordinal, name, kind, kind_name: kindName, size: source.size };
  } catch (error) {
    return { ordinal, name, size: null, kind: "unknown", kind_name: "not readable", error: error.message };
  }
}

async function info(file) {
  const about = await row(file);
  if (about.error) return about;
  const opened = await file.opened;
  return { ...about, ...opened.about, report: opened.report ?? null };
}

function split(path) {
  const [ordinal, view] = path.split("/");
  return [files[Number(ordinal)], view];
}

async function answer(path, query = {}, signal = undefined) {
  const [file, view] = split(path);
  const opened = await file.opened;
  const views = { array: arrays.VIEWS, archive: arrays.VIEWS, frames: clips.VIEWS }[opened.kind] ?? {};
  if (!views[view]) throw new Error(`this page has no view ${view} of the file; blpk view has more`);
  const work = () => {
    signal?.throwIfAborted();
    return views[view](opened, query, signal);
  };
  // Views of an array wait for each other: the next one finds chunks that this one has decoded.
  const isArray = views === arrays.VIEWS, result = isArray ? file.turn.then(work) : work();
  if (isArray) file.turn = result.catch(() => {});
  const found = await result;
  signal?.throwIfAborted();
  return found;
}

export async function getJson(path, query, signal) {
  if (path === "files") return { files: await Promise.all(files.map(row)), start: 0, nfiles: files.length };
  const [file, view] = split(path);
  return view === "info" ? info(file) : answer(path, query, signal);
}

export const getPacket = answer;

export function framesOf(ordinal) {
  return async function* getFrames(query, signal) {
    const opened = await files[ordinal].opened, { frames } = opened.store ? clips : arrays;
    for await (const frame of frames(opened, query)) {
      signal?.throwIfAborted();
      yield frame;
    }
  };
}

export async function* postLines(path, signal) {
  const [file] = split(path);
  const opened = await file.opened;
  for await (const line of verify(opened)) {
    signal?.throwIfAborted();
    if (line.report) opened.report = line.report;
    yield line;
  }
}
