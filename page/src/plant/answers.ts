/** What the page reads of the answers to `status` and `tree`; the whole is in the Python definitions (NodeStatus). */
export interface VoterSeen {
  answered_ms: number | null;
  promised: number | null;
  record: { epoch: number; version: number; holder: number; members: number[]; is_forced: boolean } | null;
  is_lease_running: boolean;
  lease_left_ms: number | null;
  reason: string;
}

export interface PairStatus {
  member: number;
  place: string;
  state: string;
  cause: string;
  since_ms: number;
  epoch: number;
  set: string[];
  end: number;
  committed: number;
  apart: string;
  lag: number | null;
  catching_up: { behind: number; late_ms: number; whole_in_s: number | null } | null;
  other: { place: string; heard_ms: number | null; is_present: boolean; answers_ms: number | null; state: string };
  voters: string[];
  voters_seen: Record<string, VoterSeen>;
  plc_voters: Record<string, { connected: boolean; phase: string; trouble: string }>;
  maintenance_since_ms: number;
  at_risk_since_ms: number;
}

export interface NodeStatus {
  node: string;
  role: string;
  pair: PairStatus | null;
  items: number;
  bad_items: number;
  log: { epoch: number; sequence: number; admission: string };
  adapters: { name: string; connected: boolean; heard: boolean; device: boolean | null; silent_ms: number; trouble: string }[];
  faces: { name: string; trouble: string }[];
  commands_open: number;
}

export interface NodeRow {
  node: string;
  by: string;
  stale_since_ms?: number | null;
  stale_since_ns?: number | null;
  items: number;
  complete_to_ms: number;
  behind: number;
  missing: number;
  set_back_ms: number;
  trouble: string;
  leads: string;
  pair: Record<string, number | null>;
}

export const staleSince = (one: NodeRow): number | null => one.stale_since_ms ?? one.stale_since_ns ?? null;
