import { expect, test } from "vitest";
import { begin, step, type Do, type Mover } from "../src/wire/mover";

const OWN = "https://a:1";
const OTHER = "https://b:1";
const tick = { kind: "tick" } as const;

/** Tick by tick, as a page that lives; returns the first that is to be done. */
function ticks(state: Mover, fromMs: number, toMs: number): [number, Do] {
  for (let now = fromMs; now <= toMs; now += 100) {
    const todo = step(state, tick, now);
    if (todo.close || todo.open) return [now, todo];
  }
  return [toMs, {}];
}

function speaking(): Mover {
  const state = begin(OWN);
  expect(step(state, tick, 0)).toEqual({ open: OWN });
  step(state, { kind: "hello", urls: [OWN, OTHER], isQuiet: false }, 10);
  return state;
}

test("a line that closes is followed by one to the other member at once", () => {
  const state = speaking();
  step(state, { kind: "closed" }, 100);
  expect(step(state, tick, 100)).toEqual({ open: OTHER });
});

test("two seconds of silence, of the face or of its node, close the line", () => {
  const state = speaking();
  step(state, { kind: "heard", isCoreSilent: false }, 1_000);
  expect(ticks(state, 1_000, 9_000)).toEqual([3_000, { close: true }]);
  expect(step(state, tick, 3_000)).toEqual({ open: OTHER });
  step(state, { kind: "hello", urls: [OWN, OTHER], isQuiet: false }, 3_100);
  step(state, { kind: "heard", isCoreSilent: true }, 5_000);
  expect(ticks(state, 3_200, 9_000)).toEqual([5_100, { close: true }]);
});

test("while the page stood still its member was not silent", () => {
  const state = speaking();
  ticks(state, 100, 1_000);
  step(state, { kind: "heard", isCoreSilent: false }, 1_000);
  expect(ticks(state, 61_000, 62_900)).toEqual([62_900, {}]);
  step(state, { kind: "heard", isCoreSilent: false }, 62_900);
  expect(ticks(state, 63_000, 69_000)).toEqual([64_900, { close: true }]);
});

test("a page that only ticks once a minute finds a silent member at the second tick", () => {
  const state = speaking();
  step(state, { kind: "heard", isCoreSilent: false }, 100);
  expect(step(state, tick, 60_000)).toEqual({});
  expect(step(state, tick, 120_000)).toEqual({ close: true });
});

test("while the page stood still the line could not open", () => {
  const state = begin(OWN);
  step(state, tick, 0);
  expect(step(state, tick, 5_000)).toEqual({});
  expect(ticks(state, 5_100, 19_000)).toEqual([9_500, { close: true }]);
});

test("a member without another one has longer", () => {
  const state = begin(OWN);
  step(state, tick, 0);
  step(state, { kind: "hello", urls: [OWN], isQuiet: false }, 0);
  expect(ticks(state, 100, 19_000)).toEqual([6_000, { close: true }]);
});

test("if nobody answers the pauses grow to two seconds, and both are asked in turn", () => {
  const state = speaking();
  step(state, { kind: "closed" }, 0);
  const opened: [string, number][] = [];
  for (let now = 0; now < 20_000; now += 100) {
    const { open } = step(state, tick, now);
    if (!open) continue;
    opened.push([open, now]);
    step(state, { kind: "closed" }, now);
  }
  expect(opened.slice(0, 3).map(([url]) => url)).toEqual([OTHER, OWN, OTHER]);
  const pauses = opened.slice(1).map(([, now], at) => now - opened[at]![1]);
  expect(Math.max(...pauses)).toBe(2_000);
  expect(pauses.at(-1)).toBe(2_000);
});

test("a member that does not answer the line is left after a while", () => {
  const state = begin(OWN);
  step(state, tick, 0);
  expect(ticks(state, 100, 9_000)).toEqual([4_500, { close: true }]);
  const other = speaking();
  step(other, { kind: "closed" }, 100);
  expect(ticks(other, 100, 9_000)).toEqual([100, { open: OTHER }]);
  expect(ticks(other, 200, 9_000)).toEqual([1_600, { close: true }]);
});

test("a page that is told nothing because nobody is logged in waits", () => {
  const state = begin(OWN);
  step(state, tick, 0);
  step(state, { kind: "hello", urls: [OWN, OTHER], isQuiet: true }, 10);
  expect(step(state, tick, 60_000)).toEqual({});
});

test("the page keeps the address that it was loaded from if the face does not know its own", () => {
  const state = begin(OWN);
  step(state, tick, 0);
  step(state, { kind: "hello", urls: ["", OTHER], isQuiet: false }, 10);
  expect([state.urls, state.at]).toEqual([[OWN, OTHER], 0]);
});
