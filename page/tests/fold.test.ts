import { expect, test } from "vitest";
import { caseKey, emptySight, fold, isNotHeard, notHeardSince, placesOf } from "../src/wire/fold";
import { aCase, aView } from "./parts";

test("a view brings items, values and cases, and the next one changes them", () => {
  const sight = emptySight();
  fold(sight, aView({ is_whole: true, items: [{ key: 0, node: "root/s", item: { name: "co_1", value_type: 1 } }], values: [[0, 5.25, 0, 100]], cases: [aCase({})] }));
  const entry = sight.items.get("root/s:co_1")!;
  expect([entry.value, entry.sourceMs, entry.isLive, entry.places]).toEqual([5.25, 100, true, 2]);
  expect(sight.cases.has(caseKey(aCase({})))).toBe(true);
  const heard = fold(sight, aView({ values: [[0, 6, 0, 200], [9, 1, 0, 1]] }));
  expect(heard.map((one) => one.value)).toEqual([6]);
  expect(entry.places).toBe(2);
});

test("a whole view voids what it does not tell, and keeps the item as one of before", () => {
  const sight = emptySight();
  fold(sight, aView({ is_whole: true, items: [{ key: 0, node: "root", item: { name: "a", value_type: 1 } }], values: [[0, 1, 0, 1]], cases: [aCase({})] }));
  fold(sight, aView({ is_whole: true }));
  expect(sight.items.get("root:a")?.isLive).toBe(false);
  expect(sight.cases.size).toBe(0);
  expect(fold(sight, aView({ values: [[0, 2, 0, 2]] }))).toEqual([]);
});

test("a closed case goes", () => {
  const sight = emptySight();
  fold(sight, aView({ cases: [aCase({})] }));
  fold(sight, aView({ cases: [aCase({ lifecycle_status: "closed", changed_ms: 77 })] }));
  expect(sight.cases.size).toBe(0);
});

test("cases of two nodes with one number are two", () => {
  expect(caseKey(aCase({ item: "root/a:x" }))).not.toBe(caseKey(aCase({ item: "root/b:x" })));
});

test("what is not told stays: nodes that are not heard, and forced items", () => {
  const sight = emptySight();
  fold(sight, aView({ stale: { "root/s": 5 }, forced: ["root:a"] }));
  fold(sight, aView({}));
  expect([notHeardSince(sight, "root/s/line"), isNotHeard(sight, "root"), sight.forced.size]).toEqual([5, false, 1]);
  fold(sight, aView({ stale: {}, forced: [] }));
  expect([isNotHeard(sight, "root/s"), sight.forced.size]).toEqual([false, 0]);
});

test("places are those that a number needs, and no more than anybody reads", () => {
  expect([1, 0.5, 46.8, 1.085, 1.0849999, 228.64, 0.1 + 0.2, Infinity].map(placesOf)).toEqual([0, 1, 1, 3, 3, 1, 1, 0]);
});
