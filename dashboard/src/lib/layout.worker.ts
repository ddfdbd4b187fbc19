// Places the nodes of a graph, apart from the page: a large graph takes a while.

import { Graph, layout } from "@dagrejs/dagre";

export interface LayoutNode { id: string; width: number; height: number }
export interface LayoutEdge { from: string; to: string }
export interface LayoutRequest { n: number; nodes: LayoutNode[]; edges: LayoutEdge[]; down: boolean }
export interface Layout {
  n: number; width: number; height: number;
  nodes: Record<string, { x: number; y: number }>;
  edges: { x: number; y: number }[][];
}

addEventListener("message", ({ data }: MessageEvent<LayoutRequest>) => {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: data.down ? "TB" : "LR", nodesep: 26, ranksep: data.down ? 44 : 46, marginx: 16, marginy: 16 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const { id, width, height } of data.nodes) graph.setNode(id, { width, height });
  data.edges.forEach((edge, index) => graph.setEdge(edge.from, edge.to, {}, String(index)));
  layout(graph);
  const size = graph.graph() as { width?: number; height?: number };
  const nodes: Layout["nodes"] = {};
  for (const id of graph.nodes()) {
    const { x, y } = graph.node(id) as { x: number; y: number };
    nodes[id] = { x, y };
  }
  const edges = data.edges.map((edge, index) => (graph.edge(edge.from, edge.to, String(index)) as { points: { x: number; y: number }[] }).points);
  postMessage({ n: data.n, width: size.width ?? 0, height: size.height ?? 0, nodes, edges } satisfies Layout);
});
