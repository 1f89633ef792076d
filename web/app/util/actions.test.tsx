import { act } from 'react'
import { createRoot } from 'react-dom/client'
import { expect, it } from 'vitest'
import { type Action, isRegistered, useActions, useRegisteredActions } from './actions'

it('lists the actions of a page with the reasons of its buttons', async () => {
  Object.assign(globalThis, { IS_REACT_ACT_ENVIRONMENT: true })
  let offered: readonly Action[] = []
  const Palette = () => {
    offered = useRegisteredActions()
    return null
  }
  const Page = ({ actions }: { actions: readonly Action[] }) => {
    useActions(actions)
    return null
  }
  const action = (id: string, disabledReason?: string): Action => ({ id, label: id, disabledReason, run: () => {} })
  const root = createRoot(document.createElement('div'))
  const show = (...actions: Action[]) => act(() => root.render(<><Page actions={actions} /><Palette /></>))
  await show(action('edit'), action('trigger', 'Your token lacks the scope agents:invoke.'))
  expect(offered.map(({ id, disabledReason }) => [id, disabledReason])).toEqual([['edit', undefined], ['trigger', 'Your token lacks the scope agents:invoke.']])
  // The palette knows that it belongs to the page, so that it does not offer its own entry instead.
  expect(isRegistered('trigger')).toBe(true)
  await show(action('edit', 'The agent is not loaded.'), action('trigger'))
  expect(offered.map(({ id, disabledReason }) => [id, disabledReason])).toEqual([['edit', 'The agent is not loaded.'], ['trigger', undefined]])
  await act(() => root.unmount())
  expect(isRegistered('trigger')).toBe(false)
})
