import { expect, it } from 'vitest'
import { drawHover, drawLabels, type Theme } from './picture-theme'

const theme = { surface: '', text: '', raised: '', line: '', accent: '' } as Theme

/** A canvas that notes where texts and boxes are drawn. Each letter is 6 pixels wide. */
function canvas() {
  const texts: { text: string; left: number; baseline: number }[] = []
  const boxes: { left: number; top: number; width: number; height: number }[] = []
  const context = {
    measureText: (text: string) => ({ width: text.length * 6 }),
    fillText: (text: string, left: number, baseline: number) => texts.push({ text, left, baseline }),
    roundRect: (left: number, top: number, width: number, height: number) => boxes.push({ left, top, width, height }),
    ...Object.fromEntries(['strokeText', 'beginPath', 'arc', 'fill', 'stroke'].map((name) => [name, () => {}])),
  }
  return { context: context as unknown as CanvasRenderingContext2D, texts, boxes }
}

it('covers the label of a node with the box of its name, so that the name is there once', () => {
  for (const [label, x] of [['Card payments', 200], ['A name that is much longer than a label shows', 200], ['Card payments', 3], ['Card payments', 396]] as const) {
    const { context, texts, boxes } = canvas()
    const node = { x, y: 50, size: 9, label, color: '' }
    drawLabels(context, [node], 12, theme, 400)
    drawHover(context, node, 12, theme, 400)
    const [below, name] = texts
    const [box] = boxes
    expect(name!.text).toBe(label)
    for (const one of [below!, name!]) {
      expect(one.left).toBeGreaterThanOrEqual(box!.left)
      expect(one.left + one.text.length * 6).toBeLessThanOrEqual(box!.left + box!.width)
      // From the top of a letter to the foot of one such as g.
      expect(one.baseline - 9).toBeGreaterThanOrEqual(box!.top)
      expect(one.baseline + 3).toBeLessThanOrEqual(box!.top + box!.height)
    }
  }
})

it('writes no name on another one, and that of the larger node first', () => {
  const { context, texts } = canvas()
  const node = (label: string, x: number, y: number, size: number) => ({ label, x, y, size, color: '' })
  drawLabels(context, [node('Small', 100, 50, 6), node('Large', 110, 52, 9), node('Below', 100, 90, 6), node('Beside', 200, 50, 6)], 12, theme, 400)
  expect(texts.map(({ text }) => text)).toEqual(['Large', 'Below', 'Beside'])
})

it('keeps the names of the nodes that are seen within the picture', () => {
  const { context, texts } = canvas()
  const node = (label: string, x: number) => ({ label, x, y: 50, size: 6, color: '' })
  drawLabels(context, [node('Payment gateway', 4), node('Order service', 356), node('Out of sight', -80)], 11, theme, 358)
  const [left, right, outside] = texts
  expect(left!.left).toBe(2)
  expect(right!.left + right!.text.length * 6).toBe(356)
  expect(outside!.left).toBeLessThan(-80)
})
