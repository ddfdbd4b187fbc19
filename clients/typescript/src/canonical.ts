import { isObject, type Json } from "./json.js";
import { sha256 } from "./sha256.js";

/** The RFC 8785 form of a value: numbers and text as JSON.stringify writes them, keys by their UTF-16 units. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (isObject(value)) {
    const keys = Object.keys(value).sort();
    return `{${keys.map((key) => `${text(key)}:${canonical(value[key] as Json)}`).join(",")}}`;
  }
  if (typeof value === "string") return text(value);
  if (typeof value === "number" && !Number.isFinite(value)) throw new TypeError(`${value} is no JSON number`);
  const encoded: string | undefined = JSON.stringify(value);
  if (encoded === undefined) throw new TypeError(`a ${typeof value} is no JSON value`);
  return encoded;
}

const HALF_A_PAIR = /\p{Surrogate}/u;

function text(value: string): string {
  if (HALF_A_PAIR.test(value)) throw new TypeError("text with half a surrogate pair");
  return JSON.stringify(value);
}

/** `sha256:` and the hash of the canonical form. */
export async function digest(value: Json): Promise<string> {
  const bytes = new TextEncoder().encode(canonical(value));
  // Browsers have WebCrypto on https and on localhost only.
  const subtle = globalThis.crypto?.subtle;
  const hash = subtle === undefined ? sha256(bytes) : new Uint8Array(await subtle.digest("SHA-256", bytes));
  return `sha256:${Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
