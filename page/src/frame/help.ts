/** The list of keys, and the few settings of a browser. */
import { html, type TemplateResult } from "lit";
import { LANGUAGES, language, t, type Key } from "../words/words";
import { station } from "../wire/station";
import { PRIORITIES } from "../alarms/order";
import { change, settings, type Settings } from "./settings";

const KEYS: [string, Key][] = [
  ["/", "key.search"], ["?", "key.help"], ["g o", "page.overview"], ["g p", "page.picture"], ["g a", "page.alarms"], ["g t", "page.trends"],
  ["g i", "page.items"], ["g l", "page.plant"], ["g j", "page.journal"], ["g r", "page.report"], ["g k", "page.people"],
  ["j k", "key.rows"], ["Space", "key.select"], ["a", "key.acknowledge"], ["s", "key.shelve"],
  ["c", "key.comment"], ["r", "key.reset"], ["u", "key.unshelve"], ["h", "key.horn"], ["w", "key.write"], ["+", "key.add"],
  ["Enter", "key.enter"], ["Esc", "key.back"], ["← →", "key.cursor"], ["D", "key.theme"],
];

function set(changed: Partial<Settings>): void {
  change(changed);
  station.dispatchEvent(new Event("changed"));
}

function choice(label: Key, value: string, options: [string, string][], chosen: (value: string) => void): TemplateResult {
  return html`<label>${t(label)} <select @change=${(event: Event) => chosen((event.target as HTMLSelectElement).value)}>
    ${options.map(([one, text]) => html`<option value=${one} ?selected=${one === value}>${text}</option>`)}</select></label>`;
}

export function help(): TemplateResult {
  return html`<dialog id="help" aria-label=${t("help.title")}><h2>${t("help.title")}</h2>
    <dl>${KEYS.map(([key, what]) => html`<dt><kbd>${key}</kbd></dt><dd>${t(what)}</dd>`)}</dl>
    <p class="s m">${t("help.rule")}</p><h2>${t("help.settings")}</h2><div class="row">
    ${choice("help.theme", settings.theme, [["", t("theme.grey")], ["dark", t("theme.dark")]],
      (one) => set({ theme: one as Settings["theme"] }))}
    ${choice("help.size", settings.size, [["", "100 %"], ["115", "115 %"], ["130", "130 %"]],
      (one) => set({ size: one as Settings["size"] }))}
    ${choice("help.language", language(), Object.entries(LANGUAGES), (one) => set({ language: one }))}
    ${choice("help.flashing", settings.isStill ? "still" : "", [["", t("flash.yes")], ["still", t("flash.no")]],
      (one) => set({ isStill: one === "still" }))}
    ${choice("help.horn", settings.horn, [["0", t("horn.off")], ...PRIORITIES.map((one): [string, string] => [String(one),
      t("horn.from", { number: one, word: t(`priority.${one}`) })])], (one) => set({ horn: one as Settings["horn"] }))}</div>
    <form method="dialog"><button>${t("help.close")} <kbd>Esc</kbd></button></form></dialog>`;
}
