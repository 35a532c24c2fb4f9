/** Overview: is all well, else what and where. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { nodeOf, localOf, notHeardSince, type Entry } from "../wire/fold";
import { View } from "../frame/view";
import { hrefOf } from "../frame/route";
import { isWall } from "../frame/settings";
import { PRIORITIES, asks, count, priorityOf, shelfOf, worseFirst } from "../alarms/order";
import { caseValue, sentence } from "../alarms/sentence";
import { acks } from "../alarms/acks";
import { bar, caseMark, mark, spark, tag, tiles, troubleOf } from "../marks/marks";
import { ageText, clockText, timeText, valueText } from "../truth/format";
import { actives, latchTag } from "../alarms/lookup";
import { grouped } from "../alarms/folding";
import { pictureOf } from "../picture/link";
import { ROWS_MAX, placed, rowsOf, shownOf, smallOf, type Row } from "./rows";
import type { ShownCase } from "../wire/words";

const WRONG_MAX = 8;
const WRONG_WALL = 5;
const WALL_ROWS = 6;
const FEW_SITES = 4;
const SITES_WITH_ROWS = 12;
const FEW_ROWS = 4;
/** From so many cases on, the page is drawn once a second. */
const MANY = 200;

class Overview extends View {
  private rows = new Map<string, Row[]>();
  private catalogue = -1;
  private known = 0;
  private group = "";
  private active = new Map<string, ShownCase>();
  private cases = new Map<string, ShownCase[]>();

  override connectedCallback(): void {
    super.connectedCallback();
    this.catalogue = -1;
    station.want(this, ["*"]);
  }

  protected override render(): TemplateResult {
    if (!station.hello || !station.sight.isKnown) return html`<p class="m">${t("wait.first")}</p>`;
    this.choose();
    const { hello } = station;
    const all = [...station.sight.cases.values()];
    this.active = actives(all);
    this.cases = grouped(all, (one) => nodeOf(one.item));
    this.paceMs = all.length > MANY ? 1_000 : 100;
    const nodes = this.cards();
    return html`<div class="head nowall"><h1>${t("page.overview")}</h1>
      <span class="m s">${t("overview.below", { node: station.labelOf(hello.node) })}</span><span class="sp"></span>
      ${hello.groups.length ? html`<label class="m s nb plain">${t("overview.group")}
        <select class="sm" @change=${this.grouped}><option value="">${t("overview.sites")}</option>
        ${hello.groups.map((one) => html`<option .selected=${one.label === this.group}>${one.label}</option>`)}</select></label>` : nothing}</div>
      ${this.wrong()}${this.root(nodes)}
      ${nodes.length > SITES_WITH_ROWS ? this.list(nodes)
        : html`<div class="sites">${nodes.map((one) => this.card(one, nodes.length))}</div>`}`;
  }

  /** Chooses the rows anew if the set of items changed, and looks at no more than they need. */
  private choose(): void {
    const { sight, hello } = station;
    const known = station.alive?.items ?? this.known;
    if (known !== this.known) {
      this.known = known;
      station.want(this, ["*"]);
      return;
    }
    if (this.catalogue === sight.catalogue) return;
    this.catalogue = sight.catalogue;
    const byNode = new Map<string, Entry[]>();
    for (const one of sight.items.values()) byNode.set(one.node, [...(byNode.get(one.node) ?? []), one]);
    this.rows = new Map([...byNode].map(([node, entries]) => [node, rowsOf(node, entries, hello!.objects)]));
    const most = this.cards().length > FEW_SITES ? FEW_ROWS : ROWS_MAX;
    const shown = [...this.rows.values()].flatMap((rows) => rows.slice(0, most));
    const names = shown.flatMap((row) => row.entries.map((one) => one.name));
    if (names.length) {
      station.want(this, names.length <= 180 ? names : ["*"]);
      const kept = shown.filter((row) => row.kind === "bar").flatMap((row) => row.entries.slice(0, 10));
      void station.keepPasts(kept.slice(0, 200).map((one) => one.name));
    }
  }

  private cards(): string[] {
    const { hello } = station;
    const group = hello!.groups.find((one) => one.label === this.group);
    const all = station.nodes.filter((one) => this.rows.get(one)?.length || station.sight.stale[one] !== undefined);
    if (!group) return all;
    return all.filter((node) => group.members.some((one) => one === node || nodeOf(one) === node));
  }

  private readonly grouped = (event: Event): void => {
    this.group = (event.target as HTMLSelectElement).value;
    this.requestUpdate();
  };

