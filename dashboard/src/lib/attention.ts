// What an operator should look at first, worst first.

import { bytes, count, duration, plural, rate } from "./format";
import { link } from "./router.svelte";
import { type Series, rises } from "./series";
import type { Frame } from "./types";

export interface Attention {
  level: "bad" | "warn" | "held" | "info"; kind: string; what: string; detail: string; link: string; since: number | null;
}

const LONG_PAUSE_MS = 10 * 60_000;
const ENDED = ["failed", "silent", "partial", "restarting"];
const ORDER = ["bad", "warn", "held", "info"];

export function attention(frame: Frame, series: Series, now: number): Attention[] {
  const found: Attention[] = [];
  for (const [name, app] of Object.entries(frame.apps)) {
    const add = (level: Attention["level"], kind: string, what: string, detail: string, to: string, since: number | null = null) =>
      found.push({ level, kind, what, detail, link: to, since });
    const page = link("topology", name);
    if (app.trouble !== null) {
      add("bad", "unreadable", name, app.trouble.message, page);
      continue; // it has no numbers
    }
    if (ENDED.includes(app.state)) {
      const why = app.last_failure === null ? "" : `${app.last_failure.code}: ${app.last_failure.message}`;
      add("bad", app.state, `${name} is ${app.state}`, why, `${link("tasks")}?app=${encodeURIComponent(name)}`, app.since);
    }
    if (app.dead_letters.records > 0) {
      const many = `${app.dead_letters.at_least ? "at least " : ""}${plural(app.dead_letters.records, "record")}`;
      add("warn", "dead letters", `${name}: ${many}`, app.dead_letters.topic, link("dead-letters", name));
    }
    if (app.to_restore > app.restored) {
      add("warn", "restoring", `${name}: ${plural(app.tasks_restoring, "task")}`, `${count(app.restored)} of ${count(app.to_restore)} records`, link("tasks"));
    }
    if (app.upgrade !== null && app.upgrade.state === "waiting") {
      add("warn", "upgrade", `${name} waits for consent`, plural(app.upgrade.questions, "question"), link("upgrades", name));
    }
    if (rises(series.of("apps", name, "lag"))) {
      const behind = app.lag_seconds === null ? "" : `${duration(app.lag_seconds)} behind, `;
      add("warn", "lag rises", `${name}: ${count(app.lag)} records`, `${behind}${rate(app.rate)}`, link("tasks"));
    }
  }
  for (const [app, gates] of Object.entries(frame.gates)) {
    for (const [gate, one] of Object.entries(gates)) {
      const to = `${link("gates", gate)}?app=${encodeURIComponent(app)}`;
      if (one.trouble !== null) found.push({ level: "bad", kind: "unreadable", what: gate, detail: one.trouble.message, link: to, since: null });
      if (one.gate_wide) found.push({ level: "held", kind: "gate-wide", what: `${gate} is paused for all keys`, detail: `${count(one.held)} events wait`, link: to, since: one.oldest });
      if (one.oldest !== null && now - one.oldest > LONG_PAUSE_MS) {
        found.push({ level: "held", kind: "long pause", what: `${gate}: ${plural(one.waiting_keys, "key")}`, detail: `${plural(one.held, "event")} (${bytes(one.bytes)}) wait`, link: to, since: one.oldest });
      }
    }
  }
  return found.sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));
}
