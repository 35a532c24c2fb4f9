/** Alarm load, of what the journal tells of some days and of what is active now; pure. */
import type { ShownCase } from "../wire/words";
import { FLOOD, PRIORITIES, priorityOf, shelfOf, type Priority } from "./order";

const TEN_MS = 600_000;
const DAY_MS = 86_400_000;

/** Answer of the face's method `load`. */
export interface LoadTold {
  from_ms: number;
  per_10min: number[];
  by_severity: Record<string, number>;
  often: { item: string; condition: string; count: number }[];
  is_cut: boolean;
  lacks: string[];
}

export interface Bar {
  fromMs: number;
  count: number;
}

export interface Load {
  all: number;
  perDay: number;
  perTen: Bar[];
  /** By the day that `dayOf` names. */
  perDays: Bar[];
  most: Bar;
  floodPercent: number;
  byPriority: Record<Priority, number>;
  standing: number;
  old: number;
}

export function loadOf(told: LoadTold, days: number, dayOf: (ms: number) => string, cases: Iterable<ShownCase>, nowMs: number): Load {
  const perTen = told.per_10min.map((count, at) => ({ fromMs: told.from_ms + at * TEN_MS, count }));
  const byDay = new Map<string, Bar>();
  for (const one of perTen) {
    const day = byDay.get(dayOf(one.fromMs));
    if (day) day.count += one.count;
    else byDay.set(dayOf(one.fromMs), { ...one });
  }
  const severities = Object.entries(told.by_severity);
  const share = (one: Priority): number =>
    severities.filter(([severity]) => priorityOf(Number(severity)) === one).reduce((sum, [, count]) => sum + count, 0);
  const byPriority = Object.fromEntries(PRIORITIES.map((one) => [one, share(one)])) as Record<Priority, number>;
  const all = told.per_10min.reduce((sum, one) => sum + one, 0);
  const standing = [...cases].filter((one) => one.is_active && shelfOf(one) === "active" && !one.is_suppressed);
  return {
    all, perTen, byPriority, perDay: all / days, perDays: [...byDay.values()],
    most: perTen.reduce((one, other) => (other.count > one.count ? other : one), { fromMs: 0, count: 0 }),
    floodPercent: (100 * perTen.filter((one) => one.count >= FLOOD).length) / (perTen.length || 1),
    standing: standing.length,
    old: standing.filter((one) => one.raised_ms < nowMs - DAY_MS).length,
  };
}
