import { expect, test } from "vitest";
import { Keys, type Press } from "../src/keys/keys";

const press = (key: string, told: Partial<Press> = {}): Press => ({ key, hasModifier: false, isCtrl: false, isTyping: false, isOnControl: false, ...told });

test("g waits for a letter, and forgets it if another one comes", () => {
  const keys = new Keys();
  expect(keys.pressed(press("g"))).toBeNull();
  expect(keys.pressed(press("a"))).toEqual({ kind: "go", to: "alarms" });
  expect(keys.pressed(press("a"))).toEqual({ kind: "act", name: "acknowledge" });
  keys.pressed(press("g"));
  expect(keys.pressed(press("x"))).toBeNull();
  expect(keys.pressed(press("j"))).toEqual({ kind: "act", name: "next" });
});

test("none acts while somebody types, but for Escape", () => {
  const keys = new Keys();
  expect(["a", "s", "/", "D", "Enter"].map((one) => keys.pressed(press(one, { isTyping: true })))).toEqual([null, null, null, null, null]);
  expect(keys.pressed(press("Escape", { isTyping: true }))).toEqual({ kind: "act", name: "back" });
});

test("a control keeps Enter and Space, and the browser its own keys", () => {
  const keys = new Keys();
  expect([keys.pressed(press("Enter", { isOnControl: true })), keys.pressed(press(" ", { isOnControl: true })), keys.pressed(press("r", { hasModifier: true, isCtrl: true }))])
    .toEqual([null, null, null]);
  expect(keys.pressed(press("a", { hasModifier: true, isCtrl: true }))).toEqual({ kind: "act", name: "all" });
});
