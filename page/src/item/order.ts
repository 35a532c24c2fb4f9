/** The order of an item: four steps at one place, whose buttons stay where they are. */
import { html, nothing, type TemplateResult } from "lit";
import { rich, t, type Key } from "../words/words";
import { station } from "../wire/station";
import type { Entry, Shown } from "../wire/fold";
import { View, type Act } from "../frame/view";
import { offFor, refused, unheard } from "../truth/off";
import { ageText, exactText, fullText } from "../truth/format";
import { options, valueOf } from "./choice";
import { orders, outcomeOf, PROMISES, SELECT_S, type Order } from "./orders";

const STAGES = ["requested", "authorised", "selected", "told", "accepted", "executing"];

class OrderPanel extends View {
  name = "";

  private get entry(): Entry | undefined {
    return station.sight.items.get(this.name);
  }

  private get order(): Order {
    return orders.of(this.name);
  }

  private get isSelected(): boolean {
    return this.entry?.item.control === "select";
  }

  /** Why nobody here can order it now; empty: it can be ordered. */
  private get off(): string {
    return this.entry ? offFor("operate", this.entry.node) : t("wait.first");
  }

  /** What a person would order next: a switch the other way, anything else as it is. */
  private get proposal(): Shown {
    const { entry, order } = this;
    if (order.value !== null) return order.value;
    return typeof entry?.value === "boolean" ? !entry.value : (entry?.value ?? null);
  }

  protected override render(): TemplateResult | typeof nothing {
    const { entry, order } = this;
    if (!entry?.item.is_writable) return nothing;
    const left = orders.leftMs(order);
    const isHeld = order.selection !== null && left > 0;
    const title = order.phase === "course" ? t("order.title_name", { name: order.commandId.slice(0, 8) })
      : t(order.phase === "confirm" ? "order.confirm" : "order.title");
    return html`<section class="card order" aria-label=${t("order.title")}><header><h2>${title}</h2><span class="sp"></span>
      ${isHeld ? html`<span class="lease"><span>${rich("order.held", { left: html`<b>${ageText(left)}</b>` })}</span>
        <span class="left"><i .style=${`width:${Math.max(0, Math.min(100, left / (10 * SELECT_S)))}%`}></i></span></span>` : nothing}</header>
      ${this.body(entry, order, isHeld)}</section>`;
  }

  private body(entry: Entry, order: Order, isHeld: boolean): TemplateResult {
    switch (order.phase) {
      case "course": return this.course(entry, order);
      case "confirm": return this.confirm(entry, order, isHeld);
      case "reason": return this.reason(entry, order, isHeld);
      default: return this.idle(entry, order);
    }
  }

  private steps(now: number): TemplateResult {
    const names: Key[] = this.isSelected ? ["order.step.select", "order.step.reason", "order.step.confirm", "order.step.course"]
      : ["order.step.reason", "order.step.confirm", "order.step.course"];
    const at = now - (4 - names.length);
    return html`<ol class="pg">${names.map((one, index) => html`<li class=${index < at ? "done" : ""} aria-current=${index === at ? "step" : nothing}>
      ${index + 1}. ${t(one)}</li>`)}</ol>`;
  }

  private change(entry: Entry, order: Order, label: Key): TemplateResult {
    const before = order.phase === "course" ? order.before : entry.value;
    const unit = entry.item.unit ?? "";
    const places = Math.max(entry.places, typeof order.value === "number" && !Number.isInteger(order.value) ? 1 : 0);
    const text = (value: Shown): string => fullText(value, places, entry.item.states);
    return html`<div class="chg"><div><span class="m s">${t("order.now")}</span><b>${text(before)}</b><span>${unit}</span></div>
      <i aria-hidden="true">→</i><div class="new"><span class="m s">${t(label)}</span><b>${text(this.proposal)}</b><span>${unit}</span></div></div>`;
  }

