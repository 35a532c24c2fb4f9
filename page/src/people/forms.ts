/** Forms of the people: their fields, and what is asked when they are sent. */
import { html, type TemplateResult } from "lit";
import { t } from "../words/words";
import { ROLES, station } from "../wire/station";

export type Values = Record<"name" | "password" | "role" | "node" | "why", string>;

export interface Form {
  title: string;
  what?: string;
  fields?: TemplateResult;
  /** Words of the button. */
  go: string;
  send: (values: Values) => Promise<unknown>;
}

export const nameField = (): TemplateResult => html`<div><label for="form-name">${t("login.name")}</label>
  <input id="form-name" name="name" required maxlength="48" pattern="[A-Za-z0-9][A-Za-z0-9_.@\\-]*" title=${t("people.name_rule")}
    autocomplete="off" autocapitalize="none" spellcheck="false"></div>`;

export const passwordField = (): TemplateResult => html`<div><label for="form-password">${t("people.one_time")}
  <span class="m plain">${t("people.one_time_what")}</span></label>
  <input id="form-password" name="password" type="password" required minlength="8" autocomplete="new-password"></div>`;

export const reasonField = (): TemplateResult => html`<div><label for="form-why">${t("pop.why")}
  <span class="m plain">${t("pop.on_record")}</span></label><input id="form-why" name="why" maxlength="1000" autocomplete="off"></div>`;

export const roleFields = (): TemplateResult => html`<div><label for="form-role">${t("people.has")}</label>
  <select id="form-role" name="role">${ROLES.map((one) => html`<option>${one}</option>`)}</select></div>
  <div><label for="form-node">${t("people.at")}</label><select id="form-node" name="node">
  <option value="">${t("people.everywhere")}</option>
  ${station.nodes.map((one) => html`<option value=${one}>${one}</option>`)}</select></div>`;

/** A key as people compare it: all of its digits, by four. */
export const groups = (key: string): string => key.replace(/(.{4})(?=.)/g, "$1 ");
