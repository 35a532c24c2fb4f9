/** Base of the views: drawn into the document, anew whenever the station tells of something, and each second. */
import { LitElement } from "lit";
import { station } from "../wire/station";
import type { Deed } from "../keys/keys";

export type Act = Extract<Deed, { kind: "act" }>["name"];

export abstract class View extends LitElement {
  /** Least time between two drawings for the sake of what is heard; what a person does is drawn at once. */
  protected paceMs = 100;
  private drawnMono = 0;
  private waits = 0;
  private timer = 0;

  private readonly due = (): void => {
    if (this.waits) return;
    const left = this.paceMs - (performance.now() - this.drawnMono);
    this.waits = window.setTimeout(() => {
      this.waits = 0;
      this.drawnMono = performance.now();
      this.requestUpdate();
    }, Math.max(0, left));
  };

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
    window.clearTimeout(this.waits);
    this.waits = 0;
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
