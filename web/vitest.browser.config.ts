import { defineConfig } from 'vitest/config'

// The tests in a real browser against the real program. They share one machine, so they run one after another.
export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 240_000,
    hookTimeout: 120_000,
    reporters: ['verbose'],
  },
})
