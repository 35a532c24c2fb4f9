/** Plant: who leads, is it safe, what to do. What can't be known is "?", never the last state. */
import { html, nothing, type TemplateResult } from "lit";
import { rich, t } from "../words/words";
import { station } from "../wire/station";
import { nodeOf, localOf } from "../wire/fold";
import { View, type Act } from "../frame/view";
import { tag } from "../marks/marks";
import { offFor, refused } from "../truth/off";
import { ageText, timeText, numberText } from "../truth/format";
import { shelfOf } from "../alarms/order";
import { sentence } from "../alarms/sentence";
import { refusalOf } from "../item/orders";
import { staleSince, type NodeRow, type NodeStatus, type PairStatus } from "./answers";
import type { Refusal } from "../wire/words";

const ASK_MS = 2_000;
const short = (place: string): string => place.replace(/^.*\[(.*)\]$/, "$1");
const OTHER: Record<string, string> = { primary: "backup", backup: "primary" };

interface Verdict {
  node: string;
  isWrong: boolean;
  text: TemplateResult;
}

class Plant extends View {
  private status: NodeStatus | null = null;
  private tree: NodeRow[] = [];
  private answeredMs = 0;
  private askedMono = -ASK_MS;
  private panel: "" | "switchover" | "maintenance" = "";
  private refusal: Refusal | null = null;
  private isAsking = false;

  private async ask(): Promise<void> {
    const mono = performance.now();
    if (mono - this.askedMono < ASK_MS || station.silence.ms || !station.hello) return;
    this.askedMono = mono;
    try {
      const [status, tree] = await Promise.all([station.ask<NodeStatus>("status"), station.ask<NodeRow[]>("tree")]);
      [this.status, this.tree, this.answeredMs] = [status, tree, station.nowMs];
    } catch {
      if (station.nowMs - this.answeredMs > 3 * ASK_MS) this.status = null;
    }
    this.requestUpdate();
  }

  protected override render(): TemplateResult {
    void this.ask();
    const { status } = this;
    const head = html`<div class="head"><h1>${t("page.plant")}</h1>
      <span class="m s">${rich("plant.seen", { member: html`<b>${status?.pair?.place ?? station.hello?.member}</b>` })}</span></div>`;
    if (!status) return html`${head}<p>${station.person ? t("plant.unknown") : t("off.nobody")}</p>${this.completeTo()}`;
    return html`${head}${this.verdicts(status)}<div class="two"><div class="grid">${this.treeCard(status)}${this.completeTo()}</div>
      <div class="grid">${this.panel ? this.asked(status) : nothing}${this.seen(status)}${this.voters(status.pair)}${this.parts(status)}</div></div>`;
  }

  private verdicts(status: NodeStatus): TemplateResult {
    const own = this.ownVerdict(status);
    const list = [own, ...station.nodes.filter((one) => one !== status.node).map((one) => this.verdict(one))]
      .sort((one, other) => Number(other.isWrong) - Number(one.isWrong));
    return html`<section class="card vds" aria-label=${t("plant.words")}>${list.map((one) => html`<div class="vd ${one.isWrong ? "inv" : ""}">
      <b>${station.labelOf(one.node)}</b><span>${one.text}</span></div>`)}</section>`;
  }

  private ownVerdict(status: NodeStatus): Verdict {
    const { pair, node } = status;
    const now = station.nowMs;
    if (status.log.admission) return { node, isWrong: true, text: rich("verdict.refuses", { node, why: status.log.admission }) };
    if (!pair) return { node, isWrong: false, text: rich("verdict.lone", { node: html`<b>${node}</b>` }) };
    const other = pair.other.place;
    if (pair.apart) return { node, isWrong: true, text: html`<b>${pair.apart}</b>` };
    if (pair.at_risk_since_ms) {
      const since = html`<b>${t("verdict.at_risk", { time: timeText(pair.at_risk_since_ms, station.zone, now) })}</b>`;
      const how = pair.catching_up ? t("verdict.catching_up", { other, behind: numberText(pair.catching_up.behind, 0) })
        : t("verdict.bring_back", { other });
      return { node, isWrong: true, text: rich("verdict.alone", { since, place: pair.place, how }) };
    }
    if (pair.maintenance_since_ms) {
      return { node, isWrong: false, text: rich("verdict.maintenance", { time: timeText(pair.maintenance_since_ms, station.zone, now) }) };
    }
    const isBoth = pair.set.length > 1;
    return { node, isWrong: !isBoth, text: rich(isBoth ? "verdict.both" : "verdict.one", { place: html`<b>${pair.place}</b>`, other }) };
  }

