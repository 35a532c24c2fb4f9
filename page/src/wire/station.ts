/** What the page knows, with whom it speaks, and what it asks: one for the page. */
import { Clock } from "../truth/clock";
import { silence, type Silence } from "../truth/silence";
import { emptySight, fold, isNotHeard, type Entry, type Sight } from "./fold";
import { Link, Refused } from "./link";
import { PAST_MS, Pasts } from "./past";
import type { Alive, FaceWord, Hello, PagePerson, Picture, PlantObject } from "./words";

const TOKEN = "albireo.token";
const LOOK_MS = 150;
/** Close codes of the face: the login is over; a foreign origin; too many pages. */
const [OVER, STRANGE, TOO_MANY] = [4001, 4003, 4029];
export const ROLES = ["view", "operate", "engineer", "admin"];
export const PATTERNS_MAX = 200;

export type Band = Record<"min" | "max" | "first" | "last" | "mean" | "quality", (number | null)[]>;

export interface TrendAnswer {
  times_ms: number[];
  every_ms: number;
  pens: Record<string, Band>;
  complete_to_ms: number;
}

export class Station extends EventTarget {
  sight: Sight = emptySight();
  readonly clock = new Clock();
  readonly pasts = new Pasts();
  hello: Hello | null = null;
  alive: Alive | null = null;
  /** The picture that was asked for last. */
  picture: Picture | null = null;
  private drawn = "";
  takeover: { member: string; atMs: number } | null = null;
  /** Why the face ended the login, or does not want this page; empty: it does. */
  endedBecause = "";
  /** The page has to be loaded anew: the face serves another build than at the start. */
  isOutdated = false;
  private build = "";
  private heardMono = performance.now();
  private wanted: string[] = ["*"];
  private told = "";
  private wants = new Map<object, string[]>();
  private lookTimer = 0;
  private link: Link | null = null;
  private isDue = false;

  start(): void {
    this.link = new Link(
      location.origin,
      () => {
        this.told = this.wanted.join("\n");
        return { kind: "begin", token: sessionStorage.getItem(TOKEN) ?? "", patterns: this.wanted };
      },
      (word) => this.heard(word),
      () => this.ticked(),
      (code, reason) => this.closed(code, reason),
    );
  }

  get nowMs(): number {
    return this.clock.nowMs(performance.now());
  }

  get zone(): string {
    return this.hello?.zone ?? "UTC";
  }

  get person(): PagePerson | null {
    return this.hello?.person ?? null;
  }

  /** True: nobody is logged in, and the face tells such a page nothing. */
  get isQuiet(): boolean {
    return this.hello !== null && !this.hello.person && !this.hello.may_look;
  }

  get silence(): Silence {
    if (this.isQuiet && this.link?.isSpeaking) return { ms: 0, isOfCore: false };
    const since = this.alive?.silent_since_ms ?? 0;
    return silence(performance.now() - this.heardMono, since ? this.nowMs - since : 0);
  }

  /** Origin of the member that is spoken with. */
  get url(): string {
    return this.link?.url ?? location.origin;
  }

