// Arrays of pictures in colour as a store of one clip, as PictureClip of bloscpack/view/arrays.py.

import { need } from "../format/errors.js";

const MIN_SIDE = 5, MAX_NBYTES = 256 << 20;
const product = (lengths) => lengths.reduce((found, each) => found * each, 1);

// Returns how many pictures the last axes of an array are.
export function countOf({ shape, dtype }) {
  const picture = shape.slice(-3), isColor = picture.length === 3 && (picture[2] === 3 || picture[2] === 4) &&
    dtype.kind === "u" && dtype.itemsize === 1 && Math.min(picture[0], picture[1]) >= MIN_SIDE;
  return isColor && product(picture) <= MAX_NBYTES ? product(shape.slice(0, -3)) : 0;
}

export function storeOf(array, name) {
  const nframes = countOf(array), frameShape = array.shape.slice(-3), outer = array.shape.slice(0, -3);
  need(nframes, "format", "the array has no pictures in colour");
  const frameNbytes = product(frameShape), whole = frameShape.map((length) => [0, length, 1]);
  const clip = { id: name, nframes, shape: [nframes, ...frameShape], dtype: array.dtype, frameShape, frameNbytes, meta: array.attrs };
  const placeOf = (number) => {
    const place = [];
    for (const length of [...outer].reverse()) {
      place.unshift(number % length);
      number = Math.floor(number / length);
    }
    return place;
  };
  async function readBytes(id, start, stop) {
    if (outer.length === 1) {
      const bytes = await array.read([[start, stop, 1], ...whole]);
      return Array.from({ length: stop - start }, (_, k) => bytes.subarray(k * frameNbytes, (k + 1) * frameNbytes));
    }
    const found = [];
    for (let k = start; k < stop; k++) found.push(await array.read([...placeOf(k).map((at) => [at, at + 1, 1]), ...whole]));
    return found;
  }
  return { clips: [clip], readBytes };
}
