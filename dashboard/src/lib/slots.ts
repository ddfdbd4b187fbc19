// Browsers open six connections to a server, for all tabs together. A stream keeps one: at most four tabs have a
// stream at a time, so that calls get through. A tab that is used takes the stream of another one; a tab without
// one shows the frames of the others.

const SLOTS = 4;
const NAME = "tidegate.stream";

type Release = () => void;

/** Takes a slot that is free; with `steal` one of another tab. `lost` is called when another tab takes it. */
export async function takeSlot(steal: boolean, lost: () => void): Promise<Release | null> {
  for (let slot = 0; slot < SLOTS; slot += 1) {
    const release = await takeLock(`${NAME}.${slot}`, { ifAvailable: true }, lost);
    if (release !== null) return release;
  }
  return steal ? takeLock(`${NAME}.${Math.floor(Math.random() * SLOTS)}`, { steal: true }, lost) : null;
}

/** Takes a lock of all tabs. `lost` is called when another tab steals it. */
export function takeLock(name: string, options: LockOptions, lost: () => void): Promise<Release | null> {
  if (!("locks" in navigator)) return Promise.resolve(() => {});
  return new Promise((resolve) => {
    let released = false;
    navigator.locks
      .request(name, options, (lock) => {
        if (lock === null) return resolve(null);
        return new Promise<void>((done) =>
          resolve(() => {
            released = true;
            done();
          }),
        );
      })
      .catch(() => {
        if (!released) lost();
        resolve(null);
      });
  });
}
