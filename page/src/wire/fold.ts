/** What the page sees: the fold of all views since the last whole one. Items it saw before are kept, not live. */
import type { DataItem, ShownCase, View } from "./words";

export type Shown = boolean | number | string | null;

export interface Entry {
  /** Full name, `node:local`. */
  name: string;
  node: string;
  local: string;
  item: DataItem;
  value: Shown;
  quality: number;
  /** Time of the source in ms; 0: no value yet. */
  sourceMs: number;
  /** False: the present view does not have it, so its value is of before. */
  isLive: boolean;
  isRetired: boolean;
  /** Places behind the point that its values have needed. */
  places: number;
}

export interface Sight {
  items: Map<string, Entry>;
  keys: Map<number, Entry>;
  cases: Map<string, ShownCase>;
  /** Nodes that are not heard, with the time since when; 0: never. */
  stale: Record<string, number>;
  forced: Set<string>;
  /** Counts changes of the set of items. */
  catalogue: number;
  /** True: a whole view came. */
  isKnown: boolean;
}

export const emptySight = (): Sight => ({
  items: new Map(), keys: new Map(), cases: new Map(), stale: {}, forced: new Set(),
  catalogue: 0, isKnown: false,
});

/** The id of a node has no colon; the name of an item may have one. */
export const nodeOf = (name: string): string => name.slice(0, Math.max(0, name.indexOf(":")));
export const localOf = (name: string): string => name.slice(name.indexOf(":") + 1);
export const caseKey = (one: ShownCase): string => `${nodeOf(one.item)}#${one.case_id}`;

const PLACES_MAX = 3;
const DIGITS = 4;

/** Places that a number needs to be told from its neighbours, as far as anybody reads them. */
export function placesOf(value: number): number {
  if (!Number.isFinite(value) || Number.isInteger(value)) return 0;
  const whole = Math.max(1, Math.trunc(Math.abs(value)).toString().length);
  const most = Math.min(PLACES_MAX, Math.max(1, DIGITS - whole));
  const text = value.toFixed(most).replace(/0+$/, "");
  return text.length - text.indexOf(".") - 1;
}

export interface Heard {
  entry: Entry;
  value: Shown;
}

/** Takes up one view; returns the values that were heard. */
export function fold(sight: Sight, view: View): Heard[] {
  if (view.is_whole) {
    for (const entry of sight.keys.values()) entry.isLive = false;
    sight.keys.clear();
    sight.cases.clear();
    sight.isKnown = true;
  }
  for (const one of view.items ?? []) {
    const name = `${one.node}:${one.item.name}`;
    const before = sight.items.get(name);
    const entry: Entry = before ?? {
      name, node: one.node, local: one.item.name, item: one.item, value: null, quality: 0, sourceMs: 0,
      isLive: true, isRetired: false, places: 0,
    };
    if (!before || before.isRetired !== !!one.is_retired) sight.catalogue += 1;
    entry.item = one.item;
    entry.isLive = true;
    entry.isRetired = !!one.is_retired;
    sight.items.set(name, entry);
    sight.keys.set(one.key, entry);
  }
  const heard: Heard[] = [];
  for (const [key, value, quality, sourceMs] of view.values ?? []) {
    const entry = sight.keys.get(key);
    if (!entry) continue;
    entry.value = value;
    entry.quality = quality;
    entry.sourceMs = sourceMs;
    if (typeof value === "number" && entry.item.value_type === 1) {
      entry.places = Math.max(entry.places, placesOf(value));
    }
    heard.push({ entry, value });
  }
  for (const one of view.cases ?? []) {
    if (one.lifecycle_status === "closed") sight.cases.delete(caseKey(one));
    else sight.cases.set(caseKey(one), one);
  }
  if (view.stale) sight.stale = view.stale;
  if (view.forced) sight.forced = new Set(view.forced);
  return heard;
}

/** True: the node, or one above it, is not heard. */
export function isNotHeard(sight: Sight, node: string): boolean {
  return notHeardSince(sight, node) !== null;
}

/** Time since which the node is not heard; 0: never; null: it is heard. */
export function notHeardSince(sight: Sight, node: string): number | null {
  for (let one = node; one; one = one.slice(0, Math.max(0, one.lastIndexOf("/")))) {
    const since = sight.stale[one];
    if (since !== undefined) return since;
  }
  return null;
}
