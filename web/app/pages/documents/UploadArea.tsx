import { Link } from '@tanstack/react-router'
import { CircleCheck, CircleX, FileUp, RotateCcw, X } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { oneOf, type RawSearch, useUrlState } from '~/hooks/use-url-state'
import { Button, IconButton } from '~/ui/Button'
import { WithCode } from '~/ui/WithCode'
import { classes } from '~/util/classes'
import { formatBytes } from './format-bytes'
import { addFiles, cancelUpload, canRetry, clearUploads, retryUpload, type Upload, useUploads, whyFailed } from './uploads'

const ACCEPT = '.txt,.md,.markdown,.html,.htm,.pdf,text/plain,text/markdown,text/html,application/pdf'

const parse = (raw: RawSearch) => ({ dialog: oneOf(['upload'], raw.dialog) })

/** Takes files by choosing and by dropping, and shows how far each is. */
export function UploadArea({ disabledReason }: { disabledReason: string | undefined }) {
  const input = useRef<HTMLInputElement>(null)
  const [isOver, setOver] = useState(false)
  const uploads = useUploads()
  const [{ dialog }, change] = useUrlState(parse)
  useEffect(() => {
    if (!dialog) return
    // Browsers show their dialog only soon after a key or a click; a link that was opened shows the area alone.
    if (disabledReason === undefined && navigator.userActivation?.isActive) input.current?.click()
    change({ dialog: '' })
  }, [dialog, change, disabledReason])
  const isActive = uploads.some(({ state }) => ['waiting', 'sending', 'reading'].includes(state))
  return (
    <div className="mb-4">
      <div
        data-drop
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          setOver(false)
          if (!disabledReason) addFiles(event.dataTransfer.files)
        }}
        className={classes('flex flex-wrap items-center gap-x-4 gap-y-2 rounded-lg border border-dashed px-4 py-3', isOver ? 'border-accent bg-accent-soft' : 'border-line-strong bg-surface')}
      >
        <FileUp aria-hidden size={18} className="text-text-3" />
        <p className="min-w-0 flex-1">
          <span className="font-medium">Drop files here.</span> <span className="text-text-2">Text, Markdown, HTML or PDF, up to 64 MiB each.</span>
        </p>
        <Button variant="primary" disabledReason={disabledReason} onClick={() => input.current?.click()}>
          Choose files
        </Button>
        <input
          ref={input}
          type="file"
          multiple
          hidden
          accept={ACCEPT}
          aria-label="Files to upload"
          onChange={(event) => {
            addFiles(event.target.files ?? [])
            event.target.value = ''
          }}
        />
      </div>
      {uploads.length > 0 && (
        <section aria-label="Uploads" className="mt-2 rounded-lg border border-line bg-surface shadow-card">
          <ul className="max-h-56 divide-y divide-line overflow-auto">
            {uploads.map((upload) => (
              <UploadRow key={upload.id} upload={upload} />
            ))}
          </ul>
          {!isActive && (
            <div className="border-t border-line px-2 py-1.5 text-right">
              <Button size="sm" variant="ghost" onClick={clearUploads}>
                Clear this list
              </Button>
            </div>
          )}
        </section>
      )}
    </div>
  )
}

const TEXTS: Record<Upload['state'], string> = { waiting: 'Waits', sending: 'Uploading', reading: 'The server reads it', done: 'Added', known: 'The same file was there already', failed: 'Failed', cancelled: 'Cancelled' }

function UploadRow({ upload }: { upload: Upload }) {
  const percent = Math.round(upload.sent * 100)
  const isMoving = upload.state === 'sending' || upload.state === 'reading'
  return (
    <li className="flex items-center gap-3 px-4 py-2">
      <div className="min-w-0 flex-1">
        <p className="flex items-center gap-2">
          {upload.document ? (
            <Link to="/documents/$documentId" params={{ documentId: upload.document.id }} className="truncate font-medium hover:underline">
              {upload.name}
            </Link>
          ) : (
            <span className="truncate font-medium">{upload.name}</span>
          )}
          <span className="text-xs whitespace-nowrap text-text-3">{formatBytes(upload.size)}</span>
        </p>
        {isMoving && (
          <div role="progressbar" aria-label={`Upload of ${upload.name}`} aria-valuenow={percent} aria-valuemin={0} aria-valuemax={100} className="mt-1 h-1 overflow-hidden rounded-full bg-sunken">
            <div className={classes('h-full bg-accent transition-[width]', upload.state === 'reading' && 'animate-breathe')} style={{ width: `${percent}%` }} />
          </div>
        )}
        {upload.error && <p role="alert" className="text-xs break-words text-fail"><WithCode text={whyFailed(upload.error)} /></p>}
      </div>
      <span className="flex items-center gap-1.5 text-xs whitespace-nowrap text-text-2">
        {(upload.state === 'done' || upload.state === 'known') && <CircleCheck aria-hidden size={14} className="text-ok" />}
        {upload.state === 'failed' && <CircleX aria-hidden size={14} className="text-fail" />}
        {TEXTS[upload.state]}
        {upload.state === 'sending' && ` ${percent} %`}
      </span>
      {(isMoving || upload.state === 'waiting') && (
        <IconButton size="sm" label={`Cancel the upload of ${upload.name}`} onClick={() => cancelUpload(upload.id)}>
          <X aria-hidden size={14} />
        </IconButton>
      )}
      {canRetry(upload) && (
        <IconButton size="sm" label={`Upload ${upload.name} again`} onClick={() => retryUpload(upload.id)}>
          <RotateCcw aria-hidden size={14} />
        </IconButton>
      )}
    </li>
  )
}
