import { has, isObject, put, type Json } from "./json.js";

/** Leads from one JSON value to another; docs/models.md has the table. */
export type Patch = { [operation: string]: Json };

/**
 * The patched value. What does not change is the same object as before; the old value stays as it is.
 * Throws if the patch does not fit the value.
 */
export function apply(value: Json, patch: Json | undefined): Json {
  if (!isObject(patch)) throw new TypeError("a patch is an object");
  const operations = Object.keys(patch);
  if (operations.length === 0) return value;
  if (has(patch, "=")) return patch["="] as Json;
  if (has(patch, "*") && isObject(value)) return withKeys(value, patch["*"]);
  if (operations.every((one) => one === "#" || one === "n" || one === "+") && Array.isArray(value)) {
    return withItems(value, patch);
  }
  throw new TypeError(`a patch with ${operations.join(" ")} does not fit`);
}

function withKeys(value: { [key: string]: Json }, changes: Json | undefined): Json {
  if (!isObject(changes)) throw new TypeError("the changes of keys are an object");
  const changed = { ...value };
  for (const key of Object.keys(changes)) {
    const patch = changes[key];
    if (!isObject(patch)) throw new TypeError("a patch is an object");
    if (has(patch, "-")) delete changed[key];
    else if (has(patch, "=")) put(changed, key, patch["="]);
    else if (has(changed, key)) put(changed, key, apply(changed[key] as Json, patch));
    else throw new TypeError(`the patch changes ${JSON.stringify(key)}, which is not there`);
  }
  return changed;
}

function withItems(value: Json[], patch: Patch): Json {
  let changed = [...value];
  for (const change of list(patch, "#")) {
    const [index, part] = change as [number, Json];
    if (!Number.isInteger(index) || index < 0 || index >= changed.length) {
      throw new TypeError(`the patch changes item ${index} of ${changed.length}`);
    }
    changed[index] = apply(changed[index] as Json, part);
  }
  if (has(patch, "n")) {
    const count = patch["n"] as number;
    if (!Number.isInteger(count) || count < 0 || count > changed.length) {
      throw new TypeError(`the patch cuts ${changed.length} items to ${count}`);
    }
    changed = changed.slice(0, count);
  }
  return changed.concat(list(patch, "+"));
}

function list(patch: Patch, operation: string): Json[] {
  const found = has(patch, operation) ? patch[operation] : [];
  if (!Array.isArray(found)) throw new TypeError(`${operation} of a patch is a list`);
  return found;
}
