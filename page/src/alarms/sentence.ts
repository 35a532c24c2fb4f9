/** A case in words. */
import { t, type Key } from "../words/words";
import { localOf, type Entry } from "../wire/fold";
import { numberText, valueText } from "../truth/format";
import type { ShownCase } from "../wire/words";

/** `Carbon monoxide in the section is high`. */
export function sentence(one: ShownCase): string {
  const local = localOf(one.item);
  const text = one.description || local;
  const what = one.description ? text.charAt(0).toUpperCase() + text.slice(1) : text;
  // What a node counts of itself says in its description what is wrong when it is not zero.
  if (local.includes("/") && !one.unit && one.condition === "hi") return what;
  return t(`condition.${one.condition}` as Key, { what });
}

/** `active, not acknowledged`. */
export function stateText(one: ShownCase): string {
  const state = t(one.is_active ? "case.active" : "case.gone");
  if (one.is_suppressed || one.is_unasked) return `${state}, ${t("case.nobody_asked")}`;
  return `${state}, ${t(one.is_acked ? "case.acked" : "case.unacked")}`;
}

/** The value of a case: the present one of its item if that is seen and heard, else that of its last activation. */
export function caseValue(one: ShownCase, entry: Entry | undefined): { value: string; limit: string; unit: string } {
  const places = entry?.places ?? 0;
  const isSeen = entry?.isLive && entry.value !== null && entry.quality >>> 30 < 2;
  const shown = isSeen ? entry.value : one.value;
  const value = typeof shown === "number" && !isSeen ? numberText(shown, Number.isInteger(shown) ? 0 : 1)
    : valueText(shown, places);
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
