/** Journal: what happened and who did it, newest first, as the node has it on record. */
import { html, nothing, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import { station } from "../wire/station";
import { View } from "../frame/view";
import { here, note } from "../frame/route";
import { mark } from "../marks/marks";
import { refused } from "../truth/off";
import { exactText, numberText } from "../truth/format";
import { priorityOf } from "../alarms/order";
import { refusalOf } from "../item/orders";
import type { Refusal } from "../wire/words";

export interface EventRow {
  at_ms: number;
  kind: string;
  action: string;
  user: string;
  principal: string;
  subject: string;
  detail: string;
  case_id: number | null;
  item: string | null;
  condition: string | null;
  severity: number | null;
  value_f64: number | null;
  value_str: string | null;
  /** The value as it was read then: by its word, with the value behind it; null: it had none. */
  shown: string | null;
}

const SPANS: [Key, number][] = [
  ["span.1h", 3_600], ["span.8h", 28_800], ["span.24h", 86_400], ["span.7d", 604_800], ["span.30d", 2_592_000],
];
const KINDS = ["case", "audit", "control"];
const LIMIT = 500;

class Journal extends View {
  private spanS = 3_600;
  private node = "";
  private text = "";
  private kind = "";
  private rows: EventRow[] = [];
  private isAsking = false;
  private refusal: Refusal | null = null;
  private askedFor = "";
  private endMs = 0;
  /** Where older ones go on; empty: these are all of this time. */
  private next = "";

  override connectedCallback(): void {
    super.connectedCallback();
    const { values } = here();
    this.spanS = Number(values.get("span")) || 3_600;
    this.node = values.get("node") ?? "";
    this.text = values.get("find") ?? "";
    this.kind = values.get("kind") ?? "";
    station.want(this, []);
  }

  private async ask(isOlder = false): Promise<void> {
    const key = `${this.spanS} ${this.node} ${this.kind}`;
    if (this.isAsking || (key === this.askedFor && !isOlder) || !station.hello || station.silence.ms) return;
    this.isAsking = true;
    this.askedFor = key;
    if (!isOlder) this.endMs = station.nowMs;
    try {
      const told = await station.ask<{ events: EventRow[]; next: string }>("events", {
        start_ms: Math.floor(this.endMs - this.spanS * 1000), end_ms: Math.ceil(this.endMs), node: this.node, kind: this.kind,
        newest_first: true, limit: LIMIT, cursor: isOlder ? this.next : "",
      });
      this.rows = isOlder ? [...this.rows, ...told.events] : told.events;
      this.next = told.next;
      this.refusal = null;
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.isAsking = false;
    this.requestUpdate();
  }

  private again(changed: { spanS?: number; node?: string; kind?: string; text?: string }): void {
    Object.assign(this, changed);
    const values = { span: this.spanS === 3_600 ? "" : String(this.spanS), node: this.node, kind: this.kind, find: this.text };
    note("journal", Object.fromEntries(Object.entries(values).filter(([, value]) => value)));
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    void this.ask();
    const words = this.text.toLowerCase().split(/\s+/);
    const rows = this.rows.filter((one) => {
      const told = [one.kind, one.action, one.condition, one.user, one.principal, one.subject, one.shown, one.detail, one.item]
        .join(" ").toLowerCase();
      return words.every((word) => told.includes(word));
    });
    const { length: all } = this.rows;
    const said = this.isAsking ? t("ack.asking")
      : rows.length < all ? t("journal.of", { count: rows.length, all }) : t("journal.newest", { count: all });
    return html`<div class="head"><h1>${t("page.journal")}</h1><div class="seg">${SPANS.map(([label, span]) =>
      html`<button aria-pressed=${span === this.spanS} @click=${() => this.again({ spanS: span })}>${t(label)}</button>`)}
      <button @click=${() => { this.askedFor = ""; this.requestUpdate(); }}>${t("journal.anew")}</button></div><span class="sp"></span>
      <input type="search" class="find" placeholder=${t("alarms.filter")} aria-label=${t("alarms.filter")} .value=${this.text}
        @input=${(event: Event) => this.again({ text: (event.target as HTMLInputElement).value })}>
      ${this.choice("alarms.site", station.nodes.map((one) => [one === station.hello?.node ? "" : one, station.labelOf(one)]),
        this.node, (node) => this.again({ node }))}
      ${this.choice("journal.kind", [["", t("journal.all")], ...KINDS.map((one): [string, string] => [one, one])],
        this.kind, (kind) => this.again({ kind }))}</div>
      ${refused(this.refusal)}
      <section class="card" tabindex="0" aria-label=${t("alarms.what_happened")}><header><h2>${t("alarms.what_happened")}</h2>
        <span class="sp"></span><span class="m s" role="status">${said}</span></header>
      ${rows.length ? html`<table class="evt"><tbody>${rows.map((one) => this.row(one))}</tbody></table>`
        : html`<p class="pad">${this.isAsking ? t("ack.asking") : t(all ? "journal.none_like" : "journal.none")}</p>`}
      ${this.next ? html`<p class="pad"><button ?disabled=${this.isAsking || station.silence.ms > 0}
        @click=${() => this.ask(true)}>${t("journal.older")}</button></p>` : nothing}</section>`;
  }

  private choice(label: Key, options: [string, string][], chosen: string, take: (value: string) => void): TemplateResult {
    return html`<select aria-label=${t(label)} @change=${(event: Event) => take((event.target as HTMLSelectElement).value)}>
      ${options.map(([value, text]) => html`<option value=${value} .selected=${value === chosen}>${text}</option>`)}</select>`;
  }

  private row(one: EventRow): TemplateResult {
    const { value_f64: number } = one;
    const value = one.shown ?? one.value_str ?? (number === null ? "" : numberText(number, Number.isInteger(number) ? 0 : 2));
    const who = one.user && one.principal && one.user !== one.principal ? `${one.user} (${one.principal})` : one.user || one.principal;
    return html`<tr><td class="nb">${exactText(one.at_ms, station.zone, station.nowMs)}</td>
      <td>${one.severity === null ? nothing : mark(priorityOf(one.severity), "none")}</td>
      <td>${one.action.replace(/_/g, " ")}</td><td class="id">${one.item ?? one.subject}</td>
      <td>${[one.condition?.replace(/_/g, " "), value, one.detail].filter((part) => part).join(" · ")}</td><td>${who}</td>
      <td class="m s">${one.kind}</td></tr>`;
  }
}

customElements.define("view-journal", Journal);
