/** The WebSocket: opens it where the mover says, hands words on, and matches answers with what was asked. */
import { begin, step, type Mover, type Told } from "./mover";
import type { PageAnswered, FaceWord, PageWord, Refusal } from "./words";

const ANSWER_MS = 20_000;
const TICK_MS = 100;

/** A "no", or the news that nobody knows. */
export class Refused extends Error {
  constructor(readonly refusal: Refusal, readonly isUnknown = false) {
    super(refusal.remedy ? `${refusal.cause}: ${refusal.remedy}` : refusal.cause);
  }
}

interface Question {
  method: string;
  values: Record<string, unknown>;
  /** May be put again to the other member. */
  isReading: boolean;
  resolve: (result: unknown) => void;
  reject: (error: Refused) => void;
  untilMs: number;
}

/** Methods that only read: after a move they are put again; others end as unknown. */
const READING = new Set([
  "status", "tree", "forces", "command", "commands", "trend", "events", "cases", "load", "sessions", "people", "access", "knocks", "reports",
]);

export class Link {
  readonly mover: Mover;
  private socket: WebSocket | null = null;
  private questions = new Map<number, Question>();
  private lastId = 0;

  constructor(
    url: string,
    private readonly opened: () => PageWord,
    private readonly heard: (word: FaceWord) => void,
    private readonly ticked: () => void,
    private readonly closed: (code: number, reason: string) => void,
  ) {
    this.mover = begin(url);
    setInterval(() => {
      this.told({ kind: "tick" });
      this.endLate();
      this.ticked();
    }, TICK_MS);
  }

  get isSpeaking(): boolean {
    return this.mover.phase === "speaking";
  }

  /** Origin of the member that is spoken with. */
  get url(): string {
    return this.mover.urls[this.mover.at] ?? location.origin;
  }

  say(word: PageWord): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(word));
  }

  ask<Result>(method: string, values: Record<string, unknown> = {}): Promise<Result> {
    return new Promise<Result>((resolve, reject) => {
      const id = (this.lastId = (this.lastId + 1) % 2 ** 31);
      this.questions.set(id, {
        method, values, isReading: READING.has(method), resolve: resolve as (result: unknown) => void, reject,
        untilMs: performance.now() + ANSWER_MS,
      });
      if (this.isSpeaking) this.say({ kind: "asked", id, method, arguments: values });
      else if (!READING.has(method)) this.end(id, "no_answer", "nobody is spoken with now; nothing was sent", false);
    });
  }

  /** Ends what is spoken now and begins with a new `Begin`, as after a login. */
  again(): void {
    this.drop();
    this.mover.phase = "waiting";
    this.mover.whenMs = 0;
  }

  told(told: Told): void {
    const todo = step(this.mover, told, performance.now());
    if (todo.close) this.drop();
    if (todo.open) this.open(todo.open);
  }

  private open(url: string): void {
    this.drop();
    const socket = new WebSocket(`${url.replace(/^http/, "ws")}/ws`);
    this.socket = socket;
    let isGreeted = false;
    socket.onopen = () => socket.send(JSON.stringify(this.opened()));
    socket.onmessage = (event) => {
      const word = JSON.parse(event.data as string) as FaceWord;
      if (word.kind === "answered") this.answered(word);
      else this.heard(word);
      // Another greeting on the same line tells of other roles, and nothing that was asked is lost.
      if (word.kind === "hello" && !isGreeted) this.putAgain();
      isGreeted ||= word.kind === "hello";
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      this.drop();
      this.closed(event.code, event.reason);
      this.told({ kind: "closed" });
    };
  }

  private drop(): void {
    const socket = this.socket;
    this.socket = null;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
    for (const [id, one] of this.questions) {
      if (!one.isReading) this.end(id, "no_answer", "the link was lost before the answer came", true);
    }
  }

  private putAgain(): void {
    for (const [id, one] of this.questions) {
      this.say({ kind: "asked", id, method: one.method, arguments: one.values });
    }
  }

  private answered(word: PageAnswered): void {
    const one = this.questions.get(word.id);
    this.questions.delete(word.id);
    if (!one) return;
    if (word.refusal) one.reject(new Refused(word.refusal, word.is_unknown));
    else if (word.is_unknown) one.reject(new Refused({ code: "outcome_unknown", cause: "", remedy: "" }, true));
    else one.resolve(word.result);
  }

  private end(id: number, code: string, cause: string, isUnknown: boolean): void {
    const one = this.questions.get(id);
    this.questions.delete(id);
    one?.reject(new Refused({ code, cause, remedy: "" }, isUnknown));
  }

  private endLate(): void {
    const now = performance.now();
    for (const [id, one] of this.questions) {
      if (one.untilMs < now) this.end(id, "no_answer", "no answer came in 20 s", !one.isReading);
    }
  }
}
