/** Why something can't be done now, in words beside the dashed button. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { notHeardSince } from "../wire/fold";
import { timeText } from "./format";
import type { Refusal } from "../wire/words";

/** That the node is not heard, and since when; empty: it is heard. */
export function unheard(node: string): string {
  const since = notHeardSince(station.sight, node);
  return since === null ? "" : t(since ? "off.unheard_since" : "off.unheard", { node, time: timeText(since, station.zone, station.nowMs) });
}

/** Why whoever is here may not do at this node what needs the role; empty: it may be asked for. */
export function offFor(role: string, node: string): string {
  if (station.silence.ms) return t("off.silence");
  const silent = unheard(node);
  if (silent) return silent;
  if (!station.person) return t("off.nobody");
  return station.may(role, node) ? "" : t("off.role", { role, node, have: station.roleAt(node) });
}

/** What was refused, and what can be done about it. */
export const refused = (one: Refusal | null): TemplateResult | typeof nothing =>
  one ? html`<div class="no" role="alert"><b>${one.cause}</b><p class="s">${one.remedy}</p></div>` : nothing;
