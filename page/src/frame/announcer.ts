/** What a screen reader is told of new alarms: politely, a critical one at once, in a flood by count only. */
import { html, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { caseKey, nodeOf } from "../wire/fold";
import { FLOOD, asks, newOnes, priorityOf } from "../alarms/order";
import { sentence } from "../alarms/sentence";

const EVERY_MS = 3_000;
let known: Set<string> | null = null;
let told = { polite: "", atOnce: "" };
let toldMono = 0;

function listen(): void {
  const mono = performance.now();
  if (!station.sight.isKnown || mono - toldMono < EVERY_MS) return;
  const open = [...station.sight.cases.values()].filter(asks);
  const before = known;
  known = new Set(open.map((one) => `${caseKey(one)} ${one.activations}`));
  if (!before) return;
  const fresh = open.filter((one) => !before.has(`${caseKey(one)} ${one.activations}`));
  if (!fresh.length) return;
  toldMono = mono;
  const flood = newOnes(station.sight.cases.values(), station.nowMs).length;
  const text = flood >= FLOOD ? t("flood.title", { count: flood })
    : fresh.map((one) => `${station.labelOf(nodeOf(one.item))}: ${sentence(one)}`).join(". ");
  const isCritical = fresh.some((one) => priorityOf(one.severity) === 1);
  told = isCritical ? { polite: "", atOnce: text } : { polite: text, atOnce: "" };
}

export function announcer(): TemplateResult {
  listen();
  return html`<div class="vh" aria-live="polite">${told.polite}</div><div class="vh" aria-live="assertive">${told.atOnce}</div>`;
}
