import { expect, it } from 'vitest'
import { connectedProviders, isByDefault, settingsOf } from './providers'

const setting = (variable: string, isSet: boolean) => ({ name: variable, variable, isSet, secret: false, value: null, source: 'default' as const })
const provider = (name: string, configured: boolean, own: string | null) => ({ provider: name, configured, setting: own, probe: { status: 'not_probed' as const, message: null, millis: 0 } })

it('tells a provider that was set from one that is there by default', () => {
  const ollama = provider('ollama', true, 'OLLAMA_HOST')
  expect(isByDefault(ollama, [setting('OLLAMA_HOST', false)])).toBe(true)
  expect(isByDefault(ollama, [setting('OLLAMA_HOST', true)])).toBe(false)
  // Vertex has further settings, and the login of gcloud.
  expect(isByDefault(provider('vertex', true, 'GOOGLE_APPLICATION_CREDENTIALS'), [])).toBe(false)
  expect(settingsOf(ollama, [setting('OLLAMA_HOST', true)])).toEqual(['OLLAMA_HOST'])
  expect(settingsOf(provider('openai', true, 'OPENAI_API_KEY'), [setting('OPENAI_API_KEY', false), setting('EMERGENT_OPENAI_BASE_URL', true)])).toEqual(['EMERGENT_OPENAI_BASE_URL'])
})

it('knows which providers of real models are connected', () => {
  const models = [provider('google', false, 'GEMINI_API_KEY'), provider('openai', true, 'OPENAI_API_KEY'), provider('ollama', true, 'OLLAMA_HOST'), provider('rehearsal', true, null), provider('record', true, 'EMERGENT_RECORDINGS')]
  const settings = [setting('OPENAI_API_KEY', true), setting('OLLAMA_HOST', false), setting('EMERGENT_RECORDINGS', true)]
  expect(connectedProviders({ models, settings, model: null })).toEqual(['openai'])
})
