/** Alarms: act on many, in order. The order does not change under the pointer. */
import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { t, type Key } from "../words/words";
import { PATTERNS_MAX, station } from "../wire/station";
import { caseKey, localOf, nodeOf } from "../wire/fold";
import { View, type Act } from "../frame/view";
import { here, hrefOf, note } from "../frame/route";
import { caseMark, tag } from "../marks/marks";
import { ageText, timeText } from "../truth/format";
import { FLOOD, asks, matches, newOnes, priorityOf, shelfOf, worseFirst, type Filter } from "./order";
import { acks } from "./acks";
import { acting, type Action } from "./acting";
import { caseValue, lastWord, sentence, stateText } from "./sentence";
import { tagsOf } from "./lookup";
import "./load";
import type { ShownCase } from "../wire/words";

const TABS = ["active", "shelved", "out", "history", "load"] as const;
type Tab = (typeof TABS)[number];
type Column = "worst" | "since" | "site" | "what";
const ROWS_MAX = 200;
/** From so many on, the list is drawn once a second. */
const MANY = 50;
const PRESETS: [Key, number | null][] = [
  ["shelve.15min", 900], ["shelve.30min", 1_800], ["shelve.1h", 3_600], ["shelve.4h", 14_400], ["shelve.8h", 28_800],
  ["shelve.12h", 43_200], ["shelve.until_gone", null],
];

class Alarms extends View {
  private filter: Filter = { text: "", node: "", isUnackedOnly: false };
  private column: Column = "worst";
  private isUp = false;
  private readonly chosen = new Set<string>();
  private anchor = "";
  private at = "";
  private isHeld = false;
  private order: string[] = [];
  private panel: "" | "shelve" | "comment" | "out" = "";
  private preset = 1;
  private closed: ShownCase[] = [];
  private looked = "";

  override connectedCallback(): void {
    super.connectedCallback();
    this.looked = "";
    this.filter.node = here().values.get("node") ?? "";
    if (this.tab === "history") void this.askClosed();
  }

  private get tab(): Tab {
    const tab = here().values.get("tab") as Tab | null;
    return tab && TABS.includes(tab) ? tab : "active";
  }

  protected override render(): TemplateResult {
    const cases = [...station.sight.cases.values()];
    for (const one of this.chosen) if (!station.sight.cases.has(one)) this.chosen.delete(one);
    this.look(cases);
    this.paceMs = cases.length > MANY ? 1_000 : 200;
    const count = (shelf: string): number => cases.filter((one) => shelfOf(one) === shelf).length;
    const { tab } = this;
    return html`<div class="head"><h1>${t("page.alarms")}</h1>
      <div class="tabs" role="tablist">${TABS.map((one) => html`<button role="tab" aria-selected=${tab === one}
        @click=${() => this.to(one)}>${t(`alarms.${one}` as Key)}
        ${one === "active" || one === "shelved" || one === "out" ? html`<b>${count(one)}</b>` : nothing}</button>`)}</div>
      <span class="sp"></span>${tab === "load" ? nothing : this.filters()}</div>
      ${tab === "load" ? html`<view-load></view-load>` : tab === "history" ? this.history() : this.list(cases, tab)}`;
  }

  /** Looks at the items of the worst cases, so that their present values are shown. */
  private look(cases: ShownCase[]): void {
    const items = [...new Set(cases.sort(worseFirst).map((one) => one.item))].slice(0, PATTERNS_MAX).sort();
    if (this.looked === items.join()) return;
    this.looked = items.join();
    station.want(this, items);
  }

  private filters(): TemplateResult {
    const nodes = [...new Set([...station.sight.cases.values()].map((one) => nodeOf(one.item)))].sort();
    return html`<div class="flt"><input type="search" placeholder=${t("alarms.filter")} aria-label=${t("alarms.filter")}
      .value=${this.filter.text} @input=${(event: Event) => this.filtered({ text: (event.target as HTMLInputElement).value })}>
      <select aria-label=${t("alarms.site")} @change=${(event: Event) => this.filtered({ node: (event.target as HTMLSelectElement).value })}>
        <option value="">${t("alarms.all_sites")}</option>${nodes.map((one) => html`<option value=${one}
          .selected=${one === this.filter.node}>${station.labelOf(one)}</option>`)}</select>
      <button aria-pressed=${this.filter.isUnackedOnly} @click=${() => this.filtered({ isUnackedOnly: !this.filter.isUnackedOnly })}
        >${t("alarms.only_unacked")}</button></div>`;
  }

