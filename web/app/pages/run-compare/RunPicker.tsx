import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { recentRunsQuery } from '~/api/queries'
import { Field, Select } from '~/ui/Field'
import { formatRelative, shortId, words } from '~/util/format'
import { shortText } from '~/util/short-text'
import { type RunDetail, runQuery } from '../run/run-queries'

/** Chooses a run: of the agent of the other run, if there is one, else of all. */
export function RunPicker({ label, value, other, onChange }: { label: string; value: string | undefined; other: RunDetail | undefined; onChange: (id: string | undefined) => void }) {
  const own = useQuery({ ...runQuery(value ?? ''), enabled: value !== undefined }).data
  const agent = other?.agentName ?? own?.agentName
  const recent = useQuery(recentRunsQuery(agent ? { agent } : {}, 50)).data?.items ?? []
  const runs = recent.some((run) => run.id === value) || !own ? recent : [own, ...recent]
  const now = Date.now()
  return (
    <Field
      label={
        <>
          {label}
          {value && (
            <>
              {' · '}
              <Link to="/runs/$runId" params={{ runId: value }} className="text-accent-text underline">
                open
              </Link>
            </>
          )}
        </>
      }
    >
      {(ids) => (
        <Select
          {...ids}
          aria-label={label}
          value={value ?? ''}
          onChange={(event) => onChange(event.target.value || undefined)}
          options={[{ value: '', label: 'Choose a run…' }, ...runs.map((run) => ({ value: run.id, label: `${run.agentName} ${shortId(run.id)}, ${words(run.status)}, ${formatRelative(Date.parse(run.createdAt), now)}${run.inputPreview ? `: ${shortText(run.inputPreview)}` : ''}` }))]}
        />
      )}
    </Field>
  )
}
