// Asks the worker for a layout.

import type { Layout, LayoutRequest } from "./layout.worker";
import workerUrl from "./layout.worker?worker&url";

interface Policy { createScriptURL(url: string): string }
interface Types { createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): Policy }

let worker: Worker | null = null;
let asked = 0;

function started(): Worker {
  if (worker !== null) return worker;
  const types = (globalThis as { trustedTypes?: Types }).trustedTypes;
  const policy = types?.createPolicy("tidegate", {
    createScriptURL: (url) => {
      if (url !== workerUrl) throw new TypeError("this policy is for one worker");
      return url;
    },
  });
  worker = new Worker(policy === undefined ? workerUrl : policy.createScriptURL(workerUrl), { type: "module" });
  return worker;
}

export function layoutOf(request: Omit<LayoutRequest, "n">): Promise<Layout> {
  const n = (asked += 1);
  const running = started();
  return new Promise((resolve, reject) => {
    const done = ({ data }: MessageEvent<Layout>) => {
      if (data.n !== n) return;
      running.removeEventListener("message", done);
      resolve(data);
    };
    running.addEventListener("message", done);
    running.addEventListener("error", () => reject(new Error("the graph could not be laid out")), { once: true });
    running.postMessage({ ...request, n });
  });
}
