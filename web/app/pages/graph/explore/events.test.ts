import { expect, it } from 'vitest'
import { EventEmitter } from './events'

it('calls the listeners of an event in their order, with its arguments', () => {
  const emitter = new EventEmitter()
  const heard: unknown[] = []
  emitter.on('moved', (x, y) => heard.push(['first', x, y]))
  emitter.on('moved', (x) => heard.push(['second', x]))
  expect(emitter.emit('moved', 1, 2)).toBe(true)
  expect(emitter.emit('other')).toBe(false)
  expect(heard).toEqual([['first', 1, 2], ['second', 1]])
})

it('lets a listener remove itself while the event is emitted', () => {
  const emitter = new EventEmitter()
  const heard: string[] = []
  emitter.once('ready', () => heard.push('once'))
  const first = () => {
    heard.push('first')
    emitter.removeListener('ready', first)
  }
  emitter.on('ready', first)
  emitter.on('ready', () => heard.push('always'))
  emitter.emit('ready')
  emitter.emit('ready')
  expect(heard).toEqual(['once', 'first', 'always', 'always'])
})

it('forgets the listeners of one event or of all', () => {
  const emitter = new EventEmitter()
  emitter.on('a', () => {}).on('b', () => {})
  emitter.removeAllListeners('a')
  expect([emitter.emit('a'), emitter.emit('b')]).toEqual([false, true])
  emitter.removeAllListeners()
  expect(emitter.emit('b')).toBe(false)
})
