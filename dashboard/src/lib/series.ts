// Fifteen minutes of numbers: from the first message of the stream, then from its frames.

import type { Frame } from "./types";

export type Values = (number | null)[];

type Columns = Record<string, Values>;

export interface HistoryMessage {
  step_ms: number;
  times: number[];
  topics: Record<string, Columns>;
  apps: Record<string, Columns>;
  tasks: Record<string, Record<string, Columns>>;
  gates: Record<string, Record<string, Columns>>;
}

const MOST_POINTS = 180;

export class Series {
  times: number[] = [];
  #values = new Map<string, Values>();
  #step = 5000;

  /** The values of one number, as many as there are times; empty if it is not known. */
  of(...name: string[]): Values {
    return this.#values.get(name.join("\0")) ?? [];
  }

  start(history: HistoryMessage): void {
    this.#values.clear();
    this.#step = history.step_ms;
    this.times = history.times.slice(-MOST_POINTS);
    for (const kind of ["topics", "apps"] as const) {
      for (const [name, columns] of Object.entries(history[kind])) this.#fill([kind, name], columns);
    }
    for (const kind of ["tasks", "gates"] as const) {
      for (const [app, named] of Object.entries(history[kind])) {
        for (const [name, columns] of Object.entries(named)) this.#fill([kind, app, name], columns);
      }
    }
  }

  #fill(name: string[], columns: Columns): void {
    for (const [what, values] of Object.entries(columns)) {
      this.#values.set([...name, what].join("\0"), values.slice(-MOST_POINTS));
    }
  }

  /** Adds a point if the last one is old enough; returns whether it did. */
  take(frame: Frame): boolean {
    const last = this.times.at(-1);
    if (last !== undefined && frame.at - last < this.#step) return false;
    const now = new Map<string, number | null>();
    for (const [app, one] of Object.entries(frame.apps)) noted(now, ["apps", app], { ...one }, "rate", "lag", "lag_seconds");
    for (const [topic, one] of Object.entries(frame.topics)) noted(now, ["topics", topic], { ...one }, "rate");
    for (const [app, tasks] of Object.entries(frame.tasks)) {
      for (const [task, one] of Object.entries(tasks)) noted(now, ["tasks", app, task], { ...one }, "rate", "lag", "lag_seconds");
    }
    for (const [app, gates] of Object.entries(frame.gates)) {
      for (const [gate, one] of Object.entries(gates)) noted(now, ["gates", app, gate], { ...one }, "held", "paused", "rate");
    }
    const before = this.times.length;
    for (const name of now.keys()) {
      if (!this.#values.has(name)) this.#values.set(name, Array<null>(before).fill(null));
    }
    const surplus = Math.max(0, before + 1 - MOST_POINTS);
    this.times = [...this.times, frame.at].slice(surplus);
    for (const [name, values] of this.#values) {
      this.#values.set(name, [...values, now.get(name) ?? null].slice(surplus));
    }
    return true;
  }
}

function noted(into: Map<string, number | null>, name: string[], one: Record<string, unknown>, ...fields: string[]): void {
  for (const field of fields) into.set([...name, field].join("\0"), (one[field] as number | null) ?? null);
}

/** Whether a number rises: its last minute is clearly above the minute before. */
export function rises(values: Values): boolean {
  const known = values.filter((one) => one !== null);
  if (known.length < 12) return false;
  const mean = (part: number[]) => part.reduce((sum, one) => sum + one, 0) / part.length;
  const before = mean(known.slice(-12, -6));
  const now = mean(known.slice(-6));
  return now > 20 && now > before * 1.3;
}