  private filtered(changed: Partial<Filter>): void {
    Object.assign(this.filter, changed);
    this.order = [];
    this.requestUpdate();
  }

  private to(tab: Tab): void {
    note("alarms", tab === "active" ? {} : { tab });
    this.chosen.clear();
    this.order = [];
    this.panel = "";
    if (tab === "history") void this.askClosed();
    this.requestUpdate();
  }

  /** Cases of the list in their order; while the pointer is over it the order stays and new ones wait. */
  private ordered(cases: ShownCase[], tab: Tab): { shown: ShownCase[]; waiting: number } {
    const listed = cases.filter((one) => shelfOf(one) === tab && matches(one, this.filter, station.labelOf(nodeOf(one.item))));
    const byKey = new Map(listed.map((one) => [caseKey(one), one]));
    if (this.isHeld && this.order.length) {
      const kept = this.order.filter((one) => byKey.has(one));
      return { shown: kept.map((one) => byKey.get(one)!), waiting: listed.length - kept.length };
    }
    const sign = this.isUp ? -1 : 1;
    const by: Record<Column, (one: ShownCase, other: ShownCase) => number> = {
      worst: worseFirst,
      since: (one, other) => other.raised_ms - one.raised_ms,
      site: (one, other) => nodeOf(one.item).localeCompare(nodeOf(other.item)) || worseFirst(one, other),
      what: (one, other) => sentence(one).localeCompare(sentence(other)),
    };
    listed.sort((one, other) => sign * by[this.column](one, other));
    this.order = listed.map(caseKey);
    return { shown: listed, waiting: 0 };
  }

  private list(cases: ShownCase[], tab: Tab): TemplateResult {
    const { shown, waiting } = this.ordered(cases, tab);
    const fresh = newOnes(cases, station.nowMs);
    const suppressed = tab === "active" ? shown.filter((one) => one.is_suppressed) : [];
    const rows = shown.filter((one) => !suppressed.includes(one));
    const isFlood = tab === "active" && fresh.length >= FLOOD;
    return html`${isFlood ? html`<div class="fld" role="status"><div><b>${t("flood.title", { count: fresh.length })}</b>
        ${t("flood.rule", { count: FLOOD })}</div><div class="s">${t("flood.order")}</div></div>` : nothing}
      <section class="card" @pointerenter=${() => (this.isHeld = true)} @pointerleave=${this.released}>
      ${waiting > 0 ? html`<button class="waits" @click=${this.released}>${t("alarms.waiting", { count: waiting })}</button>` : nothing}
      ${rows.length || suppressed.length ? html`<table class="al"><thead><tr>
        <th class="cb"><input type="checkbox" aria-label=${t("alarms.select_shown")} .checked=${rows.length > 0 && rows.every((one) => this.chosen.has(caseKey(one)))}
          @change=${(event: Event) => this.chooseAll((event.target as HTMLInputElement).checked)}></th>
        ${this.header("worst", "alarms.p", "pm")}${this.header("since", "alarms.since", "ti")}${this.header("site", "alarms.site", "wh")}
        ${this.header("what", "alarms.what", "")}<th class="num vl">${t("alarms.value")}</th>
        <th class="stt">${t(tab === "shelved" ? "alarms.comes_back" : "alarms.state")}</th><th class="by">${t("alarms.last_word")}</th></tr></thead>
        <tbody>${repeat(rows.slice(0, ROWS_MAX), caseKey, (one) => this.row(one, tab))}
        ${suppressed.length ? this.suppressed(suppressed) : nothing}
        ${rows.length > ROWS_MAX ? html`<tr><td colspan="8">${t("alarms.more", { count: rows.length - ROWS_MAX })}</td></tr>` : nothing}
        </tbody></table>` : html`<p class="pad">${this.emptyText(cases, tab)}</p>`}</section>
      ${rows.length ? this.actions(tab) : nothing}`;
  }

