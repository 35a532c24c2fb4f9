/** Load: how much the alarms ask of people in a day and in a month, against the aims of ISA-18.2. */
import { html, nothing, svg, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import { station } from "../wire/station";
import { Refused } from "../wire/link";
import { localOf, nodeOf } from "../wire/fold";
import { View } from "../frame/view";
import { mark } from "../marks/marks";
import { clockText, dayText, timeText } from "../truth/format";
import { refused } from "../truth/off";
import { loadOf, type Bar, type Load, type LoadTold } from "./reckon";
import { FLOOD, PRIORITIES, newOnes } from "./order";

const AIMS = { 1: "5 %", 2: "15 %", 3: "80 %" };
const DAY_AIM = 150;
const SPANS = [1, 30] as const;
const EVERY_MS = 60_000;

class LoadView extends View {
  private days: (typeof SPANS)[number] = 1;
  private told: LoadTold | null = null;
  private refusal: Refused | null = null;
  private asks = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    this.ask(1);
    this.asks = window.setInterval(() => this.ask(this.days), EVERY_MS);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.clearInterval(this.asks);
  }

  private ask(days: (typeof SPANS)[number]): void {
    if (days !== this.days) this.told = null;
    this.days = days;
    this.requestUpdate();
    station.ask<LoadTold>("load", { days }).then((told) => {
      if (days === this.days) [this.told, this.refusal] = [told, null];
    }, (error: unknown) => {
      if (!(error instanceof Refused)) throw error;
      this.refusal = error;
    }).finally(() => this.requestUpdate());
  }

  protected override render(): TemplateResult {
    const { days, told } = this;
    const spans = html`<div class="head"><div class="seg">${SPANS.map((one) => html`<button aria-pressed=${one === days}
      @click=${() => this.ask(one)}>${t(`load.days.${one}`)}</button>`)}</div>
      <span class="m s">${told?.is_cut ? t("load.cut") : t("load.what")}
      ${told?.lacks.length ? t("load.lacks", { nodes: told.lacks.join(", ") }) : nothing}</span></div>
      ${refused(this.refusal?.refusal ?? null)}`;
    if (!told) return html`${spans}<p class="card pad">${this.refusal ? nothing : t("load.asking")}</p>`;
    const now = station.nowMs;
    const load = loadOf(told, days, (ms) => dayText(ms, station.zone), station.sight.cases.values(), now);
    const tile = (label: Key, value: string, aim: string): TemplateResult =>
      html`<div><span class="m s">${t(label)}</span><b>${value}</b><span class="m s">${aim}</span></div>`;
    const { most } = load;
    return html`${spans}<div class="kpis card">
      ${tile("load.ten", String(newOnes(station.sight.cases.values(), now).length), t("load.ten_aim"))}
      ${tile("load.day", load.perDay.toFixed(days > 1 ? 1 : 0), t("load.day_aim"))}
      ${tile("load.highest", t("load.in_ten", { count: most.count }), most.count ? timeText(most.fromMs, station.zone, now).slice(0, -3) : "")}
      ${tile("load.flood", `${load.floodPercent.toFixed(days > 1 ? 2 : 1)} %`, t("load.flood_aim"))}
      ${tile("load.standing", String(load.standing), t("load.standing_what"))}${tile("load.old", String(load.old), t("load.old_aim"))}</div>
      <section class="card"><header><h2>${t(`load.per.${days}`)}</h2></header><div class="pad">${this.chart(load)}</div></section>
      <div class="two lower"><section class="card"><header><h2>${t("load.often")}</h2></header><table><thead><tr>
        <th>${t("items.col.item")}</th><th>${t("items.col.site")}</th><th>${t("load.condition")}</th><th class="num">${t("load.times")}</th><td></td></tr></thead>
      <tbody>${told.often.map((one) => html`<tr><td class="id">${localOf(one.item)}</td><td>${station.labelOf(nodeOf(one.item))}</td>
        <td>${one.condition.replace(/_/g, " ")}</td><td class="num">${one.count}</td>
        <td class="w34"><div class="hb" .style=${`width:${(100 * one.count) / told.often[0]!.count}%`}></div></td></tr>`)}</tbody></table></section>
      <section class="card"><header><h2>${t("load.priorities")}</h2></header><table><thead><tr><th>${t("load.priority")}</th>
        <th class="num">${t("load.new")}</th><th class="num">${t("load.share")}</th><th class="num">${t("load.aim")}</th></tr></thead>
      <tbody>${PRIORITIES.map((one) => html`<tr><td>${mark(one, "none")} ${t(`priority.${one}` as Key)}</td><td class="num">${load.byPriority[one]}</td>
        <td class="num">${load.all ? Math.round((100 * load.byPriority[one]) / load.all) : 0} %</td><td class="num m">${AIMS[one]}</td></tr>`)}</tbody>
      </table></section></div>`;
  }

  private chart(load: Load): TemplateResult {
    // A phone has room for three hours, or ten days, at a type that can be read.
    const isNarrow = innerWidth <= 750;
    const isDay = this.days === 1;
    const bars = isDay ? load.perTen : load.perDays;
    const shown = isNarrow ? bars.slice(isDay ? -18 : -10) : bars;
    const limit = isDay ? FLOOD : DAY_AIM;
    const [width, every] = [isNarrow ? 350 : 1180, isDay ? (isNarrow ? 6 : 12) : 3];
    const top = Math.max(limit * 1.2, ...shown.map((one) => one.count));
    const y = (count: number): number => 144 - (128 * count) / top;
    const step = (width - 90) / shown.length;
    const isOver = (one: Bar): boolean => (isDay ? one.count >= limit : one.count > limit);
    const below = (one: Bar): string => (isDay ? clockText(one.fromMs, station.zone).slice(0, 5) : dayText(one.fromMs, station.zone).replace(/^\S+ /, ""));
    return html`<svg viewBox="0 0 ${width} 168" class="ld" role="img" aria-label=${t(isDay ? "load.chart" : "load.chart_days", { count: load.all })}>
      ${[0, limit / 2, limit].map((one) => svg`<path d=${`M34 ${y(one)}H${width - 56}`} class=${one === limit ? "lm" : "gl"}></path>
        <text x="28" y=${y(one) + 4} text-anchor="end">${one}</text>`)}
      ${shown.map((one, at) => svg`<rect x=${34 + at * step} y=${y(one.count)} width=${step * 0.75} height=${144 - y(one.count)}
        class=${isOver(one) ? "fl" : "lb"}></rect>
        ${isOver(one) ? svg`<text x=${34 + (at + 0.4) * step} y=${y(one.count) - 5} text-anchor="middle" class="b">${one.count}</text>` : ""}
        ${at % every === 0 ? svg`<text x=${34 + at * step} y="162">${below(one)}</text>` : ""}`)}
      <text x=${width - 50} y=${y(limit) + 4}>${t(isDay ? "load.flood_line" : "load.aim_line")}</text></svg>`;
  }
}

customElements.define("view-load", LoadView);
