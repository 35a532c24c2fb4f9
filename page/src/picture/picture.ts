/** Picture: where along the plant. Elements are buttons; below 12 px of type the same items are a list by section. */
import { html, nothing, svg, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { View, type Act } from "../frame/view";
import { go, here, hrefOf } from "../frame/route";
import { isWall } from "../frame/settings";
import { notHeardSince, type Entry } from "../wire/fold";
import type { Picture, PictureTitle, ShownCase } from "../wire/words";
import { caseMark, glyphs, scaleOf, share, tag } from "../marks/marks";
import { acks } from "../alarms/acks";
import { actives } from "../alarms/lookup";
import { asks, priorityOf } from "../alarms/order";
import { ageText } from "../truth/format";
import { boxOf, markOf, sentenceOf, spotsOf, toldOf, type Spot, type Told } from "./spots";

/** Least type, in px. */
const TYPE_PX = 12;
/** Time in which the items of a picture have to be there; then one that is not is none. */
const COME_MS = 2_000;
const ARROWS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

class PictureView extends View {
  private asked = "";
  private shown: Picture | null = null;
  private shownMono = 0;
  private root: SVGSVGElement | null = null;
  private spots: Spot[] = [];
  /** Smallest type of the drawing, in its units. */
  private type = 14;
  private open: Spot | null = null;
  private active = new Map<string, ShownCase>();
  private readonly resized = (): void => this.requestUpdate();

  override connectedCallback(): void {
    super.connectedCallback();
    window.addEventListener("resize", this.resized);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    window.removeEventListener("resize", this.resized);
    station.draw("");
  }

  protected override render(): TemplateResult {
    const titles = station.hello?.pictures;
    if (!titles || !station.sight.isKnown) return html`<p class="m">${t("wait.first")}</p>`;
    const good = titles.filter((one) => !one.trouble);
    const title = good.find((one) => one.name === here().values.get("name")) ?? good[0];
    if (title && title.name !== this.asked) station.draw((this.asked = title.name));
    this.active = actives(station.sight.cases.values());
    return html`${title ? this.head(title, good) : html`<h1>${t("page.picture")}</h1>`}
      ${titles.map((one) => one.trouble ? html`<p class="no nowall"><b>${t("picture.broken", { title: one.title })}</b> ${one.trouble}</p>` : nothing)}
      ${title ? html`<div class="split"><div class="card ${station.isNotHeard(title.node) ? "old" : ""}">${this.drawing(title)}</div>
        ${isWall ? nothing : this.faceplate()}</div>` : titles.length ? nothing : html`<p>${t("picture.none")}</p>`}`;
  }

  private head(title: PictureTitle, good: PictureTitle[]): TemplateResult {
    const since = notHeardSince(station.sight, title.node);
    return html`<div class="head nowall"><h1>${title.title}</h1><span class="id m">${title.node}</span>
      ${since === null ? nothing : tag("~", since ? t("quality.unheard_for", { age: ageText(station.nowMs - since) }) : t("quality.never"), true)}
      <span class="sp"></span>${good.length < 2 ? nothing : html`<label class="m s nb plain">${t("picture.choose")}
        <select class="sm" @change=${(event: Event) => go("picture", { name: (event.target as HTMLSelectElement).value })}>
        ${good.map((one) => html`<option value=${one.name} ?selected=${one === title}>${one.title}</option>`)}</select></label>`}</div>`;
  }

  private drawing(title: PictureTitle): TemplateResult {
    const { root, type } = this;
    const width = this.find(".pic")?.clientWidth ?? 0;
    const isList = !isWall && root !== null && (type * width) / root.viewBox.baseVal.width < TYPE_PX;
    return html`<div class="pic"><div class="drawn" ?hidden=${isList}></div>${!root ? nothing : isList ? this.list()
      : html`<svg class="over" viewBox=${root.getAttribute("viewBox")!} font-size=${type} role="group" aria-label=${title.title} @keydown=${this.moved}>
        <defs><pattern id="picture-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect width="2" height="7"></rect></pattern></defs>${this.spots.map((one) => this.button(one))}</svg>`}</div>`;
  }

  protected override updated(): void {
    const { picture } = station;
    if (picture && picture !== this.shown && picture.svg && picture.name === this.asked) this.show(picture);
    for (const spot of this.spots) this.change(spot);
  }

  /** Puts a drawing in its place, and looks where its elements are. */
  private show(picture: Picture): void {
    const drawn = this.find(".drawn")!;
    drawn.hidden = false;
    const parsed = new DOMParser().parseFromString(picture.svg, "image/svg+xml").documentElement as unknown as SVGSVGElement;
    const root = (this.root = document.importNode(parsed, true));
    drawn.replaceChildren(root);
    const { a } = root.getScreenCTM()!;
    this.type = Math.min(...[...root.querySelectorAll("text")].map((one) => {
      const own = one.getScreenCTM()!;
      return (parseFloat(getComputedStyle(one).fontSize) * Math.hypot(own.a, own.b)) / a;
    }), root.viewBox.baseVal.width / 40);
    this.spots = spotsOf(root, picture.elements);
    this.shown = picture;
    this.shownMono = performance.now();
    this.open = null;
    station.want(this, [...new Set(this.spots.flatMap((one) => one.items))]);
    this.requestUpdate();
  }

  private told = (spot: Spot): Told => toldOf(spot, station.sight, this.active);

  /** Changes the drawing itself: the text of a value, the body of equipment. */
  private change(spot: Spot): void {
    const { element, target } = spot;
    const { state, value, unit, trouble } = this.told(spot);
    if (element.how === "running") target?.setAttribute("class", `eq ${state}`);
    if (element.how !== "value" || !target) return;
    const text = `${value} ${unit}`.trim();
    target.classList.toggle("it", trouble === "old");
    if (target.textContent === text) return;
    target.textContent = text;
    if (target.checkVisibility()) spot.box = boxOf(target, this.root!);
    this.requestUpdate();
  }

  private isNone(told: Told): boolean {
    return !told.entry && performance.now() - this.shownMono > COME_MS;
  }

  private button(spot: Spot): unknown {
    const { x, y, width, height } = spot.box;
    const u = this.type;
    const told = this.told(spot);
    const { active, trouble } = told;
    const { how } = spot.element;
    const isNone = this.isNone(told);
    const mark = active ? markOf(active) : "";
    const arrow = `M${x + width * 0.38} ${y + height * 0.22}l${width * 0.28} ${height * 0.28}l${-width * 0.28} ${height * 0.28}`;
    return svg`<g class="el ${isNone ? "none" : ""}" role="button" tabindex="0" aria-pressed=${this.open === spot} @click=${() => this.opened(spot)}
      aria-label=${isNone ? `${told.name}: ${t("picture.no_item")}` : sentenceOf(told)}>
      ${how === "level" || how === "profile" ? this.column(spot, told) : nothing}
      ${how === "running" && told.state === "on" ? svg`<path class="blade" d=${arrow}></path>` : nothing}
      <rect class="hit" x=${x - u / 4} y=${y - u / 4} width=${width + u / 2} height=${height + u / 2}
        fill=${["old", "forced", "frozen"].includes(trouble) ? "url(#picture-hatch)" : "transparent"}></rect>
      ${isNone ? svg`<text x=${x} y=${y - u / 2}>${t("picture.no_item")}</text>` : !glyphs[trouble] ? nothing
        : svg`<g class="qt"><rect x=${x - u} y=${y - u} width=${u * 1.3} height=${u * 1.3}></rect><text x=${x - u * 0.35} y=${y}>${glyphs[trouble]}</text></g>`}
      ${mark ? svg`<g class=${mark.startsWith("m") ? "mk un" : "mk"}><use href="#${mark}" x=${x + width - u * 0.4} y=${y - u * 0.9}
        width=${u * 1.4} height=${u * 1.4}></use></g>` : nothing}</g>`;
  }

  /** A bar in its rectangle; likes stand side by side on one scale, with one limit line. */
  private column({ element, box }: Spot, { entry, active, trouble, value }: Told): unknown {
    const all = element.items.map((one) => station.sight.items.get(one)).filter((one): one is Entry => one !== undefined);
    if (!entry || typeof entry.value !== "number" || value === "-") return nothing;
    const scales = all.map((one) => scaleOf(one));
    const scale = { from: Math.min(...scales.map((one) => one.from)), to: Math.max(...scales.map((one) => one.to)) };
    const isLike = element.how === "profile";
    const isUp = isLike || box.height > box.width;
    const inset = isLike ? box.width * 0.18 : 0;
    const along = (number: number): number => (share(number, scale) / 100) * (isUp ? box.height : box.width);
    const bottom = box.y + box.height;
    const top = bottom - along(entry.value);
    const alarm = entry.item.alarm ?? {};
    const hue = active?.is_active && trouble !== "old" ? `al p${priorityOf(active.severity)}` : "";
    const limits = [alarm.lo_lo, alarm.lo, alarm.hi, alarm.hi_hi].filter((one): one is number => typeof one === "number");
    return svg`<rect class="pb ${hue}" x=${box.x + inset} y=${isUp ? top : box.y} width=${isUp ? box.width - 2 * inset : along(entry.value)}
        height=${isUp ? bottom - top : box.height}></rect>
      ${limits.map((one) => svg`<path class="lim" d=${isUp ? `M${box.x} ${bottom - along(one)}h${box.width}`
        : `M${box.x + along(one)} ${box.y}v${box.height}`}></path>`)}
      ${isLike ? svg`<text class="v" x=${box.x + box.width / 2} y=${Math.max(top - this.type / 3, box.y + this.type)}>${value}</text>` : nothing}`;
  }

  private list(): TemplateResult {
    const spots = this.spots.filter((one, at, all) => all.findIndex((other) => other.items[0] === one.items[0]) === at);
    const sections = [...new Set(spots.map((one) => one.element.section))];
    return html`${sections.map((section) => html`${section ? html`<h3 class="pad">${section}</h3>` : nothing}
      ${spots.filter((one) => one.element.section === section).map((spot) => {
        const told = this.told(spot);
        const glyph = glyphs[told.trouble];
        return html`<button class="pr" aria-pressed=${this.open === spot} @click=${() => this.opened(spot)}><span>${told.name}</span>
          ${this.isNone(told) ? t("picture.no_item") : html`${glyph ? html`<span class="tag g"><i>${glyph}</i></span>` : nothing}
          <b>${told.value}</b> <small class="m">${told.unit}</small>`}${told.active ? caseMark(told.active) : nothing}</button>`;
      })}`)}`;
  }

  /** Beside the drawing, never over it: the item as its own page shows it. */
  private faceplate(): TemplateResult {
    if (!this.open) return html`<aside class="card pad fp m">${t("picture.hint")}</aside>`;
    const { active, name } = this.told(this.open);
    const off = active ? acks.reasonAgainst([active]) : "";
    const item = this.open.items[0]!;
    return html`<aside class="fp" aria-label=${name}><div class="row"><h2>${name}</h2>
      ${!active || !asks(active) ? nothing : acks.isAsked(active) ? html`<span>${t("ack.asking")}</span>`
        : html`<button ?disabled=${off !== ""} title=${off} @click=${() => acks.ack([active])}>${t("ack.do")} <kbd>a</kbd></button>`}
      <span class="sp"></span><a class="btn" href=${hrefOf("item", { name: item })}>${t("page.item")}</a><button aria-label=${t("picture.close")} @click=${() => this.opened(null)}>✕</button></div>
      ${active && acks.refusal(active) ? html`<p class="s">${acks.refusal(active)}</p>` : nothing}
      <view-item .name=${item}></view-item></aside>`;
  }

  private opened(spot: Spot | null): void {
    this.open = spot;
    this.requestUpdate();
    void this.updateComplete.then(() => this.find(".fp")?.scrollIntoView({ block: "nearest" }));
  }

  private readonly moved = (event: KeyboardEvent): void => {
    const buttons = [...this.querySelectorAll<SVGGElement>(".el")];
    const step = ARROWS[event.key];
    if (!step) return;
    event.preventDefault();
    buttons[buttons.indexOf(document.activeElement as SVGGElement) + step]?.focus();
  };

  override acted(act: Act): boolean {
    const at = [...this.querySelectorAll(".el")].indexOf(document.activeElement!);
    const active = this.open && this.told(this.open).active;
    if ((act === "enter" || act === "select") && at >= 0) this.opened(this.spots[at]!);
    else if (act === "acknowledge" && active && asks(active)) void acks.ack([active]);
    else if (this.find<View>("view-item")?.acted(act)) return true;
    else if (act === "back" && this.open) this.opened(null);
    else return false;
    return true;
  }
}

customElements.define("view-picture", PictureView);
