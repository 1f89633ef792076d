// What sigma and graphology use of the module `events` of Node.js, which browsers do not have (see vite.config.ts). The
// package that imitates the whole module is much larger.

type Listener = (...args: unknown[]) => void

export class EventEmitter {
  // A list is replaced and never changed, so that a listener may remove itself while an event is emitted.
  readonly #listeners = new Map<string, Listener[]>()

  on(event: string, listener: Listener): this {
    this.#listeners.set(event, [...(this.#listeners.get(event) ?? []), listener])
    return this
  }

  once(event: string, listener: Listener): this {
    const once = (...args: unknown[]) => {
      this.off(event, once)
      listener.apply(this, args)
    }
    return this.on(event, once)
  }

  off(event: string, listener: Listener): this {
    const left = this.#listeners.get(event)?.filter((one) => one !== listener)
    if (left) this.#listeners.set(event, left)
    return this
  }

  removeListener(event: string, listener: Listener): this {
    return this.off(event, listener)
  }

  removeAllListeners(event?: string): this {
    if (event === undefined) this.#listeners.clear()
    else this.#listeners.delete(event)
    return this
  }

  emit(event: string, ...args: unknown[]): boolean {
    const listeners = this.#listeners.get(event) ?? []
    for (const listener of listeners) listener.apply(this, args)
    return listeners.length > 0
  }
}
