/** Actions on cases other than an acknowledgement: each row says "asking" until its answer is there. */
import { t } from "../words/words";
import { station } from "../wire/station";
import { caseKey, nodeOf } from "../wire/fold";
import { Refused } from "../wire/link";
import type { ShownCase } from "../wire/words";

export type Action = "shelve" | "shelve_once" | "unshelve" | "reset" | "out_of_service" | "in_service" | "comment";

/** Questions under way at once: a page may have 32. */
const ASKED_MAX = 8;

class Acting {
  private readonly asked = new Set<string>();
  private readonly refused = new Map<string, string>();

  isAsked(key: string): boolean {
    return this.asked.has(key);
  }

  refusal(key: string): string {
    return this.refused.get(key) ?? "";
  }

  async act(cases: ShownCase[], action: Action, comment: string, seconds?: number): Promise<void> {
    const waiting = [...cases];
    for (const key of cases.map(caseKey)) {
      this.asked.add(key);
      this.refused.delete(key);
    }
    station.changed();
    await Promise.all(Array.from({ length: ASKED_MAX }, async () => {
      for (let one = waiting.shift(); one; one = waiting.shift()) await this.ask(one, action, comment, seconds);
    }));
  }

  private async ask(one: ShownCase, action: Action, comment: string, seconds?: number): Promise<void> {
    const key = caseKey(one);
    try {
      await station.ask("act", {
        action, case_id: one.case_id, node: nodeOf(one.item), comment, ...(seconds ? { duration_s: seconds } : {}),
      });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.refused.set(key, error.isUnknown ? t("ack.unknown") : error.message);
    }
    this.asked.delete(key);
    station.changed();
  }
}

export const acting = new Acting();
