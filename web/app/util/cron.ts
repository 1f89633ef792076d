const DAYS: Record<string, string> = { '*': 'Every day', 'MON-FRI': 'Every weekday', '1-5': 'Every weekday', MON: 'Every Monday', TUE: 'Every Tuesday', WED: 'Every Wednesday', THU: 'Every Thursday', FRI: 'Every Friday', SAT: 'Every Saturday', SUN: 'Every Sunday' }

/** The usual times of a cron expression in words, such as `Every weekday at 08:00`; any other expression as it is. */
export function describeCron(cron: string): string {
  const [, minute, hour, days] = /^(\d{1,2}) (\d{1,2}) \* \* (\S+)$/.exec(cron.trim()) ?? []
  const day = days && DAYS[days.toUpperCase()]
  return day ? `${day} at ${hour!.padStart(2, '0')}:${minute!.padStart(2, '0')}` : cron
}
