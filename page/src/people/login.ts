/** Log in: name and password; what was refused, and why, stands above. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { Refused } from "../wire/link";
import { View } from "../frame/view";
import { go } from "../frame/route";
import { refused } from "../truth/off";
import { PRIORITIES, count } from "../alarms/order";
import { mark } from "../marks/marks";
import type { Refusal } from "../wire/words";

class Login extends View {
  private refusal: Refusal | null = null;
  private isAsking = false;
  /** The password was good for this one login: a new one is asked for, twice. */
  private isForOnce = false;

  protected override firstUpdated(): void {
    this.find<HTMLInputElement>("#name")?.focus();
  }

  protected override render(): TemplateResult {
    const { hello, alive } = station;
    const { unacked } = count(station.sight.cases.values());
    const open = PRIORITIES.filter((one) => unacked[one]);
    return html`<main class="login"><form class="card" @submit=${this.submitted}>
      <h1>Albireo</h1>
      <p>${hello ? station.labelOf(hello.node) : ""} <span class="id m">${hello?.node}</span></p>
      ${alive?.leads ? html`<p class="s m">${t("login.leads", { member: alive.leads })}</p>` : nothing}
      ${station.endedBecause && !this.refusal ? html`<div class="no" role="alert"><b>${station.endedBecause}</b></div>` : nothing}
      ${refused(this.refusal)}
      <div><label for="name">${t("login.name")}</label><input id="name" name="name" autocomplete="username" required></div>
      <div><label for="password">${t("login.password")}</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required></div>
      ${this.isForOnce ? html`<div><label for="new">${t("login.new")}</label><input id="new" name="new" type="password" autocomplete="new-password" minlength="8" required></div>
        <div><label for="again">${t("login.again")}</label><input id="again" name="again" type="password" autocomplete="new-password" required></div>` : nothing}
      <button class="go" type="submit" ?disabled=${this.isAsking}>${this.isAsking ? t("login.asking") : t("login.do")}</button>
      ${hello?.may_look ? html`<p class="s m">${open.length ? html`${t("login.alarms")} ${open.map((one) =>
        html`<span class="nb">${mark(one, "unacked")} <b>${unacked[one]}</b> </span>`)}${t("login.unacked")}` : t("login.calm")}
        <a href="#overview">${t("login.look")}</a></p>` : nothing}
    </form></main>`;
  }

  private readonly submitted = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const data = new FormData(event.target as HTMLFormElement);
    const fresh = String(data.get("new") ?? "");
    if (this.isForOnce && fresh !== String(data.get("again"))) {
      this.refusal = { code: "bad_value", cause: t("login.differ"), remedy: "" };
      this.requestUpdate();
      return;
    }
    this.isAsking = true;
    this.refusal = null;
    this.requestUpdate();
    try {
      await station.login(String(data.get("name")), String(data.get("password")), fresh);
      this.isForOnce = false;
      if (location.hash.startsWith("#login")) go("overview");
    } catch (error) {
      this.refusal = error instanceof Refused ? error.refusal : { code: "", cause: t("login.no_answer"), remedy: "" };
      this.isForOnce ||= this.refusal.code === "not_possible";
      void this.updateComplete.then(() => this.find<HTMLInputElement>(this.isForOnce ? "#new" : "#password")?.select());
    }
    this.isAsking = false;
    this.requestUpdate();
  };
}

customElements.define("view-login", Login);
