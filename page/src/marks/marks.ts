/** Marks: alarms by shape, qualities by glyph and word, values in their context. */
import { html, nothing, svg, type TemplateResult } from "lit";
import { t, type Key } from "../words/words";
import type { Entry, Sight } from "../wire/fold";
import { notHeardSince } from "../wire/fold";
import { PAST_MS, type Past } from "../wire/past";
import { asks, priorityOf, type Priority } from "../alarms/order";
import type { ShownCase } from "../wire/words";
import { ageText, valueText } from "../truth/format";

export type MarkState = "unacked" | "acked" | "none";

export function mark(priority: Priority, state: MarkState): TemplateResult {
  const shape = { unacked: "m", acked: "a", none: "n" }[state];
  const label = t("mark.label", { number: priority, word: t(`priority.${priority}` as Key), state: t(`mark.${state}`) });
  return html`<svg class=${state === "unacked" ? "mk un" : "mk"} role="img" aria-label=${label}>
    <use href="#${shape}${priority}"></use></svg>`;
}

export const caseMark = (one: ShownCase): TemplateResult =>
  mark(priorityOf(one.severity), asks(one) ? "unacked" : one.is_active || !one.is_acked ? "acked" : "none");

export const tag = (glyph: string, word: string | TemplateResult, isSolid = false): TemplateResult =>
  html`<span class=${isSolid ? "tag solid" : "tag"}><i aria-hidden="true">${glyph}</i>${word}</span>`;

export type Trouble = "none" | "forced" | "frozen" | "old" | "bad" | "empty";

/** What is the matter with a value, if anything; worst for a reader first. */
export function troubleOf(sight: Sight, entry: Entry, frozen = false): Trouble {
  if (notHeardSince(sight, entry.node) !== null || !entry.isLive) return "old";
  if (sight.forced.has(entry.name)) return "forced";
  if (entry.sourceMs === 0 && entry.value === null) return "empty";
  if (entry.quality >>> 30 >= 2 || entry.value === null) return "bad";
  if (frozen) return "frozen";
  return entry.quality >>> 30 === 1 ? "old" : "none";
}

/** Glyphs of what is the matter; empty: nothing is. */
export const glyphs: Record<Trouble, string> = { none: "", forced: "=", frozen: "||", old: "~", bad: "?", empty: "?" };

export const qualityName = (names: Record<string, string>, quality: number): string =>
  names[String(quality)] ?? names[String((quality & 0xffff0000) >>> 0)] ?? `0x${quality.toString(16).padStart(8, "0")}`;

/** The quality in a tag, or the word `good`. */
export function quality(sight: Sight, entry: Entry, nowMs: number, names: Record<string, string>, frozen = false) {
  const since = notHeardSince(sight, entry.node);
  switch (troubleOf(sight, entry, frozen)) {
    case "old":
      if (since !== null) return tag("~", since ? t("quality.unheard_for", { age: ageText(nowMs - since) }) : t("quality.never"));
      if (!entry.isLive) return tag("~", t("quality.not_looked"));
      return tag("~", qualityName(names, entry.quality));
    case "forced":
      return tag("=", t("quality.forced"));
    case "frozen":
      return tag("||", t("quality.frozen"));
    case "bad":
      return tag("?", qualityName(names, entry.quality));
    case "empty":
      return tag("?", t("quality.waiting"));
    default:
      return html`${t("quality.good")}`;
  }
}

type Scale = { from: number; to: number };

const nice = (span: number): number => {
  const power = 10 ** Math.floor(Math.log10(span || 1));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= span) ?? span;
};

/** Scale of an item: the bounds of a set point, else what holds its limits and what was seen of it. */
export function scaleOf(entry: Entry, past?: Past): Scale {
  const { item } = entry;
  if (typeof item.minimum === "number" && typeof item.maximum === "number") return { from: item.minimum, to: item.maximum };
  const alarm = item.alarm ?? {};
  const limits = [alarm.lo_lo, alarm.lo, alarm.hi, alarm.hi_hi].filter((one): one is number => typeof one === "number");
  const seen = [entry.value, ...(past?.values ?? [])].filter((one): one is number => typeof one === "number");
  const upper = Math.max(...limits.map((one) => (one > 0 ? one * 1.4 : one * 0.6)), ...seen, 0);
  const lower = Math.min(...limits.map((one) => (one < 0 ? one * 1.4 : 0)), ...seen, 0);
  if (item.unit === "%" && lower >= 0 && upper <= 100) return { from: 0, to: 100 };
  return { from: lower < 0 ? -nice(-lower) : 0, to: upper > 0 ? nice(upper) : lower < 0 ? 0 : 1 };
}

export const share = (value: number, scale: Scale): number =>
  Math.min(100, Math.max(0, (100 * (value - scale.from)) / (scale.to - scale.from || 1)));
const px = (value: number): string => value.toFixed(1);

export interface BarMarks {
  trouble: Trouble;
  /** The case that is active on it, if any. */
  active?: ShownCase | undefined;
  setPoint?: number | null;
  past?: Past | undefined;
}

