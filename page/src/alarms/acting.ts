/** Actions on cases other than an acknowledgement: each row says "asking" until its answer is there. */
import { t } from "../words/words";
import { station } from "../wire/station";
import { caseKey, nodeOf } from "../wire/fold";
import { Refused } from "../wire/link";
import type { ShownCase } from "../wire/words";

export type Action = "shelve" | "shelve_once" | "unshelve" | "reset" | "out_of_service" | "in_service" | "comment";

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
    await Promise.all(cases.map(async (one) => {
      const key = caseKey(one);
      this.asked.add(key);
      this.refused.delete(key);
      station.changed();
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
    }));
  }
}

export const acting = new Acting();
