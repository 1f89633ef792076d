import { defineConfig } from 'vitest/config'

const SPEED = ['tests/*-speed.test.ts', 'tests/run-large.test.ts', 'tests/vitals.test.ts', 'tests/docs-images.test.ts']
// A machine that is busy with something else can make one wait too short. A test that passes at a later attempt is
// listed with the number of its attempts: it is a defect of that test, to be mended.
const common = { retry: 2, environment: 'node', testTimeout: 240_000, hookTimeout: 120_000 } as const

// The tests in a real browser against the real program. Each file has a server of its own, so two files run at a time;
// those that measure run alone, after the others. `--project screens` leaves them out, as `make test` does.
// `scripts/lighthouse` asks for its audits, which take minutes and need a package that the tests do not.
export default defineConfig({
  test: process.env.WEB_AUDITS
    ? { ...common, include: ['tests/**/*.audit.ts'], fileParallelism: false, reporters: ['verbose'] }
    : {
        reporters: ['verbose'],
        projects: [
          { test: { ...common, name: 'screens', include: ['tests/**/*.test.ts'], exclude: SPEED, maxWorkers: 2, sequence: { groupOrder: 0 } } },
          { test: { ...common, name: 'speed', include: SPEED, fileParallelism: false, maxWorkers: 1, sequence: { groupOrder: 1 } } },
        ],
      },
})