  private idle(entry: Entry, order: Order): TemplateResult {
    const { off } = this;
    const isAsking = order.phase === "selecting";
    const main = this.isSelected ? html`<button class="go" ?disabled=${off !== "" || isAsking} @click=${this.begin}>
        ${t(isAsking ? "ack.asking" : "order.select")} <kbd>w</kbd></button>`
      : html`<button class="go" ?disabled=${off !== ""} @click=${this.begin}>${t("order.begin")} <kbd>w</kbd></button>`;
    return html`<div class="pad ob">${this.steps(0)}${off ? html`<div class="no"><b>${off}</b></div>` : refused(order.refusal)}
      <p>${t(this.isSelected ? "order.select_first" : "order.direct")}</p>${this.change(entry, order, "order.could_be")}
      ${this.isSelected ? html`<p class="m s">${t("order.select_ends", { seconds: SELECT_S })}</p>` : nothing}</div>
      <footer>${main}<span class="m s">${t("order.nothing_yet")}</span></footer>`;
  }

  private reason(entry: Entry, order: Order, isHeld: boolean): TemplateResult {
    const isOver = this.isSelected && !isHeld;
    return html`<form @submit=${this.reasoned}><div class="pad ob">${this.steps(1)}
      ${isOver ? html`<div class="no" role="alert"><b>${t("order.over")}</b></div>` : nothing}
      ${this.change(entry, order, "order.will_be")}${this.input(entry, order)}
      <div><label for="why">${t("pop.why")} <span class="m plain">${t("pop.on_record")}</span></label>
        <input id="why" name="why" maxlength="1000" .value=${order.reason} autocomplete="off"
          @input=${(event: Event) => { order.reason = (event.target as HTMLInputElement).value; }}></div></div>
      <footer><button class="go" ?disabled=${this.off !== "" || isOver}>${t("order.go_on")} <kbd>Enter</kbd></button>
      ${this.back()}<span class="m s">${this.off || t("order.nothing_yet")}</span></footer></form>`;
  }

  private input(entry: Entry, order: Order): TemplateResult | typeof nothing {
    const { item } = entry;
    if (item.value_type === 3) return nothing;
    if (item.states?.length) {
      return html`<div><label for="value">${t("order.value")}</label><select id="value" name="value" @change=${(event: Event) => {
        order.value = valueOf(item, (event.target as HTMLSelectElement).value);
        this.requestUpdate();
      }}>${options(item, this.proposal)}</select></div>`;
    }
    const range = typeof item.minimum === "number" || typeof item.maximum === "number"
      ? t("order.range", { from: item.minimum ?? "-", to: item.maximum ?? "-", unit: item.unit ?? "" }) : item.unit ?? "";
    const isText = item.value_type === 4;
    return html`<div><label for="value">${t("order.value")} <span class="m plain">${range}</span></label>
      <input id="value" name="value" required autocomplete="off" type=${isText ? "text" : "number"} step=${item.value_type === 2 ? "1" : "any"}
        min=${item.minimum ?? nothing} max=${item.maximum ?? nothing} .value=${String(this.proposal ?? "")}
        @input=${(event: Event) => {
          const box = event.target as HTMLInputElement;
          order.value = isText ? box.value : Number.isFinite(box.valueAsNumber) ? box.valueAsNumber : order.value;
          this.requestUpdate();
        }}></div>`;
  }

  /** With its word, its unit, and so many places at the least. */
  private told(value: Shown, { item, places }: Entry, least: number): string {
    return value === null ? "-" : `${fullText(value, item.value_type === 1 ? Math.max(least, places) : 0, item.states)} ${item.unit ?? ""}`.trim();
  }

  private verb(entry: Entry): string {
    const value = this.proposal;
    return this.told(value, entry, typeof value === "number" && !Number.isInteger(value) ? 1 : 0);
  }

