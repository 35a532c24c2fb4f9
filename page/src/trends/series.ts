/** Points of the pens: what the history tells in intervals, and after it what was heard since. Pure. */
import type { Band, TrendAnswer } from "../wire/station";
import type { Past } from "../wire/past";

export interface Pen {
  mean: (number | null)[];
  min: (number | null)[];
  max: (number | null)[];
  quality: (number | null)[];
}

export interface Drawn {
  times: number[];
  pens: Map<string, Pen>;
  /** Up to here the history is complete; 0: nothing is known of that. */
  completeMs: number;
  /** Several samples stand behind a point, so that a band tells more than a line. */
  hasBand: boolean;
}

const empty: Band = { min: [], max: [], first: [], last: [], mean: [], quality: [] };

/**
 * Lays the history of an answer, and what was heard after it, on one row of times within `fromMs`..`toMs`.
 * `endOf`: time after which nothing is known of an item, since its node is not heard.
 */
export function drawn(
  names: readonly string[], answer: TrendAnswer | null, pastOf: (name: string) => Past | undefined,
  fromMs: number, toMs: number, endOf: (name: string) => number = () => Infinity,
): Drawn {
  const times: number[] = [];
  const told = answer?.times_ms ?? [];
  for (const one of told) if (one >= fromMs && one <= toMs) times.push(one);
  const skipped = told.findIndex((one) => one >= fromMs);
  const count = times.length;
  const lastTold = told.at(-1) ?? -Infinity;
  const later = new Set<number>();
  for (const name of names) {
    for (const one of pastOf(name)?.times ?? []) if (one > lastTold && one >= fromMs && one <= toMs) later.add(one);
  }
  times.push(...[...later].sort((one, other) => one - other));
  if (toMs > (times.at(-1) ?? Infinity) && names.some(pastOf)) times.push(toMs);
  const pens = new Map<string, Pen>();
  let hasBand = false;
  for (const name of names) {
    const band = answer?.pens[name] ?? empty;
    const cut = <Value>(list: Value[]): Value[] => (skipped < 0 ? [] : list.slice(skipped, skipped + count));
    const pen: Pen = {
      mean: cut(band.mean), min: cut(band.min), max: cut(band.max), quality: cut(band.quality),
    };
    if (!pen.mean.length) for (const list of [pen.mean, pen.min, pen.max, pen.quality]) list.length = count;
    for (const list of [pen.mean, pen.min, pen.max, pen.quality]) for (let at = 0; at < count; at += 1) list[at] ??= null;
    hasBand ||= pen.min.some((one, at) => one !== null && one !== pen.max[at]);
    // A value holds until the next one, so that later points of others do not tear this line.
    const past = pastOf(name);
    let at = 0;
    let value = cut(band.last).at(-1) ?? null;
    const isTold = value !== null;
    for (const time of times.slice(count)) {
      while (past && at < past.times.length && past.times[at]! <= time) {
        if (past.times[at]! > lastTold || !isTold) value = past.values[at]!;
        at += 1;
      }
      const told = time > endOf(name) ? null : value;
      for (const list of [pen.mean, pen.min, pen.max]) list.push(told);
      pen.quality.push(told === null ? null : 0);
    }
    pens.set(name, pen);
  }
  return { times, pens, completeMs: answer?.complete_to_ms ?? 0, hasBand };
}

/** Runs in which none of these pens knows anything: gaps. */
export function gapsOf(times: readonly number[], pens: readonly Pen[], fromMs: number, toMs: number): [number, number][] {
  const gaps: [number, number][] = [];
  let from: number | null = fromMs;
  let last = fromMs;
  times.forEach((time, at) => {
    const isKnown = pens.some((one) => one.mean[at] !== null && one.mean[at] !== undefined);
    if (isKnown && from !== null) {
      if (time > from) gaps.push([from, time]);
      from = null;
    } else if (!isKnown) from ??= last;
    last = time;
  });
  if (from !== null && toMs > from) gaps.push([from, toMs]);
  // Less than two intervals is the edge of the range, not a gap.
  const step = times.length > 1 ? (times.at(-1)! - times[0]!) / (times.length - 1) : 0;
  return gaps.filter(([a, b]) => b - a > 2 * step);
}

export type Statistics = Record<"least" | "most" | "mean", number | null>;

export function statistics(pen: Pen): Statistics {
  let least: number | null = null;
  let most: number | null = null;
  let sum = 0;
  let count = 0;
  pen.mean.forEach((mean, at) => {
    const min = pen.min[at] ?? mean;
    const max = pen.max[at] ?? mean;
    if (typeof min === "number") least = least === null ? min : Math.min(least, min);
    if (typeof max === "number") most = most === null ? max : Math.max(most, max);
    if (typeof mean === "number") [sum, count] = [sum + mean, count + 1];
  });
  return { least, most, mean: count ? sum / count : null };
}

const cell = (text: string): string => (/[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);

/** What is drawn, as a table: a time and a column for each pen. A name that a spreadsheet would reckon is quoted. */
export function csv(shown: Drawn): string {
  const names = [...shown.pens.keys()];
  const safe = (name: string): string => cell(/^[=+\-@]/.test(name) ? `'${name}` : name);
  const lines = [["time", ...names.map(safe)].join(",")];
  shown.times.forEach((time, at) => {
    lines.push([new Date(time).toISOString(), ...names.map((one) => shown.pens.get(one)!.mean[at] ?? "")].join(","));
  });
  return `${lines.join("\r\n")}\r\n`;
}
