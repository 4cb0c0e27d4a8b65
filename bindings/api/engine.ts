// What the JavaScript engine can do, found out by asking it to accept a tiny module.

// A module with one function that multiplies by i32x4.relaxed_dot_i8x16_i7x16_add_s.
// biome-ignore format: a line is a section of the module
const relaxedDot = [
  0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00, // "\0asm", version 1
  0x01, 0x05, 0x01, 0x60, 0x00, 0x01, 0x7b,       // type: () -> v128
  0x03, 0x02, 0x01, 0x00,                         // one function of that type
  0x0a, 0x0f, 0x01, 0x0d, 0x01, 0x01, 0x7b,       // its code: one local of v128
  0x20, 0x00, 0x20, 0x00, 0x20, 0x00, 0xfd, 0x93, 0x02, 0x0b,
];

// Whether WebAssembly has relaxed SIMD here. Which products its dot gives differs between engines; the module probes
// that itself.
export function hasRelaxedSimd(): boolean {
  return WebAssembly.validate(new Uint8Array(relaxedDot));
}
