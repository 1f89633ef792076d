import { Dialog } from '~/ui/Dialog'
import { PAGES } from './navigation'

const GENERAL: [string[], string][] = [
  [['Ctrl', 'K'], 'Search or run a command'],
  [['?'], 'Show these shortcuts'],
  [['j'], 'Next row of a list'],
  [['k'], 'Previous row of a list'],
  [['Enter'], 'Open the row'],
  [['x'], 'Select the row'],
  [['Esc'], 'Close what is open'],
]

const OF_PAGES: [string, [string[], string][]][] = [
  [
    'Inbox',
    [
      [['a'], 'Go to the button that approves; Enter presses it'],
      [['e'], 'Edit the input of the call'],
      [['d'], 'Deny, or cancel the workflow'],
      [['r'], 'Answer'],
      [['Ctrl', 'Enter'], 'Send the form'],
    ],
  ],
  ['Graph', [[['/'], 'Search']]],
  [
    'Runs',
    [
      [['Shift', 'x'], 'Select all rows up to this one'],
    ],
  ],
  [
    'Chat',
    [
      [['Enter'], 'Send the message'],
      [['Shift', 'Enter'], 'Begin a line'],
      [['Esc'], 'Stop the answer'],
    ],
  ],
]

function Row({ keys, text }: { keys: string[]; text: string }) {
  return (
    <div className="flex items-center justify-between gap-4 py-1">
      <dt className="text-text-2">{text}</dt>
      <dd className="flex gap-1">
        {keys.map((key) => (
          <kbd key={key} className="min-w-6 rounded-sm border border-line bg-sunken px-1.5 text-center font-sans text-xs">
            {key}
          </kbd>
        ))}
      </dd>
    </div>
  )
}

export default function ShortcutsDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog open onClose={onClose} title="Keyboard shortcuts" size="md">
      <div className="grid gap-x-8 pb-3 sm:grid-cols-2">
        <dl>
          {GENERAL.map(([keys, text]) => (
            <Row key={text} keys={keys} text={text} />
          ))}
        </dl>
        <dl>
          {PAGES.filter((page) => page.key).map((page) => (
            <Row key={page.to} keys={['g', page.key!]} text={page.label} />
          ))}
        </dl>
        {OF_PAGES.map(([page, rows]) => (
          <section key={page} className="mt-3">
            <h3 className="mb-1 text-xs font-medium text-text-2">{page}</h3>
            <dl>
              {rows.map(([keys, text]) => (
                <Row key={text} keys={keys} text={text} />
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Dialog>
  )
}
