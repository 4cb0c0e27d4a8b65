// What the JavaScript engine can do, found out by a tiny module.

// A module with one function (i32 w, i32 x) -> i32 that multiplies four bytes of w with four of x by
// i32x4.relaxed_dot_i8x16_i7x16_add_s and adds the products.
// biome-ignore format: a line is a section of the module or a step of its function
const relaxedDot = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00,       // "\0asm", version 1
  0x01, 0x07, 0x01, 0x60, 0x02, 0x7f, 0x7f, 0x01, 0x7f, // type: (i32, i32) -> i32
  0x03, 0x02, 0x01, 0x00,                               // one function of that type
  0x07, 0x05, 0x01, 0x01, 0x64, 0x00, 0x00,             // exported as "d"
  0x0a, 0x16, 0x01, 0x14, 0x00,                         // its code, without locals
  0x20, 0x00, 0xfd, 0x11, 0x20, 0x01, 0xfd, 0x11,       // i32x4.splat of w and of x
  0x41, 0x00, 0xfd, 0x11,                               // and of 0, to which the products are added
  0xfd, 0x93, 0x02, 0xfd, 0x1b, 0x00, 0x0b,             // lane 0
]);

// Whether WebAssembly has relaxed SIMD here.
export function hasRelaxedSimd(): boolean {
  return WebAssembly.validate(relaxedDot);
}

// An empty module with a table and a memory of 64-bit addresses.
// biome-ignore format: a line is a section of the module
const wide = new Uint8Array([
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // "\0asm", version 1
  0x04, 0x04, 0x01, 0x70, 0x04, 0x00,             // a table of functions
  0x05, 0x03, 0x01, 0x04, 0x01,                   // a memory of one page
]);

// Whether WebAssembly has memory beyond 4 GB here, and the relaxed SIMD that the modules for it use.
export function hasMemory64(): boolean {
  return WebAssembly.validate(wide) && hasRelaxedSimd();
}

// What 32-bit addresses reach.
export const mostOf32Bits = 2 ** 32;

// Whether its dot product multiplies bytes exactly, those of x taken as unsigned or as signed. On x86 without VNNI it
// adds two products in 16 bits that saturate; then it is no use, and the modules for relaxed SIMD are no faster than
// the others. They probe the instruction themselves, too, before they use it.
export function hasExactByteProducts(): boolean {
  if (!hasRelaxedSimd()) return false;
  const { d } = new WebAssembly.Instance(new WebAssembly.Module(relaxedDot)).exports as {
    d: (w: number, x: number) => number;
  };
  // Four times 127 * x and -128 * x, where x is 255 or -1.
  const sums = [d(0x7f7f7f7f, -1), d(0x80808080, -1)];
  return [255, -1].some((x) => sums[0] === 4 * 127 * x && sums[1] === 4 * -128 * x);
}
