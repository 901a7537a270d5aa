/** Addresses that only the machine itself reaches. */

const LOOPBACK = /^(localhost|127\.|\[::1\])/;

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}
