/** Events of a trend: marks above it, and runs of time in which a pen was forced or frozen, or came late. Pure. */
import type { TrendAnswer } from "../wire/station";

/** An event, as the face tells it (`marks`). */
export interface Mark {
  at_ms: number;
  kind: "case" | "audit" | "control";
  action: string;
  user: string;
  detail: string;
  item: string;
  condition: string | null;
  severity: number | null;
  raised_ms: number | null;
}

export interface Run {
  kind: "forced" | "frozen" | "late";
  fromMs: number;
  toMs: number;
}

/** How long the history may lag behind without being late. */
const LAG_MS = 10_000;
const RAISED = ["raised", "activated"];
const GONE = ["cleared", "retired"];

export const isAlarm = (one: Mark): boolean => one.kind === "case" && RAISED.includes(one.action);

/** What is drawn: alarms as they began, what people did, and control of nodes. */
export const isShown = (one: Mark): boolean => isAlarm(one) || (one.kind === "case" ? one.user !== "" : one.action !== "write_ended");

/** Events whose marks would touch are one. */
export function groups(marks: readonly Mark[], x: (ms: number) => number, apartPx: number): { at: number; marks: Mark[] }[] {
  const found: { at: number; marks: Mark[] }[] = [];
  for (const one of marks.filter(isShown)) {
    const last = found.at(-1);
    if (last && x(one.at_ms) - last.at < apartPx) last.marks.push(one);
    else found.push({ at: x(one.at_ms), marks: [one] });
  }
  return found;
}

/**
 * Runs in which a pen was forced or frozen. What began before the range is told by its end, or by what is so now:
 * since when it is forced or frozen, null if it is not. It froze `frozenMs` before anybody could say so.
 */
export function runsOf(marks: readonly Mark[], name: string, frozenMs: number, now: { forced: number | null; frozen: number | null }): Run[] {
  const runs: Run[] = [];
  const open: Record<"forced" | "frozen", number | null> = { forced: null, frozen: null };
  const end = (kind: "forced" | "frozen", fromMs: number, toMs: number): void => {
    open[kind] = null;
    const last = runs.findIndex((one) => one.kind === kind && one.toMs >= fromMs);
    if (last < 0) runs.push({ kind, fromMs, toMs });
    else runs[last]!.toMs = toMs;
  };
  for (const one of marks) {
    if (one.item !== name) continue;
    const isFrozen = one.condition === "frozen";
    if (one.kind === "audit" && one.action === "forced") open.forced ??= one.at_ms;
    else if (one.kind === "audit" && one.action.startsWith("force_")) end("forced", open.forced ?? -Infinity, one.at_ms);
    else if (isFrozen && RAISED.includes(one.action)) open.frozen = one.at_ms - frozenMs;
    else if (isFrozen && GONE.includes(one.action)) end("frozen", open.frozen ?? (one.raised_ms ?? -Infinity) - frozenMs, one.at_ms);
  }
  for (const kind of ["forced", "frozen"] as const) {
    const from = open[kind] ?? now[kind];
    if (from !== null) end(kind, from, Infinity);
  }
  return runs;
}

/** Runs that the history tells now, and which an answer of `askedMs` did not know, or knew otherwise. */
export function lateRuns(before: TrendAnswer, askedMs: number, answer: TrendAnswer, name: string): Run[] {
  const runs: Run[] = [];
  const { every_ms: every } = answer;
  if (every !== before.every_ms) return runs;
  const shift = ((answer.times_ms[0] ?? 0) - (before.times_ms[0] ?? 0)) / every;
  answer.times_ms.forEach((fromMs, at) => {
    const value = answer.pens[name]?.mean[at] ?? null;
    const then = before.pens[name]?.mean[at + shift];
    if (value === null || then === undefined || fromMs + every > askedMs - LAG_MS) return;
    if (then !== null && Math.abs(value - then) <= 1e-9 * Math.abs(value)) return;
    const last = runs.at(-1);
    if (last && last.toMs === fromMs) last.toMs += every;
    else runs.push({ kind: "late", fromMs, toMs: fromMs + every });
  });
  return runs;
}
