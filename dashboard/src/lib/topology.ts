// The steps of an app, with what the newest frame reports of them.

import type { Series } from "./series";
import { rises } from "./series";
import type { Frame, GateFrame } from "./types";

export interface Step {
  id: number; kind: string; label: string; name: string; topic: string | null; location: string; component: string; subtopology: number;
  stores: string[]; on_error: string; key: string; value: string; gate: string | null;
}
export interface Edge { from: number; to: number; topic: string | null; command: boolean }
export interface Topology {
  app: string; generation: number; nodes: Step[]; edges: Edge[];
  topics: { topic: string; role: string; partitions: number; reads: number[]; writes: number[] }[];
  stores: { store: string; kind: string; role: string; changelog: string | null; key: string; value: string; component: string; nodes: number[] }[];
  gates: { gate: string; node: number; source: { nodes: number[]; topics: string[] }; admitted: string; audit: string; status: string; trigger: string }[];
  subtopologies: { component: string; generation: number; number: number; nodes: number[]; partitions: number; tasks: string[] }[];
}

export interface StepNumbers {
  step: Step; title: string; rate: number | null; lag: number | null; lagSeconds: number | null; rising: boolean; restoring: number;
  held: GateFrame | null; tasks: string[];
}

const COMMANDS = ["gate status", "gate trigger"];

export function isCommand(step: Step): boolean {
  return COMMANDS.includes(step.kind);
}

export function numbersOf(topology: Topology, frame: Frame | null, series: Series): StepNumbers[] {
  const tasks = frame?.tasks[topology.app] ?? {};
  const gates = frame?.gates[topology.app] ?? {};
  const home = new Map<number, Topology["subtopologies"][number]>();
  for (const sub of topology.subtopologies) for (const node of sub.nodes) home.set(node, sub);
  const gateOf = new Map(topology.gates.map((one) => [one.node, one.gate]));
  return topology.nodes.map((step) => {
    const names = home.get(step.id)?.tasks ?? [];
    const found = names.map((name) => tasks[name]).filter((one) => one !== undefined);
    const sum = (numbers: (number | null)[]) => numbers.reduce<number | null>((total, one) => (one === null ? total : (total ?? 0) + one), null);
    const gate = gateOf.get(step.id);
    const held = gate === undefined ? null : (gates[gate] ?? null);
    const own = !step.topic ? undefined : frame?.topics[step.topic]?.rate;
    return {
      step,
      title: step.name || step.topic || step.kind,
      rate: own ?? held?.rate ?? sum(found.map((one) => one.rate)),
      lag: sum(found.map((one) => one.lag)),
      lagSeconds: found.reduce<number | null>((most, one) => (one.lag_seconds === null ? most : Math.max(most ?? 0, one.lag_seconds)), null),
      rising: names.some((name) => rises(series.of("tasks", topology.app, name, "lag"))),
      restoring: found.filter((one) => one.state === "restoring").length,
      held,
      tasks: names,
    };
  });
}

/** The width of an edge: 1 without records, and one more for each power of ten. */
export function widthOf(rate: number | null): number {
  return rate === null || rate <= 0 ? 1 : 1.5 + Math.log10(1 + rate) * 1.4;
}
