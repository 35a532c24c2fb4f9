/** The way to the picture of a node, if there is one. */
import { html, nothing, type TemplateResult } from "lit";
import { t } from "../words/words";
import { station } from "../wire/station";
import { hrefOf } from "../frame/route";

export function pictureOf(node: string): TemplateResult | typeof nothing {
  const found = station.hello?.pictures.find((one) => one.node === node && !one.trouble);
  return found ? html`<a class="s nowall" href=${hrefOf("picture", { name: found.name })}>${t("page.picture")}</a>` : nothing;
}
