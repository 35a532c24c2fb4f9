/** Items: find any value; what is forced. Rows beyond the window are not drawn. */
import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { t, type Key } from "../words/words";
import { station } from "../wire/station";
import type { Entry } from "../wire/fold";
import { View, type Act } from "../frame/view";
import { go, here, hrefOf, note } from "../frame/route";
import { bar, caseMark, quality, spark, troubleOf } from "../marks/marks";
import { actives } from "../alarms/lookup";
import { offFor } from "../truth/off";
import { ageText, fullText, isMeasured, valueText } from "../truth/format";
import { FILTERS, belongs, byName, finder, type ItemFilter, type ItemState } from "./find";
import { endText, refreshMs, type ForcedRow } from "./forced";
import type { ShownCase } from "../wire/words";

const ROW_PX = 38;
const ROW_PHONE_PX = 112;
const AROUND = 10;
const SORT_MS = 1_000;
const COLUMNS = ["alarm", "item", "site", "what", "value", "unit", "scale", "past", "age", "quality", "order"];
const NUMBERS = ["value", "age"];
/** Columns whose heading only a screen reader needs. */
const VEILED = ["alarm", "unit", "order"];

class Items extends View {
  private text = "";
  private node = "";
  private filter: ItemFilter = "all";
  private listed: Entry[] = [];
  private counts: Record<ItemFilter, number> = { all: 0, abnormal: 0, forced: 0, bad: 0, old: 0, set: 0 };
  private listedMono = -SORT_MS;
  private active = new Map<string, ShownCase>();
  private from = 0;
  private to = 40;
  private at = "";
  private forces: ForcedRow[] = [];
  private forcesMs = 0;
  private readonly scrolled = (): void => this.measure();

  override connectedCallback(): void {
    super.connectedCallback();
    const { values } = here();
    this.text = values.get("find") ?? "";
    this.node = values.get("node") ?? "";
    this.filter = (values.get("only") as ItemFilter | null) ?? "all";
    if (!FILTERS.includes(this.filter)) this.filter = "all";
    station.want(this, ["*"]);
    window.addEventListener("scroll", this.scrolled, { passive: true });
    window.addEventListener("resize", this.scrolled);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.removeEventListener("scroll", this.scrolled);
    window.removeEventListener("resize", this.scrolled);
  }

  private get rowPx(): number {
    return innerWidth <= 750 ? ROW_PHONE_PX : Math.max(ROW_PX, parseInt(getComputedStyle(document.documentElement).getPropertyValue("--row"), 10));
  }

  private measure(): void {
    const top = this.find<HTMLElement>(".it-body")?.getBoundingClientRect().top ?? 0;
    const from = Math.max(0, Math.floor(-top / this.rowPx) - AROUND);
    const to = from + Math.ceil(innerHeight / this.rowPx) + 2 * AROUND;
    if (from !== this.from || to !== this.to) {
      this.from = from;
      this.to = to;
      this.requestUpdate();
    }
  }

  private state(one: Entry): ItemState {
    const found = this.active.get(one.name);
    return { trouble: troubleOf(station.sight, one, found?.condition === "frozen"), isAbnormal: found !== undefined,
      isSeen: one.isLive || station.isNotHeard(one.node) };
  }

  /** Lists and counts anew, at most each second, so that no row jumps under the hand faster than that. */
  private list(): void {
    const mono = performance.now();
    if (mono - this.listedMono < SORT_MS) return;
    this.listedMono = mono;
    this.active = actives(station.sight.cases.values());
    const isFound = finder(this.text);
    for (const one of FILTERS) this.counts[one] = 0;
    const listed: Entry[] = [];
    for (const one of station.sight.items.values()) {
      if (one.isRetired) continue;
      const state = this.state(one);
      for (const filter of FILTERS) if (belongs(filter, one, state)) this.counts[filter] += 1;
      const isOfNode = !this.node || one.node === this.node || one.node.startsWith(`${this.node}/`);
      if (isOfNode && belongs(this.filter, one, state) && isFound(one)) listed.push(one);
    }
    this.listed = listed.sort(byName);
  }

  protected override render(): TemplateResult {
    this.list();
    void this.askForces();
    const { listed } = this;
    const shown = listed.slice(this.from, this.to);
    const px = this.rowPx;
    void station.keepPasts(listed.length <= 60 ? listed.map((one) => one.name) : []);
    return html`<div class="head"><h1>${t("page.items")}</h1>
      <input type="search" class="find" .value=${this.text} placeholder=${t("items.search")} aria-label=${t("items.search")} @input=${this.searched}>
      ${this.node ? html`<button @click=${() => this.only({ node: "" })}>${station.labelOf(this.node)} ×</button>` : nothing}
      <span class="m s" role="status">${t("items.shown", { count: listed.length, all: this.counts.all })}</span><span class="sp"></span>
      <div class="chips">${FILTERS.map((one) => html`<button aria-pressed=${this.filter === one} @click=${() => this.only({ filter: one })}>
        ${t(`items.${one}` as Key)} <b>${this.counts[one]}</b></button>`)}</div></div>
      <div class="card it" role="table" aria-label=${t("page.items")} aria-rowcount=${listed.length}>
        <div class="it-row it-head" role="row">${COLUMNS.map((one) =>
          html`<span role="columnheader" class=${NUMBERS.includes(one) ? "num" : ""}><span class=${VEILED.includes(one) ? "vh" : ""}>${t(`items.col.${one}` as Key)}</span></span>`)}</div>
        ${listed.length ? html`<div class="it-body" role="rowgroup" .style=${`height:${listed.length * px}px`}>
          ${repeat(shown, (one) => one.name, (one, index) => this.row(one, this.from + index, px))}</div>`
          : html`<p class="pad">${station.sight.isKnown ? t("items.none") : t("wait.first")}</p>`}</div>
      ${station.sight.forced.size ? this.register() : nothing}`;
  }

