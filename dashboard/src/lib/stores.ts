// Stores: what an app declared, and their rows.

import { count } from "./format";
import { type Json, preview, showJson } from "./json";
import { type Key, bytesOf, hexOf, isBytes } from "./keys";

export interface StoreEntry {
  app: string; store: string; model: boolean; kind: string; key: { format?: string }; value: { format?: string };
  changelog: string | null; role: string; component: string;
}

export interface StoreRow {
  partition: number; key: Key; key_path?: string; value: Json; timestamp?: number; start?: number; end?: number;
}

export interface Page { app: string; store: string; rows: StoreRow[]; next: string | null; position: string }

const TYPED_KEYS = ["int", "float", "bool", "java-long", "java-int"];

/** The type of keys in calls; null for text. */
export function keyTypeOf(entry: StoreEntry | undefined): string | null {
  const format = entry?.key.format ?? "";
  return TYPED_KEYS.includes(format) ? format : null;
}

/** The topic with the versions of a model, which has a store of its name. */
export function eventsOf(entry: StoreEntry): string {
  return `${entry.app}-${entry.store}-events`;
}

/** Whether a record of the changelog has the row's key as it is, without the times of a window. */
export function hasPlainKeys(entry: StoreEntry): boolean {
  return entry.kind !== "window" && entry.kind !== "session";
}

/** A value in one line. */
export function showValue(value: Json, most = 200): string {
  if (!isBytes(value)) return preview(value, most);
  const bytes = bytesOf(value.base64);
  return bytes.length <= 16 ? hexOf(bytes) : `${hexOf(bytes.subarray(0, 16))}… (${count(bytes.length)} bytes)`;
}

/** The offsets in a position, by partition. A store has one topic. */
export function offsetsOf(position: string): [string, string][] {
  const offsets = position.slice(position.lastIndexOf(":") + 1);
  return offsets === "" ? [] : offsets.split(",").map((one) => one.split("=") as [string, string]);
}

export type Identified = StoreRow & { id: string };

/** Rows with ids: a window store may have several rows of one key and start. */
export function identified(rows: StoreRow[]): Identified[] {
  const seen = new Map<string, number>();
  return rows.map((row) => {
    const name = [row.partition, row.start, row.end, showJson(row.key)].filter((one) => one !== undefined).join("/");
    const times = seen.get(name) ?? 0;
    seen.set(name, times + 1);
    return { ...row, id: times === 0 ? name : `${name}#${times}` };
  });
}
