/** People: who is here and present, who is on record with which roles, and keys that want to be let in. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { View } from "../frame/view";
import { offFor, refused } from "../truth/off";
import { ageText, timeText } from "../truth/format";
import { refusalOf } from "../item/orders";
import { groups, nameField, passwordField, reasonField, roleFields, type Form, type Values } from "./forms";
import type { Refusal } from "../wire/words";

const ASK_MS = 5_000;

interface SessionRow {
  session_id: number;
  principal: string;
  address: string;
  role: string;
  since_ms: number;
  node: string;
}

interface PersonRow {
  name: string;
  is_enabled: boolean;
  has_password: boolean;
  is_one_time: boolean;
  certificate: string;
  tokens: unknown[];
}

interface AccessRow {
  principal: string;
  grants: { role: string; node: string }[];
  has_key: boolean | null;
}

interface Knock {
  public: string;
  address: string;
  at_ms: number;
  times: number;
}

class People extends View {
  private sessions: SessionRow[] = [];
  /** What the node tells to whoever may know it; null: not to this person. */
  private people: PersonRow[] | null = null;
  private access: AccessRow[] | null = null;
  private knocks: Knock[] = [];
  private askedMono = -ASK_MS;
  private refusal: Refusal | null = null;
  private form: Form | null = null;
  private isAsking = false;

  override connectedCallback(): void {
    super.connectedCallback();
    station.want(this, []);
  }

  private async ask(): Promise<void> {
    const mono = performance.now();
    if (mono - this.askedMono < ASK_MS || !station.person || station.silence.ms) return;
    this.askedMono = mono;
    const told = <Row>(method: string): Promise<Row[] | null> => station.ask<Row[] | null>(method).catch(() => null);
    const [sessions, people, access, knocks] = await Promise.all([
      told<SessionRow>("sessions"), told<PersonRow>("people"), told<AccessRow>("access"), told<Knock>("knocks"),
    ]);
    this.sessions = sessions ?? this.sessions;
    this.people = people;
    this.access = access;
    this.knocks = knocks ?? [];
    this.requestUpdate();
  }

  protected override updated(): void {
    const dialog = this.find<HTMLDialogElement>("dialog");
    if (dialog && !dialog.open) dialog.showModal();
  }

  protected override render(): TemplateResult {
    void this.ask();
    const { person } = station;
    const here = station.hello?.node ?? "";
    const off = offFor("admin", here);
    return html`<div class="head"><h1>${t("page.people")}</h1></div><div class="grid">
      <section class="card"><header><h2>${t("people.you")}</h2></header><div class="pad grid">${person ? html`<p><b>${person.name}</b></p>
        <ul class="eff">${Object.entries(person.roles).map(([node, role]) => html`<li>${roleText(role, node)}</li>`)}</ul>
        <div class="row"><button @click=${() => station.logout()}>${t("people.logout")}</button></div>`
        : html`<p>${t("people.nobody")}</p><div class="row"><a class="btn" href="#login">${t("login.do")}</a></div>`}</div></section>
      ${this.present()}
      <section class="card" aria-label=${t("people.known")}><header><h2>${t("people.known")}</h2><span class="sp"></span>
        ${this.button(t("people.new"), off, () => newPerson())}</header>
        ${station.may("admin", here) ? nothing : html`<p class="pad s m">${off}. ${t("people.who_gives")}</p>`}
        ${this.people?.length ? html`<table>
          <thead><tr><th>${t("login.name")}</th><th>${t("people.roles")}</th><th>${t("people.by")}</th><td></td></tr></thead>
          <tbody>${this.people.map((one) => this.known(one, off))}</tbody></table>` : nothing}</section>
      ${this.access ? this.keys(this.access, off) : nothing}</div>
      ${this.form ? this.dialog(this.form) : nothing}`;
  }

  private present(): TemplateResult {
    const { person, hello } = station;
    const now = station.nowMs;
    const row = (one: SessionRow): TemplateResult => html`<tr class=${station.isNotHeard(one.node) ? "old" : ""}>
      <td><b>${one.principal}</b> ${person?.session_id === one.session_id && one.node === hello?.node
        ? html`<span class="m">${t("people.this")}</span>` : nothing}</td>
      <td>${one.address}</td><td class="id">${one.node}</td><td>${one.role}</td>
      <td class="nb">${timeText(one.since_ms, station.zone, now)} <span class="m">${ageText(now - one.since_ms)}</span></td>
      <td class="num">${this.button(t("people.end"), offFor("admin", one.node), () => ({
        title: t("people.end_title", { who: one.principal }), go: t("people.end_do"), fields: reasonField(),
        send: ({ why }) => station.ask("end_session", { session_id: one.session_id, node: one.node, reason: why }),
      }))}</td></tr>`;
    return html`<section class="card" aria-label=${t("people.sessions")}><header><h2>${t("people.sessions")}</h2>
      <span class="m s">${t("people.sessions_what")}</span></header>
      ${this.sessions.length ? html`<table><thead><tr><th>${t("people.who")}</th><th>${t("people.from")}</th><th>${t("people.at")}</th>
        <th>${t("people.has")}</th><th>${t("alarms.since")}</th><td></td></tr></thead><tbody>${this.sessions.map(row)}</tbody></table>`
        : html`<p class="pad m">${person ? t("people.none") : t("off.nobody")}</p>`}</section>`;
  }

  private known(one: PersonRow, off: string): TemplateResult {
    const { name } = one;
    const by = [one.has_password ? t(one.is_one_time ? "people.one_time" : "login.password") : "",
      one.certificate ? t("people.certificate") : "",
      one.tokens.length ? t("people.tokens", { count: one.tokens.length }) : ""].filter((part) => part).join(", ");
    return html`<tr><td><b>${name}</b> ${one.is_enabled ? nothing : html`<span class="tag">${t("people.disabled")}</span>`}</td>
      <td>${this.roles(`person:${name}`, off)}</td><td>${by || t("people.by_nothing")}</td><td class="num">
      ${this.button(t("people.password"), off, () => ({
        title: t("people.password_title", { who: name }), go: t("people.password_do"), fields: passwordField(),
        send: ({ password }) => station.ask("set_password", { name, password }),
      }))}
      ${this.button(t(one.is_enabled ? "people.disable" : "people.enable"), off, () => ({
        title: t(one.is_enabled ? "people.disable_title" : "people.enable_title", { who: name }),
        what: t(one.is_enabled ? "people.disable_what" : "people.enable_what"),
        go: t(one.is_enabled ? "people.disable_do" : "people.enable_do"),
        send: () => station.ask("enable_person", { name, is_enabled: !one.is_enabled }),
      }))}</td></tr>`;
  }

  /** Roles of a person or key, each to be taken, and one more to be given. */
  private roles(principal: string, off: string): TemplateResult {
    const grants = this.access?.find((one) => one.principal === principal)?.grants ?? [];
    return html`${grants.length ? nothing : html`<span class="m">${t("people.only_view")}</span>`}
      ${grants.map(({ role, node }) => html`${roleText(role, node)} ${this.button(t("people.take"), off, () => ({
        title: t("people.take_title", { role: roleText(role, node), who: principal }), go: t("people.take_do"), what: t("people.take_what"),
        send: () => station.ask("revoke", { principal, node }),
      }), `${principal}: ${roleText(role, node)}`)} `)}
      ${this.button(t("people.give"), off, () => ({
        title: t("people.give_title", { who: principal }), go: t("people.give_do"), fields: roleFields(),
        send: ({ role, node }) => station.ask("grant", { principal, role, node }),
      }), principal)}`;
  }

  private keys(access: AccessRow[], off: string): TemplateResult {
    const keys = access.filter((one) => !one.principal.startsWith("person:"));
    const member = station.hello?.member ?? "";
    return html`<section class="card" aria-label=${t("people.keys")}><header><h2>${t("people.keys")}</h2>
      <span class="m s">${t("people.keys_what")}</span></header>
      ${keys.length ? html`<table><tbody>${keys.map((one) => html`<tr><td><b>${one.principal}</b></td>
        <td>${this.roles(one.principal, off)}</td><td>${one.has_key === false ? t("people.no_key") : ""}</td></tr>`)}</tbody></table>`
        : html`<p class="pad m">${t("people.no_keys")}</p>`}</section>
      <section class="card" aria-label=${t("people.knocks")}><header><h2>${t("people.knocks")}</h2>
      <span class="m s">${t("people.knocks_what", { member })}</span></header>
      ${this.knocks.length ? html`<table><tbody>${this.knocks.map((one) => html`<tr><td class="id wrap">${groups(one.public)}</td>
        <td>${one.address}</td><td class="nb">${timeText(one.at_ms, station.zone, station.nowMs)}
        <span class="m">${t("people.times", { count: one.times })}</span></td>
        <td class="num">${this.button(t("people.trust"), off, () => trustForm(one.public, member))}</td></tr>`)}</tbody></table>`
        : html`<p class="pad m">${t("people.no_knocks")}</p>`}</section>`;
  }

  private button(text: string, off: string, form: () => Form, of = ""): TemplateResult {
    const open = (): void => {
      this.form = form();
      this.refusal = null;
      this.requestUpdate();
    };
    return html`<button class="sm" aria-label=${`${text} ${of}`.trim()} ?disabled=${off !== ""} title=${off}
      @click=${open}>${text}</button>`;
  }

  private dialog(form: Form): TemplateResult {
    const shut = (): void => { this.form = null; this.requestUpdate(); };
    return html`<dialog aria-labelledby="form-title" @close=${shut}><form class="grid" @submit=${this.submitted}>
      <h2 id="form-title">${form.title}</h2>${form.what ? html`<p>${form.what}</p>` : nothing}
      ${refused(this.refusal)}${form.fields ?? nothing}<div class="row">
      <button class="go" ?disabled=${this.isAsking || station.silence.ms > 0}>${this.isAsking ? t("ack.asking") : form.go}</button>
      <button type="button" @click=${() => this.find<HTMLDialogElement>("dialog")?.close()}>${t("pop.leave")} <kbd>Esc</kbd></button>
      </div></form></dialog>`;
  }

  private readonly submitted = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target as HTMLFormElement)) as Values;
    this.isAsking = true;
    this.refusal = null;
    this.requestUpdate();
    try {
      await this.form?.send(values);
      this.find<HTMLDialogElement>("dialog")?.close();
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.isAsking = false;
    this.askedMono = -ASK_MS;
    this.requestUpdate();
  };
}

const roleText = (role: string, node: string): string => t("people.role", { role, node: node || t("people.everywhere") });

const newPerson = (): Form => ({
  title: t("people.new_title"), go: t("people.new_do"), fields: html`${nameField()}${passwordField()}${roleFields()}`,
  send: async ({ name, password, role, node }) => {
    await station.ask("add_person", { name, password });
    if (role !== "view") await station.ask("grant", { principal: `person:${name}`, role, node });
  },
});

const trustForm = (key: string, member: string): Form => ({
  title: t("people.trust_title"), what: t("people.trust_what", { member }), go: t("people.trust_do"),
  fields: html`<p class="id wrap">${groups(key)}</p>${nameField()}${roleFields()}`,
  send: ({ name, role, node }) => station.ask("trust", { principal: name, public: key, role, node }),
});

customElements.define("view-people", People);