  private row(one: Entry, index: number, px: number): TemplateResult {
    const { sight, nowMs, hello } = station;
    const found = this.active.get(one.name);
    const isFrozen = found?.condition === "frozen";
    const trouble = troubleOf(sight, one, isFrozen);
    const past = station.pasts.of(one.name);
    const isNumber = isMeasured(one.item);
    return html`<div class="it-row ${trouble === "old" ? "old" : ""} ${one.item.value_type === 4 || one.item.states?.length ? "tx" : ""}" role="row" aria-rowindex=${index + 1} data-name=${one.name}
      tabindex=${this.at === one.name || (!this.at && index === 0) ? 0 : -1} .style=${`top:${index * px}px;height:${px}px`} @focus=${() => (this.at = one.name)}
      @dblclick=${() => go("item", { name: one.name })}>
      <span role="cell" class="mk1">${found ? caseMark(found) : nothing}</span>
      <span role="cell" class="id nm" title=${one.name}><a href=${hrefOf("item", { name: one.name })}>${one.local}</a></span>
      <span role="cell" class="st1" title=${station.labelOf(one.node)}>${station.labelOf(one.node)}</span><span role="cell" class="m ds" title=${one.item.description ?? nothing}>${one.item.description}</span>
      <span role="cell" class="num vv"><b class="val" title=${isNumber ? nothing : fullText(one.value, one.places, one.item.states)}>${trouble === "bad" || trouble === "empty" ? "-" : valueText(one.value, one.places, one.item.states)}</b></span>
      <span role="cell" class="m uu">${one.item.unit}</span>
      <span role="cell" class="bb">${isNumber ? bar(one, { trouble, active: found, past }) : nothing}</span>
      <span role="cell" class="tt">${isNumber && past ? spark(one, past, nowMs) : nothing}</span>
      <span role="cell" class="num aa">${one.sourceMs ? ageText(nowMs - one.sourceMs, true) : "-"}</span>
      <span role="cell" class="qq">${quality(sight, one, nowMs, hello?.qualities ?? {}, isFrozen)}</span>
      <span role="cell" class="ww">${this.write(one)}</span></div>`;
  }

  private write(one: Entry): TemplateResult | typeof nothing {
    if (!one.item.is_writable) return nothing;
    const off = offFor("operate", one.node);
    return off ? html`<button class="sm" disabled title=${off}>${t("items.write")}</button>`
      : html`<a class="btn sm" href=${hrefOf("item", { name: one.name })}>${t("items.write")}</a>`;
  }

  private async askForces(): Promise<void> {
    const { sight, nowMs } = station;
    if (!sight.forced.size || nowMs - this.forcesMs < refreshMs || !station.person) return;
    this.forcesMs = nowMs;
    this.forces = await station.ask<ForcedRow[]>("forces").catch(() => this.forces);
    this.requestUpdate();
  }

  private register(): TemplateResult {
    const names = [...station.sight.forced].sort();
    const rows = new Map(this.forces.map((one) => [one.item, one]));
    return html`<section class="card fc"><header><h2>${t("items.forced")}</h2><span class="m s">${t("items.forced_all", { count: names.length })}</span></header>
      <table><tbody>${names.map((name) => {
        const one = rows.get(name);
        return html`<tr><td class="id"><a href=${hrefOf("item", { name })}>${name}</a></td>${one ? html`
          <td>${t("force.to", { value: `${fullText(one.value, 1, one.states)} ${one.unit}`, measured: `${fullText(one.measured.value, 1, one.states)} ${one.unit}` })}</td>
          <td>${one.user}${one.reason ? `: ${one.reason}` : ""}</td><td>${endText(one, this.forcesMs)}</td>`
          : html`<td colspan="3"></td>`}<td class="num"><a class="btn sm" href=${hrefOf("item", { name })}>${t("items.end_force")}</a></td></tr>`;
      })}</tbody></table></section>`;
  }

  private readonly searched = (event: Event): void => this.only({ text: (event.target as HTMLInputElement).value });

  private only(changed: { text?: string; node?: string; filter?: ItemFilter }): void {
    if (changed.text !== undefined) this.text = changed.text;
    if (changed.node !== undefined) this.node = changed.node;
    if (changed.filter !== undefined) this.filter = changed.filter;
    this.listedMono = -SORT_MS;
    this.at = "";
    const values: Record<string, string> = {};
    if (this.text) values.find = this.text;
    if (this.node) values.node = this.node;
    if (this.filter !== "all") values.only = this.filter;
    note("items", values);
    this.requestUpdate();
    void this.updateComplete.then(() => this.measure());
  }

  private move(by: number): void {
    const now = this.listed.findIndex((one) => one.name === this.at);
    const next = this.listed[Math.max(0, Math.min(this.listed.length - 1, now + by))];
    if (!next) return;
    this.at = next.name;
    const body = this.find<HTMLElement>(".it-body")!;
    const top = body.getBoundingClientRect().top + this.listed.indexOf(next) * this.rowPx;
    if (top < 120 || top > innerHeight - 120) window.scrollBy(0, top - innerHeight / 2);
    this.measure();
    void this.updateComplete.then(() => this.find<HTMLElement>(`[data-name="${CSS.escape(next.name)}"]`)?.focus({ preventScroll: true }));
  }

  override acted(act: Act): boolean {
    switch (act) {
      case "next": this.move(1); return true;
      case "previous": this.move(-1); return true;
      case "enter": case "write": if (this.at) go("item", { name: this.at }); return this.at !== "";
      default: return false;
    }
  }
}

customElements.define("view-items", Items);
