/** Item: one value, one order. */
import { html, nothing, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import { station } from "../wire/station";
import { localOf, type Entry } from "../wire/fold";
import { View, type Act } from "../frame/view";
import { hrefOf } from "../frame/route";
import { bar, caseMark, quality, spark, troubleOf } from "../marks/marks";
import { offFor, refused } from "../truth/off";
import { ageText, exactText, fullText, isMeasured, timeText, valueText } from "../truth/format";
import { sentence, stateText } from "../alarms/sentence";
import { actives } from "../alarms/lookup";
import { options, valueOf } from "./choice";
import { likes } from "./likes";
import "./order";
import type { OrderPanel } from "./order";
import { refusalOf, type Course } from "./orders";
import { endText, type ForcedRow } from "../items/forced";
import type { Refusal } from "../wire/words";

const ASK_MS = 5_000;
const FORCES: [Key, number][] = [["shelve.15min", 900], ["shelve.1h", 3_600], ["shelve.4h", 14_400], ["shelve.12h", 43_200]];

class Item extends View {
  name = "";
  private shown = "";
  private courses: Course[] = [];
  private force: ForcedRow | null = null;
  private askedMs = 0;
  private isForcing = false;
  private refusal: Refusal | null = null;

  static override properties = { name: {} };

  protected override willUpdate(): void {
    if (this.name === this.shown) return;
    this.shown = this.name;
    this.courses = [];
    this.force = null;
    this.askedMs = 0;
    this.isForcing = false;
    this.refusal = null;
    station.want(this, [this.name, ...likes(this.name)]);
    void station.keepPasts([this.name]);
  }

  private async ask(): Promise<void> {
    const now = station.nowMs;
    if (!station.person || station.silence.ms || now - this.askedMs < ASK_MS) return;
    this.askedMs = now;
    const { name } = this;
    const isForced = station.sight.forced.has(name);
    const [courses, forces] = await Promise.all([
      station.ask<Course[]>("commands", { limit: 200 }).catch(() => this.courses),
      isForced ? station.ask<ForcedRow[]>("forces").catch(() => []) : Promise.resolve([]),
    ]);
    if (name !== this.name) return;
    this.courses = courses.filter((one) => one.subject.startsWith(`${name} `)).slice(0, 8);
    this.force = forces.find((one) => one.item === name) ?? null;
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    void this.ask();
    const entry = station.sight.items.get(this.name);
    if (!entry) {
      return html`<div class="head"><h1>${localOf(this.name)}</h1><span class="id m">${this.name}</span></div>
        <p>${station.sight.isKnown ? t("item.unknown") : t("wait.first")}</p>`;
    }
    const kind = !entry.item.is_writable ? "item.read_only" : entry.item.control === "select" ? "item.select" : "item.direct";
    return html`<div class="head"><h1>${entry.item.description || entry.local}</h1><span class="id m">${entry.name}</span>
      <span class="sp"></span><span class="m s">${t(kind)}</span></div>
      <div class="cols ${entry.item.is_writable ? "" : "lone"}"><div class="grid">${this.value(entry)}${this.cases(entry)}${this.forced(entry)}${this.past(entry)}
      ${entry.item.is_writable ? this.ordersCard(entry) : nothing}${this.belongs(entry)}</div>
      <div class="oc"><order-panel .name=${this.name}></order-panel></div></div>`;
  }

  private value(entry: Entry): TemplateResult {
    const { sight, nowMs, hello, zone } = station;
    const active = actives(sight.cases.values()).get(entry.name);
    const isFrozen = active?.condition === "frozen";
    const trouble = troubleOf(sight, entry, isFrozen);
    const alarm = entry.item.alarm ?? {};
    const limits = (["lo_lo", "lo", "hi", "hi_hi"] as const).filter((one) => typeof alarm[one] === "number")
      .map((one) => `${one} ${alarm[one]}`).join(", ");
    const row = (label: Key, what: unknown): TemplateResult => html`<dt>${t(label)}</dt><dd>${what}</dd>`;
    return html`<section class="card pad big ${trouble === "old" ? "old" : ""}"><div><span class="m s">${t("items.col.value")}</span>
      <div class="v val">${trouble === "bad" || trouble === "empty" ? "-" : fullText(entry.value, entry.places, entry.item.states)} <span>${entry.item.unit}</span> ${active ? caseMark(active) : nothing}</div>
      ${isMeasured(entry.item) ? bar(entry, { trouble, active, past: station.pasts.of(entry.name) }) : nothing}</div>
      <dl>${row("items.col.quality", quality(sight, entry, nowMs, hello?.qualities ?? {}, isFrozen))}
      ${row("items.col.age", entry.sourceMs ? ageText(nowMs - entry.sourceMs, true) : "-")}
      ${row("item.read_at", entry.sourceMs ? `${exactText(entry.sourceMs, zone, nowMs)}${entry.item.adapter ? ` ${t("item.by", { adapter: entry.item.adapter })}` : ""}` : t("quality.waiting"))}
      ${limits ? row("item.limits", limits) : nothing}
      ${typeof alarm.off_normal === "boolean" ? row("item.off_normal", fullText(alarm.off_normal, 0, entry.item.states)) : nothing}
      ${typeof entry.item.minimum === "number" || typeof entry.item.maximum === "number" ? row("item.range", `${entry.item.minimum ?? "-"} … ${entry.item.maximum ?? "-"} ${entry.item.unit ?? ""}`) : nothing}</dl></section>`;
  }

  private cases(entry: Entry): TemplateResult | typeof nothing {
    const list = [...station.sight.cases.values()].filter((one) => one.item === entry.name);
    if (!list.length) return nothing;
    return html`<section class="card"><header><h2>${t("page.alarms")}</h2><span class="sp"></span><a class="s" href="#alarms">${t("wrong.all")}</a></header>
      <table><tbody>${list.map((one) => html`<tr><td>${caseMark(one)}</td><td>${sentence(one)}</td><td>${stateText(one)}</td>
      <td class="nb">${timeText(one.raised_ms, station.zone, station.nowMs)}</td></tr>`)}</tbody></table></section>`;
  }

  private forced(entry: Entry): TemplateResult | typeof nothing {
    const isForced = station.sight.forced.has(entry.name);
    const off = offFor("operate", entry.node);
    if (isForced) {
      const { force } = this;
      return html`<section class="card"><header><h2>${t("quality.forced")}</h2></header><div class="pad grid">${refused(this.refusal)}
        ${force ? html`<p>${t("force.to", { value: `${fullText(force.value, 1, force.states)} ${force.unit}`, measured: `${fullText(force.measured.value, Math.max(1, entry.places), force.states)} ${force.unit}` })}</p>
        <p>${force.user}${force.reason ? `: ${force.reason}` : ""} · ${endText(force, this.askedMs)}</p>` : nothing}
        <div class="row"><button ?disabled=${off !== ""} title=${off} @click=${() => this.did("release", { item: entry.name })}>${t("force.end")}</button></div></div></section>`;
    }
    if (!this.isForcing) {
      return html`<div class="row"><button class="sm" ?disabled=${off !== ""} title=${off} @click=${() => this.forcing(true)}>${t("force.begin")}</button>
        <a class="btn sm" href=${hrefOf("trends", { pens: entry.name })}>${t("page.trends")}</a></div>`;
    }
    const type = entry.item.value_type;
    return html`<section class="card"><header><h2>${t("force.begin")}</h2></header><form class="pad grid" @submit=${this.submitted}>${refused(this.refusal)}<p class="s">${t("force.what")}</p>
      <div><label for="fv">${t("order.value")} <span class="m plain">${entry.item.unit}</span></label>${type === 3 || entry.item.states?.length
        ? html`<select id="fv" name="value">${options(entry.item, entry.value)}</select>`
        : html`<input id="fv" name="value" required type=${type === 4 ? "text" : "number"} step=${type === 2 ? "1" : "any"} autocomplete="off">`}</div>
      <div><label for="fw">${t("pop.why")} <span class="m plain">${t("pop.on_record")}</span></label><input id="fw" name="reason" required maxlength="1000" autocomplete="off"></div>
      <div><label for="ff">${t("shelve.how_long")}</label><select id="ff" name="for">${FORCES.map(([label, s]) => html`<option value=${s}>${t(label)}</option>`)}</select></div>
      <div class="row"><button class="go" ?disabled=${off !== ""}>${t("force.do")}</button><button type="button" @click=${() => this.forcing(false)}>${t("pop.leave")} <kbd>Esc</kbd></button></div></form></section>`;
  }

  private forcing(isForcing: boolean): void {
    this.isForcing = isForcing;
    this.refusal = null;
    this.requestUpdate();
    if (isForcing) void this.updateComplete.then(() => this.find<HTMLElement>("#fv")?.focus());
  }

  private readonly submitted = (event: SubmitEvent): void => {
    event.preventDefault();
    const data = new FormData(event.target as HTMLFormElement);
    const value = valueOf(station.sight.items.get(this.name)!.item, String(data.get("value")));
    void this.did("force", { item: this.name, value, reason: String(data.get("reason")), for_s: Number(data.get("for")) });
  };

  private async did(method: string, values: Record<string, unknown>): Promise<void> {
    this.refusal = null;
    try {
      await station.ask(method, values);
      this.isForcing = false;
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.askedMs = 0;
    this.requestUpdate();
  }

  private past(entry: Entry): TemplateResult {
    return html`<section class="card"><header><h2>${t("items.col.past")}</h2><span class="sp"></span>
      <a class="s" href=${hrefOf("trends", { pens: entry.name })}>${t("page.trends")}</a></header>
      <div class="pad past">${spark(entry, station.pasts.of(entry.name), station.nowMs)}</div></section>`;
  }

  private ordered(one: Course, entry: Entry): string {
    const text = one.subject.slice(`${entry.name} = `.length);
    return entry.item.states?.length ? fullText(valueOf(entry.item, text), 0, entry.item.states) : text;
  }

  private ordersCard(entry: Entry): TemplateResult {
    const now = station.nowMs;
    return html`<section class="card"><header><h2>${t("item.orders")}</h2></header>${this.courses.length ? html`<table class="oh"><tbody>${this.courses.map((one) => html`<tr>
      <td class="nb">${timeText(one.steps[0]?.at_ms ?? 0, station.zone, now)}</td><td class="id">${this.ordered(one, entry)}</td>
      <td>${one.user || one.principal}${one.reason ? `: ${one.reason}` : ""}</td><td>${t(`outcome.${one.state}` as Key)}</td></tr>`)}</tbody></table>`
      : html`<p class="pad m">${t("item.no_orders")}</p>`}</section>`;
  }

  private belongs(entry: Entry): TemplateResult | typeof nothing {
    const names = likes(entry.name);
    if (!names.length) return nothing;
    return html`<section class="card"><header><h2>${t("item.belongs")}</h2></header><table><tbody>${names.map((name) => {
      const one = station.sight.items.get(name)!;
      return html`<tr><td><a class="id" href=${hrefOf("item", { name })}>${one.local}</a></td><td class="m">${one.item.description}</td>
        <td class="num"><b>${valueText(one.value, one.places, one.item.states)}</b> <small class="m">${one.item.unit}</small></td></tr>`;
    })}</tbody></table></section>`;
  }

  override acted(act: Act): boolean {
    if (act === "back" && this.isForcing) {
      this.forcing(false);
      return true;
    }
    return this.find<OrderPanel>("order-panel")?.acted(act) ?? false;
  }
}

customElements.define("view-item", Item);
