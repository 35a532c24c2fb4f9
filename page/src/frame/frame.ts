/** The frame: line of truth, banner, navigation, the view; silence and takeover lie over the first line. */
import { html, nothing, type TemplateResult } from "lit";
import { keyed } from "lit/directives/keyed.js";
import { rich, t, type Key } from "../words/words";
import { station } from "../wire/station";
import { Keys, type Deed, type Place } from "../keys/keys";
import { ageText, clockText, dayText, zoneName } from "../truth/format";
import { announcer } from "./announcer";
import { acknowledgeBanner, banner } from "./banner";
import { horn } from "./horn";
import { go, here, hrefOf, type Route } from "./route";
import { change, isWall, settings } from "./settings";
import { help } from "./help";
import { View } from "./view";
import "../people/login";
import "../overview/overview";
import "../alarms/alarms";
import "../items/items";
import "../item/item";
import "../trends/trends";
import "../plant/plant";
import "../journal/journal";
import "../picture/picture";
import "../people/people";
import "../report/report";

const TAKEOVER_SHOWN_MS = 60_000;
const FLASH_MS = 500;

interface Page {
  view: string;
  key: string;
  isWide?: boolean;
  isNewPart?: boolean;
}

const PAGES: Page[] = [
  { view: "overview", key: "g o" }, { view: "picture", key: "g p", isWide: true }, { view: "alarms", key: "g a" }, { view: "trends", key: "g t", isNewPart: true },
  { view: "items", key: "g i" }, { view: "plant", key: "g l", isWide: true },
  { view: "journal", key: "g j", isWide: true, isNewPart: true }, { view: "report", key: "g r", isWide: true },
  { view: "people", key: "g k", isWide: true },
];

class Frame extends View {
  private route: Route = here();
  private readonly keys = new Keys();
  private isMore = false;
  /** Counts the steps from view to view: each one begins with what its address says. */
  private visit = 0;
  /** Steps that were taken at once, and of which the browser tells later. */
  private untold = 0;

  override connectedCallback(): void {
    super.connectedCallback();
    window.addEventListener("hashchange", () => {
      if (this.untold) this.untold -= 1;
      else this.arrive();
    });
    window.addEventListener("keydown", (event) => this.pressed(event));
    horn.begin();
    setInterval(() => document.documentElement.toggleAttribute("data-dim"), FLASH_MS);
    station.addEventListener("greeted", () => this.requestUpdate());
  }

  protected override render(): TemplateResult {
    const silence = station.silence;
    const isSilent = silence.ms > 0;
    const root = document.documentElement;
    root.toggleAttribute("data-silent", isSilent);
    const { hello } = station;
    if (hello && !hello.person && (!hello.may_look || this.route.view === "login")) {
      return html`${this.notices(silence.ms, silence.isOfCore)}<view-login></view-login>`;
    }
    document.title = `${t(`page.${this.route.view}` as Key)} · Albireo`;
    return html`${this.notices(silence.ms, silence.isOfCore)}${this.truth()}${banner(isSilent)}
      ${isWall ? nothing : this.navigation()}
      <main id="main" tabindex="-1">${keyed(this.visit, this.shown())}</main>${help()}${announcer()}`;
  }

  private shown(): TemplateResult {
    switch (this.route.view) {
      case "alarms": return html`<view-alarms></view-alarms>`;
      case "items": return html`<view-items></view-items>`;
      case "item": return html`<view-item .name=${this.route.values.get("name") ?? ""}></view-item>`;
      case "trends": return html`<view-trends></view-trends>`;
      case "plant": return html`<view-plant></view-plant>`;
      case "picture": return html`<view-picture></view-picture>`;
      case "journal": return html`<view-journal></view-journal>`;
      case "report": return html`<view-report></view-report>`;
      case "people": return html`<view-people></view-people>`;
      default: return html`<view-overview></view-overview>`;
    }
  }

