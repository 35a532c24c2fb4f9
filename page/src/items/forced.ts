/** A forced item, as the node tells it. */
import type { Shown } from "../wire/fold";

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
}
