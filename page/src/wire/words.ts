// Made by page/schema.py from albireo.face.web.words: change them there.
export interface AlarmSettings {
  hi_hi?: number | null;
  hi?: number | null;
  lo?: number | null;
  lo_lo?: number | null;
  hysteresis?: number;
  on_delay_ms?: number;
  off_delay_ms?: number;
  rate_per_s?: number | null;
  stale_s?: number | null;
  frozen_s?: number | null;
  off_normal?: boolean | null;
  is_device_state?: boolean;
  severity?: number;
  is_latched?: boolean;
  suppressed_by?: string;
}
export interface Alive {
  kind: "alive";
  at_ms: number;
  newest_ms: number;
  silent_since_ms: number;
  leads: string;
  leads_since_ms: number;
  items: number;
  closed_ms: number;
  returned_ms: number;
  rate_hz: number;
}
export type Condition = "device_lost" | "frozen" | "hi" | "hi_hi" | "lo" | "lo_lo" | "off_normal" | "rate" | "stale";
export type Control = "direct" | "select";
export interface DataItem {
  name: string;
  value_type: ValueType;
  adapter?: string;
  unit?: string;
  description?: string;
  is_writable?: boolean;
  minimum?: number | null;
  maximum?: number | null;
  control?: Control;
  states?: ItemState[];
  counter_range?: number | null;
  alarm?: AlarmSettings | null;
  was?: string;
}
export interface Hello {
  kind: "hello";
  node: string;
  member: string;
  members: PageMember[];
  build: string;
  person: PagePerson | null;
  may_look: boolean;
  zone: string;
  objects: PlantObject[];
  groups: PlantGroup[];
  pictures: PictureTitle[];
  qualities: Record<string, string>;
}
export interface ItemState { value: number; word: string; }
export type LifecycleStatus = "closed" | "new" | "updated";
export interface PageAnswered {
  kind: "answered";
  id: number;
  result: unknown;
  refusal: Refusal | null;
  is_unknown: boolean;
}
export interface PageAsked { kind: "asked"; id: number; method: string; arguments?: Record<string, unknown>; }
export interface PageBegin { kind: "begin"; token?: string; patterns?: string[]; }
export interface PageDraw { kind: "draw"; name: string; }
export interface PageLook { kind: "look"; patterns: string[]; }
export interface PageMember { place: string; url: string; }
export interface PagePerson { name: string; roles: Record<string, string>; session_id: number; }
export interface Picture { kind: "picture"; name: string; svg: string; elements: PictureElement[]; }
export interface PictureElement {
  id: string;
  how: "level" | "profile" | "running" | "value";
  items: string[];
  label: string;
  section: string;
  words: string[];
}
export interface PictureTitle { name: string; title: string; node: string; trouble: string; }
export interface PlantGroup { label: string; description: string; members: string[]; }
export interface PlantObject { node: string; name: string; label: string; description: string; items: string[]; }
export interface Refusal { code: string; cause: string; remedy: string; }
export type Shelving = "one_shot" | "timed" | "unshelved";
export interface ShownCase {
  case_id: number;
  item_id: number;
  condition: Condition;
  severity: number;
  lifecycle_status: LifecycleStatus;
  is_active: boolean;
  is_acked: boolean;
  is_latched: boolean;
  shelving: Shelving;
  unshelve_at: number | null;
  is_suppressed: boolean;
  is_out_of_service: boolean;
  is_chattering: boolean;
  activations: number;
  raised_ns: number;
  changed_ns: number;
  value: number | boolean | string | null;
  actor: string;
  comment: string;
  is_unasked: boolean;
  message: string;
  is_forced: boolean;
  item: string;
  raised_ms: number;
  changed_ms: number;
  unshelve_ms: number | null;
  description: string;
  unit: string;
  states: ItemState[];
  limit: number | null;
}
export interface ShownItem { key: number; node: string; item: DataItem; is_retired?: boolean; }
export type ValueType = 1 | 2 | 3 | 4;
export interface View {
  kind: "view";
  number: number;
  at_ms: number;
  is_whole?: boolean;
  items?: ShownItem[];
  values?: ([number, boolean | number | string | null, number, number])[];
  cases?: ShownCase[];
  stale?: Record<string, number> | null;
  forced?: string[] | null;
}
export type PageWord = PageBegin | PageLook | PageDraw | PageAsked;
export type FaceWord = Hello | View | Alive | Picture | PageAnswered;
