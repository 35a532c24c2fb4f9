/**
 * Orders of this page, by item: select, reason, confirm, course. An order under way outlives the view and a takeover:
 * what became of it is asked for by its name.
 */
import { station } from "../wire/station";
import { Refused } from "../wire/link";
import type { Shown } from "../wire/fold";
import type { Refusal } from "../wire/words";

export interface Step {
  stage: string;
  at_ms: number;
  node: string;
}

/** Life of a command, as the node tells it (`CommandCourse`). */
export interface Course {
  command_id: string;
  subject: string;
  way: string[];
  state: string;
  user: string;
  principal: string;
  reason: string;
  steps: Step[];
  cause: string;
  detail: string;
  read_back: Shown;
  guid: string;
  is_settled: boolean;
  left_ms: number | null;
}

interface Receipt {
  outcome: string;
  detail: string;
  read_back: Shown;
  finished_ms: number;
  ack_guid: string;
  cause: string;
}

interface Selection {
  selection_id: string;
  for_ms: number;
  left_ms: number;
}

export type Phase = "idle" | "selecting" | "reason" | "confirm" | "course";

export interface Order {
  item: string;
  phase: Phase;
  value: Shown;
  reason: string;
  selection: Selection | null;
  /** Time at which the selection was given, on the clock of the node. */
  selectedMs: number;
  commandId: string;
  orderedMs: number;
  before: Shown;
  course: Course | null;
  receipt: Receipt | null;
  refusal: Refusal | null;
  /** The page itself does not know what became of it. */
  isUnknown: boolean;
  /** Its outcome was unknown once; a later one says so. */
  wasUnknown: boolean;
}

export const SELECT_S = 30;
const EXPIRES_S = 10;
const POLL_MS = 500;
export const PROMISES = new Set(["rejected", "expired", "cancelled"]);
export const OUTCOMES = new Set(["verified", "executed", "mismatched", "unknown", ...PROMISES]);

/** The outcome; empty: it is under way. */
export function outcomeOf(order: Order): string {
  if (order.course && OUTCOMES.has(order.course.state)) return order.course.state;
  if (order.receipt && OUTCOMES.has(order.receipt.outcome)) return order.receipt.outcome;
  if (order.phase !== "course") return "";
  return order.isUnknown ? "unknown" : order.refusal ? "rejected" : "";
}

class Orders {
  private readonly byItem = new Map<string, Order>();

  of(item: string): Order {
    let order = this.byItem.get(item);
    if (!order) this.byItem.set(item, (order = this.fresh(item)));
    return order;
  }

  anew(item: string): Order {
    const order = this.fresh(item);
    this.byItem.set(item, order);
    station.changed();
    return order;
  }

  async select(order: Order): Promise<void> {
    order.phase = "selecting";
    order.refusal = null;
    station.changed();
    try {
      order.selection = await station.ask<Selection>("select", { item: order.item, for_s: SELECT_S });
      order.selectedMs = station.nowMs;
      order.phase = "reason";
    } catch (error) {
      order.refusal = refusalOf(error);
      order.phase = "idle";
    }
    station.changed();
  }

  /** Gives the selection back; nothing was written. */
  giveBack(order: Order): void {
    if (order.selection) void station.ask("deselect", { item: order.item }).catch(() => undefined);
    this.anew(order.item);
  }

  leftMs(order: Order): number {
    return order.selection ? order.selection.for_ms - (station.nowMs - order.selectedMs) : 0;
  }

  async write(order: Order): Promise<void> {
    order.phase = "course";
    order.commandId = crypto.randomUUID();
    order.orderedMs = station.nowMs;
    order.before = station.sight.items.get(order.item)?.value ?? null;
    station.changed();
    void this.follow(order);
    try {
      order.receipt = await station.ask<Receipt>("write", {
        item: order.item, value: order.value, reason: order.reason, expires_s: EXPIRES_S,
        command_id: order.commandId, selection: order.selection?.selection_id ?? "",
      });
    } catch (error) {
      const isUnknown = error instanceof Refused && error.isUnknown;
      order.isUnknown = isUnknown;
      if (!isUnknown) order.refusal = refusalOf(error);
    }
    order.selection = null;
    station.changed();
  }

  async cancel(order: Order): Promise<void> {
    try {
      await station.ask("cancel", { command_id: order.commandId, reason: order.reason });
    } catch (error) {
      order.refusal = OUTCOMES.has(order.course?.state ?? "") ? null : refusalOf(error);
    }
    station.changed();
  }

  /** Asks for the course until there is an outcome, and goes on for a while if that is `unknown`: it may be corrected. */
  private async follow(order: Order): Promise<void> {
    for (let round = 0; round < 240; round += 1) {
      await new Promise((done) => setTimeout(done, round < 20 ? POLL_MS : 5 * POLL_MS));
      if (order.refusal && !order.receipt && !order.course) return;
      order.wasUnknown ||= outcomeOf(order) === "unknown";
      try {
        order.course = await station.ask<Course>("command", { command_id: order.commandId });
        order.isUnknown = false;
      } catch {
        // Not on record yet, or nobody answers: asked again.
      }
      station.changed();
      const state = order.course?.state ?? "";
      if (OUTCOMES.has(state) && (state !== "unknown" || order.course!.is_settled)) return;
    }
  }

  private fresh(item: string): Order {
    return {
      item, phase: "idle", value: null, reason: "", selection: null, selectedMs: 0, commandId: "", orderedMs: 0,
      before: null, course: null, receipt: null, refusal: null, isUnknown: false, wasUnknown: false,
    };
  }
}

export const refusalOf = (error: unknown): Refusal =>
  error instanceof Refused ? error.refusal : { code: "", cause: String(error), remedy: "" };

export const orders = new Orders();
