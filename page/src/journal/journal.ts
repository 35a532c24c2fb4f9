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
  item?: string | null;
  item_id: number | null;
  condition: string | null;
  severity: number | null;
  value_f64: number | null;
  value_str: string | null;
}

const SPANS: [Key, number][] = [["span.1h", 3_600], ["span.8h", 28_800], ["span.24h", 86_400], ["span.7d", 604_800], ["span.30d", 2_592_000]];
const LIMIT = 1_000;

class Journal extends View {
  private spanS = 3_600;
  private node = "";
  private text = "";
  private kind = "";
  private rows: EventRow[] = [];
  private isAsking = false;
  private isCut = false;
  private refusal: Refusal | null = null;
  private items = new Map<number, string>();
  private askedFor = "";

  override connectedCallback(): void {
    super.connectedCallback();
    const { values } = here();
    this.spanS = Number(values.get("span")) || 3_600;
    this.node = values.get("node") ?? "";
    this.text = values.get("find") ?? "";
    station.want(this, []);
  }

  private async ask(): Promise<void> {
    const key = `${this.spanS} ${this.node}`;
    if (this.isAsking || key === this.askedFor || !station.hello || station.silence.ms) return;
    this.isAsking = true;
    this.askedFor = key;
    const end = station.nowMs;
    const node = this.node || station.hello.node;
    try {
      for (const one of station.sight.cases.values()) if (one.item.startsWith(`${node}:`)) this.items.set(one.item_id, one.item);
      const rows = await station.ask<EventRow[]>("events", { start_ms: end - this.spanS * 1000, end_ms: end, limit: LIMIT, node: this.node });
      this.isCut = rows.length >= LIMIT;
      this.rows = rows.sort((one, other) => other.at_ms - one.at_ms);
      this.refusal = null;
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.isAsking = false;
    this.requestUpdate();
  }

  private again(changed: { spanS?: number; node?: string; kind?: string; text?: string }): void {
    Object.assign(this, changed);
    note("journal", { ...(this.spanS !== 3_600 ? { span: String(this.spanS) } : {}), ...(this.node ? { node: this.node } : {}), ...(this.text ? { find: this.text } : {}) });
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    void this.ask();
    const text = this.text.toLowerCase();
    const kinds = [...new Set(this.rows.map((one) => one.kind))].sort();
    const rows = this.rows.filter((one) => (!this.kind || one.kind === this.kind)
      && (!text || `${one.kind} ${one.action} ${one.user} ${one.principal} ${one.subject} ${one.detail} ${this.subject(one)}`.toLowerCase().includes(text)));
    return html`<div class="head"><h1>${t("page.journal")}</h1><div class="seg">${SPANS.map(([label, span]) =>
      html`<button aria-pressed=${span === this.spanS} @click=${() => this.again({ spanS: span })}>${t(label)}</button>`)}
      <button @click=${() => { this.askedFor = ""; this.requestUpdate(); }}>${t("journal.anew")}</button></div><span class="sp"></span>
      <input type="search" class="find" placeholder=${t("alarms.filter")} aria-label=${t("alarms.filter")} .value=${this.text} @input=${(event: Event) => this.again({ text: (event.target as HTMLInputElement).value })}>
      <select aria-label=${t("alarms.site")} @change=${(event: Event) => this.again({ node: (event.target as HTMLSelectElement).value })}>
      ${station.nodes.map((one) => html`<option value=${one === station.hello?.node ? "" : one} .selected=${one === this.node}>${station.labelOf(one)}</option>`)}</select>
      <select aria-label=${t("journal.kind")} @change=${(event: Event) => this.again({ kind: (event.target as HTMLSelectElement).value })}><option value="">${t("journal.all")}</option>
      ${kinds.map((one) => html`<option .selected=${one === this.kind}>${one}</option>`)}</select></div>
      ${refused(this.refusal)}
      ${this.isCut ? html`<div class="no" role="status">${t("journal.cut", { count: LIMIT })}</div>` : nothing}
      <section class="card" tabindex="0" aria-label=${t("alarms.what_happened")}><header><h2>${t("alarms.what_happened")}</h2><span class="sp"></span><span class="m s">${this.isAsking ? t("ack.asking") : t("journal.newest", { count: rows.length })}</span></header>
      ${rows.length ? html`<table class="evt"><tbody>${rows.map((one) => this.row(one))}</tbody></table>` : html`<p class="pad">${this.isAsking ? t("ack.asking") : t("journal.none")}</p>`}</section>`;
  }

  private subject(one: EventRow): string {
    return one.item || one.subject || (one.item_id === null ? "" : this.items.get(one.item_id) ?? t("journal.item", { id: one.item_id }));
  }

  private row(one: EventRow): TemplateResult {
    const value = one.value_str ?? (one.value_f64 === null ? "" : numberText(one.value_f64, Number.isInteger(one.value_f64) ? 0 : 2));
    const who = one.user && one.principal && one.user !== one.principal ? `${one.user} (${one.principal})` : one.user || one.principal;
    return html`<tr><td class="nb">${exactText(one.at_ms, station.zone, station.nowMs)}</td><td>${one.severity === null ? nothing : mark(priorityOf(one.severity), "none")}</td>
      <td>${one.action.replace(/_/g, " ")}</td><td class="id">${this.subject(one)}</td>
      <td>${[one.condition?.replace(/_/g, " "), value, one.detail].filter((part) => part).join(" · ")}</td><td>${who}</td><td class="m s">${one.kind}</td></tr>`;
  }
}

customElements.define("view-journal", Journal);
