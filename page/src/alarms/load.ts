/** Load: how much the alarms ask of people, against the aims of ISA-18.2. From the cases that the node still has. */
import { html, svg, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import { station } from "../wire/station";
import { localOf, nodeOf } from "../wire/fold";
import { View } from "../frame/view";
import { mark } from "../marks/marks";
import { clockText } from "../truth/format";
import { loadOf, type Load } from "./reckon";
import { PRIORITIES } from "./order";
import type { ShownCase } from "../wire/words";

const AIMS = { 1: "5 %", 2: "15 %", 3: "80 %" };

class LoadView extends View {
  private cases: ShownCase[] = [];

  override connectedCallback(): void {
    super.connectedCallback();
    void station.ask<ShownCase[]>("cases", { include_closed: true }).catch(() => []).then((found) => {
      this.cases = found;
      this.requestUpdate();
    });
  }

  protected override render(): TemplateResult {
    const known = new Map(this.cases.map((one) => [`${one.item}#${one.case_id}`, one]));
    for (const one of station.sight.cases.values()) known.set(`${one.item}#${one.case_id}`, one);
    const load = loadOf([...known.values()], station.nowMs);
    const tile = (label: Key, value: string, aim: string): TemplateResult =>
      html`<div><span class="m s">${t(label)}</span><b>${value}</b><span class="m s">${aim}</span></div>`;
    const most = load.perTen.reduce((one, other) => (other.count > one.count ? other : one), load.perTen[0]!);
    return html`<div class="kpis card">${tile("load.ten", String(load.lastTen), t("load.ten_aim"))}${tile("load.day", String(load.day), t("load.day_aim"))}
      ${tile("load.highest", t("load.in_ten", { count: most.count }), most.count ? clockText(most.fromMs, station.zone).slice(0, 5) : "")}
      ${tile("load.flood", `${load.floodPercent.toFixed(1)} %`, t("load.flood_aim"))}${tile("load.standing", String(load.standing), t("load.standing_what"))}
      ${tile("load.old", String(load.old), t("load.old_aim"))}</div>
      <section class="card"><header><h2>${t("load.per_ten")}</h2><span class="m s">${t("load.what")}</span></header><div class="pad">${this.chart(load)}</div></section>
      <div class="two lower"><section class="card"><header><h2>${t("load.often")}</h2></header><table><thead><tr><th>${t("items.col.item")}</th><th>${t("items.col.site")}</th>
      <th>${t("load.condition")}</th><th class="num">${t("load.times")}</th><td></td></tr></thead><tbody>${load.often.map((one) => html`<tr><td class="id">${localOf(one.item)}</td><td>${station.labelOf(nodeOf(one.item))}</td>
      <td>${one.condition.replace(/_/g, " ")}</td><td class="num">${one.count}</td><td class="w34"><div class="hb" .style=${`width:${(100 * one.count) / (load.often[0]?.count || 1)}%`}></div></td></tr>`)}</tbody></table></section>
      <section class="card"><header><h2>${t("load.priorities")}</h2></header><table><thead><tr><th>${t("load.priority")}</th><th class="num">${t("load.today")}</th><th class="num">${t("load.share")}</th><th class="num">${t("load.aim")}</th></tr></thead>
      <tbody>${PRIORITIES.map((one) => html`<tr><td>${mark(one, "none")} ${t(`priority.${one}` as Key)}</td><td class="num">${load.byPriority[one]}</td>
      <td class="num">${load.day ? Math.round((100 * load.byPriority[one]) / load.day) : 0} %</td><td class="num m">${AIMS[one]}</td></tr>`)}</tbody></table></section></div>`;
  }

  private chart(load: Load): TemplateResult {
    // A phone has room for three hours at a type that can be read.
    const isNarrow = innerWidth <= 750;
    const shown = isNarrow ? load.perTen.slice(-18) : load.perTen;
    const [width, every] = isNarrow ? [350, 6] : [1180, 12];
    const top = Math.max(12, ...shown.map((one) => one.count));
    const y = (count: number): number => 144 - (128 * count) / top;
    const step = (width - 90) / shown.length;
    return html`<svg viewBox="0 0 ${width} 168" class="ld" role="img" aria-label=${t("load.chart", { count: load.day })}>
      ${[0, 5, 10].map((one) => svg`<path d=${`M34 ${y(one)}H${width - 56}`} class=${one === 10 ? "lm" : "gl"}></path><text x="28" y=${y(one) + 4} text-anchor="end">${one}</text>`)}
      ${shown.map((one, at) => svg`<rect x=${34 + at * step} y=${y(one.count)} width=${step * 0.75} height=${144 - y(one.count)} class=${one.count >= 10 ? "fl" : "lb"}></rect>
        ${one.count >= 10 ? svg`<text x=${34 + (at + 0.4) * step} y=${y(one.count) - 5} text-anchor="middle" class="b">${one.count}</text>` : ""}
        ${at % every === 0 ? svg`<text x=${34 + at * step} y="162">${clockText(one.fromMs, station.zone).slice(0, 5)}</text>` : ""}`)}
      <text x=${width - 50} y=${y(10) + 4}>${t("load.flood_line")}</text></svg>`;
  }
}

customElements.define("view-load", LoadView);