  /** Where the page asks next while nobody answers. */
  get asking(): string {
    const { url } = this;
    const member = this.hello?.members.find((one) => one.url === url);
    return member?.place ?? url.replace(/^https?:\/\//, "");
  }

  /** True: the person may do at this node what the role allows. */
  may(role: string, node: string): boolean {
    return ROLES.indexOf(this.roleAt(node)) >= ROLES.indexOf(role);
  }

  roleAt(node: string): string {
    const roles = Object.entries(this.person?.roles ?? {})
      .filter(([at]) => !at || at === node || node.startsWith(`${at}/`))
      .map(([, role]) => ROLES.indexOf(role));
    return ROLES[Math.max(0, ...roles)]!;
  }

  labelOf(node: string): string {
    return this.nodeObject(node)?.label || (node.slice(node.lastIndexOf("/") + 1) || node);
  }

  nodeObject(node: string): PlantObject | undefined {
    return this.hello?.objects.find((one) => one.node === node && !one.name);
  }

  /** All nodes that are known, in the order of the topology. */
  get nodes(): string[] {
    const found = new Set<string>();
    if (this.hello) found.add(this.hello.node);
    for (const one of this.hello?.objects ?? []) found.add(one.node);
    for (const one of Object.keys(this.sight.stale)) found.add(one);
    for (const one of this.sight.items.values()) found.add(one.node);
    return [...found].filter((one) => one);
  }

  isNotHeard(node: string): boolean {
    return isNotHeard(this.sight, node);
  }

  /** A view says which items it shows; nothing at all: those of whoever else is there. */
  want(who: object, patterns: string[] | null): void {
    if (patterns) this.wants.set(who, patterns.slice(0, PATTERNS_MAX));
    else this.wants.delete(who);
    window.clearTimeout(this.lookTimer);
    this.lookTimer = window.setTimeout(() => this.look(), LOOK_MS);
  }

  /** Asks for a picture, of each member that is spoken with; empty: none is wanted any more. */
  draw(name: string): void {
    this.drawn = name;
    if (name) this.link?.say({ kind: "draw", name });
  }

  /** Asks the member that is spoken with. */
  ask<Result>(method: string, values: Record<string, unknown> = {}): Promise<Result> {
    return this.link!.ask<Result>(method, values);
  }

  /** `newPassword`: in the place of one that is good for one login. */
  async login(name: string, password: string, newPassword = ""): Promise<void> {
    const answer = await this.post("/login", { name, password, ...(newPassword ? { new_password: newPassword } : {}) });
    const told = (await answer.json()) as { token: string };
    sessionStorage.setItem(TOKEN, told.token);
    this.endedBecause = "";
    this.link!.again();
  }

  async logout(): Promise<void> {
    const token = sessionStorage.getItem(TOKEN);
    sessionStorage.removeItem(TOKEN);
    await this.post("/logout", { token }).catch(() => undefined);
    this.link!.again();
  }

  /** Keeps ten minutes of these items; those that are new are asked for once. */
  async keepPasts(names: string[]): Promise<void> {
    const fresh = this.pasts.keep(names);
    if (!fresh.length) return;
    const end = this.nowMs;
    for (let at = 0; at < fresh.length; at += 20) {
      try {
        const some = fresh.slice(at, at + 20);
        const answer = await this.ask<TrendAnswer>("trend", {
          names: some, start_ms: end - PAST_MS, end_ms: end, points: 120,
        });
        for (const name of some) this.pasts.fill(name, answer.times_ms, answer.pens[name]?.last ?? []);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        return; // The small trends begin with what is heard from now on.
      }
    }
    this.changed();
  }

  /** Tells the views that something changed, once per frame. */
  changed(): void {
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => {
      this.isDue = false;
      this.dispatchEvent(new Event("changed"));
    });
  }

  private async post(path: string, body: unknown): Promise<Response> {
    const { url } = this;
    const answer = await fetch(url + path, {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    });
    if (!answer.ok) {
      const refusal = await answer.json().catch(() => ({ code: "", cause: answer.statusText, remedy: "" }));
      throw new Refused(refusal);
    }
    return answer;
  }

  private closed(code: number, reason: string): void {
    if (code === OVER) sessionStorage.removeItem(TOKEN);
    if (code === OVER || code === STRANGE || code === TOO_MANY) this.endedBecause = reason;
    this.changed();
  }

  private look(): void {
    const all = [...this.wants.values()].flat();
    this.wanted = [...new Set(all)].sort().slice(0, PATTERNS_MAX);
    const said = this.wanted.join("\n");
    if (said === this.told || !this.link?.isSpeaking) return;
    this.told = said;
    this.link.say({ kind: "look", patterns: this.wanted });
  }

  private heard(word: FaceWord): void {
    const mono = performance.now();
    switch (word.kind) {
      case "hello":
        this.greeted(word);
        break;
      case "view":
        this.clock.heard(word.at_ms, mono);
        this.heardMono = mono;
        for (const { entry, value } of fold(this.sight, word)) this.note(entry, value, word.at_ms);
        this.link!.told({ kind: "heard", isCoreSilent: !!this.alive?.silent_since_ms });
        break;
      case "alive":
        this.clock.heard(word.at_ms, mono);
        this.heardMono = mono;
        this.alive = word;
        this.link!.told({ kind: "heard", isCoreSilent: !!word.silent_since_ms });
        break;
      case "picture":
        this.picture = word;
        break;
      case "answered":
        return;
    }
    this.changed();
  }

  private greeted(hello: Hello): void {
    const before = this.hello;
    this.hello = hello;
    this.heardMono = performance.now();
    if (before && before.member !== hello.member) this.takeover = { member: hello.member, atMs: this.nowMs };
    if (this.build && this.build !== hello.build) this.isOutdated = true;
    this.build ||= hello.build;
    this.alive = null;
    this.link!.told({ kind: "hello", urls: hello.members.map((one) => one.url), isQuiet: this.isQuiet });
    this.told = this.told === this.wanted.join("\n") ? this.told : "";
    this.look();
    this.draw(this.drawn);
    this.dispatchEvent(new Event("greeted"));
  }

  private note(entry: Entry, value: unknown, atMs: number): void {
    if (!this.pasts.has(entry.name)) return;
    const isBad = entry.quality >>> 30 >= 2 || value === null;
    const number = typeof value === "boolean" ? Number(value) : typeof value === "number" ? value : null;
    this.pasts.note(entry.name, entry.sourceMs || atMs, isBad ? null : number);
  }

  private wasSilent = false;

  private ticked(): void {
    const isSilent = this.silence.ms > 0;
    if (isSilent || this.wasSilent) this.changed();
    this.wasSilent = isSilent;
  }
}

export const station = new Station();
