import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const css = readFileSync('app/ui/tokens.css', 'utf8')
const [light, dark] = css.split(":root[data-theme='dark']").map((theme) => new Map([...theme.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, colour]) => [name!, colour!])))
const themes = Object.entries({ light: light!, dark: dark! })

const channels = (colour: string) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
function luminance(colour: string) {
  const [red, green, blue] = channels(colour).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
  return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
}
function contrast(one: string, other: string) {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b)
  return (high! + 0.05) / (low! + 0.05)
}
function hue(colour: string) {
  const [red, green, blue] = channels(colour) as [number, number, number]
  return (Math.atan2(Math.sqrt(3) * (green - blue), 2 * red - green - blue) * 180) / Math.PI
}

it.each(themes)('has texts of every tone that can be read on every surface: %s', (_name, theme) => {
  for (const tone of ['ok', 'run', 'wait', 'warn', 'fail', 'pause', 'idle']) {
    for (const surface of ['bg', 'surface', 'raised', 'sunken', 'hover', 'selected', `${tone}-soft`]) {
      expect(contrast(theme.get(`${tone}-text`)!, theme.get(surface)!), `${tone} on ${surface}`).toBeGreaterThanOrEqual(4.5)
    }
  }
})

it.each(themes)('does not mark what waits for a person as a warning: %s', (_name, theme) => {
  for (const part of ['text', 'soft', 'fill']) {
    const apart = Math.abs(hue(theme.get(`wait-${part}`)!) - hue(theme.get(`warn-${part}`)!))
    expect(Math.min(apart, 360 - apart), part).toBeGreaterThan(60)
  }
  for (const tone of ['wait', 'warn']) expect(contrast(theme.get(`${tone}-fill`)!, theme.get('surface')!), tone).toBeGreaterThanOrEqual(3)
})
