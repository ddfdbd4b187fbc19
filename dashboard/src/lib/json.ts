// JSON with exact integers: what a double cannot hold becomes a BigInt.

export type Json = null | boolean | number | bigint | string | Json[] | { [name: string]: Json };

const MANY_DIGITS = /\d{16}/;
const INTEGER = /^-?\d+$/;

export function parseJson<T = Json>(text: string): T {
  return (MANY_DIGITS.test(text) ? JSON.parse(text, exact as never) : JSON.parse(text)) as T;
}

function exact(_name: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || Number.isSafeInteger(value) || source === undefined) return value;
  return INTEGER.test(source) ? BigInt(source) : value;
}

// What a reader would not see, or would see in another place than it is: control characters, joiners, marks of
// direction, private characters, halves of pairs.
const UNSEEN = /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\uffff]/g;
const PAIR = /[\ud800-\udbff][\udc00-\udfff]/g;

/** Text in which every character is visible: a NUL is shown as \u0000. */
export function visible(text: string): string {
  let shown = "";
  let from = 0;
  for (const pair of text.matchAll(PAIR)) {
    shown += escaped(text.slice(from, pair.index)) + pair[0];
    from = pair.index + pair[0].length;
  }
  return shown + escaped(text.slice(from));
}

function escaped(text: string): string {
  return text.replace(UNSEEN, (one) => {
    if (one === "\n") return "\\n";
    if (one === "\t") return "\\t";
    if (one === "\r") return "\\r";
    return `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

function quoted(text: string): string {
  return `"${visible(text.replace(/[\\"]/g, "\\$&"))}"`;
}

/** A value as JSON text; with `indent` on several lines. */
export function showJson(value: Json | undefined, indent = "", at = ""): string {
  if (value === undefined) return "";
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (typeof value === "string") return quoted(value);
  const [open, close, parts] = Array.isArray(value)
    ? ["[", "]", value.map((one) => showJson(one, indent, at + indent))]
    : ["{", "}", Object.entries(value).map(([name, one]) => `${quoted(name)}: ${showJson(one, indent, at + indent)}`)];
  if (parts.length === 0) return open + close;
  if (indent === "") return open + parts.join(", ") + close;
  return `${open}\n${at + indent}${parts.join(`,\n${at + indent}`)}\n${at}${close}`;
}

/** One line of at most `most` characters. */
export function preview(value: Json | undefined, most = 200): string {
  if (typeof value === "string" && value.length > most) return `${quoted(value.slice(0, most)).slice(0, -1)}…`;
  const text = showJson(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
