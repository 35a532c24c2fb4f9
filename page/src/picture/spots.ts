/** Spots of a drawing: where its elements are, and what is told of the items that they show. */
import { t } from "../words/words";
import type { Entry, Sight } from "../wire/fold";
import type { PictureElement, ShownCase } from "../wire/words";
import { asks, priorityOf, shelfOf } from "../alarms/order";
import { sentence, stateText } from "../alarms/sentence";
import { troubleOf, type Trouble } from "../marks/marks";
import { valueText, wordOf } from "../truth/format";

/** A place of the drawing, in its units. */
export interface Box { x: number; y: number; width: number; height: number }

/** An element of the drawing, or one of the likes of a profile. */
export interface Spot {
  element: PictureElement;
  /** Full names; of equipment whether it runs, then whether it is tripped. */
  items: string[];
  box: Box;
  /** What is changed in the drawing: a text, or the body of equipment. */
  target: SVGElement | null;
}

export interface Told {
  entry: Entry | undefined;
  active: ShownCase | undefined;
  trouble: Trouble;
  /** How equipment stands: the design's four states. */
  state: "on" | "off" | "trip" | "out";
  name: string;
  value: string;
  unit: string;
}

const TARGETS = { value: "tspan, text", running: "rect, circle, ellipse, path, polygon" };

export function boxOf(element: Element, root: SVGSVGElement): Box {
  const { a, e, f } = root.getScreenCTM()!;
  const { left, top, width, height } = element.getBoundingClientRect();
  return { x: (left - e) / a, y: (top - f) / a, width: width / a, height: height / a };
}

/** The spots of a drawing that is seen. */
export function spotsOf(root: SVGSVGElement, elements: readonly PictureElement[]): Spot[] {
  return elements.flatMap((element): Spot[] => {
    const found = root.querySelector<SVGElement>(`#${CSS.escape(element.id)}`);
    if (!found) return [];
    const box = boxOf(found, root);
    const { how, items } = element;
    const width = box.width / items.length;
    if (how === "profile") {
      return items.map((item, at) => ({ element, items: [item], target: null, box: { ...box, x: box.x + at * width, width } }));
    }
    // Of a text in lines the first one has the value, and the others what the drawing program left there.
    const lines = how === "value" ? [...found.querySelectorAll("tspan")] : [];
    for (const one of lines.slice(1)) one.remove();
    const selector = how === "level" ? "rect" : TARGETS[how];
    return [{ element, items, box, target: lines[0] ?? (found.matches(selector) ? found : found.querySelector(selector)) }];
  });
}

/** What is told of a spot. */
export function toldOf({ element, items }: Spot, sight: Sight, actives: Map<string, ShownCase>): Told {
  const [entry, second] = items.map((name) => sight.items.get(name));
  const active = items.map((name) => actives.get(name)).find((one) => one);
  const trouble = entry ? troubleOf(sight, entry, active?.condition === "frozen") : "empty";
  const isKnown = entry !== undefined && trouble !== "bad" && trouble !== "empty";
  const isOut = [...sight.cases.values()].some((one) => items.includes(one.item) && shelfOf(one) === "out");
  const state = !isKnown || isOut ? "out" : second?.value === true ? "trip" : entry.value === true ? "on" : "off";
  const own = element.how === "running" ? [t("picture.stands"), t("picture.runs")] : [];
  const known = wordOf(entry?.item.states, entry?.value ?? null);
  const word = element.words[Number(entry?.value)] || known || own[Number(entry?.value)];
  const value = !isKnown ? "-" : element.how === "running" && state === "trip" ? t("picture.tripped")
    : word || valueText(entry.value, entry.places);
  const which = element.how === "profile" ? ` ${element.items.indexOf(items[0]!) + 1}` : "";
  const name = `${element.label || entry?.item.description || items[0]!}${which}`;
  return { entry, active, trouble, state, name, value, unit: entry?.item.unit ?? "" };
}

/** `CO in section 8: 46.8 ppm, forced, ... is high, active, not acknowledged`, for a screen reader. */
export function sentenceOf({ active, trouble, name, value, unit }: Told): string {
  const state = trouble === "none" ? "" : t(trouble === "empty" ? "quality.waiting" : `quality.${trouble}`);
  return [`${name}: ${value} ${unit}`.trim(), state, active ? `${sentence(active)}, ${stateText(active)}` : ""].filter((one) => one).join(", ");
}

/** Id of the mark of a case. */
export const markOf = (one: ShownCase): string =>
  `${asks(one) ? "m" : one.is_active || !one.is_acked ? "a" : "n"}${priorityOf(one.severity)}`;
