import { expect, it } from 'vitest'
import { describeCron } from './cron'

it('says usual times in words, and leaves others as they are', () => {
  expect(describeCron('0 8 * * MON-FRI')).toBe('Every weekday at 08:00')
  expect(describeCron('30 17 * * *')).toBe('Every day at 17:30')
  expect(describeCron('5 0 * * sun')).toBe('Every Sunday at 00:05')
  for (const other of ['*/5 * * * *', '0 8 1 * *', '0 8 * * MON,THU', '0 8,12 * * *', 'constructor']) expect(describeCron(other)).toBe(other)
})
