// Requests to the studio, and what it tells by itself.

export const tab = crypto.getRandomValues(new Uint32Array(2)).join("-");

export class Refused extends Error {}

async function read(response) {
  const found = response.headers.get("content-type")?.includes("json") ? await response.json() : {};
  if (!response.ok) throw new Refused(found.error ?? response.statusText);
  return found;
}

export async function get(path) {
  return read(await fetch(path));
}

export async function post(path, given = {}) {
  const headers = { "x-understudy": "studio", "content-type": "application/json" };
  return read(await fetch(path, { method: "POST", headers, body: JSON.stringify(given) }));
}

export async function upload(file) {
  const headers = { "x-understudy": "studio", "x-file-name": encodeURIComponent(file.name), "content-type": "application/octet-stream" };
  return read(await fetch("/api/open", { method: "POST", headers, body: file }));
}

// What the studio tells; `gone` is called when it has been silent for longer than two signs of life.
export function listen(heard, gone) {
  let last = performance.now();
  let events;
  const open = () => {
    events = new EventSource("/api/events");
    events.onmessage = (message) => {
      last = performance.now();
      heard(JSON.parse(message.data));
    };
  };
  open();
  addEventListener("pagehide", () => events.close());
  setInterval(() => {
    const silent = performance.now() - last;
    if (silent > 2200) gone(true);
    if (events.readyState === EventSource.CLOSED && silent > 2200) {
      events.close();
      open();
    }
  }, 250);
}

// Of many moves only the newest is asked for: the first at once, later ones at most every `pause` milliseconds.
export class Newest {
  constructor(work, pause = 90) {
    this.work = work;
    this.pause = pause;
    this.busy = false;
    this.last = -Infinity;
    this.waiting = null;
    this.timer = 0;
  }

  ask(given) {
    this.waiting = given;
    this.next();
  }

  next() {
    if (this.busy || this.waiting === null || this.timer) return;
    const left = this.last + this.pause - performance.now();
    if (left > 0) {
      this.timer = setTimeout(() => {
        this.timer = 0;
        this.next();
      }, left);
      return;
    }
    const given = this.waiting;
    this.waiting = null;
    this.busy = true;
    this.last = performance.now();
    this.work(given).finally(() => {
      this.busy = false;
      this.next();
    });
  }
}
