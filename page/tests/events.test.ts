import { expect, test } from "vitest";
import { groups, lateRuns, runsOf, type Mark } from "../src/trends/events";

const mark = (at_ms: number, told: Partial<Mark>): Mark => ({
  at_ms, kind: "case", action: "raised", user: "", detail: "", item: "root:co_1", condition: "hi", severity: 700, raised_ms: at_ms, ...told,
});
const nothing = { forced: null, frozen: null };
const answer = (from: number, mean: (number | null)[]) => {
  const band = { min: mean, max: mean, first: mean, last: mean, mean, quality: mean };
  return { times_ms: mean.map((_, at) => from + 1_000 * at), every_ms: 1_000, pens: { a: band }, complete_to_ms: 0 };
};

test("alarms, deeds and starts have marks, and two that touch become one", () => {
  const marks = [mark(0, {}), mark(5, { action: "cleared" }), mark(10, { action: "acked", user: "anna" }), mark(90, { kind: "control", action: "epoch_granted" })];
  expect(groups(marks, (ms) => ms, 30).map((one) => [one.at, one.marks.map((each) => each.action)])).toEqual([[0, ["raised", "acked"]], [90, ["epoch_granted"]]]);
});

test("a force lasts from its begin to its end, whatever of it lies outside the range", () => {
  const force = (at: number, action: string) => mark(at, { kind: "audit", action, condition: null });
  expect(runsOf([force(1, "forced"), force(3, "force_released"), force(5, "forced")], "root:co_1", 0, nothing))
    .toEqual([{ kind: "forced", fromMs: 1, toMs: 3 }, { kind: "forced", fromMs: 5, toMs: Infinity }]);
  expect(runsOf([force(3, "force_expired")], "root:co_1", 0, nothing)).toEqual([{ kind: "forced", fromMs: -Infinity, toMs: 3 }]);
  expect(runsOf([], "root:co_1", 0, { forced: 7, frozen: null })).toEqual([{ kind: "forced", fromMs: 7, toMs: Infinity }]);
  expect(runsOf([force(1, "forced")], "root:co_2", 0, nothing)).toEqual([]);
});

test("a value was frozen before anybody could say so", () => {
  const told = [mark(100, { condition: "frozen" }), mark(120, { condition: "frozen", action: "acked" }), mark(150, { condition: "frozen", action: "cleared", raised_ms: 100 })];
  expect(runsOf(told, "root:co_1", 60, nothing)).toEqual([{ kind: "frozen", fromMs: 40, toMs: 150 }]);
  expect(runsOf(told.slice(2), "root:co_1", 60, nothing)).toEqual([{ kind: "frozen", fromMs: 40, toMs: 150 }]);
});

test("late is what an earlier answer did not know, or knew otherwise, though its time was long over", () => {
  expect(lateRuns(answer(0, [1, null, null, 4, null]), 60_000, answer(0, [1, 2, 3, 4, null]), "a")).toEqual([{ kind: "late", fromMs: 1_000, toMs: 3_000 }]);
  expect(lateRuns(answer(0, [1, 2, 3]), 60_000, answer(1_000, [2, 9, 4]), "a")).toEqual([{ kind: "late", fromMs: 2_000, toMs: 3_000 }]);
  expect(lateRuns(answer(0, [1, null]), 5_000, answer(0, [1, 2]), "a")).toEqual([]);
});
