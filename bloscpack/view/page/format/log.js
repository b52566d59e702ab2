// Logs, files that change: the last intact commit leads to groups of nodes, those of arrays, and a node to
// its chunks, by pages of rows. Layout: docs/formats/log.md.

import { ReadError, isEqual, nameOf, need, safe, viewOf } from "./errors.js";
import { BytesSource } from "./source.js";
import { xxh3Digest } from "./xxh3.js";

const SLOTS = [4096, 4224], COPY = 4096, COMMIT_SIZE = 128, DATA_AT = 8448, ROW_SIZE = 20, PAGE_ROWS = 1024;
const MAX_LEAVES = 1 << 20, MAX_LISTED = 1 << 22;

// Returns the nodes {name, tree, statistics, front, end}: `statistics` is a tree or null, `front` a source, `end` that
// of all extents.
export async function readLog(source, notices) {
  const commit = await lastCommit(source, notices), end = safe(viewOf(commit).getBigUint64(24, true), "end of the log");
  const nodes = [];
  for (let left of await extentsOf(source, await leavesOf(source, commit.subarray(40, 72), end), end)) {
    while (left.length) {
      need(left.length >= 40, "format", "a node of the log is cut");
      const view = viewOf(left), flags = view.getUint16(2, true), start = 40 + 32 * flags;
      need(flags <= 1, "unsupported", `a node of the log has flags ${flags}`);
      const at = start + view.getUint16(0, true), stop = at + view.getUint32(4, true);
      need(stop <= left.length, "format", "a node of the log is cut");
      const name = nameOf(left.subarray(start, at)), front = new BytesSource(left.subarray(at, stop));
      nodes.push({ name, tree: left.subarray(8, 40), statistics: flags ? left.subarray(40, 72) : null, front, end });
      left = left.subarray(stop);
    }
  }
  return nodes;
}

// Returns the rows {at, size, digest} of the chunks of a node.
export function rowsOf(source, { tree, end }) {
  return leavesOf(source, tree, end);
}

// Returns the statistics of `nchunks` chunks of a node, 32 bytes each.
export async function statisticsOf(source, { statistics, end }, nchunks) {
  const rows = await leavesOf(source, statistics, end);
  const isSound = rows.length === Math.ceil(nchunks / 256) && rows.every(({ size }, i) => size === 32 * Math.min(256, nchunks - 256 * i));
  need(isSound, "format", "the statistics have another size");
  return new Uint8Array(await new Blob(await extentsOf(source, rows, end)).arrayBuffer());
}

async function lastCommit(source, notices) {
  const head = await source.read(0, Math.min(DATA_AT, source.size)), sequence = (commit) => viewOf(commit).getBigUint64(8, true);
  const found = [];
  for (const slot of SLOTS) {
    const places = [slot, slot + COPY].map((at) => head.subarray(at, at + COMMIT_SIZE)), commits = places.filter(isCommit);
    found.push(...commits);
    if (!commits.length) notices.add("A commit is damaged: later changes may be missing.");
  }
  need(found.length, "format", "no commit of the log is intact");
  const last = found.map(sequence).reduce((one, two) => (one > two ? one : two)), latest = found.filter((each) => sequence(each) === last);
  if (latest.some(isConfirmed)) return latest.find(isConfirmed);
  for (const commit of latest) if (await isComplete(source, commit)) return commit;
  // The next commit is only begun when the last one is durable.
  const before = found.filter((each) => sequence(each) < last).sort((one, two) => (sequence(one) > sequence(two) ? -1 : 1));
  need(before.length, "format", "the only commit of the log was not completed");
  notices.add(`Commit ${last} was not completed: the file is shown as it was before.`);
  return before[0];
}

function isConfirmed(commit) {
  return (viewOf(commit).getUint16(114, true) & 1) === 1;
}

// Whether all that a commit added is in the file, by its list.
async function isComplete(source, commit) {
  const view = viewOf(commit), list = rowAt(view, 92);
  if (!list.size) return true;
  if (list.size > MAX_LISTED) return false;
  try {
    const end = safe(view.getBigUint64(24, true), "end of the log"), [page] = await extentsOf(source, [list], end);
    const rows = rowsIn(page);
    if (rows.reduce((sum, row) => sum + row.size, list.size) > MAX_LISTED) return false;
    await extentsOf(source, rows, end);
    return true;
  } catch (error) {
    if (error instanceof ReadError) return false;
    throw error;
  }
}

function isCommit(stored) {
  return stored.length === COMMIT_SIZE && String.fromCharCode(...stored.subarray(0, 8)) === "BLPKCMIT" &&
    isEqual(xxh3Digest(stored.subarray(0, 120)), stored.subarray(120));
}

// Returns the rows of the leaves of a tree.
async function leavesOf(source, tree, end) {
  const view = viewOf(tree), depth = view.getUint32(20, true), count = safe(view.getBigUint64(24, true), "leaves of a tree");
  const countAt = (level) => Math.ceil(count / PAGE_ROWS ** level);
  need(count && countAt(depth) === 1 && (!depth || countAt(depth - 1) > 1), "format", `${count} leaves below ${depth} levels of pages`);
  need(16 * count <= source.size, "truncated", "the file is too short for its chunks");
  need(count <= MAX_LEAVES, "unsupported", `${count} chunks are more than ${MAX_LEAVES}`);
  let rows = [rowAt(view, 0)];
  for (let level = depth; level > 0; level--) {
    const pages = await extentsOf(source, rows, end);
    rows = pages.flatMap(rowsIn);
    need(rows.length === countAt(level - 1), "format", "a page of the log has another size");
  }
  for (const row of rows) checkRow(row, end);
  return rows;
}

function rowsIn(page) {
  return Array.from({ length: page.length / ROW_SIZE }, (_, i) => rowAt(viewOf(page), ROW_SIZE * i));
}

function rowAt(view, at) {
  const digest = new Uint8Array(view.buffer, view.byteOffset + at + 12, 8);
  return { at: safe(view.getBigUint64(at, true), "an offset of the log"), size: view.getUint32(at + 8, true), digest };
}

function checkRow({ at, size }, end) {
  need(at >= DATA_AT && at + size <= end, "format", `bytes ${at} to ${at + size} are not between ${DATA_AT} and ${end}`);
}

// Returns the bytes of pages or groups.
async function extentsOf(source, rows, end) {
  for (const row of rows) checkRow(row, end);
  const found = await source.readAll(rows.map(({ at, size }) => [at, size]));
  found.forEach((bytes, i) => need(isEqual(xxh3Digest(bytes), rows[i].digest), "checksum", `the log is damaged at ${rows[i].at}`));
  return found;
}
