/** Values of an item as a person chooses or types them. */
import { html, type TemplateResult } from "lit";
import type { Shown } from "../wire/fold";
import type { DataItem } from "../wire/words";
import { fullText } from "../truth/format";

/** The value that a text of a form, or of an order's course, means. */
export const valueOf = (item: DataItem, text: string): Shown =>
  item.value_type === 3 ? text === "true" : item.value_type === 4 ? text : Number(text);

/** Values that have words and may be written; both of a bool. The chosen one is among them, if it has none too. */
export function options(item: DataItem, chosen: Shown): TemplateResult[] {
  const within = (one: number): boolean => one >= (item.minimum ?? -Infinity) && one <= (item.maximum ?? Infinity);
  const known: Shown[] = item.value_type === 3 ? [false, true] : (item.states ?? []).map((one) => one.value).filter(within);
  const all = chosen === null || known.includes(chosen) ? known : [chosen, ...known];
  return all.map((one) => html`<option value=${String(one)} .selected=${one === chosen}>${fullText(one, 0, item.states)}</option>`);
}
