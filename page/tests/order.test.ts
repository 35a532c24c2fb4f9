import { expect, test } from "vitest";
import { asks, audible, count, foremost, matches, newOnes, priorityOf, shelfOf, worseFirst } from "../src/alarms/order";
import { loadOf } from "../src/alarms/reckon";
import { aCase } from "./parts";

test("severity gives the priority: 800 and 600 are the bounds", () => {
  expect([1000, 800, 799, 600, 599, 1].map(priorityOf)).toEqual([1, 1, 2, 2, 3, 3]);
});

test("what nobody acknowledged comes first, then priority, then the newest", () => {
  const acked = aCase({ case_id: 1, severity: 900, is_acked: true, raised_ms: 9 });
  const low = aCase({ case_id: 2, severity: 300, raised_ms: 8 });
  const old = aCase({ case_id: 3, severity: 700, raised_ms: 1 });
  const fresh = aCase({ case_id: 4, severity: 700, raised_ms: 2 });
  const suppressed = aCase({ case_id: 5, severity: 1000, is_suppressed: true });
  expect([acked, suppressed, low, old, fresh].sort(worseFirst).map((one) => one.case_id)).toEqual([4, 3, 2, 1, 5]);
});

test("the banner has the newest of the worst that asks; if none does, the newest that is active", () => {
  const acked = aCase({ case_id: 1, severity: 900, is_acked: true, raised_ms: 1 });
  const newer = aCase({ case_id: 2, severity: 300, is_acked: true, raised_ms: 5 });
  const open = aCase({ case_id: 3, severity: 300, raised_ms: 2 });
  const shelved = aCase({ case_id: 4, severity: 1000, shelving: "timed" });
  expect(foremost([acked, newer, open, shelved])?.case_id).toBe(3);
  expect(foremost([acked, newer, shelved])?.case_id).toBe(2);
  expect(foremost([shelved])).toBeNull();
});

test("nobody is asked about what is shelved, suppressed, out of service or was never asked", () => {
  expect([{}, { shelving: "one_shot" }, { is_suppressed: true }, { is_out_of_service: true }, { is_unasked: true }, { is_acked: true }]
    .map((told) => asks(aCase(told as never)))).toEqual([true, false, false, false, false, false]);
  expect(shelfOf(aCase({ shelving: "timed", is_out_of_service: true }))).toBe("out");
});

test("the horn hears what is not acknowledged at or above its priority", () => {
  const cases = [aCase({ severity: 900 }), aCase({ severity: 700 }), aCase({ severity: 300 }), aCase({ severity: 900, is_acked: true })];
  expect([0, 1, 2, 3].map((one) => audible(cases, one).length)).toEqual([0, 1, 2, 3]);
});

test("the counts hide nothing: each case is in one of them", () => {
  const found = count([aCase({ severity: 900 }), aCase({ severity: 900, is_acked: true }), aCase({ severity: 650 }), aCase({ shelving: "timed" }),
    aCase({ is_out_of_service: true }), aCase({ is_suppressed: true })]);
  expect(found).toEqual({ unacked: { 1: 1, 2: 1, 3: 0 }, active: { 1: 2, 2: 1, 3: 0 }, shelved: 1, out: 1, suppressed: 1 });
});

test("a filter looks at item, description, site and comment", () => {
  const one = aCase({ item: "root/s:co_8", description: "Carbon monoxide", comment: "police" });
  const filter = { text: "", node: "", isUnackedOnly: false };
  expect(["CO_8", "monox", "tunnel", "police", "water"].map((text) => matches(one, { ...filter, text }, "South tunnel"))).toEqual([true, true, true, true, false]);
  expect(["root", "root/s", "root/x", "root/"].map((node) => matches(one, { ...filter, node }, ""))).toEqual([true, true, false, false]);
  expect(matches(aCase({ is_acked: true }), { ...filter, isUnackedOnly: true }, "")).toBe(false);
});

test("new ones of ten minutes make a flood, silenced ones do not count", () => {
  const now = 1_000_000;
  expect(newOnes([aCase({ raised_ms: now - 1 }), aCase({ raised_ms: now - 600_001 }), aCase({ raised_ms: now, shelving: "timed" })], now)).toHaveLength(1);
});

test("the load is of the journal's counts: by ten minutes, by day and by priority; what stands is of now", () => {
  const now = Date.UTC(2026, 10, 25, 12);
  const per = Array.from({ length: 288 }, () => 0);
  [per[3], per[200], per[287]] = [12, 4, 1];
  const told = { from_ms: now - 2 * 86_400_000, per_10min: per, by_severity: { 900: 1, 700: 12, 650: 1, 300: 3 }, often: [], is_cut: false, lacks: [] };
  const cases = [aCase({ raised_ms: now - 1 }), aCase({ raised_ms: now - 90_000_000 }), aCase({ is_active: false }), aCase({ shelving: "timed" })];
  const load = loadOf(told, 2, (ms) => new Date(ms).toISOString().slice(0, 10), cases, now);
  expect([load.all, load.perDay, load.most, load.standing, load.old]).toEqual([17, 8.5, { fromMs: told.from_ms + 1_800_000, count: 12 }, 2, 1]);
  expect(load.byPriority).toEqual({ 1: 1, 2: 13, 3: 3 });
  expect(load.perDays.map((one) => one.count)).toEqual([12, 4, 1]);
  expect(load.floodPercent).toBeCloseTo(100 / 288);
});