  private emptyText(cases: ShownCase[], tab: Tab): string {
    if (tab !== "active") return t(tab === "shelved" ? "alarms.none_shelved" : "alarms.none_out");
    if (cases.some((one) => shelfOf(one) === "active")) return t("alarms.none_match");
    return t("alarms.none_active", { count: cases.filter((one) => shelfOf(one) === "shelved").length });
  }

  private header(column: Column, label: Key, kind: string): TemplateResult {
    const isBy = this.column === column;
    return html`<th class=${kind} aria-sort=${isBy ? (this.isUp ? "ascending" : "descending") : nothing}>
      <button class="th" @click=${() => {
        this.isUp = isBy ? !this.isUp : false;
        this.column = column;
        this.order = [];
        this.isHeld = false;
        this.requestUpdate();
      }}>${t(label)}${isBy ? (this.isUp ? " ▴" : " ▾") : ""}</button></th>`;
  }

  private row(one: ShownCase, tab: Tab): TemplateResult {
    const key = caseKey(one);
    const now = station.nowMs;
    const node = nodeOf(one.item);
    const isOld = station.isNotHeard(node);
    const isChosen = this.chosen.has(key);
    const { value, limit, unit } = caseValue(one, station.sight.items.get(one.item));
    const kind = asks(one) ? "un" : "ack";
    const refusal = acks.refusal(one) || acting.refusal(key);
    const since = station.sight.stale[node];
    return html`<tr data-key=${key} tabindex=${this.at === key || (!this.at && this.order[0] === key) ? 0 : -1} aria-selected=${isChosen}
      class="p${priorityOf(one.severity)} ${kind} ${isChosen ? "sel" : ""} ${isOld ? "old" : ""}"
      @click=${(event: MouseEvent) => this.clicked(event, key)} @focus=${() => (this.at = key)}>
      <td class="st cb"><input type="checkbox" tabindex="-1" aria-label=${t("alarms.select", { item: localOf(one.item) })} .checked=${isChosen}></td>
      <td class="pm">${caseMark(one)}</td><td class="nb ti">${timeText(one.raised_ms, station.zone, now)}</td>
      <td class="nb wh">${station.labelOf(node)}</td>
      <td class="wt">${sentence(one)} <a class="id m q" href=${hrefOf("item", { name: one.item })} @click=${(event: Event) => event.stopPropagation()}>${localOf(one.item)}</a>
        <span class="q tg">${tagsOf(one)}${isOld ? tag("~", since ? ageText(now - since) : "?", true) : nothing}</span>
        ${refusal ? html`<div class="s q refusal">${refusal}</div>` : nothing}</td>
      <td class="num vl">${value} <small class="m">${limit} ${unit}</small></td>
      <td class="stt q">${acks.isAsked(one) || acting.isAsked(key) ? html`<b>${t("ack.asking")}</b>`
        : tab === "shelved" ? this.comesBack(one, now) : html`${stateText(one)}${one.activations > 1 ? html` <span class="tm">×${one.activations}</span>` : nothing}`}</td>
      <td class="by q m">${lastWord(one)}</td></tr>`;
  }

  private comesBack(one: ShownCase, now: number): string {
    const at = one.unshelve_ms ? timeText(one.unshelve_ms, station.zone, now) : "";
    if (one.shelving === "one_shot") return at ? t("shelve.when_gone_or", { time: at }) : t("shelve.when_gone");
    return at ? t("shelve.at", { time: at, age: ageText(one.unshelve_ms! - now) }) : "";
  }

  private suppressed(list: ShownCase[]): TemplateResult {
    return html`<tr class="fold"><td class="cb"></td><td colspan="7"><details><summary>${tag("M", t("tag.suppressed"))}
      ${t("alarms.suppressed", { count: list.length })}</summary><ul>${list.map((one) => html`<li>${station.labelOf(nodeOf(one.item))}:
      ${sentence(one)} <span class="id m">${localOf(one.item)}</span></li>`)}</ul></details></td></tr>`;
  }

  private get selected(): ShownCase[] {
    return this.order.filter((one) => this.chosen.has(one)).map((one) => station.sight.cases.get(one)!).filter((one) => one);
  }

