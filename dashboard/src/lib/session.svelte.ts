// Who is using the page. The token is kept for this tab only, and goes into the Authorization header.

const STORED = "tidegate.token";

export interface Me {
  name: string;
  scope: "read" | "operate" | "upgrade";
  tokens: boolean;
}

class Session {
  token = $state(sessionStorage.getItem(STORED) ?? "");
  me = $state<Me | null>(null);
  /** Set when the server asks for a token: why. */
  needed = $state<string | null>(null);

  mayOperate = $derived(this.me !== null && this.me.scope !== "read");
  mayUpgrade = $derived(this.me?.scope === "upgrade");

  use(token: string): void {
    sessionStorage.setItem(STORED, token);
    this.token = token;
    this.needed = null;
  }

  /** Forgets the token: the page shows the login. */
  leave(why: string): void {
    sessionStorage.removeItem(STORED);
    this.token = "";
    this.me = null;
    this.needed = why;
  }

  /** Why an action is disabled; null if it is not. */
  refusal(scope: "operate" | "upgrade"): string | null {
    const allowed = scope === "operate" ? this.mayOperate : this.mayUpgrade;
    if (allowed || this.me === null) return null;
    return `Your token "${this.me.name}" has the scope ${this.me.scope}; this needs ${scope}.`;
  }
}

export const session = new Session();
