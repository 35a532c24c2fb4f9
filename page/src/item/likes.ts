/** Items that belong to one: of the same thing by the topology, else by name (`fan_3_*` of `fan_3_run`). */
import { station } from "../wire/station";
import { localOf, nodeOf } from "../wire/fold";
import { matchesAny } from "../overview/rows";

const LIKES_MAX = 8;

export function likes(name: string): string[] {
  const node = nodeOf(name);
  const local = localOf(name);
  const own = (station.hello?.objects ?? []).filter((one) => one.node === node && one.name && matchesAny(local, one.items));
  const stem = /^(.*?\d+)_/.exec(local)?.[1] ?? local.split(/[_/]/)[0]!;
  const found: string[] = [];
  for (const one of station.sight.items.values()) {
    if (one.node !== node || one.local === local || one.isRetired) continue;
    const isOne = own.length ? own.some((object) => matchesAny(one.local, object.items)) : one.local.startsWith(`${stem}_`) || one.local.startsWith(`${stem}/`);
    if (isOne) found.push(one.name);
  }
  return found.slice(0, LIKES_MAX);
}
