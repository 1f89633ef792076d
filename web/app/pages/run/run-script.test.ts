import { expect, it } from 'vitest'
import { toYaml } from '~/util/yaml'
import { type Recorded, scriptOf, shellQuoted } from './run-script'

const START = Date.parse('2026-11-17T10:00:00Z')
const id = (at: number, end: string) => `${at.toString(16).padStart(12, '0').replace(/(.{8})/, '$1-')}-7000-8000-${end.padStart(12, '0')}`
const user = (text: string, injected?: string) => ({ id: `u-${text}`, runId: 'r', role: 'user', content: { text, injected }, stepNumber: 0, createdAt: '' })
const answer = (step: number, text: string, calls: string[] = []) => ({ id: `a-${step}-${text}`, runId: 'r', role: 'assistant', content: { text, toolCalls: calls.map((one) => ({ id: one, toolName: '' })) }, stepNumber: step, createdAt: '' })
const call = (messageId: string, callId: string, toolName: string, input: unknown, output: unknown) => ({ id: callId, runId: 'r', messageId, toolName, input, output, status: 'completed', stepNumber: 1, createdAt: '' })
const record = (runs: unknown[][], calls: unknown[] = [], more: Partial<Recorded> = {}) => scriptOf({ agentName: 'auditor', runId: 'r1', createdAt: '2026-11-17T10:00:00Z', runs: runs as never, calls: calls as never, below: [], originalInputs: new Map(), ...more })

it('writes answers and calls step by step', () => {
  const { yaml, answers, calls, input, notes } = record([[user('Audit it.'), answer(1, 'I look.', ['c2', 'c1']), answer(2, 'Two lines:\n\n- done')]], [call('a-1-I look.', 'c1', 'get', { id: 'x' }, 1), call('a-1-I look.', 'c2', 'search', { q: 'a: "b"', limit: 5, of: [1, null], deep: {} }, 1)])
  expect(yaml).toBe(`# What the model answered in run r1 of auditor, step by step.
rules:
  - when: { agent: "auditor", step: 1 }
    answer:
      text: "I look."
      calls:
        - tool: "search"
          input:
            q: "a: \\"b\\""
            limit: 5
            of: [1, null]
            deep: {}
        - tool: "get"
          input: { id: "x" }
  - when: { agent: "auditor", step: 2 }
    answer:
      text: |-
        Two lines:

        - done
`)
  expect([answers, calls, input, notes.length]).toEqual([2, 2, 'Audit it.', 1])
})

it('takes ids that the run made from the results of the next run, and keeps older ones', () => {
  const [old, made, lost] = [id(START - 1000, '1'), id(START + 1000, '2'), id(START + 2000, '3')]
  const { yaml, notes } = record(
    [[user('Go.'), answer(1, '', ['c1']), answer(2, `Made ${made}, not ${old} or ${lost}.`)]],
    [call('a-1-', 'c1', 'entities_create', { of: old }, { objects: [{ id: made }] })],
  )
  expect(yaml).toContain(`"Made {{results.entities_create.objects.0.id}}, not ${old} or ${lost}."`)
  expect(yaml).toContain(`of: "${old}"`)
  expect(notes.join()).toContain(lost)
})

it('says what it changes: braces, edits and pauses', () => {
  const { yaml, notes } = record([[user('Go.'), answer(1, 'Use {{name}}.', ['c1']), user('Sum up.', 'step_limit'), answer(1, 'A summary.')], [user('More.'), answer(2, 'Done.')]], [call('a-1-Use {{name}}.', 'c1', 'pay', { eur: 2 }, 1)], { originalInputs: new Map([['c1', { eur: 1 }]]) })
  expect(yaml).toContain('"Use { {name}}."')
  expect(yaml).toContain('eur: 1')
  expect(yaml).not.toContain('A summary.')
  expect(notes).toHaveLength(4)
})

it('plays an incomplete answer of a step once', () => {
  expect(record([[answer(1, 'Half'), answer(1, 'Whole')]]).yaml.match(/times: 1/g)).toHaveLength(1)
})

it('quotes what YAML would read otherwise', () => {
  expect(toYaml({ yes: ' a\nb', 'a b': ['x\ny', [1], []], n: '\u0085\n' })).toBe('"yes": " a\\nb"\n"a b":\n  - |-\n    x\n    y\n  - [1]\n  - []\n"n": "\\u0085\\n"\n')
  expect(shellQuoted("it's")).toBe("'it'\\''s'")
})

it('tells the runs that it started apart by what they were asked', () => {
  const child = (task: string, text: string) => ({ agentName: 'checker', messages: [user(task), answer(1, text)] as never, calls: [] })
  const { yaml, notes } = record([[user('Go.'), answer(1, 'Done.')]], [], { below: [child('Check March.', 'Yes.'), child('Check April.', 'No.'), child('Check April.', 'Perhaps.')] })
  expect(yaml).toContain('- when: { agent: "checker", input: "Check April.", step: 1 }\n    answer: { text: "No." }')
  expect(yaml.indexOf('checker')).toBeLessThan(yaml.indexOf('- when: { agent: "auditor"'))
  expect(notes.join()).toContain('several times')
})
