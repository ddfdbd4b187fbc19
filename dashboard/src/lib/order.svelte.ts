// Checks in the page that a gate kept the order of a key's events: by the offsets of the source records.
//
// Each admitted record names its source record in the header tidegate.origin: "orders/0/12 orders.g1/0_0/4 1700…".
// Events of one key come from one partition of each source, so these offsets must rise.

import type { Json } from "./json";

export interface Origin { partition: string; offset: bigint }

export interface Violation { partition: string; offset: bigint; after: bigint }

const MOST_VIOLATIONS = 20;

export function originOf(headers: [string, Json][]): Origin | null {
  const header = headers.find(([name]) => name === "tidegate.origin");
  return header === undefined || typeof header[1] !== "string" ? null : parsedOrigin(header[1]);
}

/** "orders/0/12" or the whole header. */
export function parsedOrigin(text: string): Origin | null {
  const position = text.split(" ")[0] ?? "";
  const cut = position.lastIndexOf("/");
  const offset = position.slice(cut + 1);
  return cut <= 0 || !/^\d+$/.test(offset) ? null : { partition: position.slice(0, cut), offset: BigInt(offset) };
}

export class OrderCheck {
  /** Records whose origin was compared. */
  checked = $state(0);
  /** Records without an origin: nothing can be said about them. */
  unknown = $state(0);
  violations = $state.raw<Violation[]>([]);
  #last = new Map<string, bigint>();

  /** Takes the headers of records in the order in which they left the gate. */
  take(records: { headers: [string, Json][] }[]): void {
    let checked = 0;
    let unknown = 0;
    const wrong: Violation[] = [];
    for (const record of records) {
      const origin = originOf(record.headers);
      if (origin === null) {
        unknown += 1;
        continue;
      }
      checked += 1;
      const before = this.#last.get(origin.partition);
      if (before !== undefined && origin.offset <= before) {
        wrong.push({ ...origin, after: before });
      } else {
        this.#last.set(origin.partition, origin.offset);
      }
    }
    this.checked += checked;
    this.unknown += unknown;
    if (wrong.length > 0) this.violations = [...this.violations, ...wrong].slice(0, MOST_VIOLATIONS);
  }
}
