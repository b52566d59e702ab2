// What the views show, from the server. Every view asks through this module, and the static page puts
// static/api.js in its place: getJson, getPacket, framesOf and postLines. A file is named by its ordinal.

const KEY = `blpk-view:${location.pathname}`;

// The token is in the URL once; then it is kept for this tab, out of sight and of bookmarks.
function takeToken() {
  const url = new URL(location.href);
  const token = url.searchParams.get("token");
  if (token !== null) {
    sessionStorage.setItem(KEY, token);
    url.searchParams.delete("token");
    history.replaceState(null, "", url);
  }
  return token ?? sessionStorage.getItem(KEY) ?? "";
}

const token = takeToken();

async function ask(path, query = {}, options = {}) {
  const url = new URL(`api/${path}`, location.href);
  url.hash = "";
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  const headers = { Authorization: `Bearer ${token}` };
  const response = await fetch(url, { ...options, headers });
  if (response.ok) return response;
  let message = `the server answered ${response.status}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // Not JSON: the status says enough.
  }
  throw new Error(message);
}

export async function getJson(path, query, signal) {
  return (await ask(path, query, { signal })).json();
}

const TYPES = {
  "|u1": Uint8Array, "|i1": Int8Array, "<u2": Uint16Array, "<i2": Int16Array,
  "<u4": Uint32Array, "<i4": Int32Array, "<f4": Float32Array, "<f8": Float64Array,
};

// Returns the document of a packet, with its arrays as `{ shape, data }`.
export async function getPacket(path, query, signal) {
  const buffer = await (await ask(path, query, { signal })).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  head.arrays = head.arrays.map(({ dtype, shape }) => {
    const Type = TYPES[dtype];
    const count = shape.reduce((product, each) => product * each, 1);
    const data = new Type(buffer, at, count);
    at += Math.ceil(data.byteLength / 8) * 8; // typed arrays start at a multiple of their items
    return { shape, data };
  });
  return head;
}

// Yields the blocks of a response as they arrive.
async function* getBlocks(path, query, signal, options = {}) {
  const response = await ask(path, query, { ...options, signal });
  const reader = response.body.getReader();
  try {
    for (let block; !(block = await reader.read()).done;) yield block.value;
  } finally {
    reader.cancel().catch(() => {});
  }
}

// The header of a frame: index, channels, width, height and size; see bloscpack/view/clips.py.
const HEADER = 20;

// Returns a function of the frames of a file, for the player.
export function framesOf(file) {
  return async function* getFrames(query, signal) {
    const blocks = getBlocks(`${file}/frames`, query, signal);
    let rest = new Uint8Array(0);
    // Returns `count` bytes; null at the end.
    const take = async (count) => {
      const taken = new Uint8Array(count);
      for (let at = 0; at < count;) {
        if (!rest.length) {
          const { done, value } = await blocks.next();
          if (done && !at) return null;
          if (done) throw new Error("the server ended within a frame");
          rest = value;
        }
        const some = rest.subarray(0, count - at);
        taken.set(some, at);
        at += some.length;
        rest = rest.subarray(some.length);
      }
      return taken;
    };
    try {
      for (let head; (head = await take(HEADER));) {
        const [index, channels, width, height, nbytes] = new Uint32Array(head.buffer);
        const data = await take(nbytes);
        if (!data) throw new Error("the server ended within a frame");
        yield channels ? { index, channels, width, height, data } : { index, error: new TextDecoder().decode(data) };
      }
    } finally {
      blocks.return();
    }
  };
}

export async function* postLines(path, signal) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const block of getBlocks(path, {}, signal, { method: "POST" })) {
    text += decoder.decode(block, { stream: true });
    const lines = text.split("\n");
    text = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}
