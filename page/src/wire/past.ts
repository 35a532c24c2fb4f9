/** Ten minutes of some items, for small trends: what was heard since the page is there, and one question for before. */
export const PAST_MS = 600_000;
const STEP_MS = 2_000;

export interface Past {
  times: number[];
  values: (number | null)[];
}

export class Pasts {
  private readonly byName = new Map<string, Past>();

  of(name: string): Past | undefined {
    return this.byName.get(name);
  }

  has(name: string): boolean {
    return this.byName.has(name);
  }

  /** Notes a value if the item is one of those that are kept; a point each two seconds suffices. */
  note(name: string, atMs: number, value: number | null): void {
    const past = this.byName.get(name);
    if (!past) return;
    const last = past.times.length - 1;
    if (last >= 0 && past.values[last] === value) return;
    if (last >= 1 && atMs - past.times[last - 1]! < STEP_MS) {
      past.times[last] = Math.max(atMs, past.times[last]!);
      past.values[last] = value;
    } else {
      // The value before held until now: a step, not a slope over the time in which nothing changed.
      if (last >= 0 && atMs - past.times[last]! > 2 * STEP_MS) {
        past.times.push(atMs - 1);
        past.values.push(past.values[last]!);
      }
      past.times.push(atMs);
      past.values.push(value);
    }
    const from = past.times.findIndex((one) => one >= atMs - PAST_MS - 60_000);
    if (from > 50) {
      past.times.splice(0, from);
      past.values.splice(0, from);
    }
  }

  /** Begins to keep items; gives those that were not kept. */
  keep(names: Iterable<string>): string[] {
    const fresh = [...names].filter((one) => !this.byName.has(one));
    for (const one of fresh) this.byName.set(one, { times: [], values: [] });
    return fresh;
  }

  /** Puts what the history tells before what was heard. */
  fill(name: string, times: number[], values: (number | null)[]): void {
    const past = this.byName.get(name);
    if (!past) return;
    const first = past.times[0] ?? Infinity;
    let count = times.length;
    while (count > 0 && times[count - 1]! >= first) count -= 1;
    past.times.unshift(...times.slice(0, count));
    past.values.unshift(...values.slice(0, count));
  }
}