  private verdict(node: string): Verdict {
    const now = station.nowMs;
    const since = station.sight.stale[node];
    if (since !== undefined) {
      const title = html`<b>${since ? t("verdict.unheard", { age: ageText(now - since) }) : t("verdict.never")}</b>`;
      return { node, isWrong: true, text: rich("verdict.goes_on", { title }) };
    }
    // What a pair below says of itself comes as its own alarms.
    const own = [...station.sight.cases.values()].filter((one) =>
      nodeOf(one.item) === node && localOf(one.item).startsWith("pair/") && one.is_active && shelfOf(one) === "active");
    const [first] = own.sort((one, other) => other.severity - one.severity);
    if (first) return { node, isWrong: true, text: html`<b>${sentence(first)}.</b> ${t("verdict.since", { time: timeText(first.raised_ms, station.zone, now) })}` };
    const row = this.tree.find((one) => one.node === node);
    if (row?.trouble) return { node, isWrong: true, text: html`<b>${row.trouble}</b>` };
    return { node, isWrong: false, text: html`${t(row && row.behind > 0 ? "verdict.behind" : "verdict.heard", { count: numberText(row?.behind ?? 0, 0) })}` };
  }

  private treeCard(status: NodeStatus): TemplateResult {
    const { pair, node } = status;
    const children = station.nodes.filter((one) => one !== node);
    const off = offFor("engineer", node);
    return html`<section class="card"><header><h2>${t("plant.tree")}</h2><span class="sp"></span>${pair ? html`
      <button class="sm" ?disabled=${off !== ""} title=${off} @click=${() => this.open("switchover")}>${t("plant.switchover")}</button>
      <button class="sm" ?disabled=${off !== ""} title=${off} @click=${() => this.open("maintenance")}>${t("plant.maintenance")}</button>` : nothing}</header>
      <div class="pad tr"><div class="node"><h3>${station.labelOf(node)} <span class="id m">${node}${pair ? ` · ${t("plant.epoch", { epoch: pair.epoch })}` : ""}</span></h3>
      <div class="mbs">${pair ? this.members(pair) : html`<div class="mb lead"><b>${node}</b><span>${t("plant.lone")}</span></div>`}
      ${(pair?.voters ?? []).map((one) => this.voterPill(pair!, one))}</div></div>
      <div class="sons">${children.map((one) => this.child(one))}</div></div></section>`;
  }

  private members(pair: PairStatus): TemplateResult {
    const now = station.nowMs;
    const { other } = pair;
    const isReady = pair.set.includes(other.place);
    return html`<div class="mb lead"><b>${short(pair.place)}</b><span>${t("plant.leads", { time: timeText(pair.since_ms, station.zone, now) })}</span></div>
      <div class="mb ${other.is_present ? "" : "gone"}"><b>${short(other.place)}</b><span>${!other.is_present
        ? other.heard_ms === null ? t("quality.never") : t("quality.unheard_for", { age: ageText(other.heard_ms) })
        : isReady ? t("plant.ready") : t("plant.catching", { state: other.state.replace(/_/g, " ") })}</span></div>`;
  }

  private voterPill(pair: PairStatus, name: string): TemplateResult {
    const seen = pair.voters_seen[name];
    const age = seen?.answered_ms ?? null;
    const isSilent = age === null || age > 3_000;
    return html`<div class="vt ${isSilent ? "gone" : ""}"><b>${name}</b><span>${age === null ? "?" : isSilent ? t("quality.unheard_for", { age: ageText(age) }) : `${Math.round(age)} ms`}</span></div>`;
  }

  private child(node: string): TemplateResult {
    const now = station.nowMs;
    const since = station.sight.stale[node];
    const row = this.tree.find((one) => one.node === node);
    const depth = node.split("/").length - station.hello!.node.split("/").length;
    const isCut = since !== undefined;
    const link = isCut ? html`<span class="tag solid">${since ? t("plant.cut", { time: timeText(since, station.zone, now) }) : t("verdict.never")}</span>`
      : html`<span class="livew s m">${row ? t("plant.live", { age: ageText(now - row.complete_to_ms, true) }) : t("truth.live")}</span>`;
    return html`<div class="son" data-depth=${depth}><div class="lk ${isCut ? "cut" : ""}">${link}</div><div class="node ${isCut ? "old" : ""}">
      <h3>${station.labelOf(node)} <span class="id m">${node}</span></h3>${row ? this.pairBelow(row) : nothing}<p class="s">${isCut ? t("plant.goes_on") : t("plant.items", { count: row?.items ?? "?" })}</p></div></div>`;
  }

