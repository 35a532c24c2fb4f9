import { expect, test } from "vitest";
import { Pasts } from "../src/wire/past";
import { csv, drawn, gapsOf, statistics } from "../src/trends/series";
import { finder } from "../src/items/find";
import { matchesAny, rowsOf, shownOf } from "../src/overview/rows";
import type { Entry } from "../src/wire/fold";

const entry = (local: string, told: Partial<Entry> = {}): Entry => ({
  name: `root/s:${local}`, node: "root/s", local, item: { name: local, value_type: 1 }, value: 1, quality: 0, sourceMs: 1, isLive: true,
  isRetired: false, places: 0, ...told,
});
const band = (values: (number | null)[]) => ({ min: values, max: values, first: values, last: values, mean: values, quality: values.map(() => 0) });

test("what was heard goes on where the history ends, and a value holds until the next", () => {
  const shown = drawn(["a", "b"], { times_ms: [0, 10], every_ms: 10, pens: { a: band([1, 2]), b: band([5, 6]) }, complete_to_ms: 10 },
    (name) => (name === "a" ? { times: [5, 20, 30], values: [9, 3, 4] } : { times: [], values: [] }), 0, 40);
  expect(shown.times).toEqual([0, 10, 20, 30, 40]);
  expect(shown.pens.get("a")!.mean).toEqual([1, 2, 3, 4, 4]);
  expect(shown.pens.get("b")!.mean).toEqual([5, 6, 6, 6, 6]);
});

test("without a history the pens begin with what was heard", () => {
  const shown = drawn(["a"], null, () => ({ times: [20], values: [3] }), 0, 40);
  expect([shown.times, shown.pens.get("a")!.mean]).toEqual([[20, 40], [3, 3]]);
});

test("a gap is where none of the pens knows anything, and the edges of an interval are none", () => {
  const pen = (mean: (number | null)[]) => ({ mean, min: mean, max: mean, quality: mean });
  const times = [0, 10, 20, 30, 40, 50, 60, 70];
  expect(gapsOf(times, [pen([1, 1, null, null, null, null, 1, 1])], 0, 70)).toEqual([[10, 60]]);
  expect(gapsOf(times, [pen([1, 1, null, null, null, null, 1, 1]), pen([1, 1, 1, 1, 1, 1, 1, 1])], 0, 70)).toEqual([]);
  expect(gapsOf([], [], 0, 70)).toEqual([[0, 70]]);
});

test("least, most and mean come from the band", () => {
  expect(statistics({ mean: [1, null, 3], min: [0, null, 2], max: [2, null, 9], quality: [] })).toEqual({ least: 0, most: 9, mean: 2 });
});

test("a table for a spreadsheet quotes names that it would reckon", () => {
  const shown = drawn(["=x"], { times_ms: [0], every_ms: 1, pens: { "=x": band([1]) }, complete_to_ms: 0 }, () => undefined, 0, 1);
  expect(csv(shown)).toBe("time,'=x\r\n1970-01-01T00:00:00.000Z,1\r\n");
});

test("small trends keep what is asked for, and put the history before what was heard", () => {
  const pasts = new Pasts();
  expect(pasts.keep(["a"])).toEqual(["a"]);
  expect(pasts.keep(["a"])).toEqual([]);
  pasts.note("b", 1, 1);
  pasts.note("a", 10_000, 1);
  pasts.note("a", 30_000, 2);
  pasts.fill("a", [1_000, 5_000, 20_000], [7, 8, 9]);
  expect(pasts.of("a")).toEqual({ times: [1_000, 5_000, 10_000, 29_999, 30_000], values: [7, 8, 1, 1, 2] });
});

test("a search knows words, patterns and several of them", () => {
  const one = entry("co_8", { item: { name: "co_8", value_type: 1, description: "Carbon monoxide" } });
  expect(["co_8", "monox", "co_*", "*_8", "x, co_?", "root/s:co_*", "co_9", "o_*"].map((text) => finder(text)(one)))
    .toEqual([true, true, true, true, true, true, false, false]);
});

test("likes stand in one row, which shows the one that is nearest to its limit", () => {
  const item = (name: string) => ({ name, value_type: 1 as const, description: "CO in the section", alarm: { hi: 40, severity: 600 } });
  const rows = rowsOf("root/s", [entry("co_1", { item: item("co_1"), value: 5 }), entry("co_2", { item: item("co_2"), value: 39 }), entry("core/x")], []);
  expect(rows.map((row) => [row.label, row.entries.length, row.kind])).toEqual([["CO in the section", 2, "bar"]]);
  expect(shownOf(rows[0]!, () => undefined).local).toBe("co_2");
});

test("things of the topology are rows in their order", () => {
  const object = { node: "root/s", name: "fan", label: "Fan", description: "", items: ["fan_*"] };
  expect(rowsOf("root/s", [entry("fan_1"), entry("co_1")], [object]).map((row) => [row.label, row.entries.length])).toEqual([["Fan", 1]]);
  expect([matchesAny("fan_1", ["fan_?"]), matchesAny("a.b", ["a?b"]), matchesAny("axb", ["a.b"])]).toEqual([true, true, false]);
});

test("a pen of a node that is not heard ends, and does not go on with its last value", () => {
  const past = () => ({ times: [20], values: [3] });
  const shown = drawn(["a", "b"], null, past, 0, 60, (name) => (name === "a" ? 30 : Infinity));
  expect([shown.times, shown.pens.get("a")!.mean, shown.pens.get("b")!.mean]).toEqual([[20, 60], [3, null], [3, 3]]);
});

test("behind the end of the history a pen goes on with the latest that was heard, which may be that it is bad", () => {
  const shown = drawn(["a"], { times_ms: [0, 10, 20], every_ms: 10, pens: { a: band([1, null, null]) }, complete_to_ms: 0 },
    () => ({ times: [1, 12, 18], values: [7, 8, null] }), 0, 40);
  expect([shown.times, shown.pens.get("a")!.mean]).toEqual([[0, 10, 20, 40], [1, null, null, null]]);
});
