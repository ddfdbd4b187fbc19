// Models: frames, patches for people, and states line by line. Models refuse integers that a double cannot hold.

import { type Json, preview, showJson, visible } from "./json";

export type Patch = { [operation: string]: Json };

export interface Frame {
  id: string; event: "state" | "patch" | "gone"; from?: string; token: string; digest?: string; patch?: Patch; state?: Json;
}

export interface IdEntry { id: string; token: string; sequence: number }

export interface Version {
  life: number; sequence: number; kind: "created" | "changed" | "gone"; patch: Patch; at: number; origin: string; hash: string;
}

/** One thing that a patch does: `steps.pack = 3`. */
export interface Operation { path: string; what: "set" | "deleted" | "cut" | "appended"; value: Json | undefined }

export function operations(patch: Patch | undefined, path = ""): Operation[] {
  if (patch === undefined) return [];
  if ("=" in patch) return [{ path, what: "set", value: patch["="] }];
  if ("-" in patch) return [{ path, what: "deleted", value: undefined }];
  const found: Operation[] = [];
  for (const [key, one] of Object.entries((patch["*"] ?? {}) as Record<string, Patch>)) found.push(...operations(one, within(path, key)));
  for (const [index, one] of (patch["#"] ?? []) as [number, Patch][]) found.push(...operations(one, `${path}[${index}]`));
  if ("n" in patch) found.push({ path, what: "cut", value: patch["n"] });
  if ("+" in patch) found.push({ path, what: "appended", value: patch["+"] });
  return found;
}

const SIMPLE = /^[\p{L}_][\p{L}\p{N}_-]*$/u;

function within(path: string, key: string): string {
  if (!SIMPLE.test(key)) return `${path}[${showJson(key)}]`;
  return path === "" ? key : `${path}.${key}`;
}

export function showOperation({ path, what, value }: Operation, most = 160): string {
  const name = path === "" ? "the state" : path;
  if (what === "deleted") return `${name} is deleted`;
  if (what === "cut") return `${name} is cut to ${String(value)} items`;
  return what === "set" ? `${name} = ${preview(value, most)}` : `${name} + ${preview(value, most)}`;
}

/** One line of a state: `text` at a depth, and the path that it shows. */
export interface Line { path: string; depth: number; text: string }

/** The lines of a state, at most so many; null if there are more. */
export function linesOf(state: Json, most: number): Line[] | null {
  const found: Line[] = [];
  const add = (path: string, depth: number, name: string, value: Json, comma: string): boolean => {
    if (found.length >= most) return false;
    const list = Array.isArray(value);
    const parts: [string, string, Json][] = list
      ? value.map((one, index) => [`${path}[${index}]`, "", one])
      : typeof value === "object" && value !== null
        ? Object.entries(value).map(([key, one]) => [within(path, key), `"${visible(key)}": `, one])
        : [];
    if (parts.length === 0) {
      found.push({ path, depth, text: `${name}${showJson(value)}${comma}` });
      return true;
    }
    found.push({ path, depth, text: `${name}${list ? "[" : "{"}` });
    const all = parts.every(([at, label, one], index) => add(at, depth + 1, label, one, index < parts.length - 1 ? "," : ""));
    found.push({ path, depth, text: `${list ? "]" : "}"}${comma}` });
    return all;
  };
  return add("", 0, "", state, "") ? found : null;
}

/** Whether a line shows something that one of these paths changed: the path itself, or what is in it. */
export function isTouched(path: string, touched: string[]): boolean {
  return touched.some((one) => one === path || (path.startsWith(one) && (one === "" || ".[".includes(path[one.length] ?? " "))));
}

/** The version that a token names. To clients it is opaque; the dashboard comes with the server that made it. */
export function versionOf(token: string | undefined): { life: number; sequence: number } | null {
  const found = /^(\d+)-(\d+)-/.exec(token ?? "");
  return found === null ? null : { life: Number(found[1]), sequence: Number(found[2]) };
}

/** The versions that a patch combines, as far as they are known. */
export function combined(frame: Frame, known: Version[]): { count: number; versions: Version[] } {
  const [from, to] = [versionOf(frame.from), versionOf(frame.token)];
  if (from === null || to === null || from.life !== to.life) return { count: 0, versions: [] };
  const within = (one: Version) => one.life === to.life && one.sequence > from.sequence && one.sequence <= to.sequence;
  return { count: to.sequence - from.sequence, versions: known.filter(within) };
}

export function sizeOf(patches: Patch[]): number {
  return patches.reduce((sum, one) => sum + new TextEncoder().encode(JSON.stringify(one)).length, 0);
}

/** Where the record is that caused a version: `orders/0/17`; null if an upgrade did. */
export function originOf(origin: string): { topic: string; record: string } | null {
  const found = /^(.+)\/(\d+)\/(\d+)$/.exec(origin);
  return found === null ? null : { topic: found[1]!, record: `${found[2]}/${found[3]}` };
}
