/** Base of the views: drawn into the document, anew whenever the station tells of something, and each second. */
import { LitElement } from "lit";
import { station } from "../wire/station";
import type { Deed } from "../keys/keys";

export type Act = Extract<Deed, { kind: "act" }>["name"];

export abstract class View extends LitElement {
  private readonly due = (): void => this.requestUpdate();
  private timer = 0;

  protected override createRenderRoot(): this {
    return this;
  }

  override connectedCallback(): void {
    super.connectedCallback();
    station.addEventListener("changed", this.due);
    this.timer = window.setInterval(this.due, 1_000);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    station.removeEventListener("changed", this.due);
    window.clearInterval(this.timer);
    station.want(this, null);
  }

  /** The person pressed a key that means this; true: the view did it. */
  acted(_act: Act): boolean {
    return false;
  }

  protected find<Kind extends HTMLElement>(selector: string): Kind | null {
    return this.querySelector<Kind>(selector);
  }
}
