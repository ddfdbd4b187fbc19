import { has, isObject, type Json } from "./json.js";
import type { Version } from "./held.js";

/** Keeps one text: state and token together, so that none is ever there without the other. */
export interface Store {
  load(): string | null | undefined | Promise<string | null | undefined>;
  save(text: string): void | Promise<void>;
}

/** What localStorage and sessionStorage have. */
export interface WebStorage {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
}

/** A store in one item of localStorage, or of sessionStorage. */
export function webStore(storage: WebStorage, key: string): Store {
  return {
    load: () => storage.getItem(key),
    save: (text) => storage.setItem(key, text),
  };
}

const FORMAT = 1;

export function kept(model: string, id: string, version: Version): string {
  const { token, state, gone } = version;
  return JSON.stringify({ format: FORMAT, model, id, token, gone, state });
}

/** The version in a stored text; null if it is none of this id. */
export function restored(model: string, id: string, text: string | null | undefined): Version | null {
  if (text === null || text === undefined) return null;
  let found: Json;
  try {
    found = JSON.parse(text) as Json;
  } catch {
    return null;
  }
  if (!isObject(found) || found["format"] !== FORMAT || found["model"] !== model || found["id"] !== id) return null;
  if (typeof found["token"] !== "string" || !has(found, "state")) return null;
  return { token: found["token"], state: found["state"] as Json, gone: found["gone"] === true, kind: null };
}