  /** A pair below, by the figures that it sends up; what is not known now is "?". */
  private pairBelow({ leads, pair }: NodeRow): TemplateResult | typeof nothing {
    if (!Object.keys(pair).length) return nothing;
    const { at_risk: risk, other_lost: lost, voters_silent: silent } = pair;
    const state = lost == null || risk == null ? "?" : t(lost ? "below.lost" : risk ? "below.catching" : "plant.ready");
    return html`<div class="mbs"><div class="mb lead"><b>${short(leads) || "?"}</b><span>${t("below.leads")}</span></div>
      <div class="mb ${lost ? "gone" : ""}"><b>${OTHER[short(leads)] ?? "?"}</b><span>${state}</span></div>
      <div class="vt ${silent ? "gone" : ""}"><b>${t("plant.voters")}</b><span>${t("below.silent", { count: silent ?? "?" })}</span></div>
      ${risk ? tag("!", t("below.risk"), true) : nothing}</div><p class="s m">${t("below.orders")}</p>`;
  }

  private completeTo(): TemplateResult | typeof nothing {
    if (!this.tree.length) return nothing;
    const now = station.nowMs;
    return html`<section class="card" tabindex="0" aria-label=${t("plant.complete_to")}><header><h2>${t("plant.complete_to")}</h2><span class="m s">${t("plant.complete_what", { node: station.labelOf(station.hello!.node) })}</span></header>
      <table class="ct"><thead><tr><th>${t("plant.node")}</th><th>${t("plant.complete_to")}</th><th>${t("plant.that_was")}</th><th>${t("plant.to_come")}</th>
      <th class="num">${t("plant.lost")}</th><th class="num">${t("page.items")}</th></tr></thead><tbody>${this.tree.map((one) => html`<tr class=${staleSince(one) === null ? "" : "old"}>
      <td class="id">${one.node}</td><td><b>${timeText(one.complete_to_ms, station.zone, now)}</b></td><td>${one.complete_to_ms ? t("plant.ago", { age: ageText(now - one.complete_to_ms, true) }) : ""}</td>
      <td>${one.behind < 0 || staleSince(one) !== null ? t("plant.not_known") : one.behind ? numberText(one.behind, 0) : t("plant.all_here")}</td>
      <td class="num">${numberText(one.missing, 0)}</td><td class="num">${numberText(one.items, 0)}</td></tr>`)}</tbody></table></section>`;
  }

  private seen(status: NodeStatus): TemplateResult {
    const { pair } = status;
    const now = station.nowMs;
    const rows: [string, string, TemplateResult | string][] = [];
    const age = (ms: number | null): TemplateResult | string => (ms === null ? "?" : ms > 3_000 ? tag("~", ageText(ms), true) : `${Math.round(ms)} ms`);
    if (pair) rows.push([pair.other.place, t("plant.member"), age(pair.other.heard_ms)]);
    for (const [name, one] of Object.entries(pair?.voters_seen ?? {})) rows.push([name, t("plant.voter"), age(one.answered_ms ?? null)]);
    for (const node of station.nodes.filter((one) => one !== status.node)) {
      const since = station.sight.stale[node];
      rows.push([node, t("plant.node"), since === undefined ? t("plant.is_heard") : since ? tag("~", ageText(now - since), true) : "?"]);
    }
    return html`<section class="card"><header><h2>${t("plant.sees")}</h2><span class="m s">${t("plant.sees_what", { member: pair?.place ?? status.node })}</span></header>
      <table><tbody>${rows.map(([name, kind, heard]) => html`<tr><td class="id">${name}</td><td class="m">${kind}</td><td class="num">${heard}</td></tr>`)}</tbody></table></section>`;
  }

  private voters(pair: PairStatus | null): TemplateResult | typeof nothing {
    if (!pair?.voters.length) return nothing;
    const answers = Object.values(pair.voters_seen).filter((one) => (one.answered_ms ?? Infinity) <= 3_000).length;
    const holders = ["primary", "backup"];
    return html`<section class="card"><header><h2>${t("plant.voters")}</h2><span class="m s">${t("plant.answer", { count: answers, all: pair.voters.length })}</span></header>
      <table class="vo"><thead><tr><th>${t("plant.voter")}</th><th>${t("plant.holder")}</th><th class="num">${t("plant.record")}</th><th class="num">${t("plant.lease")}</th></tr></thead>
      <tbody>${pair.voters.map((name) => {
        const one = pair.voters_seen[name];
        return html`<tr><td class="id">${name}</td><td>${one?.record ? holders[one.record.holder] ?? one.record.holder : "?"}</td>
          <td class="num">${one?.record ? `${one.record.epoch}.${one.record.version}` : "?"}</td>
          <td class="num">${one?.lease_left_ms == null ? "?" : t("plant.left", { ms: one.lease_left_ms })}${one?.reason ? html` <span class="m">${one.reason}</span>` : nothing}</td></tr>`;
      })}</tbody></table></section>`;
  }

