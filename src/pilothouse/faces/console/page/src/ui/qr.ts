/**
 * A text as a QR code (ISO/IEC 18004): bytes, the lowest level of error correction, versions 1 to 10.
 *
 * A link has some 80 bytes; the largest of these codes takes 271.
 */

type Grid = boolean[][];

/** For each version: bytes of error correction in a block, and how many blocks there are. */
const BLOCKS: readonly (readonly [ecc: number, blocks: number])[] = [
  [7, 1],
  [10, 1],
  [15, 1],
  [20, 1],
  [26, 1],
  [18, 2],
  [20, 2],
  [24, 2],
  [30, 2],
  [18, 4],
];
const TOTAL = [26, 44, 70, 100, 134, 172, 196, 242, 292, 346];
const LEVEL = 1;

/** The modules by row and column; true is dark. Throws where the text is too long. */
export function encode(text: string): Grid {
  const bytes = new TextEncoder().encode(text);
  const version = BLOCKS.findIndex((_, at) => bytes.length <= capacity(at + 1)) + 1;
  if (!version) throw new Error("The link is too long for a code. Copy it instead.");
  const { grid, fixed } = frame(version);
  place(grid, fixed, withCorrection(dataOf(bytes, version), version));
  const masked = MASKS.map((_, mask) => finished(grid, fixed, mask));
  return masked.reduce((best, each) => (penalty(each) < penalty(best) ? each : best));
}

function dataBytes(version: number): number {
  const [ecc, blocks] = BLOCKS[version - 1]!;
  return TOTAL[version - 1]! - ecc * blocks;
}

function capacity(version: number): number {
  return dataBytes(version) - (version < 10 ? 2 : 3);
}

/** Mode, length, the bytes, and what fills the rest. */
function dataOf(bytes: Uint8Array, version: number): number[] {
  const bits = [...bitsOf(4, 4), ...bitsOf(bytes.length, version < 10 ? 8 : 16)];
  for (const each of bytes) bits.push(...bitsOf(each, 8));
  const wanted = dataBytes(version);
  bits.push(...bitsOf(0, Math.min(4, wanted * 8 - bits.length)));
  while (bits.length % 8) bits.push(0);
  const data: number[] = [];
  for (let at = 0; at < bits.length; at += 8) data.push(Number.parseInt(bits.slice(at, at + 8).join(""), 2));
  for (let pad = 0xec; data.length < wanted; pad ^= 0xec ^ 0x11) data.push(pad);
  return data;
}

function bitsOf(value: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => (value >> (count - 1 - at)) & 1);
}

// Error correction: Reed and Solomon over the field of 256 elements

function times(a: number, b: number): number {
  let product = 0;
  for (let at = 7; at >= 0; at--) {
    product = (product << 1) ^ ((product >> 7) * 0x11d);
    if ((b >> at) & 1) product ^= a;
  }
  return product;
}

function correction(data: readonly number[], count: number): number[] {
  const divisor = [...Array<number>(count - 1).fill(0), 1];
  for (let step = 0, root = 1; step < count; step++, root = times(root, 2)) {
    for (let at = 0; at < count; at++) divisor[at] = times(divisor[at]!, root) ^ (divisor[at + 1] ?? 0);
  }
  const rest = Array<number>(count).fill(0);
  for (const each of data) {
    const factor = each ^ rest.shift()!;
    rest.push(0);
    for (let at = 0; at < count; at++) rest[at]! ^= times(divisor[at]!, factor);
  }
  return rest;
}

/** The blocks with their corrections, taken in turns. The last blocks may have one byte more. */
function withCorrection(data: readonly number[], version: number): number[] {
  const [ecc, blocks] = BLOCKS[version - 1]!;
  const short = Math.floor(data.length / blocks);
  const longer = data.length % blocks;
  const parts: number[][] = [];
  for (let block = 0, at = 0; block < blocks; block++) {
    const length = short + (block >= blocks - longer ? 1 : 0);
    parts.push(data.slice(at, (at += length)));
  }
  const corrections = parts.map((each) => correction(each, ecc));
  return [...inTurns(parts, short + 1), ...inTurns(corrections, ecc)];
}

function inTurns(parts: readonly number[][], longest: number): number[] {
  return Array.from({ length: longest }, (_, at) => parts.flatMap((each) => each[at] ?? [])).flat();
}

// The modules

