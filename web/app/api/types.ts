// Short names of the schemas that several files use.
import type { components } from './schema'

export type Schemas = components['schemas']
export type Run = Schemas['Run']
export type RunStatus = Schemas['RunStatus']
export type RunStats = Schemas['RunStats']
export type Session = Schemas['Session']
export type Scope = Schemas['Scope']
export type InboxItem = Schemas['InboxItem']
export type ListedWorkflow = Schemas['ListedWorkflow']
export type WorkflowStatus = Schemas['WorkflowStatus']
export type Budgets = Schemas['Budgets']
export type Project = Schemas['Project']
export type Agent = Schemas['Agent']
export type ProjectEvent = Schemas['ProjectEvent']