  private actions(tab: Tab): TemplateResult {
    const chosen = this.selected;
    const count = chosen.length;
    const none = count ? "" : t("alarms.nothing_selected");
    const off = none || acks.reasonAgainst(chosen);
    const outOff = none || acks.reasonAgainst(chosen, "engineer");
    const ackOff = off || (chosen.some(asks) ? "" : t("alarms.nothing_to_ack"));
    const resetOff = off || (chosen.some((one) => one.is_latched && !one.is_active && one.is_acked) ? "" : t("alarms.reset_rule"));
    const button = (label: Key, key: string, why: string, did: () => void, isMain = false): TemplateResult =>
      html`<button class=${isMain ? "go" : ""} ?disabled=${why !== ""} title=${why} @click=${did}>${t(label)}${key ? html` <kbd>${key}</kbd>` : nothing}</button>`;
    return html`<div class="bar2" ?data-none=${!count}><b>${t("alarms.selected", { count })}</b>
      ${tab === "active" ? html`${button("ack.do", "a", ackOff, () => this.act("ack"), true)}
        ${button("alarms.shelve", "s", off, () => this.open("shelve"))}${button("alarms.comment", "c", off, () => this.open("comment"))}
        ${button("alarms.reset", "r", resetOff, () => this.act("reset"))}${button("alarms.take_out", "", outOff, () => this.open("out"))}`
        : tab === "shelved" ? html`${button("alarms.unshelve", "u", off, () => this.act("unshelve"), true)}${button("alarms.comment", "c", off, () => this.open("comment"))}`
        : button("alarms.put_back", "", outOff, () => this.act("in_service"), true)}
      <span class="sp"></span><span class="m s wide">${t("alarms.hint")}</span></div>
      <div class="rel">${this.panel ? this.popped(count) : nothing}</div>`;
  }

  private popped(count: number): TemplateResult {
    const seconds = PRESETS[this.preset]![1];
    const until = seconds ? t("shelve.until", { time: timeText(station.nowMs + seconds * 1000, station.zone, station.nowMs) })
      : t("shelve.until_it_goes");
    const isShelve = this.panel === "shelve";
    const title = t(`pop.${this.panel}` as Key, { count });
    return html`<form class="pop" role="dialog" aria-label=${title} @submit=${this.submitted}><h2>${title}</h2>
      <p class="s m">${t(`pop.${this.panel}.what` as Key)}</p>
      ${isShelve ? html`<div class="pre" role="radiogroup" aria-label=${t("shelve.how_long")}>${PRESETS.map(([label], index) => html`<label class="ch">
        <input type="radio" name="for" .checked=${index === this.preset} @change=${() => { this.preset = index; this.requestUpdate(); }}>${t(label)}</label>`)}</div>
        <p class="s"><b>${until}</b></p>` : nothing}
      <div><label for="why">${t(this.panel === "comment" ? "pop.text" : "pop.why")} <span class="m plain">${t("pop.on_record")}</span></label>
        ${this.panel === "comment" ? html`<textarea id="why" name="why" rows="3" maxlength="1000" required></textarea>`
          : html`<input id="why" name="why" maxlength="1000" ?required=${this.panel === "out"}>`}</div>
      <div class="row"><button class="go" ?disabled=${station.silence.ms > 0 || !count}>${t(`pop.${this.panel}.do` as Key, { count })}</button>
        <button type="button" @click=${() => this.open("")}>${t("pop.leave")} <kbd>Esc</kbd></button></div></form>`;
  }

  private open(panel: "" | "shelve" | "comment" | "out"): void {
    this.panel = this.panel === panel ? "" : panel;
    this.requestUpdate();
    void this.updateComplete.then(() => {
      const first = this.find<HTMLElement>(".pop input:checked") ?? this.find<HTMLElement>(".pop :is(textarea, input)");
      if (first) {
        first.focus();
        this.find(".pop")?.scrollIntoView({ block: "nearest" });
      } else this.find<HTMLElement>(`tr[data-key="${CSS.escape(this.at)}"]`)?.focus();
    });
  }

  private readonly submitted = (event: SubmitEvent): void => {
    event.preventDefault();
    const comment = String(new FormData(event.target as HTMLFormElement).get("why") ?? "");
    const seconds = PRESETS[this.preset]![1];
    const { selected } = this;
    if (this.panel === "shelve") void acting.act(selected, seconds ? "shelve" : "shelve_once", comment, seconds ?? undefined);
    else void acting.act(selected, this.panel === "out" ? "out_of_service" : "comment", comment);
    this.open("");
  };