/** What is the same in every code of a version, and where that is. */
function frame(version: number): { grid: Grid; fixed: Grid } {
  const size = version * 4 + 17;
  const grid = squareOf(size);
  const fixed = squareOf(size);
  const set = (x: number, y: number, isDark: boolean) => {
    if (x < 0 || y < 0 || x >= size || y >= size) return;
    grid[y]![x] = isDark;
    fixed[y]![x] = true;
  };
  for (let at = 0; at < size; at++) {
    set(6, at, at % 2 === 0);
    set(at, 6, at % 2 === 0);
  }
  const rings = (x: number, y: number, reach: number, isDark: (ring: number) => boolean) => {
    for (let dy = -reach; dy <= reach; dy++)
      for (let dx = -reach; dx <= reach; dx++) set(x + dx, y + dy, isDark(Math.max(Math.abs(dx), Math.abs(dy))));
  };
  for (const [x, y] of [[3, 3], [size - 4, 3], [3, size - 4]] as const) rings(x, y, 4, (ring) => ring !== 2 && ring !== 4);
  const marks = alignments(version, size);
  for (const x of marks)
    for (const y of marks) if (!isCorner(x, y, size)) rings(x, y, 2, (ring) => ring !== 1);
  // The places of the format are nobody else's; what stands there comes with the mask.
  formatPlaces(size).forEach(([x, y]) => set(x, y, false));
  set(8, size - 8, true);
  if (version >= 7) {
    const bits = withRemainder(version, 12, 0x1f25);
    for (let at = 0; at < 18; at++) {
      const [a, b] = [size - 11 + (at % 3), Math.floor(at / 3)];
      set(a, b, ((bits >> at) & 1) === 1);
      set(b, a, ((bits >> at) & 1) === 1);
    }
  }
  return { grid, fixed };
}

function squareOf(size: number): Grid {
  return Array.from({ length: size }, () => Array<boolean>(size).fill(false));
}

function alignments(version: number, size: number): number[] {
  if (version === 1) return [];
  return version < 7 ? [6, size - 7] : [6, (size - 1) / 2, size - 7];
}

function isCorner(x: number, y: number, size: number): boolean {
  const far = size - 7;
  return (x === 6 && y === 6) || (x === 6 && y === far) || (x === far && y === 6);
}

/** Both copies, the lowest bit first. */
function formatPlaces(size: number): [number, number][] {
  const first = [0, 1, 2, 3, 4, 5, 7, 8].map((y): [number, number] => [8, y]);
  const second = [7, 5, 4, 3, 2, 1, 0].map((x): [number, number] => [x, 8]);
  const third = Array.from({ length: 8 }, (_, at): [number, number] => [size - 1 - at, 8]);
  const fourth = Array.from({ length: 7 }, (_, at): [number, number] => [8, size - 7 + at]);
  return [...first, ...second, ...third, ...fourth];
}

function withRemainder(value: number, count: number, divisor: number): number {
  let rest = value;
  for (let at = 0; at < count; at++) rest = (rest << 1) ^ ((rest >> (count - 1)) * divisor);
  return (value << count) | rest;
}

/** Two columns at a time, from the right, up and down in turns. */
function place(grid: Grid, fixed: Grid, bytes: readonly number[]): void {
  const size = grid.length;
  let at = 0;
  for (let right = size - 1; right >= 1; right -= 2) {
    if (right === 6) right = 5;
    for (let step = 0; step < size; step++) {
      const y = ((right + 1) & 2) === 0 ? size - 1 - step : step;
      for (const x of [right, right - 1]) {
        if (fixed[y]![x] || at >= bytes.length * 8) continue;
        grid[y]![x] = ((bytes[at >> 3]! >> (7 - (at & 7))) & 1) === 1;
        at += 1;
      }
    }
  }
}

const MASKS: readonly ((x: number, y: number) => boolean)[] = [
  (x, y) => (x + y) % 2 === 0,
  (_, y) => y % 2 === 0,
  (x) => x % 3 === 0,
  (x, y) => (x + y) % 3 === 0,
  (x, y) => (Math.floor(x / 3) + Math.floor(y / 2)) % 2 === 0,
  (x, y) => ((x * y) % 2) + ((x * y) % 3) === 0,
  (x, y) => (((x * y) % 2) + ((x * y) % 3)) % 2 === 0,
  (x, y) => (((x + y) % 2) + ((x * y) % 3)) % 2 === 0,
];

function finished(grid: Grid, fixed: Grid, mask: number): Grid {
  const made = grid.map((row, y) => row.map((each, x) => (fixed[y]![x] ? each : each !== MASKS[mask]!(x, y))));
  const bits = withRemainder((LEVEL << 3) | mask, 10, 0x537) ^ 0x5412;
  formatPlaces(grid.length).forEach(([x, y], at) => (made[y]![x] = ((bits >> at % 15) & 1) === 1));
  return made;
}

/** How hard it is to read: long runs of one colour, squares of it, what looks like a corner, and more of one colour. */
function penalty(grid: Grid): number {
  const size = grid.length;
  const columns = grid.map((_, x) => grid.map((row) => row[x]!));
  let points = 0;
  for (const line of [...grid, ...columns]) {
    const text = line.map(Number).join("");
    for (const [run] of text.matchAll(/0{5,}|1{5,}/g)) points += run.length - 2;
    points += 40 * [...text.matchAll(/(?=10111010000|00001011101)/g)].length;
  }
  for (let y = 1; y < size; y++)
    for (let x = 1; x < size; x++) {
      const own = grid[y]![x];
      if (own === grid[y - 1]![x] && own === grid[y]![x - 1] && own === grid[y - 1]![x - 1]) points += 3;
    }
  const dark = grid.flat().filter(Boolean).length;
  return points + 10 * Math.floor(Math.abs((dark * 20) / (size * size) - 10));
}
