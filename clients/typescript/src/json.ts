/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };

/** Whether an object itself has a key: `toString` and `__proto__` are keys like all others. */
export function has(value: object, key: string): boolean {
  return Object.prototype.hasOwnProperty.call(value, key);
}

export function isObject(value: unknown): value is { [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Set a key. An assignment to `__proto__` would change the prototype instead. */
export function put(value: object, key: string, item: unknown): void {
  Object.defineProperty(value, key, { value: item, writable: true, enumerable: true, configurable: true });
}
