import { Switch as BaseSwitch } from '@base-ui/react/switch'
import { type ComponentProps, type ReactNode, useId } from 'react'
import { classes } from '~/util/classes'
import { Tooltip } from './Tooltip'
import { WithCode } from './WithCode'

const CONTROL =
  'w-full rounded-md border border-line-strong bg-surface px-2.5 text-sm text-text placeholder:text-text-3 hover:border-text-3 aria-invalid:border-danger disabled:opacity-60'

type Ids = { id: string; 'aria-describedby': string | undefined; 'aria-invalid': true | undefined }

/** A label, a control, and a hint or what is wrong. The control gets the ids that tie them together. */
export function Field({ label, hint, problem, children, className }: { label: ReactNode; hint?: ReactNode; problem?: string | undefined; children: (ids: Ids) => ReactNode; className?: string }) {
  const id = useId()
  const note = problem ?? hint
  return (
    <div className={classes('min-w-0', className)}>
      <label htmlFor={id} className="mb-1 block text-xs font-medium text-text-2">
        {label}
      </label>
      {children({ id, 'aria-describedby': note ? `${id}-note` : undefined, 'aria-invalid': problem ? true : undefined })}
      {note && (
        <p id={`${id}-note`} className={classes('mt-1.5 text-xs', problem ? 'text-danger-text' : 'text-text-3')}>
          {problem === undefined ? hint : <WithCode text={problem} />}
        </p>
      )}
    </div>
  )
}

export const Input = ({ className, ...rest }: ComponentProps<'input'>) => <input autoComplete="off" spellCheck={false} {...rest} className={classes(CONTROL, 'h-8', className)} />

export const Textarea = ({ className, ...rest }: ComponentProps<'textarea'>) => <textarea spellCheck={false} rows={4} {...rest} className={classes(CONTROL, 'py-1.5', className)} />

export type Option = { value: string; label: string }

/** The browser's own list: it works with every keyboard, screen reader and telephone. */
export const Select = ({ options, className, ...rest }: ComponentProps<'select'> & { options: Option[] }) => (
  <select {...rest} className={classes(CONTROL, 'h-8 pr-1.5 text-ellipsis', className)}>
    {options.map((option) => (
      <option key={option.value} value={option.value}>
        {option.label}
      </option>
    ))}
  </select>
)

/** In a table, its label is for those who hear the page. When it cannot be used it keeps the focus, so that its tooltip can say why. */
export function Switch({ checked, onChange, label, hideLabel, disabledReason }: { checked: boolean; onChange: (next: boolean) => void; label: ReactNode; hideLabel?: boolean; disabledReason?: string | undefined }) {
  return (
    <label className="flex items-center gap-2 text-sm">
      <Tooltip text={disabledReason}>
        <BaseSwitch.Root
          checked={checked}
          onCheckedChange={onChange}
          readOnly={disabledReason !== undefined}
          aria-disabled={disabledReason !== undefined || undefined}
          aria-description={disabledReason}
          className="flex h-4.5 w-8 shrink-0 rounded-full border border-line-strong bg-sunken p-0.5 transition-colors data-checked:border-accent data-checked:bg-accent data-readonly:opacity-55"
        >
          <BaseSwitch.Thumb className="size-3 rounded-full bg-text-3 transition-transform data-checked:translate-x-3.5 data-checked:bg-on-accent" />
        </BaseSwitch.Root>
      </Tooltip>
      {hideLabel ? <span className="sr-only">{label}</span> : label}
    </label>
  )
}
