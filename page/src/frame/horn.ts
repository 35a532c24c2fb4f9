/** The horn: it sounds while something at or above a priority is not acknowledged that came after it was silenced. */
import { station } from "../wire/station";
import { caseKey } from "../wire/fold";
import { audible, priorityOf } from "../alarms/order";
import type { ShownCase } from "../wire/words";
import { isWall, settings } from "./settings";

const KEPT = "albireo.horn";
const PITCH_HZ = [880, 660, 440];
const LOUDNESS = 0.15;
const BEEP_S = 0.25;

const activation = (one: ShownCase): string => `${caseKey(one)}.${one.activations}`;

let silenced = new Set<string>((sessionStorage.getItem(KEPT) ?? "").split("\n"));
let context: AudioContext | null = null;
/** The gesture that is under way has just allowed the sound. */
let isFresh = false;

function loud(): ShownCase[] {
  return audible(station.sight.cases.values(), Number(settings.horn)).filter((one) => !silenced.has(activation(one)));
}

export const horn = {
  isAsking: (): boolean => loud().length > 0,
  isSilenced: (): boolean => audible(station.sight.cases.values(), Number(settings.horn)).length > 0,
  /** The browser lets nothing sound before somebody has pressed anything in this page. */
  get isBlocked(): boolean {
    return !isWall && context?.state !== "running";
  },
  /** The press itself lets the browser sound; it silences only what sounded. */
  pressed(): void {
    if (!isFresh) this.silence();
    isFresh = false;
  },
  silence(): void {
    silenced = new Set(audible(station.sight.cases.values(), 3).map(activation));
    sessionStorage.setItem(KEPT, [...silenced].join("\n"));
    station.changed();
  },
  begin(): void {
    const allow = (): void => {
      isFresh = this.isBlocked;
      context ??= new AudioContext();
      void context.resume().then(() => station.changed());
    };
    for (const kind of ["pointerdown", "keydown"]) window.addEventListener(kind, allow, { capture: true });
    if (navigator.userActivation?.hasBeenActive) allow();
    setInterval(() => this.sound(), 1_000);
  },
  sound(): void {
    if (context?.state !== "running" || isWall || station.silence.ms) return;
    const worst = Math.min(...loud().map((one) => priorityOf(one.severity)));
    if (!Number.isFinite(worst)) return;
    const [tone, volume] = [context.createOscillator(), context.createGain()];
    tone.frequency.value = PITCH_HZ[worst - 1]!;
    volume.gain.value = LOUDNESS;
    tone.connect(volume).connect(context.destination);
    tone.start();
    tone.stop(context.currentTime + BEEP_S);
  },
};
