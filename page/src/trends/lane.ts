/** One lane: the pens of one unit on one scale, drawn by uPlot; limits, gaps and names are added to it. */
import uPlot from "uplot";
import { t } from "../words/words";
import type { Entry } from "../wire/fold";
import { numberText } from "../truth/format";
import { gapsOf, type Drawn, type Pen } from "./series";
import type { Run } from "./events";

const DASHES = [[], [9, 3], [3, 2.5], [12, 3, 3, 3]];
const isNarrow = matchMedia("(max-width: 750px)").matches;
export const LEFT_PX = isNarrow ? 44 : 58;
export const RIGHT_PX = isNarrow ? 66 : 118;

export interface LaneView {
  fromMs: number;
  toMs: number;
  zone: string;
  /** Names of pens that are not to be drawn. */
  hidden: ReadonlySet<string>;
  runs: (name: string) => readonly Run[];
  tick: (ms: number) => string;
}

const token = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const penColor = (index: number): string => token(`--pen${(index % 4) + 1}`);
export const penDash = (index: number): number[] => DASHES[index % 4]!;

function lastKnown(pen: Pen): number {
  let last = pen.mean.length - 1;
  while (last >= 0 && pen.mean[last] === null) last -= 1;
  return last;
}

export class Lane {
  private plot: uPlot | null = null;
  private entries: Entry[] = [];
  private view: LaneView | null = null;
  private shown: Drawn | null = null;
  private kind = "";

  constructor(
    private readonly host: HTMLElement,
    private readonly height: number,
    private readonly isLast: boolean,
    private readonly pointed: (ms: number) => void,
    private readonly chosen: (fromMs: number, toMs: number) => void,
  ) {}

  draw(entries: Entry[], shown: Drawn, view: LaneView): void {
    const kind = [entries.map((one) => one.name).join(), document.documentElement.dataset.theme, shown.hasBand, this.host.clientWidth].join("|");
    this.entries = entries;
    this.view = view;
    this.shown = shown;
    if (kind !== this.kind || !this.plot) {
      this.kind = kind;
      this.plot?.destroy();
      this.plot = new uPlot(this.options(), this.data(), this.host);
    } else this.plot.setData(this.data(), false);
    this.plot.batch(() => {
      this.plot!.setScale("x", { min: view.fromMs, max: view.toMs });
      entries.forEach((one, index) => {
        const isShown = !view.hidden.has(one.name);
        if (this.plot!.series[3 * index + 1]!.show !== isShown) this.plot!.setSeries(3 * index + 1, { show: isShown });
      });
    });
  }

  /** Moves the cursor to a time. */
  point(ms: number | null): void {
    if (!this.plot) return;
    const left = ms === null ? -10 : this.plot.valToPos(ms, "x");
    this.plot.setCursor({ left, top: ms === null ? -10 : 10 }, false);
  }

  end(): void {
    this.plot?.destroy();
    this.plot = null;
  }

  private pen(index: number): Pen {
    return this.shown!.pens.get(this.entries[index]!.name)!;
  }

  /** Whether the interval of a point lies in a run of that kind. */
  private within(name: string, kind: Run["kind"]): (at: number) => boolean {
    const { times } = this.shown!;
    const runs = this.view!.runs(name).filter((one) => one.kind === kind);
    return (at) => runs.some((one) => (times[at + 1] ?? Infinity) > one.fromMs && times[at]! < one.toMs);
  }

  private data(): uPlot.AlignedData {
    const rows = this.entries.flatMap((one, index) => {
      const pen = this.pen(index);
      const isFrozen = this.within(one.name, "frozen");
      return [pen.mean.map((value, at) => (isFrozen(at) ? null : value)), pen.max, pen.min];
    });
    return [this.shown!.times, ...rows] as uPlot.AlignedData;
  }

