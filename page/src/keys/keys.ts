/** What a key means. Pure: the page tells what is pressed and whether somebody types. */
export type Place =
  "overview" | "alarms" | "items" | "trends" | "plant" | "picture" | "journal" | "report" | "people";

export type Deed =
  | { kind: "go"; to: Place }
  | { kind: "act"; name: "search" | "help" | "next" | "previous" | "select" | "all" | "acknowledge" | "shelve"
      | "comment" | "reset" | "unshelve" | "horn" | "write" | "enter" | "back" | "theme" | "add" };

export const GO: Record<string, Place> = {
  o: "overview", p: "picture", a: "alarms", t: "trends", i: "items", l: "plant", j: "journal", r: "report", k: "people",
};

const ACTS: Record<string, Extract<Deed, { kind: "act" }>["name"]> = {
  "/": "search", "?": "help", j: "next", k: "previous", " ": "select", a: "acknowledge", s: "shelve", c: "comment",
  r: "reset", u: "unshelve", h: "horn", w: "write", Enter: "enter", Escape: "back", D: "theme", "+": "add",
};

export interface Press {
  key: string;
  hasModifier: boolean;
  isCtrl: boolean;
  /** Somebody types: a field for text has the focus. */
  isTyping: boolean;
  /** The focus is on a control that Enter and Space press by themselves. */
  isOnControl: boolean;
}

/** Keys pressed one after the other; `g` waits for the next one. */
export class Keys {
  private isWaiting = false;

  pressed(press: Press): Deed | null {
    const waited = this.isWaiting;
    this.isWaiting = false;
    if (press.key === "Escape") return { kind: "act", name: "back" };
    if (press.isTyping) return null;
    if (press.isCtrl && press.key === "a") return { kind: "act", name: "all" };
    if (press.hasModifier) return null;
    if (waited) {
      const to = GO[press.key];
      return to ? { kind: "go", to } : null;
    }
    if (press.key === "g") {
      this.isWaiting = true;
      return null;
    }
    if (press.isOnControl && (press.key === "Enter" || press.key === " ")) return null;
    const name = ACTS[press.key];
    return name ? { kind: "act", name } : null;
  }
}
