import { expect, test } from "vitest";
import { placed, rowsOf } from "../src/overview/rows";
import type { Entry } from "../src/wire/fold";

const entry = (local: string): Entry => ({
  name: `root/s:${local}`, node: "root/s", local, item: { name: local, value_type: 1 }, value: 1, quality: 0, sourceMs: 1, isLive: true,
  isRetired: false, places: 0,
});

test("a card keeps a place for each row in alarm, and the order of the rows", () => {
  const rows = rowsOf("root/s", ["a", "b", "c", "d", "e"].map((one) => entry(one)), []);
  const isWrong = (row: { label: string }): boolean => "de".includes(row.label);
  expect([2, 3, 5].map((most) => placed(rows, isWrong, most).map((row) => row.label).join(""))).toEqual(["de", "ade", "abcde"]);
});