  private confirm(entry: Entry, order: Order, isHeld: boolean): TemplateResult {
    const isOver = this.isSelected && !isHeld;
    const way = [station.hello!.node, entry.node, entry.item.adapter].filter((one, index, all) => one && all.indexOf(one) === index);
    return html`<div class="pad ob">${this.steps(2)}${isOver ? html`<div class="no" role="alert"><b>${t("order.over")}</b></div>` : nothing}
      <p class="ask"><b>${t("order.ask", { what: entry.item.description || entry.local, value: this.verb(entry) })}</b></p>
      ${this.change(entry, order, "order.will_be")}
      <dl class="kv2"><dt>${t("order.item")}</dt><dd class="id">${entry.name}</dd><dt>${t("pop.why")}</dt><dd>${order.reason || t("order.no_reason")}</dd>
      <dt>${t("order.who")}</dt><dd>${station.person?.name}, ${station.roleAt(entry.node)}</dd>
      <dt>${t("order.way")}</dt><dd>${way.join(" → ")}, ${t("order.in_time")}</dd>${this.effects(entry)}</dl></div>
      <footer><button class="go operate" ?disabled=${this.off !== "" || isOver} @click=${() => orders.write(order)}>
      ${t("order.operate", { value: this.verb(entry) })} <kbd>Enter</kbd></button>${this.back()}<span class="m s">${this.off}</span></footer>`;
  }

  /** What it does to others, as far as the items say it. */
  private effects(entry: Entry): TemplateResult | typeof nothing {
    const silenced = [...station.sight.items.values()].filter((one) => one.node === entry.node && one.item.alarm?.suppressed_by === entry.local && !one.isRetired);
    const told = [...silenced.length ? [t("order.silences", { items: silenced.map((one) => one.local).join(", ") })] : [],
      ...station.sight.forced.has(entry.name) ? [t("order.is_forced")] : []];
    return told.length ? html`<dt>${t("order.effects")}</dt><dd>${told.join(" ")}</dd>` : nothing;
  }

  private back(): TemplateResult {
    return html`<button type="button" @click=${() => orders.giveBack(this.order)}>${t(this.isSelected ? "order.give_back" : "pop.leave")} <kbd>Esc</kbd></button>`;
  }

  private course(entry: Entry, order: Order): TemplateResult {
    const outcome = outcomeOf(order);
    const { course, receipt } = order;
    const now = station.nowMs;
    const steps = (course?.steps ?? []).filter((one) => STAGES.includes(one.stage));
    const end = course?.steps.find((one) => one.stage === outcome);
    const endMs = end?.at_ms ?? receipt?.finished_ms ?? 0;
    const line = (kind: string, word: string, text: string, node: string, at: number): TemplateResult =>
      html`<li class=${kind}><i></i><b>${word}</b><span>${text}</span><span class="id m">${node}</span><span class="num m">${at ? exactText(at, station.zone, now) : ""}</span></li>`;
    return html`<div class="pad ob">${this.steps(outcome ? 4 : 3)}${outcome ? this.result(entry, order, outcome, endMs) : this.change(entry, order, "order.ordered")}
      <ol class="course" aria-live="polite">${steps.map((one) => line("", t(`stage.${one.stage}` as Key), t(`stage.${one.stage}.what` as Key), one.node, one.at_ms))}
      ${outcome ? line(`end ${outcome}`, t(`outcome.${outcome}` as Key), this.endText(order, outcome, entry), end?.node ?? "", endMs)
        : line("wait", t("order.waiting"), unheard(entry.node) || t(steps.length ? "order.waits_for" : "order.waits_record"), "", 0)}</ol>
      ${outcome === "mismatched" || outcome === "unknown" ? this.remedies(outcome, entry, order) : nothing}</div>
      <footer>${outcome ? html`<button @click=${() => orders.anew(this.name)}>${t("order.again")}</button>
        <a class="btn" href="#journal">${t("page.journal")}</a>`
        : html`<button ?disabled=${station.silence.ms > 0} @click=${() => orders.cancel(order)}>${t("order.take_back")}</button><span class="m s">${t("order.take_back_rule")}</span>`}
      <span class="id m s">${course?.guid || receipt?.ack_guid || order.commandId}</span>
      ${outcome && (course?.cause || receipt?.cause) && (course?.cause || receipt?.cause) !== "none" ? html`<span class="m s">${t("order.cause", { cause: course?.cause || receipt?.cause || "" })}</span>` : nothing}</footer>`;
  }

