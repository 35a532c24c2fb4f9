import { expect, test } from "vitest";
import { commonText, drawn, floodOf, folded, placed, unfolded, type Line } from "../src/alarms/folding";
import { aCase } from "./parts";
import type { ShownCase } from "../src/wire/words";

const NOW = 10_000_000;
const some = (count: number, stem: string, told: Partial<ShownCase> = {}, from = 1): ShownCase[] =>
  Array.from({ length: count }, (_, at) => aCase({ case_id: from + at, item: `root/s:${stem}_${at + 1}`, raised_ms: NOW - 1_000 + at, ...told }));
const seen = (list: Line[]): [string, number][] => list.map((one) => [one.kind, one.cases.length]);
const noCause = (): string => "";

test("ten new ones within ten minutes are a flood, and it began with the first of them", () => {
  expect(floodOf(some(9, "a"), NOW)).toBeNull();
  expect(floodOf(some(10, "a"), NOW)).toEqual({ count: 10, sinceMs: NOW - 1_000, first: "root/s#1" });
  expect(floodOf(some(10, "a", { is_suppressed: true }), NOW)).toBeNull();
});

test("a flood that goes on keeps its first one, an alarm of long before is none of it", () => {
  const rising = some(30, "a").map((one, at) => ({ ...one, raised_ms: NOW - 29 * 60_000 + at * 60_000 }));
  expect(floodOf(rising, NOW)).toMatchObject({ count: 10, first: "root/s#1" });
  expect(floodOf([aCase({ case_id: 99, raised_ms: 1 }), ...rising], NOW)).toMatchObject({ first: "root/s#1" });
});

test("without a flood each case has its line, and suppressed ones stand together by their cause", () => {
  const list = folded([...some(4, "a"), ...some(3, "b", { is_suppressed: true }, 10), ...some(2, "c", { is_suppressed: true }, 20)], null,
    (one) => (one.item.includes(":c") ? "door" : "pump"));
  expect(seen(list)).toEqual([["one", 1], ["one", 1], ["one", 1], ["one", 1], ["suppressed", 3], ["suppressed", 2]]);
});

test("a flood has its first one on top, then critical and high ones, likes in one line, low ones by site, and loses none", () => {
  const low = some(15, "t", {}, 1);
  const high = some(4, "opacity", { severity: 700 }, 40);
  const two = some(2, "smoke", { severity: 700 }, 50);
  const critical = some(1, "fire", { severity: 900 }, 60);
  const other = some(2, "t", { item: "root/n:t_1" }, 70);
  const acked = some(3, "q", { is_acked: true }, 80);
  const cases = [...critical, ...high, ...two, ...low, ...other, ...acked];
  const list = folded(cases, { count: 27, sinceMs: 0, first: "root/s#50" }, noCause);
  expect(seen(list)).toEqual([["one", 1], ["one", 1], ["likes", 4], ["one", 1], ["low", 15], ["low", 2], ["low", 3]]);
  expect([list[0]!.isFirst, list[0]!.cases[0]!.case_id]).toEqual([true, 50]);
  expect(list.flatMap((one) => one.cases).map((one) => one.case_id).sort()).toEqual(cases.map((one) => one.case_id).sort());
});

test("a line unfolds to its kinds, and a kind to its cases", () => {
  const [line] = folded([...some(12, "t"), ...some(1, "door", {}, 40)], { count: 13, sinceMs: 0, first: "" }, noCause);
  const kinds = unfolded(line!);
  expect(seen(kinds)).toEqual([["likes", 12], ["one", 1]]);
  expect(unfolded(kinds[0]!)).toHaveLength(12);
  const all = drawn([line!], new Set([line!.key, kinds[0]!.key]));
  expect([all.length, all.map((one) => one.depth).slice(0, 3)]).toEqual([15, [0, 1, 2]]);
  expect(new Set(all.map((one) => one.key)).size).toBe(15);
});

test("likes that somebody acknowledged, of another rule or another node, stand apart", () => {
  const told: Partial<ShownCase>[] = [{}, { is_acked: true }, { condition: "lo" }, { item: "root/n:a_1" }];
  const cases = told.flatMap((one, at) => some(3, "a", { severity: 700, ...one }, 10 * at));
  expect(folded(cases, { count: 12, sinceMs: 0, first: "" }, noCause).map((one) => one.cases.length)).toEqual([3, 3, 3, 3]);
});

test("the text of likes keeps the numbers that they share", () => {
  expect(commonText(["CO2 in section 5", "CO2 in section 12"])).toBe("CO2 in section …");
  expect(commonText(["Fan 3: motor has tripped", "Fan 4: motor has tripped"])).toBe("Fan …: motor has tripped");
  expect(commonText(["Level of basin", "Flow of basin"])).toBe("…");
  expect(placed("Extinction in section …")).toEqual({ what: "Extinction", place: "section" });
  expect(placed("Level of basin …")).toEqual({ what: "Level of basin …", place: "" });
});
