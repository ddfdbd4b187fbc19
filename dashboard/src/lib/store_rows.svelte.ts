// A page of a store's rows, and what changed in it since it was shown.

import { clock } from "./clock.svelte";
import { showJson } from "./json";
import { Resource } from "./resource.svelte";
import { type Identified, type Page, identified, offsetsOf } from "./stores";

export interface Change { kind: "new" | "changed" | "removed"; at: number; was: Identified | null; after: string | null }

/** How long a change is highlighted. */
export const SHOWN_MS = 10_000;

export class StoreRows extends Resource<Page> {
  rows = $state.raw<Identified[]>([]);
  /** By the id of the row. */
  changes = $state.raw(new Map<string, Change>());
  /** When the rows were read. */
  at = $state<number | null>(null);

  /** How many records of the changelog the rows contain. */
  get read(): number {
    return offsetsOf(this.value?.position ?? "").reduce((sum, [, offset]) => sum + Number(offset), 0);
  }

  /** Rows that were shown are not taken back, whichever server answers. After an error they may be. */
  protected override address(path: string): string {
    if (this.value === null || this.error !== null) return path;
    return `${path}${path.includes("?") ? "&" : "?"}at_least=${encodeURIComponent(this.value.position)}`;
  }

  protected override took(page: Page): void {
    const now = clock.now;
    const rows = identified(page.rows);
    const recent = [...this.changes].filter(([, change]) => now - change.at < SHOWN_MS);
    this.changes = this.value === null ? new Map() : new Map([...recent, ...differences(this.rows, this.value, rows, page, now)]);
    this.rows = rows;
    this.at = Date.now();
  }

  /** The rows, and those that were removed a moment ago, where they were. */
  shown(now: number): { row: Identified; change: Change | null }[] {
    const found = this.rows.map((row) => ({ row, change: this.#recent(row.id, now) }));
    for (const [id, change] of this.changes) {
      if (change.kind !== "removed" || change.was === null || this.#recent(id, now) === null) continue;
      const at = found.findIndex(({ row }) => row.id === change.after);
      found.splice(at + 1, 0, { row: change.was, change });
    }
    return found;
  }

  #recent(id: string, now: number): Change | null {
    const change = this.changes.get(id);
    return change === undefined || now - change.at > SHOWN_MS ? null : change;
  }
}

/** What differs between two reads of one page. Rows at its end may only have moved to another page. */
function differences(before: Identified[], old: Page, after: Identified[], page: Page, at: number): [string, Change][] {
  const known = new Map(before.map((row) => [row.id, row]));
  const now = new Map(after.map((row) => [row.id, row]));
  const lastCommon = (rows: Identified[], others: Map<string, Identified>) => rows.findLastIndex((row) => others.has(row.id));
  const movedIn = old.next === null ? Infinity : lastCommon(after, known);
  const movedOut = page.next === null ? Infinity : lastCommon(before, now);
  const found: [string, Change][] = [];
  after.forEach((row, index) => {
    const was = known.get(row.id);
    if (was === undefined) {
      if (index <= movedIn) found.push([row.id, { kind: "new", at, was: null, after: null }]);
    } else if (showJson(was.value) !== showJson(row.value) || was.timestamp !== row.timestamp) {
      found.push([row.id, { kind: "changed", at, was, after: null }]);
    }
  });
  before.forEach((row, index) => {
    if (now.has(row.id) || index > movedOut) return;
    found.push([row.id, { kind: "removed", at, was: row, after: before[index - 1]?.id ?? null }]);
  });
  return found;
}
