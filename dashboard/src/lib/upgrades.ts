// Upgrades of apps, as GET /upgrades has them.

import type { Json } from "./json";
import type { Key } from "./keys";

export interface Differences { put: number; changed: number; removed: number; equal: number; foreign: number }

export interface Question { code: string; text: string; consent: string; sink: string }

export interface Progress {
  round: number; done: number; to_do: number; complete: boolean; per_second: number; seconds_left: number | null;
}

export interface UpgradeInfo {
  generation: number; before: number; state: "recalculating" | "waiting" | "publishing" | "done" | "cancelled"; began: number;
  differences: Record<string, Differences>; failures: number; questions: Question[];
}

/** A value as it is or as it would be; of a long one only its beginning. */
export interface RowSide { value?: Json; cut?: { preview: Json; bytes: number }; path?: string }

export interface DifferingRow { partition: number; key: Key; kind: RowKind; before: RowSide | null; after: RowSide | null }
export interface RowsPage { generation: number; state: string; sink: string; rows: DifferingRow[]; next: string | null }
export type RowKind = "new" | "changed" | "removed";

export interface Decision {
  generation: number; kind: "consent" | "cancel"; at: number; by: { actor: string; reason: string; via: string }; yes: boolean;
  removals: string[]; questions: Question[];
}

export interface Generation {
  generation: number; state: "active" | "former" | "candidate"; upgrade: string; began: number | null; commit: string; kinds: string[]; changes: string[];
  components: Record<string, string>; differences: Record<string, Differences>; left: string[]; finished: boolean;
}

export interface AppUpgrades {
  app: string; generation: number; upgrade: UpgradeInfo | null; consent: { yes: boolean; removals: string[]; by: string } | null;
  decisions: Decision[]; progress: Progress | null; generations: Generation[];
}

/** Whether the rows that differ can be read: once they were compared, and until they are published. */
export function hasRows(one: UpgradeInfo): boolean {
  return one.state === "waiting" || one.state === "publishing";
}

/** Until it is decided an upgrade can be given up. */
export function isOpen(one: UpgradeInfo | null): boolean {
  return one !== null && (one.state === "recalculating" || one.state === "waiting");
}

const COLOURS: Record<string, string> = { recalculating: "info", waiting: "warn", publishing: "info", done: "ok", cancelled: "" };

export function upgradeColour(state: string): string {
  return COLOURS[state] ?? "";
}

/** The questions that nobody has consented to yet. */
export function unanswered(one: AppUpgrades): Question[] {
  if (one.upgrade?.state !== "waiting") return [];
  return one.upgrade.questions.filter(({ sink }) => (sink === "" ? !one.consent?.yes : !one.consent?.removals.includes(sink)));
}

export function differing(all: Record<string, Differences>): number {
  return Object.values(all).reduce((sum, { put, changed, removed }) => sum + put + changed + removed, 0);
}

export type Step = { name: string; what: string; state: "done" | "now" | "next" | "skipped" };

const AT: Record<string, number> = { recalculating: 0, waiting: 2, publishing: 3, done: 4, cancelled: 0 };

function decision(state: string, at: number, asked: boolean): string {
  if (state === "cancelled") return "it was cancelled";
  if (at < 2) return "if many rows would be removed, or more records fail";
  return !asked ? "nobody had to consent" : at === 2 ? "someone has to consent" : "someone consented";
}

/** Where an upgrade is. */
export function stepsOf(upgrade: UpgradeInfo, decisions: Decision[]): Step[] {
  const compared = Object.keys(upgrade.differences).length > 0;
  const asked = upgrade.questions.length > 0 || decisions.some((one) => one.generation === upgrade.generation && one.kind === "consent");
  const at = upgrade.state === "cancelled" ? (compared ? 2 : 0) : upgrade.state === "recalculating" && compared ? 1 : AT[upgrade.state]!;
  const names: [string, string][] = [
    ["Recalculate", "the components that changed, beside the rows in force"],
    ["Compare", "the rows with those in force"],
    ["Decide", decision(upgrade.state, at, asked)],
    ["Switch and publish", "the new generation is in force; rows that differ are published"],
  ];
  return names.map(([name, what], index) => {
    const passed: Step["state"] = index < at ? "done" : index === at ? "now" : "next";
    const state = name === "Decide" && !asked && passed === "done" ? "skipped" : passed;
    return { name, what, state: upgrade.state === "cancelled" && passed !== "done" ? "skipped" : state };
  });
}
