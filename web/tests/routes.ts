// The routes of the app, as they are written in its source, and the pages that tests show everywhere.
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const TESTS = fileURLToPath(new URL('.', import.meta.url))

/** Paths such as `/runs/$runId`. */
export function routes(): string[] {
  const source = readFileSync(join(TESTS, '../app/router.tsx'), 'utf8')
  return [...source.matchAll(/createRoute\({[^}]*\bpath: '([^']+)'/g)].map((match) => match[1]!)
}

/** The route that a path belongs to; a constant part is preferred to a parameter. */
export function routeOf(path: string, known: string[]): string | undefined {
  const parts = path.split(/[?#]/, 1)[0]!.split('/')
  const fits = known.filter((route) => {
    const expected = route.split('/')
    return expected.length === parts.length && expected.every((part, index) => part.startsWith('$') || part === parts[index])
  })
  return fits.find((route) => !route.includes('$')) ?? fits[0]
}

/** The paths that are shown in both themes and widths, and asked by axe, in any test. A value in a path becomes `x`. */
export function shownEverywhere(): string[] {
  const sources = readdirSync(TESTS).filter((name) => name.endsWith('.test.ts')).map((name) => readFileSync(join(TESTS, name), 'utf8'))
  return sources.flatMap((source) => [...source.matchAll(/showEverywhere\([^,]+,[^,]+,[^,]+, (['`])(\/[^'`]*)\1/g)].map((match) => match[2]!.replaceAll(/\$\{[^}]*\}/g, 'x')))
}
