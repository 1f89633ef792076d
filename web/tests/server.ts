// Starts the real program on a free port with a temporary data folder, on PostgreSQL if TEST_DATABASE_URL is set.
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createDatabase, type Database } from './database'

const BINARY = process.env.EMERGENT_BIN ? resolve(process.env.EMERGENT_BIN) : fileURLToPath(new URL('../../target/debug/emergent', import.meta.url))
const PATIENCE = 90_000

/** A hook that ran out of time leaves its server behind; it ends with the process of the tests. */
const running = new Set<ChildProcess>()
process.on('exit', () => running.forEach((child) => child.kill('SIGTERM')))

export type ServerOptions = {
  /** Further environment variables, such as `EMERGENT_REHEARSAL_SCRIPT`. */
  env?: Record<string, string>
  /** Whether the sample graph is loaded. */
  sample?: boolean
}

export class Server {
  readonly url: string
  readonly folder: string
  readonly token: string
  /** What the program printed. */
  output = ''
  #child: ChildProcess
  readonly #options: ServerOptions
  readonly #port: number
  readonly #database: Database | undefined

  private constructor(port: number, folder: string, options: ServerOptions) {
    this.url = `http://127.0.0.1:${port}`
    this.folder = folder
    this.#port = port
    this.#options = options
    this.#database = createDatabase()
    this.#child = this.#spawn()
    this.token = ''
  }

  static async start(options: ServerOptions = {}): Promise<Server> {
    const folder = mkdtempSync(join(tmpdir(), 'emergent-web-'))
    const server = new Server(await freePort(), folder, options)
    await server.#ready()
    Object.assign(server, { token: readFileSync(join(folder, 'admin-token'), 'utf8').trim() })
    return server
  }

  /** The link with a one-time code that the program printed at its start. */
  get loginLink(): string {
    const link = /\S+\/login\?code=\S+/.exec(this.output)?.[0]
    if (!link) throw new Error(`the program printed no login link:\n${this.output}`)
    return link
  }

  /** Calls the API with the admin token and returns the data of the answer. */
  async api<T = never>(method: string, path: string, body?: unknown): Promise<T> {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) },
      body: body === undefined ? undefined : JSON.stringify(body),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
    return text ? (JSON.parse(text) as { data: T }).data : (undefined as T)
  }

  /** Ends the program at once, as a crash does. */
  async kill() {
    await this.#end('SIGKILL')
  }

  /** Starts the program again with the same data and the same address. */
  async restart() {
    this.output = ''
    this.#child = this.#spawn()
    await this.#ready()
  }

  async stop() {
    await this.#end('SIGTERM')
    this.#database?.drop()
    rmSync(this.folder, { recursive: true, force: true })
  }

  #spawn(): ChildProcess {
    const args = ['serve', '--data-dir', this.folder, ...(this.#options.sample === false ? [] : ['--sample'])]
    const child = spawn(BINARY, args, {
      env: {
        PATH: process.env.PATH,
        EMERGENT_PROGRAM: process.env.EMERGENT_PROGRAM,
        HOME: this.folder,
        EMERGENT_LISTEN: `127.0.0.1:${this.#port}`,
        EMERGENT_EMBEDDINGS: 'off',
        ...(this.#database && { EMERGENT_DATABASE_URL: this.#database.url }),
        ...this.#options.env,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    running.add(child)
    child.once('exit', () => running.delete(child))
    child.stdout.on('data', (bytes: Buffer) => (this.output += bytes.toString()))
    child.stderr.on('data', (bytes: Buffer) => (this.output += bytes.toString()))
    return child
  }

  async #ready() {
    const end = Date.now() + PATIENCE
    for (;;) {
      const isReady = await fetch(`${this.url}/ready`).then((response) => response.ok, () => false)
      if (isReady && this.output.includes('/login?code=')) return
      if (this.#child.exitCode !== null || Date.now() > end) throw new Error(`the server did not start:\n${this.output}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }

  #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
    return new Promise((resolve) => {
      let below: number[] = []
      const killAll = () => {
        below = childrenOf(child.pid!)
        child.kill('SIGKILL')
      }
      const patience = setTimeout(killAll, 30_000)
      child.once('exit', () => {
        clearTimeout(patience)
        below.forEach(killQuietly)
        resolve()
      })
      if (signal === 'SIGKILL') killAll()
      else child.kill(signal)
    })
  }
}

/** `front.mjs` has the program as its child, which would outlive it. */
function childrenOf(pid: number): number[] {
  if (!process.env.EMERGENT_PROGRAM) return []
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

function killQuietly(pid: number) {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const probe = createServer()
    probe.once('error', reject)
    probe.listen(0, '127.0.0.1', () => {
      const address = probe.address()
      probe.close(() => (typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port'))))
    })
  })
}