  private wrong(): TemplateResult {
    const now = station.nowMs;
    const { sight } = station;
    const listed = [...sight.cases.values()].filter((one) => shelfOf(one) === "active" && !one.is_suppressed);
    const open = listed.filter(asks).sort(worseFirst);
    const acked = listed.length - open.length;
    const silent = Object.entries(sight.stale).filter(([node]) => !Object.keys(sight.stale).some((one) => node.startsWith(`${one}/`)));
    const all = isWall ? WRONG_WALL : WRONG_MAX;
    const most = Math.max(0, all - silent.length);
    const more = Math.max(0, open.length - most) + Math.max(0, silent.length - all);
    const isCalm = !open.length && !silent.length;
    const calmMs = Math.max(station.alive?.closed_ms ?? 0, station.alive?.returned_ms ?? 0, ...listed.map((one) => one.changed_ms));
    const note = [
      isCalm ? "" : t("wrong.order"), isWall && more ? t("wrong.more", { count: more }) : "", acked ? t("wrong.acked", { count: acked }) : "",
    ].filter((one) => one).join("; ");
    return html`<section class="card wrong" aria-label=${t("wrong.label")}><header><h2>${t("wrong.title")}</h2>
      <span class="m s">${note}</span><span class="sp"></span><a class="s nowall" href="#alarms">${t("wrong.all")}</a></header>
      ${isCalm ? html`<p class="pad">${calmMs ? t("wrong.nothing_since", { time: timeText(calmMs, station.zone, now) }) : t("wrong.nothing")}</p>`
        : html`<table><tbody>
        ${silent.slice(0, all).map(([node, since]) => this.silentNode(node, since, now))}
        ${open.slice(0, most).map((one) => this.wrongCase(one, now))}
        ${more && !isWall ? html`<tr><td class="st"></td><td colspan="6"><a href="#alarms">${t("wrong.more", { count: more })}</a></td></tr>` : nothing}
      </tbody></table>`}</section>`;
  }

  private silentNode(node: string, since: number, now: number): TemplateResult {
    const age = since ? ageText(now - since) : t("quality.never");
    return html`<tr class="node un"><td class="st">${tag("~", since ? ageText(now - since) : "?", true)}</td>
      <td class="wh">${station.labelOf(node)}</td>
      <td><span class="w1">${t("wrong.unheard")}</span> <span class="id m q wide">${node}</span></td><td class="num vl"></td>
      <td class="nb si q">${since ? timeText(since, station.zone, now) : ""}</td><td class="nb sx q wide">${age}</td>
      <td class="ac"><a class="btn sm" href="#plant">${t("wrong.look")}</a></td></tr>`;
  }

  private wrongCase(one: ShownCase, now: number): TemplateResult {
    const entry = station.sight.items.get(one.item);
    const { value, limit, unit } = caseValue(one, entry);
    const off = acks.reasonAgainst([one]);
    const refusal = acks.refusal(one);
    return html`<tr class="p${priorityOf(one.severity)} un ${station.isNotHeard(nodeOf(one.item)) ? "old" : ""}">
      <td class="st">${caseMark(one)}</td><td class="wh">${station.labelOf(nodeOf(one.item))}</td>
      <td><span class="w1">${sentence(one)}</span> <a class="id m q wide" href=${hrefOf("item", { name: one.item })}>${localOf(one.item)}</a>
        ${refusal ? html`<div class="s q">${refusal}</div>` : nothing}</td>
      <td class="num vl">${latchTag(one) ?? html`${value} <small class="m">${limit} ${unit}</small>`}</td>
      <td class="nb si q">${timeText(one.raised_ms, station.zone, now)}</td>
      <td class="nb sx q wide">${ageText(now - one.raised_ms)}</td>
      <td class="ac">${acks.isAsked(one) ? html`<span class="q">${t("ack.asking")}</span>`
        : html`<button class="sm" ?disabled=${off !== ""} title=${off} @click=${() => acks.ack([one])}>${t("ack.do")}</button>`}</td></tr>`;
  }

  private root(nodes: string[]): TemplateResult {
    const { hello, alive } = station;
    const leads = alive?.leads ?? "";
    return html`<section class="card rootn ${nodes.length > 2 ? "nowall" : ""}" aria-label=${station.labelOf(hello!.node)}><h2>${station.labelOf(hello!.node)}</h2>
      <span class="id m">${hello!.node}</span>
      ${hello!.members.map((one) => html`<span class="mem ${one.place === leads ? "lead" : ""}"><b>${one.place.replace(/^.*\[(.*)\]$/, "$1")}</b>
        ${one.place === leads ? t("root.leads") : one.place === hello!.member ? t("root.speaks") : t("root.other")}</span>`)}
      ${leads ? nothing : html`<span class="tag solid">${t("root.nobody")}</span>`}
      <span class="sp"></span><a class="s nowall" href="#plant">${t("page.plant")}</a></section>`;
  }

