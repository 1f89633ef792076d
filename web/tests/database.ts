// A database of its own for each server, if TEST_DATABASE_URL names a PostgreSQL: `scripts/postgres run scripts/web-tests`.
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { join } from 'node:path'

export type Database = { url: string; drop: () => void }

/** Creates an empty database; `undefined` means that the embedded one is to be used. */
export function createDatabase(): Database | undefined {
  const server = process.env.TEST_DATABASE_URL
  if (!server) return undefined
  const name = `web_${randomUUID().replaceAll('-', '')}`
  execute(server, `CREATE DATABASE ${name}`)
  const url = new URL(server)
  url.pathname = `/${name}`
  return { url: url.href, drop: () => execute(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`) }
}

function execute(server: string, statement: string) {
  const args = ['--no-psqlrc', '--quiet', '-v', 'ON_ERROR_STOP=1', '-c', statement, server]
  // `scripts/postgres run` names the folder of its programs; their libraries are beside it.
  const programs = process.env.TEST_POSTGRES_PROGRAMS
  const own = programs && existsSync(join(programs, 'psql')) ? programs : undefined
  const env = own ? { ...process.env, LD_LIBRARY_PATH: join(own, '../lib') } : process.env
  execFileSync(own ? join(own, 'psql') : 'psql', args, { env, stdio: ['ignore', 'ignore', 'pipe'] })
}
