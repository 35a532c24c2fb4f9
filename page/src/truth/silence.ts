/** Silence: how long nothing was heard, and whether the page has to say so. Pure. */
/** A tick and a frame less than 2.1 s. */
export const SILENCE_MS = 1_950;

export interface Silence {
  /** Length of the silence; 0: the page is live. */
  ms: number;
  /** True: the face speaks, its node does not. */
  isOfCore: boolean;
}

/** The lines of the page: `unheardMs` since the face said anything, `coreMs` since the face heard its node. */
export function silence(unheardMs: number, coreMs: number): Silence {
  const isOfCore = coreMs > unheardMs;
  const ms = Math.max(unheardMs, coreMs);
  return { ms: ms >= SILENCE_MS ? ms : 0, isOfCore };
}
