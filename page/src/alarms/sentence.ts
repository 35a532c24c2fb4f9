/** A case in words. */
import { t, type Key } from "../words/words";
import { localOf, type Entry } from "../wire/fold";
import { numberText, valueText, wordOf } from "../truth/format";
import type { ShownCase } from "../wire/words";
import { commonText, grouped, placed, type Line } from "./folding";
import { asks } from "./order";

/** `Carbon monoxide in the section is high`. */
export function sentence(one: ShownCase): string {
  const local = localOf(one.item);
  const text = one.description || local;
  const what = one.description ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  // What a node counts of itself says in its description what is wrong when it is not zero.
  if (local.includes("/") && !one.unit && one.condition === "hi") return what;
  const word = one.condition === "off_normal" ? wordOf(one.states, one.value) : "";
  if (word && !what.toLowerCase().includes(word.toLowerCase())) return `${what}: ${word}`;
  return t(`condition.${one.condition}` as Key, { what });
}

/** `active, not acknowledged`; of several `3 of 4 active, ...`. */
export function stateText(...cases: ShownCase[]): string {
  const one = cases[0]!;
  const { length: count } = cases;
  const { length: active } = cases.filter((each) => each.is_active);
  if (cases.every((each) => each.lifecycle_status === "closed")) return t("case.closed");
  const state = active && active < count ? t("fold.active", { active, count }) : t(active ? "case.active" : "case.gone");
  if (one.is_suppressed || one.is_unasked) return `${state}, ${t("case.nobody_asked")}`;
  return `${state}, ${t(cases.some((each) => !each.is_acked) ? "case.unacked" : "case.acked")}`;
}

/** Of likes the one that is farthest beyond its limit. */
export function farthest(cases: ShownCase[], entryOf: (name: string) => Entry | undefined): ShownCase {
  const sign = cases[0]!.condition.startsWith("lo") ? -1 : 1;
  const far = (one: ShownCase): number => sign * Number(entryOf(one.item)?.value ?? one.value);
  return cases.reduce((one, other) => (far(other) > far(one) ? other : one));
}

const KINDS_MAX = 6;
const commonOf = (cases: ShownCase[]): string => commonText(cases.map((one) => one.description || localOf(one.item)));

/** `Extinction is very high in 4 sections`, `15 low ones: Air temperature 4, ...`; `cause` is why they are suppressed. */
export function lineText(kind: Line["kind"], cases: ShownCase[], cause: string): string {
  const one = cases[0]!;
  const { length: count } = cases;
  if (kind === "likes") {
    const { what, place } = placed(commonOf(cases));
    const text = sentence(one.description ? { ...one, description: what } : { ...one, item: `:${what}` });
    return place ? t("fold.in", { text, count, place }) : t("fold.of", { text, count });
  }
  const all = [...grouped(cases, (each) => localOf(each.item).replace(/\d+/g, "#")).values()].sort((a, b) => b.length - a.length);
  const told = all.slice(0, KINDS_MAX).map((some) => `${placed(commonOf(some)).what} ${some.length}`);
  const more = all.slice(KINDS_MAX).reduce((sum, some) => sum + some.length, 0);
  const kinds = [...told, ...(more ? [t("fold.more", { count: more })] : [])].join(", ");
  if (kind === "suppressed") return cause ? t("fold.because", { kinds, cause }) : t("alarms.suppressed", { count });
  return t(asks(one) ? "fold.low" : "fold.low_acked", { count, kinds });
}

/** `co_5, co_6, co_7`, `opacity_1 … opacity_8`. */
export function namesOf(cases: ShownCase[]): string {
  const names = cases.map((one) => localOf(one.item)).sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
  return names.length <= 3 ? names.join(", ") : `${names[0]} … ${names.at(-1)}`;
}

/** The value of a case: the present one of its item if that is seen and heard, else that of its last activation. */
export function caseValue(one: ShownCase, entry: Entry | undefined): { value: string; limit: string; unit: string } {
  const places = entry?.places ?? 0;
  const isSeen = entry?.isLive && entry.value !== null && entry.quality >>> 30 < 2;
  const shown = isSeen ? entry.value : one.value;
  const value = typeof shown === "number" && !isSeen && !wordOf(one.states, shown) ? numberText(shown, Number.isInteger(shown) ? 0 : 1)
    : valueText(shown, places, one.states);
  const unit = one.unit;
  if (one.limit === null) return { value, limit: "", unit };
  const sign = { hi: ">", hi_hi: ">", lo: "<", lo_lo: "<" }[one.condition as string];
  if (!sign) return { value, limit: "", unit };
  return { value, limit: `${sign} ${numberText(one.limit, Number.isInteger(one.limit) ? 0 : Math.max(1, places))}`, unit };
}

/** Last word of a person on it: who, and what was said. */
export function lastWord(one: ShownCase): string {
  if (!one.actor) return "";
  return one.comment ? `${one.actor}: ${one.comment}` : one.actor;
}
