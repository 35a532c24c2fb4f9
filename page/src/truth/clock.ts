/** Time of the node in the browser: its own monotonic clock, set by what the face says. */
const JUMP_MS = 2_000;

export class Clock {
  private offsetMs: number | null = null;

  /** The face said `atMs`, heard at `monoMs`. The least delayed word counts; a clock that jumps is followed. */
  heard(atMs: number, monoMs: number): void {
    const sample = atMs - monoMs;
    if (this.offsetMs === null || Math.abs(sample - this.offsetMs) > JUMP_MS) this.offsetMs = sample;
    else this.offsetMs = Math.max(sample, this.offsetMs - 1);
  }

  nowMs(monoMs: number): number {
    return Math.round(monoMs + (this.offsetMs ?? Date.now() - monoMs));
  }
}