  private truth(): TemplateResult {
    const { alive, hello, person } = station;
    const now = station.nowMs;
    const leads = alive?.leads ?? "";
    const member = hello?.member ?? "";
    const isLone = (hello?.members.length ?? 0) < 2;
    const speaking = !hello ? t("truth.connecting")
      : leads === member ? rich(isLone ? "truth.speaks_lone" : "truth.speaks", { member: html`<b>${member}</b>` })
      : rich("truth.speaks_other", { member: html`<b>${member}</b>`, leads: html`<b>${leads || t("truth.nobody")}</b>` });
    const age = alive?.newest_ms ? now - alive.newest_ms : null;
    return html`<header class="top"><div class="brand">Albireo</div>
      <div class="speak" role="status" aria-live="off">
        <b class="livew">${hello ? t("truth.live") : nothing}</b>
        ${age === null ? nothing : html`<span class="m">${t("truth.newest", { age: ageText(age, true) })}</span>`}
        <span class="m wide">${speaking}</span>
        ${alive && alive.rate_hz < 5 ? html`<span class="wide">${t("truth.slow", { rate: alive.rate_hz })}</span>` : nothing}
      </div>
      ${isWall ? nothing : html`<span class="m s wide">${person
        ? html`<a href="#people">${person.name}</a> · ${station.roleAt(hello!.node)}`
        : html`<a href="#login">${t("truth.look_only")}</a>`}</span>`}
      <span class="m s wide">${dayText(now, "UTC")} · ${clockText(now, "UTC")} UTC</span>
      <span class="clock" title=${t("truth.plant_time", { zone: zoneName(now, station.zone) })}>${clockText(now, station.zone)}</span>
    </header>`;
  }

  /** What lies over the first line; nothing below it moves. */
  private notices(silentMs: number, isOfCore: boolean): TemplateResult | typeof nothing {
    const now = station.nowMs;
    const { alive, takeover, hello } = station;
    const clock = html`<span class="clock wide">${clockText(now, station.zone)}</span>`;
    if (silentMs) {
      const asWas = clockText(now - silentMs, station.zone);
      const age = html`<span aria-hidden="true">${ageText(silentMs, true)}</span>`;
      return html`<div class="notice"><b role="alert" aria-label=${t("silence.alert", { time: asWas })}>
        ${rich(isOfCore ? "silence.core" : "silence.heard", { age, member: hello?.member ?? "" })}</b>
        <span>${t("silence.as_was", { time: asWas })}</span>
        <span class="wide">${t("silence.asking", { member: station.asking })}</span>
        <span class="wide more">${t("silence.off")}</span>${clock}</div>`;
    }
    if (alive && !alive.leads && hello) {
      const since = alive.leads_since_ms ? clockText(alive.leads_since_ms, station.zone) : "";
      return html`<div class="notice" role="alert"><b>${since ? t("nobody.since", { time: since }) : t("nobody.leads")}</b>
        <span class="wide">${t("nobody.off")}</span>${clock}</div>`;
    }
    if (takeover && now - takeover.atMs < TAKEOVER_SHOWN_MS) {
      const leads = alive?.leads ?? "";
      const since = alive?.leads_since_ms ? clockText(alive.leads_since_ms, station.zone) : "";
      const text = leads === takeover.member && since ? t("takeover.leads", { time: since })
        : leads ? t("takeover.other", { member: leads }) : "";
      return html`<div class="notice" role="status"><b>${t("takeover.now", { member: takeover.member })}</b>
        <span class="wide">${text} ${t("takeover.kept")}</span>
        <button class="wide" @click=${this.understood}>${t("takeover.understood")}</button>${clock}</div>`;
    }
    if (station.endedBecause && !station.person) {
      return html`<div class="notice" role="alert"><b>${station.endedBecause}</b><a class="btn" href="#login">${t("login.do")}</a>${clock}</div>`;
    }
    if (station.isOutdated) {
      return html`<div class="notice" role="status"><b>${t("build.other")}</b><span class="wide">${t("build.load")}</span>
        <button @click=${() => location.reload()}>${t("build.do")}</button>${clock}</div>`;
    }
    return nothing;
  }

