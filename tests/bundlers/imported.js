// The others import it as a file.
export { default as place } from "qdq/qdq.wasm";
export const workers = false;
