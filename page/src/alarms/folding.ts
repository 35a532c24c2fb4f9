/** Folding of a long list in a flood: each case is in exactly one line, and a line unfolds to what is in it. Pure. */
import { caseKey, localOf, nodeOf } from "../wire/fold";
import type { ShownCase } from "../wire/words";
import { FLOOD, FLOOD_MS, asks, newOnes, priorityOf, shelfOf } from "./order";

/** So many of one kind stand in one line. */
export const LIKES = 3;

export interface Line {
  key: string;
  /** A case; likes of one kind; the low ones of a site; those of a site that one item suppresses. */
  kind: "one" | "likes" | "low" | "suppressed";
  /** Never empty. */
  cases: ShownCase[];
  depth: number;
  isFirst?: boolean;
}

export interface Flood {
  count: number;
  sinceMs: number;
  /** The case that came first. */
  first: string;
}

/** The flood that there is now, and how it began. */
export function floodOf(cases: Iterable<ShownCase>, nowMs: number): Flood | null {
  const all = [...cases].filter((one) => shelfOf(one) === "active" && !one.is_suppressed)
    .sort((one, other) => one.raised_ms - other.raised_ms || one.case_id - other.case_id);
  const { length: count } = newOnes(all, nowMs);
  if (count < FLOOD) return null;
  let at = all.length - count;
  while (at > 0 && all[at + FLOOD - 2]!.raised_ms - all[at - 1]!.raised_ms < FLOOD_MS) at -= 1;
  return { count, sinceMs: all[at]!.raised_ms, first: caseKey(all[at]!) };
}

const single = (one: ShownCase, depth = 0): Line => ({ key: caseKey(one), kind: "one", cases: [one], depth });

/** Likes have one rule at items whose names differ in their numbers, at one node, and ask or do not. */
const kindOf = (one: ShownCase): string =>
  [nodeOf(one.item), localOf(one.item).replace(/\d+/g, "#"), one.condition, priorityOf(one.severity), asks(one)].join(" ");

export function grouped(cases: ShownCase[], keyOf: (one: ShownCase) => string): Map<string, ShownCase[]> {
  const found = new Map<string, ShownCase[]>();
  for (const one of cases) {
    const key = keyOf(one);
    const some = found.get(key);
    if (some) some.push(one);
    else found.set(key, [one]);
  }
  return found;
}

function likes(cases: ShownCase[], depth = 0): Line[] {
  const kinds = grouped(cases, kindOf);
  return cases.flatMap((one): Line[] => {
    const key = kindOf(one);
    const some = kinds.get(key)!;
    if (some.length < LIKES) return [single(one, depth)];
    return some[0] === one ? [{ key: `likes ${key}`, kind: "likes", cases: some, depth }] : [];
  });
}

const lines = (kind: "low" | "suppressed", cases: ShownCase[], keyOf: (one: ShownCase) => string): Line[] =>
  [...grouped(cases, (one) => `${kind} ${nodeOf(one.item)} ${keyOf(one)}`)].map(([key, some]) => ({ key, kind, cases: some, depth: 0 }));

/** Lines of a list in its order; `causeOf` names the item that suppresses a case. */
export function folded(cases: ShownCase[], flood: Flood | null, causeOf: (one: ShownCase) => string): Line[] {
  const suppressed = lines("suppressed", cases.filter((one) => one.is_suppressed), causeOf);
  const rest = cases.filter((one) => !one.is_suppressed);
  if (!flood) return [...rest.map((one) => single(one)), ...suppressed];
  const others = rest.filter((one) => caseKey(one) !== flood.first);
  const isLow = (one: ShownCase): boolean => priorityOf(one.severity) === 3;
  return [
    ...rest.filter((one) => caseKey(one) === flood.first).map((one) => ({ ...single(one), isFirst: true })),
    ...likes(others.filter((one) => !isLow(one))),
    ...lines("low", others.filter(isLow), (one) => String(asks(one))), ...suppressed,
  ];
}

export function unfolded(line: Line): Line[] {
  if (line.kind === "one") return [];
  return line.kind === "likes" ? line.cases.map((one) => single(one, line.depth + 1)) : likes(line.cases, line.depth + 1);
}

/** All lines that are seen while those with these keys are unfolded. */
export const drawn = (list: Line[], opened: ReadonlySet<string>): Line[] =>
  list.flatMap((one) => (opened.has(one.key) ? [one, ...drawn(unfolded(one), opened)] : [one]));

/** What texts have in common: a number that differs is `…`, and so is what comes after other words. */
export function commonText(texts: string[]): string {
  const split = texts.map((one) => one.split(/(\d+)/));
  const found: string[] = [];
  for (const [at, piece] of split[0]!.entries()) {
    const isSame = split.every((one) => one[at] === piece);
    found.push(isSame ? piece : "…");
    if (!isSame && at % 2 === 0) break;
  }
  return found.join("");
}

/** `Extinction` in `section`s, of descriptions that end with `in section 8`. */
export function placed(text: string): { what: string; place: string } {
  const [, what = text, place = ""] = /^(.+) in (?:the )?(\p{L}+) …$/u.exec(text) ?? [];
  return { what, place };
}
