// Ranges, statistics and histograms of numbers, as bloscpack/view/raster.py computes them.

const BINS = 64;

// Returns the smallest and the largest finite number; null if there is none.
export function limits(data) {
  let low = Infinity, high = -Infinity;
  for (const value of data) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return low <= high ? [low, high] : null;
}

// Returns numbers as bytes, from `low` (0) to `high` (255); NaN becomes 0.
export function toBytes(data, low, high) {
  // Halves, as the difference of two finite numbers may be infinite.
  const span = high / 2 - low / 2;
  return Uint8ClampedArray.from(data, (value) => (span > 0 ? ((value / 2 - low / 2) / span) * 255 : 0) || 0);
}

// `extremes` are those of all numbers, if `data` are a sample of them.
export function histogram(data, extremes = null) {
  const finite = Float64Array.from(data).filter(Number.isFinite);
  const found = { count: data.length, nan: data.reduce((count, each) => count + Number.isNaN(each), 0), finite: finite.length };
  if (!finite.length) return found;
  const [min, max] = limits([...limits(finite), ...(extremes ?? [])]), mean = finite.reduce((sum, each) => sum + each, 0) / finite.length;
  const variance = finite.reduce((sum, each) => sum + (each - mean) ** 2, 0) / finite.length;
  const sorted = finite.slice().sort(), middle = sorted.length >> 1;
  const median = sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  const zeros = finite.reduce((count, each) => count + (each === 0), 0);
  return { ...found, min, max, mean, std: Math.sqrt(variance), median, zeros, histogram: bins(finite, min, max) };
}

function bins(finite, low, high) {
  if (!Number.isFinite(high - low) || high - low <= Math.max(Math.abs(low), Math.abs(high), 1) * 1e-12) {
    return { counts: [finite.length], edges: [low, high] };
  }
  const isWhole = high - low < BINS && finite.every(Number.isInteger);
  const [start, count] = isWhole ? [low - 0.5, high - low + 1] : [low, BINS];
  const width = isWhole ? 1 : (high - low) / BINS, counts = Array(count).fill(0);
  for (const value of finite) counts[Math.min(count - 1, Math.floor((value - start) / width))]++;
  return { counts, edges: Array.from({ length: count + 1 }, (_, k) => start + k * width) };
}