  private readBack(order: Order): Shown {
    return order.course?.read_back ?? order.receipt?.read_back ?? null;
  }

  private endText(order: Order, outcome: string, entry: Entry): string {
    const detail = order.course?.detail || order.receipt?.detail || order.refusal?.cause || "";
    const back = this.readBack(order);
    const value = this.told(back, entry, 1);
    if (outcome === "verified") return t("outcome.verified.what", { value });
    if (outcome === "mismatched") return t("outcome.mismatched.what", { value });
    return detail || t(`outcome.${outcome}.what` as Key);
  }

  private result(entry: Entry, order: Order, outcome: string, endMs: number): TemplateResult {
    const back = this.readBack(order);
    const value = this.told(back, entry, 1);
    const first = order.course?.steps[0]?.at_ms ?? order.orderedMs;
    const took = endMs > first ? t("outcome.took", { ms: Math.round(endMs - first) }) : "";
    const kind = outcome === "mismatched" ? "bad" : outcome === "unknown" ? "unk" : "";
    const text = PROMISES.has(outcome) ? t("outcome.promise") : t(`outcome.${outcome}.told` as Key, { value, took, what: entry.item.description || entry.local });
    const why = PROMISES.has(outcome) ? order.course?.detail || order.receipt?.detail || order.refusal?.cause || "" : "";
    return html`<div class="res ${kind}" role=${kind ? "alert" : "status"}><b>${t(`outcome.${outcome}` as Key)}</b><span>${why ? `${why}. ` : ""}${text}
      ${order.wasUnknown && outcome !== "unknown" ? t("outcome.late") : ""} ${PROMISES.has(outcome) && order.refusal?.remedy ? order.refusal.remedy : ""}</span></div>`;
  }

  private remedies(outcome: string, entry: Entry, order: Order): TemplateResult {
    const now = this.told(entry.value, entry, 0);
    const list: string[] = outcome === "mismatched" ? [t("remedy.look"), t("remedy.local"), t("remedy.again")]
      : [t("remedy.says_now", { value: now }), t("remedy.later")];
    if (outcome === "unknown" && order.course && !order.course.is_settled) list.push(t("remedy.asked"));
    return html`<div><h3>${t(outcome === "mismatched" ? "remedy.can" : "remedy.known")}</h3><ul class="eff">${list.map((one) => html`<li>${one}</li>`)}</ul></div>`;
  }

  private readonly begin = (): void => {
    const { order } = this;
    if (this.off || order.phase !== "idle") return;
    if (this.isSelected) void orders.select(order).then(() => this.focusOn("#value, #why"));
    else {
      order.phase = "reason";
      this.requestUpdate();
      this.focusOn("#value, #why");
    }
  };

  private readonly reasoned = (event: SubmitEvent): void => {
    event.preventDefault();
    const { order } = this;
    order.value = this.proposal;
    order.phase = "confirm";
    this.requestUpdate();
    this.focusOn(".operate");
  };

  private focusOn(selector: string): void {
    this.requestUpdate();
    void this.updateComplete.then(() => this.find<HTMLElement>(selector)?.focus());
  }

  override acted(act: Act): boolean {
    const { order } = this;
    if (act === "write") {
      this.begin();
      return true;
    }
    if (act === "back" && (order.phase === "reason" || order.phase === "confirm")) {
      orders.giveBack(order);
      return true;
    }
    return false;
  }
}

customElements.define("order-panel", OrderPanel);
export type { OrderPanel };
