/** The banner: the newest of the worst that nobody acknowledged, the counts, and what ends them. */
import { html, nothing, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import { station } from "../wire/station";
import { nodeOf } from "../wire/fold";
import { PRIORITIES, asks, count, foremost } from "../alarms/order";
import { caseValue, sentence } from "../alarms/sentence";
import { acks } from "../alarms/acks";
import { caseMark, mark } from "../marks/marks";
import { ageText, timeText } from "../truth/format";
import type { ShownCase } from "../wire/words";
import { horn } from "./horn";

export const inBanner = (): ShownCase | null => foremost(station.sight.cases.values());

export function acknowledgeBanner(): void {
  const one = inBanner();
  if (one && asks(one)) void acks.ack([one]);
}

export function banner(isOff: boolean): TemplateResult {
  const { sight } = station;
  const now = station.nowMs;
  const counts = count(sight.cases.values());
  const first = inBanner();
  const isAsking = first !== null && asks(first);
  return html`<section class="banner" aria-label=${t("banner.label")}>
    <div class="what">${first ? told(first, now) : html`<span class="m">${none(now)}</span>`}</div>
    <div class="counts" role="group" aria-label=${t("banner.counts")}>
      ${PRIORITIES.map((one) => {
        const { [one]: unacked } = counts.unacked;
        const { [one]: active } = counts.active;
        return html`<span title=${t("banner.count", { word: t(`priority.${one}` as Key), unacked, active })}>
          ${mark(one, unacked ? "unacked" : active ? "acked" : "none")}<b>${unacked}</b>
          <span class="m s wide">${t("banner.of", { active })}</span></span>`;
      })}
      <span class="wide"><span class="m s">${t("banner.shelved")}</span><b>${counts.shelved}</b></span>
      <span class="wide"><span class="m s">${t("banner.forced")}</span><b>${sight.forced.size}</b></span>
    </div>
    ${isAsking ? acknowledge(first, isOff) : nothing}
    ${horn.isAsking()
      ? html`<button ?disabled=${isOff} @click=${() => horn.pressed()}><span class="wide">${t(horn.isBlocked ? "banner.allow" : "banner.horn")}</span>
        <span class="phone">${t(horn.isBlocked ? "banner.allow_short" : "banner.horn_short")}</span>${horn.isBlocked ? nothing : html` <kbd class="wide">h</kbd>`}</button>`
      : horn.isSilenced() ? html`<span class="m s hs">${t("banner.horn_silent")}</span>` : nothing}
  </section>`;
}

function told(one: ShownCase, now: number): TemplateResult {
  const { value, limit, unit } = caseValue(one, station.sight.items.get(one.item));
  const amount = limit ? t("banner.limit", { value: `${value} ${unit}`.trim(), limit: limit.slice(2) }) : `${value} ${unit}`.trim();
  const since = t("banner.since", {
    time: timeText(one.raised_ms, station.zone, now), age: ageText(now - one.raised_ms),
  });
  return html`${caseMark(one)}<div class="lines"><div class="line1">${station.labelOf(nodeOf(one.item))}: ${sentence(one)}</div>
    <div class="s m"><a class="id nowall" href="#item?name=${encodeURIComponent(one.item)}">${one.item}</a>
    <span class="nowall">·</span> ${amount} · ${since}</div></div>`;
}

function none(now: number): string {
  const closed = station.alive?.closed_ms;
  if (!station.sight.isKnown) return t("banner.unknown");
  return closed ? t("banner.none_since", { time: timeText(closed, station.zone, now) }) : t("banner.none");
}

function acknowledge(one: ShownCase, isOff: boolean): TemplateResult {
  const reason = acks.reasonAgainst([one]);
  if (acks.isAsked(one)) return html`<span class="asking">${t("ack.asking")}</span>`;
  return html`<button class="go" ?disabled=${isOff || reason !== ""} title=${reason} @click=${acknowledgeBanner}>
    ${t("ack.do")} <kbd class="wide">a</kbd></button>`;
}
