import { Check, Minus, Pencil, Plus } from 'lucide-react'
import type { Schemas } from '~/api/types'
import { Badge } from '~/ui/Badge'
import { Diff } from '~/ui/Diff'
import { WithCode } from '~/ui/WithCode'
import { describeCron } from '~/util/cron'
import { words } from '~/util/format'

type Plan = Schemas['ProductPlan']
type Uses = Schemas['ProductUses']
const DIRECTIONS: Record<string, string> = { install: 'Install', upgrade: 'Upgrade', downgrade: 'Downgrade', same: 'Same version', uninstall: 'Uninstall' }
/** A change as a word and a sign, never as a colour alone. */
const CHANGES = { add: ['Add', Plus, 'text-ok'], update: ['Change', Pencil, 'text-run'], remove: ['Remove', Minus, 'text-fail'], keep: ['Keep', Check, 'text-text-2'] } as const

const EVENTS: Record<string, string> = { on_document_ingested: 'with each document', on_entity_created: 'with each new object', on_entity_updated: 'with each changed object', on_relationship_created: 'with each new relationship' }
const timeOf = (one: Uses['schedules'][number]) => `${describeCron(one.cron)} (${one.timeZone})`

/** What a product uses, in groups; those without entries are left out. */
function groupsOf(uses: Uses | undefined): [string, string[]][] {
  if (!uses) return []
  const groups: [string, string[]][] = [
    ['Programs that this server will run', uses.programs],
    ['Addresses that it will contact', uses.hosts],
    ['Secrets, and who gets them', uses.secrets.map((one) => `${one.name} → ${one.target}`)],
    ['Times at which agents start', uses.schedules.map((one) => `${one.agent}: ${timeOf(one)}`)],
    ['Events at which agents start', uses.events.map((one) => `${one.agent}: ${EVENTS[one.event] ?? one.event}${one.filter ? ` (${one.filter})` : ''}`)],
  ]
  return groups.filter(([, items]) => items.length > 0)
}

function Groups({ groups }: { groups: [string, string[]][] }) {
  return groups.map(([name, items]) => (
    <div key={name} className="mt-2">
      <p className="text-text-2">{name}</p>
      <ul>{items.map((item) => <li key={item} className="font-mono text-xs wrap-anywhere">{item}</li>)}</ul>
    </div>
  ))
}

/** What a change of a product will do to the project, and what it will use. */
export function PlanView({ plan }: { plan: Plan }) {
  const asked = groupsOf(plan.consent?.adds)
  // What was accepted before needs no consent, and neither do the times and events of products that come with the program.
  const others = groupsOf(plan.uses)
    .map(([name, items]): [string, string[]] => [name, items.filter((item) => !asked.find(([other]) => other === name)?.[1].includes(item))])
    .filter(([, items]) => items.length > 0)
  // A schedule names its agent and not its job, so only a single one can be told.
  const jobs = plan.steps.filter((step) => step.what === 'job')
  const time = jobs.length === 1 && plan.uses?.schedules.length === 1 ? plan.uses.schedules[0] : undefined
  return (
    <div className="space-y-4 text-sm">
      <p>
        <strong>{plan.name}</strong> {[plan.from, plan.to].filter(Boolean).join(' → ')} <Badge>{DIRECTIONS[plan.direction] ?? plan.direction}</Badge>
      </p>
      <div>
        <h3 className="mb-1 font-medium">What will be done</h3>
        {plan.steps.length === 0 && <p className="text-text-2">Nothing: the project has all of it already.</p>}
        <ol aria-label="What will be done" className="divide-y divide-line rounded-md border border-line empty:hidden">
          {plan.steps.map((step) => {
            const [verb, Icon, tone] = CHANGES[step.change as keyof typeof CHANGES] ?? CHANGES.keep
            return (
              <li key={`${step.what} ${step.name}`} className="flex gap-2 px-3 py-1.5">
                <Icon aria-hidden size={14} className={`mt-0.5 shrink-0 ${tone}`} />
                <div className="min-w-0 flex-1 break-words">
                  {verb} the {words(step.what)} <span className="font-medium">{step.name}</span>
                  {step.what === 'job' && step.change !== 'remove' && time && <span className="text-text-2"> ({timeOf(time)}, starts {time.agent})</span>}
                  {step.fields.length > 0 && (
                    <details className="mt-1">
                      <summary className="cursor-pointer text-text-2">What changes: {step.fields.map((field) => field.pointer.slice(1)).join(', ')}</summary>
                      {step.fields.map(({ pointer, before, after }) => <div key={pointer} className="mt-2"><p className="text-xs text-text-2">{pointer.slice(1)}</p><Diff before={before ?? ''} after={after ?? ''} label={`Changes of ${pointer.slice(1)} of ${step.name}`} /></div>)}
                    </details>
                  )}
                </div>
              </li>
            )
          })}
        </ol>
      </div>
      {asked.length > 0 && (
        <div className="rounded-md bg-warn-soft px-3 py-2">
          <h3 className="font-medium text-warn">What it will use, if you accept</h3>
          <Groups groups={asked} />
        </div>
      )}
      {others.length > 0 && (
        <div>
          <h3 className="font-medium">{asked.length > 0 ? 'What it also uses' : 'What it uses'}</h3>
          <Groups groups={others} />
        </div>
      )}
      {plan.warnings.length > 0 && (
        <div>
          <h3 className="mb-1 font-medium">What you should know</h3>
          <ul className="list-disc space-y-1 pl-5 text-text-2">{plan.warnings.map((one) => <li key={one.kind + one.about} className="break-words"><WithCode text={one.message} /></li>)}</ul>
        </div>
      )}
    </div>
  )
}
