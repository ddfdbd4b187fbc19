// The records of a topic, newest first: what was there, then live; older ones on request. A bounded number is kept.

import { get, query } from "./api";
import type { Json } from "./json";
import { live } from "./live.svelte";
import type { TopicRecord } from "./types";

export const KEPT = 2000;
const PAGE = 100;
export const PER_SECOND = 200;
const PREVIEW = 500;

interface Page { records: TopicRecord[]; next: string; previous: string | null; scanned?: number }
export interface Filter { key: string | null; partition: string | null; text: string }

export class Records {
  /** Newest first. */
  rows = $state.raw<TopicRecord[]>([]);
  /** Arrived while the view is stopped or scrolled away. */
  waiting = $state.raw<TopicRecord[]>([]);
  skipped = $state(0);
  dropped = $state(0);
  taken = $state(0);
  error = $state.raw<Error | null>(null);
  loading = $state(true);
  older = $state<string | null>(null);
  stopped = $state(false);
  /** Whether new records go to `waiting`, so that what is read does not move. */
  away = $state(false);
  #end: (() => void) | null = null;
  #ended = false;

  constructor(readonly topic: string, readonly filter: Filter) {}

  async start(): Promise<void> {
    try {
      const page = await get<Page>(this.#path({}));
      if (this.#ended) return;
      this.rows = page.records.toReversed().filter((one) => this.#fits(one));
      this.older = page.previous;
      this.#follow(page.next);
    } catch (error) {
      this.error = error as Error;
    }
    this.loading = false;
  }

  close(): void {
    this.#ended = true;
    this.#end?.();
  }

  async loadOlder(): Promise<void> {
    if (this.older === null || this.loading) return;
    this.loading = true;
    try {
      const page = await get<Page>(this.#path({ before: this.older }));
      this.rows = [...this.rows, ...page.records.toReversed().filter((one) => this.#fits(one))];
      this.older = page.previous;
    } catch (error) {
      this.error = error as Error;
    }
    this.loading = false;
  }

  stop(): void {
    this.stopped = !this.stopped;
    if (!this.stopped && !this.away) this.show();
  }

  /** Shows what arrived meanwhile. */
  show(): void {
    this.rows = [...this.waiting, ...this.rows].slice(0, Math.max(KEPT, this.rows.length));
    this.waiting = [];
  }

  #path(more: { before?: string }): string {
    const { key, partition } = this.filter;
    return `/topics/${encodeURIComponent(this.topic)}/records${query({ limit: PAGE, preview: PREVIEW, key, partition, ...more })}`;
  }

  #follow(at: string): void {
    const { key } = this.filter;
    const choice = { topic: this.topic, per_second: PER_SECOND, at, ...(key === null ? {} : { key }) };
    this.#end = live.followTopic(choice, (records, skipped) => this.#take(records, skipped), (error) => this.#failed(error));
  }

  #take(records: TopicRecord[], skipped: number): void {
    this.skipped += skipped;
    this.taken += records.length;
    const fresh = records.filter((one) => this.#fits(one)).reverse();
    if (this.stopped || this.away) {
      const all = [...fresh, ...this.waiting];
      this.dropped += Math.max(0, all.length - KEPT);
      this.waiting = all.slice(0, KEPT);
    } else {
      this.rows = [...fresh, ...this.rows].slice(0, KEPT);
      if (this.rows.length === KEPT) this.older = null;
    }
  }

  #failed(error: Json): void {
    const { message } = error as { message: string };
    this.error = new Error(message);
  }

  #fits(one: TopicRecord): boolean {
    const { partition, text } = this.filter;
    if (partition !== null && String(one.partition) !== partition) return false;
    if (text === "") return true;
    const value = typeof one.value === "string" ? one.value : JSON.stringify(one.value, (_, part: unknown) => (typeof part === "bigint" ? String(part) : part));
    return `${JSON.stringify(one.key)} ${value}`.toLowerCase().includes(text.toLowerCase());
  }
}
