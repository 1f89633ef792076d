import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vite'

// `EMERGENT_URL` names the server that `npm run dev` calls; its host name has to be one that the server expects.
const server = process.env.EMERGENT_URL ?? 'http://127.0.0.1:4400'
const proxied = ['/api', '/login', '/v1', '/health', '/ready']

const proxy = Object.fromEntries(proxied.map((path) => [path, server]))

// Without groups every icon and helper that two pages share would be a file of its own: a hundred small files, which
// compress badly and are imported by name in every page. `tags` is what the first screen needs before anything else;
// the first page uses nothing of `work` and `agents`, which hold what the pages of one subject share.
const GROUPS = [
  { name: 'main', tags: ['$initial' as const], priority: 3 },
  { name: 'icons', test: /lucide-react/, priority: 2 },
  { name: 'forms', test: /[\\/]app[\\/]ui[\\/](Dialog|ConfirmDialog|Field|JsonField)/, priority: 1 },
  // No list of the first screen is long enough for it.
  { name: 'table', test: /tanstack[\\/](react-virtual|virtual-core)/, priority: 2 },
  { name: 'common', minShareCount: 6, priority: 1 },
  { name: 'work', test: /[\\/](pages[\\/](run|inbox|workflow)[\\/]|api[\\/]stream|ui[\\/]Markdown)/, minShareCount: 2 },
  { name: 'documents', test: /[\\/]pages[\\/]documents?[\\/]/, priority: 1 },
  // Small pages that whoever sets up a project opens one after the other.
  { name: 'admin', test: /[\\/]pages[\\/](budgets|secrets|tokens|tools)[\\/]/, priority: 1 },
  { name: 'agents', test: /[\\/]pages[\\/](agents|mcp-servers|products)[\\/]/, minShareCount: 2 },
]

// Each shape of an icon has a key of six random letters, which no compression makes shorter, and each icon its former
// names. The shapes of an icon never change their order, so that their places are keys as good as these.
const shortIcons: Plugin = {
  name: 'short-icons',
  apply: 'build',
  transform: {
    filter: { id: /lucide-react[\\/]dist[\\/]esm[\\/]icons[\\/]/ },
    handler(code) {
      let place = 0
      return { code: code.replace(/key: "\w+"/g, () => `key: "${place++}"`).replace(/,\s*aliases: \[[^\]]*\]/, ''), map: null }
    },
  },
}

const app = (path: string) => fileURLToPath(new URL(`./app${path}`, import.meta.url))

// Vite's own function preloads with `<link>`; a preload that fails is kept by Chromium as a failed import is.
const fetchThenImport: Plugin = {
  name: 'fetch-then-import',
  apply: 'build',
  enforce: 'pre',
  load: {
    filter: { id: /^\0vite\/preload-helper/ },
    handler: () => `export { fetchThenImport as __vitePreload } from ${JSON.stringify(app('/util/fetch-then-import.ts'))}`,
  },
}

export default defineConfig({
  plugins: [fetchThenImport, react(), tailwindcss(), shortIcons],
  resolve: { alias: [{ find: '~', replacement: app('') }, { find: /^events$/, replacement: app('/pages/graph/explore/events.ts') }] },
  server: { proxy },
  preview: { proxy },
  build: {
    target: 'es2022',
    // The policy of the server allows neither inline scripts nor `data:` scripts.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    manifest: true,
    // `dist/.gitignore` stays: the folder has to exist in every checkout.
    emptyOutDir: false,
    rolldownOptions: { output: { codeSplitting: { groups: GROUPS } } },
  },
})
