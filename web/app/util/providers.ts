import type { Schemas } from '~/api/types'

type Diagnostics = Pick<Schemas['Diagnostics'], 'models' | 'settings' | 'model'>

/** The settings that make a provider usable besides its own, as `emergent doctor` knows them. */
const OTHERS: Record<string, string[]> = {
  google: ['EMERGENT_GOOGLE_BASE_URL'],
  vertex: ['EMERGENT_VERTEX_BASE_URL'],
  openai: ['EMERGENT_OPENAI_BASE_URL'],
  anthropic: ['EMERGENT_ANTHROPIC_BASE_URL'],
}

/** Those settings of a provider that were set. */
export function settingsOf({ provider, setting }: { provider: string; setting?: string | null }, settings: Diagnostics['settings']): string[] {
  const names = [...(setting ? [setting] : []), ...(OTHERS[provider] ?? [])]
  return names.filter((name) => settings.some((one) => one.variable === name && one.isSet))
}

/** Whether a provider counts as usable only because it needs no setting: nobody knows whether it is there. */
export const isByDefault = (one: { provider: string; setting?: string | null }, settings: Diagnostics['settings']) => one.provider === 'ollama' && settingsOf(one, settings).length === 0

/** Providers of real models that somebody has set up. */
export const connectedProviders = ({ models, settings }: Diagnostics): string[] =>
  models.filter((one) => one.configured && one.setting && !['record', 'replay'].includes(one.provider) && !isByDefault(one, settings)).map((one) => one.provider)
