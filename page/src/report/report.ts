/** Report: what the pipeline has written, of this node and of those below, the latest first. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { View } from "../frame/view";
import { refused } from "../truth/off";
import { ageText, timeText } from "../truth/format";
import { refusalOf } from "../item/orders";
import type { Refusal } from "../wire/words";

interface ReportRow {
  node: string;
  made_ms: number;
  path: string;
}

class Report extends View {
  private rows: ReportRow[] | null = null;
  /** Address of the one that is shown; it is loaded once, and stays through a takeover. */
  private shown = "";
  private node = "";
  private isAsked = false;
  private refusal: Refusal | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    station.want(this, []);
  }

  private async ask(node = ""): Promise<void> {
    if (!station.hello || station.silence.ms) return;
    this.isAsked = true;
    try {
      this.rows = await station.ask<ReportRow[]>("reports");
      this.refusal = null;
      const one = this.rows.find((row) => row.node === node) ?? this.rows[0];
      this.node = one?.node ?? "";
      this.shown = one ? station.url + one.path : "";
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    if (!this.isAsked) void this.ask();
    const now = station.nowMs;
    const said = (row: ReportRow): string =>
      t("report.of", { node: row.node, time: timeText(row.made_ms, station.zone, now), age: ageText(now - row.made_ms) });
    return html`<div class="head"><h1>${t("page.report")}</h1>
      ${this.rows?.length ? html`<select aria-label=${t("report.which")} @change=${(event: Event) =>
        this.ask((event.target as HTMLSelectElement).value)}>${this.rows.map((row) =>
          html`<option value=${row.node} .selected=${row.node === this.node}>${said(row)}</option>`)}</select>` : nothing}
      <button @click=${() => this.ask(this.node)}>${t("journal.anew")}</button></div>${refused(this.refusal)}
      ${this.rows && !this.shown ? html`<section class="card"><p class="pad">${t("report.none")}</p></section>` : nothing}
      ${this.shown ? html`<iframe class="card report" sandbox title=${t("report.title", { node: this.node })}
        src=${this.shown}></iframe>` : nothing}`;
  }
}

customElements.define("view-report", Report);
