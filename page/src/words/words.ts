/** Words of the interface: one text file for each language; what one lacks is said in English. */
import { html, type TemplateResult } from "lit";
import english from "./en.json";

export type Key = keyof typeof english;
type Values = Record<string, string | number>;

let chosen = "en";
let words: Record<string, string> = english;

export const LANGUAGES: Record<string, string> = { en: "English", de: "Deutsch" };
export const language = (): string => chosen;

/** Takes up a language; its file is fetched from the face. */
export async function speak(tag: string): Promise<void> {
  if (!(tag in LANGUAGES) || tag === chosen) return;
  if (tag === "en") words = english;
  else {
    const answer = await fetch(`/static/${tag}.json`);
    if (!answer.ok) return;
    words = { ...english, ...((await answer.json()) as Record<string, string>) };
  }
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
