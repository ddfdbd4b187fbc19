// The versions of an id, from its first one that is kept to the newest. A bounded number is held.

import { get, query } from "./api";
import { keyInPath } from "./keys";
import type { Version } from "./models";

interface Page { events: Version[]; next: string | null }

const LIMIT = 500;
const MOST_PAGES = 20;
/** A read that takes longer is not repeated by itself: other ids lie in the same partition. */
const SLOW_MS = 1500;

export class ModelHistory {
  /** Oldest first. */
  events = $state.raw<Version[]>([]);
  error = $state.raw<Error | null>(null);
  loading = $state(true);
  /** Whether there are newer versions that were not read. */
  more = $state(false);
  slow = $state(false);
  #before: Version[] = [];
  #after: string | null = null;

  constructor(readonly model: string, readonly id: string, readonly app: string | null) {}

  /** Reads from the start of the last page on. */
  async load(): Promise<void> {
    this.loading = true;
    const began = performance.now();
    try {
      for (let pages = 0; pages < MOST_PAGES; pages += 1) {
        const page = await get<Page>(`/${encodeURIComponent(this.model)}/${keyInPath(this.id)}/history${query({ app: this.app, limit: LIMIT, after: this.#after })}`);
        this.events = [...this.#before, ...page.events];
        this.more = page.next !== null;
        if (page.next === null) break;
        this.#before = this.events.slice(-LIMIT);
        this.#after = page.next;
      }
      this.error = null;
    } catch (error) {
      this.error = error as Error;
    }
    this.slow = performance.now() - began > SLOW_MS;
    this.loading = false;
  }
}
