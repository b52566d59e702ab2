// Appended to the script of the widgets: what its channel sends, and how replies settle.

// The first picture takes longest to decode.
let delay = 30;
globalThis.createImageBitmap = async (blob) => {
  await new Promise((resolve) => setTimeout(resolve, (delay -= 10)));
  return { width: 1, height: 1, bytes: new Uint8Array(await blob.arrayBuffer()), close() {} };
};
globalThis.OffscreenCanvas = class {
  getContext() {
    return { drawImage: (bitmap) => (this.bitmap = bitmap), getImageData: () => ({ data: this.bitmap.bytes }) };
  }
};
const sent = [], listeners = new Set(), settled = [];
const channel = new Channel({
  on: (event, listener) => listeners.add(listener), off: (event, listener) => listeners.delete(listener),
  send: (content) => sent.push(content),
});
const stale = new AbortController();
const asked = Array.from({ length: 7 }, (_, frame) => channel.ask("frame", { frame }, frame === 5 ? stale.signal : undefined)
  .then(({ picture }) => settled.push([frame, picture.data[0]]), (error) => settled.push([frame, error.name])));
const before = sent.map(({ frame }) => frame);
stale.abort();
for (let k = 0; k < 6; k++) {
  const { id, frame } = sent[k];
  const content = frame === 2 ? { id, error: "damaged" } : { id, type: "image/png" };
  for (const listener of listeners) listener(content, [new DataView(Uint8Array.of(10 * frame).buffer)]);
}
await Promise.all(asked);
channel.close();
console.log(JSON.stringify({ before, all: sent.map(({ frame }) => frame), settled, listeners: listeners.size }));
