import { expect, test } from "vitest";
import { Clock } from "../src/truth/clock";
import { ageText, clockText, dayText, exactText, numberText, timeText, valueText } from "../src/truth/format";
import { silence } from "../src/truth/silence";
import { speak, t } from "../src/words/words";

const AT = Date.UTC(2026, 10, 25, 14, 31, 48, 206);

test("a value has the places that it is given, thousands by comma, and a dash if it is not known", () => {
  expect([valueText(46.8, 1), valueText(12345, 0), valueText(-0, 1), valueText(null), valueText(true), valueText("QUEUE"), numberText(1.5, 2)])
    .toEqual(["46.8", "12,345", "0.0", "-", "true", "QUEUE", "1.50"]);
});

test("an age is said in two units at most", () => {
  expect([0, 999, 19_000, 86_000, 60_000, 11_400_000, 7_200_000, 200_000_000].map((one) => ageText(one)))
    .toEqual(["0 s", "0 s", "19 s", "1 min 26 s", "1 min", "3 h 10 min", "2 h", "2 d 7 h"]);
  expect([ageText(2_449, true), ageText(12_300, true), ageText(-5, true)]).toEqual(["2.4 s", "12 s", "0.0 s"]);
});

test("a time is of the plant's zone, with its day if that is not today", () => {
  expect([clockText(AT, "Europe/Vienna"), dayText(AT, "UTC"), exactText(AT, "UTC", AT)]).toEqual(["15:31:48", "Wed 25 Nov", "14:31:48.206"]);
  expect(timeText(AT, "Europe/Vienna", AT + 60_000)).toBe("15:31:48");
  expect(timeText(AT, "UTC", AT + 86_400_000)).toBe("25 Nov 14:31:48");
  expect(timeText(AT, "UTC", Date.UTC(2027, 1, 1))).toBe("25 Nov 2026 14:31:48");
  expect(timeText(0, "UTC", AT)).toBe("never");
  expect(clockText(AT, "No/Where")).toBe("14:31:48");
});

test("the page is silent before 2 s are over, of whichever is longer: its own line, or the face's", () => {
  expect([silence(1_949, 0).ms, silence(2_000, 0), silence(100, 5_000)]).toEqual([0, { ms: 2_000, isOfCore: false }, { ms: 5_000, isOfCore: true }]);
});

test("the clock follows the least delayed word, and one that jumps", () => {
  const clock = new Clock();
  clock.heard(1_000, 0);
  clock.heard(1_900, 1_000);
  expect(clock.nowMs(1_000)).toBe(1_999);
  clock.heard(900_000, 1_100);
  expect(clock.nowMs(1_100)).toBe(900_000);
});

test("a text fills in its values, and a language that is not there changes nothing", () => {
  expect(t("alarms.selected", { count: 3 })).toBe("3 selected");
  speak("xx");
  expect(t("page.alarms")).toBe("Alarms");
});

test("each German text has a key and the values of the English one", async () => {
  const { default: english } = await import("../src/words/en.json");
  const { default: german } = await import("../src/words/de.json");
  const values = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map((one) => one[1]!).sort();
  expect(Object.keys(german).sort()).toEqual(Object.keys(english).sort());
  for (const [key, text] of Object.entries<string>(german)) expect([key, values(text)]).toEqual([key, values((english as Record<string, string>)[key]!)]);
});
