/** Words of the interface: one text file for each language; what one lacks is said in English. */
import { html, type TemplateResult } from "lit";
import english from "./en.json";

const files = import.meta.glob<Record<string, string>>("./*.json", { eager: true, import: "default" });

export type Key = keyof typeof english;
type Values = Record<string, string | number>;

let chosen = "en";
let words: Record<string, string> = english;

export const LANGUAGES: Record<string, string> = { en: "English", de: "Deutsch" };
export const language = (): string => chosen;

export function speak(tag: string): void {
  const found = files[`./${tag}.json`];
  if (!found) return;
  words = { ...english, ...found };
  chosen = tag;
  document.documentElement.lang = tag;
}

/** A text, with `{name}` filled in. */
export function t(key: Key, values: Values = {}): string {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? `{${name}}`));
}

/** As `t`, with marked up parts. */
export function rich(key: Key, values: Record<string, unknown>): TemplateResult {
  const pieces = (words[key] ?? key).split(/\{(\w+)\}/);
  return html`${pieces.map((piece, index) => (index % 2 ? values[piece] : piece))}`;
}
