/** Trends: why, and since when. Range, pens and cursor are in the address. */
import { html, nothing, svg, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import { station, type TrendAnswer } from "../wire/station";
import { localOf, nodeOf, notHeardSince, type Entry } from "../wire/fold";
import { Refused } from "../wire/link";
import { View, type Act } from "../frame/view";
import { here, hrefOf, note } from "../frame/route";
import { quality, troubleOf } from "../marks/marks";
import { clockText, dayText, timeText, valueText, zoneName } from "../truth/format";
import { finder } from "../items/find";
import { actives } from "../alarms/lookup";
import { asks, priorityOf } from "../alarms/order";
import type { ForcedRow } from "../items/forced";
import { LEFT_PX, Lane, RIGHT_PX, penColor, penDash } from "./lane";
import { groups, isAlarm, isShown, lateRuns, runsOf, type Mark, type Run } from "./events";
import { csv, drawn, statistics, type Drawn } from "./series";

/** Longest time between two drawings for the sake of what is heard; below it, one for each new pixel. */
const PACE_MS = 250;
const SPANS: [Key, number][] = [
  ["span.10min", 600], ["span.1h", 3_600], ["span.8h", 28_800], ["span.24h", 86_400], ["span.7d", 604_800], ["span.30d", 2_592_000],
];
const PENS_MAX = 12;
const FOUND_MAX = 10;
const REDRAW_MS = 1_000;
/** An answer, also of a past range, is asked for anew after this, since rows may come late. */
const ANEW_MS = 60_000;
const LATE_MAX = 50;
/** A cursor that rests is in the address. */
const KEEP_MS = 500;

class Trends extends View {
  private pens: string[] = [];
  private spanS = 600;
  /** Null: the range follows now. */
  private endMs: number | null = null;
  private atMs: number | null = null;
  private readonly veiled = new Set<string>();
  private answer: TrendAnswer | null = null;
  private answerKey = "";
  private answeredMono = 0;
  private answeredMs = 0;
  private marks: Mark[] = [];
  private forces: ForcedRow[] = [];
  private late = new Map<string, Run[]>();
  private isAsking = false;
  private problem = "";
  private find_ = "";
  private isAdding = false;
  private lanes = new Map<string, { lane: Lane; host: HTMLElement }>();
  private shown: Drawn = { times: [], pens: new Map(), completeMs: 0, hasBand: false };
  private redrawnMono = 0;
  private timesOpen = false;
  private keepTimer = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    const { values } = here();
    this.pens = (values.get("pens") ?? "").split(",").filter((one) => one).slice(0, PENS_MAX);
    this.spanS = Math.min(31_536_000, Math.max(10, Number(values.get("span")) || 600));
    this.endMs = Number(values.get("to")) || null;
    this.atMs = Number(values.get("at")) || null;
    window.addEventListener("keydown", this.keyed);
    this.looked();
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.removeEventListener("keydown", this.keyed);
    for (const one of this.lanes.values()) one.lane.end();
    this.lanes.clear();
  }

  private looked(): void {
    station.want(this, this.pens.length && !this.isAdding ? this.pens : ["*"]);
    void station.keepPasts(this.pens);
  }

  private get toMs(): number {
    return this.endMs ?? station.nowMs;
  }

  private get fromMs(): number {
    return this.toMs - this.spanS * 1000;
  }

  private keep(): void {
    const values: Record<string, string> = {};
    if (this.pens.length) values.pens = this.pens.join(",");
    if (this.spanS !== 600) values.span = String(Math.round(this.spanS));
    if (this.endMs) values.to = String(Math.round(this.endMs));
    if (this.atMs) values.at = String(Math.round(this.atMs));
    note("trends", values);
  }

  /** Asks the history for the range that is shown; while it follows now, anew when a part of it has passed. */
  private async ask(): Promise<void> {
    const key = [this.pens.join(), this.spanS, this.endMs].join("|");
    const everyMs = this.endMs === null ? Math.min(ANEW_MS, Math.max(5_000, (this.spanS * 1000) / 200)) : ANEW_MS;
    const isDue = key !== this.answerKey || performance.now() - this.answeredMono > everyMs;
    if (!isDue || this.isAsking || !this.pens.length || station.silence.ms || !station.hello) return;
    this.isAsking = true;
    this.answerKey = key;
    this.answeredMono = performance.now();
    const asked = { names: this.pens, start_ms: Math.round(this.fromMs), end_ms: Math.round(this.toMs) };
    const { nowMs } = station;
    void station.ask<Mark[]>("marks", asked).then((marks) => { this.marks = marks; }, () => undefined);
    if (this.pens.some((one) => station.sight.forced.has(one))) void station.ask<ForcedRow[]>("forces").then((forces) => { this.forces = forces; }, () => undefined);
    try {
      const points = Math.min(2_000, Math.max(100, Math.round(this.clientWidth - LEFT_PX - RIGHT_PX)));
      const answer = await station.ask<TrendAnswer>("trend", { ...asked, points });
      for (const name of this.answer ? asked.names : []) {
        this.late.set(name, [...this.late.get(name) ?? [], ...lateRuns(this.answer!, this.answeredMs, answer, name)].slice(-LATE_MAX));
      }
      [this.answer, this.answeredMs] = [answer, nowMs];
      this.problem = "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.problem = error.message;
      this.answer = null;
    }
    this.isAsking = false;
    this.redrawnMono = 0;
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    this.paceMs = Math.min(PACE_MS, Math.max(100, (this.spanS * 1000) / Math.max(1, this.clientWidth)));
    void this.ask();
    const now = station.nowMs;
    const { zone } = station;
    const { fromMs, toMs } = this;
    const mono = performance.now();
    if (mono - this.redrawnMono > REDRAW_MS || !this.shown.times.length) {
      this.shown = drawn(this.pens, this.answer, (name) => station.pasts.of(name), fromMs, toMs,
        (name) => notHeardSince(station.sight, nodeOf(name)) ?? Infinity);
      this.redrawnMono = mono;
    }
    const units = this.units();
    const range = this.spanS < 86_400 ? `${timeText(fromMs, zone, now)} … ${timeText(toMs, zone, now)}`
      : `${dayText(fromMs, zone)} ${clockText(fromMs, zone)} … ${dayText(toMs, zone)} ${clockText(toMs, zone)}`;
    return html`<div class="head"><h1>${t("page.trends")}</h1>
      <div class="seg">${SPANS.map(([label, span]) => html`<button aria-pressed=${span === this.spanS && !this.endMs} @click=${() => this.ranged(span, null)}>${t(label)}</button>`)}
      <button aria-pressed=${this.timesOpen} @click=${() => { this.timesOpen = !this.timesOpen; this.requestUpdate(); }}>${t("trends.time")}</button></div>
      <div class="seg"><button aria-label=${t("trends.earlier")} @click=${() => this.pan(-0.5)}>◂</button><button aria-label=${t("trends.later")} ?disabled=${!this.endMs} @click=${() => this.pan(0.5)}>▸</button>
      <button aria-label=${t("trends.wider")} @click=${() => this.zoom(2)}>−</button></div>
      <span class="nb"><b>${range}</b> <span class="m s">${zoneName(toMs, zone)}${this.endMs ? "" : `; ${t("trends.follows")}`}</span></span><span class="sp"></span>
      <div class="row"><button @click=${this.adding}>${t("trends.add")} <kbd>+</kbd></button><button ?disabled=${!this.pens.length} @click=${this.save}>CSV</button>
      <button @click=${this.link}>${t("trends.link")}</button></div></div>
      ${this.timesOpen ? this.times() : nothing}${this.isAdding ? this.adder() : nothing}
      ${this.problem ? html`<div class="no" role="status"><b>${t("trends.no_history")}</b><p class="s">${this.problem}</p></div>` : nothing}
      ${this.pens.length ? html`<section class="card pl" tabindex="0" aria-label=${t("trends.label", { count: this.pens.length, range })} @wheel=${this.wheeled}>
        ${this.events(fromMs, toMs)}${units.map((unit) => html`<div class="lane" data-unit=${unit}><span class="un m">${unit}</span></div>`)}</section>${this.legend()}`
        : html`<section class="card"><p class="pad">${t("trends.none")}</p></section>`}`;
  }

  private units(): string[] {
    const found: string[] = [];
    for (const one of this.pens) {
      const unit = this.unitOf(one);
      if (!found.includes(unit)) found.push(unit);
    }
    return found;
  }

  private unitOf(name: string): string {
    const item = station.sight.items.get(name)?.item;
    return item?.unit || (item?.value_type === 3 ? t("trends.switches") : localOf(name).replace(/_?\d+.*/, ""));
  }

  private entriesOf(unit: string): Entry[] {
    return this.pens.filter((one) => this.unitOf(one) === unit).map((one) => station.sight.items.get(one)).filter((one): one is Entry => !!one);
  }

  private indexOf(name: string): number {
    return this.entriesOf(this.unitOf(name)).findIndex((one) => one.name === name);
  }

  protected override updated(): void {
    const hosts = [...this.querySelectorAll<HTMLElement>(".lane")];
    for (const [unit, { lane, host }] of this.lanes) {
      if (hosts.includes(host) && host.dataset.unit === unit) continue;
      lane.end();
      this.lanes.delete(unit);
    }
    const room = Math.max(90, Math.min(260, (innerHeight - 330) / Math.max(1, hosts.length)));
    hosts.forEach((host, index) => {
      const unit = host.dataset.unit!;
      const entries = this.entriesOf(unit);
      if (!entries.length) return;
      const isLast = index === hosts.length - 1;
      let found = this.lanes.get(unit);
      if (!found) {
        found = { host, lane: new Lane(host, Math.round(room) + (isLast ? 24 : 0), isLast, (ms) => this.pointed(ms, unit),
          (from, to) => this.ranged((to - from) / 1000, to)) };
        this.lanes.set(unit, found);
      }
      found.lane.draw(entries, this.shown, {
        fromMs: this.fromMs, toMs: this.toMs, zone: station.zone, hidden: this.veiled, tick: (ms) => this.tick(ms),
        runs: (name) => this.runs(name),
      });
      if (this.atMs !== null) found.lane.point(this.atMs);
    });
  }

  private tick(ms: number): string {
    if (this.spanS > 172_800) return dayText(ms, station.zone).replace(/^\S+ /, "");
    const text = clockText(ms, station.zone);
    return this.spanS > 600 ? text.slice(0, 5) : text;
  }

  private pointed(ms: number, from: string): void {
    this.atMs = Math.round(ms);
    for (const [unit, { lane }] of this.lanes) if (unit !== from) lane.point(this.atMs);
    window.clearTimeout(this.keepTimer);
    this.keepTimer = window.setTimeout(() => this.isConnected && this.keep(), KEEP_MS);
    this.requestUpdate();
  }

  private ranged(spanS: number, endMs: number | null): void {
    this.spanS = Math.max(10, spanS);
    this.endMs = endMs === null || endMs > station.nowMs - 1_000 ? null : endMs;
    this.redrawnMono = 0;
    this.keep();
    this.requestUpdate();
  }

  private pan(share: number): void {
    this.ranged(this.spanS, this.toMs + share * this.spanS * 1000);
  }

  private zoom(factor: number, aroundMs = (this.fromMs + this.toMs) / 2): void {
    const span = Math.min(31_536_000, this.spanS * factor);
    this.ranged(span, this.endMs === null ? null : aroundMs + (this.toMs - aroundMs) * factor);
  }

  private readonly wheeled = (event: WheelEvent): void => {
    if (!event.ctrlKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
    event.preventDefault();
    if (event.ctrlKey) this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.atMs ?? undefined);
    else this.pan(Math.sign(event.deltaX) * 0.1);
  };

  /** Arrows move the cursor wherever the focus is, unless somebody types or chooses. */
  private readonly keyed = (event: KeyboardEvent): void => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const isTaken = event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]") || (event.target as Element).matches("input,select,textarea");
    if (by && this.pens.length && !isTaken) {
      event.preventDefault();
      const step = (this.spanS * 1000) / (event.shiftKey ? 20 : 200);
      this.atMs = Math.min(this.toMs, Math.max(this.fromMs, (this.atMs ?? this.toMs) + by * step));
      for (const { lane } of this.lanes.values()) lane.point(this.atMs);
      this.keep();
      this.requestUpdate();
    }
  };

  private runs(name: string): Run[] {
    const frozen = [...station.sight.cases.values()].find((one) => one.item === name && one.condition === "frozen" && one.is_active);
    const frozenMs = 1000 * (station.sight.items.get(name)?.item.alarm?.frozen_s ?? 0);
    const forced = station.sight.forced.has(name) ? this.forces.find((one) => one.item === name)?.since_ms ?? null : null;
    return [...runsOf(this.marks, name, frozenMs, { forced, frozen: frozen ? frozen.raised_ms - frozenMs : null }), ...this.late.get(name) ?? []];
  }

  /** Alarms as their own marks, a check for what people did, an inverse box for nodes; two that touch become one with a count. */
  private events(fromMs: number, toMs: number): TemplateResult {
    const width = Math.max(300, this.clientWidth - 2);
    const x = (ms: number): number => LEFT_PX + ((width - LEFT_PX - RIGHT_PX) * (ms - fromMs)) / (toMs - fromMs);
    const marks = this.marks.filter((one) => one.at_ms >= fromMs && one.at_ms <= toMs);
    return html`<svg class="evs" width=${width} height="26" role="group" aria-label=${t("trends.events", { count: marks.filter(isShown).length })}>
      <text x="2" y="17">${t("trends.events_short")}</text>
      ${groups(marks, x, 30).map((one) => svg`<g role="img" transform=${`translate(${one.at - 9} 3)`}><title>${one.marks.map((mark) => this.told(mark)).join("\n")}</title>
        ${this.shape(one.marks)}${one.marks.length > 1 ? svg`<text x="20" y="14" class="b">${one.marks.length}</text>` : nothing}</g>`)}</svg>`;
  }

  /** The mark of a group: its worst alarm, else a check, else a box. */
  private shape(marks: Mark[]): TemplateResult {
    const alarm = marks.filter(isAlarm).sort((one, other) => other.severity! - one.severity!)[0];
    if (alarm) {
      const isAsked = [...station.sight.cases.values()].some((one) => one.item === alarm.item && one.condition === alarm.condition && asks(one));
      return svg`<svg width="18" height="18" class=${isAsked ? "mk un" : "mk"}><use href=${`#${isAsked ? "m" : "a"}${priorityOf(alarm.severity!)}`}></use></svg>`;
    }
    return marks.some((one) => one.kind !== "control") ? svg`<path class="ck" d="M2 9l5 6L16 3"></path>`
      : svg`<rect class="nd" width="18" height="18"></rect><path class="nx" d="M4 9h10M9 4v10"></path>`;
  }

  private told(one: Mark): string {
    const words = [timeText(one.at_ms, station.zone, station.nowMs), localOf(one.item), one.condition, one.action, one.user, one.kind === "case" ? "" : one.detail];
    return words.filter((word) => word).join(" · ").replace(/_/g, " ");
  }

  private legend(): TemplateResult {
    const { shown, atMs, veiled } = this;
    const now = station.nowMs;
    const frozen = actives(station.sight.cases.values());
    let at = -1;
    if (atMs !== null) while (at + 1 < shown.times.length && shown.times[at + 1]! <= atMs) at += 1;
    return html`<section class="card lg"><table><thead><tr><td></td><th>${t("trends.pen")}</th><th>${t("items.col.item")}</th><th>${t("items.col.site")}</th>
      <th class="ds">${t("items.col.what")}</th><th class="num">${t("trends.at", { time: atMs ? timeText(atMs, station.zone, now) : "-" })}</th><th class="num">${t("trends.now")}</th>
      <th class="num mm">${t("trends.least")}</th><th class="num mm">${t("trends.most")}</th><th class="num mm">${t("trends.mean")}</th><th>${t("trends.quality")}</th><td></td></tr></thead>
      <tbody>${this.pens.map((name) => {
        const entry = station.sight.items.get(name);
        const pen = shown.pens.get(name);
        const places = Math.max(1, entry?.places ?? 0);
        const isFrozen = frozen.get(name)?.condition === "frozen";
        const isTold = entry?.isLive && !station.isNotHeard(entry.node) && !["bad", "empty"].includes(troubleOf(station.sight, entry, isFrozen));
        const numbers = pen ? statistics(pen) : null;
        const index = Math.max(0, this.indexOf(name));
        const states = entry?.item.states ?? [];
        const text = (one: number | null | undefined, words = states): string => valueText(one ?? null, words.length ? 0 : places, words);
        const [low, high] = [pen?.min[at] ?? pen?.mean[at], pen?.max[at] ?? pen?.mean[at]];
        const there = !states.length ? text(pen?.mean[at]) : low === high ? text(low) : `${text(low)} … ${text(high)}`;
        return html`<tr><td class="cb"><input type="checkbox" aria-label=${t("trends.show", { item: name })} .checked=${!veiled.has(name)} @change=${() => this.toggle(name)}></td>
          <td class="pn"><svg viewBox="0 0 40 8" width="40" height="8"><path class="pen" stroke=${penColor(index)} stroke-dasharray=${penDash(index).join(" ")} d="M0 4H40"></path></svg></td>
          <td class="id"><a href=${hrefOf("item", { name })}>${localOf(name)}</a></td><td>${station.labelOf(nodeOf(name))}</td><td class="m ds">${entry?.item.description}</td>
          <td class="num"><b>${there}</b> <small class="m">${entry?.item.unit}</small></td>
          <td class="num">${isTold ? valueText(entry.value, states.length ? 0 : places, states) : "-"}</td>
          <td class="num m mm">${text(numbers?.least)}</td><td class="num m mm">${text(numbers?.most)}</td>
          <td class="num m mm">${text(numbers?.mean, [])}</td>
          <td class="ql">${entry ? quality(station.sight, entry, now, station.hello?.qualities ?? {}, isFrozen) : t("item.unknown")}</td>
          <td class="num"><button class="sm" aria-label=${t("trends.remove", { item: name })} @click=${() => this.takeAway(name)}>×</button></td></tr>`;
      })}</tbody></table></section>`;
  }

  private toggle(name: string): void {
    if (!this.veiled.delete(name)) this.veiled.add(name);
    this.requestUpdate();
  }

  private takeAway(name: string): void {
    this.pens = this.pens.filter((one) => one !== name);
    this.pensChanged();
  }

  private pensChanged(): void {
    this.redrawnMono = 0;
    this.looked();
    this.keep();
    this.requestUpdate();
  }

  private readonly adding = (): void => {
    this.isAdding = !this.isAdding;
    this.find_ = "";
    this.looked();
    this.requestUpdate();
    if (this.isAdding) void this.updateComplete.then(() => this.find<HTMLInputElement>("#pen")?.focus());
  };

  private adder(): TemplateResult {
    const isFound = finder(this.find_);
    const found: Entry[] = [];
    for (const one of this.find_ ? station.sight.items.values() : []) {
      if (one.item.value_type === 4 || this.pens.includes(one.name) || !isFound(one)) continue;
      if (found.push(one) === FOUND_MAX) break;
    }
    return html`<form class="card pad adder" @submit=${(event: Event) => { event.preventDefault(); if (found[0]) this.add(found[0].name); }}>
      <label for="pen">${t("trends.add_label")}</label><input type="search" id="pen" autocomplete="off" .value=${this.find_} placeholder=${t("items.search")}
      @input=${(event: Event) => { this.find_ = (event.target as HTMLInputElement).value; this.requestUpdate(); }}>
      <div class="chips">${found.map((one) => html`<button type="button" @click=${() => this.add(one.name)}><span class="id">${one.name}</span> <span class="m">${one.item.description}</span></button>`)}
      ${this.find_ && !found.length ? html`<span>${t("items.none")}</span>` : nothing}</div></form>`;
  }

  private add(name: string): void {
    if (this.pens.length < PENS_MAX) this.pens = [...this.pens, name];
    this.pensChanged();
    this.find<HTMLInputElement>("#pen")?.focus();
  }

  private times(): TemplateResult {
    const local = (ms: number): string => new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
    return html`<form class="card pad adder" @submit=${(event: SubmitEvent) => {
      event.preventDefault();
      const data = new FormData(event.target as HTMLFormElement);
      const from = Date.parse(String(data.get("from")));
      const to = Date.parse(String(data.get("to")));
      if (to > from) this.ranged((to - from) / 1000, to);
      this.timesOpen = false;
      this.requestUpdate();
    }}><label>${t("trends.from")} <input type="datetime-local" step="1" name="from" .value=${local(this.fromMs)}></label>
      <label>${t("trends.to")} <input type="datetime-local" step="1" name="to" .value=${local(this.toMs)}></label><p class="m s">${t("trends.browser_time")}</p>
      <div class="row"><button class="go">${t("trends.show_range")}</button></div></form>`;
  }

  private readonly save = (): void => {
    const url = URL.createObjectURL(new Blob([csv(this.shown)], { type: "text/csv" }));
    const link = document.createElement("a");
    link.href = url;
    link.download = `trend-${new Date(this.fromMs).toISOString().slice(0, 19).replace(/:/g, "")}.csv`;
    link.click();
    URL.revokeObjectURL(url);
  };

  private readonly link = async (event: Event): Promise<void> => {
    const fixed = { pens: this.pens.join(","), span: String(Math.round(this.spanS)), to: String(Math.round(this.toMs)),
      ...(this.atMs ? { at: String(Math.round(this.atMs)) } : {}) };
    const button = event.target as HTMLElement;
    await navigator.clipboard?.writeText(location.href.replace(/#.*/, "") + hrefOf("trends", fixed)).then(
      () => { button.setAttribute("data-done", ""); }, () => undefined);
    setTimeout(() => button.removeAttribute("data-done"), 3_000);
  };

  override acted(act: Act): boolean {
    if (act === "add") this.adding();
    else if (act === "back" && this.isAdding) this.adding();
    else return false;
    return true;
  }
}

customElements.define("view-trends", Trends);
