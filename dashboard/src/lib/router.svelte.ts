// Pages have real addresses: /ui/gates/orders-gate. Links are plain <a href>; a click on one changes the page.

export const BASE = "/ui";

class Place {
  path = $state("/");
  query = $state(new URLSearchParams());

  constructor() {
    this.#read();
    addEventListener("popstate", () => this.#read());
    document.addEventListener("click", (event) => this.#clicked(event));
  }

  /** The parts of the path, decoded. */
  parts = $derived(this.path.split("/").filter((one) => one !== "").map(decoded));

  go(to: string, { replace = false } = {}): void {
    history[replace ? "replaceState" : "pushState"](null, "", BASE + to);
    this.#read();
    if (!replace) scrollTo(0, 0);
  }

  /** Changes one part of the query, without a new entry in the history. */
  set(name: string, value: string | null): void {
    const query = new URLSearchParams(this.query);
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
    const text = query.toString();
    this.go(this.path + (text === "" ? "" : `?${text}`), { replace: true });
  }

  #read(): void {
    this.path = location.pathname.slice(BASE.length) || "/";
    this.query = new URLSearchParams(location.search);
  }

  #clicked(event: MouseEvent): void {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    const link = (event.target as Element | null)?.closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.origin !== location.origin || link.target !== "") return;
    if (!link.pathname.startsWith(BASE)) return;
    event.preventDefault();
    this.go(link.pathname.slice(BASE.length) + link.search);
  }
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const place = new Place();

/** An address for href. */
export function link(...parts: string[]): string {
  return [BASE, ...parts.map(encodeURIComponent)].join("/");
}
