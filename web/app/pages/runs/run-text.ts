import type { Run } from '~/api/types'
import { shortText } from '~/util/short-text'

type Described = Pick<Run, 'status' | 'model'> & Partial<Pick<Run, 'errorMessage' | 'summary' | 'inputPreview'>>

export const isOver = (run: Pick<Run, 'status'>) => ['completed', 'failed', 'paused', 'cancelled'].includes(run.status)

/** What a run was asked, in a sentence, or its model if that is not known. */
export const askedText = (run: Described): string => (run.inputPreview ? shortText(run.inputPreview) : run.model)

/** What came of it, once it is over: its error, or the first line of its result. */
export const outcomeText = (run: Described): string | undefined => (isOver(run) && (run.errorMessage || run.summary?.text.trim().split('\n', 1)[0])) || undefined
