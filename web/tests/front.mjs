#!/usr/bin/env node
// Puts web/dist of this checkout in front of a program that was built without it, or elsewhere, so that work on the UI
// needs no Rust compiler:
//
//     EMERGENT_PROGRAM=/path/to/emergent EMERGENT_BIN=tests/front.mjs ../scripts/web-tests
//
// It answers with the policy of the server and passes everything else on. What `make test` runs is the program itself.
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import http from 'node:http'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

const DIST = fileURLToPath(new URL('../dist', import.meta.url))
const PROGRAM = process.env.EMERGENT_PROGRAM
const TYPES = { '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml', '.html': 'text/html; charset=utf-8' }
const OF_PROGRAMS = /^\/(api|v1|a2a|mcp|\.well-known|health|ready|metrics|login|assets)(\/|$)/
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; font-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

if (!PROGRAM) {
  console.error('front: EMERGENT_PROGRAM has to name the program')
  process.exit(2)
}
const [host, port] = (process.env.EMERGENT_LISTEN ?? '127.0.0.1:4400').split(':')
const inner = Number(port) > 50_000 ? Number(port) - 20_000 : Number(port) + 10_000
const child = spawn(PROGRAM, process.argv.slice(2), { env: { ...process.env, EMERGENT_LISTEN: `127.0.0.1:${inner}` } })
child.stdout.on('data', (bytes) => process.stdout.write(bytes.toString().replaceAll(`:${inner}`, `:${port}`)))
child.stderr.on('data', (bytes) => process.stderr.write(bytes.toString().replaceAll(`:${inner}`, `:${port}`)))
child.on('exit', (code) => process.exit(code ?? 0))
for (const signal of ['SIGTERM', 'SIGINT']) process.on(signal, () => child.kill(signal))

function findFile(request) {
  if (request.method !== 'GET') return undefined
  const path = request.url.split('?')[0]
  if (TYPES[extname(path)] && !path.includes('..') && existsSync(DIST + path)) return path
  const isPage = (request.headers.accept ?? '').includes('text/html') && !OF_PROGRAMS.test(path)
  return isPage ? '/index.html' : undefined
}

// A file that is read while `npm run build` replaces it must not end the server.
process.on('uncaughtException', (error) => console.error(`front: ${error.message}`))

http
  .createServer((request, response) => {
    const file = findFile(request)
    if (file) {
      const isCompressed = /\bbr\b/.test(request.headers['accept-encoding'] ?? '') && existsSync(`${DIST}${file}.br`)
      response.writeHead(200, {
        'content-type': TYPES[extname(file)],
        'content-security-policy': POLICY,
        'x-content-type-options': 'nosniff',
        'cache-control': file.startsWith('/assets/') ? 'public, max-age=31536000, immutable' : 'no-cache',
        ...(isCompressed && { 'content-encoding': 'br' }),
      })
      response.end(readFileSync(DIST + file + (isCompressed ? '.br' : '')))
      return
    }
    const passed = http.request({ host: '127.0.0.1', port: inner, method: request.method, path: request.url, headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
      answer.on('error', () => response.destroy())
    })
    passed.on('error', () => {
      if (!response.headersSent) response.writeHead(502)
      response.destroy()
    })
    response.on('close', () => passed.destroy())
    request.pipe(passed)
  })
  .listen(Number(port), host)