/** Whole scale, normal zone, limits as ticks, the pointer; in alarm the zone in which it stands takes the hue. */
export function bar(entry: Entry, { trouble, active, setPoint, past }: BarMarks): TemplateResult {
  const { value, item } = entry;
  const unit = item.unit ?? "";
  if (typeof value !== "number" || trouble === "bad" || trouble === "empty") {
    return html`<div class="bar none" role="img" aria-label=${t("bar.none")}></div>`;
  }
  const scale = scaleOf(entry, past);
  const alarm = item.alarm ?? {};
  const lows = [alarm.lo_lo, alarm.lo].filter((one): one is number => typeof one === "number");
  const highs = [alarm.hi, alarm.hi_hi].filter((one): one is number => typeof one === "number");
  const limits = [...lows, ...highs];
  const left = lows.length ? share(Math.max(...lows), scale) : 0;
  const right = highs.length ? 100 - share(Math.min(...highs), scale) : 0;
  const label = limits.length
    ? t("bar.limits", { value: valueText(value, entry.places), unit, limits: limits.join(", ") })
    : t("bar.plain", { value: valueText(value, entry.places), unit });
  let zone: TemplateResult | typeof nothing = nothing;
  if (active?.is_active && active.limit !== null) {
    const edges = [scale.from, ...limits, scale.to];
    const index = edges.findIndex((edge, at) => value >= edge && value <= (edges[at + 1] ?? edge));
    const from = share(edges[Math.max(0, index)] ?? scale.from, scale);
    const to = share(edges[Math.max(0, index) + 1] ?? scale.to, scale);
    zone = html`<i class="z p${priorityOf(active.severity)}" .style=${`left:${px(from)}%;right:${px(100 - to)}%`}></i>`;
  }
  return html`<div class="bar ${trouble === "forced" || trouble === "frozen" ? "doubt" : ""}" role="img" aria-label=${label}>
    <i class="ok" .style=${`left:${px(left)}%;right:${px(right)}%`}></i>${zone}
    ${limits.map((one) => html`<i class="l" .style=${`left:${px(share(one, scale))}%`}></i>`)}
    ${typeof setPoint === "number" ? html`<i class="s" .style=${`left:${px(share(setPoint, scale))}%`}></i>` : nothing}
    <i class="p" .style=${`left:${px(share(value, scale))}%`}></i></div>`;
}

/** Ten minutes on the scale of the limit line; thick beyond it, grey where nothing is known. */
export function spark(entry: Entry, past: Past | undefined, nowMs: number): TemplateResult {
  const WIDTH = 120;
  const HEIGHT = 26;
  if (!past?.times.length) return html`<svg class="sp1" viewBox="0 0 120 26" aria-hidden="true"></svg>`;
  const alarm = entry.item.alarm ?? {};
  const limit = alarm.hi ?? alarm.hi_hi ?? alarm.lo ?? alarm.lo_lo ?? null;
  const isLow = limit !== null && (alarm.hi ?? alarm.hi_hi ?? null) === null;
  const known = past.values.filter((one): one is number => one !== null);
  let [from, to] = [Math.min(...known, limit ?? Infinity), Math.max(...known, limit ?? -Infinity)];
  if (!(to > from)) [from, to] = [from - 1, from + 1];
  const x = (ms: number): number => Math.max(0, WIDTH * (1 - (nowMs - ms) / PAST_MS));
  const y = (value: number): number => HEIGHT - 3 - ((HEIGHT - 6) * (value - from)) / (to - from);
  const line: string[] = [];
  const over: string[] = [];
  const gaps: [number, number][] = [];
  let gapFrom: number | null = past.times[0]! > nowMs - PAST_MS + 20_000 ? nowMs - PAST_MS : null;
  past.times.forEach((time, index) => {
    if ((past.times[index + 1] ?? Infinity) < nowMs - PAST_MS) return;
    const value = past.values[index]!;
    if (value === null) {
      gapFrom ??= time;
      return;
    }
    if (gapFrom !== null) gaps.push([gapFrom, time]);
    const isNew = !line.length || gapFrom !== null;
    gapFrom = null;
    const at = `${px(x(time))} ${px(y(value))}`;
    line.push(isNew ? `M${at}` : `L${at}`);
    const isOver = limit !== null && (isLow ? value < limit : value > limit);
    if (isOver) over.push(over.length && line.length > 1 && !isNew && over.at(-1) !== "" ? `L${at}` : `M${at}`);
    else if (over.length && over.at(-1) !== "") over.push("");
  });
  const last = past.values.at(-1)!;
  if (gapFrom !== null) gaps.push([gapFrom, nowMs]);
  else if (last !== null && last !== undefined) {
    line.push(`H${WIDTH}`);
    if (over.length && over.at(-1) !== "") over.push(`H${WIDTH}`);
  }
  return html`<svg class="sp1" viewBox="0 0 120 26" preserveAspectRatio="none" aria-hidden="true">
    ${gaps.map(([a, b]) => svg`<rect class="gap" x=${px(x(a))} y="0" width=${px(Math.max(0, x(b) - x(a)))} height="26"/>`)}
    ${limit === null ? nothing : svg`<path class="lim" d="M0 ${px(y(limit))}H120"/>`}
    <path d=${line.join("")}></path>
    ${over.length ? svg`<path class="over" d=${over.join("")}/>` : nothing}</svg>`;
}

export interface Tile {
  label: string;
  isOn: boolean | null;
  active?: ShownCase | undefined;
}

/** Likes that are on or off, side by side: white runs, dark stands, an alarm has its mark, an unknown one is empty. */
export function tiles(list: Tile[]): TemplateResult {
  const on = list.filter((one) => one.isOn).length;
  const label = t("tiles.label", { on, all: list.length });
  return html`<div class="fans" role="img" aria-label=${label}>${list.map((one) => {
    if (one.active?.is_active) {
      const priority = priorityOf(one.active.severity);
      return html`<span class="trip p${priority}" title=${one.label}>${priority}</span>`;
    }
    return html`<span class=${one.isOn === null ? "out" : one.isOn ? "on" : ""} title=${one.label}></span>`;
  })}</div>`;
}

