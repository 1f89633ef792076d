// Adds the programs of other platforms to package-lock.json. npm leaves those out that its registry does not offer, and
// `npm ci` then refuses the file. Run it after `npm install`.
import { readFileSync, writeFileSync } from 'node:fs'

const file = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(file, 'utf8'))
const SYSTEMS = ['android', 'darwin', 'freebsd', 'linux', 'win32', 'openharmony']
const PROCESSORS = ['arm64', 'x64', 'arm', 'ia32', 'ppc64', 's390x', 'riscv64', 'loong64', 'wasm32']

for (const { optionalDependencies = {} } of Object.values(lock.packages)) {
  for (const [name, version] of Object.entries(optionalDependencies)) {
    if (Object.keys(lock.packages).some((path) => path.endsWith(`node_modules/${name}`))) continue
    const parts = name.split('/').at(-1).split('-')
    const cpu = parts.filter((part) => PROCESSORS.includes(part)).slice(0, 1)
    const os = parts.filter((part) => SYSTEMS.includes(part)).slice(0, 1)
    const libc = os[0] !== 'linux' ? [] : parts.some((part) => part.startsWith('musl')) ? ['musl'] : parts.some((part) => part.startsWith('gnu')) ? ['glibc'] : []
    lock.packages[`node_modules/${name}`] = {
      version: version.replace(/^[~^]/, ''),
      ...(cpu.length > 0 && { cpu }),
      dev: true,
      ...(libc.length > 0 && { libc }),
      optional: true,
      ...(os.length > 0 && { os }),
    }
  }
}
const [first, ...rest] = Object.entries(lock.packages)
lock.packages = Object.fromEntries([first, ...rest.sort(([a], [b]) => (a < b ? -1 : 1))])
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`)
