import { useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { keys } from '~/api/keys'
import { importGraph, type ImportProgress } from '~/api/transfer'
import { Button } from '~/ui/Button'
import { Dialog } from '~/ui/Dialog'
import { InlineError } from '~/ui/ErrorState'
import { Field, Input, Switch, Textarea } from '~/ui/Field'
import { KeyValue } from '~/ui/KeyValue'
import { ScrollList } from '~/ui/ScrollList'
import { toast } from '~/ui/toast'
import { formatCount } from '~/util/format'

const EXAMPLE = '{"kind":"object","type":"Person","key":"ada","properties":{"name":"Ada Lovelace"}}'
const MAX_ERRORS = 100
type Counts = ImportProgress['objects']

const told = ({ created, updated, unchanged }: Counts) => `${formatCount(created)} created, ${formatCount(updated)} updated, ${formatCount(unchanged)} unchanged`

export function ImportDialog({ onClose }: { onClose: () => void }) {
  const client = useQueryClient()
  const [file, setFile] = useState<File>()
  const [text, setText] = useState('')
  const [skipErrors, setSkipErrors] = useState(false)
  const [progress, setProgress] = useState<ImportProgress>()
  const [errors, setErrors] = useState<ImportProgress['errors']>([])
  const [failure, setFailure] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])

  const start = async () => {
    running.current = new AbortController()
    setBusy(true)
    setFailure(undefined)
    setErrors([])
    setProgress(undefined)
    try {
      await importGraph(file ?? new Blob([text]), {
        skipErrors,
        signal: running.current.signal,
        onProgress: (next) => {
          setProgress(next)
          setErrors((known) => [...known, ...next.errors].slice(0, MAX_ERRORS))
          if (next.done && !next.stopped) toast('The import is complete.', { description: `Objects: ${told(next.objects)}.` })
        },
      })
    } catch (error) {
      setFailure(error)
    } finally {
      setBusy(false)
      void client.invalidateQueries({ queryKey: keys.objects })
    }
  }
  const isEmpty = !file && text.trim() === ''
  return (
    <Dialog
      open
      onClose={onClose}
      onSubmit={() => void start()}
      isSaved={progress?.done}
      title="Import objects and relationships"
      description="NDJSON: one JSON object on each line. Objects are matched by type and key, so the same file can be imported again."
      footer={
        <>
          <Button onClick={onClose}>{progress?.done ? 'Close' : 'Cancel'}</Button>
          <Button variant="primary" busy={isBusy} disabledReason={isEmpty ? 'Choose a file or paste lines first.' : undefined} type="submit">
            Import
          </Button>
        </>
      }
    >
      <div className="space-y-3">
        <Field label="File">{(ids) => <Input {...ids} type="file" accept=".ndjson,.jsonl,application/x-ndjson" className="h-auto! py-1.5" onChange={(event) => setFile(event.target.files?.[0])} />}</Field>
        {!file && (
          <Field label="Or lines">{(ids) => <Textarea {...ids} rows={5} className="font-mono text-xs!" placeholder={EXAMPLE} value={text} onChange={(event) => setText(event.target.value)} />}</Field>
        )}
        <Switch label="Skip lines that are wrong instead of stopping at them" checked={skipErrors} onChange={setSkipErrors} />
      </div>
      {progress && (
        <div role="status" className="mt-4 rounded-md border border-line bg-sunken p-3">
          <p className="mb-2 font-medium">{progress.stopped ? 'The import stopped at a wrong line. The batch with that line was not written.' : progress.done ? 'The import is complete.' : 'Importing…'}</p>
          <KeyValue
            items={[
              ['Lines', formatCount(progress.lines)],
              ['Objects', told(progress.objects)],
              ['Relationships', told(progress.relationships)],
              ['Wrong lines', progress.failed > 0 && formatCount(progress.failed)],
            ]}
          />
        </div>
      )}
      {errors.length > 0 && (
        <ScrollList label="Wrong lines" className="mt-3 max-h-40 space-y-1 text-xs text-fail">
          {errors.map((error) => (
            <li key={error.line}>
              Line {formatCount(error.line)}: {error.field ? `${error.field}: ` : ''}
              {error.message}
            </li>
          ))}
        </ScrollList>
      )}
      <InlineError error={failure} />
    </Dialog>
  )
}
