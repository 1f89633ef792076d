import { defineConfig } from 'vitest/config'

// The tests in a real browser against the real program. They share one machine, so they run one after another.
// `scripts/lighthouse` asks for its audits, which take minutes and need a package that the tests do not.
export default defineConfig({
  test: {
    environment: 'node',
    include: [process.env.WEB_AUDITS ? 'tests/**/*.audit.ts' : 'tests/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 120_000,
    reporters: ['verbose'],
  },
})
