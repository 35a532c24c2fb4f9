/** Numbers, ages and times as people read them. */
import { language, t } from "../words/words";
import type { Shown } from "../wire/fold";
import type { DataItem, ItemState } from "../wire/words";

const numbers = new Map<string, Intl.NumberFormat>();

export function numberText(value: number, places: number): string {
  const key = `${language()} ${places}`;
  let format = numbers.get(key);
  if (!format) {
    format = new Intl.NumberFormat(language(), { minimumFractionDigits: places, maximumFractionDigits: places });
    numbers.set(key, format);
  }
  return format.format(value === 0 ? 0 : value);
}

type States = readonly ItemState[] | undefined;

/** The word that an item has for a value; empty: it has none. */
export const wordOf = (states: States, value: Shown): string =>
  (typeof value === "string" || value === null ? undefined : states?.find((one) => one.value === Number(value)))?.word ?? "";

/** True: it is read as a number, on a scale. */
export const isMeasured = (item: DataItem): boolean => item.value_type <= 2 && !item.states?.length;

/** `closed (true)`: the word, and the value that has it. */
export function fullText(value: Shown, places: number, states: States): string {
  const word = wordOf(states, value);
  return word ? `${word} (${valueText(value)})` : valueText(value, places);
}

/** A value without its unit, by its word if it has one; what is not known is a dash, never a number. */
export function valueText(value: Shown, places = 0, states?: States): string {
  if (value === null || value === undefined) return "-";
  const word = wordOf(states, value);
  if (word) return word;
  if (typeof value === "boolean") return value ? "true" : "false";
  return typeof value === "number" ? numberText(value, places) : value;
}

/** `19 s`, `1 min 26 s`, `3 h 10 min`, `5 d 3 h`; tenths below ten seconds if they are asked for. */
export function ageText(ms: number, tenths = false): string {
  const whole = Math.max(0, ms);
  if (tenths && whole < 10_000) return `${numberText(Math.floor(whole / 100) / 10, 1)} s`;
  const s = Math.floor(whole / 1000);
  if (s < 60) return `${s} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return s % 60 ? `${min} min ${s % 60} s` : `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 48) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  return h % 24 ? `${Math.floor(h / 24)} d ${h % 24} h` : `${h / 24} d`;
}

const times = new Map<string, Intl.DateTimeFormat>();

function parts(ms: number, zone: string): Record<string, string> {
  const key = `${language()} ${zone}`;
  let format = times.get(key);
  if (!format) {
    const options: Intl.DateTimeFormatOptions = {
      weekday: "short", year: "numeric", month: "short", day: "numeric",
      hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
    };
    const tag = language() === "en" ? "en-GB" : language();
    try {
      format = new Intl.DateTimeFormat(tag, { ...options, timeZone: zone });
    } catch {
      format = new Intl.DateTimeFormat(tag, { ...options, timeZone: "UTC" });
    }
    times.set(key, format);
  }
  return Object.fromEntries(format.formatToParts(ms).map((one) => [one.type, one.value.replace(/\.$/, "")]));
}

/** `15:31:48`. */
export function clockText(ms: number, zone: string): string {
  const p = parts(ms, zone);
  return `${p.hour}:${p.minute}:${p.second}`;
}

/** `Wed 25 Nov`. */
export function dayText(ms: number, zone: string): string {
  const p = parts(ms, zone);
  return `${p.weekday} ${p.day} ${p.month}`;
}

export const zoneName = (ms: number, zone: string): string => parts(ms, zone).timeZoneName ?? zone;

/** `15:31:48` if it was today, `25 Nov 03:41:55` else; 0 is never. */
export function timeText(ms: number, zone: string, nowMs: number): string {
  if (!ms) return t("time.never");
  const then = parts(ms, zone);
  const now = parts(nowMs, zone);
  const clock = `${then.hour}:${then.minute}:${then.second}`;
  if (then.day === now.day && then.month === now.month && then.year === now.year) return clock;
  return then.year === now.year ? `${then.day} ${then.month} ${clock}` : `${then.day} ${then.month} ${then.year} ${clock}`;
}

/** As `timeText`, with ms. */
export const exactText = (ms: number, zone: string, nowMs: number): string =>
  `${timeText(ms, zone, nowMs)}.${String(Math.floor(ms) % 1000).padStart(3, "0")}`;
