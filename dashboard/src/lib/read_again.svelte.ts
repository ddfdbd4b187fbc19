// Reading something again when it has changed on the server, or may have while the server was not reached.

import { live } from "./live.svelte";

interface Readable { load(): Promise<void> }

const PAUSE_MS = 300;
const HIDDEN_MS = 1000;

/**
 * Reads again when what `token` returns changes: once for all changes of a while, and not while the tab is hidden.
 * Call it where a component is set up.
 */
export function readAgain(of: Readable, token: () => unknown): void {
  let known: unknown;
  let wanted = false;
  let working = false;
  let ended = false;
  let stale = false;

  async function work() {
    working = true;
    while (wanted && !ended) {
      wanted = false;
      await pause(PAUSE_MS);
      while (document.hidden && !ended) await pause(HIDDEN_MS);
      if (!ended) await of.load();
    }
    working = false;
  }

  $effect(() => {
    const now = token();
    const back = stale && live.state === "live";
    stale = live.state === "stale";
    if (back || (known !== undefined && now !== known)) {
      wanted = true;
      if (!working) void work();
    }
    known = now;
  });
  $effect(() => () => {
    ended = true;
  });
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
