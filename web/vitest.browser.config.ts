import { defineConfig } from 'vitest/config'

// The tests in a real browser against the real program. They share one machine, so they run one after another.
export default defineConfig({
  test: {
    environment: 'node',
    include: ['tests/**/*.test.ts'],
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ['verbose'],
  },
})
