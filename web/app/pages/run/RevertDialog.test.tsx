import { renderToStaticMarkup } from 'react-dom/server'
import { expect, it } from 'vitest'
import { Plan } from './RevertDialog'

it('counts what it does not list, of what is undone and of what stays', () => {
  const ids = Array.from({ length: 120 }, (_, index) => `0190f5a0-0000-7000-8000-${String(index).padStart(12, '0')}`)
  const undone = ids.map((id) => ({ kind: 'object', id, name: 'Note/a', how: 'deleted', version: 2 }))
  const conflicts = ids.map((id) => ({ kind: 'object', id, name: 'Note/a', reason: 'the key `b` is taken', currentVersion: 3 }))
  const shown = renderToStaticMarkup(<Plan plan={{ undone, unlistedUndone: 900, conflicts, unlistedConflicts: 30 }} />)
  expect(shown.match(/<li>and [^<]*<\/li>/g)).toEqual(['<li>and 920 more</li>', '<li>and 50 more</li>'])
  expect(shown).toContain('b</code> is taken')
})