  private list(nodes: string[]): TemplateResult {
    const weight = (node: string): number => (station.isNotHeard(node) ? 0 : Math.min(9, ...(this.cases.get(node) ?? []).filter(asks)
      .map((one) => priorityOf(one.severity))));
    const sorted = [...nodes].sort((one, other) => weight(one) - weight(other));
    return html`<section class="card"><table><tbody>${sorted.map((node) => html`<tr class=${station.isNotHeard(node) ? "old" : ""}>
      <td><a href=${hrefOf("alarms", { node })}>${station.labelOf(node)}</a> <span class="id m nowall">${node}</span></td>
      <td class="num">${this.summary(node)}</td></tr>`)}</tbody></table></section>`;
  }

  private summary(node: string): TemplateResult {
    const { unacked, active } = count(this.cases.get(node) ?? []);
    const since = notHeardSince(station.sight, node);
    const forced = [...station.sight.forced].filter((one) => nodeOf(one) === node).length;
    const now = station.nowMs;
    return html`${PRIORITIES.filter((one) => active[one]).map((one) => html`<span class="nb">${mark(one, unacked[one] ? "unacked" : "acked")} <b>${active[one]}</b></span>`)}
      ${forced ? tag("=", t("site.forced", { count: forced })) : nothing}
      ${since === null ? nothing : html`${tag("~", since ? t("quality.unheard_for", { age: ageText(now - since) }) : t("quality.never"), true)}
        ${since ? html`<span class="nb s">${t("site.values_of", { time: clockText(since, station.zone) })}</span>` : nothing}`}`;
  }

  private card(node: string, sites: number): TemplateResult {
    const isOld = station.isNotHeard(node);
    const { active } = this;
    const all = this.rows.get(node) ?? [];
    const isWrong = (row: Row): boolean => row.entries.some((one) => active.has(one.name));
    const most = isWall ? WALL_ROWS : sites > FEW_SITES ? FEW_ROWS + all.slice(FEW_ROWS).filter(isWrong).length : ROWS_MAX;
    const rows = placed(all, isWrong, Math.min(ROWS_MAX, most));
    return html`<div class="branch">${sites > 1 ? this.join(node) : nothing}
      <section class="card site ${isOld ? "old" : ""}" aria-label=${station.labelOf(node)}>
      <header><h2>${station.labelOf(node)}</h2><span class="id m nowall">${node}</span>${pictureOf(node)}<span class="sp"></span>${this.summary(node)}</header>
      <div class="rows">${rows.length ? rows.map((row) => this.row(row, (name) => active.get(name)))
        : html`<p class="pad m">${t("site.no_items")}</p>`}</div></section></div>`;
  }

  /** The line from the node above to a site. */
  private join(node: string): TemplateResult {
    if (node === station.hello!.node) return html`<div class="join none"></div>`;
    const since = notHeardSince(station.sight, node);
    const text = since === null ? t("site.live")
      : since ? t("site.cut", { time: timeText(since, station.zone, station.nowMs) }) : t("quality.never");
    return html`<div class="join ${since === null ? "" : "cut"}"><span>${text}</span></div>`;
  }

  private row(row: Row, active: (name: string) => ShownCase | undefined): TemplateResult {
    const { sight, nowMs } = station;
    const shown = shownOf(row, active);
    const one = active(shown.name) ?? row.entries.map((entry) => active(entry.name)).find((found) => found);
    const trouble = troubleOf(sight, shown, one?.condition === "frozen");
    const href = row.entries.length > 1 ? hrefOf("items", { find: row.entries.length < 12
      ? row.entries.map((entry) => entry.local).join(",") : `${shown.local.replace(/\d+/g, "*")}`, node: shown.node })
      : hrefOf("item", { name: shown.name });
    const past = station.pasts.of(shown.name);
    const isTiles = row.kind === "tiles" && row.entries.length > 1;
    const on = row.entries.filter((entry) => entry.value === true).length;
    const value = isTiles ? html`${on}<small>${t("tiles.of", { all: row.entries.length })}</small>`
      : html`${trouble === "bad" ? "-" : valueText(shown.value, shown.places, shown.item.states)}<small>${shown.item.unit}</small>`;
    const glyph = { forced: "=", frozen: "||", bad: "?" }[trouble as string];
    return html`<div class="r ${shown.item.states?.length && !isTiles ? "wd" : ""}"><div class="nm"><a href=${href} title=${row.label}>${row.label}</a> <small>${smallOf(row, shown)}</small></div>
      <div class="bc">${isTiles ? tiles(row.entries.map((entry) => ({
        label: entry.local, isOn: entry.value === null ? null : entry.value === true, active: active(entry.name),
      }))) : row.kind === "bar" ? bar(shown, { trouble, active: one, past }) : nothing}</div>
      <div class="val">${glyph ? html`<span class="tag g"><i>${glyph}</i></span>` : nothing}${value}</div>
      <div class="spc">${row.kind === "bar" ? spark(shown, past, nowMs) : nothing}</div>
      <div class="mkc">${one ? caseMark(one) : nothing}</div></div>`;
  }
}

customElements.define("view-overview", Overview);
