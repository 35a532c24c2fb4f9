/** Alarm load reckoned from cases; pure. A case counts when it was raised, as often as it became active. */
import type { ShownCase } from "../wire/words";
import { priorityOf, shelfOf, type Priority } from "./order";

const TEN_MS = 600_000;
const DAY_MS = 86_400_000;
const FLOOD = 10;
const OFTEN_MAX = 10;

export interface Load {
  lastTen: number;
  day: number;
  /** The last 24 h in intervals of ten minutes. */
  perTen: { fromMs: number; count: number }[];
  floodPercent: number;
  standing: number;
  old: number;
  byPriority: Record<Priority, number>;
  often: { item: string; condition: string; count: number }[];
}

export function loadOf(cases: ShownCase[], nowMs: number): Load {
  const first = Math.floor((nowMs - DAY_MS) / TEN_MS) * TEN_MS + TEN_MS;
  const perTen = Array.from({ length: Math.floor((nowMs - first) / TEN_MS) + 1 }, (_, at) => ({ fromMs: first + at * TEN_MS, count: 0 }));
  const shown = cases.filter((one) => !one.is_unasked && !one.is_out_of_service);
  const byPriority: Record<Priority, number> = { 1: 0, 2: 0, 3: 0 };
  const often = new Map<string, { item: string; condition: string; count: number }>();
  let [lastTen, day] = [0, 0];
  for (const one of shown) {
    if (one.raised_ms < nowMs - DAY_MS) continue;
    day += 1;
    byPriority[priorityOf(one.severity)] += 1;
    if (one.raised_ms > nowMs - TEN_MS) lastTen += 1;
    const slot = perTen[Math.floor((one.raised_ms - first) / TEN_MS)];
    if (slot) slot.count += 1;
    const key = `${one.item} ${one.condition}`;
    const found = often.get(key) ?? { item: one.item, condition: one.condition, count: 0 };
    found.count += one.activations;
    often.set(key, found);
  }
  const open = shown.filter((one) => one.lifecycle_status !== "closed" && one.is_active && shelfOf(one) === "active" && !one.is_suppressed);
  return {
    lastTen, day, perTen, byPriority,
    floodPercent: (100 * perTen.filter((one) => one.count >= FLOOD).length) / perTen.length,
    standing: open.length,
    old: open.filter((one) => one.raised_ms < nowMs - DAY_MS).length,
    often: [...often.values()].sort((one, other) => other.count - one.count).slice(0, OFTEN_MAX),
  };
}