  private act(action: Action | "ack"): void {
    if (action === "ack") void acks.ack(this.selected);
    else void acting.act(action === "reset" ? this.selected.filter((one) => one.is_latched && !one.is_active) : this.selected, action, "");
  }

  private readonly released = (): void => {
    this.isHeld = false;
    this.order = [];
    this.requestUpdate();
  };

  private clicked(event: MouseEvent, key: string): void {
    if (event.shiftKey && this.anchor) this.range(this.anchor, key);
    else this.toggle(key);
  }

  private toggle(key: string, isOn = !this.chosen.has(key)): void {
    if (isOn) this.chosen.add(key);
    else this.chosen.delete(key);
    this.anchor = key;
    this.requestUpdate();
  }

  private range(from: string, to: string): void {
    const [a, b] = [this.order.indexOf(from), this.order.indexOf(to)].sort((one, other) => one - other);
    for (const key of this.order.slice(Math.max(0, a!), b! + 1)) this.chosen.add(key);
    this.requestUpdate();
  }

  private chooseAll(isOn: boolean): void {
    this.chosen.clear();
    if (isOn) for (const one of this.order.slice(0, ROWS_MAX)) this.chosen.add(one);
    this.requestUpdate();
  }

  private move(by: number): void {
    const rows = [...this.querySelectorAll<HTMLElement>("tr[data-key]")];
    const now = rows.findIndex((one) => one === document.activeElement || one.dataset.key === this.at);
    rows[Math.max(0, Math.min(rows.length - 1, now + by))]?.focus();
  }

  override acted(act: Act): boolean {
    const { tab, selected } = this;
    const hasSome = selected.length > 0 && !station.silence.ms;
    switch (act) {
      case "next": this.move(this.at ? 1 : 0); return true;
      case "previous": this.move(-1); return true;
      case "select": if (this.at) this.toggle(this.at); return this.at !== "";
      case "all": this.chooseAll(true); return true;
      case "acknowledge": if (hasSome && tab === "active") { this.act("ack"); return true; } return false;
      case "shelve": if (hasSome && tab === "active") { this.open("shelve"); return true; } return false;
      case "comment": if (hasSome) { this.open("comment"); return true; } return false;
      case "reset": if (hasSome) this.act("reset"); return hasSome;
      case "unshelve": if (hasSome && tab === "shelved") this.act("unshelve"); return hasSome;
      case "back":
        if (this.panel) this.open("");
        else this.chooseAll(false);
        return true;
      default: return false;
    }
  }

  private async askClosed(): Promise<void> {
    this.closed = await station.ask<ShownCase[]>("cases", { include_closed: true }).catch(() => []);
    this.requestUpdate();
  }

  private history(): TemplateResult {
    const now = station.nowMs;
    const rows = this.closed.filter((one) => matches(one, this.filter, ""))
      .sort((one, other) => other.changed_ms - one.changed_ms).slice(0, ROWS_MAX);
    return html`<section class="card"><header><h2>${t("alarms.what_happened")}</h2><span class="sp"></span>
      <a class="s" href="#journal">${t("page.journal")}</a></header>
      ${rows.length ? html`<table class="evt"><thead><tr><th>${t("alarms.changed")}</th><th>P</th><th>${t("alarms.state")}</th><th>${t("alarms.what")}</th>
      <th>${t("alarms.raised")}</th><th>${t("alarms.last_word")}</th></tr></thead><tbody>${rows.map((one) => html`<tr>
      <td class="nb">${timeText(one.changed_ms, station.zone, now)}</td><td>${caseMark(one)}</td>
      <td>${one.lifecycle_status === "closed" ? t("case.closed") : stateText(one)}</td>
      <td>${sentence({ ...one, description: station.sight.items.get(one.item)?.item.description ?? "" })} <span class="id m">${one.item}</span></td>
      <td class="nb">${timeText(one.raised_ms, station.zone, now)}</td><td class="m">${lastWord(one)}</td></tr>`)}</tbody></table>`
      : html`<p class="pad">${t("alarms.none_closed")}</p>`}</section>`;
  }
}

customElements.define("view-alarms", Alarms);
