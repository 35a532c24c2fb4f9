/** Cases by item, and the tags of a case. */
import type { TemplateResult } from "lit";
import { t } from "../words/words";
import { tag } from "../marks/marks";
import { station } from "../wire/station";
import { nodeOf } from "../wire/fold";
import type { ShownCase } from "../wire/words";
import { shelfOf, worseFirst } from "./order";

/** The worst case of each item that is listed as active. */
export function actives(cases: Iterable<ShownCase>): Map<string, ShownCase> {
  const found = new Map<string, ShownCase>();
  for (const one of cases) {
    if (shelfOf(one) !== "active" || one.is_suppressed) continue;
    const other = found.get(one.item);
    if (!other || worseFirst(one, other) < 0) found.set(one.item, one);
  }
  return found;
}

/** `latched`, if that is why the case is still there, and so on: the one that says most. */
export function latchTag(one: ShownCase): TemplateResult | null {
  if (one.condition === "frozen") return tag("||", t("quality.frozen"));
  if (one.condition === "stale") return tag("~", t("quality.old"));
  if (one.is_latched && one.limit === null) return tag("L", t("tag.latched"));
  return null;
}

export function tagsOf(one: ShownCase): TemplateResult[] {
  const tags: TemplateResult[] = [];
  if (one.is_latched) tags.push(tag("L", t("tag.latched")));
  if (one.is_suppressed) tags.push(tag("M", t("tag.suppressed")));
  if (one.is_chattering) tags.push(tag("≈", t("tag.chattering")));
  if (one.is_forced) tags.push(tag("=", t("tag.by_force")));
  if (one.condition === "frozen") tags.push(tag("||", t("quality.frozen")));
  return tags;
}

/** Full name of the item that says whether the case means anything; empty: none, or it is not known here. */
export function causeOf(one: ShownCase): string {
  const name = station.sight.items.get(one.item)?.item.alarm?.suppressed_by;
  return name ? `${nodeOf(one.item)}:${name}` : "";
}
