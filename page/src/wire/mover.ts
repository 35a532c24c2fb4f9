/**
 * With which member of the pair the page speaks. Pure: events in, what to do out.
 *
 *   waiting --time--> connecting --Hello--> speaking --closed, or silent--> waiting, for the next member
 *
 * Own, other, own ...: the pause grows from 0.3 s to 2 s with each round in which nobody answers.
 */
const SILENT_MS = 2_000;
const CONNECT_MS = 1_500;
/** A member without another one has so many times as long: an order that is under way on a closed line ends as unknown. */
const LONE = 3;
/** A tick that comes so much after the one before: the page itself stood still. */
const STOOD_MS = 1_500;
const PAUSE_MIN_MS = 300;
const PAUSE_MAX_MS = 2_000;

export type Mover = {
  /** Where members are, as `https://host:port`. */
  urls: string[];
  at: number;
  phase: "waiting" | "connecting" | "speaking";
  /** Monotonic ms at which the phase ends, or something was heard last. */
  whenMs: number;
  failures: number;
  /** Nothing is told to whoever is not logged in: that is no silence. */
  isQuiet: boolean;
  /** Monotonic ms of the tick before. */
  tickMs: number;
  /** It stood still, and nothing has been heard since. */
  hasStood: boolean;
};

export type Told =
  | { kind: "tick" }
  | { kind: "hello"; urls: string[]; isQuiet: boolean }
  | { kind: "heard"; isCoreSilent: boolean }
  | { kind: "closed" };

export type Do = { open?: string; close?: true };

export const begin = (url: string): Mover => ({
  urls: [url], at: 0, phase: "waiting", whenMs: 0, failures: 0, isQuiet: false, tickMs: 0, hasStood: false,
});

const pause = (failures: number): number => Math.min(PAUSE_MAX_MS, PAUSE_MIN_MS * 2 ** Math.max(0, failures - 1));

const patient = (state: Mover, ms: number): number => (state.urls.length === 1 ? LONE * ms : ms);

function next(state: Mover, nowMs: number): void {
  state.phase = "waiting";
  state.at = (state.at + 1) % state.urls.length;
  // The other member is asked at once; a pause is due only when the round is over.
  const isRoundOver = state.urls.length === 1 || state.failures >= state.urls.length;
  state.whenMs = nowMs + (isRoundOver ? pause(state.failures) : 0);
}

/** While the page stood still, what was said waited to be read: that time is no silence, until something is heard. */
function ticked(state: Mover, nowMs: number): void {
  const stoodMs = nowMs - state.tickMs;
  state.tickMs = nowMs;
  if (stoodMs < STOOD_MS || state.hasStood || state.phase === "waiting") return;
  state.hasStood = true;
  state.whenMs += stoodMs;
}

/** Changes `state` and says what to do with the socket. */
export function step(state: Mover, told: Told, nowMs: number): Do {
  switch (told.kind) {
    case "hello": {
      const here = state.urls[state.at] ?? "";
      const urls = told.urls.filter((one) => one);
      if (urls.includes(here)) state.urls = urls;
      else if (urls.length) state.urls = [here, ...urls.filter((one) => one !== here)].slice(0, 3);
      state.at = Math.max(0, state.urls.indexOf(here));
      state.phase = "speaking";
      state.isQuiet = told.isQuiet;
      state.hasStood = false;
      state.whenMs = nowMs;
      return {};
    }
    case "heard":
      state.hasStood = false;
      // A member whose CORE is silent says nothing that is worth hearing, if there is another one.
      if (!told.isCoreSilent) {
        state.whenMs = nowMs;
        state.failures = 0;
      }
      return {};
    case "closed":
      if (state.phase === "waiting") return {};
      state.failures += 1;
      next(state, nowMs);
      return {};
    case "tick":
      ticked(state, nowMs);
      if (state.phase === "waiting" && nowMs >= state.whenMs) {
        state.phase = "connecting";
        state.whenMs = nowMs + patient(state, CONNECT_MS);
        return { open: state.urls[state.at]! };
      }
      if (state.phase === "connecting" && nowMs >= state.whenMs) {
        state.failures += 1;
        next(state, nowMs);
        return { close: true };
      }
      if (state.phase === "speaking" && !state.isQuiet && nowMs - state.whenMs >= patient(state, SILENT_MS)) {
        state.failures += 1;
        next(state, nowMs);
        return { close: true };
      }
      return {};
  }
}
