// The screens, in the order of the navigation.

export interface Entry { path: string; label: string; icon: string; key: string }

export const ENTRIES: Entry[] = [
  { path: "", label: "Overview", icon: "overview", key: "o" },
  { path: "topology", label: "Topology", icon: "topology", key: "y" },
  { path: "gates", label: "Gates", icon: "gates", key: "g" },
  { path: "topics", label: "Topics", icon: "topics", key: "t" },
  { path: "stores", label: "Stores", icon: "stores", key: "s" },
  { path: "models", label: "Models", icon: "models", key: "m" },
  { path: "dead-letters", label: "Dead letters", icon: "letters", key: "d" },
  { path: "tasks", label: "Tasks", icon: "tasks", key: "k" },
  { path: "audit", label: "Audit", icon: "audit", key: "a" },
  { path: "upgrades", label: "Upgrades", icon: "upgrades", key: "u" },
];