  private navigation(): TemplateResult {
    const at = this.route.view === "item" ? "items" : this.route.view;
    const more = this.isMore ? html`<div class="more-list" role="menu">${PAGES.filter((one) => one.isWide).map((one) =>
      html`<a role="menuitem" href=${hrefOf(one.view)}>${t(`page.${one.view}` as Key)}</a>`)}
      ${station.person ? html`<a role="menuitem" href="#people">${station.person.name}</a>`
        : html`<a role="menuitem" href="#login">${t("truth.look_only")}</a>`}
      <span class="m s">${dayText(station.nowMs, "UTC")} · ${clockText(station.nowMs, "UTC")} UTC</span></div>` : nothing;
    return html`<nav aria-label=${t("nav.label")}>
      ${PAGES.map((one) => html`${one.isNewPart ? html`<hr>` : nothing}<a class=${one.isWide ? "wide" : ""}
        href=${hrefOf(one.view)} aria-current=${at === one.view ? "page" : nothing}
        >${t(`page.${one.view}` as Key)}<kbd>${one.key}</kbd></a>`)}
      <a class="phone" href="#more" aria-expanded=${this.isMore} @click=${this.more}>${t("nav.more")}</a>${more}</nav>`;
  }

  private readonly more = (event: Event): void => {
    event.preventDefault();
    this.isMore = !this.isMore;
    this.requestUpdate();
  };

  private readonly understood = (): void => {
    station.takeover = null;
    this.requestUpdate();
  };

  private arrive(): void {
    this.route = here();
    this.visit += 1;
    this.isMore = false;
    this.requestUpdate();
    void this.updateComplete.then(() => window.scrollTo(0, 0));
  }

  /** Go at once: the next key is for the view that it leads to. */
  private goNow(view: Place): void {
    const before = location.hash;
    go(view);
    if (location.hash === before) return;
    this.untold += 1;
    this.arrive();
  }

  private async search(): Promise<void> {
    const box = (): HTMLInputElement | null => this.querySelector("main input[type=search]");
    if (!box()) {
      this.goNow("items");
      await this.updateComplete;
      await this.querySelector<View>("main > *")?.updateComplete;
    }
    box()?.focus();
  }

  private pressed(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const dialog = this.querySelector<HTMLDialogElement>("dialog[open]");
    const deed = this.keys.pressed({
      key: event.key,
      hasModifier: event.ctrlKey || event.metaKey || event.altKey,
      isCtrl: event.ctrlKey || event.metaKey,
      isTyping: target.matches("input:not([type=checkbox]):not([type=radio]),textarea,select"),
      isOnControl: target.matches("button,a,summary,[role=tab],input"),
    });
    if (!deed || dialog || (isWall && deed.kind === "act" && deed.name !== "theme")) return;
    if (this.did(deed)) event.preventDefault();
  }

  private did(deed: Deed): boolean {
    if (deed.kind === "go") {
      this.goNow(deed.to);
      return true;
    }
    const view = this.querySelector<View>("main > *");
    switch (deed.name) {
      case "help":
        this.querySelector<HTMLDialogElement>("#help")?.showModal();
        return true;
      case "theme":
        change({ theme: settings.theme ? "" : "dark" });
        station.changed();
        return true;
      case "horn":
        horn.silence();
        return true;
      case "search":
        void this.search();
        return true;
      default:
        if (view?.acted?.(deed.name)) return true;
        if (deed.name === "acknowledge" && !station.silence.ms) {
          acknowledgeBanner();
          return true;
        }
        if (deed.name === "back" && document.activeElement?.matches("input[type=search]")) {
          (document.activeElement as HTMLElement).blur();
          return true;
        }
        return false;
    }
  }
}

customElements.define("albireo-page", Frame);
