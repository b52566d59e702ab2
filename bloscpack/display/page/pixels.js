// Frames `{ channels, width, height, data }` of 8 bits: decoded from images, and drawn on a canvas.

import { table } from "./colors.js";

// Wider pictures are about as wide as the screen has room for.
const SHARP_WIDTH = 400;

// The browser decodes JPEG and PNG, without its own colour correction.
export async function imagePixels({ type, bytes }) {
  const bitmap = await createImageBitmap(new Blob([bytes], { type }), { colorSpaceConversion: "none", premultiplyAlpha: "none" });
  const { width, height } = bitmap;
  const context = new OffscreenCanvas(width, height).getContext("2d");
  context.drawImage(bitmap, 0, 0);
  bitmap.close();
  return { channels: 4, width, height, data: new Uint8Array(context.getImageData(0, 0, width, height).data.buffer) };
}

// Writes a frame into RGBA pixels.
function toPixels({ channels, data }, pixels) {
  if (channels === 4) {
    pixels.set(data);
    return;
  }
  pixels.fill(255);
  for (let at = 0, k = 0; at < pixels.length; at += 4, k += channels) {
    for (let c = 0; c < 3; c++) pixels[at + c] = data[channels === 3 ? k + c : k];
  }
}

export function drawPixels(canvas, width, height, write) {
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  write(image.data);
  context.putImageData(image, 0, 0);
}

const LABELS = [[230, 25, 75], [60, 180, 75], [255, 225, 25], [67, 99, 216], [245, 130, 49],
  [145, 30, 180], [70, 240, 240], [240, 50, 230], [188, 246, 12], [250, 190, 190]];

// Blends another frame over RGBA pixels: labels in colours with 0 transparent, or values in colours.
function blend(pixels, { width, height }, { frame: overlay, mode, opacity }) {
  const colors = table("turbo");
  for (let y = 0; y < height; y++) {
    const row = Math.floor((y * overlay.height) / height) * overlay.width;
    for (let x = 0; x < width; x++) {
      const value = overlay.data[(row + Math.floor((x * overlay.width) / width)) * overlay.channels];
      if (mode === "labels" && value === 0) continue;
      const color = mode === "labels" ? LABELS[(value - 1) % LABELS.length]
        : colors.subarray(3 * value, 3 * value + 3);
      const at = 4 * (y * width + x);
      for (let c = 0; c < 3; c++) {
        pixels[at + c] = Math.round(pixels[at + c] * (1 - opacity) + color[c] * opacity);
      }
    }
  }
}

// Draws a frame, and over it `{ frame, mode, opacity }` or nothing.
export function drawFrame(canvas, frame, overlay = null) {
  // Pixels of small pictures stay visible; large ones are scaled smoothly.
  canvas.classList.toggle("large", frame.width > SHARP_WIDTH);
  drawPixels(canvas, frame.width, frame.height, (pixels) => {
    toPixels(frame, pixels);
    if (overlay) blend(pixels, frame, overlay);
  });
}

// Draws the frames of a stream as they come.
export async function drawFrames(canvas, frames) {
  for await (const frame of frames) {
    if (frame.error) throw new Error(frame.error);
    drawFrame(canvas, frame);
    canvas.dataset.drawn = frame.index;
  }
}
