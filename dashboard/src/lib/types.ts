// What the server sends. Times are milliseconds since 1970.

import type { Json } from "./json";
import type { Key } from "./keys";

export interface Trouble { code: string; message: string }

export interface Failure { code: string; message: string; hint: string; at: number | null; slot: number | null }

export interface SlotFrame {
  slot: number; state: string; host: string; pid: number | null; tasks: number; running: number; restoring: number;
  restored: number; to_restore: number; records_per_second: number; lag: number; restarts: number;
}

export interface AppFrame {
  state: string; since: number | null; epoch: number; generation: number; rate: number | null; lag: number | null;
  lag_seconds: number | null; lag_at_least: boolean; tasks: number; tasks_running: number; tasks_restoring: number;
  restored: number; to_restore: number; restarts: number; failures: number; warnings: number;
  last_failure: Failure | null; dead_letters: { topic: string; records: number; at_least: boolean };
  slots: SlotFrame[];
  upgrade: { generation: number; state: string; questions: number; progress: Json } | null;
  trouble: Trouble | null;
}

export interface TaskFrame {
  component: string; generation: number; subtopology: number; partition: number; slot: number | null; host: string;
  state: string; rate: number | null; lag: number | null; lag_seconds: number | null; lag_at_least: boolean;
}

export interface GateFrame {
  paused: number; waiting_keys: number; held: number; bytes: number; oldest: number | null; gate_wide: boolean;
  rate: number | null; in_rate: number | null; trouble: Trouble | null;
}

export interface TopicFrame { rate: number | null; records: number }

export interface Happening {
  id: string; at: number; app: string; kind: string; slot?: number | null; code?: string; message?: string;
  hint?: string; host?: string; tasks?: string[];
  from?: { slot: number; host: string } | null; to?: { slot: number; host: string } | null;
}

export interface Frame {
  n: number; at: number; server: { streams: number; trouble: string[] };
  apps: Record<string, AppFrame>; topics: Record<string, TopicFrame>;
  tasks: Record<string, Record<string, TaskFrame>>; gates: Record<string, Record<string, GateFrame>>;
  totals: Record<string, number>;
}

export interface TopicRecord {
  topic: string; partition: number; offset: number | bigint; timestamp: number; key: Key; value: Json;
  headers: [string, Json][]; format?: string; cut?: { preview: Json; bytes: number; path: string };
}

export interface Status {
  state: "PAUSED" | "ACTIVE"; epoch: number; at: number; actor: string; reason: string; expires_at: number | null; cause: string;
}

export interface KeyState {
  key: Key; path: string; held: boolean; status: Status | null; waiting: number; bytes: number; oldest: number | null;
}

export interface AuditRecord {
  id?: string; app?: string; gate: string; key?: Key | null; state: "PAUSED" | "ACTIVE"; epoch: number; at: number; cause: string; actor: string; reason: string;
  expires_at: number | null; everyone?: boolean; gate_wide?: boolean; held: number;
}

export interface DeadLetterGroup {
  code: string; place: string; count: number; first: number; last: number; message: string; sources: string[]; offsets: number[];
  sent: SentBack[];
}

/** When a dead letter was sent back last. Without `to_offset` it is not known whether it arrived. */
export interface SentBack {
  offset: number; at: number; by: string; reason: string; topic: string; partition: number; to_offset: number | null; times: number;
}

export interface DeadLetters { app: string; topic: string; records: number; at_least: boolean; groups: DeadLetterGroup[] }

export interface GateSummary extends Omit<GateFrame, "rate" | "in_rate" | "trouble"> {
  app: string; gate: string; partitions: number;
  topics: { status: string; trigger: string; admitted: string; audit: string };
  in_force?: Record<string, Status>; position: string;
}