  private parts(status: NodeStatus): TemplateResult {
    const rows = [
      ...status.adapters.map((one) => [one.name, t("plant.adapter"), one.trouble || (one.connected ? "" : t(one.heard ? "plant.no_device" : "plant.not_running"))] as const),
      ...status.faces.map((one) => [one.name, t("plant.face"), one.trouble] as const),
    ];
    return html`<section class="card"><header><h2>${t("plant.parts")}</h2><span class="m s">${status.pair?.place ?? status.node}</span></header><table><tbody>
      ${rows.map(([name, kind, trouble]) => html`<tr><td class="id">${name}</td><td class="m">${kind}</td><td>${trouble ? html`<span class="tag solid">${trouble}</span>` : t("plant.runs")}</td></tr>`)}
      </tbody></table></section>`;
  }

  private open(panel: "" | "switchover" | "maintenance"): void {
    this.panel = this.panel === panel ? "" : panel;
    this.refusal = null;
    this.requestUpdate();
    void this.updateComplete.then(() => this.find<HTMLElement>("#why")?.focus());
  }

  private asked(status: NodeStatus): TemplateResult {
    const pair = status.pair!;
    const { node } = status;
    const isSwitch = this.panel === "switchover";
    const isOn = pair.maintenance_since_ms > 0;
    const answers = Object.values(pair.voters_seen).filter((one) => (one.answered_ms ?? Infinity) <= 3_000).length;
    const isReady = pair.set.includes(pair.other.place);
    const off = offFor("engineer", node) || (isSwitch && !isReady ? t("switch.not_ready", { other: pair.other.place }) : "");
    return html`<form class="card so" role="dialog" aria-label=${t(isSwitch ? "plant.switchover" : "plant.maintenance")} @submit=${this.submitted}><header>
      <h2>${t(isSwitch ? "switch.title" : isOn ? "maintenance.end" : "maintenance.title", { node })}</h2></header><div class="pad ob">
      ${refused(this.refusal)}
      ${isSwitch ? html`<div class="chg"><div><span class="m s">${t("switch.now")}</span><b>${short(pair.place)}</b></div><i aria-hidden="true">→</i>
        <div class="new"><span class="m s">${t("switch.then")}</span><b>${short(pair.other.place)}</b></div></div>
        <ul class="ck"><li>${rich(isReady ? "switch.ready" : "switch.not_ready", { other: html`<b>${pair.other.place}</b>` })}</li>
        <li>${t("switch.voters", { count: answers, all: pair.voters.length })}</li><li>${t("switch.orders", { count: status.commands_open })}</li></ul>
        <p class="s">${t("switch.what")}</p>` : html`<p class="s">${t(isOn ? "maintenance.what_end" : "maintenance.what")}</p>`}
      <div><label for="why">${t("pop.why")} <span class="m plain">${t("pop.on_record")}</span></label><input id="why" name="why" maxlength="1000" autocomplete="off"></div></div>
      <footer><button class="go" ?disabled=${off !== "" || this.isAsking} title=${off}>${this.isAsking ? t("ack.asking") : t(isSwitch ? "switch.do" : isOn ? "maintenance.end" : "maintenance.do", { node })}</button>
      <button type="button" @click=${() => this.open("")}>${t("pop.leave")} <kbd>Esc</kbd></button></footer></form>`;
  }

  private readonly submitted = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    const reason = String(new FormData(event.target as HTMLFormElement).get("why") ?? "");
    this.isAsking = true;
    this.refusal = null;
    this.requestUpdate();
    try {
      if (this.panel === "switchover") await station.ask("switchover", reason ? { reason } : {});
      else await station.ask("maintenance", { begin: !this.status?.pair?.maintenance_since_ms, reason });
      this.panel = "";
    } catch (error) {
      this.refusal = refusalOf(error);
    }
    this.isAsking = false;
    this.askedMono = -ASK_MS;
    this.requestUpdate();
  };

  override acted(act: Act): boolean {
    if (act !== "back" || !this.panel) return false;
    this.open("");
    return true;
  }
}

customElements.define("view-plant", Plant);
