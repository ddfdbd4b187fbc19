// What gates applied, newest first: a page that is read again when something was applied, and older pages on request.

import { untrack } from "svelte";

import { get, query } from "./api";
import { type Key, keyInPath } from "./keys";
import { Resource } from "./resource.svelte";
import type { AuditRecord } from "./types";

const PAGE = 100;
const MOST_PAGES = 10;
const TOGETHER_MS = 2000;

export interface AuditFilter { app: string | null; gate: string | null; key: Key | undefined; text: string; status: string }
interface AuditPage { records: AuditRecord[]; previous: string | null; scanned: number; oldest: number | null }

export class AuditLog {
  newest: Resource<AuditPage>;
  /** Newest first. */
  rows = $state.raw<AuditRecord[]>([]);
  previous = $state<string | null>(null);
  /** How many records were looked at, and the time of the oldest of them. */
  scanned = $state(0);
  oldest = $state<number | null>(null);
  reading = $state(false);
  error = $state.raw<Error | null>(null);
  #path = "";

  /** Call it where a component is set up. */
  constructor(readonly filter: () => AuditFilter) {
    this.newest = new Resource<AuditPage>(() => pathOf(filter(), null));
    $effect(() => {
      const page = this.newest.value;
      const path = pathOf(filter(), null);
      if (page !== null) untrack(() => this.#take(page, path));
    });
  }

  /** Reads on until something fits; after a while it waits to be asked again. */
  async older(): Promise<void> {
    if (this.previous === null || this.reading) return;
    const path = this.#path;
    const before = this.rows.length;
    this.reading = true;
    try {
      for (let pages = 0; pages < MOST_PAGES && this.previous !== null && this.rows.length === before; pages++) {
        const page: AuditPage = await get<AuditPage>(pathOf(this.filter(), this.previous));
        if (path !== this.#path) return;
        this.rows = [...this.rows, ...page.records.toReversed()];
        this.previous = page.previous;
        this.scanned += page.scanned;
        this.oldest = page.oldest ?? this.oldest;
        this.error = null;
      }
    } catch (error) {
      this.error = error as Error;
    } finally {
      this.reading = false;
    }
  }

  /** A newest page: what is new goes before what is shown. If it does not reach that far, it begins again. */
  #take(page: AuditPage, path: string): void {
    const found = page.records.toReversed();
    const known = new Set(this.rows.map((one) => one.id));
    const meets = path === this.#path && found.some((one) => known.has(one.id));
    this.#path = path;
    if (meets) {
      this.rows = [...found.filter((one) => !known.has(one.id)), ...this.rows];
    } else {
      this.rows = found;
      this.previous = page.previous;
      this.scanned = page.scanned;
      this.oldest = page.oldest;
      if (found.length === 0) void this.older();
    }
  }
}

/** A gate-wide command is applied in each partition: one row for all of them. Newest first. */
export function joined(rows: AuditRecord[]): AuditRecord[] {
  const found: AuditRecord[] = [];
  for (const one of rows) {
    const last = found.at(-1);
    if (last !== undefined && sameCommand(last, one)) found[found.length - 1] = { ...last, held: last.held + one.held, epoch: Math.max(last.epoch, one.epoch) };
    else found.push(one);
  }
  return found;
}

function sameCommand(newer: AuditRecord, older: AuditRecord): boolean {
  const same = (["app", "gate", "state", "cause", "actor", "reason"] as const).every((name) => newer[name] === older[name]);
  return same && newer.gate_wide === true && older.gate_wide === true && newer.at - older.at < TOGETHER_MS;
}

function pathOf({ app, gate, key, text, status }: AuditFilter, before: string | null): string {
  const rest = query({ app, gate, text, status, before, limit: PAGE });
  return `/summary/audit${rest}${key === undefined ? "" : `&key=${keyInPath(key)}`}`;
}
