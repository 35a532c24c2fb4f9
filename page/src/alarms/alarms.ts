/** Alarms: act on many, in order. The order does not change under the pointer. */
import { html, nothing, type TemplateResult } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { t, type Key } from "../words/words";
import { PATTERNS_MAX, station } from "../wire/station";
import { caseKey, localOf, nodeOf, type Entry } from "../wire/fold";
import { View, type Act } from "../frame/view";
import { here, hrefOf, note } from "../frame/route";
import { isWall } from "../frame/settings";
import { caseMark, tag } from "../marks/marks";
import { ageText, timeText } from "../truth/format";
import { FLOOD, asks, matches, priorityOf, shelfOf, worseFirst, type Filter } from "./order";
import { drawn, floodOf, folded, type Flood, type Line } from "./folding";
import { acks } from "./acks";
import { acting, type Action } from "./acting";
import { caseValue, farthest, lastWord, lineText, namesOf, sentence, stateText } from "./sentence";
import { causeOf, tagsOf } from "./lookup";
import "./load";
import type { ShownCase } from "../wire/words";

const TABS = ["active", "shelved", "out", "history", "load"] as const;
type Tab = (typeof TABS)[number];
type Column = "worst" | "since" | "site" | "what";
const ROWS_MAX = isWall ? 10 : 200;
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
  /** The list as it was arranged last: it stays while the pointer or the keyboard is in it. */
  private lines: Line[] = [];
  private listed = new Set<string>();
  private flood: Flood | null = null;
  private readonly opened = new Set<string>();
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
    const isList = tab !== "load" && tab !== "history";
    const waiting = isList ? this.arrange(cases, tab) : 0;
    return html`<div class="head"><h1>${t("page.alarms")}</h1>
      <div class="tabs" role="tablist">${TABS.map((one) => html`<button role="tab" aria-selected=${tab === one}
        @click=${() => this.to(one)}>${t(`alarms.${one}` as Key)}
        ${one === "active" || one === "shelved" || one === "out" ? html`<b>${count(one)}</b>` : nothing}</button>`)}</div>
      <span class="waits tag solid" role="status" ?data-none=${!waiting}>${t("alarms.waiting", { count: waiting })}</span>
      <span class="sp"></span>${tab === "load" ? nothing : this.filters()}</div>
      ${tab === "load" ? html`<view-load></view-load>` : tab === "history" ? this.history() : this.list(cases, tab)}`;
  }

  /** Looks at the items of the worst cases, so that their present values are shown. */
  private look(cases: ShownCase[]): void {
    const causes = cases.filter((one) => one.is_suppressed).map(causeOf).filter((one) => one);
    const items = [...new Set([...causes, ...cases.sort(worseFirst).map((one) => one.item)])].slice(0, PATTERNS_MAX).sort();
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
    this.lines = [];
    this.requestUpdate();
  }

  private to(tab: Tab): void {
    note("alarms", tab === "active" ? {} : { tab });
    this.chosen.clear();
    this.lines = [];
    this.panel = "";
    if (tab === "history") void this.askClosed();
    this.requestUpdate();
  }

  /** True: somebody is about to press a row, so none moves. */
  private get isHeld(): boolean {
    const list = this.find(".rows-of");
    return !!list && (list.matches(":has(:focus-visible)") || (matchMedia("(hover: hover)").matches && list.matches(":hover")));
  }

  /** Arranges the lines, unless they are held; gives how many cases wait for a line. */
  private arrange(cases: ShownCase[], tab: Tab): number {
    const listed = cases.filter((one) => shelfOf(one) === tab && matches(one, this.filter, station.labelOf(nodeOf(one.item))));
    if (this.lines.length && this.isHeld) return listed.filter((one) => !this.listed.has(caseKey(one))).length;
    const sign = this.isUp ? -1 : 1;
    const by: Record<Column, (one: ShownCase, other: ShownCase) => number> = {
      worst: worseFirst,
      since: (one, other) => other.raised_ms - one.raised_ms,
      site: (one, other) => nodeOf(one.item).localeCompare(nodeOf(other.item)) || worseFirst(one, other),
      what: (one, other) => sentence(one).localeCompare(sentence(other)),
    };
    listed.sort((one, other) => sign * by[this.column](one, other));
    this.listed = new Set(listed.map(caseKey));
    this.flood = tab === "active" ? floodOf(cases, station.nowMs) : null;
    this.lines = tab === "active" ? folded(listed, this.flood, causeOf) : folded(listed.map((one) => ({ ...one, is_suppressed: false })), null, causeOf);
    return 0;
  }

  private get shown(): Line[] {
    return drawn(this.lines, this.opened).slice(0, ROWS_MAX);
  }

  private list(cases: ShownCase[], tab: Tab): TemplateResult {
    const { flood, shown } = this;
    if (!shown.some((one) => one.key === this.at)) this.at = "";
    const beyond = drawn(this.lines, this.opened).slice(ROWS_MAX).filter((one) => !this.opened.has(one.key));
    const more = beyond.reduce((sum, one) => sum + one.cases.length, 0);
    const again = (): void => this.requestUpdate();
    return html`${flood ? html`<div class="fld" role="status"><div><b>${t("flood.title", { count: flood.count })}</b>
        ${t("flood.rule", { count: FLOOD, time: timeText(flood.sinceMs, station.zone, station.nowMs) })}</div><div class="s">${t("flood.order")}</div></div>` : nothing}
      <section class="card rows-of" @pointerleave=${again} @focusout=${again}>
      ${shown.length ? html`<table class="al"><thead><tr>
        <th class="cb"><input type="checkbox" aria-label=${t("alarms.select_shown")} .checked=${shown.every((one) => this.isChosen(one))}
          @change=${(event: Event) => this.chooseAll((event.target as HTMLInputElement).checked)}></th>
        ${this.header("worst", "alarms.p", "pm")}${this.header("since", "alarms.since", "ti")}${this.header("site", "alarms.site", "wh")}
        ${this.header("what", "alarms.what", "")}<th class="num vl">${t("alarms.value")}</th>
        <th class="stt">${t(tab === "shelved" ? "alarms.comes_back" : "alarms.state")}</th><th class="by">${t("alarms.last_word")}</th></tr></thead>
        <tbody>${repeat(shown, (one) => one.key, (one) => this.row(one, tab))}
        ${more ? html`<tr><td colspan="8">${t("alarms.more", { count: more })}</td></tr>` : nothing}
        </tbody></table>` : html`<p class="pad">${this.emptyText(cases, tab)}</p>`}</section>
      ${shown.length ? this.actions(tab) : nothing}`;
  }

  private emptyText(cases: ShownCase[], tab: Tab): string {
    if (tab !== "active") return t(tab === "shelved" ? "alarms.none_shelved" : "alarms.none_out");
    if (cases.some((one) => shelfOf(one) === "active")) return t("alarms.none_match");
    return t("alarms.none_active", { count: cases.filter((one) => shelfOf(one) === "shelved").length });
  }

  private header(column: Column, label: Key, kind: string): TemplateResult {
    if (isWall) return html`<th class=${kind}>${t(label)}</th>`;
    const isBy = this.column === column;
    return html`<th class=${kind} aria-sort=${isBy ? (this.isUp ? "ascending" : "descending") : nothing}>
      <button class="th" @click=${() => {
        this.isUp = isBy ? !this.isUp : false;
        this.column = column;
        this.lines = [];
        this.requestUpdate();
      }}>${t(label)}${isBy ? (this.isUp ? " ▴" : " ▾") : ""}</button></th>`;
  }

  private isChosen(line: Line): boolean {
    return line.cases.every((one) => this.chosen.has(caseKey(one)));
  }

  private row(line: Line, tab: Tab): TemplateResult {
    const { key } = line;
    const now = station.nowMs;
    // One that is held may be closed by now: its line stays until the list is let go.
    const cases = line.cases.map((one) => station.sight.cases.get(caseKey(one)) ?? { ...one, lifecycle_status: "closed" as const });
    const one = cases[0]!;
    const isFold = line.kind !== "one";
    const node = nodeOf(one.item);
    const isOld = station.isNotHeard(node);
    const isChosen = this.isChosen(line);
    const entryOf = (name: string): Entry | undefined => station.sight.items.get(name);
    const far = line.kind === "likes" ? farthest(cases, entryOf) : one;
    const { value, limit, unit } = caseValue(far, entryOf(far.item));
    const cause = line.kind === "suppressed" ? causeOf(one) : "";
    const text = isFold ? lineText(line.kind, cases, entryOf(cause)?.item.description || localOf(cause)) : "";
    const kind = cases.some(asks) ? "un" : "ack";
    const refusal = cases.map((each) => acks.refusal(each) || acting.refusal(caseKey(each))).find((text) => text);
    const since = station.sight.stale[node];
    const isOpen = this.opened.has(key);
    const said = line.kind === "suppressed" ? html`${tag("M", t("tag.suppressed"))} ${text}` : text;
    return html`<tr data-key=${key} tabindex=${this.at === key || (!this.at && this.lines[0]!.key === key) ? 0 : -1} aria-selected=${isChosen}
      class="p${priorityOf(one.severity)} ${kind} d${line.depth} ${isFold ? "fold" : ""} ${isChosen ? "sel" : ""} ${isOld ? "old" : ""}"
      @click=${(event: MouseEvent) => this.clicked(event, key)} @focus=${() => (this.at = key)}>
      <td class="st cb"><input type="checkbox" tabindex="-1" aria-label=${t("alarms.select", { item: isFold ? text : localOf(one.item) })}
        .checked=${isChosen} .indeterminate=${!isChosen && cases.some((each) => this.chosen.has(caseKey(each)))}></td>
      <td class="pm">${line.kind === "suppressed" ? nothing : caseMark(one)}</td>
      <td class="nb ti">${timeText(Math.min(...cases.map((each) => each.raised_ms)), station.zone, now)}${isFold ? " …" : ""}</td>
      <td class="nb wh">${station.labelOf(node)}</td>
      <td class="wt">${isFold ? html`${isWall ? said : html`<button class="unfold" tabindex="-1" aria-expanded=${isOpen}
          @click=${(event: Event) => this.unfold(event, key)}>${isOpen ? "▾" : "▸"} ${said}</button>`}
          <span class="id m q">${line.kind === "likes" ? namesOf(cases) : nothing}</span>`
        : html`${sentence(one)} <a class="id m q" href=${hrefOf("item", { name: one.item })} @click=${(event: Event) => event.stopPropagation()}>${localOf(one.item)}</a>`}
        <span class="q tg">${line.isFirst ? tag("1", t("flood.first")) : nothing}${isFold ? nothing : tagsOf(one)}${
          isOld ? tag("~", since ? ageText(now - since) : "?", true) : nothing}</span>
        ${refusal ? html`<div class="s q refusal">${refusal}</div>` : nothing}</td>
      <td class="num vl">${line.kind === "one" || line.kind === "likes" ? html`${value} <small class="m">${limit} ${unit}</small>` : nothing}</td>
      <td class="stt q">${cases.some((each) => acks.isAsked(each) || acting.isAsked(caseKey(each))) ? html`<b>${t("ack.asking")}</b>`
        : tab === "shelved" ? this.comesBack(one, now) : html`${stateText(...cases)}${one.activations > 1 && !isFold ? html` <span class="tm">×${one.activations}</span>` : nothing}`}</td>
      <td class="by q m">${isFold ? nothing : lastWord(one)}</td></tr>`;
  }

  private unfold(event: Event | null, key: string): boolean {
    event?.stopPropagation();
    if (!this.opened.delete(key)) this.opened.add(key);
    this.requestUpdate();
    return true;
  }

  private comesBack(one: ShownCase, now: number): string {
    const at = one.unshelve_ms ? timeText(one.unshelve_ms, station.zone, now) : "";
    if (one.shelving === "one_shot") return at ? t("shelve.when_gone_or", { time: at }) : t("shelve.when_gone");
    return at ? t("shelve.at", { time: at, age: ageText(one.unshelve_ms! - now) }) : "";
  }

  private get selected(): ShownCase[] {
    const found = [...this.listed].filter((one) => this.chosen.has(one)).map((one) => station.sight.cases.get(one));
    return found.filter((one) => one !== undefined);
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

  private clicked(event: MouseEvent, key: string): void {
    if (event.shiftKey && this.anchor) this.range(this.anchor, key);
    else this.toggle(key);
  }

  private choose(lines: Line[], isOn: boolean): void {
    for (const one of lines.flatMap((line) => line.cases).map(caseKey)) {
      if (isOn) this.chosen.add(one);
      else this.chosen.delete(one);
    }
    this.requestUpdate();
  }

  private toggle(key: string): void {
    const line = this.shown.find((one) => one.key === key);
    if (line) this.choose([line], !this.isChosen(line));
    this.anchor = key;
  }

  private range(from: string, to: string): void {
    const { shown } = this;
    const [a, b] = [from, to].map((key) => shown.findIndex((one) => one.key === key)).sort((one, other) => one - other);
    this.choose(shown.slice(Math.max(0, a!), b! + 1), true);
  }

  private chooseAll(isOn: boolean): void {
    this.chosen.clear();
    this.choose(isOn ? this.shown : [], true);
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
      case "enter": return this.shown.some((one) => one.key === this.at && one.kind !== "one") && this.unfold(null, this.at);
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
