// Keys are bytes. The server shows text as text and other bytes as {"base64": …}.

import { type Json, showJson, visible } from "./json";

export type Key = Json;

export function isBytes(key: Json | undefined): key is { base64: string } {
  return typeof key === "object" && key !== null && !Array.isArray(key) && typeof key["base64"] === "string";
}

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
}

/** A key for people. */
export function showKey(key: Key | undefined): string {
  if (key === null || key === undefined) return "(no key)";
  if (typeof key === "string") return key === "" ? "(empty key)" : visible(key);
  return isBytes(key) ? hexOf(bytesOf(key.base64)) : showJson(key);
}

export function hexOf(bytes: Uint8Array): string {
  return `0x${Array.from(bytes, (one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** A key in a path of the API: dots are escaped too, since browsers resolve two of them. */
export function keyInPath(key: Key): string {
  if (isBytes(key)) {
    return Array.from(bytesOf(key.base64), (one) => `%${one.toString(16).padStart(2, "0").toUpperCase()}`).join("");
  }
  return encodeURIComponent(keyText(key)).replace(/\./g, "%2E");
}

/** A key as one text that `keyFrom` reads back, for addresses of pages and for comparing. */
export function keyText(key: Key): string {
  return typeof key === "string" ? key : showJson(key);
}

/** The part of a page's address that names a key: ?key=text, or ?key64=bytes. */
export function keyQuery(key: Key): string {
  if (isBytes(key)) return `key64=${encodeURIComponent(key.base64)}`;
  return `key=${encodeURIComponent(keyText(key))}`;
}

export function keyFrom(query: URLSearchParams): Key | undefined {
  const bytes = query.get("key64");
  return bytes === null ? (query.get("key") ?? undefined) : { base64: bytes };
}

export function sameKey(one: Key | undefined, other: Key | undefined): boolean {
  if (typeof one === "string" || typeof other === "string") return one === other;
  return one !== undefined && other !== undefined && showJson(one) === showJson(other);
}