  private options(): uPlot.Options {
    const stepped = uPlot.paths.stepped!({ align: 1 });
    const series: uPlot.Series[] = [{}];
    const bands: uPlot.Band[] = [];
    this.entries.forEach((one, index) => {
      const color = penColor(index);
      const isDiscrete = one.item.value_type !== 1;
      series.push({ label: one.name, stroke: color, width: 1.8, dash: penDash(index), points: { show: false },
        ...(isDiscrete ? { paths: stepped } : {}) });
      series.push({ stroke: "transparent", width: 0, points: { show: false } }, { stroke: "transparent", width: 0, points: { show: false } });
      if (this.shown!.hasBand) bands.push({ series: [3 * index + 2, 3 * index + 3], fill: `${color}40` });
    });
    const axis = { stroke: token("--ink2"), font: "12px sans-serif", grid: { stroke: token("--line"), width: 0.8 }, ticks: { show: false } };
    return {
      width: this.host.clientWidth, height: this.height, ms: 1, legend: { show: false }, series, bands,
      padding: [8, RIGHT_PX, this.isLast ? 0 : 8, 0],
      scales: { x: { time: false, auto: false }, y: { range: (_, low, high) => this.range(low, high) } },
      axes: [
        { ...axis, show: this.isLast, size: this.isLast ? 24 : 0, values: (_, splits) => splits.map((one) => this.view!.tick(one)), space: 90,
          incrs: [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400, 172800, 604800].map((one) => one * 1000) },
        { ...axis, size: LEFT_PX, space: 26, values: (_, splits) => splits.map((one) => numberText(one, Number.isInteger(one) ? 0 : 2)) },
      ],
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      hooks: {
        drawClear: [(plot) => this.behind(plot)],
        draw: [(plot) => this.above(plot)],
        setCursor: [(plot) => {
          const isMoved = plot.cursor.event; // By a pointer: uPlot tells as well when the range has moved below it.
          delete plot.cursor.event;
          if (isMoved && (plot.cursor.left ?? -1) >= 0) this.pointed(plot.posToVal(plot.cursor.left!, "x"));
        }],
        setSelect: [(plot) => {
          if (plot.select.width < 4) return;
          this.chosen(plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x"));
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        }],
      },
    };
  }

  /** Scale of the lane: holds what is seen and the nearest limits. */
  private range(low: number, high: number): [number, number] {
    const limits = this.entries.flatMap((one) => [one.item.alarm?.lo, one.item.alarm?.hi]).filter((one): one is number => typeof one === "number");
    const from = Math.min(low ?? 0, ...limits, 0);
    const to = Math.max(high ?? 1, ...limits);
    const room = (to - from || 1) * 0.06;
    return [from < 0 ? from - room : 0, to + room];
  }

  private behind(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const { view, shown } = this;
    ctx.save();
    ctx.fillStyle = token("--field");
    ctx.fillRect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const pens = this.entries.filter((one) => !view!.hidden.has(one.name)).map((one) => shown!.pens.get(one.name)!);
    for (const [from, to] of gapsOf(shown!.times, pens, view!.fromMs, view!.toMs)) {
      const left = plot.valToPos(from, "x", true);
      const right = plot.valToPos(to, "x", true);
      ctx.fillStyle = token("--okzone");
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
      this.hatch(ctx, left, bbox.top, right - left, bbox.height);
      if (right - left > 90 * devicePixelRatio) this.text(ctx, t("trends.gap"), (left + right) / 2, bbox.top + 14 * devicePixelRatio, "center");
    }
    ctx.restore();
  }

  private hatch(ctx: CanvasRenderingContext2D, left: number, top: number, width: number, height: number): void {
    const step = 8 * devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.strokeStyle = token("--hatch");
    ctx.lineWidth = 1.6 * devicePixelRatio;
    ctx.beginPath();
    for (let x = left - height; x < left + width; x += step) {
      ctx.moveTo(x, top + height);
      ctx.lineTo(x + height, top);
    }
    ctx.stroke();
    ctx.restore();
  }

  private text(ctx: CanvasRenderingContext2D, text: string, x: number, y: number, align: CanvasTextAlign, isBold = false): void {
    ctx.font = `${isBold ? "600 " : ""}${12.5 * devicePixelRatio}px sans-serif`;
    ctx.textAlign = align;
    ctx.textBaseline = "middle";
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * devicePixelRatio;
    ctx.strokeStyle = token("--field");
    if (align !== "left" || !isBold) ctx.strokeText(text, x, y);
    ctx.fillStyle = token("--ink");
    ctx.fillText(text, x, y);
  }

  private above(plot: uPlot): void {
    const { ctx, bbox } = plot;
    const { view } = this;
    const ratio = devicePixelRatio;
    ctx.save();
    const ends: { y: number; text: string }[] = [];
    const limits = new Map<string, number>();
    this.entries.forEach((one, index) => {
      if (view!.hidden.has(one.name)) return;
      const alarm = one.item.alarm ?? {};
      for (const name of ["lo_lo", "lo", "hi", "hi_hi"] as const) {
        const limit = alarm[name];
        if (typeof limit === "number" && limit >= plot.scales.y!.min! && limit <= plot.scales.y!.max!) limits.set(`${name} ${limit}`, limit);
      }
      this.overlay(plot, one, index);
      const pen = this.pen(index);
      const last = lastKnown(pen);
      if (last >= 0) ends.push({ y: plot.valToPos(pen.mean[last]!, "y", true), text: one.local });
    });
    ctx.strokeStyle = token("--ink");
    ctx.lineWidth = 1.4 * ratio;
    for (const [text, limit] of limits) {
      const y = Math.round(plot.valToPos(limit, "y", true));
      ctx.setLineDash([7 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, y);
      ctx.lineTo(bbox.left + bbox.width, y);
      ctx.stroke();
      ctx.setLineDash([]);
      this.text(ctx, text, bbox.left + 6 * ratio, y - 8 * ratio, "left");
      ctx.strokeStyle = token("--ink");
      ctx.lineWidth = 1.4 * ratio;
    }
    // Names at the ends, pushed apart where they would touch.
    ends.sort((one, other) => one.y - other.y);
    let free = -Infinity;
    for (const one of ends) {
      const y = Math.max(one.y, free);
      free = y + 14 * ratio;
      const most = (RIGHT_PX - 12) / 7;
      const text = one.text.length > most ? `${one.text.slice(0, most - 1)}…` : one.text;
      this.text(ctx, text, bbox.left + bbox.width + 8 * ratio, y, "left", true);
    }
    ctx.restore();
  }

  /** What lies beyond a limit is thick, a forced value a double line, a frozen one dotted; what came late has a line below. */
  private overlay(plot: uPlot, entry: Entry, index: number): void {
    const { ctx, bbox } = plot;
    const pen = this.pen(index);
    const { times } = this.shown!;
    const alarm = entry.item.alarm ?? {};
    const high = alarm.hi ?? alarm.hi_hi ?? Infinity;
    const low = alarm.lo ?? alarm.lo_lo ?? -Infinity;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.strokeStyle = penColor(index);
    for (const [width, dash, isSo, shift] of [
      [4, [], (at: number) => pen.mean[at]! > high || pen.mean[at]! < low, 0],
      [1.8, [], this.within(entry.name, "forced"), 4],
      [2.2, [2, 5], this.within(entry.name, "frozen"), 0],
    ] as const) {
      ctx.lineWidth = width * ratio;
      ctx.setLineDash(dash.map((one) => one * ratio));
      ctx.beginPath();
      let isDown = false;
      for (let at = 0; at < times.length; at += 1) {
        const value = pen.mean[at];
        if (value === null || value === undefined || !isSo(at)) {
          isDown = false;
          continue;
        }
        const x = plot.valToPos(times[at]!, "x", true);
        const y = plot.valToPos(value, "y", true) + shift * ratio;
        if (isDown) ctx.lineTo(x, y);
        else ctx.moveTo(x, y);
        isDown = true;
      }
      ctx.stroke();
    }
    for (const { kind, fromMs, toMs } of this.view!.runs(entry.name)) {
      const [left, right] = [Math.max(fromMs, this.view!.fromMs), Math.min(toMs, this.view!.toMs)].map((one) => plot.valToPos(one, "x", true)) as [number, number];
      if (right < bbox.left || left > bbox.left + bbox.width) continue;
      const at = times.findIndex((time, index) => time >= fromMs && pen.mean[index] !== null);
      const isLate = kind === "late";
      const y = isLate || at < 0 ? bbox.top + bbox.height - 12 * ratio : plot.valToPos(pen.mean[at]!, "y", true) - 11 * ratio;
      ctx.fillStyle = token("--ink");
      if (isLate) ctx.fillRect(left, y + 8 * ratio, Math.max(2 * ratio, right - left), 3 * ratio);
      this.text(ctx, t(`trends.${kind}`, { item: entry.local }), Math.min(left, bbox.left + bbox.width - 120 * ratio), Math.max(y, bbox.top + 9 * ratio), "left");
    }
    ctx.setLineDash([]);
    this.unknown(plot, pen);
    ctx.restore();
  }

  /** Where the pen ends before the range does, its last height is hatched: nothing is known of it since. */
  private unknown(plot: uPlot, pen: Pen): void {
    const { times } = this.shown!;
    const last = lastKnown(pen);
    if (last < 0 || times.length - last < 3) return;
    const left = plot.valToPos(times[last]!, "x", true);
    const end = plot.valToPos(Math.min(times.at(-1)!, this.view!.toMs), "x", true);
    this.hatch(plot.ctx, left, plot.valToPos(pen.mean[last]!, "y", true) - 9 * devicePixelRatio, end - left, 18 * devicePixelRatio);
  }
}
