// Something that is read from the server: loading, then a value or an error; a value stays while it is read again.

import { untrack } from "svelte";

import { get } from "./api";

export class Resource<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<Error | null>(null);
  loading = $state(true);
  #path: string | null = null;
  #abort: AbortController | null = null;

  /** Reads `path()` now and whenever it changes; null: nothing. Call it where a component is set up. */
  constructor(path: () => string | null) {
    $effect(() => {
      const now = path();
      untrack(() => {
        if (now !== this.#path) this.value = null;
        this.#path = now;
        void this.load();
      });
      return () => this.#abort?.abort();
    });
  }

  async load(): Promise<void> {
    this.#abort?.abort();
    const path = this.#path;
    if (path === null) return;
    const abort = (this.#abort = new AbortController());
    this.loading = true;
    try {
      const value = await get<T>(this.address(path), abort.signal);
      if (abort.signal.aborted) return;
      this.took(value);
      this.value = value;
      this.error = null;
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = error as Error;
    }
    this.loading = false;
  }

  /** The address that is read for a path. */
  protected address(path: string): string {
    return path;
  }

  /** Called with each new value, before it replaces the one before it. */
  protected took(_value: T): void {}
}
