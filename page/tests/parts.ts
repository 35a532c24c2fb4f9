/** Words as tests need them. */
import type { ShownCase, View } from "../src/wire/words";

export const aView = (told: Partial<View>): View => ({ kind: "view", number: 1, at_ms: 1, ...told });

export const aCase = (told: Partial<ShownCase>): ShownCase => ({
  case_id: 1, item_id: 1, condition: "hi", severity: 500, lifecycle_status: "new", is_active: true, is_acked: false, is_latched: false,
  shelving: "unshelved", unshelve_at: null, is_suppressed: false, is_out_of_service: false, is_chattering: false, activations: 1,
  raised_ns: 0, changed_ns: 0, value: 1, actor: "", comment: "", is_unasked: false, message: "", is_forced: false,
  item: "root/s:co_1", raised_ms: 0, changed_ms: 0, unshelve_ms: null, description: "", unit: "", states: [], limit: null, ...told,
});
