import { expect, it } from 'vitest'
import { drawHover, drawLabel, type Theme } from './picture-theme'

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
  for (const label of ['Card payments', 'A name that is much longer than a label shows']) {
    const { context, texts, boxes } = canvas()
    const node = { x: 100, y: 50, size: 9, label, color: '' }
    drawLabel(context, node, 12, theme)
    drawHover(context, node, 12, theme)
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
