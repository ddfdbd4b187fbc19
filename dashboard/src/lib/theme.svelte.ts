// Light, dark, or as the system has it.

type Choice = "system" | "light" | "dark";
const STORED = "tidegate.theme";
const NEXT: Record<Choice, Choice> = { system: "light", light: "dark", dark: "system" };

class Theme {
  choice = $state<Choice>((localStorage.getItem(STORED) as Choice | null) ?? "system");

  constructor() {
    this.#apply();
  }

  next(): void {
    this.choice = NEXT[this.choice] ?? "system";
    localStorage.setItem(STORED, this.choice);
    this.#apply();
  }

  #apply(): void {
    document.documentElement.dataset["theme"] = this.choice;
  }
}

export const theme = new Theme();
