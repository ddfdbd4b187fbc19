// The colour of a state.

const COLOURS: Record<string, string> = {
  running: "ok", restoring: "warn", starting: "info", stopping: "info", partial: "bad", restarting: "warn", failed: "bad",
  silent: "bad", stopped: "", "never-started": "",
};

export function colour(state: string): string {
  return COLOURS[state] ?? "";
}
