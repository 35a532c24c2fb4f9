import { expect, test } from "vitest";
import { caseValue, sentence } from "../src/alarms/sentence";
import { options, valueOf } from "../src/item/choice";
import { fullText, isMeasured, valueText, wordOf } from "../src/truth/format";
import type { DataItem, ItemState } from "../src/wire/words";
import { aCase } from "./parts";

const DOOR: ItemState[] = [{ value: 0, word: "open" }, { value: 1, word: "closed" }];
const STAGE: DataItem = { name: "stage", value_type: 2, maximum: 2, states: [{ value: 0, word: "off" }, { value: 2, word: "full" }, { value: 3, word: "service" }] };
const textOf = (one: ReturnType<typeof options>[number]): unknown[] => one.values;

test("a value is said by its word, and as it is where it has none", () => {
  expect([false, true, 1, 2, null, "1"].map((one) => wordOf(DOOR, one))).toEqual(["open", "closed", "closed", "", "", ""]);
  expect([true, 2, null].map((one) => valueText(one, 0, DOOR))).toEqual(["closed", "2", "-"]);
  expect([fullText(true, 1, DOOR), fullText(1, 1, DOOR), fullText(2, 0, DOOR), fullText(1.5, 1, undefined), fullText(null, 0, DOOR)])
    .toEqual(["closed (true)", "closed (1)", "2", "1.5", "-"]);
});

test("what has words has no scale", () => {
  expect([STAGE, { ...STAGE, states: [] }, { ...STAGE, value_type: 3 as const }].map(isMeasured)).toEqual([false, true, false]);
});

test("words within the range are chosen from, with the present value if that has none", () => {
  expect(options(STAGE, 2).map(textOf)).toEqual([["0", false, "off (0)"], ["2", true, "full (2)"]]);
  expect(options(STAGE, 1).map(textOf)[0]).toEqual(["1", true, "1"]);
  expect(options({ name: "door", value_type: 3, states: DOOR.slice(1) }, null).map(textOf)).toEqual([["false", false, "false"], ["true", false, "closed (true)"]]);
  expect([valueOf(STAGE, "2"), valueOf({ name: "a", value_type: 3 }, "true"), valueOf({ name: "a", value_type: 4 }, "2")]).toEqual([2, true, "2"]);
});

test("an alarm of an off-normal value says its word, unless the description does", () => {
  const one = aCase({ condition: "off_normal", value: true, description: "barrier", states: DOOR });
  expect([sentence(one), sentence({ ...one, description: "the entrance is closed" }), sentence({ ...one, states: [] })])
    .toEqual(["Barrier: closed", "The entrance is closed", "Barrier"]);
  expect([caseValue(one, undefined).value, caseValue({ ...one, value: 1 }, undefined).value]).toEqual(["closed", "closed"]);
});
