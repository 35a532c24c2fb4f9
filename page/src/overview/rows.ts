/** Rows of a node's card: things of the topology if it names some, else likes by name. Pure. */
import { isMeasured } from "../truth/format";
import type { Entry } from "../wire/fold";
import type { PlantObject, ShownCase } from "../wire/words";

export const ROWS_MAX = 11;

export interface Row {
  label: string;
  /** What tells the shown one from its likes. */
  small: string;
  entries: Entry[];
  kind: "bar" | "tiles" | "text";
}

const pattern = (text: string): RegExp =>
  new RegExp(`^${text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".")}$`);

/** True: the name is one of these patterns. */
export function matchesAny(name: string, patterns: readonly string[]): boolean {
  return patterns.some((one) => (one.includes("*") || one.includes("?") ? pattern(one).test(name) : one === name));
}

const kindOf = (entries: Entry[]): Row["kind"] =>
  entries.every((one) => one.item.value_type === 3) ? "tiles"
    : entries.some((one) => isMeasured(one.item)) ? "bar" : "text";

const isJudged = (one: Entry): boolean => {
  const alarm = one.item.alarm;
  return !!alarm && [alarm.hi, alarm.hi_hi, alarm.lo, alarm.lo_lo].some((limit) => typeof limit === "number");
};

/** Words that all descriptions begin with; of one kind they say the same. */
function commonText(entries: Entry[], fallback: string): string {
  const texts = entries.map((one) => one.item.description ?? "");
  const words = texts[0]!.split(" ");
  let count = words.length;
  for (const text of texts) {
    const others = text.split(" ");
    while (count > 0 && words.slice(0, count).join(" ") !== others.slice(0, count).join(" ")) count -= 1;
  }
  return words.slice(0, count).join(" ").replace(/[\s,;:]+$/, "") || fallback;
}

/** What differs between likes: `8` of `co_8`. */
const difference = (local: string): string => /\d+/.exec(local)?.[0] ?? "";

function likes(entries: Entry[]): Row[] {
  const groups = new Map<string, Entry[]>();
  for (const one of entries) {
    if (one.isRetired || one.local.includes("/")) continue;
    const stem = `${one.local.replace(/\d+/g, "#")} ${one.item.value_type === 3}`;
    groups.set(stem, [...(groups.get(stem) ?? []), one]);
  }
  return [...groups.entries()].map(([stem, found]) => ({
    label: commonText(found, stem.split(" ")[0]!.replace(/[_#]+/g, " ").trim()),
    small: "", entries: found, kind: kindOf(found),
  }));
}

/** Weight of a row when nothing says which ones matter: judged values, then devices that run, then other values. */
function weight(row: Row): number {
  const first = row.entries[0]!;
  if (row.kind === "bar" && isJudged(first)) return 0 - (first.item.alarm?.severity ?? 0) / 1000;
  if (row.kind === "tiles" && row.entries.length > 2 && !first.item.alarm && !first.item.is_writable) return 1;
  if (row.kind === "bar" && !first.item.is_writable) return 2;
  return 3;
}

/** Rows of the card of `node`. */
export function rowsOf(node: string, entries: Entry[], objects: readonly PlantObject[]): Row[] {
  const own = objects.filter((one) => one.node === node && one.name);
  if (own.length) {
    return own.map((one) => {
      const found = entries.filter((entry) => matchesAny(entry.local, one.items));
      return { label: one.label || one.name, small: "", entries: found, kind: found.length ? kindOf(found) : "text" };
    }).filter((row) => row.entries.length);
  }
  return likes(entries).sort((one, other) => weight(one) - weight(other));
}

/** So many of the rows in their order, of which no place is taken from one in alarm. */
export function placed(all: Row[], isWrong: (row: Row) => boolean, most: number): Row[] {
  const picked = [...new Set([...all.filter(isWrong), ...all])].slice(0, most);
  return all.filter((one) => picked.includes(one));
}

/** The one of a row that is shown: in alarm, else nearest to a limit, else the first. */
export function shownOf(row: Row, active: (name: string) => ShownCase | undefined): Entry {
  if (row.kind === "tiles" || row.entries.length === 1) return row.entries[0]!;
  let best = row.entries.find((one) => typeof one.value === "number") ?? row.entries[0]!;
  let most = -Infinity;
  for (const one of row.entries) {
    const near = (active(one.name)?.severity ?? 0) * 10 + nearness(one);
    if (near > most) [best, most] = [one, near];
  }
  return best;
}

/** How near a value is to its first limit: 1 at the limit, above it beyond. */
function nearness(entry: Entry): number {
  const { value, item } = entry;
  if (typeof value !== "number") return -1;
  const alarm = item.alarm ?? {};
  const high = alarm.hi ?? alarm.hi_hi;
  const low = alarm.lo ?? alarm.lo_lo;
  const up = typeof high === "number" && high !== 0 ? value / high : -Infinity;
  const down = typeof low === "number" && value !== 0 ? low / value : -Infinity;
  const near = Math.max(up, down);
  return near === -Infinity ? 0 : near;
}

/** The row with `small` set to what tells the shown one from the others. */
export const smallOf = (row: Row, shown: Entry): string =>
  row.small || (row.entries.length > 1 && row.kind === "bar" ? difference(shown.local) || shown.local : "");
