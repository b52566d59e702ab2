// Colour maps as tables of 256 colours.

const ANCHORS = {
  viridis: "440154 482878 3e4989 31688e 26828e 1f9e89 35b779 6ece58 b5de2b fde725",
  magma: "000004 180f3d 440f76 721f81 9e2f7f cd4071 f1605d fd9668 feca8d fcfdbf",
  gray: "000000 ffffff",
  "red-blue": "3b4cc0 7b9ff9 dddddd f4987a b40426",
  turbo: "30123b 4662d7 36aaf9 1ae4b6 72fe5e c8ef34 faba39 f66b19 ca2a04 7a0403",
};
export const NAMES = Object.keys(ANCHORS);

// Colour of values that are not finite.
const MISSING = [128, 128, 128, 255];

const tables = new Map();

export function table(name) {
  if (!tables.has(name)) {
    const anchors = ANCHORS[name].split(" ").map((text) =>
      [0, 2, 4].map((at) => parseInt(text.slice(at, at + 2), 16)));
    const colors = new Uint8Array(3 * 256);
    for (let k = 0; k < 256; k++) {
      const place = (k / 255) * (anchors.length - 1);
      const at = Math.min(Math.floor(place), anchors.length - 2);
      for (let c = 0; c < 3; c++) {
        const low = anchors[at][c];
        colors[3 * k + c] = Math.round(low + (anchors[at + 1][c] - low) * (place - at));
      }
    }
    tables.set(name, colors);
  }
  return tables.get(name);
}

// Writes the colours of `values` into RGBA pixels.
export function paint(values, low, high, name, pixels) {
  const colors = table(name);
  // Halves, as the difference of two finite numbers may be infinite.
  const scale = high > low ? 255 / (high / 2 - low / 2) : 0;
  for (let k = 0; k < values.length; k++) {
    const value = values[k];
    if (Number.isFinite(value)) {
      const at = 3 * Math.min(255, Math.max(0, Math.round((value / 2 - low / 2) * scale)));
      pixels[4 * k] = colors[at];
      pixels[4 * k + 1] = colors[at + 1];
      pixels[4 * k + 2] = colors[at + 2];
      pixels[4 * k + 3] = 255;
    } else {
      pixels.set(MISSING, 4 * k);
    }
  }
}
