// Numbers and times for people.

const COUNT = new Intl.NumberFormat("en-US");
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export function count(value: number | bigint | null | undefined): string {
  return value === null || value === undefined ? "–" : COUNT.format(value);
}

export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) < 10_000 ? COUNT.format(Math.round(value)) : SHORT.format(value);
}

export function rate(perSecond: number | null | undefined): string {
  if (perSecond === null || perSecond === undefined) return "–";
  if (perSecond === 0) return "0/s";
  if (perSecond < 10) return `${perSecond.toFixed(1)}/s`;
  return `${short(perSecond)}/s`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 1024) return `${COUNT.format(value)} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let left = value / 1024;
  let unit = 0;
  while (left >= 1024 && unit < units.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${left < 10 ? left.toFixed(1) : Math.round(left)} ${units[unit]}`;
}

/** 75 -> 1m 15s */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, Math.round(seconds));
  if (seconds > 0 && seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  if (whole < 86_400) return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
  return `${Math.floor(whole / 86_400)}d ${Math.floor((whole % 86_400) / 3600)}h`;
}

export function ago(at: number | null | undefined, now: number): string {
  if (at === null || at === undefined) return "–";
  const seconds = (now - at) / 1000;
  return seconds < 0 ? `in ${duration(-seconds)}` : seconds < 1 ? "now" : `${duration(seconds)} ago`;
}

const TIME = new Intl.DateTimeFormat("en-GB", {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});
const DAY = new Intl.DateTimeFormat("en-GB", {
  year: "numeric", month: "2-digit", day: "2-digit",
  hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false,
});

/** The time of day; with the day if it was another one. */
export function time(at: number | bigint | null | undefined, now = Date.now()): string {
  if (at === null || at === undefined) return "–";
  const when = new Date(Number(at));
  if (Number.isNaN(when.getTime())) return String(at);
  return when.toDateString() === new Date(now).toDateString() ? TIME.format(when) : DAY.format(when);
}

export function iso(at: number | bigint | null | undefined): string {
  if (at === null || at === undefined) return "";
  const when = new Date(Number(at));
  return Number.isNaN(when.getTime()) ? String(at) : when.toISOString();
}

export function plural(many: number, one: string, more = `${one}s`): string {
  return `${count(many)} ${many === 1 ? one : more}`;
}
