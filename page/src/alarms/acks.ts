/** Acknowledgements under way: what was asked stays "asking" until it is on record or refused; nothing says so before. */
import { t } from "../words/words";
import { station } from "../wire/station";
import { caseKey, nodeOf } from "../wire/fold";
import { Refused } from "../wire/link";
import type { ShownCase } from "../wire/words";
import { offFor } from "../truth/off";
import { asks } from "./order";

/** Most cases of one question. */
const ASKED_MAX = 500;

class Acks {
  private readonly asked = new Map<string, number>();
  /** Why one was refused, by case. */
  readonly refused = new Map<string, string>();

  isAsked(one: ShownCase): boolean {
    return this.asked.get(caseKey(one)) === one.activations && asks(one);
  }

  refusal(one: ShownCase): string {
    return this.refused.get(caseKey(one)) ?? "";
  }

  /** Why none of these may be acted on by whoever is here; empty: they may. */
  reasonAgainst(cases: ShownCase[], role = "operate"): string {
    return cases.map((one) => offFor(role, nodeOf(one.item))).find((one) => one) ?? "";
  }

  async ack(cases: ShownCase[], comment = ""): Promise<void> {
    const open = cases.filter((one) => asks(one) && !this.isAsked(one) && !this.reasonAgainst([one]));
    if (!open.length) return;
    for (const one of open) {
      this.asked.set(caseKey(one), one.activations);
      this.refused.delete(caseKey(one));
    }
    station.changed();
    for (let at = 0; at < open.length; at += ASKED_MAX) await this.ask(open.slice(at, at + ASKED_MAX), comment);
  }

  private async ask(open: ShownCase[], comment: string): Promise<void> {
    try {
      const told = await station.ask<{ why: string; is_unknown: boolean }[]>("ack", {
        cases: open.map((one) => ({ case_id: one.case_id, node: nodeOf(one.item), activation: one.activations })),
        comment,
      });
      for (const [index, { why, is_unknown }] of told.entries()) if (why) this.ended(open[index]!, is_unknown ? t("ack.unknown") : why);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      for (const one of open) this.ended(one, error.isUnknown ? t("ack.unknown") : error.message);
    }
    station.changed();
  }

  private ended(one: ShownCase, why: string): void {
    this.asked.delete(caseKey(one));
    this.refused.set(caseKey(one), why);
  }
}

export const acks = new Acks();
