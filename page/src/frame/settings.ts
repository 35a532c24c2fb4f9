/** What a browser keeps of its user's taste: theme, size of the type, flashing, language. Nothing of the plant. */
import { LANGUAGES, language, speak } from "../words/words";

const KEPT = "albireo.settings";
const query = new URLSearchParams(location.search);

export interface Settings {
  theme: "" | "dark";
  size: "" | "115" | "130";
  isStill: boolean;
  /** The horn sounds from this priority on; 0: never. */
  horn: "0" | "1" | "2" | "3";
  language: string;
}

const preferred = navigator.language.slice(0, 2);

export const settings: Settings = {
  theme: matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "",
  size: "",
  isStill: false,
  horn: "2",
  language: preferred in LANGUAGES ? preferred : "en",
};

export const isWall = query.has("wall");

function show(): void {
  const root = document.documentElement;
  root.dataset.theme = settings.theme;
  root.dataset.size = settings.size;
  root.toggleAttribute("data-still", settings.isStill);
  root.toggleAttribute("data-wall", isWall);
}

export function beginSettings(): void {
  try {
    Object.assign(settings, JSON.parse(localStorage.getItem(KEPT) ?? "{}"));
  } catch {
    localStorage.removeItem(KEPT);
  }
  const theme = query.get("theme");
  if (theme !== null) settings.theme = theme === "dark" ? "dark" : "";
  const tag = query.get("lang");
  if (tag) settings.language = tag;
  show();
  speak(settings.language);
}

export function change(changed: Partial<Settings>): void {
  Object.assign(settings, changed);
  localStorage.setItem(KEPT, JSON.stringify(settings));
  show();
  if (settings.language !== language()) speak(settings.language);
}
