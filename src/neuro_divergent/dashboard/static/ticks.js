// Round numbers for axes.

export function ticks(low, high, count, whole = false) {
  const rough = Math.max((high - low) / Math.max(1, count), whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= 0.8 * rough && !(whole && size % 1)) || power;
  const found = [];
  for (let number = Math.ceil(low / step); number * step <= high + step * 1e-9 && found.length < 30; number++) found.push(Number((number * step).toPrecision(12)));
  return found;
}

export function logTicks(low, high) {
  const found = [], first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const factors = last - first <= 2 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((last - first) / 7));
  for (let power = first; power <= last; power += every) for (const factor of factors) {
    const value = factor * 10 ** power;
    if (value >= low && value <= high) found.push(value);
  }
  return found.length ? found : [low, high];
}
