// Fails when the UI is larger than its budget. The first screen is the entry with everything it imports, and the page `/`.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'

const BUDGET = { 'JavaScript of the first screen': 190_000, 'JavaScript in all': 450_000, 'CSS in all': 20_000 }
const FIRST_PAGE = 'app/pages/overview/OverviewPage.tsx'

const dist = fileURLToPath(new URL('../dist', import.meta.url))
const manifestPath = join(dist, '.vite/manifest.local')
if (!existsSync(manifestPath)) {
  console.error('budget: dist/ is empty; run `npm run build` first')
  process.exit(1)
}
const manifest = JSON.parse(readFileSync(manifestPath, 'utf8'))
const size = (file) => gzipSync(readFileSync(join(dist, file)), { level: 9 }).length

function reach(name, seen) {
  const chunk = manifest[name]
  if (!chunk || seen.has(chunk.file)) return seen
  seen.add(chunk.file)
  for (const imported of chunk.imports ?? []) reach(imported, seen)
  return seen
}

if (!manifest[FIRST_PAGE]) {
  console.error(`budget: ${FIRST_PAGE} is no chunk of its own any more; name the first page in scripts/budget.mjs`)
  process.exit(1)
}
const first = reach(FIRST_PAGE, reach('index.html', new Set()))
const assets = readdirSync(join(dist, 'assets'))
const sum = (files) => files.reduce((total, file) => total + size(file), 0)
const measured = {
  'JavaScript of the first screen': sum([...first].filter((file) => file.endsWith('.js'))),
  'JavaScript in all': sum(assets.filter((file) => file.endsWith('.js')).map((file) => `assets/${file}`)),
  'CSS in all': sum(assets.filter((file) => file.endsWith('.css')).map((file) => `assets/${file}`)),
}
let failed = false
for (const [name, limit] of Object.entries(BUDGET)) {
  const over = measured[name] > limit
  failed ||= over
  console.log(`${over ? 'too large' : 'ok'}: ${name}: ${(measured[name] / 1000).toFixed(1)} kB of ${limit / 1000} kB gzipped`)
}
process.exit(failed ? 1 : 0)
