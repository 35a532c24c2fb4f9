/** People: who is here, and who is present at the nodes. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { View, type Act } from "../frame/view";
import { offFor, refused } from "../truth/off";
import { ageText, timeText } from "../truth/format";
import { refusalOf } from "../item/orders";
import type { Refusal } from "../wire/words";

const ASK_MS = 5_000;

interface SessionRow {
  session_id: number;
  principal: string;
  address: string;
  role: string;
  since_ms: number;
  node: string;
  stale_since_ms?: number | null;
}

interface PersonRow {
  name: string;
  is_enabled?: boolean;
  roles?: Record<string, string>;
}

class People extends View {
  private sessions: SessionRow[] = [];
  private people: PersonRow[] | null = null;
  private askedMono = -ASK_MS;
  private refusal: Refusal | null = null;
  private ending: SessionRow | null = null;

  override connectedCallback(): void {
    super.connectedCallback();
    station.want(this, []);
  }

  private async ask(): Promise<void> {
    const mono = performance.now();
    if (mono - this.askedMono < ASK_MS || !station.person || station.silence.ms) return;
    this.askedMono = mono;
    const [sessions, people] = await Promise.all([
      station.ask<SessionRow[]>("sessions").catch((error: unknown) => { this.refusal = refusalOf(error); return this.sessions; }),
      station.ask<PersonRow[] | null>("people").catch(() => this.people),
    ]);
    this.sessions = sessions ?? [];
    this.people = people;
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    void this.ask();
    const { person } = station;
    const now = station.nowMs;
    return html`<div class="head"><h1>${t("page.people")}</h1></div><div class="grid">
      ${refused(this.refusal)}
      <section class="card"><header><h2>${t("people.you")}</h2></header><div class="pad grid">${person ? html`<p><b>${person.name}</b></p>
        <ul class="eff">${Object.entries(person.roles).map(([node, role]) => html`<li>${t("people.role", { role, node: node || t("people.everywhere") })}</li>`)}</ul>
        <div class="row"><button @click=${() => station.logout()}>${t("people.logout")}</button></div>`
        : html`<p>${t("people.nobody")}</p><div class="row"><a class="btn" href="#login">${t("login.do")}</a></div>`}</div></section>
      <section class="card"><header><h2>${t("people.sessions")}</h2><span class="m s">${t("people.sessions_what")}</span></header>
      ${this.sessions.length ? html`<table><thead><tr><th>${t("people.who")}</th><th>${t("people.from")}</th><th>${t("people.at")}</th><th>${t("people.has")}</th><th>${t("alarms.since")}</th><td></td></tr></thead>
        <tbody>${this.sessions.map((one) => html`<tr class=${station.isNotHeard(one.node) ? "old" : ""}><td><b>${one.principal}</b> ${person?.session_id === one.session_id && one.node === station.hello?.node ? html`<span class="m">${t("people.this")}</span>` : nothing}</td><td>${one.address}</td><td class="id">${one.node}</td><td>${one.role}</td>
        <td class="nb">${timeText(one.since_ms, station.zone, now)} <span class="m">${ageText(now - one.since_ms)}</span></td>
        <td class="num">${this.button(one)}</td></tr>`)}</tbody></table>` : html`<p class="pad m">${person ? t("people.none") : t("off.nobody")}</p>`}</section>
      ${this.ending ? this.endForm(this.ending) : nothing}
      ${this.people?.length ? html`<section class="card"><header><h2>${t("people.known")}</h2></header><table><tbody>${this.people.map((one) => html`<tr><td><b>${one.name}</b></td>
        <td>${one.is_enabled === false ? t("people.disabled") : ""}</td><td>${Object.entries(one.roles ?? {}).map(([node, role]) => `${role} ${node}`).join(", ")}</td></tr>`)}</tbody></table></section>` : nothing}</div>`;
  }

  private button(one: SessionRow): TemplateResult {
    const off = offFor("admin", one.node);
    return html`<button class="sm" ?disabled=${off !== ""} title=${off} @click=${() => { this.ending = one; this.requestUpdate(); }}>${t("people.end")}</button>`;
  }

  private endForm(one: SessionRow): TemplateResult {
    return html`<form class="card pad grid" role="dialog" aria-label=${t("people.end_title", { who: one.principal })} @submit=${async (event: SubmitEvent) => {
      event.preventDefault();
      const reason = String(new FormData(event.target as HTMLFormElement).get("why") ?? "");
      try {
        await station.ask("end_session", { session_id: one.session_id, node: one.node, reason });
        this.refusal = null;
      } catch (error) {
        this.refusal = refusalOf(error);
      }
      this.ending = null;
      this.askedMono = -ASK_MS;
      this.requestUpdate();
    }}><h2>${t("people.end_title", { who: one.principal })}</h2><div><label for="why">${t("pop.why")} <span class="m plain">${t("pop.on_record")}</span></label>
      <input id="why" name="why" maxlength="1000" autocomplete="off"></div><div class="row"><button class="go">${t("people.end_do")}</button>
      <button type="button" @click=${() => { this.ending = null; this.requestUpdate(); }}>${t("pop.leave")} <kbd>Esc</kbd></button></div></form>`;
  }

  override acted(act: Act): boolean {
    if (act !== "back" || !this.ending) return false;
    this.ending = null;
    this.requestUpdate();
    return true;
  }
}

customElements.define("view-people", People);
