// Programs from files and into files.
import { handleOf, loadModule, module, unwrap, whole } from "./module.js";
import { Program, bytesOf } from "./program.js";

// Reads a program that torch.export.save wrote, or an ONNX model: the bytes tell which. The first call brings the WASM
// module.
export async function loadPt2(bytes: Uint8Array | ArrayBuffer): Promise<Program> {
  return load(bytesOf(bytes, "loadPt2"));
}

// The same under the name that fits an ONNX file, of any opset. `files` holds what the model keeps beside itself,
// by the names that it gives: { "model.onnx.data": bytes }.
export async function loadOnnx(
  bytes: Uint8Array | ArrayBuffer,
  files?: Record<string, Uint8Array | ArrayBuffer>,
): Promise<Program> {
  return load(
    bytesOf(bytes, "loadOnnx"),
    files && Object.fromEntries(Object.entries(files).map(([name, data]) => [name, bytesOf(data, "loadOnnx")])),
  );
}

async function load(bytes: Uint8Array, files?: Record<string, Uint8Array>): Promise<Program> {
  return new Program(unwrap((await loadModule()).loadProgram(bytes, files)), whole);
}

// The bytes of a file that torch.export.load reads.
export function savePt2(program: Program): Uint8Array {
  return unwrap(module().savePt2(handleOf(program)));
}

// The bytes of an ONNX model of opset 17, or of another up to 21: of a quantized program a QDQ model that ONNX Runtime
// runs. Throws QdqError{Unsupported} that lists what ONNX cannot say.
export function saveOnnx(program: Program, { opset = 17 }: { opset?: number } = {}): Uint8Array {
  return unwrap(module().saveOnnx(handleOf(program), opset));
}
