import { useState } from 'react'
import { Card } from '~/ui/Card'
import { JsonView } from '~/ui/JsonView'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import { words } from '~/util/format'
import type { RunDetail } from './run-queries'

const LONG = 420
const ADVICE: Record<string, string> = {
  step_limit: 'It used all of its steps. Resume it to give it as many again.',
  timeout: 'Its time was up. Resume it, or start it again with a longer timeout.',
  doom_loop: 'It repeated the same calls after a warning. Change the prompt or the tools of the agent.',
  budget: 'A budget did not allow another model call. Raise the limit and start it again.',
  provider: 'The model could not be reached, or refused to answer. Check the key and the name of the model.',
  truncated: 'Its answer was cut off four times in a row. Raise the maximum length of answers, or ask for less.',
  empty: 'The model answered with nothing. Change the prompt, or use another model.',
  invalid_output: 'The answer did not match the output schema of the agent.',
  definition: 'The definition of the agent was deleted or cannot be used.',
  flow: 'A part of the flow did not complete. Look at the runs below.',
  error: 'The log of the server says more.',
}

/** What came of the run: its answer, or why there is none and what to do. */
export function ResultCard({ run }: { run: RunDetail }) {
  const text = run.summary && 'text' in run.summary ? run.summary.text : undefined
  const failed = run.errorMessage ?? (run.status === 'failed' ? 'The run ended without a message.' : undefined)
  const advice = run.reason ? ADVICE[run.reason] : undefined
  if (!text && !failed && !advice && run.output === undefined) return null
  return (
    <Card title={run.status === 'completed' ? 'Result' : run.status === 'failed' ? 'Why it failed' : 'Where it stopped'}>
      <div className="space-y-3">
        {failed && <p className="break-words text-fail"><WithCode text={failed} /></p>}
        {advice && <p className="text-text-2">{advice}</p>}
        {run.reason && !advice && <p className="text-text-2">Reason: {words(run.reason)}</p>}
        {text && <LongText text={text} />}
        {run.output !== undefined && run.output !== null && <JsonView value={run.output} />}
      </div>
    </Card>
  )
}

export function LongText({ text, className }: { text: string; className?: string }) {
  const [all, setAll] = useState(false)
  const isLong = text.length > LONG
  return (
    <div className={classes('max-w-3xl', className)}>
      <p className="break-words whitespace-pre-wrap">{isLong && !all ? `${text.slice(0, LONG)}…` : text}</p>
      {isLong && (
        <button type="button" onClick={() => setAll(!all)} aria-expanded={all} className="mt-1 rounded-sm text-xs font-medium text-accent-text hover:underline">
          {all ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
        </button>
      )}
    </div>
  )
}
