import type { ComponentProps, ReactNode, Ref } from 'react'
import { classes } from '~/util/classes'
import { Tooltip } from './Tooltip'

type Variant = 'primary' | 'secondary' | 'ghost' | 'danger'
type Size = 'sm' | 'md'

const VARIANTS: Record<Variant, string> = {
  primary: 'bg-accent text-on-accent hover:bg-accent-hover border-transparent shadow-card',
  secondary: 'bg-surface text-text hover:bg-hover border-line shadow-card',
  ghost: 'bg-transparent text-text-2 hover:bg-hover hover:text-text border-transparent',
  danger: 'bg-danger text-on-danger hover:bg-danger-hover border-transparent shadow-card',
}
const SIZES: Record<Size, string> = { sm: 'h-7 px-2 text-xs gap-1', md: 'h-8 px-3 text-sm gap-1.5' }

export const buttonClass = (variant: Variant = 'secondary', size: Size = 'md') =>
  classes(
    'inline-flex shrink-0 select-none items-center justify-center rounded-md border font-medium whitespace-nowrap transition-colors',
    'aria-disabled:opacity-55 aria-disabled:cursor-not-allowed',
    VARIANTS[variant],
    SIZES[size],
  )

export type ButtonProps = Omit<ComponentProps<'button'>, 'disabled'> & {
  variant?: Variant
  size?: Size
  icon?: ReactNode
  /** Disables the button and says why, to the eye and to a screen reader. */
  disabledReason?: string | undefined
  /** Disables the button while its work is in progress. */
  busy?: boolean
  ref?: Ref<HTMLButtonElement>
}

/** The button without a tooltip, for those that have one of their own. */
function PlainButton({ variant = 'secondary', size = 'md', icon, disabledReason, busy, children, className, onClick, type = 'button', ...rest }: ButtonProps) {
  const disabled = disabledReason !== undefined || busy
  return (
    <button
      type={type}
      {...rest}
      aria-disabled={disabled || undefined}
      aria-busy={busy || undefined}
      aria-description={disabledReason}
      onClick={(event) => (disabled ? event.preventDefault() : onClick?.(event))}
      className={classes(buttonClass(variant, size), className)}
    >
      {icon}
      {children}
    </button>
  )
}

export function Button(props: ButtonProps) {
  return props.disabledReason ? (
    <Tooltip text={props.disabledReason}>
      <PlainButton {...props} />
    </Tooltip>
  ) : (
    <PlainButton {...props} />
  )
}

/** A button that shows only an icon; `label` is its name and its tooltip. */
export function IconButton({ label, size = 'md', className, children, ...rest }: ButtonProps & { label: string }) {
  return (
    <Tooltip text={rest.disabledReason ?? label}>
      <PlainButton variant="ghost" {...rest} size={size} aria-label={label} className={classes(size === 'sm' ? 'w-7 px-0!' : 'w-8 px-0!', className)}>
        {children}
      </PlainButton>
    </Tooltip>
  )
}
