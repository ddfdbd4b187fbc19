// Pausing and resuming.

import { post, query } from "./api";
import { type Key, keyInPath } from "./keys";

export interface Answer { epoch?: number; epochs: Record<string, number>; applied: boolean; state: string }

export interface Command { reason: string; expires_in?: number }

/** Writes a requested status: for one key, or gate-wide if it is null. A repetition of the call counts once. */
export function command(
  what: "pause" | "resume", gate: string, app: string, key: Key | null, keyType: string | null, body: Command,
): Promise<Answer> {
  const target = key === null ? "" : `/keys/${keyInPath(key)}`;
  const path = `/gates/${encodeURIComponent(gate)}${target}/${what}${query({ app, key_type: keyType })}`;
  return post<Answer>(path, body, { "Idempotency-Key": identity() });
}

export function identity(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (one) => one.toString(16).padStart(2, "0")).join("");
}

/** The type in a call for a key that is not text. */
export function typeOf(key: Key): string | null {
  if (typeof key === "bigint") return "int";
  return typeof key === "number" && Number.isInteger(key) ? "int" : null;
}
