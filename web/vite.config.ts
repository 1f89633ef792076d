import tailwindcss from '@tailwindcss/vite'
import react from '@vitejs/plugin-react'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

// `EMERGENT_URL` names the server that `npm run dev` calls; its host name has to be one that the server expects.
const server = process.env.EMERGENT_URL ?? 'http://127.0.0.1:4400'
const proxied = ['/api', '/login', '/v1', '/health', '/ready']

const proxy = Object.fromEntries(proxied.map((path) => [path, server]))

// Without groups every icon and helper that two pages share would be a file of its own: a hundred small files, which
// compress badly and are imported by name in every page. `tags` is what the first screen needs before anything else.
const GROUPS = [
  { name: 'main', tags: ['$initial' as const], priority: 3 },
  { name: 'icons', test: /lucide-react/, priority: 2 },
  { name: 'forms', test: /[\\/]app[\\/]ui[\\/](Dialog|ConfirmDialog|Field|JsonField)/, priority: 1 },
  { name: 'common', minShareCount: 6 },
]

export default defineConfig({
  plugins: [react(), tailwindcss()],
  resolve: { alias: { '~': fileURLToPath(new URL('./app', import.meta.url)) } },
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
