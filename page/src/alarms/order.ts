/** What is wrong, in the order that is the same everywhere: not heard, priority, newest. Pure. */
import { nodeOf } from "../wire/fold";
import type { ShownCase } from "../wire/words";

export type Priority = 1 | 2 | 3;
export const PRIORITIES: readonly Priority[] = [1, 2, 3];

export const priorityOf = (severity: number): Priority => (severity >= 800 ? 1 : severity >= 600 ? 2 : 3);

/** Where a case is listed. */
export type Shelf = "active" | "shelved" | "out";

export function shelfOf(one: ShownCase): Shelf {
  if (one.is_out_of_service) return "out";
  return one.shelving === "unshelved" ? "active" : "shelved";
}

/** True: somebody is asked to acknowledge it. */
export const asks = (one: ShownCase): boolean =>
  !one.is_acked && !one.is_suppressed && !one.is_unasked && shelfOf(one) === "active";

/** Rank of what nobody acknowledged, then of what somebody did, then of what nobody is asked about. */
const rank = (one: ShownCase): number => (asks(one) ? 0 : one.is_suppressed ? 2 : 1);

export function worseFirst(one: ShownCase, other: ShownCase): number {
  return (
    rank(one) - rank(other) ||
    priorityOf(one.severity) - priorityOf(other.severity) ||
    other.raised_ms - one.raised_ms ||
    other.case_id - one.case_id
  );
}

export interface Counts {
  /** By priority: not acknowledged, of all that are listed as active. */
  unacked: Record<Priority, number>;
  active: Record<Priority, number>;
  shelved: number;
  out: number;
  suppressed: number;
}

export function count(cases: Iterable<ShownCase>): Counts {
  const found: Counts = {
    unacked: { 1: 0, 2: 0, 3: 0 }, active: { 1: 0, 2: 0, 3: 0 }, shelved: 0, out: 0, suppressed: 0,
  };
  for (const one of cases) {
    const shelf = shelfOf(one);
    const priority = priorityOf(one.severity);
    if (shelf !== "active") found[shelf === "out" ? "out" : "shelved"] += 1;
    else if (one.is_suppressed) found.suppressed += 1;
    else {
      found.active[priority] += 1;
      if (asks(one)) found.unacked[priority] += 1;
    }
  }
  return found;
}

/** Case for the banner: the newest of the worst that asks; else the newest that is active. */
export function foremost(cases: Iterable<ShownCase>): ShownCase | null {
  const listed = [...cases].filter((one) => shelfOf(one) === "active" && !one.is_suppressed);
  const asking = listed.filter(asks).sort(worseFirst);
  if (asking[0]) return asking[0];
  return listed.sort((one, other) => other.raised_ms - one.raised_ms)[0] ?? null;
}

/** Those for which the horn sounds, from the priority `least` on; 0: none. */
export const audible = (cases: Iterable<ShownCase>, least: number): ShownCase[] =>
  [...cases].filter((one) => asks(one) && priorityOf(one.severity) <= least);

/** Ten or more that were raised within ten minutes are a flood. */
export const FLOOD = 10;
export const FLOOD_MS = 600_000;

export const newOnes = (cases: Iterable<ShownCase>, nowMs: number): ShownCase[] =>
  [...cases].filter((one) => one.raised_ms > nowMs - FLOOD_MS && shelfOf(one) === "active" && !one.is_suppressed);

export interface Filter {
  text: string;
  node: string;
  isUnackedOnly: boolean;
}

export function matches(one: ShownCase, filter: Filter, label: string): boolean {
  if (filter.isUnackedOnly && !asks(one)) return false;
  const node = nodeOf(one.item);
  if (filter.node && node !== filter.node && !node.startsWith(`${filter.node}/`)) return false;
  const text = filter.text.trim().toLowerCase();
  return !text || `${one.item} ${one.description} ${label} ${one.comment}`.toLowerCase().includes(text);
}
