import { Fragment } from 'react'

/** A name or an address that may continue on the next line after a `_`, `=` or `/`, so that no word of it is broken. */
export const Breakable = ({ text }: { text: string }) => text.split(/(?<=[_=/])(?![_=/])/).map((part, index) => <Fragment key={index}>{index > 0 && <wbr />}{part}</Fragment>)
