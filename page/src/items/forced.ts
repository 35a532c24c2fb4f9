/** A forced item, as the node tells it. */
import { station } from "../wire/station";
import { t } from "../words/words";
import { ageText, timeText } from "../truth/format";
import type { Shown } from "../wire/fold";
import type { ItemState } from "../wire/words";

export const refreshMs = 5_000;

export interface ForcedRow {
  item: string;
  value: Shown;
  measured: { value: Shown; quality: number };
  user: string;
  principal: string;
  reason: string;
  since_ms: number;
  left_ms: number;
  unit: string;
  states: ItemState[];
}

/** Since when it is forced and until when, as it was told at `toldMs`. */
export function endText(one: ForcedRow, toldMs: number): string {
  const { nowMs, zone } = station;
  const endMs = toldMs + one.left_ms;
  return t("force.ends", { time: timeText(one.since_ms, zone, nowMs), until: timeText(endMs, zone, nowMs), age: ageText(endMs - nowMs) });
}
