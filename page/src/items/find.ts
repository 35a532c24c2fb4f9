/** Search in the items: words or patterns with `*`, separated by commas; and the filters beside it. Pure. */
import type { Entry } from "../wire/fold";
import type { Trouble } from "../marks/marks";

export const FILTERS = ["all", "abnormal", "forced", "bad", "old", "set"] as const;
export type ItemFilter = (typeof FILTERS)[number];

/** What one word means: `co_*` is a pattern of the local or full name, `monoxide` a part of name or description. */
export function finder(text: string): (one: Entry) => boolean {
  const tests = text.split(",").map((word) => word.trim().toLowerCase()).filter((word) => word).map((word) => {
    if (!word.includes("*") && !word.includes("?")) {
      return (one: Entry) => one.name.toLowerCase().includes(word) || (one.item.description ?? "").toLowerCase().includes(word);
    }
    const source = word.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    const pattern = new RegExp(`^${source}$`, "i");
    return (one: Entry) => pattern.test(one.local) || pattern.test(one.name);
  });
  return (one) => !tests.length || tests.some((test) => test(one));
}

export interface ItemState {
  trouble: Trouble;
  isAbnormal: boolean;
  /** False: the present view has not told of it yet, though its node is heard. */
  isSeen: boolean;
}

export function belongs(filter: ItemFilter, one: Entry, state: ItemState): boolean {
  switch (filter) {
    case "all": return true;
    case "abnormal": return state.isAbnormal;
    case "forced": return state.trouble === "forced";
    case "bad": return state.trouble === "bad" || state.trouble === "empty";
    case "old": return state.trouble === "old" && state.isSeen;
    case "set": return !!one.item.is_writable;
  }
}

const collator = new Intl.Collator("en", { numeric: true });

export const byName = (one: Entry, other: Entry): number =>
  collator.compare(one.local, other.local) || collator.compare(one.node, other.node);
