import { capitalised, words } from '~/util/format'

const PAST: Record<string, string> = { put: 'changed', update: 'changed', accept_tool: 'tool accepted', set_budget: 'budget changed', bulk_cancel: 'selection cancelled', bulk_resume: 'selection resumed', cancel: 'cancelled', take_over: 'taken over', retry: 'retried', skip: 'skipped' }

/** What an entry says was done: `token.create` is "Token created". */
export function actionWords(action: string): string {
  const [kind = '', verb = ''] = action.split('.')
  return capitalised(`${words(kind)} ${PAST[verb] ?? `${words(verb)}${verb.endsWith('e') ? 'd' : 'ed'}`}`)
}
