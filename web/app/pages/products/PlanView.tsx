import type { Schemas } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { words } from '~/util/format'

type Plan = Schemas['ProductPlan']
const DIRECTIONS: Record<string, string> = { install: 'Install', upgrade: 'Upgrade', downgrade: 'Downgrade', same: 'Same version', uninstall: 'Uninstall' }
const TONES = { add: 'ok', update: 'run', remove: 'fail' } as const

/** What a change of a product will do to the project, and what it will use. */
export function PlanView({ plan }: { plan: Plan }) {
  const added = plan.consent?.adds
  const uses: [string, string[]][] = added
    ? [
        ['Programs that this server will run', added.programs],
        ['Addresses that it will contact', added.hosts],
        ['Secrets, and who gets them', added.secrets.map((one) => `${one.name} → ${one.target}`)],
        ['Times at which agents start', added.schedules.map((one) => `${one.agent}: ${one.cron} (${one.timeZone})`)],
        ['Events at which agents start', added.events.map((one) => `${one.agent}: ${one.event}`)],
      ]
    : []
  return (
    <div className="space-y-4 text-sm">
      <p>
        <strong>{plan.name}</strong> {[plan.from, plan.to].filter(Boolean).join(' → ')} <Badge>{DIRECTIONS[plan.direction] ?? plan.direction}</Badge>
      </p>
      <div>
        <h3 className="mb-1 font-medium">What will be done</h3>
        {plan.steps.length === 0 && <p className="text-text-2">Nothing: the project has all of it already.</p>}
        <ul className="space-y-1">
          {plan.steps.map((step) => (
            <li key={`${step.what} ${step.name}`} className="break-words">
              <Badge tone={TONES[step.change as keyof typeof TONES] ?? 'idle'}>{step.change}</Badge> {words(step.what)} <span className="font-medium">{step.name}</span>
              {step.fields.length > 0 && <span className="text-text-2"> ({step.fields.map((field) => field.pointer).join(', ')})</span>}
            </li>
          ))}
        </ul>
      </div>
      {uses.some(([, items]) => items.length > 0) && (
        <div className="rounded-md bg-wait-soft px-3 py-2">
          <h3 className="font-medium text-wait">What it will use, if you accept</h3>
          {uses.filter(([, items]) => items.length > 0).map(([name, items]) => (
            <div key={name} className="mt-2">
              <p className="text-text-2">{name}</p>
              <ul>{items.map((item) => <li key={item} className="font-mono text-xs break-all">{item}</li>)}</ul>
            </div>
          ))}
        </div>
      )}
      {plan.warnings.length > 0 && (
        <div>
          <h3 className="mb-1 font-medium">What you should know</h3>
          <ul className="list-disc space-y-1 pl-5 text-text-2">{plan.warnings.map((one) => <li key={one.kind + one.about} className="break-words">{one.message}</li>)}</ul>
        </div>
      )}
    </div>
  )
}
